"""Every package can be the first one that a process imports."""

import subprocess
import sys

import pytest

PACKAGES = "benchmarks data engine exports papers probe proxies reports runs spaces strategies training workflows cli".split()


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_can_be_imported_first(name):
    done = subprocess.run(
        [sys.executable, "-c", f"import untrained.{name}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
