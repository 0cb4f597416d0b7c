"""How data is named."""

from __future__ import annotations

import re
from dataclasses import dataclass

SCHEME = "muster://"

#: The version that is meant where none is named.
DEFAULT_VERSION = "main"

_DATASET = re.compile(r"[a-z0-9][-a-z0-9]{1,61}[a-z0-9]")
_VERSION = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?(~[0-9]*)?")


@dataclass(frozen=True)
class Address:
    """What an address names: all datasets, a version, or a file or folder in one.

    ``dataset`` is empty for the list of all datasets, ``path`` for the root of a
    version.
    """

    dataset: str = ""
    version: str = DEFAULT_VERSION
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``[muster://]DATASET[@VERSION][/PATH]``.

        Raises ValueError for what cannot be an address.
        """
        rest = text[len(SCHEME) :] if text.startswith(SCHEME) else text
        place, _, path = rest.strip("/").partition("/")
        if not place:
            return cls()
        dataset, named, version = place.partition("@")
        if not _DATASET.fullmatch(dataset):
            raise ValueError(
                f"{text!r}: {dataset!r} is not the name of a dataset, which has 3 to 63 lower-case letters, digits and '-': "
                f"give muster://DATASET[@VERSION]/PATH"
            )
        if named and not _VERSION.fullmatch(version):
            raise ValueError(f"{text!r}: {version!r} is not the name of a branch, a tag or a commit")
        return cls(dataset, version if named else DEFAULT_VERSION, _check(text, path))

    def __str__(self) -> str:
        """The address, without the version if that is the default."""
        if not self.dataset:
            return SCHEME
        version = "" if self.version == DEFAULT_VERSION else "@" + self.version
        path = "/" + self.path if self.path else ""
        return f"{SCHEME}{self.dataset}{version}{path}"

    @property
    def key(self) -> str:
        """The address as fsspec has it: without the scheme."""
        return str(self)[len(SCHEME) :]

    def at(self, path: str) -> Address:
        """Another path of the same version."""
        return Address(self.dataset, self.version, _check(path, path.strip("/")))


def _check(text: str, path: str) -> str:
    """Refuse paths that no dataset has."""
    for part in path.split("/") if path else ():
        if part in ("", ".", "..") or "\0" in part:
            raise ValueError(f"{text!r}: a path has no empty parts, no '.', no '..' and no NUL")
    return path
