"""Sections of a benchmark page that are charts."""

from collections.abc import Sequence

import numpy as np

from untrained.benchmarks.result import BenchmarkResult, Estimate, ProxyResult
from untrained.benchmarks.statistics import Floats, orient_score
from untrained.reports.agreement import correlate_columns, order_by_similarity
from untrained.reports.pages.benchmark_tables import KIND_LABELS, format_correlation, get_kind
from untrained.reports.pages.html import (
    DASH,
    make_collapsible,
    make_figure,
    make_legend_entry,
    make_paragraph,
    make_responsive,
    make_section,
)
from untrained.reports.svg.bars import Bar, draw_bars
from untrained.reports.svg.heatmap import draw_heatmap
from untrained.reports.svg.plot import MAX_POINTS
from untrained.reports.svg.scatter import ScatterPoint, draw_scatter
from untrained.reports.svg.strips import Strip, draw_strips, locate_best_tenth
from untrained.reports.svg.tradeoff import CostPoint, draw_tradeoff

MAX_ROWS = 60  # of a chart that has one row per proxy
SHOWN_SCATTERS = 12  # the others are collapsed


def get_spearman(proxy: ProxyResult) -> Estimate | None:
    """Return the Spearman rank correlation of a proxy with the ground truth; None if undefined."""
    return proxy.statistics.get("spearman")


def make_correlations_section(result: BenchmarkResult) -> str:
    """Return the section with a bar per proxy and a line for the best baseline."""
    rows = []
    for proxy in result.proxy_results:
        correlation = get_spearman(proxy)
        if correlation:
            bar = Bar(
                name=proxy.proxy,
                value=correlation.value,
                low=correlation.low,
                high=correlation.high,
                kind=get_kind(proxy),
            )
            rows.append(bar)
    if not rows:
        note = "The rank correlation is undefined for all proxies."
        return make_section("Rank correlation", make_paragraph(note))
    visible = rows[:MAX_ROWS]
    # A proxy is only useful if it is better than the best baseline, which costs almost nothing.
    baseline = max((row.value for row in rows if row.kind == "baseline"), default=None)
    caption = "Spearman rank correlation with its 95 % confidence interval. "
    if baseline is not None:
        caption += "The dashed line is the best baseline. "
    caption += _describe_omitted_rows(visible, rows)
    chart = make_responsive(lambda width: draw_bars(visible, width, baseline))
    return make_section("Rank correlation", make_figure(chart, caption, _make_legend(visible)))


def make_scatter_section(result: BenchmarkResult) -> str:
    """Return the section with a scatter plot per proxy; empty if no proxy has two scores."""
    charts = []
    is_thinned = False
    for proxy in result.proxy_results:
        points = _list_points(proxy, result)
        if len(points) < 2:
            continue
        is_thinned = is_thinned or len(points) > MAX_POINTS
        correlation = get_spearman(proxy)
        number = format_correlation(correlation.value) if correlation else DASH
        charts.append(
            draw_scatter(points, proxy.proxy, number, higher_is_better=proxy.higher_is_better)
        )
    if not charts:
        return ""
    unit = f" in {result.truth_unit}" if result.truth_unit else ""
    caption = (
        f"Horizontal axis: score, with better scores on the right. "
        f"Vertical axis: ground truth{unit}. Axes that show ranks have no histogram. "
    )
    if is_thinned:
        caption += f"Each plot shows {MAX_POINTS} points; the histograms count all. "
    legend = make_legend_entry("", "best tenth by ground truth")
    legend += make_legend_entry("hollow", "best score")
    first = f'<div class="many">{"".join(charts[:SHOWN_SCATTERS])}</div>'
    parts = [make_figure(first, caption, legend)]
    others = charts[SHOWN_SCATTERS:]
    if others:
        rest = f'<div class="many">{"".join(others)}</div>'
        parts.append(make_collapsible(f"The other {len(others):,}", rest))
    return make_section("Score against ground truth", *parts)


def make_best_tenth_section(result: BenchmarkResult) -> str:
    """Return the section about the best tenth by ground truth; empty if no proxy has two scores.

    These architectures matter most for a search.
    """
    rows = []
    truth = np.array(result.truth)
    for proxy in result.proxy_results:
        scores = _orient_scores(proxy)
        present = np.isfinite(scores)
        if present.sum() > 1:
            tenth = locate_best_tenth(scores[present], truth[present])
            rows.append(Strip(proxy.proxy, tenth, get_kind(proxy)))
    if not rows:
        return ""
    visible = rows[:MAX_ROWS]
    caption = (
        "A search only needs to rank the best architectures well. Each dot is an architecture of "
        "the best tenth by ground truth; its horizontal position is its rank by score, its "
        "vertical position its ground truth. Hits: number of dots in the shaded area, the best "
        "tenth by score; one in ten is expected by chance. Corr.: Spearman rank correlation among "
        f"the dots. {_describe_omitted_rows(visible, rows)}"
    )
    if any(len(row.tenth.places) > MAX_POINTS for row in visible):
        caption += f" Each strip shows {MAX_POINTS} dots."
    chart = make_responsive(lambda width: draw_strips(visible, width))
    return make_section("Best tenth", make_figure(chart, caption, _make_legend(visible)))


def make_agreement_section(result: BenchmarkResult) -> str:
    """Return the section with the correlations between proxies; empty with fewer than two."""
    rows = [proxy for proxy in result.proxy_results if proxy.n > 1]
    if len(rows) < 2:
        return ""
    visible = rows[:MAX_ROWS]
    matrix = correlate_columns([_orient_scores(proxy) for proxy in visible])
    names = []
    ordered = []
    order = order_by_similarity(matrix)
    for i in order:
        names.append(visible[i].proxy)
        ordered.append([matrix[i][j] for j in order])
    caption = (
        "Spearman rank correlation between each pair of proxies, on the architectures that both "
        "could score. The sign is reversed for proxies where lower is better. Similar proxies are "
        "next to each other. "
        f"{_describe_omitted_rows(visible, rows)}"
    )
    description = f"Heat map of the correlations between {len(names)} columns: {', '.join(names)}"
    chart = make_responsive(lambda width: draw_heatmap(names, ordered, width, description))
    return make_section("Agreement between proxies", make_figure(chart, caption))


def make_tradeoff_section(result: BenchmarkResult) -> str:
    """Return the section with correlation against cost; empty for fewer than two proxies."""
    points = []
    for proxy in result.proxy_results:
        correlation = get_spearman(proxy)
        if correlation and proxy.cost is not None:
            points.append(CostPoint(proxy.proxy, proxy.cost, correlation.value, get_kind(proxy)))
    if len(points) < 2:
        return ""
    chart = make_responsive(
        lambda width: draw_tradeoff(points, width, "cost in forward passes", "Spearman")
    )
    caption = "The line is the Pareto front: no other proxy is both cheaper and better."
    return make_section(
        "Correlation against cost", make_figure(chart, caption, _make_legend(points))
    )


def _list_points(proxy: ProxyResult, result: BenchmarkResult) -> list[ScatterPoint]:
    points = []
    for score, truth, arch in zip(proxy.scores, result.truth, result.archs, strict=True):
        if score is not None:
            points.append(ScatterPoint(score, truth, arch))
    return points


def _orient_scores(proxy: ProxyResult) -> Floats:
    """Return the scores of a proxy, negated if lower is better, and NaN if missing."""
    scores = []
    for score in proxy.scores:
        if score is None:
            scores.append(np.nan)
        else:
            scores.append(orient_score(score, proxy.higher_is_better))
    return np.array(scores, dtype=np.float64)


def _describe_omitted_rows(visible: Sequence[object], rows: Sequence[object]) -> str:
    if len(visible) == len(rows):
        return ""
    return f"The chart shows the first {len(visible)} of {len(rows)} proxies."


def _make_legend(rows: Sequence[Bar | Strip | CostPoint]) -> str:
    """Return a legend of the kinds of proxies; empty if there is only one kind."""
    names = {"proxy": "proxy", **KIND_LABELS}
    kinds = {row.kind for row in rows}
    if len(kinds) < 2:
        return ""
    legend = ""
    for kind, name in names.items():
        if kind in kinds:
            legend += make_legend_entry(f"k-{kind}", name)
    return legend
