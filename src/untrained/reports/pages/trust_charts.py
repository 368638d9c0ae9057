"""The sections of a trust page that are pictures: from a `Trust` to the plain data that charts draw.

Computes only what is drawn: places among the best tenth, and how far proxies agree with each other.
"""

from collections.abc import Sequence

import numpy as np

from untrained.benchmarks.statistics import Floats
from untrained.reports.agreement import agreement, alike_together
from untrained.reports.pages.html import either, paragraph, section
from untrained.reports.pages.trust_table import LABELS, correlation, kind
from untrained.reports.svg.bars import Bar, bars
from untrained.reports.svg.heatmap import heat
from untrained.reports.svg.plot import MOST
from untrained.reports.svg.scatter import Dot, cloud
from untrained.reports.svg.strips import Strip, best_tenth, strips
from untrained.reports.svg.tradeoff import Offer, tradeoff
from untrained.studies.trust import Estimate, Judged, Trust

ROWS = 60  # of a chart that has a row for each proxy
SHOWN = 12  # clouds in plain sight; the others fold away


def spearman(judged: Judged) -> Estimate | None:
    return judged.statistics.get("spearman")


def correlations(trust: Trust) -> str:
    """A bar for each proxy that has a rank correlation, and a line where the best baseline ends."""
    rows = [
        Bar(row.proxy, main.value, main.low, main.high, kind(row)) for row in trust.judged if (main := spearman(row))
    ]
    if not rows:
        return section("Rank correlation", paragraph("No proxy has a rank correlation with the truth."))
    shown = rows[:ROWS]
    baseline = max((row.value for row in rows if row.kind == "baseline"), default=None)
    line = "The dashed line is the best baseline. " if baseline is not None else ""
    said = f"Spearman's rank correlation and its 95 % interval. {line}{_first(shown, rows)}"
    return section("Rank correlation", _figure(either(lambda room: bars(shown, room, baseline)), said, _kinds(shown)))


def clouds(trust: Trust) -> str:
    """A picture for each proxy with at least two scores."""
    drawn = [(row, dots) for row in trust.judged if len(dots := _dots(row, trust)) > 1]
    if not drawn:
        return ""
    pictures = [
        cloud(dots, row.proxy, correlation(main.value) if (main := spearman(row)) else "\u2013",
              higher_is_better=row.higher_is_better)
        for row, dots in drawn
    ]  # fmt: skip
    unit = f" in {trust.truth_unit}" if trust.truth_unit else ""
    said = f"Across: the score, the better the further right. Up: the truth{unit}. An axis by rank has no histogram. "
    if any(len(dots) > MOST for _, dots in drawn):
        said += f"Of each cloud {MOST} dots are drawn; the histograms count all. "
    key = _key("", "the best tenth by truth") + _key("hollow", "the best score")
    first, rest = (f'<div class="many">{"".join(part)}</div>' for part in (pictures[:SHOWN], pictures[SHOWN:]))
    count = len(pictures) - SHOWN
    folded = f"<details><summary>The other {count:,}</summary>{rest}</details>" if count > 0 else ""
    return section("Score and truth", _figure(first, said, key), folded)


def best(trust: Trust) -> str:
    """The best tenth by truth, where search lives."""
    rows, truth = [], np.array(trust.truth)
    for row in trust.judged:
        scores = _column(row)
        there = np.isfinite(scores)
        if there.sum() > 1:
            rows.append(Strip(row.proxy, best_tenth(scores[there], truth[there]), kind(row)))
    if not rows:
        return ""
    shown = rows[:ROWS]
    said = (
        "A search only ever looks at the top. Each dot is one of the best tenth by truth: across its rank by score, up "
        "its truth. Found: how many of them lie in the shaded end, the best tenth by score; chance finds one in ten. "
        f"Within: Spearman's rank correlation among them. {_first(shown, rows)}"
    )
    if any(len(row.tenth.places) > MOST for row in shown):
        said += f" Of each strip {MOST} dots are drawn."
    return section("The best tenth", _figure(either(lambda room: strips(shown, room)), said, _kinds(shown)))


def alike(trust: Trust) -> str:
    """How far proxies agree with each other, whatever the truth."""
    rows = [row for row in trust.judged if row.n > 1]
    if len(rows) < 2:
        return ""
    shown = rows[:ROWS]
    table = agreement([_column(row) for row in shown])
    order = alike_together(table)
    names = [shown[i].proxy for i in order]
    square = [[table[i][j] for j in order] for i in order]
    said = (
        "Spearman's rank correlation between two proxies, on the architectures that both have scored and with scores "
        f"turned so that higher is better. Alike ones stand together. {_first(shown, rows)}"
    )
    return section("Which are alike", _figure(either(lambda room: heat(names, square, room)), said, ""))


def worth(trust: Trust) -> str:
    """Rank correlation against cost, for those that have both."""
    offers = [
        Offer(row.proxy, row.cost, main.value, kind(row))
        for row in trust.judged
        if (main := spearman(row)) and row.cost is not None
    ]
    if len(offers) < 2:
        return ""
    chart = either(lambda room: tradeoff(offers, room, "cost in forward passes", "Spearman"))
    said = "The line joins those that nothing cheaper matches."
    return section("What it costs", _figure(chart, said, _kinds(offers)))


def _dots(row: Judged, trust: Trust) -> list[Dot]:
    known = zip(row.scores, trust.truth, trust.archs, strict=True)
    return [Dot(score, truth, arch) for score, truth, arch in known if score is not None]


def _column(row: Judged) -> Floats:
    """Scores turned so that higher is better, NaN where there is none."""
    sign = 1 if row.higher_is_better else -1
    return np.array([np.nan if score is None else sign * score for score in row.scores], dtype=np.float64)


def _first(shown: Sequence[object], rows: Sequence[object]) -> str:
    return f"The first {len(shown)} of {len(rows)} are drawn." if len(shown) < len(rows) else ""


def _kinds(rows: Sequence[Bar | Strip | Offer]) -> str:
    """The inks of a chart, where there is more than one."""
    there = [name for name in ("proxy", *LABELS) if any(row.kind == name for row in rows)]
    names = {"proxy": "proxy", **LABELS}
    return "".join(_key(f"k-{name}", names[name]) for name in there) if len(there) > 1 else ""


def _key(ink: str, name: str) -> str:
    return f'<span class="key"><span class="dot {ink}"></span> {name}</span> '


def _figure(chart: str, said: str, key: str) -> str:
    return f"<figure>{chart}<figcaption>{paragraph(said)}{key}</figcaption></figure>"
