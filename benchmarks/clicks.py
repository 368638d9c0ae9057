"""Does what is found beat what people make by hand, where the truth is known? A network is searched on `clicks`, a log
with interactions planted in it, and stands beside hand-made ones that are trained on the same rows by the same recipe,
each with the learning rate, of three, that the validation rows like best.

    python benchmarks/clicks.py [--seeds 0 1 2 3 4] [--rows 100000] [--workers 5] [--device cpu] [--run FOLDER]

Each seed makes another log, other samples of the space and other weights, in a process of its own with one thread.
Networks of three blocks without norms and with at most 100,000 parameters are searched (with the published norms:
--space "nasrec_small(blocks=3)"); the hand-made ones have 200 to 40,000. Printed
are log loss and AUC on the test rows, mean and deviation over seeds, and how much higher the AUC of the found network
is in the same seed, with the 95 % interval of the mean by Student's t. The first row is the truth: the probabilities by
which the clicks were drawn, which nobody can beat. The same command goes on where it was stopped.
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
from untrained.reports.confirmation_result import WINNER, ReferenceResult
from untrained.runs.ranking import compute_t_quantile
from untrained.training.ctr_metrics import compute_click_metrics
from untrained.training.ctr_references import REFERENCES
from untrained.types import Task
from untrained.workflows.search import search

TRUTH = "the truth"
HEAD = (
    "network",
    "log loss",
    "AUC",
    "AUC of the found one, more",
    "95 % interval",
    "seeds where it is higher",
    "rates",
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
    asked = parser.parse_args()
    with ProcessPoolExecutor(
        asked.workers, get_context("spawn"), torch.set_num_threads, (1,)
    ) as pool:
        found = list(pool.map(partial(entries, asked), asked.seeds))
    print(
        f"{asked.space} by {asked.proxy}: best of {asked.budget}, {asked.rows:,} rows, seeds {asked.seeds}\n"
    )
    print(f"| {' | '.join(HEAD)} |\n|" + "---|" * len(HEAD))
    for name in (TRUTH, WINNER, *REFERENCES):
        print(row(name, found))


def entries(asked: argparse.Namespace, seed: int) -> dict[str, ReferenceResult]:
    """What is known of the found network and the hand-made ones, by name."""
    done = search(
        asked.space,
        asked.proxy,
        budget=asked.budget,
        data=f"clicks:rows={asked.rows},seed={seed}",
        confirm=asked.confirm,
        limits={"params": asked.max_params},
        seed=seed,
        device=asked.device,
        workers=1,
        run=asked.run / f"seed{seed}",
    )
    if done.confirmed is None:
        raise SystemExit(f"seed {seed}: not one training came to an end; see {done.report()}")
    print(
        "\n".join((f"seed {seed}: {done.confirmed.winner}", *done.confirmed.sentences)), flush=True
    )
    return {entry.name: entry for entry in (truth(asked.rows, seed), *done.confirmed.entries)}


def truth(rows: int, seed: int) -> ReferenceResult:
    """What the logits that the clicks were drawn by say of the test rows."""
    (test,) = (
        load_data(f"clicks:rows={rows},seed={seed}", Task("any", (1,), 1)).parts[TEST].batches(rows)
    )
    known = compute_click_metrics(
        generate_clicks(rows, seed)[2][-len(test) :], test.targets.double().numpy()
    )
    return ReferenceResult(TRUTH, loss=known.log_loss, auc=known.auc)


def row(name: str, found: list[dict[str, ReferenceResult]]) -> str:
    losses, aucs = (
        [value for by in found if (value := getattr(by[name], key)) is not None]
        for key in ("loss", "auc")
    )
    pairs = [(by[WINNER].auc, by[name].auc) for by in found]
    more = [
        ours - theirs
        for ours, theirs in pairs
        if ours is not None and theirs is not None and name != WINNER
    ]
    higher = f"{sum(value > 0 for value in more)} of {len(more)}" if more else ""
    rates = ", ".join(f"{rate:g}" for by in found if (rate := by[name].rate))
    apart = f"{fmean(more):+.4f}" if more else ""
    return f"| {name} | {spread(losses)} | {spread(aucs)} | {apart} | {interval(more)} | {higher} | {rates} |"


def spread(values: list[float]) -> str:
    """The mean, and the deviation over seeds where there are several."""
    deviation = f" \u00b1 {stdev(values):.4f}" if len(values) > 1 else ""
    return f"{fmean(values):.4f}{deviation}" if values else ""


def interval(values: list[float]) -> str:
    if len(values) < 2:
        return ""
    mean = fmean(values)
    half = compute_t_quantile(len(values)) * stdev(values) / sqrt(len(values))
    return f"{mean - half:+.4f} to {mean + half:+.4f}"


if __name__ == "__main__":
    main()
