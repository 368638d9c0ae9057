"""Scoring networks of timm, if it is installed. tests/workflows has a small library in its place."""

import json
from math import isfinite
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.cli.helpers import read_usage_error

pytestmark = pytest.mark.filterwarnings("ignore")  # of timm and torchvision
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(
                not torch.cuda.is_available(), reason="no CUDA device on this machine"
            ),
        ],
    ),
]
NAMES = ["resnet10t", "mobilenetv3_small_050", "vit_tiny_patch16_224"]
PATTERN = "resnet1[048][dt]"
MATCHES = ["resnet10t", "resnet14t", "resnet18d"]


@pytest.fixture
def timm() -> ModuleType:
    library: ModuleType = pytest.importorskip(
        "timm", reason="timm is an extra", exc_type=ImportError
    )
    return library


@pytest.fixture
def score_rows(run_cli):
    """Run `untrained score` and return the rows of its JSON document."""

    def score(*arguments: str) -> list[dict[str, Any]]:
        code, out, err = run_cli("score", *arguments, "--data", "noise", "--json")
        assert code == 0, err
        rows: list[dict[str, Any]] = json.loads(out)
        assert not [row for row in rows if row.get("error")]
        return rows

    return score


def count_params(timm: ModuleType, name: str) -> int:
    model = timm.create_model(name, pretrained=False)
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_score_a_network_of_timm(timm, score_rows, name, device):
    proxies = "dextr,params,flops" if device == "cpu" else "dextr,params,flops,grad_norm,naswot,zen"
    rows = score_rows(f"timm:{name}", "--proxy", proxies, "--device", device)
    scores = {row["proxy"]: row["value"] for row in rows}
    assert list(scores) == proxies.split(",")
    assert all(isfinite(value) for value in scores.values())
    assert scores["params"] == count_params(timm, name)
    assert scores["dextr"] > 0


@pytest.mark.parametrize("device", DEVICES)
def test_rank_all_networks_that_match_a_pattern(timm, score_rows, device):
    rows = score_rows("--rank", f"timm:{PATTERN}", "--proxy", "params,dextr", "--device", device)
    by_size = sorted(MATCHES, key=lambda name: count_params(timm, name), reverse=True)
    assert [row["arch"] for row in rows] == [f"timm:{name}" for name in by_size]
    assert [row["place"] for row in rows] == [1, 2, 3]
    assert all(row["dextr"] > 0 for row in rows)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_a_network_of_timm_has_the_same_score_on_both_devices(timm, score_rows):
    (cpu,) = score_rows("timm:resnet10t", "--proxy", "dextr", "--device", "cpu")
    (cuda,) = score_rows("timm:resnet10t", "--proxy", "dextr", "--device", "cuda")
    assert cuda["value"] == pytest.approx(cpu["value"], rel=1e-2)


def test_an_unknown_name_lists_similar_names_of_timm(timm, run_cli):
    assert "no timm model is called 'resnet10x'; did you mean resnet10t" in read_usage_error(
        run_cli("score", "timm:resnet10x")
    )
