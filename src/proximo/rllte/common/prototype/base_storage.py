"""rllte's module path of BaseStorage."""

from proximo.rllte.xploit.storage.base import BaseStorage as BaseStorage
