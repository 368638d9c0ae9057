"""A search on a Ray cluster of two nodes, one of which is killed in the middle."""

import os
import subprocess
import sys
from pathlib import Path
from socket import gethostname

import pytest

import untrained as ut
from tests.engine.helpers import read_rows
from untrained.runs.folder import RunFolder

pytestmark = [pytest.mark.alone, pytest.mark.slow]

SPACE = """
import time
import untrained
from torch import nn

@untrained.space(task=untrained.Task("noise", (3, 8, 8), 5))
def mynet(choose, task):
    width = choose("width", range(2, 100))
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, width), nn.Linear(width, 5))

@untrained.proxy(samples=2)
def slow(probe):
    time.sleep(0.1)
    return float(probe.outputs.std())
"""
# The cluster has one core on each of its two nodes, so each node gets one of the two workers. The
# second node is killed after some of the networks were scored.
PROGRAM = """
import sys
import untrained as ut
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
node = cluster.add_node(num_cpus=1)
is_killed = False

def kill_node(progress):
    global is_killed
    if progress.done >= 20 and not is_killed:
        is_killed = True
        cluster.remove_node(node, allow_graceful=False)

try:
    ut.search(
        "./mine.py:mynet", "./mine.py:slow", data="noise", budget=60, ray=cluster.address,
        workers=2, run="cluster", on_progress=kill_node,
    )
finally:
    cluster.shutdown()
assert is_killed
"""


@pytest.mark.parametrize(("package", "version"), [("torch", "1.0+cpu"), ("untrained", "9.9")])
def test_a_worker_with_another_version_is_refused(monkeypatch, package, version):
    """One worker, whose driver claims to have other versions."""
    ray_module = pytest.importorskip("untrained.engine.executors.ray", reason="ray is an extra")
    own_version = ray_module.read_key_versions()[package]
    driver_versions = ray_module.read_key_versions() | {package: version}
    actor = ray_module._Actor(None)
    assert actor.open(driver_versions) == (
        f"the Ray worker on {gethostname()} has {package} {own_version}, but the driver has "
        f"{version}; install the same version on every machine"
    )


def test_a_search_loses_no_record_when_a_node_of_its_cluster_is_killed(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="ray is an extra")
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(SPACE)
    Path("program.py").write_text(PROGRAM)
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "program.py"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    inline = ut.search(
        "./mine.py:mynet", "./mine.py:slow", data="noise", budget=60, workers=1, run="inline"
    )
    assert len(inline.ranking.standings) == 60
    assert read_rows(Path("cluster")) == read_rows(Path("inline"))
    workers = RunFolder.read(Path("cluster")).workers
    assert sum(worker["deaths"] for worker in workers) >= 1
