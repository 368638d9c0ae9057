"""Does the winner of a search beat hand-designed networks on data with known probabilities?

The search runs on `clicks`, a synthetic log with interactions. Its winner and the hand-designed networks are trained
on the same rows with the same recipe; validation selects the learning rate of each from three.

    python benchmarks/clicks.py [--seeds 0 1 2 3 4] [--rows 100000] [--workers 5] [--device cpu] [--run FOLDER]

Each seed has another log, other samples of the space and other weights, in a separate process with one thread.
The space has networks of three blocks without norms and with at most 100,000 parameters (with the published norms:
--space "nasrec_small(blocks=3)"); the hand-designed networks have 200 to 40,000. The table shows log loss and AUC on the
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
from untrained.reports.confirmation_result import BEST_OF_SEARCH, DesignResult
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
    "AUC of the best of the search minus this AUC",
    "95 % interval of the mean",
    "seeds in which the best of the search is better",
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
    # Every process computes with one thread.
    pool = ProcessPoolExecutor(
        options.workers,
        mp_context=get_context("spawn"),
        initializer=torch.set_num_threads,
        initargs=(1,),
    )
    with pool:
        results = list(pool.map(partial(run_seed, options), options.seeds))
    print(
        f"{options.space} by {options.proxy}: best of {options.budget}, {options.rows:,} rows, seeds {options.seeds}\n"
    )
    print(f"| {' | '.join(HEAD)} |\n|" + "---|" * len(HEAD))
    for name in (TRUTH, BEST_OF_SEARCH, *CTR_DESIGNS):
        # Some designs are only for other kinds of labels.
        if name in results[0]:
            print(format_row(name, results))


def run_seed(options: argparse.Namespace, seed: int) -> dict[str, DesignResult]:
    """Run one seed; return the results of the winner and of the hand-designed networks by name."""
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
    if result.confirmation is None:
        raise SystemExit(f"seed {seed}: no training finished; see {result.report()}")
    sentences = "\n".join(result.confirmation.sentences)
    print(f"seed {seed}: {result.confirmation.best_arch}\n{sentences}", flush=True)
    entries = [measure_truth(options.rows, seed), *result.confirmation.entries]
    return {entry.name: entry for entry in entries}


def measure_truth(rows: int, seed: int) -> DesignResult:
    """Evaluate the logits from which the clicks were drawn, on the test rows."""
    source = load_data(f"clicks:rows={rows},seed={seed}", Task("any", (1,), 1))
    # The batch is as large as the whole log, so there is only one.
    (test,) = source.parts[TEST].batches(rows)
    _, _, logits = generate_clicks(rows, seed)
    # The test rows are the last ones.
    metrics = compute_click_metrics(logits[-len(test) :], test.targets.double().numpy())
    return DesignResult(TRUTH, loss=metrics.log_loss, quality=metrics.auc)


def format_row(name: str, results: list[dict[str, DesignResult]]) -> str:
    """Format a row of the Markdown table: one network, over all seeds."""
    losses = []
    aucs = []
    gains = []
    rates = []
    for entries in results:
        entry = entries[name]
        best_auc = entries[BEST_OF_SEARCH].quality
        if entry.loss is not None:
            losses.append(entry.loss)
        if entry.quality is not None:
            aucs.append(entry.quality)
        if best_auc is not None and entry.quality is not None and name != BEST_OF_SEARCH:
            gains.append(best_auc - entry.quality)
        if entry.rate:
            rates.append(f"{entry.rate:g}")
    mean_gain = ""
    better_seeds = ""
    if gains:
        mean_gain = f"{fmean(gains):+.4f}"
        better_seeds = f"{sum(gain > 0 for gain in gains)} of {len(gains)}"
    cells = [
        name,
        format_mean(losses),
        format_mean(aucs),
        mean_gain,
        format_interval(gains),
        better_seeds,
        ", ".join(rates),
    ]
    return f"| {' | '.join(cells)} |"


def format_mean(values: list[float]) -> str:
    """Format the mean and, if there are several values, their standard deviation."""
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{fmean(values):.4f} \u00b1 {stdev(values):.4f}"


def format_interval(values: list[float]) -> str:
    if len(values) < 2:
        return ""
    mean = fmean(values)
    half = compute_t_quantile(len(values)) * stdev(values) / sqrt(len(values))
    return f"{mean - half:+.4f} to {mean + half:+.4f}"


if __name__ == "__main__":
    main()
