"""Six networks of NASRec equal those of the authors' code, with golden weights and rows."""

import hashlib
import json
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.conftest import find_shared
from untrained.spaces import Space, load_space
from untrained.types import Task

TASK = Task("criteo", (13 + 26,), 1, "bce", (50,) * 26)
SPACES = {"autoctr": "nasrec_small", "xlarge": "nasrec_full"}
OUR_NAMES = {  # by operator, then by the name of a part in the authors' code
    "linear-2d": {"_linear": "reads_dense.linear", "_layernorm": "reads_dense.norm"},
    "linear-3d": {"_linear": "reads_tokens.linear", "_layernorm": "reads_tokens.norm"},
    "dot-product": {
        "_dense_proj": "reads_dense.linear",
        "_dense_layernorm": "reads_dense.norm",
        "_sparse_inp_proj": "reads_tokens.linear",
        "_sparse_inp_proj_layernorm": "reads_tokens.norm",
        "_linear_proj": "out",
        "_linear_layernorm": "norm",
    },
    "sigmoid-gating": {
        "_left_self_linear._linear": "gate",
        "_linear_proj": "out",
        "_layernorm": "norm",
    },
    "sum": {"_linear_proj": "out", "_layernorm": "norm"},
    "transformer": {
        "_linear_proj": "reads_tokens.linear",
        "_proj_ln": "reads_tokens.norm",
        "_mha": "attention",
        "_mha.out_proj": "attention.out_proj",
        "_attn_ln": "attention_norm",
        "attn_fc1": "fc1",
        "attn_fc2": "fc2",
        "_attn_fc_ln": "fc_norm",
    },
    "": {
        "project_emb_dim": "interact.linear",
        "project_emb_dim_layernorm": "interact.norm",
        "deep_fm._linear_proj": "fm.project.linear",
        "deep_fm._linear_layernorm": "fm.project.norm",
    },
}
OPS = {
    "autoctr": ("linear-2d", "dot-product", "linear-3d"),
    "xlarge": ("linear-2d", "dot-product", "sigmoid-gating", "sum", "transformer", "linear-3d"),
}


@cache
def read_golden_file() -> list[dict[str, Any]]:
    subnets: list[dict[str, Any]] = json.loads(
        find_shared("golden", "nasrec_golden.json").read_text()
    )["subnets"]
    return subnets


def make_generator(name: str) -> np.random.Generator:
    digest = hashlib.sha256(b"refs-v1|" + name.encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "little")))


def make_weight(name: str, shape: list[int]) -> Tensor:
    u = 2 * torch.from_numpy(make_generator("nasrec|" + name).random(int(np.prod(shape)))) - 1
    if len(shape) > 1:
        return u.reshape(shape) / shape[-1] ** 0.5
    return 1 + 0.1 * u if name.endswith(".weight") else 0.1 * u


def translate_name(name: str, config: str) -> str:
    """Return our name of a weight of the authors' code."""
    if name.startswith("_embedding."):
        return name.replace("_embedding", "stem.tables")
    if name.startswith("_final."):
        return name.replace("_final", "head")
    _, i, *path = name.split(".")
    op = OPS[config][int(path[1])] if path[0] == "_nodes" else ""
    *part, last = path[2:] if op else path
    return ".".join(
        ["blocks", i, *(["ops", op] if op else []), OUR_NAMES[op][".".join(part)], last]
    )


def is_unused(name: str, shapes: dict[str, list[int]]) -> bool:
    """The norm of a factorisation machine that has no projection."""
    return (
        "deep_fm._linear_layernorm" in name
        and f"{name.partition('deep_fm')[0]}deep_fm._linear_proj.weight" not in shapes
    )


def parse_entry(entry: dict[str, Any]) -> tuple[Space, Any]:
    space = load_space(SPACES[entry["config"]])
    return space, space.parse(json.dumps(entry["choice"]))


@pytest.mark.parametrize("n", range(6))
def test_networks_equal_those_of_the_authors(n):
    """All weights correspond one to one, and logits and loss agree."""
    entry = read_golden_file()[n]
    space, arch = parse_entry(entry)
    shapes = entry["state_shapes"]
    weights = {
        translate_name(k, entry["config"]): make_weight(k, s)
        for k, s in shapes.items()
        if not is_unused(k, shapes)
    }
    network = space.build(arch, TASK, device="meta")
    assert {k: list(p.shape) for k, p in network.named_parameters()} == {
        k: list(w.shape) for k, w in weights.items()
    }
    unused = sum(int(np.prod(shape)) for name, shape in shapes.items() if is_unused(name, shapes))
    assert sum(p.numel() for p in network.parameters()) == entry["params_total"] - unused

    network.load_state_dict(weights, assign=True)
    rows = np.concatenate(
        [
            make_generator("nasrec.int").random((256, 13)),
            make_generator("nasrec.cat").integers(0, 50, (256, 26)),
        ],
        1,
    )
    with torch.no_grad():
        logits = network(torch.from_numpy(rows[:64]))
    assert logits.shape == (64, 1)
    np.testing.assert_allclose(logits[:8, 0], entry["logits_first8_b64"], rtol=0, atol=2e-6)
    assert logits.mean().item() == pytest.approx(entry["logits_mean_b64"], abs=1e-6)
    clicks = torch.from_numpy(make_generator("nasrec.y").integers(0, 2, (256, 1))[:64]).double()
    loss = F.binary_cross_entropy_with_logits(logits, clicks)
    assert loss.item() == pytest.approx(entry["bce_b64"], abs=1e-6)


def test_the_six_networks_contain_every_operator_and_connection():
    text = " ".join(str(parse_entry(entry)[1]) for entry in read_golden_file())
    for word in (*OPS["xlarge"], " fm", " interact"):
        assert word in text


def test_the_json_of_the_authors_is_parsed_without_unused_inputs():
    """Left and right inputs that no operator reads are dropped; sets of inputs are sorted."""
    _, arch = parse_entry(read_golden_file()[0])
    assert str(arch).startswith(
        "linear-2d(0)16 linear-3d(0)64 fm interact; dot-product(0+1)16 linear-3d(0+1)48; "
    )
    assert str(arch).count(";") == 6
    assert not [name for name, _ in arch.genes if name.startswith(("left", "right"))]
