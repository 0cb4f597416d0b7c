"""Reading and writing, by the gateway and by the command."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pytest
from conftest import Muster, Options

import muster.data
from muster.data import DataError, MusterFileSystem, Path


def commits(run: Muster, dataset: str) -> int:
    return len(json.loads(run("data", "log", dataset, "-o", "json")))


def test_write_and_read(dataset: str, options: Options, muster: Muster) -> None:
    path = Path(dataset, "a", "text.txt", **options)
    assert not path.exists()
    assert path.write_text("grüße\n") == 8
    assert path.read_text() == "grüße\n"
    assert path.is_file() and not path.is_dir() and path.parent.is_dir()
    assert path.stat().size == 8
    assert muster("data", "cat", f"{dataset}:/a/text.txt") == "grüße\n"
    with path.open("w", newline="") as out:
        print("one", "two", sep=",", file=out)
    with path.open() as lines:
        assert list(lines) == ["one,two\n"]
    assert commits(muster, dataset) == 2
    assert Path(f"{dataset}@main~1", "a/text.txt", **options).read_text() == "grüße\n"


def test_ranges(dataset: str, options: Options) -> None:
    content = bytes(range(256)) * 64
    path = Path(dataset, "bytes", **options)
    path.write_bytes(content)
    fs = path.fs
    for start, end in [(None, None), (0, 10), (100, 101), (5, 5), (16000, None), (16384, 20000), (-10, None), (-10, -5), (9, 3)]:
        assert fs.cat_file(str(path), start, end) == content[start:end], (start, end)
    with path.open("rb") as file:
        assert file.seek(1000) == 1000
        assert file.read(24) == content[1000:1024]
        assert file.seek(-4, os.SEEK_END) == len(content) - 4
        assert file.read() == content[-4:]
        assert file.read() == b""


def test_empty_file(dataset: str, options: Options) -> None:
    path = Path(dataset, "nothing", **options)
    path.write_bytes(b"")
    assert path.stat().size == 0
    assert path.read_bytes() == b""
    with path.open("rb") as file:
        assert file.read() == b""


def test_listing(dataset: str, options: Options, tmp_path: os.PathLike[str], muster: Muster) -> None:
    for name in ("1.png", "train/2.png", "train/deep/3.png", "train/deep/4.csv", "trainer/5.png"):
        file = os.path.join(tmp_path, name)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w") as out:
            out.write(name)
    muster("data", "put", str(tmp_path), dataset)
    root = Path(dataset, **options)
    assert [one.path for one in root.iterdir()] == ["1.png", "train", "trainer"]
    assert [one.path for one in (root / "train").iterdir()] == ["train/2.png", "train/deep"]
    assert [one.path for one in root.glob("**/*.png")] == ["1.png", "train/2.png", "train/deep/3.png", "trainer/5.png"]
    assert [one.path for one in root.glob("*/*.png")] == ["train/2.png", "trainer/5.png"]
    assert [one.path for one in root.glob("train/[!d]*")] == ["train/2.png"]
    assert [one.path for one in (root / "train").glob("**")] == ["train/2.png", "train/deep/3.png", "train/deep/4.csv"]
    fs = root.fs
    assert dataset in fs.ls("", detail=False)
    assert fs.find(dataset) == [f"{dataset}/{one}" for one in ("1.png", "train/2.png", "train/deep/3.png", "train/deep/4.csv", "trainer/5.png")]
    assert fs.find(f"{dataset}/1.png") == [f"{dataset}/1.png"]
    assert fs.ls(f"{dataset}/1.png", detail=False) == [f"{dataset}/1.png"]
    assert fs.glob(f"muster://{dataset}/train/**/*.csv") == [f"{dataset}/train/deep/4.csv"]
    assert [(at, sorted(folders), sorted(files)) for at, folders, files in fs.walk(f"{dataset}/train")] == [
        (f"{dataset}/train", ["deep"], ["2.png"]),
        (f"{dataset}/train/deep", [], ["3.png", "4.csv"]),
    ]
    assert fs.du(f"{dataset}/train") == sum(len(one) for one in ("train/2.png", "train/deep/3.png", "train/deep/4.csv"))


def test_names_that_are_patterns(dataset: str, options: Options) -> None:
    folder = Path(dataset, "100% [a]", **options)
    for name in ("*.txt", "b.txt", "c?.txt", "d+e &=#.txt", "ü.txt"):
        (folder / name).write_text(name)
    assert sorted(one.name for one in folder.iterdir()) == ["*.txt", "b.txt", "c?.txt", "d+e &=#.txt", "ü.txt"]
    for one in folder.iterdir():
        assert one.read_text() == one.name
    (folder / "*.txt").unlink()
    assert sorted(one.name for one in folder.iterdir()) == ["b.txt", "c?.txt", "d+e &=#.txt", "ü.txt"]


def test_versions(dataset: str, options: Options, muster: Muster) -> None:
    Path(dataset, "a", **options).write_text("old")
    muster("data", "tag", dataset, "v1")
    muster("data", "branch", dataset, "next")
    Path(f"{dataset}@next", "a", **options).write_text("new")
    assert Path(dataset, "a", **options).read_text() == "old"
    assert Path(f"{dataset}@v1", "a", **options).read_text() == "old"
    assert Path(f"{dataset}@next", "a", **options).read_text() == "new"
    commit = json.loads(muster("data", "log", f"{dataset}@next", "-o", "json"))[0]["commit"]
    assert Path(f"{dataset}@{commit}", "a", **options).read_text() == "new"
    assert Path(f"{dataset}@{commit[:12]}", **options).is_dir()
    with pytest.raises(OSError, match="v1"):
        Path(f"{dataset}@v1", "a", **options).write_text("changed")
    assert Path(f"{dataset}@v1", "a", **options).read_text() == "old"


def test_what_is_not_there(dataset: str, options: Options) -> None:
    Path(dataset, "folder/file", **options).write_text("x")
    for missing in (f"{dataset}/none", f"{dataset}/fold", f"{dataset}@none/folder/file", "not-there-at-all/file", f"{dataset}/folder/file/x"):
        path = Path(missing, **options)
        assert not path.exists()
        with pytest.raises(FileNotFoundError):
            path.stat()
        with pytest.raises(FileNotFoundError):
            path.read_bytes()
        with pytest.raises(FileNotFoundError):
            path.unlink()
        path.unlink(missing_ok=True)
    with pytest.raises(IsADirectoryError):
        Path(dataset, "folder", **options).read_bytes()
    with pytest.raises(IsADirectoryError):
        Path(dataset, "folder", **options).open("rb")
    with pytest.raises(IsADirectoryError):
        Path(dataset, **options).open("w")
    with pytest.raises(NotADirectoryError):
        list(Path(dataset, "folder/file", **options).iterdir())


def test_removing(dataset: str, options: Options) -> None:
    root = Path(dataset, **options)
    for name in ("a", "b/c", "b/d/e"):
        (root / name).write_text(name)
    (root / "a").unlink()
    assert [one.path for one in root.glob("**")] == ["b/c", "b/d/e"]
    with pytest.raises(IsADirectoryError):
        root.fs.rm(f"{dataset}/b")
    root.fs.rm(f"{dataset}/b/d", recursive=True)
    assert [one.path for one in root.glob("**")] == ["b/c"]


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_an_exception_writes_nothing(dataset: str, options: Options, mode: str) -> None:
    path = Path(dataset, "half", **options)
    with pytest.raises(ZeroDivisionError), path.open(mode) as out:
        out.write("half" if mode == "w" else b"half")
        out.write(1 // 0)
    assert not path.exists()


def test_modes(dataset: str, options: Options) -> None:
    path = Path(dataset, "file", **options)
    with path.open("x") as out:
        out.write("first")
    with pytest.raises(FileExistsError):
        path.open("x")
    with pytest.raises(ValueError, match="appended"):
        path.open("a")
    with path.open("wb") as out:
        out.write(b"0123456789")
        out.seek(2)
        out.write(b"ab")
    assert path.read_bytes() == b"01ab456789"


def test_transaction(dataset: str, options: Options) -> None:
    path = Path(dataset, "file", **options)
    fs = path.fs
    with fs.transaction:
        with fs.open(str(path), "wb") as out:
            out.write(b"later")
        assert not path.exists()
    assert path.read_bytes() == b"later"
    with pytest.raises(ZeroDivisionError), fs.transaction:
        with fs.open(str(path), "wb") as out:
            out.write(b"never")
        raise ZeroDivisionError
    assert path.read_bytes() == b"later"


def test_copy_and_move(dataset: str, options: Options, tmp_path: os.PathLike[str]) -> None:
    fs = MusterFileSystem(**options)
    local = os.path.join(tmp_path, "local")
    with open(local, "wb") as out:
        out.write(b"content")
    fs.put(local, f"{dataset}/put")
    fs.cp(f"{dataset}/put", f"{dataset}/copy")
    fs.mv(f"{dataset}/put", f"{dataset}/moved")
    assert fs.ls(dataset, detail=False) == [f"{dataset}/copy", f"{dataset}/moved"]
    fs.get(f"{dataset}/moved", local + "2")
    with open(local + "2", "rb") as read:
        assert read.read() == b"content"
    assert fs.checksum(f"{dataset}/copy") == fs.checksum(f"{dataset}/moved")


def test_many_at_once(dataset: str, options: Options) -> None:
    root = Path(dataset, **options)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: (root / f"{n}.txt").write_text(str(n)), range(16)))
        assert list(threads.map(lambda n: (root / f"{n}.txt").read_text(), range(16))) == [str(n) for n in range(16)]


def test_open(dataset: str, options: Options) -> None:
    with muster.data.open(f"muster://{dataset}/a.txt", "w", **options) as out:
        out.write("a")
    with muster.data.open(f"muster://{dataset}/a.txt", **options) as file:
        assert file.read() == "a"
    with fsspec.open(f"muster://{dataset}/b.gz", "wt", compression="gzip", **options) as out:
        out.write("b")
    with fsspec.open(f"muster://{dataset}/b.gz", "rt", compression="infer", **options) as file:
        assert file.read() == "b"


def test_in_parts(dataset: str, access: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.data.s3._PART", 5 << 20)  # the least that S3 takes
    content = os.urandom(11 << 20)
    path = Path(dataset, "large", endpoint=access["endpoint"], key=access["accessKeyID"], secret=access["secretAccessKey"])
    path.write_bytes(content)
    assert path.read_bytes() == content


def test_a_wrong_key(dataset: str, access: dict[str, str]) -> None:
    with pytest.raises(PermissionError, match="muster data key create"):
        Path(dataset, "a", endpoint=access["endpoint"], key=access["accessKeyID"], secret="wrong").read_bytes()


def test_nobody_there() -> None:
    with pytest.raises(DataError, match=r"127\.0\.0\.1:1"):
        Path("digits", "a", endpoint="http://127.0.0.1:1", key="a", secret="b").read_bytes()
    with pytest.raises(DataError, match="no program /no/such/muster"):
        Path("digits", "a", program="/no/such/muster").read_bytes()
    with pytest.raises(ValueError, match="give one of endpoint"):
        Path("digits", "a", program="muster", endpoint="http://127.0.0.1:1").read_bytes()
