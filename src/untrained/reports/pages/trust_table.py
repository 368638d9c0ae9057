"""The sections of a trust page that are tables: every statistic of every proxy, and what failed.

Reads a `Trust` and computes nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from html import escape

from untrained import _numbers
from untrained.reports.pages.html import cell, code, facts, html_cell, paragraph, section, table
from untrained.studies.trust import Estimate, Judged, Trust

LABELS = {"baseline": "baseline", "other": "third party", "combination": "combination"}  # by kind of proxy

_COLUMNS = {
    "top_overlap": "Top 10 %: how much of the best tenth by score is the best tenth by truth.",
    "precision_at_10": "Of first 10: how much of the ten best scores is in that tenth.",
    "regret": "Regret: what the choice of the best score falls short of the best.",
}

Text = Callable[[float], str]


def correlation(value: float) -> str:
    return _numbers.fixed(value, 3)


def kind(judged: Judged) -> str:
    """The CSS class of its ink."""
    return judged.kind if judged.kind in LABELS else "proxy"


def judgement(trust: Trust) -> str:
    """Every statistic, best first. A column that no row fills is left out."""
    if not trust.judged:
        return section("Proxies", paragraph("No proxy was judged."))
    columns = _statistics(trust)
    spread = any((main := row.statistics.get("spearman")) and main.spread is not None for row in trust.judged)
    head = [("", "Proxy"), ("num", "Spearman"), ("num", "95 % interval")] + [("num", "\u00b1\u00a0seeds")] * spread
    head += [("num", name) for name, _ in columns.values()] + [("num", "n"), ("", "Failed"), ("num", "Cost")]
    lines = [_line(row, columns, spread) for row in trust.judged]
    about = {row.proxy: row.about for row in trust.judged if row.about}
    folded = f"<details><summary>What they measure</summary>{facts(about)}</details>" if about else ""
    first = f"Best first, by Spearman's rank correlation with {trust.truth_about}: 1 is the right order, 0 is chance."
    said = paragraph(_legend(columns, spread), "note")
    return section("Proxies", paragraph(first, "note"), table("trust", head, lines), said, folded)


def _statistics(trust: Trust) -> dict[str, tuple[str, Text]]:
    """Heading and number format of each statistic but the first, the known ones in order."""
    unit = f",\u00a0{trust.truth_unit}" if trust.truth_unit else ""
    known: dict[str, tuple[str, Text]] = {
        "kendall": ("Kendall", correlation),
        "pearson": ("Pearson", correlation),
        "top_overlap": ("Top 10\u00a0%", _share),
        "precision_at_10": ("Of first\u00a010", _share),
        "regret": (f"Regret{unit}", lambda value: _numbers.fixed(value, 2)),
    }
    there = {name for row in trust.judged for name, estimate in row.statistics.items() if estimate}
    others: dict[str, tuple[str, Text]] = {name: (name, correlation) for name in sorted(there - {*known, "spearman"})}
    return {name: column for name, column in (known | others).items() if name in there}


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _legend(columns: Iterable[str], spread: bool) -> str:
    """What the columns say, of those that are there."""
    said = ["The interval is over architectures" + (", \u00b1 the standard deviation over seeds." if spread else ".")]
    said += [_COLUMNS[name] for name in columns if name in _COLUMNS]
    return " ".join([*said, "Cost: in forward passes."])


def _line(row: Judged, columns: dict[str, tuple[str, Text]], spread: bool) -> str:
    main = row.statistics.get("spearman")
    label = f' <span class="label">{escape(LABELS[row.kind])}</span>' if row.kind in LABELS else ""
    cells = [
        html_cell(f"{code(row.proxy)}{label}", "proxy"),
        cell(correlation(main.value) if main else "\u2013", "num score"),
        cell(_numbers.between(main.low, main.high, correlation) if main else "", "num soft"),
    ]
    if spread:
        cells.append(cell(correlation(main.spread) if main and main.spread is not None else "", "num soft"))
    cells += [html_cell(_told(row.statistics.get(name), text), "num") for name, (_, text) in columns.items()]
    cells += [cell(f"{row.n:,}", "num"), cell(_failed(row), "soft failed")]
    cells.append(cell("\u2013" if row.cost is None else f"{row.cost:.3g}", "num"))
    return f'<tr class="k-{kind(row)}">{"".join(cells)}</tr>'


def _told(estimate: Estimate | None, text: Text) -> str:
    """The value; its interval comes up where it is pointed at."""
    if estimate is None:
        return "\u2013"
    interval = _numbers.between(estimate.low, estimate.high, text)
    value = escape(text(estimate.value))
    return f'<span title="{escape(interval)}">{value}</span>' if interval else value


def _failed(row: Judged) -> str:
    most_first = sorted(row.failures.items(), key=lambda item: -item[1])
    return ", ".join(f"{count:,}\u00a0{name}" for name, count in most_first)


def failed(trust: Trust) -> str:
    """Proxies that failed alike share a line, a column for each kind of failure."""
    alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for row in trust.judged:
        if row.failed:
            alike.setdefault(tuple(sorted(row.failures.items())), []).append(row.proxy)
    if not alike:
        return section("What failed", paragraph("Nothing failed."))
    kinds = list(dict.fromkeys(name for failures in alike for name, count in failures if count))
    head = [("", "Proxies"), *(("num", name) for name in kinds)]
    groups = sorted(alike.items(), key=lambda item: -sum(count for _, count in item[0]))
    lines = [_group(dict(failures), names, kinds) for failures, names in groups]
    some = sum(map(len, alike.values()))
    note = (
        f"{some:,} of {len(trust.judged):,} proxies could not score every one of "
        f"{_numbers.counted(len(trust.archs), 'architecture')}. "
        "What has no score takes no part, for that proxy alone."
    )
    return section("What failed", paragraph(note, "note"), table("", head, lines))


def _group(failures: dict[str, int], names: Sequence[str], kinds: Sequence[str]) -> str:
    counts = [cell(f"{failures[name]:,}" if failures.get(name) else "\u2013", "num") for name in kinds]
    return f"<tr>{html_cell(', '.join(map(code, names)), 'names')}{''.join(counts)}</tr>"
