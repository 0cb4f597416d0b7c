"""Paths into datasets, after pathlib's."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Optional, cast

from muster.data.address import Address
from muster.data.filesystem import MusterFileSystem
from muster.data.transport import Entry


@dataclass(frozen=True)
class Stat:
    """What is known of a file or folder."""

    #: Bytes of a file; 0 of a folder.
    size: int
    #: Whether it is a file.
    file: bool
    #: A hash of the contents, where the way to the data tells it.
    hash: Optional[str]


class Path:
    """A dataset's version, or a file or folder in it.

    >>> Path("digits@v1", "train") / "0.png"
    Path('muster://digits@v1/train/0.png')

    Options are those of :class:`MusterFileSystem`: endpoint, key, secret, program.
    Paths are equal if they name the same thing, by whatever way.
    """

    __slots__ = ("_address", "_options")

    def __init__(self, dataset: str, *parts: str, **options: Any) -> None:
        address = Address.parse(dataset)
        if not address.dataset:
            raise ValueError("name a dataset: muster://DATASET[@VERSION]/PATH")
        joined = posixpath.join(address.path, *(part.strip("/") for part in parts))
        self._address, self._options = address.at(joined), options

    def _of(self, address: Address) -> Path:
        return Path(str(address), **self._options)

    @property
    def fs(self) -> MusterFileSystem:
        """The filesystem behind it; there is one for each set of options."""
        return MusterFileSystem(**self._options)

    def __truediv__(self, part: str) -> Path:
        return self._of(self._address.at(posixpath.join(self._address.path, part.strip("/"))))

    def __str__(self) -> str:
        return str(self._address)

    def __repr__(self) -> str:
        return f"Path({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and self._address == other._address

    def __lt__(self, other: Path) -> bool:
        return str(self) < str(other)

    def __hash__(self) -> int:
        return hash(self._address)

    @property
    def dataset(self) -> str:
        """The name of the dataset."""
        return self._address.dataset

    @property
    def version(self) -> str:
        """The branch, tag or commit."""
        return self._address.version

    @property
    def path(self) -> str:
        """The path in the version; empty for its root."""
        return self._address.path

    @property
    def parts(self) -> tuple[str, ...]:
        """The names in the path."""
        return tuple(self.path.split("/")) if self.path else ()

    @property
    def name(self) -> str:
        """The last name in the path."""
        return posixpath.basename(self.path)

    @property
    def suffix(self) -> str:
        """The end of the name from its last dot on: ".png"."""
        return posixpath.splitext(self.name)[1]

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return posixpath.splitext(self.name)[0]

    @property
    def parent(self) -> Path:
        """The folder it is in; the root is its own."""
        return self._of(self._address.at(posixpath.dirname(self.path)))

    def at(self, version: str) -> Path:
        """The same path in another version."""
        return self._of(Address.parse(f"{self.dataset}@{version}").at(self.path))

    def stat(self) -> Stat:
        """What it is. Raises FileNotFoundError."""
        entry = self._entry()
        return Stat(entry.size, entry.file, entry.hash)

    def exists(self) -> bool:
        """Whether it is there."""
        return self._found() is not None

    def is_file(self) -> bool:
        """Whether it is there and a file."""
        found = self._found()
        return found is not None and found.file

    def is_dir(self) -> bool:
        """Whether it is there and a folder, or a version."""
        found = self._found()
        return found is not None and not found.file

    def iterdir(self) -> Iterator[Path]:
        """What is in the folder, by name."""
        if self._entry().file:
            raise NotADirectoryError(f"{self}: is a file")
        for found in sorted(self.fs.transport.entries(self._address, recursive=False), key=lambda one: one.address.path):
            yield self._of(found.address)

    def glob(self, pattern: str) -> Iterator[Path]:
        """The files and folders below it that a pattern matches: ``*``, ``?``, ``[...]`` within a name, ``**`` for any number of folders.

        Files alone where ``**`` is in the pattern. In the order of their paths.
        """
        parts = [part for part in pattern.split("/") if part]
        if not parts or ".." in parts:
            raise ValueError(f"{pattern!r}: give a pattern below {self}, such as '*.png' or '**/*.csv'")
        if "**" in parts:
            match = re.compile(_translate(parts))
            start = len(self.path) + 1 if self.path else 0
            below = self.fs.transport.entries(self._address, recursive=True)
            yield from sorted(self._of(one.address) for one in below if match.fullmatch(one.address.path[start:]))
            return
        found = [self]
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            found = [one for folder in found for one in folder._children(part, last)]
        yield from sorted(found)

    def _children(self, part: str, last: bool) -> Iterator[Path]:
        for one in self.fs.transport.entries(self._address, recursive=False):
            if (last or not one.file) and re.fullmatch(_name(part), posixpath.basename(one.address.path)):
                yield self._of(one.address)

    def open(self, mode: str = "r", encoding: Optional[str] = None, **options: Any) -> IO[Any]:
        """Open it as the built-in open does: r, w, x, with b for bytes. Text is UTF-8 unless another encoding is named."""
        if "b" not in mode:
            options["encoding"] = encoding or "utf-8"
        return cast(IO[Any], self.fs.open(str(self), mode, **options))

    def read_bytes(self) -> bytes:
        """The contents of a file."""
        if not self._entry().file:
            raise IsADirectoryError(f"{self}: is a folder")
        return self.fs.cat_file(str(self))

    def read_text(self, encoding: str = "utf-8") -> str:
        """The contents of a file, as text."""
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> int:
        """Write a file as one commit on the branch; how many bytes it has."""
        self.fs.pipe_file(str(self), data)
        return len(data)

    def write_text(self, text: str, encoding: str = "utf-8") -> int:
        """Write text as a file; how many bytes it has."""
        return self.write_bytes(text.encode(encoding))

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove a file, as one commit on the branch; older versions keep it."""
        try:
            self.fs.rm_file(str(self))
        except FileNotFoundError:
            if not missing_ok:
                raise

    def _entry(self) -> Entry:
        return self.fs.transport.entry(self._address)

    def _found(self) -> Optional[Entry]:
        try:
            return self._entry()
        except FileNotFoundError:
            return None


def open(address: str, mode: str = "r", encoding: Optional[str] = None, **options: Any) -> IO[Any]:
    """Open a file by its address, as the built-in open does.

    Options are those of :class:`MusterFileSystem`.
    """
    return Path(address, **options).open(mode, encoding)


def _translate(parts: list[str]) -> str:
    """A pattern of names as a regular expression of paths."""
    out = ""
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            out += ".*" if last else "(?:[^/]+/)*"
        else:
            out += _name(part) + ("" if last else "/")
    return out


def _name(pattern: str) -> str:
    """A pattern of one name as a regular expression."""
    out, at = "", 0
    while at < len(pattern):
        letter = pattern[at]
        end = pattern.find("]", at + 2) if letter == "[" else -1
        if end > 0:
            inside = pattern[at + 1 : end].replace("\\", r"\\")
            out += "[" + ("^/" + inside[1:] if inside[0] == "!" else inside.replace("^", r"\^")) + "]"
            at = end
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(letter, re.escape(letter))
        at += 1
    return out
