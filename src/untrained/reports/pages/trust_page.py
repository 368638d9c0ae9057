"""The page of `untrained bench`: how far proxies can be trusted, against what counting parameters gives for nothing.

Reads a `Trust` and turns it into text. Knows nothing of networks, tables or how anything was measured.
"""

from collections.abc import Iterable
from typing import NamedTuple

from untrained import _numbers
from untrained.reports.pages.document import again, cost, document, header, settings, together
from untrained.reports.pages.html import copyable, paragraph
from untrained.reports.pages.trust_charts import alike, best, clouds, correlations, spearman, worth
from untrained.reports.pages.trust_table import correlation, failed, judgement
from untrained.studies.trust import Estimate, Judged, Trust


def render(trust: Trust) -> str:
    """The whole page."""
    parts = (_header, judgement, correlations, clouds, best, alike, worth, failed, _cost, _settings, _again)
    return document(trust.title, verdict(trust), [part(trust) for part in parts])


class _Known(NamedTuple):
    proxy: str
    main: Estimate


def verdict(trust: Trust) -> str:
    """Whether the best proxy beats the best baseline, and whether the intervals can tell them apart."""
    if not trust.judged:
        return "No proxy was judged."
    baselines = [row for row in trust.judged if row.kind == "baseline"]
    proxies = [row for row in trust.judged if row.kind != "baseline"]
    first, baseline = _best(proxies), _best(baselines)
    if first:
        lead = f"The best of {len(proxies)} proxies is" if len(proxies) > 1 else "The only proxy is"
        params = _best(row for row in baselines if row.proxy == "params")
        return f"{lead} {first.proxy}: Spearman {_told(first.main)}{_against(first, baseline, params)}"
    if baseline:
        return f"Only baselines could be judged. The best is {baseline.proxy}: Spearman {_told(baseline.main)}."
    why = "all architectures are equally good" if len(set(trust.truth)) < 2 else "none gave scores to rank by"
    return f"No proxy could be judged: {why}."


def _best(rows: Iterable[Judged]) -> _Known | None:
    """The highest rank correlation, where there is one."""
    known = [_Known(row.proxy, main) for row in rows if (main := spearman(row))]
    return max(known, key=lambda row: row.main.value, default=None)


def _told(estimate: Estimate) -> str:
    interval = _numbers.between(estimate.low, estimate.high, correlation)
    return f"{correlation(estimate.value)} ({interval})" if interval else correlation(estimate.value)


def _against(first: _Known, baseline: _Known | None, params: _Known | None) -> str:
    if not baseline:
        return ". No baseline stands beside it."
    rival = "counting parameters" if baseline == params else baseline.proxy
    said = f", against {_told(baseline.main)} for {baseline.proxy}, the best baseline. "
    said += _compared(first.main, baseline.main, rival)
    return f"{said} Counting parameters gives {_told(params.main)}." if params and params != baseline else said


def _compared(proxy: Estimate, baseline: Estimate, rival: str) -> str:
    better = proxy.value > baseline.value
    said = f"It beats {rival}" if better else f"It does not beat {rival}"
    apart = proxy.apart(baseline)
    if apart is None:
        return f"{said}; without intervals nobody can say how surely."
    if apart:
        return f"{said}, and the intervals tell the two apart."
    return f"{said}, {'but' if better else 'and'} the intervals overlap: they cannot tell the two apart."


def _header(trust: Trust) -> str:
    """The verdict, what was compared with what, and what a reader must know."""
    seeds = f", {trust.seeds} seeds each" if trust.seeds > 1 else ""
    what = (
        f"{len(trust.judged):,} proxies and baselines on {_numbers.counted(len(trust.archs), 'architecture')} of the "
        f"space {trust.space}{seeds}. The truth is {trust.truth_about}."
    )
    notes = [paragraph(note, "note") for note in trust.notes]
    advice = [paragraph(trust.advice)] if trust.advice else []
    following = [copyable(trust.following)] if trust.following else []
    parts = (paragraph(what), *notes, *advice, *following)
    return header("trust report", trust.made_on, trust.title, verdict(trust), *parts)


def _cost(trust: Trust) -> str:
    return cost(trust.cost, len(trust.archs), together(trust.batched))


def _settings(trust: Trust) -> str:
    run = {"space": trust.space, "truth": trust.truth_about, "seeds": str(trust.seeds), **trust.settings}
    return settings(run, trust.versions)


def _again(trust: Trust) -> str:
    return again(trust.command, "Gives this page again.")
