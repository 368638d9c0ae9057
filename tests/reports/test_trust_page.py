"""The page of a trust study, read as text: the verdict, the tables, what is folded, escaped or left out."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.reports.examples import trust
from tests.reports.test_page import body_of
from untrained.benchmarks.result import BenchmarkResult, Estimate, ProxyResult
from untrained.reports.pages.benchmark_page import make_verdict, render_benchmark_page

EVIL = '<img src=x onerror="alert(1)">&'


def judged(
    name: str, kind: str = "proxy", value: float | None = 0.5, low: Any = None, high: Any = None
) -> ProxyResult:
    main = None if value is None else Estimate(value, low, high)
    return ProxyResult(name, "", kind, True, 1.0, 3, {}, {"spearman": main}, (1.0, 2.0, 3.0))


def study(*rows: ProxyResult, **changes: Any) -> BenchmarkResult:
    return trust(archs=3, proxies=0, proxy_results=rows, **changes)


def section_of(page: str, title: str) -> str:
    (found,) = re.findall(rf"<section><h2>{title}</h2>(.*?)</section>", page, flags=re.S)
    return str(found)


# The verdict


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((judged("a", value=0.9, low=0.85, high=0.95), judged("params", "baseline", 0.7, 0.6, 0.8)),
         "The only proxy is a: Spearman 0.900 (0.850 to 0.950), against 0.700 (0.600 to 0.800) for params, the "
         "best baseline. It is better than counting parameters; their confidence intervals do not overlap."),
        ((judged("a", value=0.9, low=0.75, high=0.95), judged("params", "baseline", 0.7, 0.6, 0.8)),
         "It is better than counting parameters; their confidence intervals overlap, so the difference may be chance."),
        ((judged("a", value=0.6, low=0.5, high=0.7), judged("flops", "baseline", 0.7, 0.6, 0.8)),
         "It is not better than flops; their confidence intervals overlap, so the difference may be chance."),
        ((judged("a", value=0.3, low=0.2, high=0.4), judged("flops", "baseline", 0.7, 0.6, 0.8)),
         "It is not better than flops; their confidence intervals do not overlap."),
        ((judged("flops", "baseline", 0.7), judged("a", value=0.6), judged("params", "baseline", 0.65)),
         "against 0.700 for flops, the best baseline. It is not better than flops; without "
         "confidence intervals, this may be chance. Counting parameters gives 0.650."),
        ((judged("params", value=0.9), judged("params", "baseline", 0.65), judged("params", "other", 0.2)),
         "The best of 2 proxies is params: Spearman 0.900, against 0.650 for params, the best baseline. It is better "
         "than counting parameters; without confidence intervals, this may be chance."),
        ((judged("b", value=0.2), judged("a", "combination", 0.6), judged("c", "other", None)),
         "The best of 3 proxies is a: Spearman 0.600. There is no baseline to compare with."),
        ((judged("params", "baseline", 0.6), judged("b", value=None)),
         "Only baselines could be evaluated. The best is params: Spearman 0.600."),
        ((judged("a", value=None),), "No proxy could be evaluated: none of them gave scores that can be ranked."),
        ((), "No proxy was evaluated."),
    ],
)  # fmt: skip
def test_the_verdict_says_whether_the_best_beats_the_best_baseline(
    rows: tuple[ProxyResult, ...], said: str
) -> None:
    found = make_verdict(study(*rows)).replace("\u00a0", " ")
    assert found.endswith(said)
    assert said in body_of(render_benchmark_page(study(*rows)))


def test_nothing_can_be_judged_where_all_are_equally_good() -> None:
    assert make_verdict(study(judged("a", value=None), truth=(10.0,) * 3)) == (
        "No proxy could be evaluated: all architectures are equally good."
    )


# The page as a whole


def test_the_page_tells_the_result_in_order() -> None:
    seen = body_of(render_benchmark_page(trust()))
    order = [
        "benchmark report", "The best of 17 proxies is mean of ranks", "20 proxies and baselines on 300 architectures",
        "3 seeds each", "The table holds 15,625", "<h2>Proxies", "What they measure", "<h2>Rank correlation",
        "<h2>Score against truth", "dot hollow", "The other 8", "<h2>Best tenth", "<h2>Agreement between proxies",
        "<h2>Correlation against cost", "<h2>Failures", "<h2>Cost", "15 min 12 s", "3 s (300 architectures)",
        "<h2>Settings", "torch",
        "<h2>Command", "untrained bench",
    ]  # fmt: skip
    places = [seen.find(words) for words in order]
    assert -1 not in places
    assert places == sorted(places)


def test_the_page_asks_the_network_for_nothing() -> None:
    page = render_benchmark_page(trust())
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\ssrc=", page)
    assert "default-src 'none'" in page


def test_every_string_is_escaped() -> None:
    told = {"spearman": Estimate(0.5, 0.4, 0.6), EVIL: Estimate(1.0)}
    row = replace(
        trust().proxy_results[0], proxy=EVIL, about=EVIL, failures={EVIL: 2}, statistics=told
    )
    rows = (replace(row, kind="baseline"), replace(row, kind=EVIL))
    page = render_benchmark_page(
        replace(
            trust(), title=EVIL, command=EVIL, space=EVIL, truth_about=EVIL, truth_unit=EVIL, made_on=EVIL,
            archs=(EVIL,) * 300, proxy_results=rows,
            notes=(EVIL,), settings={EVIL: EVIL}, versions={EVIL: EVIL}, cost={EVIL: 1.0},
        )
    )  # fmt: skip
    assert "<img" not in page
    assert 'onerror="' not in page
    assert page.count("&lt;img") > 40


def test_forty_four_proxies_on_a_thousand_architectures_stay_below_two_megabytes() -> None:
    few = trust(archs=1000)
    rows = [replace(row, proxy=f"{row.proxy} {i}") for i in range(3) for row in few.proxy_results][
        :44
    ]
    page = render_benchmark_page(replace(few, proxy_results=tuple(rows)))
    assert len(page.encode()) < 2e6
    assert "Each plot shows 400 points; the histograms count all." in page
    assert len(re.findall(r"<path class=\"points (?:dim|top)\"", page)) >= 44
    assert "of each cloud" not in render_benchmark_page(trust()).lower()


def test_twelve_clouds_are_in_plain_sight_and_the_others_folded() -> None:
    page = section_of(render_benchmark_page(trust()), "Score against truth")
    sight, fold = page.split("<details>")
    names = [row.proxy for row in trust().proxy_results]
    told = [
        re.findall(r'<text class="title" x="0" y="12">([^<]*)<', part) for part in (sight, fold)
    ]
    assert told == [names[:12], names[12:]]


def test_rows_beyond_sixty_are_left_out_of_charts_and_the_page_says_so() -> None:
    few = trust(archs=30)
    rows = [
        replace(row, proxy=f"{row.proxy} {i}")
        for i in range(4)
        for row in few.proxy_results
        if row.statistics["spearman"]
    ]
    page = render_benchmark_page(replace(few, proxy_results=tuple(rows)))
    assert page.count("The first 60 of 76 are shown.") == 3
    assert section_of(page, "Rank correlation").count('class="bar"') == 2 * 60
    assert section_of(page, "Proxies").count("<tr class=") == 76


# Its tables


def test_the_table_has_every_statistic_and_marks_what_is_not_a_proxy() -> None:
    page = section_of(render_benchmark_page(trust()), "Proxies")
    assert [head.replace("\u00a0", " ") for head in re.findall(r"<th [^>]*>([^<]*)</th>", page)] == [
        "Proxy", "Spearman", "95 % interval", "\u00b1 seeds", "Kendall", "Pearson", "Top 10 %", "Top 10",
        "Regret, %", "n", "Failed", "Cost",
    ]  # fmt: skip
    lines = {
        row.proxy: line
        for row, line in zip(
            trust().proxy_results, re.findall(r"<tr class.*?</tr>", page), strict=True
        )
    }
    values = [
        re.sub(r"<.*?>", "", text) for text in re.findall(r"<td[^>]*>(.*?)</td>", lines["zen"])
    ]
    row = next(row for row in trust().proxy_results if row.proxy == "zen")
    expect = {name: estimate for name, estimate in row.statistics.items() if estimate}
    main = expect["spearman"]
    assert [value.replace("\u00a0", " ").replace("\u2212", "-") for value in values] == [
        "zen", f"{main.value:.3f}", f"{main.low:.3f} to {main.high:.3f}", "0.012", f"{expect['kendall'].value:.3f}",
        f"{expect['pearson'].value:.3f}", f"{100 * expect['top_overlap'].value:.0f} %",
        f"{100 * expect['precision_at_10'].value:.0f} %", f"{expect['regret'].value:.2f}", str(row.n),
        f"{row.failures['disconnected']} disconnected, 1 nan", "2",
    ]  # fmt: skip
    assert [name for name, line in lines.items() if ">baseline<" in line] == [
        "params",
        "flops",
        "random",
    ]
    assert [name for name, line in lines.items() if ">third party<" in line] == [
        "synflow/cifar10/0"
    ]
    assert lines["te_nas_regions"].count("\u2013</td>") == 6
    assert f'title="{0.5 * expect["top_overlap"].value * 100:.0f} %\u00a0to' in lines["zen"]


def test_columns_that_nothing_fills_are_left_out() -> None:
    page = section_of(render_benchmark_page(study(judged("a"), judged("b", value=0.2))), "Proxies")
    assert re.findall(r"<th [^>]*>([^<]*)</th>", page) == [
        "Proxy",
        "Spearman",
        "95 % interval",
        "n",
        "Failed",
        "Cost",
    ]
    assert "Regret" not in page
    assert "seeds" not in page


def test_proxies_that_failed_alike_share_a_line() -> None:
    rows = [
        replace(judged("a"), failures={"nan": 2}), replace(judged("b"), failures={"disconnected": 3, "nan": 1}),
        replace(judged("c"), failures={"nan": 2}), judged("d"),
    ]  # fmt: skip
    page = section_of(render_benchmark_page(study(*rows)), "Failures")
    assert "3 of 4 proxies could not score all 3 architectures." in page
    assert re.findall(r"<th [^>]*>([^<]*)</th>", page)[0] == "Proxies"
    lines = [
        re.sub(r"<.*?>", "", line.replace("</td>", "|"))
        for line in re.findall(r"<tr><td.*?</tr>", page)
    ]
    heads = re.findall(r"<th [^>]*>([^<]*)</th>", page)[1:]
    found = [dict(zip(["names", *heads], line.split("|"), strict=False)) for line in lines]
    assert found == [
        {"names": "b", "disconnected": "3", "nan": "1"}, {"names": "a, c", "disconnected": "\u2013", "nan": "2"},
    ]  # fmt: skip
    assert "There were no failures." in render_benchmark_page(study(judged("d")))


# What only the page knows: agreement of proxies


def test_the_heat_map_is_scipys_correlation_of_what_both_have_scored() -> None:
    facts = trust()
    page = section_of(render_benchmark_page(facts), "Agreement between proxies")
    said = dict(re.findall(r"<title>([^<]*): ([^<:]*)</title>", page))
    columns = {
        row.proxy: np.array(
            [np.nan if s is None else s * (1 if row.higher_is_better else -1) for s in row.scores]
        )
        for row in facts.proxy_results
    }
    assert len(said) == len(columns) ** 2
    for a, x in columns.items():
        for b, y in columns.items():
            told, both = said[f"{a}, {b}"], np.isfinite(x) & np.isfinite(y)
            assert told == said[f"{b}, {a}"]
            if "te_nas_regions" in (a, b):
                assert told == "not defined"
            else:
                rho = float(stats.spearmanr(x[both], y[both]).statistic)
                assert float(told.replace("\u2212", "-")) == pytest.approx(rho, abs=0.00501)
                assert told == "1.00" or a != b


def test_what_is_found_of_the_best_tenth_is_the_overlap_of_the_table() -> None:
    page = section_of(render_benchmark_page(trust()), "Best tenth")
    found = dict(re.findall(r"<title>([^<]*): ([\d.]+ of \d+) found</title>", page))
    for row in trust().proxy_results:
        if overlap := row.statistics["top_overlap"]:
            k = round(row.n / 10)
            assert found[row.proxy] == f"{overlap.value * k:.0f} of {k}"
    assert len(found) == 20


def test_scores_where_lower_is_better_are_turned_around() -> None:
    up = judged("up")
    down = replace(up, proxy="down", higher_is_better=False, scores=(3.0, 2.0, 1.0))
    page = render_benchmark_page(study(up, down, truth=(1.0, 2.0, 3.0)))
    assert "<title>up, down: 1.00</title>" in page
    assert "score (lower is better)" in page
    assert re.findall(r"<title>(?:up|down): (1 of 1) found</title>", page) == ["1 of 1"] * 4


# Little or nothing to show


def test_one_proxy_has_no_one_to_be_compared_with() -> None:
    page = render_benchmark_page(trust(proxies=1))
    assert "There is no baseline to compare with." in page
    assert "<h2>Rank correlation" in page
    assert "<h2>Score against truth" in page
    assert "<h2>Agreement between proxies" not in page
    assert "<h2>Correlation against cost" not in page
    assert "The other" not in page


def test_a_study_in_which_all_failed_says_so() -> None:
    rows = [
        replace(judged(name, value=None), n=0, scores=(None,) * 3, failures={"nan": 3})
        for name in "ab"
    ]
    page = render_benchmark_page(study(*rows, cost={}))
    assert "No proxy has a rank correlation with the truth." in page
    assert "<svg" not in page
    assert "2 of 2 proxies could not score" in page
    assert "Not recorded." in page


@pytest.mark.parametrize("count", [2, 3, 9])
def test_a_constant_truth_and_few_architectures_can_be_shown(count: int) -> None:
    row = replace(judged("a", value=None), n=count, scores=tuple(map(float, range(count))))
    page = render_benchmark_page(
        trust(
            archs=count,
            proxies=0,
            proxy_results=(row, replace(row, proxy="b")),
            truth=(10.0,) * count,
        )
    )
    assert "all architectures are equally good" in page
    assert "<h2>Score against truth" in page
    assert ">nan" not in page


def test_an_empty_study_is_a_page() -> None:
    page = render_benchmark_page(trust(archs=0, proxies=0))
    assert page.count("No proxy was evaluated.") == 3
    assert "<svg" not in page


def test_advice_and_the_command_that_follows_it_stand_in_the_header() -> None:
    page = render_benchmark_page(
        trust(advice="Search by meco.", following="untrained search --proxy auto")
    )
    head = page[: page.index("</header>")]
    assert "Search by meco." in head
    assert 'data-copy="untrained search --proxy auto"' in head
    assert "data-copy" not in render_benchmark_page(trust()).split("</header>")[0]
