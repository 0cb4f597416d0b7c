"""How data is named."""

from __future__ import annotations

import pytest

from muster.data import Address, Path


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", Address()),
        ("muster://", Address()),
        ("muster://digits", Address("digits")),
        ("digits", Address("digits", "main")),
        ("muster://digits@v1/", Address("digits", "v1")),
        ("muster://digits@main/a/b.csv", Address("digits", "main", "a/b.csv")),
        ("digits@main~2/a b/@c", Address("digits", "main~2", "a b/@c")),
        ("digits@3f9ac01d/x", Address("digits", "3f9ac01d", "x")),
    ],
)
def test_parse(text: str, want: Address) -> None:
    assert Address.parse(text) == want
    assert Address.parse(str(want)) == want


@pytest.mark.parametrize(
    "text", ["di", "Digits", "digits@", "digits@-a", "digits@a/../b", "digits/a//b", "digits/./a", "digits/a\0b", "s3://digits/a", "-ab"]
)
def test_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="muster://|branch|path"):
        Address.parse(text)


def test_parts() -> None:
    path = Path("muster://digits@v1", "train/", "0.tar.gz")
    assert (path.dataset, path.version, path.path) == ("digits", "v1", "train/0.tar.gz")
    assert (path.name, path.stem, path.suffix, path.parts) == ("0.tar.gz", "0.tar", ".gz", ("train", "0.tar.gz"))
    assert path.parent == Path("digits@v1/train") != Path("digits/train")
    assert path.parent.parent.parent == Path("digits@v1")
    assert path.at("next") == Path("digits@next/train/0.tar.gz")
    assert str(Path("digits@main") / "a" / "b") == "muster://digits/a/b"
    assert len({path, Path("digits@v1/train/0.tar.gz")}) == 1
    with pytest.raises(ValueError, match="name a dataset"):
        Path("")
