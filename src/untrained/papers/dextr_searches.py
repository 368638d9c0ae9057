"""Dextr (Asthana et al.): the results and the cost of its three searches for ImageNet.

The searches are DARTS by Zero-Cost-PT, AutoFormer by sampling and MobileNetV2 by evolution. The
winners are reported, but not trained on ImageNet, so there are no errors to compare.
"""

from dataclasses import replace

import numpy as np

from untrained.data import load_data
from untrained.papers.dextr import PAPER
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import (
    describe_substitute,
    describe_trial,
    find_cifar10,
    find_images,
    limit_samples,
    measure_archs,
)
from untrained.papers.searches import SearchOutcome, SearchPlan, run_searches
from untrained.reports.reproduction_result import TableLine
from untrained.spaces import load_space
from untrained.spaces.autoformer.counts import count_flops as count_autoformer_flops
from untrained.strategies.limits import NetworkSize
from untrained.types import Task

PROXY = "dextr"
IMAGENET = Task("imagenet", (3, 224, 224), 1000)
SECONDS_PER_DAY = 86_400.0
DARTS = "darts"  # the space that is searched
DARTS_IMAGENET = "darts(channels=48,cells=14,stem=imagenet)"  # the network for ImageNet
ZEROCOST_PT = "zerocost_pt(preset=dextr,proposals=1)"  # the strategy
# Space and largest number of parameters of both searches of Table 3.
AUTOFORMER = {"tiny": ("autoformer_tiny", "6M"), "small": ("autoformer_small", "24M")}
MOBILENET = "mobilenetv2(max_layers=14,replacements=2)"
EVOLUTION = "evolution(preset=zennas)"  # the strategy
ITERATIONS = 100_000  # of the paper's evolution

TABLE_2 = (6.6, 0.07)  # parameters (M), days
# parameters (M), FLOPs (G), days
TABLE_3 = {"tiny": (5.8, 1.36, 0.03), "small": (23.0, 4.93, 0.07)}
TABLE_8 = (457.0, 0.6)  # multiply-adds (M), days

NOT_TRAINED_NOTE = (
    "The winners are not trained on ImageNet, so the errors of this table are left out."
)
COST_NOTE = "Search costs are days on one device: an RTX A6000 in the paper, {device} here."


def _list_deviations(config: ExperimentConfig, *deviations: str) -> tuple[str, ...]:
    """Return these deviations and those that all three searches share."""
    return (
        *deviations,
        NOT_TRAINED_NOTE,
        COST_NOTE.format(device=config.compute.device),
        describe_trial(config),
    )


@experiment(
    "dextr-table-2-search",
    PAPER,
    "Search of the DARTS space with Zero-Cost-PT, scored by Dextr",
    "",
    needs=(),
    seeds=10,
    better="",
)
def table_2(config: ExperimentConfig) -> Findings:
    """Table 2: by Zero-Cost-PT in the space of DARTS, Dextr finds in 0.07 GPU days a network with
    6.6 M parameters, a top-1 error of 24.6 % and a top-5 error of 7.4 % on ImageNet."""
    published_params, published_days = TABLE_2
    data = find_cifar10(config)
    plans = [SearchPlan(DARTS, ZEROCOST_PT, data, seed) for seed in range(config.seeds)]
    outcomes = run_searches(config, plans, "proposals")
    # Several proposals may be the same architecture.
    archs = list(dict.fromkeys(outcome.arch for outcome in outcomes))
    source = load_data(data, load_space(DARTS).task, config.data_root)
    # All proposals are compared with the same seed.
    one_seed = replace(config, seeds=1)
    scores = measure_archs(one_seed, ["dextr"], DARTS, archs, source, "validation")["dextr"][0]
    params_label = "ImageNet network, parameters, M"
    if np.isnan(scores).all():
        line = TableLine(params_label, published_params, None, note="no proposal has a score")
        return Findings((line,), _list_deviations(config))
    best = archs[int(np.nanargmax(scores))]
    space = load_space(DARTS_IMAGENET)
    # The search uses a small network; the paper counts the parameters of the large one.
    size = NetworkSize(space, space.parse(str(best)), IMAGENET)
    days = sum(outcome.seconds for outcome in outcomes) / SECONDS_PER_DAY
    cost_note = f"{len(outcomes)} proposals, {len(archs)} different"
    lines = (
        TableLine(params_label, published_params, size.params / 1e6, note=str(best)),
        TableLine("ImageNet network, multiply-adds, M", None, size.flops / 1e6),
        TableLine("dextr of the best proposal", None, float(np.nanmax(scores))),
        TableLine("mean dextr of all proposals", None, float(np.nanmean(scores))),
        TableLine("search cost, days", published_days, days, note=cost_note),
    )
    deviations = _list_deviations(
        config,
        f"Each of {config.seeds} proposals is a search with its own seed and its own supernet; "
        "the paper's ten share one supernet. The best proposal by dextr, all with the same seed, "
        "wins. Costs are summed.",
        "The network for ImageNet has 48 channels and 14 cells and is counted without its "
        "auxiliary tower.",
        describe_substitute(data, "Supernets"),
    )
    return Findings(lines, deviations)


@experiment(
    "dextr-table-3-search",
    PAPER,
    "Dextr's search of AutoFormer by sampling",
    "",
    needs=(),
    better="",
)
def table_3(config: ExperimentConfig) -> Findings:
    """Table 3: Dextr selects the best of 1,000 vision transformers in each of AutoFormer's spaces
    tiny (at most 6 M parameters) and small (24 M). The paper states their parameters and FLOPs, the
    cost of the search, and top-1 errors of 23.7 and 18.0 % on ImageNet."""
    data = _find_imagenet_images(config)
    lines: list[TableLine] = []
    for label, (space, max_params) in AUTOFORMER.items():
        plan = SearchPlan(
            space,
            "random",
            data,
            proxy=limit_samples(PROXY, config.batch),
            budget=config.samples,
            max_params=max_params,
        )
        best = _run_search(config, plan, label)
        flops = count_autoformer_flops(load_space(space), best.arch, variant="published")
        published_params, published_flops, published_days = TABLE_3[label]
        params = best.scores["params"] / 1e6
        days = best.seconds / SECONDS_PER_DAY
        cost_note = f"{best.scored_count:,} architectures scored"
        lines += [
            TableLine(f"{label}, parameters, M", published_params, params, note=str(best.arch)),
            TableLine(f"{label}, FLOPs, G", published_flops, flops / 1e9),
            TableLine(f"{label}, search cost, days", published_days, days, note=cost_note),
        ]
    deviations = _list_deviations(
        config,
        f"{config.samples:,} architectures within the limit are scored in each space, drawn at "
        "random.",
        "FLOPs are counted as AutoFormer's own code does.",
        "Every network is initialised separately; the authors take all weights from one untrained "
        "supernet.",
        _describe_images(data),
    )
    return Findings(tuple(lines), deviations)


@experiment(
    "dextr-table-8-search",
    PAPER,
    "Dextr's search of MobileNetV2 by evolution",
    "",
    needs=(),
    samples=2000,
    better="",
)
def table_8(config: ExperimentConfig) -> Findings:
    """Table 8: by 10^5 iterations of evolution in the MobileNetV2 space, with a limit of 450 M
    FLOPs, Dextr finds in 0.6 GPU days a network with 457 M FLOPs and a top-1 accuracy of 78.8 % on
    ImageNet."""
    published_flops, published_days = TABLE_8
    data = _find_imagenet_images(config)
    plan = SearchPlan(
        MOBILENET,
        EVOLUTION,
        data,
        proxy=limit_samples(PROXY, config.batch),
        budget=config.samples,
        max_flops="450M",
    )
    best = _run_search(config, plan, "evolution")
    flops = best.scores["flops"] / 1e6
    params = best.scores["params"] / 1e6
    days = best.seconds / SECONDS_PER_DAY
    # The paper's number of iterations would take too long, so its cost is extrapolated.
    extrapolated_days = days / best.scored_count * ITERATIONS
    cost_label = "search cost of 100,000 networks, days"
    lines = (
        TableLine("FLOPs, M", published_flops, flops, note=str(best.arch)),
        TableLine("parameters, M", None, params),
        TableLine(f"search cost of {best.scored_count:,} networks, days", None, days),
        TableLine(cost_label, published_days, extrapolated_days, note="extrapolated"),
    )
    deviations = _list_deviations(
        config,
        f"Evolution scores {config.samples:,} networks; in the paper it takes {ITERATIONS:,} "
        "iterations.",
        "We score no network with more than 450 M FLOPs. The winner of the paper has 457 M, so "
        "its limit or its way of counting differs.",
        _describe_images(data),
    )
    return Findings(lines, deviations)


def _run_search(config: ExperimentConfig, plan: SearchPlan, stage: str) -> SearchOutcome:
    return run_searches(config, [plan], stage)[0]


def _find_imagenet_images(config: ExperimentConfig) -> str:
    """Return the name of the data source for ImageNet, or of the best substitute."""
    for name in ("imagenet", "photos"):
        data = find_images(name, config.data_root)
        if data:
            return data
    return "noise"


def _describe_images(data: str) -> str:
    substitutes = {"photos": "crops of two photographs", "noise": "noise"}
    if data not in substitutes:
        return ""
    return f"Networks see {substitutes[data]}, because ImageNet is not available."
