"""What others make of muster:// addresses."""

from __future__ import annotations

import subprocess
import sys

import pandas
import pyarrow.dataset
import pytest
from conftest import PROGRAM, Muster, Options

from muster.data import MusterFileSystem


def frame() -> pandas.DataFrame:
    return pandas.DataFrame({"number": range(1000), "name": [f"n{n}" for n in range(1000)]})


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_pandas(dataset: str, options: Options, kind: str) -> None:
    address = f"muster://{dataset}/table.{kind}"
    more = {"index": False} if kind == "csv" else {}
    getattr(frame(), f"to_{kind}")(address, storage_options=options, **more)
    read = getattr(pandas, f"read_{kind}")(address, storage_options=options)
    pandas.testing.assert_frame_equal(read, frame(), check_dtype=False)


def test_columns_of_parquet(dataset: str, options: Options) -> None:
    frame().to_parquet(f"muster://{dataset}/table.parquet", storage_options=options)
    read = pandas.read_parquet(f"muster://{dataset}@main/table.parquet", columns=["number"], storage_options=options)
    assert list(read.columns) == ["number"]


def test_pyarrow(dataset: str, options: Options) -> None:
    fs = MusterFileSystem(**options)
    for part in range(3):
        frame().to_parquet(f"muster://{dataset}/parts/{part}.parquet", storage_options=options)
    assert pyarrow.dataset.dataset(f"{dataset}/parts", filesystem=fs).count_rows() == 3000


@pytest.mark.parametrize("way", ["gateway", "command"])
def test_in_a_new_process(
    dataset: str, request: pytest.FixtureRequest, muster: Muster, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Nothing is imported, and everything comes from the environment."""
    if way == "command":
        monkeypatch.setenv("MUSTER", str(PROGRAM))
    else:
        access = request.getfixturevalue("access")
        monkeypatch.setenv("AWS_ENDPOINT_URL", access["endpoint"])
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", access["accessKeyID"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", access["secretAccessKey"])
    script = f"""
import pandas
pandas.DataFrame({{"a": [1, 2]}}).to_csv("muster://{dataset}/a.csv", index=False)
print(pandas.read_csv("muster://{dataset}@main/a.csv")["a"].sum())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr
    assert muster("data", "cat", f"{dataset}:/a.csv") == "a\n1\n2\n"
