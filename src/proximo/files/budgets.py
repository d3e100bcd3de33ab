"""What reading one file may cost, in one object that every reader of the file draws from."""

from __future__ import annotations

from dataclasses import dataclass

from proximo.errors import ModelFileError

MIB = 2**20
TIMES_THE_FILE = 4  # memory that reading may make per byte of the file, beside what is granted to every file


@dataclass
class Budgets:
    """The most that one file may ask for; checked while writing too, so that what was saved can be loaded.

    The first five are limits. ``made_bytes`` and ``operations`` are spent: by all members, pickles and translations of
    a file together, so each file that is read gets an object of its own.
    """

    total_bytes: int = 4096 * MIB
    json_bytes: int = 4 * MIB  # of the manifest, and of the header of each tensor group
    json_depth: int = 32
    json_items: int = MIB  # entries of lists and dictionaries: the shortest take two characters, but 60 bytes parsed
    members: int = 64
    made_bytes: int = 128 * MIB
    operations: int = MIB // 2  # of pickles: each may make an object of a few hundred bytes

    def grant(self, file_bytes: int) -> None:
        """Allow for what a file of this length may well make."""
        self.made_bytes += TIMES_THE_FILE * file_bytes

    def make(self, count: int) -> None:
        """Spend bytes of memory, before they are taken."""
        self.made_bytes -= count
        if self.made_bytes < 0:
            raise ModelFileError("it asks for more memory than a file of its length may ask for")

    def work(self, count: int = 1) -> None:
        """Spend steps of reading, before they are made."""
        self.operations -= count
        if self.operations < 0:
            raise ModelFileError("it takes more operations to read than any model needs")
