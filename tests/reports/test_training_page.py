"""The page of a training: its content and order, and that all texts are escaped."""

import re
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from tests.reports.examples import make_summary
from tests.reports.test_search_page import extract_body
from untrained.cli.terminal.confirmation import show_confirmation
from untrained.cli.terminal.training_result import show_training_result
from untrained.reports.confirmation_result import (
    Confirmation,
    DesignResult,
    describe_comparison,
)
from untrained.reports.group_comparison import Contrast, TrainedGroup, compare_groups
from untrained.reports.pages import search_page, training_page
from untrained.reports.pages.training_sections import make_training_headline, make_training_sections
from untrained.training.accuracy import format_accuracy
from untrained.training.recipes import load_recipe
from untrained.training.result import TrainingKey, TrainingResult
from untrained.types import BINARY, REGRESSION

PICTURE = "data:image/png;base64,iVBORw0KGgo="


def make_training(**changes: Any) -> TrainingResult:
    key = TrainingKey(
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
    training = TrainingResult(
        key=key,
        end_reason="epochs",
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
    return replace(training, **changes)


def test_the_page_shows_the_result_in_order():
    assert (
        make_training_headline(make_training())
        == f"Test accuracy {format_accuracy(0.875, 16)} after 3 epochs, 73.3 k parameters."
    )
    assert "after part of an epoch," in make_training_headline(make_training(curve=()))
    text = extract_body(training_page.render_training_page(make_training()))
    order = [
        make_training_headline(make_training()), "Network", "|cell|", "<h2>Training", f"<dd>{format_accuracy(0.875, 16)}",
        "90.0 % on 15 samples",
        "1 min 15 s", "1,234 on cpu", "the moving average of the weights after epoch 3", "used once", "Learning curves",
        "Confusion matrix", "Rows are true classes", "Calibration", "calibration error is 6.2 percentage points",
        "Worst mistakes",
        "cat, predicted dog (90 %)", "Settings", "Command", "untrained train runs/mine",
    ]  # fmt: skip
    places = [text.find(words) for words in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)


def test_curves_confusion_and_mistakes_are_drawn():
    html = make_training_sections(make_training())
    # Losses, accuracy, calibration and its ideal
    assert html.count('<polyline class="curve"') == 2 + 1 + 2
    assert f'src="{PICTURE}"' in html
    cells = re.findall(r"<title>(\w+, \w+: [\d.]+|\w+, \w+: not defined)</title>", html)
    assert set(cells) == {"cat, cat: 0.88", "cat, dog: 0.12", "dog, cat: 0.12", "dog, dog: 0.88"}
    assert not re.search(r"https?:|@import|url\(", html)


def test_an_empty_cell_of_a_confusion_matrix_is_a_zero():
    html = make_training_sections(make_training(confusion=((8, 0), (1, 7))))
    assert "<title>cat, dog: 0.00</title>" in html
    assert "not defined" not in html


def test_epoch_ticks_are_whole_numbers_and_accuracies_end_at_100():
    """If every epoch reaches 100 %, the axis would go from 90 to 110; it is cut at 100."""
    training = make_training(
        curve=tuple({**row, "val_accuracy": 1.0} for row in make_training().curve)
    )
    losses, shares = make_training_sections(training).split("<figure>")[1:3]
    assert re.findall(r'"mid tick"[^>]*>([^<]*)<', losses) == ["1", "2", "3"]
    assert re.findall(r'"end"[^>]*>([^<]*)<', shares) == ["90", "95", "100"]


def test_sections_without_content_are_left_out():
    html = make_training_sections(make_training(curve=(), mistakes=[], confusion=[[8, 0], [0, 8]]))
    assert "Learning curves" not in html
    assert "Worst mistakes" not in html
    assert "No class was confused with another." in html
    many = tuple(map(str, range(60)))
    assert "heat" not in make_training_sections(
        make_training(classes=many, confusion=[[1] * 60] * 60)
    )
    assert make_training_sections(None) == ""
    assert "the same command again resumes" in make_training_sections(
        make_training(end_reason="time")
    )


def test_every_string_is_escaped():
    evil = '<img src=x onerror="alert(1)">'
    key = replace(
        make_training().key, arch=evil, data=evil, space=evil, recipe={"name": evil, evil: evil}
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
        make_training(key=key, classes=(evil, evil), mistakes=wrong, command=evil)
    )
    assert "<img src=x" not in html
    assert 'onerror="' not in html


def test_the_page_of_a_search_shows_the_confirmation_and_the_training():
    ranking = make_summary().ranking
    first = TrainedGroup(
        "dextr", "the best of the ranking", (ranking[0].arch, ranking[1].arch), (90.0, None)
    )
    other = TrainedGroup(
        "random", "drawn from the same records", (ranking[3].arch, ranking[4].arch), (95.0, 93.0)
    )
    confirmation = Confirmation(
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
    whole = make_summary(confirmation=confirmation, training=make_training())
    text = extract_body(search_page.render_search_page(whole))
    assert "Contest: short trainings" in text
    assert "is 4.0 points lower than that of the networks selected at random" in text
    assert "90.0, failed" in text
    assert "the lowest log loss on the validation data (an AUC of 95.0 %); this network was" in text
    assert f"score {ranking[3].score:.3g}" in search_page.make_search_headline(whole)
    assert search_page.make_search_headline(whole).endswith(make_training_headline(make_training()))
    assert "a different architecture: |cell|" in text
    assert (
        "This is the cost of scoring only. The contest took 10 s. The training took 1 min 15 s."
        in text
    )
    same = replace(make_training(), key=replace(make_training().key, arch=ranking[3].arch))
    assert "a different architecture" not in extract_body(
        search_page.render_search_page(make_summary(confirmation=confirmation, training=same))
    )


def make_click_training(**changes: Any) -> TrainingResult:
    curve = tuple(
        {"epoch": e, "rate": 0.1, "loss": 0.5 / e, "val_loss": 0.6, "val_auc": 0.7 + e / 100}
        for e in (1, 2)
    )
    bins = [
        {"predicted": 0.1, "observed": 0.2, "rows": 5},
        {"predicted": 0.6, "observed": 0.5, "rows": 5},
    ]
    facts = {
        "curve": curve,
        "best": {"epoch": 2, "kind": "weights", "loss": 0.6, "auc": 0.72},
        "loss": 0.4512,
    }
    facts |= {
        "accuracy": None,
        "auc": 0.7654,
        "normalised_entropy": 0.9,
        "calibration": bins,
        "calibration_error": 0.1,
    }
    return make_training(**facts | {"classes": (), "confusion": [], "mistakes": []} | changes)


def test_the_page_of_clicks_shows_log_loss_auc_and_calibration():
    assert (
        make_training_headline(make_click_training())
        == "Test log loss 0.4512, AUC 76.54 % after 2 epochs, 73.3 k parameters."
    )
    text = extract_body(training_page.render_training_page(make_click_training()))
    order = [make_training_headline(make_click_training()), "Test log loss", "0.4512, AUC 76.54 % on 16 samples",
             "90.0 % of the log loss",
             "0.6000, AUC 72.00 % on 15 samples", "Learning curves", "Calibration",
             "calibration error is 10.0 percentage points", "Settings"]  # fmt: skip
    places = [text.find(words) for words in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)
    assert "Confusion matrix" not in text
    # Losses, AUC, calibration and its ideal
    assert (
        make_training_sections(make_click_training()).count('<polyline class="curve"') == 2 + 1 + 2
    )


def test_the_page_without_an_auc_does_not_mention_it():
    curve = tuple(
        {name: value for name, value in row.items() if name != "val_auc"}
        for row in make_click_training().curve
    )
    bare = make_click_training(
        curve=curve,
        auc=None,
        normalised_entropy=None,
        best={"epoch": 1, "kind": "weights", "loss": 0.6},
    )
    assert "AUC" not in extract_body(training_page.render_training_page(bare))


def make_regression(**changes: Any) -> TrainingResult:
    training = make_training(
        accuracy=None,
        rmse=668.0,
        mae=500.0,
        r2=-0.37,
        bias=2.0,
        constant={"rmse": 570.2, "mae": 466.2},
        curve=(),
        best={"epoch": 3, "kind": "average", "rmse": 650.0, "mae": 480.0, "loss": 1.4},
        classes=(),
        confusion=[],
        calibration=[{"predicted": 1.0, "observed": 2.0, "rows": 16}],
        mistakes=[],
    )
    key = replace(training.key, recipe={"name": "ctr", "epochs": 3, "batch": 8})
    return replace(training, key=key, **changes)


def test_the_page_of_a_regression_shows_the_mean_error_and_warns_if_the_mean_is_better():
    page = make_training_sections(make_regression())
    assert "on average, predictions are 2 too high" in page
    assert "worse than that of always predicting the mean (570.2): do not use" in page
    better = make_training_sections(make_regression(rmse=66.0, bias=None))
    assert "do not use" not in better
    assert "Mean error" not in better


def test_the_terminal_shows_the_mean_error_and_warns_if_the_mean_is_better(capsys):
    show_training_result(make_regression(), Path("report.html"))
    out = " ".join(capsys.readouterr().out.split())
    assert "on average, predictions are 2 too high" in out
    assert "worse than that of always predicting the mean (570.2): do not use" in out


def make_confirmation() -> Confirmation:
    """A winner beside two hand-made networks: one is worse, one failed."""
    entries = (
        DesignResult("found", 1_830_000, 0.5, 0.7, 0.51, 0.69, rate=0.12),
        DesignResult("logistic", 2000, 0.6, 0.65, 0.61, 0.64, 0.1, 0.02, rate=0.36),
        DesignResult("wild", error="<script> [bold]"),
    )
    groups = (
        TrainedGroup("sigeo", "the best of the ranking", ("a",), (68.0,)),
        TrainedGroup("random", "drawn", ("b",), (70.0,)),
    )
    contrasts = (Contrast("random", -2.0, None, None, None, 0),)
    return Confirmation("b", 70.0, ("random",), groups, contrasts, 5, 480, "clicks", 71.0, entries)


def test_the_terminal_shows_hand_made_networks_in_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    show_confirmation(make_confirmation())
    output = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines() if line.strip()}
    # An AUC is shown in per cent, in tables as in sentences.
    assert rows["*"] == "best of the 1.83 M 0.12 0.5000 70.00 0.5100 69.00".split()
    assert rows["logistic"] == "2.00 k 0.36 0.6000 65.00 0.6100 64.00 +0.1000 \u00b1 0.0200".split()
    assert make_confirmation().columns[3:6:2] == ("Val. AUC in %", "Test AUC in %")
    words = " ".join(output.split())
    assert "wild failed: <script> [bold]" in words
    assert "the AUC of the networks selected by sigeo is 2.0 points lower than that of the" in words
    best = "the network with the lowest log loss on the validation data (an AUC of 70.0 %)"
    assert f"The winner of this run is {best}; this network was selected at random." in words
    assert "the contest took 1 min 11 s" in words


def test_the_ranking_does_not_call_a_search_result_the_winner_if_a_design_won():
    third = make_summary().ranking[2].arch
    confirmation = replace(make_confirmation(), best_arch=third)
    text = extract_body(search_page.render_search_page(make_summary(confirmation=confirmation)))
    assert "The winner has rank 3 by score: short trainings selected it." in text
    won_by_design = replace(confirmation, winning_design="logistic")
    text = extract_body(search_page.render_search_page(make_summary(confirmation=won_by_design)))
    assert "The best architecture has rank 3 by score: short trainings selected it." in text
    assert "The winner has rank" not in text


def test_hand_made_networks_are_compared_with_the_winner():
    confirmation = make_confirmation()
    html = search_page.render_search_page(make_summary(confirmation=confirmation))
    text = extract_body(html)
    assert "Contest: comparison with hand-designed networks" in text
    assert "has a lower log loss than logistic (by 0.1000 \u00b1 0.0200)" in text
    assert "+0.1000 \u00b1 0.0200" in text  # in the table, whose heading says the direction
    assert "0.6100" in text
    assert "0.36" in text
    assert "<td colspan=7>&lt;script&gt; [bold]" in html
    assert "evaluated by AUC on the validation data" in text
    assert "Comparison with" not in extract_body(
        search_page.render_search_page(make_summary(confirmation=replace(confirmation, entries=())))
    )


def test_a_difference_in_a_sentence_has_the_sign_of_the_sentence():
    """The table has the loss minus that of the winner; a sentence says which loss is higher."""
    entries = (
        DesignResult("found", 10, 0.5, 0.7, 0.51, 0.69),
        DesignResult("linear", 10, 0.5, 0.7, 0.51, 0.69, excess_loss=0.3, margin=0.1),
        DesignResult("dlrm", 10, 0.5, 0.7, 0.51, 0.69, excess_loss=-0.2, margin=0.1),
        DesignResult("deepfm", 10, 0.5, 0.7, 0.51, 0.69, excess_loss=-0.1, margin=0.15),
    )
    # The unit of a squared error is that of the label, squared: here 10 times 10.
    sentence = describe_comparison(entries[:3], REGRESSION, label_std=10.0)
    assert "a lower squared error than linear (by 30 \u00b1 10)" in sentence
    assert "a higher squared error than dlrm (by 20 \u00b1 10)" in sentence
    assert [entry.format_cells(BINARY, 1.0)[-1] for entry in entries] == [
        *("", "+0.3000 \u00b1 0.1000", "-0.2000 \u00b1 0.1000", "-0.1000 \u00b1 0.1500"),
    ]


def test_r2_is_a_number_and_never_per_cent(capsys):
    confirmation = replace(make_confirmation(), task="regression")
    show_confirmation(confirmation)
    words = " ".join(capsys.readouterr().out.split())
    assert "the R2 of the networks selected by sigeo is 0.020 lower than that of the" in words
    assert "on the validation data (an R2 of 0.700); this network was selected at random" in words
    assert " % " not in words
    page = search_page.render_search_page(make_summary(confirmation=confirmation))
    text = extract_body(page).partition("Contest: short trainings")[2]
    section = text.partition("The confidence intervals treat")[0]
    assert "0.680" in section
    assert "%" not in section
    difference = Contrast("random", -2.0, -3.0, -1.0, 0.04, 0)
    assert "0.020 lower" in difference.describe("sigeo", "R2")
    assert "(95 % confidence interval 0.010 to 0.030," in difference.describe("sigeo", "R2")
    assert "(95 % confidence interval 1.0 to 3.0," in difference.describe("sigeo")


def test_a_shortened_training_does_not_say_that_it_completed_all_epochs():
    html = make_training_sections(make_training())
    assert "Training completed all epochs." in html
    note = "there was time for 24 of 25 epochs"
    html = make_training_sections(make_training(notes=[note]))
    assert "completed all epochs" not in html
    assert "There was time for 24 of 25 epochs." in html


def test_the_terminal_says_that_a_finished_training_was_reused(capsys):
    training = make_regression()
    text = "this training was already finished, so nothing was trained now"
    show_training_result(training, Path("report.html"), of_search=True)
    assert text not in capsys.readouterr().out
    training = replace(training, was_finished=True)
    show_training_result(training, Path("report.html"), of_search=True)
    out = capsys.readouterr().out
    assert text in out
    assert "to train again" not in out
    # On a table, the contest of the same command has trained it.
    show_training_result(training, Path("report.html"), of_search=True, is_from_contest=True)
    assert text not in capsys.readouterr().out


def test_all_values_of_the_recipe_are_shown_also_in_the_report_of_a_search():
    recipe = load_recipe("photos(epochs=7,flip=False)").to_document()
    training = make_training()
    training = replace(training, key=replace(training.key, recipe=recipe))
    page = search_page.render_search_page(replace(make_summary(), training=training))
    start = page.index("<summary>All values of the recipe photos</summary>")
    section = page[start : page.index("</details>", start)]
    for name, value in recipe.items():
        if name != "name":
            shown_value = escape(str(value)) or "\u2013"
            assert f"<dt>{name}</dt><dd>{shown_value}</dd>" in section
    assert "<dt>epochs</dt><dd>7</dd>" in section
    assert "<dt>flip</dt><dd>False</dd>" in section
