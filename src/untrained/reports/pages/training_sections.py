"""Sections about a trained network: result, learning curves, confusion matrix, calibration."""

from collections.abc import Sequence
from html import escape
from typing import Any

from untrained import formatting
from untrained.formatting import format_count, format_label_name
from untrained.reports.pages.html import (
    DASH,
    make_collapsible,
    make_fact_list,
    make_paragraph,
    make_responsive,
    make_row,
    make_section,
    make_table,
    make_text_cell,
)
from untrained.reports.reproduction_result import Curve, Plot
from untrained.reports.svg.figure import draw_figure
from untrained.reports.svg.heatmap import draw_heatmap
from untrained.training.accuracy import format_accuracy
from untrained.training.result import TrainingResult, format_regression_errors
from untrained.types import BINARY, REGRESSION

MAX_CLASSES = 40  # of a confusion matrix; more cannot be read
MAX_CONFUSIONS = 8  # pairs of classes that are listed

_PNG_PREFIX = "data:image/png;base64,"
_ENDINGS = {
    "epochs": "Training completed all epochs.",
    "patience": "Training stopped early, because the validation result no longer improved.",
    "time": "Training stopped at its time limit; running the same command again resumes it.",
}


def make_training_sections(training: TrainingResult | None) -> str:
    """Return all sections; empty if nothing was trained."""
    if training is None:
        return ""
    sections = [_make_result_section(training), _make_curves_section(training)]
    if training.kind == REGRESSION:
        sections.append(_make_regression_section(training))
        sections.append(_make_largest_errors_section(training))
    elif training.kind == BINARY:
        sections.append(_make_binary_calibration_section(training))
    else:
        sections.append(_make_confusion_section(training))
        sections.append(_make_calibration_section(training))
        sections.append(_make_mistakes_section(training))
    return "".join(sections)


def make_training_headline(training: TrainingResult) -> str:
    """Return the test result, the number of epochs and the size of the network in one sentence.

    For example: `Test accuracy 20.8 % (95 % interval 14.5 to 28.9 %, 120 samples) after 30 epochs,
    73.3 k parameters.`
    """
    result = training.format_test_result()
    duration = "part of an epoch"
    if training.curve:
        duration = format_count(len(training.curve), "epoch")
    return (
        f"Test {result} after {duration}, {formatting.format_quantity(training.params)} parameters."
    )


def list_training_settings(training: TrainingResult) -> dict[str, str]:
    """Return the settings of a training as the page lists them."""
    key = training.key
    settings = {}
    if key.space:
        settings["space"] = key.space
    settings["data"] = key.data
    settings["recipe"] = key.recipe["name"]
    for name, value in key.recipe.items():
        if name != "name":
            settings[name] = str(value)
    settings["seed"] = str(key.seed)
    if key.refit:
        settings["refit"] = str(key.refit)
    return settings


def _format_log_loss(loss: float, auc: float | None) -> str:
    if auc is None:
        return f"{loss:.4f}"
    return f"{loss:.4f}, AUC {formatting.format_percent(auc, 2)}"


def _make_result_section(training: TrainingResult) -> str:
    if training.kind == REGRESSION:
        facts = _list_regression_facts(training)
    elif training.kind == BINARY:
        facts = _list_binary_facts(training)
    else:
        facts = _list_class_facts(training)
    rate = "not measured: no complete epoch"
    if training.curve:
        rate = f"{training.samples_per_second:,.0f}"
    facts["Training data"] = format_count(training.samples["train"], "sample")
    facts["Recipe"] = training.key.recipe["name"]
    facts["Data"] = training.key.data
    facts["Time"] = formatting.format_duration(training.seconds)
    facts["Samples per second"] = f"{rate} on {training.key.device}"
    sentences = [_describe_ending(training), _describe_selection(training)]
    for training_note in training.notes:
        sentences.append(f"{training_note[0].upper()}{training_note[1:]}.")
    parts = [
        make_fact_list(facts),
        make_paragraph(" ".join(sentences), "note"),
        _make_recipe_values(training),
    ]
    warning = training.chance_warning
    if warning:
        parts.insert(0, make_paragraph(f"Warning: {warning}.", "warn"))
    return make_section("Training", *parts)


def _make_recipe_values(training: TrainingResult) -> str:
    """Return all options of the recipe, also those that were chosen from the data."""
    values = {}
    for name, value in training.key.recipe.items():
        if name != "name":
            values[name] = str(value) or DASH
    title = f"All values of the recipe {training.key.recipe['name']}"
    return make_collapsible(title, make_fact_list(values))


def _describe_ending(training: TrainingResult) -> str:
    """Return why the training ended; empty if a note says that it had time for fewer epochs."""
    is_shortened = any(note.startswith("there was time for") for note in training.notes)
    if is_shortened and training.end_reason == "epochs":
        return ""
    return _ENDINGS.get(training.end_reason, "")


def _list_binary_facts(training: TrainingResult) -> dict[str, str]:
    """Return the log loss and the AUC of a network for a binary label."""
    samples = training.samples
    best = training.best
    test_result = _format_log_loss(training.loss, training.auc)
    facts = {"Test log loss": f"{test_result} on {format_count(samples['test'], 'sample')}"}
    if training.normalised_entropy is not None:
        ratio = formatting.format_percent(training.normalised_entropy)
        facts["Normalised entropy"] = (
            f"{ratio} of the log loss of always predicting the share of positive labels"
        )
    if not training.key.refit:
        val_result = _format_log_loss(best["loss"], best.get("auc"))
        val_samples = format_count(samples["val"], "sample")
        facts["Validation log loss"] = f"{val_result} on {val_samples}"
    return facts


def _list_class_facts(training: TrainingResult) -> dict[str, str]:
    """Return the accuracies of a classifier."""
    samples = training.samples
    assert training.accuracy is not None
    facts = {"Test accuracy": format_accuracy(training.accuracy, samples["test"])}
    if not training.key.refit:
        val_result = formatting.format_percent(training.best["accuracy"])
        val_samples = format_count(samples["val"], "sample")
        facts["Validation accuracy"] = f"{val_result} on {val_samples}"
    if training.constant:
        facts["Test log loss"] = f"{training.loss:.4f}"
        facts["Constant prediction"] = training.constant_text
    return facts


def _describe_selection(training: TrainingResult) -> str:
    """Return which weights are the result, and which data selected them."""
    epoch = training.best["epoch"]
    weights = "the weights"
    if training.best["kind"] == "average":
        weights = "the moving average of the weights"
    if training.estimated_by:
        return (
            "All samples were used for training, so nothing was selected: the result is "
            f"{weights} after epoch {epoch}; {training.estimate_text}."
        )
    if training.key.refit:
        return (
            "The validation data were used for training, so nothing was selected: the result "
            f"is {weights} after epoch {epoch}. The test data were used once, at the end."
        )
    return (
        f"The validation data selected {weights} after epoch {epoch}. The test data were used "
        "once, after this selection."
    )


def _make_curves_section(training: TrainingResult) -> str:
    """Return the section with the curves of a training; empty with fewer than two epochs."""
    curve = training.curve
    if len(curve) < 2:
        return ""
    epochs = _list_numbers(curve, "epoch")
    training_loss = Curve("training", epochs, _list_numbers(curve, "loss"))
    losses: tuple[Curve, ...] = (training_loss,)
    # A refit has no validation part.
    if "val_loss" in curve[0]:
        validation_loss = Curve("validation", epochs, _list_numbers(curve, "val_loss"))
        losses = (training_loss, validation_loss)
    figures = [draw_figure(Plot("Loss", "epoch", "loss", losses, joined=True))]
    kind = training.kind
    key = f"val_{kind.quality}"
    # AUC is not defined if all validation rows have the same label.
    if key in curve[0]:
        percent = Curve("", epochs, _list_percentages(curve, key))
        title = f"Validation {kind.quality_title}"
        figures.append(draw_figure(Plot(title, "epoch", "%", (percent,), joined=True)))
    note = "The training loss includes augmentation and label smoothing if the recipe uses them."
    if kind == REGRESSION:
        note = (
            "The loss is the squared error of the standardised label. The training loss includes "
            "augmentation if the recipe uses it."
        )
    pair = f'<div class="pair">{"".join(figures)}</div>'
    return make_section("Learning curves", pair, make_paragraph(note, "note"))


def _list_regression_facts(training: TrainingResult) -> dict[str, str]:
    """Return the errors of a regression, in the unit of the label."""
    samples = training.samples
    best = training.best
    test_result = format_regression_errors(training.rmse, training.mae, training.r2)
    facts = {"Test RMSE": f"{test_result} on {format_count(samples['test'], 'sample')}"}
    if not training.key.refit:
        val_result = format_regression_errors(best["rmse"], best["mae"], best.get("r2"))
        facts["Validation RMSE"] = f"{val_result} on {format_count(samples['val'], 'sample')}"
    if training.bias_text:
        facts["Mean error"] = training.bias_text
    if training.constant:
        facts["Constant prediction"] = training.constant_text
    return facts


def _list_numbers(rows: Sequence[dict[str, Any]], key: str) -> tuple[float, ...]:
    return tuple(row[key] for row in rows)


def _list_percentages(rows: Sequence[dict[str, Any]], key: str) -> tuple[float, ...]:
    return tuple(100 * row[key] for row in rows)


def _make_confusion_section(training: TrainingResult) -> str:
    """Return the section with the confusion matrix and the most frequent confusions."""
    counts = training.confusion
    names = training.classes
    parts = []
    if len(names) <= MAX_CLASSES:
        fractions = []
        for row in counts:
            # The test data may lack a class.
            total = max(sum(row), 1)
            fractions.append([count / total for count in row])
        description = (
            f"Confusion matrix of {len(names)} classes; rows are true classes, columns predictions"
        )

        def draw_matrix(width: float) -> str:
            return draw_heatmap(names, fractions, width, description, has_fractions=True)

        parts.append(make_responsive(draw_matrix))
        note = (
            "Rows are true classes, columns are predicted classes. Numbers are fractions of a row."
        )
        parts.append(make_paragraph(note, "note"))
    parts.append(_make_confusion_table(training))
    return make_section("Confusion matrix", *parts)


def _make_confusion_table(training: TrainingResult) -> str:
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


def _make_calibration_section(training: TrainingResult) -> str:
    confidence = _list_percentages(training.calibration, "confidence")
    accuracy = _list_percentages(training.calibration, "accuracy")
    figure = _draw_calibration("confidence, %", "accuracy, %", confidence, accuracy, 100.0)
    note = (
        f"The expected calibration error is {100 * training.calibration_error:.1f} percentage "
        "points. If a network is perfectly calibrated, 80 % of the predictions with a confidence "
        "of 80 % are correct."
    )
    return make_section("Calibration", figure, make_paragraph(note, "note"))


def _make_binary_calibration_section(training: TrainingResult) -> str:
    """Return the section with predicted probabilities against observed frequencies, in ten bins."""
    # Positive labels may be rare, as clicks are, so an axis up to 100 % would be almost empty.
    predicted = _list_percentages(training.calibration, "predicted")
    observed = _list_percentages(training.calibration, "observed")
    figure = _draw_calibration(
        "predicted probability, %",
        "observed frequency, %",
        predicted,
        observed,
        max(predicted),
    )
    note = (
        f"The expected calibration error is {100 * training.calibration_error:.1f} percentage "
        "points. Each point is a tenth of the test rows, ordered by prediction."
    )
    return make_section("Calibration", figure, make_paragraph(note, "note"))


def _make_regression_section(training: TrainingResult) -> str:
    """Return the section with predictions against labels of a regression, in ten bins."""
    predicted = _list_numbers(training.calibration, "predicted")
    observed = _list_numbers(training.calibration, "observed")
    figure = _draw_calibration(
        "predicted", "observed", predicted, observed, max(*predicted, *observed)
    )
    note = (
        "Each point is the mean of a tenth of the test samples, ordered by prediction, in the unit "
        f"of {_name_label(training)}. The points are "
        f"{formatting.format_measured(training.calibration_error)} from the "
        "diagonal on average."
    )
    return make_section("Predictions and labels", figure, make_paragraph(note, "note"))


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


def _name_label(training: TrainingResult) -> str:
    return format_label_name(str(training.task.get("target_name", "")))


def _make_mistakes_section(training: TrainingResult) -> str:
    """Return the section with the worst wrong predictions; empty if there are none.

    These are the predictions that give the true class the lowest probability.
    """
    tiles = []
    for row in _list_mistakes_with_pictures(training):
        confidence = f"{100 * row['confidence']:.0f}\u00a0%"
        caption = f"{row['truth']}, predicted {row['predicted']}\u00a0({confidence})"
        tiles.append(_make_picture_tile(row, caption))
    note = (
        "The test samples whose true class got the lowest probability: true class, predicted "
        "class, and confidence of the prediction."
    )
    return _make_picture_section("Worst mistakes", tiles, note)


def _make_largest_errors_section(training: TrainingResult) -> str:
    """Return the section with the largest errors of a regression; empty without pictures."""
    tiles = []
    for row in _list_mistakes_with_pictures(training):
        truth = formatting.format_measured(row["truth"])
        predicted = formatting.format_measured(row["predicted"])
        caption = f"{truth}, predicted\u00a0{predicted}"
        tiles.append(_make_picture_tile(row, caption))
    note = (
        "The test pictures with the largest errors: label and prediction, in the unit of "
        f"{_name_label(training)}."
    )
    return _make_picture_section("Largest errors", tiles, note)


def _list_mistakes_with_pictures(training: TrainingResult) -> list[dict[str, Any]]:
    """Return the mistakes whose picture is in the result.

    A file may contain any address; the page only shows images that it contains itself.
    """
    rows = []
    for row in training.mistakes:
        if str(row.get("picture", "")).startswith(_PNG_PREFIX):
            rows.append(row)
    return rows


def _make_picture_tile(row: dict[str, Any], caption: str) -> str:
    image = f'<img alt="" src="{escape(row["picture"])}">'
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def _make_picture_section(title: str, tiles: Sequence[str], note: str) -> str:
    if not tiles:
        return ""
    grid = f'<div class="mistakes">{"".join(tiles)}</div>'
    return make_section(title, grid, make_paragraph(note, "note"))
