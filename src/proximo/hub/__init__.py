"""Models on the Hugging Face hub: what a repository holds, uploading it, and taking one as data from a stranger."""

from proximo.hub.client import HubError, push
from proximo.hub.pulling import pull

__all__ = ["HubError", "pull", "push"]
