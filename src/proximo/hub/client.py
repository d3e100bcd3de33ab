"""The hub's own client, its errors in one line, and uploading. Credentials are that client's, and stay there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proximo.errors import MissingExtraError, ProximoError
from proximo.files.plain_text import printable
from proximo.version import __version__

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")


class HubError(ProximoError, RuntimeError):
    """The hub, or a repository on it, did not give or take what was asked."""


def hub_client() -> HfApi:
    """The client of ``huggingface_hub``, with the token that ``hf auth login`` or ``HF_TOKEN`` gave it."""
    return require_hub().HfApi(library_name="proximo", library_version=__version__)


def require_hub() -> Any:
    """The package ``huggingface_hub``, or the error that names the install command."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingExtraError("huggingface_hub", "hub", "the Hugging Face hub") from error
    return huggingface_hub


def check_repository(repository: str) -> None:
    if not _REPOSITORY.fullmatch(repository):
        raise ValueError(f"{repository!r} names no repository; expected USER/NAME, such as ada/ppo-CartPole-v1")


@contextmanager
def saying_what_failed(repository: str, doing: str) -> Iterator[None]:
    """Turn errors of the client and of the network into one line."""
    require_hub()
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # the one that the client uses

    try:
        yield
    except RepositoryNotFoundError as error:
        raise HubError(
            f"{doing} {repository} failed: the hub knows no such repository, or it is private; see its name, and log "
            "in with `hf auth login`"
        ) from error
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else None
        advice = "; log in with `hf auth login`, with a token that may write" if status in (401, 403) else ""
        raise HubError(f"{doing} {repository} failed: {printable(str(error), 300)}{advice}") from error
    except (httpx.HTTPError, ConnectionError, LocalEntryNotFoundError) as error:
        raise HubError(f"{doing} {repository} failed: the hub cannot be reached ({printable(str(error))})") from error


def push(folder: Path, repository: str, *, message: str, private: bool = False) -> str:
    """Upload the files of ``folder`` as one commit, into a new repository if there is none; returns its address."""
    check_repository(repository)
    client = hub_client()
    from huggingface_hub import CommitOperationAdd

    files = sorted(path for path in folder.iterdir() if path.is_file())
    operations = [CommitOperationAdd(path_in_repo=path.name, path_or_fileobj=str(path)) for path in files]
    with saying_what_failed(repository, "uploading to"):
        address = client.create_repo(repository, private=private or None, exist_ok=True)
        client.create_commit(repository, operations, commit_message=message)
    return str(address)
