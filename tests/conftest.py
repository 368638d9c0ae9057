"""What tests share: known random states, a browser, and `../shared` beside the checkout, where it exists."""

import ctypes
import gc
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

SHARED = Path(__file__).resolve().parents[2] / "shared"
torch.set_num_threads(min(2, torch.get_num_threads()))  # OMP_NUM_THREADS=1 is heard


def shared(*parts: str) -> Path:
    """A file of shared reference data; the test that asks for it is skipped where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"reference data not here: shared/{'/'.join(parts)}")
    return path


@pytest.hookimpl(optionalhook=True)  # xdist may be absent
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where several processes share the tests, those that share what was prepared stay in one of them. It takes a
    scheduler of our own: under pytest 9.2 xdist hears no `xdist_group`, and deals out test by test (its issue 1386)."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return company(nodeid)

    return Together(config, log)


def company(nodeid: str) -> str:
    """Golden scores are shared by all tests of one architecture, whose name ends the test's; all else within a file."""
    file, _, test = nodeid.partition("::")
    return (
        test[test.index("|") : -1]
        if file.startswith("tests/golden/") and test.endswith("|]")
        else file
    )


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Every test starts from known random states, so that none passes or fails by chance."""
    with torch.random.fork_rng():
        torch.manual_seed(11)
        random.seed(11)
        np.random.seed(11)  # noqa: NPY002
        yield


@pytest.fixture(autouse=True)
def lean() -> Iterator[None]:
    """The memory that C keeps after large networks is given back: several processes share a machine. To look for it
    takes a good part of a second, so what was left the last time is not looked for after every test."""
    global _left
    yield
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim and _resident() > max(2 << 30, _left + (1 << 29)):
        gc.collect()
        trim(0)
        _left = _resident()


_left = 0  # bytes that could not be given back


def _resident() -> int:
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium, or the test is skipped."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if chromium is None:
        pytest.skip("no Chromium on the PATH")
    quiet = ["background-networking", "component-update", "gpu", "sync"]
    with api.sync_playwright() as play:
        flags = ["--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in quiet)]
        chrome = play.chromium.launch(executable_path=chromium, args=flags)
        yield chrome
        chrome.close()
