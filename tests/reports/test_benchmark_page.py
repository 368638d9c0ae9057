"""The page of a benchmark, read as text: the verdict, the tables, what is folded, escaped or left out."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.reports.examples import make_study
from tests.reports.test_search_page import extract_body
from untrained.benchmarks.result import BenchmarkResult, Estimate, ProxyResult
from untrained.reports.pages.benchmark_page import make_verdict, render_benchmark_page

EVIL = '<img src=x onerror="alert(1)">&'


def make_proxy_result(
    name: str, kind: str = "proxy", value: float | None = 0.5, low: Any = None, high: Any = None
) -> ProxyResult:
    main = None if value is None else Estimate(value, low, high)
    return ProxyResult(name, "", kind, True, 1.0, 3, {}, {"spearman": main}, (1.0, 2.0, 3.0))


def make_small_study(*rows: ProxyResult, **changes: Any) -> BenchmarkResult:
    return make_study(archs=3, proxies=0, proxy_results=rows, **changes)


def get_section(page: str, title: str) -> str:
    (section,) = re.findall(rf"<section><h2>{title}</h2>(.*?)</section>", page, flags=re.S)
    return str(section)


# The verdict


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            (
                make_proxy_result("a", value=0.9, low=0.85, high=0.95),
                make_proxy_result("params", "baseline", 0.7, 0.6, 0.8),
            ),
            "The only proxy is a: Spearman 0.900 (0.850 to 0.950), against 0.700 (0.600 to 0.800) for params, the "
            "best baseline. It is better than counting parameters: the confidence intervals do not overlap.",
        ),
        (
            (
                make_proxy_result("a", value=0.9, low=0.75, high=0.95),
                make_proxy_result("params", "baseline", 0.7, 0.6, 0.8),
            ),
            "On these networks, its correlation is higher than that of counting parameters; the confidence intervals "
            "overlap, so the difference may be chance.",
        ),
        (
            (
                make_proxy_result("a", value=0.6, low=0.5, high=0.7),
                make_proxy_result("flops", "baseline", 0.7, 0.6, 0.8),
            ),
            "On these networks, its correlation is not higher than that of flops; the confidence intervals overlap, "
            "so the difference may be chance.",
        ),
        (
            (
                make_proxy_result("a", value=0.3, low=0.2, high=0.4),
                make_proxy_result("flops", "baseline", 0.7, 0.6, 0.8),
            ),
            "It is worse than flops: the confidence intervals do not overlap.",
        ),
        (
            (
                make_proxy_result("flops", "baseline", 0.7),
                make_proxy_result("a", value=0.6),
                make_proxy_result("params", "baseline", 0.65),
            ),
            "against 0.700 for flops, the best baseline. On these networks, its correlation is not higher than that of "
            "flops; without confidence intervals, this may be chance. Counting parameters gives 0.650.",
        ),
        (
            (
                make_proxy_result("params", value=0.9),
                make_proxy_result("params", "baseline", 0.65),
                make_proxy_result("params", "other", 0.2),
            ),
            "The best of 2 proxies is params: Spearman 0.900, against 0.650 for params, the best baseline. "
            "On these networks, its correlation is higher than that of counting parameters; without confidence "
            "intervals, this may be chance.",
        ),
        (
            (
                make_proxy_result("b", value=0.2),
                make_proxy_result("a", "combination", 0.6),
                make_proxy_result("c", "other", None),
            ),
            "The best of 3 proxies is a: Spearman 0.600. There is no baseline to compare with.",
        ),
        (
            (make_proxy_result("params", "baseline", 0.6), make_proxy_result("b", value=None)),
            "Only baselines could be evaluated. The best is params: Spearman 0.600.",
        ),
        (
            (make_proxy_result("a", value=None),),
            "No proxy could be evaluated: none of them gave scores that differ.",
        ),
        ((), "No proxy was evaluated."),
    ],
)
def test_the_verdict_says_whether_the_best_beats_the_best_baseline(
    rows: tuple[ProxyResult, ...], expected: str
) -> None:
    verdict = make_verdict(make_small_study(*rows)).replace("\u00a0", " ")
    assert verdict.endswith(expected)
    assert expected in extract_body(render_benchmark_page(make_small_study(*rows)))


def test_no_proxy_can_be_evaluated_if_all_architectures_are_equally_good() -> None:
    assert make_verdict(
        make_small_study(make_proxy_result("a", value=None), truth=(10.0,) * 3)
    ) == ("No proxy could be evaluated: all architectures have the same ground truth.")


# The page as a whole


def test_the_page_shows_the_result_in_order() -> None:
    text = extract_body(render_benchmark_page(make_study()))
    order = [
        "benchmark report", "The best of 17 proxies is mean of ranks", "20 proxies and baselines on 300 architectures",
        "3 seeds each", "The table holds 15,625", "<h2>Proxies", "What the proxies measure", "<h2>Rank correlation",
        "<h2>Score against ground truth", "dot hollow", "The other 8", "<h2>Best tenth", "<h2>Agreement between proxies",
        "<h2>Correlation against cost", "<h2>Failures", "<h2>Cost", "15 min 12 s", "3 s (300 architectures)",
        "<h2>Settings", "torch",
        "<h2>Command", "untrained bench",
    ]  # fmt: skip
    places = [text.find(words) for words in order]
    assert -1 not in places
    assert places == sorted(places)


def test_the_page_does_not_use_the_network() -> None:
    page = render_benchmark_page(make_study())
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\ssrc=", page)
    assert "default-src 'none'" in page


def test_every_string_is_escaped() -> None:
    statistics = {"spearman": Estimate(0.5, 0.4, 0.6), EVIL: Estimate(1.0)}
    row = replace(
        make_study().proxy_results[0],
        proxy=EVIL,
        about=EVIL,
        failures={EVIL: 2},
        statistics=statistics,
    )
    rows = (replace(row, kind="baseline"), replace(row, kind=EVIL))
    page = render_benchmark_page(
        replace(
            make_study(), title=EVIL, command=EVIL, space=EVIL, truth_about=EVIL, truth_unit=EVIL, made_on=EVIL,
            archs=(EVIL,) * 300, proxy_results=rows,
            notes=(EVIL,), settings={EVIL: EVIL}, versions={EVIL: EVIL}, cost={EVIL: 1.0},
        )
    )  # fmt: skip
    assert "<img" not in page
    assert 'onerror="' not in page
    assert page.count("&lt;img") > 40


def test_forty_four_proxies_on_a_thousand_architectures_stay_below_two_megabytes() -> None:
    few = make_study(archs=1000)
    rows = [replace(row, proxy=f"{row.proxy} {i}") for i in range(3) for row in few.proxy_results][
        :44
    ]
    page = render_benchmark_page(replace(few, proxy_results=tuple(rows)))
    assert len(page.encode()) < 2e6
    assert "Each plot shows 400 points; the histograms count all." in page
    assert len(re.findall(r"<path class=\"points (?:dim|top)\"", page)) >= 44
    assert "of each cloud" not in render_benchmark_page(make_study()).lower()


def test_twelve_scatter_plots_are_shown_and_the_others_folded() -> None:
    page = get_section(render_benchmark_page(make_study()), "Score against ground truth")
    visible, folded = page.split("<details>")
    names = [row.proxy for row in make_study().proxy_results]
    shown_names = [
        re.findall(r'<text class="title" x="0" y="12">([^<]*)<', part) for part in (visible, folded)
    ]
    assert shown_names == [names[:12], names[12:]]


def test_rows_beyond_sixty_are_left_out_of_charts_and_the_page_says_so() -> None:
    few = make_study(archs=30)
    rows = [
        replace(row, proxy=f"{row.proxy} {i}")
        for i in range(4)
        for row in few.proxy_results
        if row.statistics["spearman"]
    ]
    page = render_benchmark_page(replace(few, proxy_results=tuple(rows)))
    assert page.count("The chart shows the first 60 of 76 proxies.") == 3
    assert get_section(page, "Rank correlation").count('class="bar"') == 2 * 60
    assert get_section(page, "Proxies").count("<tr class=") == 76


# The tables


def test_the_table_has_the_main_statistics_and_marks_baselines() -> None:
    section = get_section(render_benchmark_page(make_study()), "Proxies")
    page, _ = section.split("<details><summary>More statistics")
    assert [head.replace("\u00a0", " ") for head in re.findall(r"<th [^>]*>([^<]*)</th>", page)] == [
        "Proxy", "Spearman", "95 % interval", "\u00b1 seeds", "Equal size", "Top 5 %", "Top 10 %", "Top 10",
        "Regret, %", "n", "Failed", "Cost",
    ]  # fmt: skip
    lines = {
        row.proxy: line
        for row, line in zip(
            make_study().proxy_results, re.findall(r"<tr class.*?</tr>", page), strict=True
        )
    }
    values = [
        re.sub(r"<.*?>", "", text) for text in re.findall(r"<td[^>]*>(.*?)</td>", lines["zen"])
    ]
    row = next(row for row in make_study().proxy_results if row.proxy == "zen")
    estimates = {name: estimate for name, estimate in row.statistics.items() if estimate}
    main = estimates["spearman"]
    assert [value.replace("\u00a0", " ").replace("\u2212", "-") for value in values] == [
        "zen", f"{main.value:.3f}", f"{main.low:.3f} to {main.high:.3f}", "0.012",
        f"{estimates['size_controlled'].value:.3f}",
        f"{100 * estimates['top_5_overlap'].value:.0f} %", f"{100 * estimates['top_overlap'].value:.0f} %",
        f"{100 * estimates['precision_at_10'].value:.0f} %", f"{estimates['regret'].value:.2f}", str(row.n),
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
    assert f'title="{0.5 * estimates["top_overlap"].value * 100:.0f} %\u00a0to' in lines["zen"]


def test_a_second_table_has_the_other_statistics() -> None:
    section = get_section(render_benchmark_page(make_study()), "Proxies")
    _, page = section.split("<details><summary>More statistics")
    assert [head.replace("\u00a0", " ") for head in re.findall(r"<th [^>]*>([^<]*)</th>", page)] == [
        "Proxy", "Kendall", "Pearson", "nDCG", "Regret of 10, %",
    ]  # fmt: skip
    lines = re.findall(r"<tr><td.*?</tr>", page)
    row, line = next(
        (row, line)
        for row, line in zip(make_study().proxy_results, lines, strict=True)
        if row.proxy == "zen"
    )
    values = [re.sub(r"<.*?>", "", text) for text in re.findall(r"<td[^>]*>(.*?)</td>", line)]
    expected = ["zen"]
    for name, digits in (("kendall", 3), ("pearson", 3), ("ndcg", 3), ("regret_at_10", 2)):
        estimate = row.statistics[name]
        assert estimate is not None
        expected.append(f"{estimate.value:.{digits}f}")
    assert values == expected
    assert (
        "if scores are tied for the tenth place, the worst of these architectures are taken" in page
    )


def test_empty_columns_are_left_out() -> None:
    page = get_section(
        render_benchmark_page(
            make_small_study(make_proxy_result("a"), make_proxy_result("b", value=0.2))
        ),
        "Proxies",
    )
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


def test_proxies_with_equal_failures_share_a_row() -> None:
    rows = [
        replace(make_proxy_result("a"), failures={"nan": 2}),
        replace(make_proxy_result("b"), failures={"disconnected": 3, "nan": 1}),
        replace(make_proxy_result("c"), failures={"nan": 2}),
        make_proxy_result("d"),
    ]
    page = get_section(render_benchmark_page(make_small_study(*rows)), "Failures")
    assert "3 of 4 proxies could not score all 3 architectures." in page
    assert re.findall(r"<th [^>]*>([^<]*)</th>", page)[0] == "Proxies"
    lines = [
        re.sub(r"<.*?>", "", line.replace("</td>", "|"))
        for line in re.findall(r"<tr><td.*?</tr>", page)
    ]
    heads = re.findall(r"<th [^>]*>([^<]*)</th>", page)[1:]
    rows_shown = [dict(zip(["names", *heads], line.split("|"), strict=False)) for line in lines]
    assert rows_shown == [
        {"names": "b", "disconnected": "3", "nan": "1"}, {"names": "a, c", "disconnected": "\u2013", "nan": "2"},
    ]  # fmt: skip
    assert "There were no failures." in render_benchmark_page(
        make_small_study(make_proxy_result("d"))
    )


# Agreement of proxies


def test_the_heat_map_shows_scipys_correlation_of_common_scores() -> None:
    facts = make_study()
    page = get_section(render_benchmark_page(facts), "Agreement between proxies")
    titles = dict(re.findall(r"<title>([^<]*): ([^<:]*)</title>", page))
    columns = {
        row.proxy: np.array(
            [np.nan if s is None else s * (1 if row.higher_is_better else -1) for s in row.scores]
        )
        for row in facts.proxy_results
    }
    assert len(titles) == len(columns) ** 2
    for a, x in columns.items():
        for b, y in columns.items():
            correlation = titles[f"{a}, {b}"]
            both = np.isfinite(x) & np.isfinite(y)
            assert correlation == titles[f"{b}, {a}"]
            if "te_nas_regions" in (a, b):
                assert correlation == "not defined"
            else:
                rho = float(stats.spearmanr(x[both], y[both]).statistic)
                assert float(correlation.replace("\u2212", "-")) == pytest.approx(rho, abs=0.00501)
                assert correlation == "1.00" or a != b


def test_the_hits_in_the_best_tenth_equal_the_overlap_of_the_table() -> None:
    page = get_section(render_benchmark_page(make_study()), "Best tenth")
    hits = dict(re.findall(r"<title>([^<]*): ([\d.]+ of \d+) hits</title>", page))
    for row in make_study().proxy_results:
        if overlap := row.statistics["top_overlap"]:
            k = round(row.n / 10)
            assert hits[row.proxy] == f"{overlap.value * k:.0f} of {k}"
    assert len(hits) == 20


def test_scores_are_inverted_if_lower_is_better() -> None:
    up = make_proxy_result("up")
    down = replace(up, proxy="down", higher_is_better=False, scores=(3.0, 2.0, 1.0))
    page = render_benchmark_page(make_small_study(up, down, truth=(1.0, 2.0, 3.0)))
    assert "<title>up, down: 1.00</title>" in page
    assert "score (lower is better)" in page
    assert re.findall(r"<title>(?:up|down): (1 of 1) hits</title>", page) == ["1 of 1"] * 4


# Little or nothing to show


def test_a_single_proxy_has_no_comparison() -> None:
    page = render_benchmark_page(make_study(proxies=1))
    assert "There is no baseline to compare with." in page
    assert "<h2>Rank correlation" in page
    assert "<h2>Score against ground truth" in page
    assert "<h2>Agreement between proxies" not in page
    assert "<h2>Correlation against cost" not in page
    assert "The other" not in page


def test_a_study_with_only_failures_says_so() -> None:
    rows = [
        replace(make_proxy_result(name, value=None), n=0, scores=(None,) * 3, failures={"nan": 3})
        for name in "ab"
    ]
    page = render_benchmark_page(make_small_study(*rows, cost={}))
    assert "The rank correlation is undefined for all proxies." in page
    assert "<svg" not in page
    assert "2 of 2 proxies could not score" in page
    assert "Not recorded." in page


@pytest.mark.parametrize("count", [2, 3, 9])
def test_a_constant_truth_and_few_architectures_have_a_page(count: int) -> None:
    row = replace(
        make_proxy_result("a", value=None), n=count, scores=tuple(map(float, range(count)))
    )
    page = render_benchmark_page(
        make_study(
            archs=count,
            proxies=0,
            proxy_results=(row, replace(row, proxy="b")),
            truth=(10.0,) * count,
        )
    )
    assert "all architectures have the same ground truth" in page
    assert "<h2>Score against ground truth" in page
    assert ">nan" not in page


def test_an_empty_study_has_a_page() -> None:
    page = render_benchmark_page(make_study(archs=0, proxies=0))
    assert page.count("No proxy was evaluated.") == 3
    assert "<svg" not in page


def test_the_header_shows_the_advice_and_its_command() -> None:
    page = render_benchmark_page(
        make_study(advice="Search by meco.", next_command="untrained search --proxy auto")
    )
    head = page[: page.index("</header>")]
    assert "Search by meco." in head
    assert 'data-copy="untrained search --proxy auto"' in head
    assert "data-copy" not in render_benchmark_page(make_study()).split("</header>")[0]
