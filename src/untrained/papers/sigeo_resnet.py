"""SiGeo (Zhou et al., arXiv:2311.13169), Table 4: residual networks found by SiGeo and by ZiCo.

The networks have at most a million parameters. The searches are run; the winners are not trained.
"""

from dataclasses import asdict
from pathlib import Path

import numpy as np

from untrained.benchmarks.comparison import collect_scores
from untrained.benchmarks.statistics import spearman
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import (
    SUBSTITUTE,
    describe_trial,
    find_cifar10,
    limit_samples,
)
from untrained.papers.sigeo import PAPER
from untrained.papers.table_lines import make_correlation_line, parse_table
from untrained.proxies import load_proxy
from untrained.reports.reproduction_result import TableLine
from untrained.workflows.search import SearchResult, search

SPACE = "zen_resnet(max_layers=18)"
MAX_PARAMS = "1M"
POPULATION = 512
PROXIES = {"sigeo": "sigeo", "zico": "zico(batches=4,samples=256)"}  # four batches of 64

# accuracy in per cent on CIFAR-10 and on CIFAR-100
TABLE_4 = parse_table("""
zico   96.96 81.12
sigeo  97.01 81.19
""")


@experiment(
    "sigeo-table-4-search",
    PAPER,
    "Searches for residual networks of a million parameters by SiGeo and by ZiCo",
    "millions, %",
    needs=(),
    samples=1000,
)
def table_4(config: ExperimentConfig) -> Findings:
    """Table 4: accuracy on CIFAR-10 and CIFAR-100 of the residual networks with at most a million
    parameters that evolution finds by SiGeo and by ZiCo, without warm-up."""
    images = find_cifar10(config)
    lines = []
    for name in PROXIES:
        result = _run_search(config, name, images)
        lines.append(_make_size_line(name, result))
        lines.append(_make_agreement_line(config, name, result))
    for name, numbers in TABLE_4.items():
        for dataset, number in zip(("CIFAR-10", "CIFAR-100"), numbers, strict=True):
            what = f"{name}, accuracy on {dataset}, %"
            lines.append(TableLine(what, number, None, note="not trained"))
    train_command = f"untrained train {config.folder / 'sigeo'} --recipe zen-cifar"
    images_name = images if images == SUBSTITUTE else "CIFAR-10"
    deviations = (
        "The winners are not trained: the paper trains for 1,440 epochs, with AutoAugment and a "
        f"large network as teacher. A training without these two: {train_command}.",
        f"Evolution scores {config.samples:,} networks of at most {MAX_PARAMS} parameters; the "
        f"paper scores 480,000, with the same population of {POPULATION}.",
        "Only the columns of SiGeo and ZiCo are reproduced; the paper takes the other six from "
        "ZenNAS.",
        f"Networks see {images_name}; one search is used for both data sets, because the space is "
        "the same.",
        describe_trial(config),
    )
    return Findings(tuple(lines), deviations)


def _run_search(config: ExperimentConfig, name: str, images: str) -> SearchResult:
    """Search by one of the two proxies and record the scores of the other one."""
    # The other proxy does not guide the search; it is recorded for the comparison.
    other_name = "zico" if name == "sigeo" else "sigeo"
    return search(
        SPACE,
        proxy=limit_samples(PROXIES[name], config.batch),
        strategy=f"evolution(preset=zennas,population={POPULATION})",
        budget=config.samples,
        data=images,
        also=limit_samples(PROXIES[other_name], config.batch),
        limits={"params": MAX_PARAMS},
        seeds=config.seeds,
        run=Path(config.folder, name),
        data_root=config.data_root,
        on_progress=config.on_progress,
        **asdict(config.compute),
    )


def _make_size_line(name: str, result: SearchResult) -> TableLine:
    """Return the number of parameters of the winner."""
    what = f"search by {name}, parameters of the winner, millions"
    size = None
    if result.ranking.standings:
        for record in result.records:
            if record.proxy == "params" and record.arch == result.best:
                size = record.value
    if not size:
        return TableLine(what, None, None, note="nothing scored")
    return TableLine(what, None, size / 1e6, note=str(result.best))


def _make_agreement_line(config: ExperimentConfig, name: str, result: SearchResult) -> TableLine:
    """Correlate the two proxies; SiGeo without warm-up is ZiCo plus one more term."""
    # Every architecture has several records. Each architecture is listed once, in search order.
    archs = list(dict.fromkeys(record.arch for record in result.records))
    scores = []
    for call in PROXIES.values():
        measure = load_proxy(limit_samples(call, config.batch)).measure
        scores_by_seed, _ = collect_scores(result.records, measure, archs, range(config.seeds))
        scores.append(np.array(scores_by_seed, dtype=np.float64))
    sigeo_scores, zico_scores = scores
    what = f"search by {name}, Spearman of sigeo and zico among all scored"
    return make_correlation_line(what, None, spearman, sigeo_scores, zico_scores)
