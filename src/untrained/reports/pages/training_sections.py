"""Sections about a trained network: result, learning curves, confusion matrix, calibration, mistakes."""

from html import escape

from untrained import _numbers
from untrained._numbers import counted
from untrained.reports.pages.html import (
    make_fact_list,
    make_paragraph,
    make_responsive,
    make_row,
    make_section,
    make_table,
    make_text_cell,
)
from untrained.reports.reproduction_facts import Curve, Plot
from untrained.reports.svg.figure import draw_figure
from untrained.reports.svg.heatmap import draw_heatmap
from untrained.training.trained import Trained

MAX_CLASSES = 40  # of a confusion matrix; more cannot be read
MAX_CONFUSIONS = 8  # pairs of classes that are listed

_PNG_PREFIX = "data:image/png;base64,"
_ENDINGS = {
    "epochs": "All epochs were trained.",
    "patience": "Training stopped early, because the validation result no longer improved.",
    "time": "Training stopped at its time limit; the same command resumes it.",
}


def make_training_sections(training: Trained | None) -> str:
    """Return all sections; empty if nothing was trained."""
    if training is None:
        return ""
    sections = [_make_result_section(training), _make_curves_section(training)]
    if training.of_clicks:
        sections.append(_make_click_calibration_section(training))
    else:
        sections.append(_make_confusion_section(training))
        sections.append(_make_calibration_section(training))
        sections.append(_make_mistakes_section(training))
    return "".join(sections)


def make_training_headline(training: Trained) -> str:
    """Return `Test accuracy 98.20 % after 30 epochs, 73.3 k parameters.`"""
    result = f"accuracy {_format_percent(training.accuracy)}"
    if training.of_clicks:
        result = f"log loss {_format_log_loss(training.loss, training.auc)}"
    duration = "part of an epoch"
    if training.curve:
        duration = counted(len(training.curve), "epoch")
    return f"Test {result} after {duration}, {_numbers.quantity(training.params)} parameters."


def list_training_settings(training: Trained) -> dict[str, str]:
    """Return the settings of a training as the page lists them."""
    asked = training.asked
    settings = {}
    if asked.space:
        settings["space"] = asked.space
    settings["data"] = asked.data
    settings["recipe"] = asked.recipe["name"]
    for name, value in asked.recipe.items():
        if name != "name":
            settings[name] = str(value)
    settings["seed"] = str(asked.seed)
    return settings


def _format_log_loss(loss: float, auc: float | None) -> str:
    if auc is None:
        return f"{loss:.4f}"
    return f"{loss:.4f}, AUC {auc:.4f}"


def _format_percent(fraction: float | None) -> str:
    return f"{100 * (fraction or 0.0):.2f} %"


def _make_result_section(training: Trained) -> str:
    chosen = training.chosen
    samples = training.samples
    facts = {}
    if training.of_clicks:
        test_result = _format_log_loss(training.loss, training.auc)
        facts["Test log loss"] = f"{test_result} on {counted(samples['test'], 'sample')}"
        if training.normalised_entropy is not None:
            ratio = _format_percent(training.normalised_entropy)
            facts["Normalised entropy"] = f"{ratio} of the log loss of the mean click rate"
        val_result = _format_log_loss(chosen["loss"], chosen.get("auc"))
        facts["Validation log loss"] = f"{val_result} on {counted(samples['val'], 'sample')}"
    else:
        test_result = _format_percent(training.accuracy)
        facts["Test accuracy"] = f"{test_result} on {counted(samples['test'], 'sample')}"
        val_result = _format_percent(chosen["accuracy"])
        facts["Validation accuracy"] = f"{val_result} on {counted(samples['val'], 'sample')}"
    rate = "not measured: no complete epoch"
    if training.curve:
        rate = f"{training.samples_per_second:,.0f}"
    facts["Training data"] = counted(samples["train"], "sample")
    facts["Recipe"] = training.asked.recipe["name"]
    facts["Data"] = training.asked.data
    facts["Time"] = _numbers.duration(training.seconds)
    facts["Samples per second"] = f"{rate} on {training.asked.device}"
    weights = "the weights"
    if chosen["kind"] == "average":
        weights = "the moving average of the weights"
    note = (
        f"{_ENDINGS.get(training.ended, '')} The validation data selected {weights} after epoch "
        f"{chosen['epoch']}. The test data was used once, after this selection."
    )
    return make_section("Training", make_fact_list(facts), make_paragraph(note, "note"))


def _make_curves_section(training: Trained) -> str:
    """Show loss and validation result per epoch; empty with fewer than two epochs."""
    curve = training.curve
    if len(curve) < 2:
        return ""
    epochs = tuple(row["epoch"] for row in curve)
    training_loss = Curve("training", epochs, tuple(row["loss"] for row in curve))
    validation_loss = Curve("validation", epochs, tuple(row["val_loss"] for row in curve))
    losses = (training_loss, validation_loss)
    figures = [draw_figure(Plot("Loss", "epoch", "loss", losses, joined=True))]
    metric = "AUC" if training.of_clicks else "Accuracy"
    key = f"val_{metric.lower()}"
    # AUC is not defined if all validation rows have the same label.
    if key in curve[0]:
        percent = Curve("", epochs, tuple(100 * row[key] for row in curve))
        title = f"Validation {metric if metric == 'AUC' else metric.lower()}"
        figures.append(draw_figure(Plot(title, "epoch", "%", (percent,), joined=True)))
    note = "The training loss includes augmentation and label smoothing if the recipe uses them."
    pair = f'<div class="pair">{"".join(figures)}</div>'
    return make_section("Learning curves", pair, make_paragraph(note, "note"))


def _make_confusion_section(training: Trained) -> str:
    """Show which fraction of each class was predicted as which class, and the most frequent errors."""
    counts = training.confusion
    names = training.classes
    parts = []
    if len(names) <= MAX_CLASSES:
        fractions = []
        for row in counts:
            total = max(sum(row), 1)
            fractions.append([count / total for count in row])
        description = f"Confusion matrix of {len(names)} classes; rows are true classes, columns predictions"
        parts.append(make_responsive(lambda width: draw_heatmap(names, fractions, width, description)))
        note = "Rows are true classes, columns are predicted classes; fractions of the row."
        parts.append(make_paragraph(note, "note"))
    parts.append(_make_confusion_table(training))
    return make_section("Confusion matrix", *parts)


def _make_confusion_table(training: Trained) -> str:
    """Return the pairs of classes that were confused most often."""
    confusions = []
    for i, row in enumerate(training.confusion):
        for j, count in enumerate(row):
            if count and i != j:
                confusions.append((count, i, j))
    if not confusions:
        return make_paragraph("No class was confused with another.")
    confusions.sort(key=lambda confusion: (-confusion[0], confusion))
    rows = []
    for count, i, j in confusions[:MAX_CONFUSIONS]:
        total = sum(training.confusion[i])
        cells = [
            make_text_cell(training.classes[i], ""),
            make_text_cell(training.classes[j], ""),
            make_text_cell(f"{count:,}", "num"),
            make_text_cell(f"{total:,}", "num"),
        ]
        rows.append(make_row(cells))
    head = [("", "True class"), ("", "Predicted"), ("num", "Count"), ("num", "Samples of class")]
    return make_table("", head, rows)


def _make_calibration_section(training: Trained) -> str:
    confidence = tuple(100 * row["sure"] for row in training.calibration)
    accuracy = tuple(100 * row["right"] for row in training.calibration)
    figure = _draw_calibration("confidence, %", "accuracy, %", confidence, accuracy, 100.0)
    note = (
        f"The expected calibration error is {100 * training.calibration_error:.1f} percentage "
        "points. Ideally, 80 % of the predictions with a confidence of 80 % are correct."
    )
    return make_section("Calibration", figure, make_paragraph(note, "note"))


def _make_click_calibration_section(training: Trained) -> str:
    """Show predicted against observed click rates, in ten bins by prediction."""
    predicted = tuple(100 * row["predicted"] for row in training.calibration)
    observed = tuple(100 * row["observed"] for row in training.calibration)
    figure = _draw_calibration(
        "predicted click rate, %",
        "observed click rate, %",
        predicted,
        observed,
        max(predicted),
    )
    note = (
        f"The expected calibration error is {100 * training.calibration_error:.1f} percentage "
        "points. Each point is a tenth of the test rows, ordered by prediction."
    )
    return make_section("Calibration", figure, make_paragraph(note, "note"))


def _draw_calibration(
    x_title: str,
    y_title: str,
    x: tuple[float, ...],
    y: tuple[float, ...],
    highest: float,
) -> str:
    """Draw a reliability diagram: the measured curve, and the diagonal of perfect calibration."""
    ends = (min(x), highest)
    curves = (Curve("measured", x, y), Curve("perfect", ends, ends))
    return draw_figure(Plot("", x_title, y_title, curves, joined=True))


def _make_mistakes_section(training: Trained) -> str:
    """Show the mistakes that gave the true class the lowest probability."""
    tiles = []
    for row in training.mistakes:
        # A file may contain any address; the page only shows images that it contains itself.
        if not str(row.get("picture", "")).startswith(_PNG_PREFIX):
            continue
        caption = f"{escape(row['truth'])}, predicted {escape(row['said'])} ({100 * row['sure']:.0f} %)"
        tiles.append(f'<figure><img alt="" src="{escape(row["picture"])}"><figcaption>{caption}</figcaption></figure>')
    if not tiles:
        return ""
    note = "The mistakes that gave the true class the lowest probability; in brackets the confidence of the prediction."
    grid = f'<div class="mistakes">{"".join(tiles)}</div>'
    return make_section("Worst mistakes", grid, make_paragraph(note, "note"))
