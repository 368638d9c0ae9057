"""A data root with tiny data sets in it."""

from pathlib import Path

import pytest

from tests.data.pictures import write_good_images
from tests.data.tiny import write_binary, write_npz


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with CIFAR-10, an archive of numpy and a folder of images."""
    folder = tmp_path_factory.mktemp("data")
    write_binary(folder)
    write_npz(folder / "tiny.npz")
    write_good_images(folder / "photos", {"cats": 6, "dogs": 7})
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of encoded tables, which is empty for each test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("UNTRAINED_DATA", raising=False)
    return tmp_path / "cache" / "untrained" / "cache" / "tables"
