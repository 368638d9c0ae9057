"""DARTS networks and supernets equal the official ones (of HNAS and Zero-Cost-PT) and their counts."""

import ast
import csv
import gzip
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.conftest import find_shared
from tests.golden.spaces import (
    check_network,
    check_output,
    fill_weights,
    make_inputs,
    read_golden_file,
    run_and_count,
)
from untrained.spaces import load_space
from untrained.spaces.darts.operations import OPERATIONS
from untrained.types import Task

pytestmark = pytest.mark.data
darts = load_space("darts")
CIFAR = darts.with_options(channels=36, cells=20)
NODES = [2, 3, 4, 5]
IMAGENET = darts.with_options(channels=48, cells=14, stem="imagenet")


def format_genotype(entry: Any) -> str:
    """Return the string of a genotype of the golden file, or of a published one by name."""
    cells = read_golden_file()["darts"]["genotypes"][entry] if isinstance(entry, str) else entry
    edges = {kind: [tuple(edge) for edge in cells[kind]] for kind in ("normal", "reduce")}
    return (
        f"Genotype(normal={edges['normal']}, normal_concat={cells['normal_concat']}, "
        f"reduce={edges['reduce']}, reduce_concat={cells['reduce_concat']})"
    )


def make_task(entry: dict[str, Any]) -> Task:
    return Task("golden", tuple(entry["input_shape"][1:]), entry["output_shape"][0][1])


def count_params(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


# ---------------------------------------------------------------------------------------------------------- final nets


@pytest.mark.parametrize(
    ("group", "stem", "count"),
    [
        ("cifar_C36_L20", "cifar", 14),
        ("imagenet_C48_L14", "imagenet", 14),
        ("hnas_C16_L5", "cifar", 12),
    ],
)
def test_networks_equal_the_official_ones(group: str, stem: str, count: int):
    entries = [entry for entry in read_golden_file()["darts"][group] if not entry["auxiliary"]]
    assert len(entries) == count
    for entry in entries:
        space = darts.with_options(channels=entry["C"], cells=entry["cells"], stem=stem)
        check_network(
            space.build(space.parse(format_genotype(entry["genotype"])), make_task(entry)), entry
        )


def test_networks_with_few_or_many_cells_and_for_tiny_imagenet_equal_the_official_ones():
    entries = read_golden_file()["darts"]["small_variants"]
    assert len(entries) == 6
    for entry in entries:
        stem = "tiny_imagenet" if "TinyImageNet" in entry["name"] else "cifar"
        space = darts.with_options(channels=entry["C"], cells=entry["cells"], stem=stem)
        model = space.build(space.parse(format_genotype(entry["genotype"])), make_task(entry))
        kinds = [cell.kind for cell in model.cells]
        if "reduction_at" in entry:
            assert [i for i, kind in enumerate(kinds) if kind == "reduce"] == entry["reduction_at"]
        check_network(model, entry)


class MainLogits(nn.Module):
    """Returns the logits of a network that returns auxiliary logits and logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        self.auxiliary_logits, logits = self.model(x)
        return logits


@pytest.mark.parametrize(
    ("group", "stem", "count"),
    [("cifar_C36_L20_aux", "cifar", 5), ("imagenet_C48_L14", "imagenet", 1)],
)
def test_the_auxiliary_tower_equals_the_official_one(group: str, stem: str, count: int):
    entries = [entry for entry in read_golden_file()["darts"][group] if entry["auxiliary"]]
    assert len(entries) == count
    for entry in entries:
        space = darts.with_options(
            channels=entry["C"], cells=entry["cells"], stem=stem, auxiliary=True
        )
        model = space.build(space.parse(format_genotype(entry["genotype"])), make_task(entry))
        assert count_params(model) == entry["params"]
        assert (
            count_params(model) - count_params(model.auxiliary) == entry["params_without_auxiliary"]
        )
        layers = [
            m
            for m in model.auxiliary.modules()
            if isinstance(m, nn.Conv2d | nn.BatchNorm2d | nn.Linear)
        ]
        assert [[type(m).__name__, list(m.weight.shape)] for m in layers] == entry["aux_layers"]
        main = MainLogits(fill_weights(model))
        enable_tower(model)
        out, macs = run_and_count(main, make_inputs(entry["input_shape"]))
        assert macs == entry["macs"]
        assert [list(out.shape), list(main.auxiliary_logits.shape)] == entry["output_shape"]
        check_output(out, entry["fwd"])


def enable_tower(model: nn.Module) -> None:
    """Set training mode, in which the tower runs, but norms to evaluation mode, as for golden values."""
    model.train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()


# Parameters and multiply-adds of a public list of genotypes that SPACES.md cites in section 4.
PUBLISHED = {
    "DARTS_V2": (3.3e6, 528e6),
    "SNAS_mild": (2.66e6, 422e6),
    "PDARTS": (3.43e6, 532e6),
    "PCDARTS_C10": (3.63e6, 558e6),
    "GDAS_V1": (3.36e6, 519e6),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_networks_for_cifar_have_the_published_counts(name: str):
    """Published counts do not include the auxiliary tower."""
    published, flops = PUBLISHED[name]
    model = CIFAR.build(CIFAR.parse(format_genotype(name)), device="meta").eval()
    assert count_params(model) == pytest.approx(published, rel=0.015)
    assert run_and_count(model, torch.zeros(1, 3, 32, 32, device="meta"))[1] == pytest.approx(
        flops, rel=0.003
    )


@pytest.mark.parametrize(
    ("name", "published"), [("DARTS_V2", 4.7), ("PDARTS", 4.9), ("PCDARTS_IN1K", 5.3)]
)
def test_networks_for_imagenet_have_the_published_counts(name: str, published: float):
    model = IMAGENET.build(
        IMAGENET.parse(format_genotype(name)), Task("imagenet", (3, 224, 224), 1000), device="meta"
    )
    assert round(count_params(model) / 1e6, 1) == published


def test_networks_have_the_exact_counts_of_spaces_md():
    """The counts are in section 4 of SPACES.md."""
    exact = {
        "DARTS_V2": 3349342,
        "SNAS_mild": 2661382,
        "PDARTS": 3433798,
        "PCDARTS_C10": 3634678,
        "GDAS_V1": 3368782,
    }
    assert {
        n: count_params(CIFAR.build(CIFAR.parse(format_genotype(n)), device="meta")) for n in exact
    } == exact
    large = {"DARTS_V2": 4718752, "PDARTS": 4944352, "PCDARTS_IN1K": 5342464}
    task = Task("i", (3, 224, 224), 1000)
    assert {
        n: count_params(IMAGENET.build(IMAGENET.parse(format_genotype(n)), task, device="meta"))
        for n in large
    } == large
    tower = (
        CIFAR.with_options(auxiliary=True)
        .build(CIFAR.parse(format_genotype("DARTS_V2")), device="meta")
        .auxiliary
    )
    assert count_params(tower) == 476426


def test_networks_have_the_parameters_of_nas_bench_301():
    """NASLib published the parameters of 1,225 networks; every 25th is compared.

    They have 32 channels and 8 cells. Their norms on edges have no affine parameters, which are 2
    per channel in ours.
    """
    space = darts.with_options(channels=32, cells=8)
    with gzip.open(find_shared("data", "nasbench301", "nb301_zc12_acc.csv.gz"), "rt") as file:
        rows = list(csv.DictReader(file))[::25]
    assert len(rows) == 49
    for row in rows:
        normal, reduce = (
            [(OPERATIONS[1 + op], source) for source, op in cell]
            for cell in ast.literal_eval(row["arch"])
        )
        cells = {"normal": normal, "normal_concat": NODES, "reduce": reduce, "reduce_concat": NODES}
        model = space.build(space.parse(format_genotype(cells)), device="meta")
        params = count_params(model)
        for cell in model.cells:
            for module in cell.edges.modules():
                if isinstance(module, nn.BatchNorm2d):
                    params -= count_params(module)
        assert params == round(1e6 * float(row["params"]))


def test_the_trained_genotypes_of_swap_are_parsed():
    """They contain `none` and nodes with equal sources, which we never sample."""
    with gzip.open(find_shared("data", "darts", "darts1000_cifar10.csv.gz"), "rt") as file:
        rows = [row["genotype"] for row in csv.DictReader(file)]
    assert len(rows) == 1000
    for text in rows:
        arch = darts.parse(text)
        assert darts.parse(str(arch)) == arch
        assert sorted(re.findall(r"\('\w+', \d\)", str(arch))) == sorted(
            re.findall(r"\('\w+', \d\)", text)
        )


# ------------------------------------------------------------------------------------------------------------ supernets


def parse_options(name: str) -> dict[str, Any]:
    """Return the options of a supernet such as `supernet s5 nettype=imagenet C=16 L=8`."""
    match = re.search(r"C=(\d+) L=(\d+)", name)
    channels, cells = map(int, match.groups()) if match else (16, 8)
    return {
        "channels": channels,
        "cells": cells,
        "stem": "imagenet_search" if "imagenet" in name else "cifar",
    }


def test_supernets_equal_the_official_ones():
    """The supernets of Zero-Cost-PT with uniform and with one-hot weights.

    With one-hot weights the other operations must not run, as the multiply-adds show.
    """
    entries = read_golden_file()["darts_supernet"]["archs"]
    assert len(entries) == 14
    for entry in entries:
        net = darts.with_options(
            operations=entry["space"], **parse_options(entry["name"])
        ).supernet(make_task(entry))
        hot = re.search(r"one-hot (\w+)", entry["name"])
        if hot:
            net.mixture = {
                name: torch.tensor([float(op == hot[1]) for op in ops])
                for name, ops in net.options.items()
            }
        check_network(net, entry)


def test_the_operations_of_every_edge_are_the_official_ones():
    """In S1 each edge has its own pair. The file has one list for all edges or one per edge."""
    for entry in read_golden_file()["darts_supernet"]["archs"]:
        if "primitives_normal" not in entry:
            continue
        options = darts.with_options(operations=entry["space"]).supernet().options
        for kind, operations in (
            ("normal", entry["primitives_normal"]),
            ("reduce", entry["primitives_reduct"]),
        ):
            per_edge = operations if isinstance(operations[0], list) else [operations] * 14
            assert [list(ops) for name, ops in options.items() if name.startswith(kind)] == per_edge


def test_supernets_have_the_published_numbers_of_parameters():
    """The numbers are in section 4 of SPACES.md. The code of DARTS prints 1.930618 M."""
    expected = {
        "darts": 1930618,
        "darts8": 1930618,
        "s1": 405146,
        "s2": 665466,
        "s3": 665466,
        "s4": 624506,
        "s6": 767866,
    }
    assert {
        name: count_params(darts.with_options(operations=name).supernet(device="meta"))
        for name in expected
    } == expected


# ----------------------------------------------------------------------------------------------------------------- HNAS


def test_hnas_never_samples_dil_conv_5x5():
    """Its sampler returned 48,000 operations without it.

    All its samples are in our space `darts(operations=hnas)`.
    """
    op_counts = read_golden_file()["darts"]["hnas_sampler_op_counts_3000_draws_seed123"]
    assert sum(op_counts.values()) == 3000 * 16
    hnas = darts.with_options(operations="hnas")
    decisions = hnas.list_decisions(lambda _, options: options[0])
    assert {frozenset(decision.options) for decision in decisions if "_op" in decision.name} == {
        frozenset(op_counts)
    }
    draws = [
        entry["genotype"]
        for entry in read_golden_file()["darts"]["hnas_C16_L5"]
        if "draw" in entry["name"]
    ]
    assert len(draws) == 6
    for draw in draws:
        assert hnas.parse(format_genotype(draw)).genes == darts.parse(format_genotype(draw)).genes
