"""The page of a training: what it says, and that nobody's text can break it."""

import re
from dataclasses import replace
from typing import Any

from tests.reports.examples import summary
from tests.reports.test_page import body_of
from untrained.cli.terminal.confirmation import show_confirmation
from untrained.reports.confirmation_result import Confirmation, Contrast, Group, ReferenceResult
from untrained.reports.pages import search_page, training_page
from untrained.reports.pages.training_sections import make_training_headline, make_training_sections
from untrained.training.result import TrainingKey, TrainingResult
from untrained.workflows.confirm import compare_groups

PICTURE = "data:image/png;base64,iVBORw0KGgo="


def example(**changes: Any) -> TrainingResult:
    asked = TrainingKey(
        "runs/mine",
        "nasbench201",
        "|cell|",
        "folder:./photos",
        {"name": "quick", "epochs": 3},
        0,
        "cpu",
    )
    curve = tuple(
        {"epoch": e, "rate": 0.1, "loss": 2.0 / e, "val_loss": 2.5 / e, "val_accuracy": 0.3 * e}
        for e in (1, 2, 3)
    )
    found = TrainingResult(
        key=asked,
        ended="epochs",
        curve=curve,
        best={"epoch": 3, "kind": "average", "accuracy": 0.9, "loss": 0.8},
        accuracy=0.875,
        loss=0.7,
        samples={"train": 70, "val": 15, "test": 16},
        task={},
        classes=("cat", "dog"),
        normalisation={},
        params=73_300,
        seconds=75.0,
        samples_per_second=1234.0,
        confusion=[[7, 1], [1, 7]],
        calibration=[
            {"samples": 4, "confidence": 0.6, "accuracy": 0.5},
            {"samples": 12, "confidence": 0.95, "accuracy": 1.0},
        ],
        calibration_error=0.0625,
        mistakes=[
            {
                "truth": "cat",
                "predicted": "dog",
                "truth_probability": 0.1,
                "confidence": 0.9,
                "picture": PICTURE,
            }
        ],
        command="untrained train runs/mine",
        versions={"torch": "2"},
        made_on="today",
    )
    return replace(found, **changes)


def test_the_page_tells_the_result_in_order():
    assert (
        make_training_headline(example())
        == "Test accuracy 87.50 % after 3 epochs, 73.3 k parameters."
    )
    assert "after part of an epoch," in make_training_headline(example(curve=()))
    seen = body_of(training_page.render_training_page(example()))
    order = [
        make_training_headline(example()), "Network", "|cell|", "Training", "87.50 % on 16 samples",
        "90.00 % on 15 samples",
        "1 min 15 s", "1,234 on cpu", "the moving average of the weights after epoch 3", "used once", "Learning curves",
        "Confusion matrix", "Rows are true classes", "Calibration", "calibration error is 6.2 percentage points",
        "Worst mistakes",
        "cat, predicted dog (90 %)", "Settings", "Command", "untrained train runs/mine",
    ]  # fmt: skip
    places = [seen.find(words) for words in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)


def test_curves_confusion_and_mistakes_are_drawn():
    html = make_training_sections(example())
    assert (
        html.count('<polyline class="curve"') == 2 + 1 + 2
    )  # losses, accuracy, calibration and its ideal
    assert f'src="{PICTURE}"' in html
    cells = re.findall(r"<title>(\w+, \w+: [\d.]+|\w+, \w+: not defined)</title>", html)
    assert set(cells) == {"cat, cat: 0.88", "cat, dog: 0.12", "dog, cat: 0.12", "dog, dog: 0.88"}
    assert not re.search(r"https?:|@import|url\(", html)


def test_epochs_are_marked_at_whole_numbers_and_shares_up_to_all_of_them():
    """Where every epoch reached 100 %, a scale around it goes from 90 to 110, in steps of 5."""
    found = example(curve=tuple({**row, "val_accuracy": 1.0} for row in example().curve))
    losses, shares = make_training_sections(found).split("<h3>")[1:3]
    assert re.findall(r'"mid tick"[^>]*>([^<]*)<', losses) == ["1", "2", "3"]
    assert re.findall(r'"end"[^>]*>([^<]*)<', shares) == ["90", "95", "100"]


def test_what_is_not_there_is_left_out():
    html = make_training_sections(example(curve=(), mistakes=[], confusion=[[8, 0], [0, 8]]))
    assert "Learning curves" not in html
    assert "Worst mistakes" not in html
    assert "No class was confused with another." in html
    many = tuple(map(str, range(60)))
    assert "heat" not in make_training_sections(example(classes=many, confusion=[[1] * 60] * 60))
    assert make_training_sections(None) == ""
    assert "the same command resumes" in make_training_sections(example(ended="time"))


def test_every_string_is_escaped():
    evil = '<img src=x onerror="alert(1)">'
    asked = replace(
        example().key, arch=evil, data=evil, space=evil, recipe={"name": evil, evil: evil}
    )
    wrong = [
        {
            "truth": evil,
            "predicted": evil,
            "truth_probability": 0.1,
            "confidence": 0.9,
            "picture": evil,
        }
    ]
    html = training_page.render_training_page(
        example(key=asked, classes=(evil, evil), mistakes=wrong, command=evil)
    )
    assert "<img src=x" not in html
    assert 'onerror="' not in html


def test_the_page_of_a_search_tells_what_was_confirmed_and_trained():
    ranking = summary().ranking
    first = Group(
        "dextr", "the best of the ranking", (ranking[0].arch, ranking[1].arch), (90.0, None)
    )
    other = Group(
        "random", "drawn from the same records", (ranking[3].arch, ranking[4].arch), (95.0, 93.0)
    )
    found = Confirmation(
        ranking[3].arch,
        95.0,
        ("random",),
        (first, other),
        (compare_groups(first, other),),
        3,
        1500,
        "digits",
        10.0,
    )
    whole = summary(confirmation=found, training=example())
    seen = body_of(search_page.render_search_page(whole))
    assert "Confirmation by training" in seen
    assert "4.0 points less on average than chosen at random" in seen
    assert "90.0, failed" in seen
    assert "with 95.0 %, chosen at random" in seen
    assert f"score {ranking[3].score:.3g}" in search_page.make_search_headline(whole)
    assert search_page.make_search_headline(whole).endswith(make_training_headline(example()))
    assert "another architecture: |cell|" in seen
    assert (
        "This is the cost of scoring. The confirmation took 10 s. Training the best took 1 min 15 s."
        in seen
    )
    same = replace(example(), key=replace(example().key, arch=ranking[3].arch))
    assert "another architecture" not in body_of(
        search_page.render_search_page(summary(confirmation=found, training=same))
    )


def of_clicks(**changes: Any) -> TrainingResult:
    curve = tuple(
        {"epoch": e, "rate": 0.1, "loss": 0.5 / e, "val_loss": 0.6, "val_auc": 0.7 + e / 100}
        for e in (1, 2)
    )
    bins = [
        {"predicted": 0.1, "observed": 0.2, "rows": 5},
        {"predicted": 0.6, "observed": 0.5, "rows": 5},
    ]
    told = {
        "curve": curve,
        "best": {"epoch": 2, "kind": "weights", "loss": 0.6, "auc": 0.72},
        "loss": 0.4512,
    }
    told |= {
        "accuracy": None,
        "auc": 0.7654,
        "normalised_entropy": 0.9,
        "calibration": bins,
        "calibration_error": 0.1,
    }
    return example(**told | {"classes": (), "confusion": [], "mistakes": []} | changes)


def test_the_page_of_clicks_tells_log_loss_auc_and_calibration():
    assert (
        make_training_headline(of_clicks())
        == "Test log loss 0.4512, AUC 0.7654 after 2 epochs, 73.3 k parameters."
    )
    seen = body_of(training_page.render_training_page(of_clicks()))
    order = [make_training_headline(of_clicks()), "Test log loss", "0.4512, AUC 0.7654 on 16 samples",
             "90.00 % of the log loss",
             "0.6000, AUC 0.7200 on 15 samples", "Learning curves", "Calibration",
             "calibration error is 10.0 percentage points", "Settings"]  # fmt: skip
    places = [seen.find(words) for words in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)
    assert "Confusion matrix" not in seen
    assert (
        make_training_sections(of_clicks()).count('<polyline class="curve"') == 2 + 1 + 2
    )  # losses, AUC, calibration and its ideal


def test_without_an_auc_the_page_says_nothing_of_it():
    curve = tuple(
        {name: value for name, value in row.items() if name != "val_auc"}
        for row in of_clicks().curve
    )
    bare = of_clicks(
        curve=curve,
        auc=None,
        normalised_entropy=None,
        best={"epoch": 1, "kind": "weights", "loss": 0.6},
    )
    assert "AUC" not in body_of(training_page.render_training_page(bare))


def beside() -> Confirmation:
    """A found network, one by hand that is worse, and one that failed."""
    entries = (
        ReferenceResult("found", 1_830_000, 0.5, 0.7, 0.51, 0.69, rate=0.12),
        ReferenceResult("logistic", 2000, 0.6, 0.65, 0.61, 0.64, 0.1, 0.02, rate=0.36),
        ReferenceResult("wild", error="<script> [bold]"),
    )
    groups = (
        Group("sigeo", "the best of the ranking", ("a",), (68.0,)),
        Group("random", "drawn", ("b",), (70.0,)),
    )
    contrasts = (Contrast("random", -2.0, None, None, None, 0),)
    return Confirmation("b", 70.0, ("random",), groups, contrasts, 5, 480, "clicks", 71.0, entries)


def test_the_terminal_shows_them_in_lines_of_80_letters(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    show_confirmation(beside())
    said = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line.strip()}
    assert rows["found"] == ["1.83", "M", "0.12", "0.5000", "0.7000", "0.5100", "0.6900"]
    assert (
        rows["logistic"] == "2.00 k 0.36 0.6000 0.6500 0.6100 0.6400 +0.1000 \u00b1 0.0200".split()
    )
    told = " ".join(said.split())
    assert "wild failed: <script> [bold]" in told
    assert "they reach 2.0 points of AUC less on average than chosen at random" in told
    best = (
        "the one of least log loss on the validation part, with an AUC of 70.0 %, chosen at random."
    )
    assert f"The winner of this run is {best} confirming took 1 min 11 s" in told


def test_hand_made_networks_stand_beside_the_found_one():
    told = beside()
    html = search_page.render_search_page(summary(confirmation=told))
    seen = body_of(html)
    assert "Comparison with hand-designed networks" in seen
    assert "has less log loss than logistic (+0.1000 \u00b1 0.0200)" in seen
    assert "0.6100" in seen
    assert "0.36" in seen
    assert "<td colspan=7>&lt;script&gt; [bold]" in html
    assert "evaluated by AUC on the validation data" in seen
    assert "Comparison with" not in body_of(
        search_page.render_search_page(summary(confirmation=replace(told, entries=())))
    )
