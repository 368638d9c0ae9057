"""The page of `untrained bench`: how well proxies and simple baselines rank architectures."""

from collections.abc import Iterable
from typing import NamedTuple

from untrained import formatting
from untrained.benchmarks.result import BenchmarkResult, Estimate, ProxyResult
from untrained.reports.pages.benchmark_charts import (
    get_spearman,
    make_agreement_section,
    make_best_tenth_section,
    make_correlations_section,
    make_scatter_section,
    make_tradeoff_section,
)
from untrained.reports.pages.benchmark_tables import (
    format_correlation,
    make_proxies_section,
    make_proxy_failures_section,
)
from untrained.reports.pages.document import (
    list_batching_facts,
    make_command_section,
    make_cost_section,
    make_document,
    make_header,
    make_settings_section,
)
from untrained.reports.pages.html import make_copyable, make_paragraph


class _RankedProxy(NamedTuple):
    name: str
    spearman: Estimate


def render_benchmark_page(result: BenchmarkResult) -> str:
    """Return the whole page."""
    settings = {
        "space": result.space,
        "ground truth": result.truth_about,
        "seeds per architecture": str(result.seeds),
    }
    settings.update(result.settings)
    sections = [
        _make_benchmark_header(result),
        make_proxies_section(result),
        make_correlations_section(result),
        make_scatter_section(result),
        make_best_tenth_section(result),
        make_agreement_section(result),
        make_tradeoff_section(result),
        make_proxy_failures_section(result),
        make_cost_section(result.cost, len(result.archs), list_batching_facts(result.batched)),
        make_settings_section(settings, result.versions),
        make_command_section(result.command, "Repeats this benchmark."),
    ]
    return make_document(result.title, make_verdict(result), sections)


def make_verdict(result: BenchmarkResult) -> str:
    """Return a few sentences that compare the best proxy with the best baseline."""
    if not result.proxy_results:
        return "No proxy was evaluated."
    baselines = []
    proxies = []
    for row in result.proxy_results:
        if row.kind == "baseline":
            baselines.append(row)
        else:
            proxies.append(row)
    best_proxy = _find_best(proxies)
    best_baseline = _find_best(baselines)
    if best_proxy:
        lead = "The only proxy is"
        if len(proxies) > 1:
            lead = f"The best of {len(proxies)} proxies is"
        # Counting parameters is the baseline that readers ask about first.
        params = _find_best(row for row in baselines if row.proxy == "params")
        text = f"{lead} {best_proxy.name}: Spearman {_format_estimate(best_proxy.spearman)}"
        return text + _compare_with_baselines(best_proxy, best_baseline, params)
    if best_baseline:
        value = _format_estimate(best_baseline.spearman)
        best = f"{best_baseline.name}: Spearman {value}"
        return f"Only baselines could be evaluated. The best is {best}."
    reason = "none of them gave scores that differ"
    if len(set(result.truth)) < 2:
        reason = "all architectures have the same ground truth"
    return f"No proxy could be evaluated: {reason}."


def _find_best(rows: Iterable[ProxyResult]) -> _RankedProxy | None:
    """Return the proxy with the highest rank correlation; None if none has one."""
    best = None
    for row in rows:
        spearman = get_spearman(row)
        if spearman and (best is None or spearman.value > best.spearman.value):
            best = _RankedProxy(row.proxy, spearman)
    return best


def _format_estimate(estimate: Estimate) -> str:
    """Return text such as `0.910 (0.893 to 0.925)`."""
    value = format_correlation(estimate.value)
    interval = formatting.format_interval(estimate.low, estimate.high, format_correlation)
    if not interval:
        return value
    return f"{value} ({interval})"


def _compare_with_baselines(
    proxy: _RankedProxy, baseline: _RankedProxy | None, params: _RankedProxy | None
) -> str:
    if not baseline:
        return ". There is no baseline to compare with."
    baseline_name = baseline.name
    if baseline == params:
        baseline_name = "counting parameters"
    text = (
        f", against {_format_estimate(baseline.spearman)} for {baseline.name}, the best baseline. "
        f"{_compare_estimates(proxy.spearman, baseline.spearman, baseline_name)}"
    )
    if params and params != baseline:
        text += f" Counting parameters gives {_format_estimate(params.spearman)}."
    return text


def _compare_estimates(proxy: Estimate, baseline: Estimate, baseline_name: str) -> str:
    is_better = proxy.value > baseline.value
    intervals_differ = proxy.has_disjoint_interval(baseline)
    if intervals_differ:
        verdict = "better" if is_better else "worse"
        return f"It is {verdict} than {baseline_name}: the confidence intervals do not overlap."
    comparison = "higher" if is_better else "not higher"
    text = f"On these networks, its correlation is {comparison} than that of {baseline_name}"
    if intervals_differ is None:
        return f"{text}; without confidence intervals, this may be chance."
    return f"{text}; the confidence intervals overlap, so the difference may be chance."


def _make_benchmark_header(result: BenchmarkResult) -> str:
    seeds = f", {result.seeds} seeds each" if result.seeds > 1 else ""
    archs = formatting.format_count(len(result.archs), "architecture")
    scope = (
        f"{len(result.proxy_results):,} proxies and baselines on "
        f"{archs} of the space {result.space}{seeds}. "
        f"Ground truth: {result.truth_about}."
    )
    parts = [make_paragraph(scope)]
    for note in result.notes:
        parts.append(make_paragraph(note, "note"))
    if result.advice:
        parts.append(make_paragraph(result.advice))
    if result.next_command:
        parts.append(make_copyable(result.next_command))
    return make_header(
        "benchmark report", result.made_on, result.title, make_verdict(result), *parts
    )
