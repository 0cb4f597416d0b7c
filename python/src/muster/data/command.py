"""The way by the command `muster data`, where there is no gateway."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import IO, Any, Optional

from muster.data.address import Address
from muster.data.transport import DataError, Entry

_MISSING = 3  # the exit code for what is not there


class Command:
    """Reaches data by running a muster program on this machine."""

    def __init__(self, program: str = "muster") -> None:
        self.program = program

    def entry(self, address: Address) -> Entry:
        if not address.dataset:
            return Entry(address, file=False)
        found = self._list(address)
        if len(found) == 1 and found[0].file and found[0].address.path == address.path:
            return found[0]
        return Entry(address, file=False)

    def entries(self, address: Address, recursive: bool) -> Iterator[Entry]:
        if not address.dataset:
            for one in self._json("ls"):
                yield Entry(Address(one["name"]), file=False)
            return
        for found in self._list(address, *(["-r"] if recursive else [])):
            # The name of a file lists that file, which is in no folder of this name.
            if (found.file or not recursive) and found.address.path != address.path:
                yield found

    def read(self, address: Address, start: int, end: Optional[int]) -> bytes:
        # There is no way to ask for a part: what comes before is read and left.
        data: bytes = self._run(address, "cat", _name(address))[start:end]
        return data

    def write(self, address: Address, source: IO[bytes], size: int) -> None:
        self._run(address, "put", "-", _name(address), "-o", "json", stdin=source)

    def remove(self, address: Address) -> None:
        self._run(address, "rm", _name(address), "--yes")

    def _list(self, address: Address, *flags: str) -> list[Entry]:
        out = []
        for one in self._json("ls", _name(address), *flags, address=address):
            out.append(Entry(address.at(one["path"]), one["kind"] != "folder", int(one.get("bytes", 0)), None))
        return out

    def _json(self, verb: str, *args: str, address: Address = Address()) -> Any:
        return json.loads(self._run(address, verb, *args, "-o", "json"))

    def _run(self, address: Address, *args: str, stdin: Optional[IO[bytes]] = None) -> bytes:
        program = shutil.which(self.program)
        if program is None:
            raise DataError(
                f"{address}: there is no program {self.program} here, and no S3 gateway is named: set MUSTER_S3_ENDPOINT "
                f"(`muster status` shows the address, `muster data key create` makes a key), or MUSTER to the program"
            )
        done = subprocess.run(
            [program, "data", *args], stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False
        )
        if done.returncode == 0:
            return done.stdout
        text = done.stderr.decode(errors="replace").strip().removeprefix("error: ")
        if done.returncode == _MISSING:
            raise FileNotFoundError(f"{address}: {text}")
        raise DataError(f"{address}: {text or 'muster data ended with code ' + str(done.returncode)}")


def _name(address: Address) -> str:
    """The address as the command has it, with what would be a pattern's taken as it is."""
    path = re.sub(r"([*?\[\]\\])", r"\\\1", address.path)
    return f"{address.dataset}@{address.version}" + (":/" + path if path else "")
