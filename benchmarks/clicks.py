"""Does the winner of a search beat hand-made networks on data with known probabilities?

The search runs on `clicks`, a synthetic log with interactions. Its winner and the hand-made networks are trained on the
same rows with the same recipe; validation selects the learning rate of each from three.

    python benchmarks/clicks.py [--seeds 0 1 2 3 4] [--rows 100000] [--workers 5] [--device cpu] [--run FOLDER]

Each seed has another log, other samples of the space and other weights, in a separate process with one thread.
The space has networks of three blocks without norms and with at most 100,000 parameters (with the published norms:
--space "nasrec_small(blocks=3)"); the hand-made networks have 200 to 40,000. The table shows log loss and AUC on the
test rows, mean and deviation over seeds, and by how much the AUC of the winner is higher in the same seed, with
Student's 95 % interval of the mean. The first row is the ground truth: the probabilities from which the clicks were
drawn, which no network can beat. The same command resumes.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import sqrt
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev

import torch

from untrained.data import TEST, load_data
from untrained.data.clicks import generate_clicks
from untrained.reports.confirmation_result import SEARCHED, DesignResult
from untrained.runs.ranking import compute_t_quantile
from untrained.training.ctr_designs import CTR_DESIGNS
from untrained.training.ctr_metrics import compute_click_metrics
from untrained.types import Task
from untrained.workflows.search import search

TRUTH = "ground truth"
HEAD = (
    "network",
    "log loss",
    "AUC",
    "AUC of the found network minus this",
    "95 % interval",
    "seeds where it is higher",
    "learning rates",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--space", default="nasrec_small(blocks=3,norms=False)")
    parser.add_argument("--proxy", default="sigeo")
    parser.add_argument("--max-params", default="100k")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--confirm", type=int, default=15)
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--run", type=Path, default=Path("runs/benchmark-clicks"))
    options = parser.parse_args()
    with ProcessPoolExecutor(
        options.workers, get_context("spawn"), torch.set_num_threads, (1,)
    ) as pool:
        results = list(pool.map(partial(run_seed, options), options.seeds))
    print(
        f"{options.space} by {options.proxy}: best of {options.budget}, {options.rows:,} rows, seeds {options.seeds}\n"
    )
    print(f"| {' | '.join(HEAD)} |\n|" + "---|" * len(HEAD))
    for name in (TRUTH, SEARCHED, *CTR_DESIGNS):
        print(format_row(name, results))


def run_seed(options: argparse.Namespace, seed: int) -> dict[str, DesignResult]:
    """Run one seed; return the results of the winner and of the hand-made networks by name."""
    result = search(
        options.space,
        options.proxy,
        budget=options.budget,
        data=f"clicks:rows={options.rows},seed={seed}",
        confirm=options.confirm,
        limits={"params": options.max_params},
        seed=seed,
        device=options.device,
        workers=1,
        run=options.run / f"seed{seed}",
    )
    if result.confirmed is None:
        raise SystemExit(f"seed {seed}: no training finished; see {result.report()}")
    print(
        "\n".join((f"seed {seed}: {result.confirmed.winner}", *result.confirmed.sentences)),
        flush=True,
    )
    return {
        entry.name: entry
        for entry in (measure_truth(options.rows, seed), *result.confirmed.entries)
    }


def measure_truth(rows: int, seed: int) -> DesignResult:
    """Evaluate the logits from which the clicks were drawn on the test rows."""
    (test,) = (
        load_data(f"clicks:rows={rows},seed={seed}", Task("any", (1,), 1)).parts[TEST].batches(rows)
    )
    metrics = compute_click_metrics(
        generate_clicks(rows, seed)[2][-len(test) :], test.targets.double().numpy()
    )
    return DesignResult(TRUTH, loss=metrics.log_loss, quality=metrics.auc)


def format_row(name: str, results: list[dict[str, DesignResult]]) -> str:
    losses, aucs = (
        [value for entries in results if (value := getattr(entries[name], key)) is not None]
        for key in ("loss", "quality")
    )
    pairs = [(entries[SEARCHED].quality, entries[name].quality) for entries in results]
    gains = [
        ours - theirs
        for ours, theirs in pairs
        if ours is not None and theirs is not None and name != SEARCHED
    ]
    higher = f"{sum(value > 0 for value in gains)} of {len(gains)}" if gains else ""
    rates = ", ".join(f"{rate:g}" for entries in results if (rate := entries[name].rate))
    mean_gain = f"{fmean(gains):+.4f}" if gains else ""
    return f"| {name} | {format_mean(losses)} | {format_mean(aucs)} | {mean_gain} | {format_interval(gains)} | {higher} | {rates} |"


def format_mean(values: list[float]) -> str:
    """Format the mean and, if there are several values, their deviation."""
    deviation = f" \u00b1 {stdev(values):.4f}" if len(values) > 1 else ""
    return f"{fmean(values):.4f}{deviation}" if values else ""


def format_interval(values: list[float]) -> str:
    if len(values) < 2:
        return ""
    mean = fmean(values)
    half = compute_t_quantile(len(values)) * stdev(values) / sqrt(len(values))
    return f"{mean - half:+.4f} to {mean + half:+.4f}"


if __name__ == "__main__":
    main()
