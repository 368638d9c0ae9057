"""Networks of timm itself, where it is installed, by the command: tests/studies has a library like it for everybody."""

import json
from math import isfinite
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.cli.helpers import wrong

pytestmark = pytest.mark.filterwarnings("ignore")  # timm and torchvision warn of themselves
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
        ],
    ),
]
NAMES = ["resnet10t", "mobilenetv3_small_050", "vit_tiny_patch16_224"]
SEVERAL, MATCHED = "resnet1[048][dt]", ["resnet10t", "resnet14t", "resnet18d"]


@pytest.fixture
def timm() -> ModuleType:
    library: ModuleType = pytest.importorskip("timm", reason="timm is an extra", exc_type=ImportError)
    return library


@pytest.fixture
def scored(untrained_):
    def call(*arguments: str) -> list[dict[str, Any]]:
        code, out, err = untrained_("score", *arguments, "--data", "noise", "--json")
        assert code == 0, err
        rows: list[dict[str, Any]] = json.loads(out)
        assert not [row for row in rows if row.get("error")]
        return rows

    return call


def params(timm: ModuleType, name: str) -> int:
    return sum(p.numel() for p in timm.create_model(name, pretrained=False).parameters())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_a_network_of_timm_is_scored(timm, scored, name, device):
    proxies = "dextr,params,flops" if device == "cpu" else "dextr,params,flops,grad_norm,naswot,zen"
    rows = scored(f"timm:{name}", "--proxy", proxies, "--device", device)
    found = {row["proxy"]: row["value"] for row in rows}
    assert list(found) == proxies.split(",")
    assert all(isfinite(value) for value in found.values())
    assert found["params"] == params(timm, name)
    assert found["dextr"] > 0


@pytest.mark.parametrize("device", DEVICES)
def test_a_pattern_ranks_all_that_it_matches(timm, scored, device):
    rows = scored("--rank", f"timm:{SEVERAL}", "--proxy", "params,dextr", "--device", device)
    by_size = sorted(MATCHED, key=lambda name: params(timm, name), reverse=True)
    assert [row["arch"] for row in rows] == [f"timm:{name}" for name in by_size]
    assert [row["place"] for row in rows] == [1, 2, 3]
    assert all(row["dextr"] > 0 for row in rows)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_a_network_of_timm_has_one_score_on_both_devices(timm, scored):
    here, there = (scored("timm:resnet10t", "--proxy", "dextr", "--device", kind)[0] for kind in ("cpu", "cuda"))
    assert there["value"] == pytest.approx(here["value"], rel=1e-2)


def test_a_name_that_timm_has_not_is_told_with_near_ones(timm, untrained_):
    assert "no network of timm is called 'resnet10x'; did you mean resnet10t" in wrong(
        untrained_("score", "timm:resnet10x")
    )
