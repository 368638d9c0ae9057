"""Benchmark tables, and experiments on networks that are small enough for a test."""

import gzip
import sys
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import find_shared
from untrained.benchmarks import import_benchmark
from untrained.papers import (
    dextr_searches,
    discovered_cells,
    hnas_cells,
    nasi_searches,
    samples,
    sigeo_ctr,
)
from untrained.spaces import Space, load_space
from untrained.workflows.ground_truth import GroundTruth

TABLES = (
    "nasbench201",
    "nasbench101",
    "nasbench1shot1_s1",
    "nasbench1shot1_s2",
    "nasbench301",
    "transnas",
    "darts1000",
    "accel_nasbench",
)
ROWS = 300
SMALL = {
    "nasbench201": {"cells": 1},
    "nasbench101": {"channels": 8, "cells": 1},
    "nasbench1shot1_s1": {"channels": 8, "cells": 1},
    "nasbench1shot1_s2": {"channels": 8, "cells": 1},
    "darts": {"channels": 4, "cells": 2},
}
NASI = {
    "STEPS": 1,
    "STEPS_PER_EPOCH": 2,
    "NB201_SPACE": "nasbench201(channels=4,cells=1)",
    "SPACES": {"S1": "nasbench1shot1_s1(cells=1)", "S2": "nasbench1shot1_s2(cells=1)"},
    "WIDTH": 4,
    "WIDTHS": (2, 4, 8),
    "TABLE_6": {"S1": (7.0, 8.3, 8.0), "S2": (7.3, 8.0, 7.3)},
}
DISCOVERED_CELLS = {
    "DARTS": "darts(channels=4,cells=2)",
    # With two cells there is no normal cell.
    "DARTS_NASI": "darts_nasi(channels=4,cells=3)",
    "DARTS_CIFAR": "darts(channels=4,cells=2)",
    "NASI_STEPS": 1,
    "DEXTR_FIGURE_4": {"random": 1.2e8, "naswot": 5.8e7},
}
DEXTR = {
    "DARTS": "darts(channels=4,cells=2)",
    "ZEROCOST_PT": "zerocost_pt(operations=random,edges=random,proposals=1)",
    "PROXY": "random",
    "AUTOFORMER": {
        "tiny": ("autoformer_tiny(patch=112)", "50M"),
        "small": ("autoformer_small(patch=112)", "50M"),
    },
}


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with all tables; tests that need it are skipped if the data are absent."""
    root = tmp_path_factory.mktemp("root")
    data = find_shared("data")
    for name in TABLES:
        import_benchmark(name, data, root)
    (root / "ctr").mkdir()
    for name in sigeo_ctr.TABLES.values():
        # The first rows are enough.
        with (
            gzip.open(data / "ctr" / name, "rt") as whole,
            gzip.open(root / "ctr" / name, "wt") as head,
        ):
            head.writelines(islice(whole, 1 + ROWS))
    return root


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace networks by shallow, narrow ones, and images by small ones."""
    load_ground_truth = samples.load_ground_truth

    def load_small_space(name: str) -> Space:
        return load_space(name).with_options(**SMALL.get(name.partition("(")[0], {}))

    def load_truth_of_small_images(**options: Any) -> GroundTruth:
        truth = load_ground_truth(**options)
        shape = truth.task.input_shape
        return replace(truth, task=replace(truth.task, input_shape=(*shape[:-2], 32, 32)))

    monkeypatch.setattr(samples, "load_space", cache(load_small_space))
    monkeypatch.setattr(samples, "load_ground_truth", load_truth_of_small_images)
    # One module instead of five.
    monkeypatch.setattr(sys.modules["untrained.spaces.transnas.space"], "MICRO_CODE", (4,))
    monkeypatch.setattr(sigeo_ctr, "SPACES", ("nasrec_small(blocks=1)", "nasrec_full(blocks=1)"))
    monkeypatch.setattr(hnas_cells, "SPACE", "darts(channels=4,cells=2)")
    for name, value in DISCOVERED_CELLS.items():
        monkeypatch.setattr(discovered_cells, name, value)
    for name, value in NASI.items():
        monkeypatch.setattr(nasi_searches, name, value)
    for name, value in DEXTR.items():
        monkeypatch.setattr(dextr_searches, name, value)
