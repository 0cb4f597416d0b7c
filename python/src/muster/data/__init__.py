"""Versioned data of Muster: paths, file objects and an fsspec filesystem.

An address is ``muster://DATASET[@VERSION]/PATH``. The version is a branch, a tag
or a commit; without one, the branch ``main``. Tags and commits are read; branches
are written as well, and each file that is closed after writing is one durable
commit.

>>> from muster.data import Path
>>> Path("digits@v1", "labels.csv").read_text()          # doctest: +SKIP

``pandas.read_parquet("muster://digits@v1/train.parquet")`` needs no import.
"""

from muster.data.address import DEFAULT_VERSION, Address
from muster.data.filesystem import MusterFileSystem
from muster.data.path import Path, open
from muster.data.transport import DataError, Entry

__all__ = ["DEFAULT_VERSION", "Address", "DataError", "Entry", "MusterFileSystem", "Path", "open"]
