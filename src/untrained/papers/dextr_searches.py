"""Dextr (Asthana et al.): its three searches for ImageNet, with what they find and what they cost.

DARTS by Zero-Cost-PT, AutoFormer by sampling, MobileNetV2 by evolution. What is found is written out; the trainings on
ImageNet that the paper's errors come from are not run.
"""

from dataclasses import replace

import numpy as np

from untrained.data import load
from untrained.papers.dextr import PAPER
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import capped, images_of, measure
from untrained.papers.searches import Found, Hunt, searched
from untrained.reports.reproduction_facts import TableLine
from untrained.spaces import load_space
from untrained.spaces.autoformer.counts import count_flops as count_autoformer_flops
from untrained.strategies.limits import Size
from untrained.types import Task

PROXY = "dextr"
IMAGENET = Task("imagenet", (3, 224, 224), 1000)
DAY = 86_400.0
DARTS, FINAL = "darts", "darts(channels=48,cells=14,stem=imagenet)"  # searched, and trained on ImageNet
PROPOSAL = "zerocost_pt(preset=dextr,proposals=1)"
AUTOFORMER = {"tiny": ("autoformer_tiny", "6M"), "small": ("autoformer_small", "24M")}
MOBILENET = "mobilenetv2(max_layers=14,replacements=2)"
EVOLUTION = "evolution(preset=zennas)"
ITERATIONS = 100_000  # of the paper's evolution

# parameters (M), multiply-adds (G), days
TABLE_2 = (6.6, 0.07)
TABLE_3 = {"tiny": (5.8, 1.36, 0.03), "small": (23.0, 4.93, 0.07)}
TABLE_8 = (457.0, 0.6)  # multiply-adds (M), days

NOT_TRAINED = "Nothing is trained on ImageNet here, so the errors of this table are left out."
COST = "Search costs are days of one device: the paper's is an RTX A6000, ours that of the command ({device})."


def _said(effort: ExperimentConfig, *said: str) -> tuple[str, ...]:
    trial = f"Networks look at no more than {effort.batch} samples: this is a trial." if effort.batch else ""
    return (*said, NOT_TRAINED, COST.format(device=effort.compute.device), trial)


@experiment("dextr-table-2-search", PAPER, "Dextr's search of DARTS by Zero-Cost-PT", "", needs=(), seeds=10)
def table_2(effort: ExperimentConfig) -> Findings:
    """Table 2: the network that Dextr finds in DARTS's space by Zero-Cost-PT has 6.6 M parameters, is found in 0.07 GPU
    days, and has a top-1 error of 24.6 % and a top-5 error of 7.4 % on ImageNet."""
    data = images_of("cifar10", effort.data_root) or "digits"
    found = searched(effort, [Hunt(DARTS, PROPOSAL, data, seed) for seed in range(effort.seeds)], "proposals")
    archs = list(dict.fromkeys(each.arch for each in found))
    source = load(data, load_space(DARTS).task, effort.data_root)
    scores = measure(replace(effort, seeds=1), ["dextr"], DARTS, archs, source, "validation")["dextr"][0]
    if np.isnan(scores).all():
        return Findings((TableLine("ImageNet network, parameters, M", TABLE_2[0], None, note="nothing has a score"),),
                        _said(effort))  # fmt: skip
    best = archs[int(np.nanargmax(scores))]
    final = load_space(FINAL)
    size = Size(final, final.parse(str(best)), IMAGENET)
    cost = sum(each.seconds for each in found)
    return Findings((
        TableLine("ImageNet network, parameters, M", TABLE_2[0], size.params / 1e6, note=str(best)),
        TableLine("ImageNet network, multiply-adds, M", None, size.flops / 1e6),
        TableLine("dextr of the best proposal", None, float(np.nanmax(scores))),
        TableLine("dextr of the mean proposal", None, float(np.nanmean(scores))),
        TableLine("search cost, days", TABLE_2[1], cost / DAY, note=f"{len(found)} proposals, {len(archs)} different"),
    ), _said(
        effort,
        f"Each of {effort.seeds} proposals is a search by its own seed, so with a supernet of its own; the paper's ten "
        "share one. The best of them by dextr, all with the same seed, is the found one. Costs are added up.",
        "The network for ImageNet has 48 channels and 14 cells and is counted without its auxiliary tower.",
        "" if data != "digits" else "The supernet looks at digits, since CIFAR-10 is not under the data root.",
    ))  # fmt: skip


@experiment("dextr-table-3-search", PAPER, "Dextr's search of AutoFormer by sampling", "", needs=())
def table_3(effort: ExperimentConfig) -> Findings:
    """Table 3: the best by Dextr of 1000 vision transformers of AutoFormer's spaces tiny (at most 6 M parameters) and
    small (24 M), its parameters and FLOPs, the cost of the search, and top-1 errors of 23.7 and 18.0 % on ImageNet."""
    lines: list[TableLine] = []
    for label, (space, most) in AUTOFORMER.items():
        best = _best(effort, Hunt(space, "random", _pictures(effort), proxy=capped(PROXY, effort.batch),
                                  budget=effort.samples, max_params=most), label)  # fmt: skip
        counted = count_autoformer_flops(load_space(space), best.arch, variant="published")
        params, flops, days = TABLE_3[label]
        lines += [
            TableLine(f"{label}, parameters, M", params, best.measured["params"] / 1e6, note=str(best.arch)),
            TableLine(f"{label}, FLOPs, G", flops, counted / 1e9),
            TableLine(f"{label}, search cost, days", days, best.seconds / DAY, note=f"{best.judged:,} judged"),
        ]
    return Findings(tuple(lines), _said(
        effort,
        f"{effort.samples:,} architectures within the limit are judged in each space, drawn at random.",
        "FLOPs are counted as AutoFormer's own code does.",
        "Every network has random weights of its own; the authors cut them out of one untrained supernet.",
        _looked(effort),
    ))  # fmt: skip


@experiment("dextr-table-8-search", PAPER, "Dextr's search of MobileNetV2 by evolution", "", needs=(), samples=2000)
def table_8(effort: ExperimentConfig) -> Findings:
    """Table 8: the network that Dextr finds in the MobileNetV2 space by 10^5 iterations of evolution under 450 M FLOPs
    has 457 M of them, is found in 0.6 GPU days, and has a top-1 accuracy of 78.8 % on ImageNet."""
    best = _best(effort, Hunt(MOBILENET, EVOLUTION, _pictures(effort), proxy=capped(PROXY, effort.batch),
                              budget=effort.samples, max_flops="450M"), "evolution")  # fmt: skip
    days = best.seconds / DAY
    return Findings((
        TableLine("FLOPs, M", TABLE_8[0], best.measured["flops"] / 1e6, note=str(best.arch)),
        TableLine("parameters, M", None, best.measured["params"] / 1e6),
        TableLine(f"search cost of {best.judged:,} networks, days", None, days),
        TableLine("search cost of 100,000 networks, days", TABLE_8[1], days / best.judged * ITERATIONS,
                  note="extrapolated"),
    ), _said(
        effort,
        f"Evolution judges {effort.samples:,} networks; the paper's makes {ITERATIONS:,} iterations.",
        "No network beyond 450 M FLOPs is judged; the paper's has 457 M, so its limit or its count is another.",
        _looked(effort),
    ))  # fmt: skip


def _best(effort: ExperimentConfig, hunt: Hunt, stage: str) -> Found:
    return searched(effort, [hunt], stage)[0]


def _pictures(effort: ExperimentConfig) -> str:
    found = (images_of(name, effort.data_root) for name in ("imagenet", "photos"))
    return next(filter(None, found), "noise")


def _looked(effort: ExperimentConfig) -> str:
    shown = _pictures(effort)
    seen = {"photos": "crops of two photographs", "noise": "noise"}
    return f"Networks look at {seen[shown]}, since ImageNet is not at hand." if shown in seen else ""
