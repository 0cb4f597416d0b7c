"""The fsspec filesystem behind muster:// addresses."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Iterable
from typing import Any, Optional, Union

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from muster.data.address import SCHEME, Address
from muster.data.command import Command
from muster.data.s3 import Gateway
from muster.data.transport import Entry, Transport

# What is written is kept in memory up to this, beyond it in a temporary file.
_IN_MEMORY = 16 << 20

_ENDPOINTS = ("MUSTER_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def connect(
    endpoint: Optional[str] = None, key: Optional[str] = None, secret: Optional[str] = None, program: Optional[str] = None
) -> Transport:
    """The way to the data that the arguments, or else the environment, name.

    endpoint: address of the S3 gateway. Default: the first of MUSTER_S3_ENDPOINT,
    AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL that is set; if none is, the command is
    used. key, secret: an access key. Default: what botocore finds. program: the
    command; naming it keeps the gateway from being used. Default: $MUSTER, or muster.
    """
    if endpoint and program:
        raise ValueError("give one of endpoint, for the S3 gateway, and program, for the command")
    if not endpoint and not program:
        endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), None)
    if endpoint:
        return Gateway(endpoint, key, secret)
    return Command(program or os.environ.get("MUSTER") or "muster")


class MusterFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Datasets as a filesystem: muster://DATASET[@VERSION]/PATH.

    The arguments are those of :func:`connect`; pandas and others hand them over as
    ``storage_options``. Folders are there with their first file, so making one does
    nothing. A file that is written is one commit on its branch once it is closed; if
    an exception ends the ``with`` before that, nothing is written. Appending to a
    file is not possible. Listings are not kept: a branch may have moved.
    """

    protocol = "muster"
    root_marker = ""

    def __init__(
        self,
        endpoint: Optional[str] = None,
        key: Optional[str] = None,
        secret: Optional[str] = None,
        program: Optional[str] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.transport = connect(endpoint, key, secret, program)

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """What a path is: name, size in bytes, type, and hash where it is known."""
        return _described(self.transport.entry(Address.parse(path)))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """What is in a folder, a version or, for "", which datasets there are; a file lists itself."""
        address = Address.parse(path)
        found = list(self.transport.entries(address, recursive=False))
        if not found:
            found = [one for one in [self.transport.entry(address)] if one.file]
        return _listed(found, detail)

    def find(
        self, path: str, maxdepth: Optional[int] = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Union[list[str], dict[str, dict[str, Any]]]:
        """All files below a path, listed at once where nothing else is asked for."""
        address = Address.parse(path)
        if maxdepth is not None or withdirs or not address.dataset:
            out: Union[list[str], dict[str, dict[str, Any]]] = super().find(
                path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs
            )
            return out
        found = [_described(one) for one in self.transport.entries(address, recursive=True)]
        if not found and self.exists(path) and self.isfile(path):
            found = [self.info(path)]
        found.sort(key=lambda one: str(one["name"]))
        return {one["name"]: one for one in found} if detail else [one["name"] for one in found]

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **kwargs: Any) -> bytes:
        """The contents of a file, or the bytes from start to before end; below 0 they count from its end."""
        address = Address.parse(path)
        if (start or 0) < 0 or (end or 0) < 0:
            size = self.transport.entry(address).size
            start, end = (max(0, size + at) if at is not None and at < 0 else at for at in (start, end))
        return self.transport.read(address, start or 0, end)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        """Write a file as one commit."""
        with self.open(path, "xb" if mode == "create" else "wb") as out:
            out.write(value)

    def rm_file(self, path: str) -> None:
        """Remove a file, as one commit on its branch."""
        address = _file(path)
        if not self.transport.entry(address).file:
            raise IsADirectoryError(f"{address}: is a folder")
        self.transport.remove(address)

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def rm(self, path: Union[str, Iterable[str]], recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        """Remove files; with recursive, folders, by all files in them."""
        for one in [path] if isinstance(path, str) else path:
            if recursive and not self.isfile(one):
                for name in self.find(one, maxdepth=maxdepth):
                    self.rm_file(name)
            else:
                self.rm_file(one)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copy a file; what is equal is stored once."""
        with self.open(path1, "rb") as source, self.open(path2, "wb") as out:
            while block := source.read(1 << 20):
                out.write(block)

    def checksum(self, path: str) -> str:
        """A text that is another one once the contents are."""
        one = self.info(path)
        return str(one.get("hash") or hashlib.sha256(self.cat_file(path)).hexdigest())

    def open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        """Open a file; see fsspec's documentation for block_size, cache_options, compression, encoding, errors and newline."""
        if "b" in mode or "r" in mode:
            return super().open(path, mode, **kwargs)
        text = {name: kwargs.pop(name) for name in ("encoding", "errors", "newline") if name in kwargs}
        return _Text(super().open(path, mode.replace("t", "") + "b", **kwargs), **text)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Optional[int] = None,
        autocommit: bool = True,
        cache_options: Optional[dict[str, Any]] = None,
        **kwargs: Any,
    ) -> Any:
        address = _file(path)
        if mode in ("wb", "xb"):
            if mode == "xb" and self.exists(path):
                raise FileExistsError(f"{address}: is there already")
            return _Writer(self.transport, address, autocommit)
        if mode != "rb":
            raise ValueError(f"{address}: mode {mode!r}: give rb, wb or xb; files are written whole, so nothing is appended")
        return _Reader(self, path, mode, block_size or "default", cache_options=cache_options, **kwargs)


class _Reader(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """A file that is read in blocks, as they are wanted."""

    def __init__(self, fs: MusterFileSystem, path: str, *args: Any, **kwargs: Any) -> None:
        info = fs.info(path)
        if info["type"] != "file":
            raise IsADirectoryError(f"{SCHEME}{info['name']}: is a folder")
        kwargs.setdefault("size", info["size"])
        super().__init__(fs, path, *args, **kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.fs.transport.read(Address.parse(self.path), start, end)
        return data


class _Writer(io.BufferedIOBase):
    """A file that is committed when it is closed, and not if an exception left its ``with``."""

    def __init__(self, transport: Transport, address: Address, autocommit: bool) -> None:
        super().__init__()
        self._transport, self._address, self._autocommit = transport, address, autocommit
        self._kept = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)
        self._failed = False
        self.path, self.mode = address.key, "wb"

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._kept.write(view)
        return len(view)

    def tell(self) -> int:
        return self._kept.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._kept.seek(offset, whence)
        return self._kept.tell()

    def close(self) -> None:
        """Commit what was written, unless it failed or a transaction is to do that."""
        if self.closed:
            return
        super().close()
        if self._failed:
            self.discard()
        elif self._autocommit:
            self.commit()

    def commit(self) -> None:
        """Make the commit; fsspec's transactions call it at their end."""
        with self._kept as kept:
            size = kept.seek(0, os.SEEK_END) or kept.tell()
            kept.seek(0)
            self._transport.write(self._address, kept, size)

    def discard(self) -> None:
        """Forget what was written."""
        self._kept.close()

    def fail(self) -> None:
        """Have close forget what was written."""
        self._failed = True

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self._failed = self._failed or kind is not None
        self.close()


class _Text(io.TextIOWrapper):
    """Text on its way into a file, which is not committed if an exception left its ``with``."""

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is not None and isinstance(self.buffer, _Writer):
            self.buffer.fail()
        self.close()


def _file(path: str) -> Address:
    address = Address.parse(path)
    if not address.path:
        raise IsADirectoryError(f"{address}: names no file: give muster://DATASET[@VERSION]/PATH")
    return address


def _described(entry: Entry) -> dict[str, Any]:
    out: dict[str, Any] = {"name": entry.address.key, "size": entry.size, "type": "file" if entry.file else "directory"}
    if entry.hash:
        out["hash"] = entry.hash
    return out


def _listed(entries: list[Entry], detail: bool) -> list[Any]:
    found = sorted((_described(one) for one in entries), key=lambda one: str(one["name"]))
    return found if detail else [one["name"] for one in found]
