"""The documents of an export: `config.json` for programs and `README.md` for people."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from untrained.data.samples import DATASET_NAME
from untrained.data.tables.schema import VOCABULARIES, Schema
from untrained.exports.subject import ExportSubject
from untrained.formatting import (
    format_count,
    format_limited_value,
    format_measured,
    format_percent,
    format_quantity,
)
from untrained.onnx_files import TOLERANCE
from untrained.runs.folder import RunFolder, read_versions
from untrained.strategies.latency import Latency
from untrained.training.accuracy import format_accuracy, make_chance_warning
from untrained.training.regression_metrics import make_mean_warning
from untrained.training.result import format_regression_errors
from untrained.types import BINARY, CLASSIFICATION, REGRESSION, Task
from untrained.version import __version__


@dataclass(frozen=True)
class ExportFacts:
    """What was measured during the export.

    Attributes:
        params: The number of parameters.
        flops: Multiply-adds per sample; None if an operation has no formula.
        class_name: The class of the network.
        source_failure: Why there is no model.py; empty if there is one.
        is_trainable: Whether model.py computes the same as the original in training mode.
        onnx_failure: Why there is no model.onnx; empty if there is one.
        opset: The version of the ONNX operators.
        disagreement: The largest difference between outputs of torch and ONNX Runtime.
        latency: Latency of model.onnx on this machine.
    """

    params: int
    flops: int | None
    class_name: str
    source_failure: str = ""
    is_trainable: bool = True
    onnx_failure: str = ""
    opset: int | None = None
    disagreement: float | None = None
    latency: Latency | None = None


# ------------------------------------------------------------------------------------ config.json


def make_config(subject: ExportSubject, facts: ExportFacts) -> dict[str, Any]:
    """Return the content of config.json: how to use the network, and where it comes from."""
    task = subject.task
    channels = task.input_shape[0]
    latency = None
    if facts.latency is not None:
        latency = asdict(facts.latency)
    onnx = None
    if not facts.onnx_failure:
        onnx = {"opset": facts.opset, "disagreement": facts.disagreement}
    return {
        "made_by": f"untrained {__version__}",
        "space": subject.space,
        "arch": subject.arch,
        "input_shape": list(task.input_shape),
        "vocabularies": list(task.vocabularies),
        "classes": _list_classes(subject),
        "loss": task.loss,
        "target": _make_target(subject),
        "reads_arrays": subject.reads_arrays,
        # Without statistics of the data, predict.py does not normalise the inputs.
        "mean": list(subject.mean) or [0.0] * channels,
        "std": list(subject.std) or [1.0] * channels,
        "table": make_table_config(subject.schema) if subject.schema else None,
        "data": subject.data or None,
        "trained": subject.is_trained,
        "weights": subject.weights or None,
        "accuracy": subject.training.get("accuracy"),
        "log_loss": None if task.kind == REGRESSION else subject.training.get("loss"),
        "rmse": subject.training.get("rmse"),
        "mae": subject.training.get("mae"),
        "r2": subject.training.get("r2"),
        "auc": subject.training.get("auc"),
        "score": _make_score(subject),
        "params": facts.params,
        "flops": facts.flops,
        "latency": latency,
        "onnx": onnx,
        "versions": read_versions(),
    }


def _make_target(subject: ExportSubject) -> dict[str, Any] | None:
    """Return how to convert outputs to the unit of the label; None unless it is a regression."""
    if subject.task.kind != REGRESSION:
        return None
    return {
        "name": _name_target(subject),
        "mean": subject.task.target_mean,
        "std": subject.task.target_std,
    }


def _name_target(subject: ExportSubject) -> str:
    """Return the name of the label of a regression, or "prediction" if it has none."""
    if subject.schema is not None:
        return subject.schema.label
    return subject.task.target_name or "prediction"


def make_table_config(schema: Schema) -> dict[str, Any]:
    """Return what table.py needs to encode rows, except the vocabularies, which are in a file."""
    dense = []
    for column in schema.dense:
        dense.append(
            {"name": column.name, "log": column.log, "mean": column.mean, "std": column.std}
        )
    identifiers = []
    for identifier_column in schema.identifiers:
        identifiers.append({"name": identifier_column.name, "size": identifier_column.size})
    return {
        "label": schema.label,
        "missing": list(schema.missing),
        "timestamps": list(schema.timestamps),
        "decimal": schema.decimal,
        "dense": dense,
        "identifiers": identifiers,
    }


def _list_classes(subject: ExportSubject) -> list[str]:
    """Return the names of the classes, or their numbers if the data has no names."""
    if subject.classes:
        return list(subject.classes)
    if subject.task.kind == REGRESSION:
        return []
    # A single output is the logit of "yes".
    if subject.task.num_classes == 1:
        return ["no", "yes"]
    return [str(number) for number in range(subject.task.num_classes)]


def _make_score(subject: ExportSubject) -> dict[str, Any] | None:
    if subject.standing is None or subject.run is None:
        return None
    return {
        "proxy": subject.run.config.score_name,
        "measure": subject.run.measure,
        "value": subject.standing.score,
    }


# -------------------------------------------------------------------------------------- README.md

# What predict.py prints, by kind of the task.
_PREDICTIONS = {
    BINARY.name: "the most probable class",
    CLASSIFICATION.name: "the most probable class",
    REGRESSION.name: "the predicted number",
}


def make_readme(subject: ExportSubject, facts: ExportFacts) -> str:
    """Return the README of an export as Markdown."""
    sections = [
        _make_title(subject, facts),
        _make_summary(subject, facts),
        "## Usage\n\n" + _make_usage(subject, facts),
    ]
    if subject.schema is not None:
        sections.append("## Input columns\n\n" + describe_columns(subject.schema))
    sections.append("## Files\n\n" + _describe_files(subject, facts))
    sections.append("## Quality\n\n" + _describe_quality(subject))
    sections.append("## Latency\n\n" + _describe_latency(subject, facts))
    sections.append("## Origin\n\n" + _describe_origin(subject))
    text = "\n\n".join(sections) + "\n"
    # Names of data, columns and networks come from users, and Markdown may contain HTML. No name
    # may start a tag.
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def _make_title(subject: ExportSubject, facts: ExportFacts) -> str:
    if not subject.is_trained:
        # The warning comes first, so that random weights are not mistaken for trained ones.
        weights = "randomly initialised"
        if not subject.space:
            weights = f"as initialised by {subject.arch}"
        warning = f"**Untrained: the weights in this folder are {weights}.**"
        return f"{warning}\n\n# {facts.class_name}"
    result = ""
    if subject.training.get("accuracy") is not None:
        result = format_percent(subject.training["accuracy"])
    elif subject.training.get("auc") is not None:
        result = f"AUC {format_percent(subject.training['auc'], 2)}"
    elif subject.training.get("rmse") is not None:
        result = f"RMSE {format_measured(subject.training['rmse'])}"
    if not result:
        return f"# {facts.class_name}"
    return f"# {facts.class_name}: {result} on the test part of {_name_data(subject)}"


def _name_data(subject: ExportSubject) -> str:
    """Return the name of the training data for a sentence."""
    if subject.data == DATASET_NAME:
        return "the arrays"
    return subject.data


def _make_summary(subject: ExportSubject, facts: ExportFacts) -> str:
    flops = "not counted"
    if facts.flops is not None:
        flops = format_quantity(facts.flops)
    params = format_quantity(facts.params)
    task = _describe_task(subject)
    return f"{task} Parameters: {params}. Multiply-adds per sample: {flops}."


def _describe_task(subject: ExportSubject) -> str:
    task = subject.task
    if subject.was_trained_on_arrays:
        return _describe_array_task(subject)
    if len(task.input_shape) == 3:
        channels, height, width = task.input_shape
        size = f"{width} x {height} pixels with {format_count(channels, 'channel')}"
        if task.kind == REGRESSION:
            return (
                f"Predicts `{_name_target(subject)}`, a number, from images of {size}. "
                f"{_describe_scaling(task)}, in the unit of the labels in the training data."
            )
        return f"Classifies images of {size} into {len(_list_classes(subject))} classes."
    if subject.schema is not None:
        columns = _count_columns(subject.schema)
        label = subject.schema.label
        if task.kind == REGRESSION:
            return f"Reads rows of {columns} and predicts `{label}`. {_describe_scaling(task)}."
        if task.kind == CLASSIFICATION:
            return (
                f"Reads rows of {columns} and returns one logit for each of the "
                f"{task.num_classes} classes of `{label}`; the softmax of these logits gives the "
                "probabilities."
            )
        probability = f"the probability that `{subject.schema.label}` is 1 is 1 / (1 + exp(-x))"
        return f"Reads rows of {columns} and returns one logit x; {probability}."
    shape = " x ".join(map(str, task.input_shape))
    categorical = ""
    if task.vocabularies:
        categorical = f" (the last {len(task.vocabularies)} are categorical columns)"
    outputs = format_count(task.num_classes, "output")
    return f"Reads {shape} numbers{categorical} and returns {outputs}."


def _describe_array_task(subject: ExportSubject) -> str:
    """Describe a network that was trained on arrays."""
    task = subject.task
    shape = " x ".join(map(str, task.input_shape))
    kind = "feature" if len(task.input_shape) == 1 else "channel"
    inputs = (
        f"arrays of the shape {shape}, standardised per {kind} with `mean` and `std` in config.json"
    )
    if task.kind == REGRESSION:
        return f"Predicts a number from {inputs}. {_describe_scaling(task)}."
    return f"Classifies {inputs}, into {len(_list_classes(subject))} classes."


def _describe_scaling(task: Task) -> str:
    """Describe how the output of a regression becomes a prediction in the unit of the label."""
    prediction = f"{task.target_std:.9g} x + {task.target_mean:.9g}"
    return f"If x is the output of the network, the prediction is {prediction}"


def _count_columns(schema: Schema) -> str:
    kinds = []
    if schema.dense:
        kinds.append(format_count(len(schema.dense), "number"))
    if schema.identifiers:
        kinds.append(format_count(len(schema.identifiers), "identifier"))
    return f"{format_count(schema.column_count, 'column')} ({' and '.join(kinds)})"


def _make_usage(subject: ExportSubject, facts: ExportFacts) -> str:
    task = subject.task
    packages = "onnxruntime numpy"
    if facts.onnx_failure:
        packages = "torch safetensors numpy"
    reads_images = subject.schema is None and not subject.reads_arrays
    if subject.schema is None:
        shell_lines = [f"pip install {packages}", "python predict.py samples.npy"]
        if reads_images:
            shell_lines = [
                f"pip install {packages} pillow",
                "python predict.py picture.png folder/",
            ]
        python_lines = [
            "from model import load  # needs torch and safetensors",
            "",
            "network = load()",
        ]
    else:
        shell_lines = [f"pip install {packages}", "python predict.py rows.csv"]
        python_lines = [
            "import torch",
            "from model import load  # needs torch and safetensors",
            "from table import encode  # takes rows as dicts from column names to values",
            "",
            "network = load()",
            _make_prediction_line(task),
        ]
    lines = ["```", *shell_lines, "```"]
    if not facts.source_failure:
        lines.extend(["", "```python", *python_lines, "```"])
    if reads_images and not facts.onnx_failure:
        lines.append("\nWith onnxruntime and numpy alone, for a picture that is already decoded:\n")
        lines.extend(["```python", *_make_onnx_lines(task), "```"])
    return "\n".join(lines)


def _make_onnx_lines(task: Task) -> list[str]:
    """Return a program that predicts a decoded image with ONNX Runtime and numpy."""
    channels, height, width = task.input_shape
    lines = [
        "import json",
        "",
        "import numpy as np",
        "import onnxruntime",
        "",
        'with open("config.json", encoding="utf-8") as file:',
        "    config = json.load(file)",
        'session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])',
        "input_name = session.get_inputs()[0].name",
        "",
        f"image = np.zeros(({height}, {width}, 3), np.uint8)  # your picture: "
        "(height, width, RGB), 0 to 255",
        "pixels = image / 255",
    ]
    if channels == 1:
        lines.append("pixels = pixels.mean(2, keepdims=True)  # the network reads grey images")
    lines.extend(
        [
            'normalised = (pixels - config["mean"]) / config["std"]',
            "inputs = normalised.transpose(2, 0, 1)[np.newaxis].astype(np.float32)",
            "output = session.run(None, {input_name: inputs})[0][0]",
        ]
    )
    if task.kind == REGRESSION:
        lines.append('print(output[0] * config["target"]["std"] + config["target"]["mean"])')
        return lines
    if task.num_classes == 1:
        lines.append("yes = 1 / (1 + np.exp(-output[0]))")
        lines.append("probabilities = np.array([1 - yes, yes])")
    else:
        lines.append("exponentials = np.exp(output - output.max())")
        lines.append("probabilities = exponentials / exponentials.sum()")
    lines.append("best = probabilities.argmax()")
    lines.append('print(config["classes"][best], probabilities[best])')
    return lines


def _make_prediction_line(task: Task) -> str:
    """Return the line of Python that predicts encoded rows of a table."""
    outputs = "network(torch.from_numpy(encode(rows)))"
    if task.kind == REGRESSION:
        return f"numbers = {task.target_std!r} * {outputs} + {task.target_mean!r}"
    if task.kind == CLASSIFICATION:
        return f"probabilities = {outputs}.softmax(1)"
    return f"probabilities = {outputs}.sigmoid()"


def describe_columns(schema: Schema) -> str:
    """Describe the files that table.py reads, as Markdown."""
    lines = [
        "A CSV file, which may be compressed as .gz or .bz2. Its first line names these columns in "
        "any order; other columns are ignored.\n"
    ]
    if schema.dense:
        names = _format_names([column.name for column in schema.dense])
        notation = ", written with a decimal comma (3,5)" if schema.decimal == "," else ""
        lines.append(f"- numbers: {names}{notation}; a missing number is replaced by the mean")
    if schema.identifiers:
        names = _format_names([column.name for column in schema.identifiers])
        lines.append(
            f"- identifiers: {names}; identifiers that were rare or absent in training share one "
            "code"
        )
    if schema.timestamps:
        names = _format_names(schema.timestamps)
        lines.append(
            f"- timestamps among these: {names}; written as 2014-10-21 07:00:00, in UTC unless an "
            "offset such as +02:00 follows"
        )
    return "\n".join(lines)


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _describe_files(subject: ExportSubject, facts: ExportFacts) -> str:
    prediction = _PREDICTIONS[subject.task.kind.name]
    files = {
        "model.py": _describe_source(facts),
        "model.safetensors": "the weights, by their names in model.py",
        "model.onnx": _describe_onnx(facts),
    }
    if subject.reads_arrays:
        files["config.json"] = (
            "classes, input shape, mean and standard deviation of each feature or channel, and the "
            "origin"
        )
        files["predict.py"] = f"reads .npy and .npz files and prints {prediction} for each sample"
        if len(subject.task.input_shape) == 1:
            files["predict.py"] = (
                f"reads .npy, .npz and CSV files of numbers and prints {prediction} for each sample"
            )
    elif subject.schema is None:
        labels = "classes"
        if subject.task.kind == REGRESSION:
            labels = "mean and standard deviation of the label"
        files["config.json"] = (
            f"{labels}, input size, mean and standard deviation of each channel, and the origin"
        )
        files["predict.py"] = f"reads images and prints {prediction} for each"
    else:
        files["config.json"] = (
            "the columns, mean and standard deviation of the numbers, and the origin"
        )
        files[VOCABULARIES] = "hashes of the identifiers that occurred in training, per column"
        files["table.py"] = "encodes rows as in training"
        if subject.task.kind == BINARY:
            prediction = "the probability"
        files["predict.py"] = f"reads rows of CSV files and prints {prediction} for each"
    files["manifest.json"] = (
        "the hash of each file; another export to this folder replaces only these files"
    )
    return "\n".join(f"- `{name}`: {description}" for name, description in files.items())


def _describe_source(facts: ExportFacts) -> str:
    if facts.source_failure:
        return f"not written: {facts.source_failure}"
    description = "plain PyTorch source that reproduces this network exactly"
    if facts.is_trainable:
        return description
    return (
        f"{description} in evaluation mode (in training mode the original computes more, for "
        "example it drops paths or runs auxiliary towers)"
    )


def _describe_onnx(facts: ExportFacts) -> str:
    if facts.onnx_failure:
        return f"not written: {facts.onnx_failure}"
    return (
        f"the network for ONNX Runtime (opset {facts.opset}, any batch size); its outputs differ "
        f"from torch by at most {facts.disagreement:.1g} (limit {TOLERANCE:g})"
    )


def _describe_quality(subject: ExportSubject) -> str:
    if not subject.is_trained:
        return "Unknown: the network is not trained."
    training = subject.training
    if "accuracy" not in training:
        return f"Unknown: the weights come from {subject.weights}, without a test result."
    samples = training.get("samples") or {}
    test = "evaluated once"
    # The interval of an accuracy names the number of samples.
    if "test" in samples and training["accuracy"] is None:
        test = f"{format_count(samples['test'], 'sample')}, evaluated once"
    result = _format_test_result(training)
    quality = f"{result} on the test part of {_name_data(subject)} ({test})."
    if training["accuracy"] is not None:
        warning = make_chance_warning(training["accuracy"], training.get("confusion") or [])
        if warning:
            quality += f" Warning: {warning}."
    if subject.task.kind == REGRESSION:
        quality += f" {_describe_errors(subject)}"
    if training.get("estimated_by"):
        count = format_count(samples["train"], "sample")
        return (
            f"{quality} This is the result of the same training without the test part; afterwards "
            f"the network was trained on all {count}."
        )
    if "train" in samples:
        quality += f" Trained on {format_count(samples['train'], 'sample')}."
    return quality


def _describe_errors(subject: ExportSubject) -> str:
    """Return the unit of the errors of a regression, and what a constant prediction achieves."""
    text = f"RMSE and MAE are in the unit of `{_name_target(subject)}`."
    training = subject.training
    constant = training.get("constant")
    if constant:
        text += (
            f" Always predicting the mean has an RMSE of {format_measured(constant['rmse'])} and "
            f"an MAE of {format_measured(constant['mae'])}."
        )
        warning = make_mean_warning(training["rmse"], constant["rmse"])
        if warning:
            text += f" Warning: {warning}."
    return text


def _format_test_result(training: dict[str, Any]) -> str:
    accuracy = training["accuracy"]
    if accuracy is not None:
        samples = training.get("samples") or {}
        if samples.get("test"):
            return f"Test accuracy {format_accuracy(accuracy, samples['test'])}"
        return f"Test accuracy {format_percent(accuracy)}"
    if training.get("rmse") is not None:
        return f"RMSE {format_regression_errors(training['rmse'], training['mae'], training['r2'])}"
    log_loss = f"Log loss {training['loss']:.4f}"
    # The area under the curve is undefined if all test rows have the same label.
    if training["auc"] is None:
        return log_loss
    return f"{log_loss} and AUC {format_percent(training['auc'], 2)}"


def _describe_latency(subject: ExportSubject, facts: ExportFacts) -> str:
    limits = {}
    if subject.run is not None:
        limits = {row["limit"]: row for row in subject.run.limit_results}
    lines = []
    if facts.latency is not None:
        lines.append(_format_latency(facts.latency))
        if "max_latency" in limits:
            lines[0] += f" The limit of the search was {limits['max_latency']['text']}."
    for name, row in limits.items():
        if row.get("value") is not None:
            value = format_limited_value(name, row["value"])
            if row.get("source"):
                value += f" ({row['source']})"
            lines.append(f"- {name} {row['text']}: this network has {value}")
    if not lines:
        return "Not measured."
    return "\n".join(lines)


def _format_latency(latency: Latency) -> str:
    seconds = format_limited_value("max_latency", latency.seconds)
    samples = format_count(latency.batch, "sample")
    threads = format_count(latency.threads, "thread")
    runs = f"tenth percentile of {latency.runs} runs after {latency.warm_up} warm-up runs"
    return (
        f"`model.onnx` takes {seconds} for {samples} on the CPU of the machine that exported it "
        f"({threads}, {runs})."
    )


def _describe_origin(subject: ExportSubject) -> str:
    architecture = f"Architecture: `{subject.arch}`"
    if subject.space:
        architecture += f" of the space `{subject.space}`"
    lines = [f"{architecture}."]
    score = _make_score(subject)
    if subject.run is not None and score is not None:
        command = _describe_search(subject.run)
        lines.append(f"Search: {command}. Score: {score['proxy']} {score['value']:.6g}.")
    elif subject.run is not None:
        lines.append(f"Search: {_describe_search(subject.run)}. {subject.verdict}.")
    command = subject.training.get("command", "")
    if command:
        lines.append(f"Training: `{command}`.{_describe_shortened_training(subject)}")
    elif subject.weights:
        lines.append(f"Weights: {subject.weights}.")
    lines.append(f"Exported on {date.today().isoformat()} with untrained {__version__}.")
    return "\n".join(lines)


def _describe_shortened_training(subject: ExportSubject) -> str:
    """Say how many epochs a training had if the time was too short for its command."""
    epochs = len(subject.training.get("curve", ()))
    planned_epochs = subject.training.get("key", {}).get("recipe", {}).get("epochs", epochs)
    if subject.training.get("ended") == "epochs" and 0 < epochs < planned_epochs:
        return f" It had time for {epochs} of the {planned_epochs} epochs, so a repetition differs."
    return ""


def _describe_search(run: RunFolder) -> str:
    """Return the command of a search; a command cannot name data that existed only in Python."""
    command = run.to_command()
    if not command:
        return f"`untrained.search` in Python, on arrays, in the space `{run.config.space}`"
    return f"`{command}`"
