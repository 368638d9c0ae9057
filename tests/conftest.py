"""Shared parts of the tests: fixed random states, a browser, and `../shared` beside the checkout if it exists."""

import ctypes
import gc
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch

SHARED = Path(__file__).resolve().parents[2] / "shared"
# A busy machine must not fail a test: examples are the same in every run and may take any time.
hypothesis.settings.register_profile(
    "untrained",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("untrained")
torch.set_num_threads(min(2, torch.get_num_threads()))  # respects OMP_NUM_THREADS=1


def find_shared(*parts: str) -> Path:
    """Return a file of shared reference data, or skip the test if the file is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"reference data not here: shared/{'/'.join(parts)}")
    return path


@pytest.hookimpl(optionalhook=True)  # xdist may be absent
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run tests that share prepared results in the same process.

    This needs a scheduler of its own, because with pytest 9.2 xdist ignores `xdist_group` and distributes single
    tests (its issue 1386).
    """
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return choose_group(nodeid)

    return GroupScheduling(config, log)


def choose_group(nodeid: str) -> str:
    """Return the group of a test: its file; for golden scores the architecture, which ends the name of the test.

    Tutorials share nothing, so each of them is a group.
    """
    file, _, test = nodeid.partition("::")
    if file == "tests/test_tutorials.py":
        return nodeid
    if file.startswith("tests/golden/") and test.endswith("|]"):
        return test[test.index("|") : -1]
    return file


@pytest.fixture(autouse=True)
def reset_random_states() -> Iterator[None]:
    """Start every test from fixed random states, so that none passes or fails by chance."""
    with torch.random.fork_rng():
        torch.manual_seed(11)
        random.seed(11)
        np.random.seed(11)  # noqa: NPY002
        yield


@pytest.fixture(autouse=True)
def release_memory() -> Iterator[None]:
    """Return memory that malloc keeps after large networks, because several processes share a machine.

    This takes a good part of a second, so it runs only if the memory has grown since the last time.
    """
    global _bytes_after_release
    yield
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim and read_resident_bytes() > max(2 << 30, _bytes_after_release + (1 << 29)):
        gc.collect()
        trim(0)
        _bytes_after_release = read_resident_bytes()


_bytes_after_release = 0  # bytes that could not be released the last time


def read_resident_bytes() -> int:
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return 0
    resident_pages = int(statm.read_text().split()[1])
    return resident_pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start a Chromium, or skip the test if there is none."""
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
