"""Which proxy works on a space of the user's own."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.records import make_record
from untrained import search
from untrained.benchmarks.comparison import ProxyScores, compare_with_truth
from untrained.benchmarks.result import BenchmarkResult, Estimate
from untrained.errors import UsageError
from untrained.reports.pages.benchmark_page import make_verdict
from untrained.runs.store import Store
from untrained.types import Arch, Task
from untrained.workflows.calibrate import (
    _describe_certainty,
    _make_advice,
    _spread_over_sizes,
    calibrate,
    recommend_proxy,
)
from untrained.workflows.report import report

TRUTH = (1.0, 2.0, 3.0, 4.0)


def row(name: str, scores: tuple[float | None, ...], cost: float = 1.0, kind: str = "proxy"):
    failures = {"nan": 1} if None in scores else {}
    return compare_with_truth(ProxyScores(name, "", kind, True, (scores,), cost, failures), TRUTH)


def test_architectures_are_spread_over_sizes():
    records = [
        make_record(Arch("s", (("n", n),)), "params@1", Task("d", (1,), 2), 0, float(n))
        for n in (5, 1, 9, 3, 7)
    ]
    assert [arch["n"] for arch in _spread_over_sizes(records, 3)] == [1, 5, 9]
    assert [arch["n"] for arch in _spread_over_sizes(records, 9)] == [1, 3, 5, 7, 9]


def test_the_best_of_those_that_judged_everybody_is_recommended():
    best, good = row("best", (1.0, 2.0, 3.0, None)), row("good", (1.0, 3.0, 2.0, 4.0))
    bad = row("bad", (4.0, 3.0, 2.0, 1.0))
    assert recommend_proxy([best, good, bad]) == "good"
    assert recommend_proxy([good, row("cheap", (1.0, 3.0, 2.0, 4.0), cost=0.5)]) == "cheap"
    assert recommend_proxy([bad]) == "params"
    assert recommend_proxy([row("random", (1.0, 2.0, 3.0, 4.0), kind="baseline"), bad]) == "params"


def test_parameters_are_not_praised_where_nothing_ranked():
    good, bad = row("good", (1.0, 3.0, 2.0, 4.0)), row("params", (4.0, 3.0, 2.0, 1.0))
    assert (
        _make_advice([good, bad], "good") == "Search by good: it ranked these architectures best."
    )
    assert _make_advice([good], "good", "./mine.py:good").startswith(
        "Search by ./mine.py:good: it ranked"
    )
    assert (
        _make_advice([bad], "params")
        == "Search by params: no proxy ranked these architectures better than chance."
    )


def between(name: str, low: float, high: float, kind: str = "proxy"):
    """Judged with this interval, and the middle of it as its correlation."""
    return replace(
        row(name, TRUTH, kind=kind), statistics={"spearman": Estimate((low + high) / 2, low, high)}
    )


def test_caution_says_how_many_cannot_be_told_from_the_best():
    best, near, far = (
        between("best", 0.5, 0.9),
        between("near", 0.1, 0.5),
        between("far", -0.4, 0.4),
    )
    said = _describe_certainty([best, near, far], 12, "accuracy")
    assert (
        "the intervals are wide: 1 of the other 2 do not differ significantly from best. "
        "Proxies far below it" in said
    )
    flat = [row("flat", (1.0, 1.0, 1.0, 1.0))]
    assert "reached the same accuracy, so proxies cannot be compared" in _describe_certainty(
        flat, 4, "accuracy"
    )
    assert "reached the same AUC, so proxies cannot be compared" in _describe_certainty(
        flat, 4, "AUC"
    )


def test_an_order_without_a_mistake_tells_nobody_apart():
    """Four of four in the right order, as any random order of four is once in 24."""
    best, other = row("best", (1.0, 2.0, 3.0, 4.0)), row("other", (1.0, 2.0, 4.0, 3.0))
    wrong = row("wrong", (4.0, 3.0, 2.0, 1.0))
    said = _describe_certainty([best, other, wrong], 4, "accuracy")
    assert said.startswith(
        "With 4 trainings best has no interval: "
        "2 of the other 2 do not differ significantly from best."
    )
    assert "trusted on these data" not in said


@pytest.mark.parametrize(("high", "apart"), [(0.4, True), (0.6, False)])
def test_terminal_and_page_agree_on_who_is_told_apart(high, apart):
    rows = (between("best", 0.5, 0.9), between("params", -0.4, high, "baseline"))
    said = _describe_certainty(rows, 12, "accuracy")
    headline = make_verdict(BenchmarkResult("", "", "", "", "", (), (), rows))
    assert ("0 of the other 1 do not differ significantly from best" in said) == apart
    assert ("confidence intervals do not overlap" in headline) == apart
    assert ("1 of the other 1 do not differ significantly from best" in said) == (not apart)
    assert ("confidence intervals overlap" in headline) == (not apart)


def test_a_calibration_of_the_users_own_space_and_the_search_that_goes_by_it(mine):
    ask = {"trainings": 5, "epochs": 1, "samples": 120, "workers": 1}
    found = calibrate(mine, "grad_norm,naswot", "digits", **ask)
    assert len(found.archs) == len(found.truth) == 5
    assert {"grad_norm", "naswot", "params", "flops", "random"} <= {
        r.proxy for r in found.proxy_results
    }
    assert all(0 <= accuracy <= 100 for accuracy in found.truth)
    assert found.following == f"untrained search --space {mine} --data digits --proxy auto"
    with Store(Path(found.folder) / "records.sqlite") as store:
        before = len(store)
    again = calibrate(mine, "grad_norm,naswot", "digits", **ask)
    assert (again.truth, again.proxy_results) == (found.truth, found.proxy_results)
    with Store(Path(found.folder) / "records.sqlite") as store:
        assert len(store) == before
    result = search(mine, "auto", budget=3, run="run", workers=1)
    assert result.run.config.proxy == found.recommended


OWN = """
@ut.proxy(higher_is_better=True)
def good(probe):
    \"\"\"How many parameters.\"\"\"
    return float(sum(p.numel() for p in probe.model.parameters()))
"""


def test_a_proxy_of_the_users_own_is_recommended_as_it_was_typed(mine, monkeypatch):
    with Path("mine.py").open("a") as file:
        file.write(OWN)
    monkeypatch.setattr(sys.modules[calibrate.__module__], "recommend_proxy", lambda rows: "good")
    ask = {"trainings": 4, "epochs": 1, "samples": 60, "workers": 1}
    found = calibrate(mine, "naswot,./mine.py:good", "digits", **ask)
    assert found.recommended == "./mine.py:good"
    assert found.advice.startswith("Search by ./mine.py:good: ")
    result = search(mine, "auto", budget=3, run="run", workers=1)
    assert result.run.config.proxy == "./mine.py:good"


def test_a_calibration_elsewhere_is_followed_by_name(mine):
    """`auto` would look in the default folder, where there is none."""
    ask = {"trainings": 4, "epochs": 1, "samples": 60, "workers": 1}
    found = calibrate(mine, "params", "digits", **ask, run="elsewhere")
    assert (
        found.following
        == f"untrained search --space {mine} --data digits --proxy {found.recommended}"
    )


def test_a_calibration_on_a_click_log_speaks_of_auc(tmp_path):
    ask = {"trainings": 4, "epochs": 1, "samples": 120, "workers": 1}
    found = calibrate(
        "nasrec_small(blocks=1)", "params", "clicks:rows=600", **ask, run=tmp_path / "run"
    )
    assert found.truth_about.startswith("held-out AUC on clicks:rows=600")
    page = report(found.folder).read_text()
    assert "held-out AUC" in page
    assert "accuracy" not in page.lower()


def test_auto_without_a_calibration_says_what_to_type(mine):
    with pytest.raises(
        UsageError, match=r"`untrained calibrate --space ./mine.py:mynet` makes it$"
    ):
        search(mine, "auto", budget=3, run="run")
    assert not Path("run").exists()


def test_trainings_that_fail_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "import untrained as ut\nfrom torch import nn\n\n@ut.space\ndef net(choose, task):\n"
    text += "    choose('n', list(range(9)))\n    return nn.Sequential(nn.Flatten(), nn.Linear(7, task.num_classes))\n"
    Path("bad.py").write_text(text)
    with pytest.raises(
        UsageError,
        match=r"only 0 of 4 trainings finished; the first failure is error: RuntimeError",
    ):
        calibrate("./bad.py:net", "params", "digits", trainings=4, epochs=1, samples=50, workers=1)


@pytest.mark.parametrize("ask", [{"trainings": 3}, {"epochs": 0}, {"samples": 9}])
def test_too_little_effort_is_refused(ask):
    with pytest.raises(UsageError, match=f"{next(iter(ask))} is .*; write a whole number from"):
        calibrate("nasbench201", "params", **ask)
