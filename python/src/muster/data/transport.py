"""What every way to the data can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Optional, Protocol

from muster.data.address import Address


class DataError(OSError):
    """The data could not be reached, or the store refused: the text says why."""


@dataclass(frozen=True)
class Entry:
    """A dataset, a folder or a file."""

    #: Where it is.
    address: Address
    #: Whether it is a file; else it is a folder or a dataset.
    file: bool
    #: Bytes of a file; 0 of a folder.
    size: int = 0
    #: A hash of a file's contents, where the way to the data tells it.
    hash: Optional[str] = None


class Transport(Protocol):
    """A way to the data. Its methods may be called by several threads at once.

    FileNotFoundError is raised for what is not there, PermissionError for what the
    caller may not do, :class:`DataError` for everything else.
    """

    def entry(self, address: Address) -> Entry:
        """What an address names."""

    def entries(self, address: Address, recursive: bool) -> Iterator[Entry]:
        """What is in a folder, or the files at any depth below it; the datasets, for the address of none."""

    def read(self, address: Address, start: int, end: Optional[int]) -> bytes:
        """The bytes of a file from start, to before end or to its end."""

    def write(self, address: Address, source: IO[bytes], size: int) -> None:
        """Make a file of that many bytes, as one commit, which is durable on return."""

    def remove(self, address: Address) -> None:
        """Remove a file, as one commit."""
