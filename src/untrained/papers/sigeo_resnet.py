"""SiGeo (Zhou et al., arXiv:2311.13169), Table 4: residual networks of at most a million parameters, found by SiGeo and
by ZiCo. The search is done here; the trainings of its winners are not.
"""

from dataclasses import asdict
from pathlib import Path

import numpy as np

from untrained.benchmarks.statistics import spearman
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import capped, images_of
from untrained.papers.sigeo import PAPER
from untrained.papers.table_lines import grid, line
from untrained.proxies import load_proxy
from untrained.reports.reproduction_facts import TableLine
from untrained.strategies.search import Result, search
from untrained.studies._judge import column

SPACE = "zen_resnet(max_layers=18)"
LIMIT = "1M"
POPULATION = 512
PROXIES = {"sigeo": "sigeo", "zico": "zico(batches=4,samples=256)"}  # four batches of 64

# accuracy in per cent on CIFAR-10 and on CIFAR-100
TABLE_4 = grid("""
zico   96.96 81.12
sigeo  97.01 81.19
""")


@experiment("sigeo-table-4-search", PAPER, "Residual networks of a million parameters: the search by SiGeo and by ZiCo",
      "millions, %", needs=(), samples=1000)  # fmt: skip
def table_4(effort: ExperimentConfig) -> Findings:
    """Table 4: accuracy on CIFAR-10 and CIFAR-100 of the residual networks with at most a million parameters that
    evolution finds by SiGeo and by ZiCo, without warm-up."""
    images = images_of("cifar10", effort.data_root) or "digits"
    found = {name: _searched(effort, name, images) for name in PROXIES}
    lines = [each for name, result in found.items() for each in (_size(name, result), _agreement(effort, name, result))]
    for name, numbers in TABLE_4.items():
        for dataset, number in zip(("CIFAR-10", "CIFAR-100"), numbers, strict=True):
            lines.append(TableLine(f"{name}, accuracy on {dataset}, %", number, None, note="the training is not run"))
    train = f"untrained train {effort.folder / 'sigeo'} --recipe zen-cifar"
    return Findings(tuple(lines), (
        f"The winners are not trained: the paper trains for 1,440 epochs, with AutoAugment and a large network as "
        f"teacher. A training without these two: {train}.",
        f"Evolution judges {effort.samples:,} networks of at most {LIMIT} parameters; the paper judges 480,000, with "
        f"the same population of {POPULATION}.",
        "Only SiGeo and ZiCo are searched by: the other six columns are adapted from ZenNAS in the paper, too.",
        f"Networks look at {'digits' if images == 'digits' else 'CIFAR-10'}; one search serves both data sets, since "
        f"the space is the same.",
        f"Networks look at no more than {effort.batch} samples: this is a trial." if effort.batch else "",
    ))  # fmt: skip


def _searched(effort: ExperimentConfig, name: str, images: str) -> Result:
    """The search by one of the two, with the other recorded beside it."""
    ours, other = (capped(PROXIES[each], effort.batch) for each in (name, _other(name)))
    return search(
        SPACE,
        ours,
        f"evolution(preset=zennas,population={POPULATION})",
        effort.samples,
        images,
        beside=other,
        max_params=LIMIT,
        seeds=effort.seeds,
        run=Path(effort.folder, name),
        data_root=effort.data_root,
        watch=effort.on_progress,
        **asdict(effort.compute),
    )


def _other(name: str) -> str:
    return next(each for each in PROXIES if each != name)


def _size(name: str, found: Result) -> TableLine:
    what = f"search by {name}, parameters of the winner, millions"
    sizes = {r.arch: r.value for r in found.records if r.proxy == "params"}
    size = sizes.get(found.best) if found.ranking.standings else None
    return TableLine(
        what, None, None if size is None else size / 1e6, note=str(found.best) if size else "nothing scored"
    )


def _agreement(effort: ExperimentConfig, name: str, found: Result) -> TableLine:
    """How alike the two rank what was judged: SiGeo without warm-up is ZiCo and one more term."""
    archs = list(dict.fromkeys(record.arch for record in found.records))
    both = [load_proxy(capped(PROXIES[each], effort.batch)).measure for each in PROXIES]
    x, y = (np.array(column(found.records, m, archs, range(effort.seeds))[0], dtype=np.float64) for m in both)
    return line(f"search by {name}, Spearman of sigeo and zico among all judged", None, spearman, x, y)
