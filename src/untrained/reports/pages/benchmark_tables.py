"""Sections of a benchmark page that are tables: statistics of every proxy, and failures."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

from untrained import formatting
from untrained.benchmarks.result import (
    BenchmarkResult,
    Estimate,
    ProxyResult,
    choose_truth_digits,
)
from untrained.reports.pages.html import (
    DASH,
    make_code,
    make_collapsible,
    make_fact_list,
    make_html_cell,
    make_paragraph,
    make_row,
    make_section,
    make_table,
    make_text_cell,
)

# Labels of the kinds of proxies that also have a colour of their own.
KIND_LABELS = {"baseline": "baseline", "other": "third party", "combination": "combination"}

_EXPLANATIONS = {
    "size_controlled": (
        "Equal size: partial Spearman rank correlation, controlled for the ranks of parameters and "
        "FLOPs; it shows what the score tells beyond size."
    ),
    "ndcg": (
        "nDCG: quality of the whole order, in which the first places count most; even a random "
        "order is far above 0."
    ),
    "top_5_overlap": (
        "Top 5 %: fraction of the best twentieth by score that is in the best twentieth by ground "
        "truth."
    ),
    "top_overlap": (
        "Top 10 %: fraction of the best tenth by score that is in the best tenth by ground truth."
    ),
    "precision_at_10": (
        "Top 10: fraction of the ten best scores that are in the best tenth by ground truth."
    ),
    "regret": (
        "Regret: ground truth of the best architecture minus that of the architecture with the "
        "best score."
    ),
    "regret_at_10": (
        "Regret of 10: ground truth of the best architecture minus that of the best of the ten "
        "architectures with the best scores; if scores are tied for the tenth place, the worst of "
        "these architectures are taken."
    ),
}

# The statistics in the main table. The others are in a second table, because a page is too narrow
# for all.
_MAIN_STATISTICS = ("size_controlled", "top_5_overlap", "top_overlap", "precision_at_10", "regret")

FormatValue = Callable[[float], str]


class _StatisticColumn(NamedTuple):
    heading: str
    format_value: FormatValue


def format_correlation(value: float) -> str:
    return formatting.format_fixed(value, 3)


def get_kind(proxy: ProxyResult) -> str:
    """Return the kind that decides the colour of a proxy (CSS class k-KIND)."""
    if proxy.kind in KIND_LABELS:
        return proxy.kind
    return "proxy"


def make_proxies_section(result: BenchmarkResult) -> str:
    """Return the section with all statistics. A column without values is left out."""
    if not result.proxy_results:
        return make_section("Proxies", make_paragraph("No proxy was evaluated."))
    statistics = {}
    more_statistics = {}
    for name, statistic in _list_statistics(result).items():
        if name in _MAIN_STATISTICS:
            statistics[name] = statistic
        else:
            more_statistics[name] = statistic
    has_spread = any(_get_spread(proxy) is not None for proxy in result.proxy_results)
    head = [("", "Proxy"), ("num", "Spearman"), ("num", "95 % interval")]
    if has_spread:
        head.append(("num", "\u00b1\u00a0seeds"))
    for statistic in statistics.values():
        head.append(("num", statistic.heading))
    head += [("num", "n"), ("", "Failed"), ("num", "Cost")]
    rows = [_make_proxy_row(proxy, statistics, has_spread) for proxy in result.proxy_results]
    introduction = (
        f"Best first, by Spearman rank correlation with {result.truth_about}: 1 means the same "
        "order, 0 no relation."
    )
    parts = [
        make_paragraph(introduction, "note"),
        make_table("benchmark", head, rows),
        make_paragraph(_explain_columns(statistics, has_spread), "note"),
    ]
    if more_statistics:
        parts.append(
            make_collapsible("More statistics", _make_more_statistics(result, more_statistics))
        )
    descriptions = {proxy.proxy: proxy.about for proxy in result.proxy_results if proxy.about}
    if descriptions:
        parts.append(make_collapsible("What the proxies measure", make_fact_list(descriptions)))
    return make_section("Proxies", *parts)


def _make_more_statistics(result: BenchmarkResult, statistics: dict[str, _StatisticColumn]) -> str:
    """Return a table of the statistics that the main table does not show."""
    head = [("", "Proxy")]
    for statistic in statistics.values():
        head.append(("num", statistic.heading))
    rows = []
    for proxy in result.proxy_results:
        cells = [make_html_cell(_make_proxy_name(proxy), "proxy")]
        cells += _make_statistic_cells(proxy, statistics)
        rows.append(make_row(cells))
    explanations = _list_explanations(statistics)
    return make_table("benchmark", head, rows) + make_paragraph(" ".join(explanations), "note")


def _get_spread(proxy: ProxyResult) -> float | None:
    """Return the standard deviation of the rank correlation over seeds."""
    correlation = proxy.statistics.get("spearman")
    if correlation is None:
        return None
    return correlation.spread


def _list_statistics(result: BenchmarkResult) -> dict[str, _StatisticColumn]:
    """Return the statistics that at least one proxy has, except Spearman's; usual ones first."""
    unit = ""
    if result.truth_unit:
        unit = f",\u00a0{result.truth_unit}"
    regret_digits = choose_truth_digits(result.truth)

    def format_regret(value: float) -> str:
        return formatting.format_fixed(value, regret_digits)

    statistics = {
        "size_controlled": _StatisticColumn("Equal\u00a0size", format_correlation),
        "kendall": _StatisticColumn("Kendall", format_correlation),
        "pearson": _StatisticColumn("Pearson", format_correlation),
        "ndcg": _StatisticColumn("nDCG", format_correlation),
        "top_5_overlap": _StatisticColumn("Top 5\u00a0%", _format_fraction),
        "top_overlap": _StatisticColumn("Top 10\u00a0%", _format_fraction),
        "precision_at_10": _StatisticColumn("Top\u00a010", _format_fraction),
        "regret": _StatisticColumn(f"Regret{unit}", format_regret),
        "regret_at_10": _StatisticColumn(f"Regret of\u00a010{unit}", format_regret),
    }
    present: set[str] = set()
    for proxy in result.proxy_results:
        for name, estimate in proxy.statistics.items():
            if estimate:
                present.add(name)
    # Statistics without a heading are shown under their own names.
    for name in sorted(present - {*statistics, "spearman"}):
        statistics[name] = _StatisticColumn(name, format_correlation)
    return {name: statistic for name, statistic in statistics.items() if name in present}


def _format_fraction(value: float) -> str:
    return formatting.format_percent(value, 0)


def _explain_columns(names: Iterable[str], has_spread: bool) -> str:
    text = "The 95 % confidence interval is over architectures"
    if has_spread:
        text += "; \u00b1 is the standard deviation over seeds"
    sentences = [f"{text}.", *_list_explanations(names)]
    sentences.append("Cost: equivalent number of forward passes.")
    return " ".join(sentences)


def _list_explanations(names: Iterable[str]) -> list[str]:
    return [_EXPLANATIONS[name] for name in names if name in _EXPLANATIONS]


def _make_proxy_row(
    proxy: ProxyResult, statistics: dict[str, _StatisticColumn], has_spread: bool
) -> str:
    correlation = proxy.statistics.get("spearman")
    value = DASH
    interval = ""
    spread = ""
    if correlation:
        value = format_correlation(correlation.value)
        interval = formatting.format_interval(correlation.low, correlation.high, format_correlation)
        if correlation.spread is not None:
            spread = format_correlation(correlation.spread)
    cells = [
        make_html_cell(_make_proxy_name(proxy), "proxy"),
        make_text_cell(value, "num score"),
        make_text_cell(interval, "num soft"),
    ]
    if has_spread:
        cells.append(make_text_cell(spread, "num soft"))
    cells += _make_statistic_cells(proxy, statistics)
    cost = DASH
    if proxy.cost is not None:
        cost = f"{proxy.cost:.3g}"
    cells.append(make_text_cell(f"{proxy.n:,}", "num"))
    cells.append(make_text_cell(_format_failures(proxy), "soft failed"))
    cells.append(make_text_cell(cost, "num"))
    return make_row(cells, f"k-{get_kind(proxy)}")


def _make_proxy_name(proxy: ProxyResult) -> str:
    """Return the name of a proxy with a label of its kind, if the kind has one."""
    name = make_code(proxy.proxy)
    if proxy.kind in KIND_LABELS:
        name += f' <span class="label">{escape(KIND_LABELS[proxy.kind])}</span>'
    return name


def _make_statistic_cells(proxy: ProxyResult, statistics: dict[str, _StatisticColumn]) -> list[str]:
    cells = []
    for name, statistic in statistics.items():
        estimate = proxy.statistics.get(name)
        cells.append(make_html_cell(_make_estimate(estimate, statistic.format_value), "num"))
    return cells


def _make_estimate(estimate: Estimate | None, format_value: FormatValue) -> str:
    """Return a value whose interval is shown on hover."""
    if estimate is None:
        return DASH
    interval = formatting.format_interval(estimate.low, estimate.high, format_value)
    value = escape(format_value(estimate.value))
    if not interval:
        return value
    return f'<span title="{escape(interval)}">{value}</span>'


def _format_failures(proxy: ProxyResult) -> str:
    """Return text such as `12 nan, 3 timeout`, the most frequent kind first."""
    failures = sorted(proxy.failures.items(), key=lambda item: -item[1])
    return ", ".join(f"{count:,}\u00a0{kind}" for kind, count in failures)


def make_proxy_failures_section(result: BenchmarkResult) -> str:
    """Return the section about failures. Proxies with the same failures share a row.

    Below the table is one message per proxy that failed.
    """
    groups: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for proxy in result.proxy_results:
        if proxy.failed:
            failures = tuple(sorted(proxy.failures.items()))
            groups.setdefault(failures, []).append(proxy.proxy)
    if not groups:
        return make_section("Failures", make_paragraph("There were no failures."))
    # A dictionary keeps the kinds in the order in which they first appear.
    kinds: dict[str, None] = {}
    for failures in groups:
        for kind, count in failures:
            if count:
                kinds[kind] = None
    head = [("", "Proxies")]
    for kind in kinds:
        head.append(("num", kind))
    rows = []
    for failures in sorted(groups, key=lambda group: -sum(count for _, count in group)):
        rows.append(_make_failure_row(dict(failures), groups[failures], list(kinds)))
    proxy_count = sum(len(names) for names in groups.values())
    note = (
        f"{proxy_count:,} of {len(result.proxy_results):,} proxies could not score all "
        f"{formatting.format_count(len(result.archs), 'architecture')}. Statistics of a proxy "
        "leave out the architectures that it could not score."
    )
    parts = [make_paragraph(note, "note"), make_table("", head, rows)]
    examples = {}
    for proxy in result.proxy_results:
        if proxy.failure_example:
            examples[proxy.proxy] = proxy.failure_example
    if examples:
        parts.append("<h3>One failure of each proxy</h3>")
        parts.append(make_fact_list(examples))
    return make_section("Failures", *parts)


def _make_failure_row(failures: dict[str, int], names: Sequence[str], kinds: Sequence[str]) -> str:
    cells = [make_html_cell(", ".join(make_code(name) for name in names), "names")]
    for kind in kinds:
        text = DASH
        if failures.get(kind):
            text = f"{failures[kind]:,}"
        cells.append(make_text_cell(text, "num"))
    return make_row(cells)
