"""Example cells, a run and a benchmark to report on, and helpers that read drawings and open pages."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from untrained.benchmarks.result import BenchmarkResult, Estimate, ProxyResult
from untrained.drawings.diagrams import CellGraph, Diagram
from untrained.drawings.draw import draw_diagram
from untrained.reports.contest_result import Contest, ContestEntry, RoundResult
from untrained.reports.pages import benchmark_page
from untrained.reports.pages.search_page import render_search_page
from untrained.reports.search_summary import FailedArch, RankedArch, SearchSummary

CONV3 = "nor_conv_3x3"
CONV1 = "nor_conv_1x1"
SKIP = "skip_connect"
NONE = "none"
POOL = "avg_pool_3x3"
PAIRS = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
both_widths = pytest.mark.parametrize("room", [880, 350])


def make_nasbench201_cell(*ops: str) -> CellGraph:
    return CellGraph(
        ("in", "1", "2", "out"), tuple((a, b, op) for (a, b), op in zip(PAIRS, ops, strict=True))
    )


def make_nasbench101_cell(ops: str, wires: str) -> CellGraph:
    names = {
        "i": "input",
        "o": "output",
        "3": "conv3x3-bn-relu",
        "1": "conv1x1-bn-relu",
        "m": "maxpool3x3",
    }
    edges = tuple((int(wire[0]), int(wire[1]), "") for wire in wires.split())
    return CellGraph(tuple(names[op] for op in ops), edges)


CELLS = {
    "mixed": make_nasbench201_cell(CONV3, SKIP, CONV1, NONE, POOL, CONV3),
    "all conv": make_nasbench201_cell(*[CONV3] * 6),
    "all skip": make_nasbench201_cell(*[SKIP] * 6),
    "many none": make_nasbench201_cell(NONE, NONE, NONE, CONV3, NONE, NONE),
    "101 branches": make_nasbench101_cell("i31m33o", "01 02 04 05 16 23 36 46 56"),
    "101 chain": make_nasbench101_cell("i31m33o", "01 12 23 34 45 56 02 14 06"),
    "101 inception": make_nasbench101_cell("i11m33o", "01 02 03 04 16 25 36 45 56"),
}


def sample_arch(random: Random) -> str:
    ops = [random.choice((CONV3, CONV1, SKIP, NONE, POOL)) for _ in range(6)]
    return "|{}~0|+|{}~0|{}~1|+|{}~0|{}~1|{}~2|".format(*ops)


def make_summary(count: int = 94, failures: int = 6, **changes: Any) -> SearchSummary:
    """Make a realistic run: scores fall with rank, sizes spread over more than a decade."""
    random = Random(0)
    sizes = [random.uniform(0.07, 1.5) for _ in range(count)]
    ranking = tuple(
        RankedArch(i + 1, sample_arch(random), 3.91 - 0.02 * i, None, 1e6 * size, 1.5e8 * size)
        for i, size in enumerate(sizes)
    )
    kinds = ("disconnected", "disconnected", "nan")
    fields: dict[str, Any] = {
        "title": "Architecture search for digits",
        "command": "untrained search --space nasbench201 --proxy dextr --run runs/a",
        "space": "nasbench201",
        "space_size": 15625,
        "proxy": "dextr",
        "proxy_about": "Condition numbers of feature maps and curvature of the output; Dextr.",
        "higher_is_better": True,
        "ranking": ranking,
        "failed": tuple(
            FailedArch(sample_arch(random), kinds[i % 3], f"detail {i}") for i in range(failures)
        ),
        "diagram": CELLS["mixed"],
        "settings": {"strategy": "random", "seed": "7"},
        "versions": {"torch": "2.13.0"},
        "cost": {"build": 3.1, "measure": 48.7, "total": 72.0},
        "made_on": "31 January 2025, 14:05",
    }
    return SearchSummary(**(fields | changes))


CONTEST_SELECTIONS: tuple[tuple[str, ...], ...] = (
    ("best by dextr",),
    ("best by dextr", "largest"),
    ("best by dextr",),
    ("largest",),
    ("random",),
    ("random",),
    ("known design ResNet-20",),
    ("known design MobileNetV2",),
)


def make_contest(archs: Sequence[str], winner: int = 7, **changes: Any) -> Contest:
    """Make a contest of eight architectures and a copy of the seventh with another rate.

    Entry i has an accuracy of 0.40 + 0.02 i after the first round and 0.08 more after each further
    round. Entries 7 and 9, the copy, have three rounds and 8 has two. Entry 4 failed. The rounds
    take 10, 30 and 90 seconds. Entries have 10,000 i parameters.
    """
    entries = []
    rounds = {4: 0, 7: 3, 8: 2, 9: 3}
    for i, selections in enumerate((*CONTEST_SELECTIONS, CONTEST_SELECTIONS[6]), 1):
        results = []
        for index in range(rounds.get(i, 1)):
            accuracy = 0.4 + 0.02 * i + 0.08 * index
            results.append(RoundResult(4 * 3**index, 1125, 10.0 * 3**index, accuracy, "ff"))
        entry = ContestEntry(
            number=i,
            arch=archs[6] if i == 9 else archs[i - 1],
            selections=selections,
            rate=0.3 if i == 9 else 0.1,
            params=10_000 * (7 if i == 9 else i),
            rounds=tuple(results),
            error="" if results else "diverged: the loss is not a number",
        )
        entries.append(entry)
    entries.sort(key=lambda entry: (-len(entry.rounds), -(entry.accuracy or 0.0)))
    fields: dict[str, Any] = {
        "winner": archs[6] if winner == 9 else archs[winner - 1],
        "winner_number": winner,
        "entries": tuple(entries),
        "tied": (9, 7),
        "rounds": 3,
        "train_samples": 1125,
        "val_samples": 375,
        "recipe": "quick",
        "data": "folder:./photos",
        "seconds": sum(entry.seconds for entry in entries),
    }
    return Contest(**(fields | changes))


def scale_plainly(z: Any) -> Any:
    return z


def scale_widely(z: Any) -> Any:
    return np.exp(9 * z)


def scale_with_signs(z: Any) -> Any:
    return 1e3 * z**9


def scale_to_constant(z: Any) -> Any:
    return 64 + 0 * z


PLAIN = scale_plainly
WIDE = scale_widely
SIGNED = scale_with_signs
FLAT = scale_to_constant
PROXIES: dict[str, tuple[str, float, float | None, Any]] = {  # kind, correlation, cost, from a normal number to a score
    "mean of ranks": ("combination", 0.94, 16, PLAIN), "meco": ("proxy", 0.92, 3, PLAIN),
    "dextr(variant=published)": ("proxy", 0.91, 13, PLAIN), "swap": ("proxy", 0.82, 1, PLAIN),
    "synflow": ("proxy", 0.78, 3, WIDE), "synflow/cifar10/0": ("other", 0.77, None, WIDE),
    "naswot": ("proxy", 0.77, 1, PLAIN), "zico": ("proxy", 0.76, 3, PLAIN), "flops": ("baseline", 0.71, 1, WIDE),
    "params": ("baseline", 0.7, 0, WIDE), "jacob_cov": ("proxy", 0.69, 2, SIGNED),
    "ntk_condition": ("proxy", -0.65, 3, WIDE), "snip": ("proxy", 0.6, 3, WIDE), "grad_norm": ("proxy", 0.6, 3, WIDE),
    "fisher": ("proxy", 0.52, 3, WIDE),
    "grasp": ("proxy", 0.5, 9, SIGNED), "zen": ("proxy", 0.4, 2, PLAIN), "random": ("baseline", 0.0, 0, PLAIN),
    "plain": ("proxy", -0.25, 3, SIGNED), "te_nas_regions": ("proxy", 0.0, 1, FLAT),
}  # fmt: skip


STATISTICS = (
    "spearman", "kendall", "pearson", "top_overlap", "precision_at_10", "regret", "ndcg", "top_5_overlap",
    "regret_at_10", "size_controlled",
)  # fmt: skip


def make_estimates(scores: Any, truth: Any, sign: int) -> dict[str, Estimate | None]:
    """Compute statistics with scipy or by definition; the interval is that of a normal sample.

    Only nDCG and the correlation at equal size are invented.
    """
    if np.ptp(scores) == 0 or np.ptp(truth) == 0:
        return dict.fromkeys(STATISTICS)
    x = sign * scores
    k = max(1, round(len(scores) / 10))
    by_score = np.argsort(-x)
    by_truth = set(np.argsort(-truth)[:k].tolist())
    rho = float(stats.spearmanr(x, truth).statistic)
    low, high = (float(np.tanh(np.arctanh(rho) + s * 1.96 / np.sqrt(len(x) - 3))) for s in (-1, 1))
    shares = [float(np.mean([i in by_truth for i in by_score[:m].tolist()])) for m in (k, 10)]
    twentieth = max(1, round(len(scores) / 20))
    best_by_truth = np.argsort(-truth)[:twentieth]
    top_5_share = float(np.isin(by_score[:twentieth], best_by_truth).mean())
    return {
        "spearman": Estimate(rho, low, high, 0.012),
        "kendall": Estimate(float(stats.kendalltau(x, truth).statistic)),
        "pearson": Estimate(float(stats.pearsonr(x, truth).statistic)),
        "top_overlap": Estimate(shares[0], 0.5 * shares[0], min(1.0, 1.2 * shares[0])),
        "precision_at_10": Estimate(shares[1]),
        "regret": Estimate(float(truth.max() - truth[by_score[0]])),
        "ndcg": Estimate(0.95 + 0.04 * rho),
        "top_5_overlap": Estimate(top_5_share),
        "regret_at_10": Estimate(float(truth.max() - truth[by_score[:10]].max())),
        "size_controlled": Estimate(0.4 * rho, 0.4 * low, 0.4 * high),
    }


def make_study(archs: int = 300, proxies: int = 20, **changes: Any) -> BenchmarkResult:
    """Make a realistic benchmark: all scores share one quality, gradient proxies share another."""
    rng = np.random.default_rng(0)
    random = Random(0)
    quality, gradient = rng.standard_normal((2, archs))
    truth = np.where(quality < -2, 10.0, 94.4 - 4 * np.exp(-1.2 * quality))
    results = []
    for name, (kind, rho, cost, transform) in list(PROXIES.items())[:proxies]:
        shared = 0.8 if name in ("snip", "grad_norm", "fisher", "grasp") else 0.2
        noise = shared * gradient + np.sqrt(1 - shared**2) * rng.standard_normal(archs)
        scores = transform((rho * quality + np.sqrt(1 - rho**2) * noise) / 3)
        missing = (quality < -1.9) & (kind == "proxy")
        sign = -1 if name == "ntk_condition" else 1
        kinds = {"disconnected": int(missing.sum()) - (name == "zen"), "nan": int(name == "zen")}
        results.append(
            ProxyResult(
                name, f"What {name} measures.", kind, sign == 1, cost, int((~missing).sum()),
                {k: n for k, n in kinds.items() if n > 0}, make_estimates(scores[~missing], truth[~missing], sign),
                tuple(None if gone else float(s) for s, gone in zip(scores, missing, strict=True)),
            )
        )  # fmt: skip
    results.sort(
        key=lambda row: -estimate.value if (estimate := row.statistics["spearman"]) else 2.0
    )
    fields: dict[str, Any] = {
        "title": "nasbench201: test accuracy on CIFAR-10",
        "command": "untrained bench --space nasbench201 --dataset cifar10 --proxy all --samples 300 --seeds 3",
        "space": "nasbench201",
        "truth_about": "test accuracy on CIFAR-10 after 200 epochs, nasbench201",
        "truth_unit": "%",
        "archs": tuple(sample_arch(random) for _ in range(archs)),
        "truth": tuple(truth.tolist()),
        "proxy_results": tuple(results),
        "notes": ("The table holds 15,625 of 15,625 architectures.",),
        "settings": {"samples": "300", "data": "cifar10"},
        "versions": {"torch": "2.13.0"},
        "cost": {"total": 912.0},
        "seeds": 3,
        "made_on": "31 January 2025, 14:05",
    }
    return BenchmarkResult(**(fields | changes))


def draw_svg(diagram: Diagram, room: float = 880) -> ElementTree.Element:
    return ElementTree.fromstring(draw_diagram(diagram, max_width=room))


def list_boxes(svg: ElementTree.Element, kind: str) -> list[tuple[float, float, float, float]]:
    rects = [
        group.find("rect") for group in svg.iter("g") if group.attrib["class"].split()[0] == kind
    ]
    return [
        tuple(float(rect.attrib[k]) for k in ("x", "y", "width", "height"))
        for rect in rects
        if rect is not None
    ]  # type: ignore[misc]


def boxes_overlap(
    a: tuple[float, float, float, float], b: tuple[float, float, float, float]
) -> bool:
    return all(a[k] < b[k] + b[k + 2] and b[k] < a[k] + a[k + 2] for k in (0, 1))


def open_page(
    browser: Any,
    folder: Path,
    run: SearchSummary | BenchmarkResult,
    width: int,
    scheme: str = "light",
) -> Any:
    """Open the report of a run in a browser; it must not log errors nor request another file."""
    file = folder / "report.html"
    file.write_text(
        render_search_page(run)
        if isinstance(run, SearchSummary)
        else benchmark_page.render_benchmark_page(run),
        encoding="utf-8",
    )
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(request.url))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    assert complaints == []
    assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    return page


def find_too_wide(page: Any, *selectors: str) -> list[str]:
    """Return the selectors whose elements are wider than their box."""
    beyond = "elements => elements.some(element => element.scrollWidth > element.clientWidth)"
    return [selector for selector in selectors if page.locator(selector).evaluate_all(beyond)]
