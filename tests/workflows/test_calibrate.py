"""`calibrate` recommends a proxy for a user's own space."""

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


def make_row(name: str, scores: tuple[float | None, ...], cost: float = 1.0, kind: str = "proxy"):
    failures = {"nan": 1} if None in scores else {}
    return compare_with_truth(ProxyScores(name, "", kind, True, (scores,), cost, failures), TRUTH)


def test_architectures_are_spread_over_sizes():
    records = [
        make_record(Arch("s", (("n", n),)), "params@1", Task("d", (1,), 2), 0, float(n))
        for n in (5, 1, 9, 3, 7)
    ]
    assert [arch["n"] for arch in _spread_over_sizes(records, 3)] == [1, 5, 9]
    assert [arch["n"] for arch in _spread_over_sizes(records, 9)] == [1, 3, 5, 7, 9]


def test_the_best_proxy_without_failures_is_recommended():
    best = make_row("best", (1.0, 2.0, 3.0, None))
    good = make_row("good", (1.0, 3.0, 2.0, 4.0))
    inverted = make_row("bad", (4.0, 3.0, 2.0, 1.0))
    assert recommend_proxy([best, good, inverted]) == "good"
    assert recommend_proxy([good, make_row("cheap", (1.0, 3.0, 2.0, 4.0), cost=0.5)]) == "cheap"
    assert recommend_proxy([inverted]) == "params"
    assert (
        recommend_proxy([make_row("random", (1.0, 2.0, 3.0, 4.0), kind="baseline"), inverted])
        == "params"
    )


def test_the_advice_says_if_no_proxy_is_better_than_chance():
    good = make_row("good", (1.0, 3.0, 2.0, 4.0))
    bad = make_row("params", (4.0, 3.0, 2.0, 1.0))
    assert _make_advice([good], "good") == "Search with good: it ranked these architectures best."
    assert _make_advice([good], "good", "./mine.py:good").startswith(
        "Search with ./mine.py:good: it ranked"
    )
    assert (
        _make_advice([good, bad], "params")
        == "Search with params: no proxy ranked these architectures significantly better."
    )
    assert (
        _make_advice([bad], "params")
        == "Search with params: no proxy ranked these architectures better than chance."
    )


def make_row_with_interval(name: str, low: float, high: float, kind: str = "proxy"):
    """Make a result with this interval and its middle as correlation."""
    return replace(
        make_row(name, TRUTH, kind=kind),
        statistics={"spearman": Estimate((low + high) / 2, low, high)},
    )


def test_the_default_is_recommended_unless_another_proxy_is_significantly_better():
    consensus = make_row_with_interval("consensus", 0.1, 0.5)
    near = make_row_with_interval("near", 0.4, 0.8)
    far = make_row_with_interval("far", 0.6, 0.9)
    assert recommend_proxy([near, consensus]) == "consensus"
    assert recommend_proxy([far, consensus]) == "far"
    # What the trainings cannot distinguish from the default is not recommended, however it ranks.
    assert recommend_proxy([near, make_row_with_interval("consensus", -0.9, 0.5)]) == "consensus"
    assert recommend_proxy([far, make_row_with_interval("consensus", -0.9, 0.5)]) == "far"
    # Without the default, the same holds for the number of parameters.
    assert recommend_proxy([near, make_row_with_interval("params", 0.1, 0.5)]) == "params"
    assert recommend_proxy([far, make_row_with_interval("params", 0.1, 0.5)]) == "far"
    advice = "Search with far: it ranked these architectures significantly better than consensus."
    assert _make_advice([far, consensus], "far") == advice
    advice = "Search with consensus: no proxy ranked these architectures significantly better."
    assert _make_advice([near, consensus], "consensus") == advice
    best_advice = "Search with consensus: it ranked these architectures best."
    assert _make_advice([consensus], "consensus") == best_advice
    # Four trainings give no interval, so nothing is significantly better.
    best = make_row("best", TRUTH)
    assert recommend_proxy([best, make_row("consensus", (1.0, 3.0, 2.0, 4.0))]) == "consensus"


def test_the_certainty_says_how_many_proxies_do_not_differ_from_the_best():
    best = make_row_with_interval("best", 0.5, 0.9)
    near = make_row_with_interval("near", 0.1, 0.5)
    far = make_row_with_interval("far", -0.4, 0.4)
    sentence = _describe_certainty([best, near, far], 12, "accuracy")
    assert (
        "the intervals are wide: 1 of the other 2 do not differ significantly from best. "
        "Proxies far below it" in sentence
    )
    flat = [make_row("flat", (1.0, 1.0, 1.0, 1.0))]
    assert "reached the same accuracy, so proxies cannot be compared" in _describe_certainty(
        flat, 4, "accuracy"
    )
    assert "reached the same AUC, so proxies cannot be compared" in _describe_certainty(
        flat, 4, "AUC"
    )


def test_a_perfect_order_without_an_interval_separates_no_proxies():
    """Four of four are in the right order, which happens by chance once in 24."""
    best = make_row("best", (1.0, 2.0, 3.0, 4.0))
    other = make_row("other", (1.0, 2.0, 4.0, 3.0))
    wrong = make_row("wrong", (4.0, 3.0, 2.0, 1.0))
    sentence = _describe_certainty([best, other, wrong], 4, "accuracy")
    assert sentence.startswith(
        "With 4 trainings best has no interval: "
        "2 of the other 2 do not differ significantly from best."
    )
    assert "trusted on these data" not in sentence


@pytest.mark.parametrize(("high", "differs"), [(0.4, True), (0.6, False)])
def test_terminal_and_page_agree_on_significant_differences(high, differs):
    rows = (
        make_row_with_interval("best", 0.5, 0.9),
        make_row_with_interval("params", -0.4, high, "baseline"),
    )
    sentence = _describe_certainty(rows, 12, "accuracy")
    headline = make_verdict(BenchmarkResult("", "", "", "", "", (), (), rows))
    assert ("0 of the other 1 do not differ significantly from best" in sentence) == differs
    assert ("confidence intervals do not overlap" in headline) == differs
    assert ("1 of the other 1 do not differ significantly from best" in sentence) == (not differs)
    assert ("confidence intervals overlap" in headline) == (not differs)


def test_a_search_uses_the_calibration_of_its_space(own_space):
    options = {"trainings": 5, "epochs": 1, "samples": 120, "workers": 1}
    calibration = calibrate(own_space, "grad_norm,naswot", "digits", **options)
    assert len(calibration.archs) == len(calibration.truth) == 5
    assert {"grad_norm", "naswot", "params", "flops", "random"} <= {
        r.proxy for r in calibration.proxy_results
    }
    assert all(0 <= accuracy <= 100 for accuracy in calibration.truth)
    assert (
        calibration.next_command
        == f"untrained search --space {own_space} --data digits --proxy auto"
    )
    with Store(Path(calibration.folder) / "records.sqlite") as store:
        before = len(store)
    again = calibrate(own_space, "grad_norm,naswot", "digits", **options)
    assert (again.truth, again.proxy_results) == (calibration.truth, calibration.proxy_results)
    with Store(Path(calibration.folder) / "records.sqlite") as store:
        assert len(store) == before
    result = search(own_space, "auto", budget=3, run="run", workers=1)
    assert result.run.config.proxy == calibration.recommended


OWN = """
@ut.proxy(higher_is_better=True)
def good(probe):
    \"\"\"How many parameters.\"\"\"
    return float(sum(p.numel() for p in probe.model.parameters()))
"""


def test_a_users_proxy_is_recommended_by_its_reference(own_space, monkeypatch):
    with Path("mine.py").open("a") as file:
        file.write(OWN)
    monkeypatch.setattr(sys.modules[calibrate.__module__], "recommend_proxy", lambda rows: "good")
    options = {"trainings": 4, "epochs": 1, "samples": 60, "workers": 1}
    calibration = calibrate(own_space, "naswot,./mine.py:good", "digits", **options)
    assert calibration.recommended == "./mine.py:good"
    assert calibration.advice.startswith("Search with ./mine.py:good: ")
    result = search(own_space, "auto", budget=3, run="run", workers=1)
    assert result.run.config.proxy == "./mine.py:good"


def test_the_command_after_a_calibration_in_another_folder_names_the_proxy(own_space):
    """`auto` alone would search the default folder, which has no calibration."""
    options = {"trainings": 4, "epochs": 1, "samples": 60, "workers": 1}
    calibration = calibrate(own_space, "params", "digits", **options, run="elsewhere")
    assert (
        calibration.next_command
        == f"untrained search --space {own_space} --data digits --proxy auto:elsewhere"
    )
    result = search(own_space, "auto:elsewhere", budget=3, run="run", workers=1)
    assert result.run.config.proxy == calibration.recommended
    with pytest.raises(UsageError, match=r"elsewhere is a calibration of .*, not of nasbench201; "):
        search("nasbench201", "auto:elsewhere", budget=3, run="other", workers=1)
    with pytest.raises(UsageError, match=r"for one in another folder, type --proxy auto:FOLDER$"):
        search(own_space, "auto:nowhere", budget=3, run="other", workers=1)
    assert not Path("other").exists()


def test_a_calibration_on_clicks_uses_auc(tmp_path):
    options = {"trainings": 4, "epochs": 1, "samples": 120, "workers": 1}
    calibration = calibrate(
        "nasrec_small(blocks=1)", "params", "clicks:rows=600", **options, run=tmp_path / "run"
    )
    assert calibration.truth_about.startswith("held-out AUC on clicks:rows=600")
    page = report(calibration.folder).read_text()
    assert "held-out AUC" in page
    assert "accuracy" not in page.lower()


def test_the_error_for_auto_without_a_calibration_says_what_to_type(own_space):
    with pytest.raises(
        UsageError, match=r"`untrained calibrate --space ./mine.py:mynet` makes one; for one in "
    ):
        search(own_space, "auto", budget=3, run="run")
    assert not Path("run").exists()


def test_the_error_for_failed_trainings_names_the_first_failure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "import untrained as ut\nfrom torch import nn\n\n@ut.space\ndef net(choose, task):\n"
    text += "    choose('n', list(range(9)))\n    return nn.Sequential(nn.Flatten(), nn.Linear(7, task.num_classes))\n"
    Path("bad.py").write_text(text)
    with pytest.raises(
        UsageError,
        match=r"only 0 of 4 trainings finished; the first failure is error: RuntimeError",
    ):
        calibrate("./bad.py:net", "params", "digits", trainings=4, epochs=1, samples=50, workers=1)


def test_the_error_for_a_space_of_two_architectures_says_that_it_is_too_small(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    text = "import untrained as ut\nfrom torch import nn\n\n@ut.space\ndef net(choose, task):\n"
    text += "    bias = choose('bias', [True, False])\n"
    text += "    linear = nn.Linear(3 * 32 * 32, task.num_classes, bias=bias)\n"
    text += "    return nn.Sequential(nn.Flatten(), linear)\n"
    Path("small.py").write_text(text)
    with pytest.raises(
        UsageError,
        match=r"only 2 of 4 trainings finished; ./small.py:net has too few architectures",
    ):
        calibrate(
            "./small.py:net", "params", "digits", trainings=4, epochs=1, samples=50, workers=1
        )


@pytest.mark.parametrize("options", [{"trainings": 3}, {"epochs": 0}, {"samples": 9}])
def test_too_small_numbers_are_refused(options):
    with pytest.raises(UsageError, match=f"{next(iter(options))} is .*; write a whole number from"):
        calibrate("nasbench201", "params", **options)
