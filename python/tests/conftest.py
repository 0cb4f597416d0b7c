"""A Muster of the tests' own, and both ways to its data."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path as Folder
from typing import Any

import pytest

PROGRAM = Folder(os.environ.get("MUSTER", Folder(__file__).parents[2] / "bin" / "muster"))

Muster = Callable[..., str]
Options = dict[str, Any]


@pytest.fixture(scope="session")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Runs the program against a Muster that was started for the tests."""
    home = tmp_path_factory.mktemp("home")
    os.environ["MUSTER_HOME"] = str(home)
    for name in ("KUBECONFIG", "MUSTER_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        os.environ.pop(name, None)

    def run(*args: str, stdin: str = "") -> str:
        done = subprocess.run([PROGRAM, *args], input=stdin, capture_output=True, text=True, check=False, timeout=150)
        assert done.returncode == 0, f"muster {' '.join(args)}: {done.stderr}"
        return done.stdout

    run("up", "--detach", "--tier", "plain")
    try:
        yield run
    finally:
        run("down")


@pytest.fixture(scope="session")
def access(muster: Muster) -> dict[str, str]:
    """An access key, as the command prints it."""
    made: dict[str, str] = json.loads(muster("data", "key", "create", "-o", "json"))
    return made


@pytest.fixture(params=["gateway", "command"])
def options(request: pytest.FixtureRequest) -> Options:
    """What names a way to the data: each test runs by both."""
    if request.param == "command":
        return {"program": str(PROGRAM)}
    access = request.getfixturevalue("access")
    return {"endpoint": access["endpoint"], "key": access["accessKeyID"], "secret": access["secretAccessKey"]}


@pytest.fixture
def dataset(muster: Muster) -> str:
    """A dataset of the test's own."""
    name = "test-" + uuid.uuid4().hex[:12]
    muster("data", "create", name)
    return name
