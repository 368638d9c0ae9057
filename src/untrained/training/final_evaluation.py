"""The end of a training: evaluate its weights once on the test part, and make the result."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from untrained.data.parts import TEST, TRAIN, ArrayPart, ImagePart, Part
from untrained.formatting import format_now
from untrained.runs.folder import read_versions
from untrained.training.batches import BatchLoader
from untrained.training.ctr_metrics import ClickMetrics
from untrained.training.evaluation import Predictions, evaluate_network
from untrained.training.loop import Training
from untrained.training.regression_metrics import RegressionMetrics
from untrained.training.result import TrainingKey, TrainingResult

# Largest number of mistakes or large errors in the result, each with its image.
MAX_MISTAKES = 24
# Longest side of such an image in pixels.
MAX_MISTAKE_SIDE = 96


def evaluate_training(
    training: Training,
    key: TrainingKey,
    end_reason: str,
    parts: Mapping[str, Part],
    class_names: tuple[str, ...],
    command: str,
    notes: tuple[str, ...],
    folder: Path,
) -> TrainingResult:
    """Load the best weights into the network and evaluate them on the test part.

    Without selection by the validation part, they are the weights at the end.

    Args:
        training: The training, after its last step.
        key: Identity of the training.
        end_reason: Why the training ended: "epochs", "patience" or "time".
        parts: The test part, and the parts whose sizes are listed in the result.
        class_names: Names of the classes; empty if the data have none.
        command: What to type to repeat the training.
        notes: Settings that were chosen from the data, one sentence each.
        folder: Folder of the training.

    Returns:
        The result, with the network in evaluation mode.
    """
    best = training.best
    if not training.select_weights:
        best = training.copy_final_weights()
    elif best is None:
        # The time limit was reached before the end of the first epoch.
        best = training.evaluate_epoch(training.step // training.steps_per_epoch)
    model = training.model
    model.load_state_dict(best.weights)
    test = parts[TEST]
    loader = BatchLoader.open(test, training.task, training.recipe, training.device, training.seed)
    evaluation = evaluate_network(
        model, loader.iterate_evaluation_batches(), training.task, training.memory_format
    )
    # The caller gets a network in the usual memory format, as if it were read from the file. With
    # channels last, a CPU rounds differently.
    model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    if isinstance(evaluation, ClickMetrics):
        metrics = _make_click_fields(evaluation)
    elif isinstance(evaluation, RegressionMetrics):
        metrics = _make_regression_fields(evaluation, test)
    else:
        metrics = _make_class_fields(evaluation, test, class_names)
        if training.task.is_table:
            metrics["constant"] = _evaluate_constant(evaluation, parts[TRAIN])
    normalisation = {}
    if isinstance(test, ImagePart | ArrayPart):
        normalisation = {"mean": test.mean.tolist(), "std": test.std.tolist()}
    samples_per_second = 0.0
    if training.epoch_seconds:
        samples_per_second = training.epoch_samples / training.epoch_seconds
    return TrainingResult(
        key=key,
        end_reason=end_reason,
        curve=tuple(training.curve),
        best=best.to_document(),
        samples={name: len(part) for name, part in parts.items()},
        task=asdict(training.task),
        normalisation=normalisation,
        params=sum(parameter.numel() for parameter in model.parameters()),
        seconds=training.seconds,
        samples_per_second=samples_per_second,
        command=command,
        notes=notes,
        versions=read_versions(),
        reads_arrays=isinstance(test, ArrayPart),
        made_on=format_now(),
        folder=str(folder),
        model=model.eval(),
        **metrics,
    )


def _make_click_fields(metrics: ClickMetrics) -> dict[str, Any]:
    """Return the fields of the result for click prediction."""
    return {
        "loss": metrics.log_loss,
        "auc": metrics.auc,
        "normalised_entropy": metrics.normalised_entropy,
        "calibration": [asdict(row) for row in metrics.bins],
        "calibration_error": metrics.calibration_error,
    }


def _make_regression_fields(metrics: RegressionMetrics, test: Part) -> dict[str, Any]:
    """Return the fields of the result for a regression."""
    largest_errors = []
    if isinstance(test, ImagePart):
        largest_errors = _describe_largest_errors(metrics, test)
    return {
        "loss": metrics.loss,
        "rmse": metrics.rmse,
        "mae": metrics.mae,
        "r2": metrics.r2,
        "bias": metrics.bias,
        "constant": metrics.constant,
        "calibration": [asdict(row) for row in metrics.bins],
        "calibration_error": metrics.compute_calibration_error(),
        "mistakes": largest_errors,
    }


def _describe_largest_errors(metrics: RegressionMetrics, test: ImagePart) -> list[dict[str, Any]]:
    """Describe the predictions that are furthest from the label, each with its image."""
    largest_errors = []
    for index in metrics.find_largest_errors(MAX_MISTAKES):
        error = {
            "truth": float(metrics.observed[index]),
            "predicted": float(metrics.predicted[index]),
            "picture": encode_image(test.images[index]),
        }
        largest_errors.append(error)
    return largest_errors


def _evaluate_constant(predictions: Predictions, train: Part) -> dict[str, float]:
    """Evaluate two constant predictions on the test part, for comparison with a network.

    Returns:
        The accuracy of always predicting the most frequent class of the training part, and the log
        loss of predicting the shares of its classes as probabilities.
    """
    class_count = predictions.probabilities.shape[1]
    train_labels = train.read_labels().flatten().long().cpu()
    counts = torch.bincount(train_labels, minlength=class_count).double()
    # One sample is added to each class, so that an unseen class has a finite loss.
    log_shares = ((counts + 1) / (counts + 1).sum()).log()
    accuracy = float((predictions.labels == counts.argmax()).double().mean())
    return {"accuracy": accuracy, "loss": float(-log_shares[predictions.labels].mean())}


def _make_class_fields(
    predictions: Predictions, test: Part, class_names: tuple[str, ...]
) -> dict[str, Any]:
    """Return the fields of the result for classification."""
    class_count = predictions.probabilities.shape[1]
    if len(class_names) != class_count:
        # The data do not name their classes, so they are numbered.
        class_names = tuple(str(number) for number in range(class_count))
    return {
        "accuracy": predictions.accuracy,
        "loss": predictions.loss,
        "classes": class_names,
        "confusion": predictions.count_confusions(),
        "calibration": predictions.compute_calibration(),
        "calibration_error": predictions.compute_calibration_error(),
        "mistakes": _describe_mistakes(predictions, test, class_names),
    }


def _describe_mistakes(
    predictions: Predictions, test: Part, class_names: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Describe the worst mistakes, with an image if the samples are images."""
    predicted_labels = predictions.predicted_labels
    mistakes = []
    for index in predictions.find_worst_mistakes(MAX_MISTAKES):
        truth = int(predictions.labels[index])
        predicted = int(predicted_labels[index])
        mistake: dict[str, Any] = {
            "truth": class_names[truth],
            "predicted": class_names[predicted],
            "truth_probability": float(predictions.probabilities[index, truth]),
            "confidence": float(predictions.probabilities[index, predicted]),
        }
        if isinstance(test, ImagePart):
            mistake["picture"] = encode_image(test.images[index])
        mistakes.append(mistake)
    return mistakes


def encode_image(image: Tensor) -> str:
    """Encode an image (H, W, C) of bytes as the data URL of a PNG. Large images are reduced."""
    pixels = image.cpu().numpy()
    if pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    else:
        pixels = pixels[..., :3]
    picture = Image.fromarray(pixels)
    picture.thumbnail((MAX_MISTAKE_SIDE, MAX_MISTAKE_SIDE))
    buffer = BytesIO()
    picture.save(buffer, format="PNG")
    return f"data:image/png;base64,{b64encode(buffer.getvalue()).decode()}"
