"""What an exported folder says of itself: `config.json` for programs, `README.md` for people. Writes words only."""

import re
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from untrained import __version__
from untrained._numbers import counted, measured, quantity
from untrained._onnx import TOLERANCE
from untrained.data._schema import VOCABULARIES, Schema
from untrained.exports.subject import Found
from untrained.strategies._run import versions
from untrained.strategies.latency import Latency


@dataclass(frozen=True)
class Facts:
    """What was measured while exporting. A file that could not be written has a reason instead."""

    params: int
    flops: int | None  # None where an operation of the network has no formula
    network: str  # the name of its class
    source: str = ""  # why there is no model.py
    trainable: bool = True
    onnx: str = ""  # why there is no model.onnx
    opset: int | None = None
    disagreement: float | None = None
    latency: Latency | None = None


def config(found: Found, facts: Facts) -> dict[str, Any]:
    """Everything a program must know to use the folder, and what identifies the network."""
    task, channels = found.task, found.task.input_shape[0]
    outputs = 2 if task.num_classes == 1 else task.num_classes
    numbered = ("no", "yes") if task.num_classes == 1 else tuple(map(str, range(outputs)))
    return {
        "made_by": f"untrained {__version__}",
        "space": found.space,
        "arch": found.arch,
        "input_shape": list(task.input_shape),
        "vocabularies": list(task.vocabularies),
        "classes": list(found.classes or numbered),
        "loss": task.loss,
        "mean": list(found.mean) or [0.0] * channels,
        "std": list(found.std) or [1.0] * channels,
        "table": _table(found.schema) if found.schema else None,
        "data": found.data or None,
        "trained": trained(found),
        "weights": found.weights or None,
        "accuracy": found.training.get("accuracy"),
        "log_loss": found.training.get("loss"),
        "auc": found.training.get("auc"),
        "score": _score(found),
        "params": facts.params,
        "flops": facts.flops,
        "latency": asdict(facts.latency) if facts.latency else None,
        "onnx": {"opset": facts.opset, "disagreement": facts.disagreement} if not facts.onnx else None,
        "versions": versions(),
    }


def _table(schema: Schema) -> dict[str, Any]:
    """All that encodes a row, but for the vocabularies, which are a file of their own."""
    return {
        "label": schema.label,
        "missing": list(schema.missing),
        "moments": list(schema.moments),
        "decimal": schema.decimal,
        "dense": [{"name": c.name, "log": c.log, "mean": c.mean, "std": c.std} for c in schema.dense],
        "identifiers": [{"name": c.name, "size": c.size} for c in schema.identifiers],
    }


def trained(found: Found) -> bool:
    """Whether the weights come from a file; those that were drawn are worth nothing yet."""
    return bool(found.weights)


def _score(found: Found) -> dict[str, Any] | None:
    if found.standing is None or found.run is None:
        return None
    return {"proxy": found.run.settings.score, "measure": found.run.measure, "value": found.standing.score}


def _flops(facts: Facts) -> str:
    return "not counted" if facts.flops is None else quantity(facts.flops)


def readme(found: Found, facts: Facts) -> str:
    told = config(found, facts)
    sections = [
        _head(found, facts),
        f"{_shape(found)} Parameters: {quantity(facts.params)}. Multiply-adds for one sample: {_flops(facts)}.",
        "## Use it\n\n" + _use(found.schema, facts),
        _columns(found.schema) if found.schema else "",
        "## What is here\n\n" + _files(found.schema, facts),
        "## How good it is\n\n" + _quality(found),
        "## How fast it is\n\n" + _speed(found, facts),
        "## How it was found\n\n" + _origin(found, told),
    ]
    text = "\n\n".join(section for section in sections if section) + "\n"
    # Names of data, columns and networks are anybody's, and Markdown may hold HTML: none of them begins a tag.
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def _head(found: Found, facts: Facts) -> str:
    """Nobody must take random weights for learned ones, so that comes first."""
    if not trained(found):
        drawn = "drawn at random" if found.space else f"made by {found.arch}"
        return f"**Untrained: the weights in this folder are as they were {drawn}.**\n\n# {facts.network}"
    judged = found.training
    reached = {"accuracy": "{:.2%}", "auc": "AUC {:.4f}"}
    told = [text.format(judged[name]) for name, text in reached.items() if judged.get(name) is not None]
    return f"# {facts.network}" + (f": {told[0]} on the test part of {found.data}" if told else "")


def _shape(found: Found) -> str:
    task = found.task
    if len(task.input_shape) == 3:
        channels, height, width = task.input_shape
        pixels = f"{width} x {height} pixels and {counted(channels, 'channel')}"
        return f"Reads pictures of {pixels}, tells {task.num_classes} classes apart."
    if found.schema:
        kinds = {"numbers": len(found.schema.dense), "identifiers": len(found.schema.identifiers)}
        columns = " and ".join(f"{count} of {kind}" for kind, count in kinds.items() if count)
        chance = f"1 / (1 + exp(-x)) is the chance that `{found.schema.label}` is 1"
        return f"Reads rows of {task.input_shape[0]} columns, {columns}; answers with one number x, and {chance}."
    told = f", the last {len(task.vocabularies)} of them identifiers" if task.vocabularies else ""
    return f"Reads {' x '.join(map(str, task.input_shape))} numbers{told}; answers with {task.num_classes}."


def _use(schema: Schema | None, facts: Facts) -> str:
    command = ["pip install onnxruntime pillow numpy", "python predict.py picture.png folder/"]
    load = ["from model import load  # needs torch and safetensors", "", "network = load()"]
    if schema:
        command = ["pip install onnxruntime numpy", "python predict.py rows.csv"]
        load[:1] = [
            "import torch",
            load[0],
            "from table import encode  # of rows, a dict each, by the names of columns",
        ]
        load += ["chances = network(torch.from_numpy(encode(rows))).sigmoid()"]
    python = ["", "```python", *load, "```"] if not facts.source else []
    return "\n".join(["```", *command, "```", *python])


def _columns(schema: Schema) -> str:
    """What a file of rows must hold."""
    numbers, identifiers = ([f"`{column.name}`" for column in kind] for kind in (schema.dense, schema.identifiers))
    moments = [f"`{name}`" for name in schema.moments]
    written = ", written like 3,5" if schema.decimal == "," else ""
    lines = [
        "## The columns\n",
        "A CSV file, also .gz or .bz2, whose first line names these columns, in any order; others are passed over.\n",
        f"- numbers: {', '.join(numbers)}{written}; a missing one counts as the mean" if numbers else "",
        f"- identifiers: {', '.join(identifiers)}; all that training knew too little count as one"
        if identifiers
        else "",
        f"- moments among them: {', '.join(moments)}; written as 2014-10-21 07:00:00, in UTC unless they say +02:00"
        if moments
        else "",
    ]
    return "\n".join(filter(None, lines))


def _files(schema: Schema | None, facts: Facts) -> str:
    python = "plain PyTorch source of exactly this network" + (
        "" if facts.trainable else ", as it predicts (in training mode the original does more: paths or towers)"
    )
    onnx = (
        f"for ONNX Runtime, operators of version {facts.opset}, any number of samples; differs from torch by at most "
    )
    rows = [
        ("model.py", f"not written: {facts.source}" if facts.source else python),
        ("model.safetensors", "the weights, by their names in model.py"),
        (
            "model.onnx",
            f"not written: {facts.onnx}" if facts.onnx else f"{onnx}{facts.disagreement:.1g} (limit {TOLERANCE:g})",
        ),
    ]
    if schema:
        rows += [
            ("config.json", "the columns, mean and deviation of those of numbers, and where it comes from"),
            (VOCABULARIES, "the identifiers that training knew, as hashes, column by column"),
            ("table.py", "encodes rows as in training"),
            ("predict.py", "reads rows of CSV files and says the chance of each"),
        ]
    else:
        rows += [
            ("config.json", "classes, input size, mean and deviation of each channel, and where it comes from"),
            ("predict.py", "reads pictures (or rows of a CSV file) and names the class with its probability"),
        ]
    rows.append(("manifest.json", "the hash of each file: another export replaces these files and no others"))
    return "\n".join(f"- `{name}`: {about}" for name, about in rows)


def _quality(found: Found) -> str:
    if not trained(found):
        return "Not known: it has learned nothing yet."
    facts = found.training
    if "accuracy" not in facts:
        return f"Not known: the weights come from {found.weights}, which says nothing about it."
    samples = facts.get("samples") or {}
    on = f" of {counted(samples['test'], 'sample')}" if "test" in samples else ""
    learned = f", {samples['train']:,} to learn from" if "train" in samples else ""
    return f"{_reached(facts)} on the test part of {found.data}{on}, which was looked at once{learned}."


def _reached(facts: dict[str, Any]) -> str:
    if facts["accuracy"] is not None:
        return f"Accuracy {facts['accuracy']:.2%}"
    auc = f" and AUC {facts['auc']:.4f}" if facts["auc"] is not None else ""
    return f"Log loss {facts['loss']:.4f}{auc}"


def _speed(found: Found, facts: Facts) -> str:
    limits = {row["limit"]: row for row in (found.run.limits if found.run else [])}
    lines = []
    if took := facts.latency:
        asked = limits.get("max_latency")
        beside = f" The limit of the search was {asked['asked']}." if asked else ""
        lines.append(
            f"`model.onnx` takes {measured('max_latency', took.seconds)} for {took.batch} sample on this machine's CPU "
            f"({counted(took.threads, 'thread')}, median of {took.runs} runs after {took.warm_up} more)."
            f"{beside}"
        )
    for name, row in limits.items():
        if row.get("value") is not None:
            lines.append(f"- {name} {row['asked']}: it has {measured(name, row['value'])}")
    return "\n".join(lines) or "Not measured."


def _origin(found: Found, told: dict[str, Any]) -> str:
    lines = [f"Architecture: `{found.arch}`" + (f" of the space `{found.space}`." if found.space else ".")]
    if found.run and told["score"]:
        lines.append(
            f"Found by `untrained search {found.run.options()}`, {told['score']['proxy']} {told['score']['value']:.6g}."
        )
    if command := found.training.get("command"):
        lines.append(f"Trained by `{command}`.")
    elif found.weights:
        lines.append(f"Weights from {found.weights}.")
    return "\n".join([*lines, f"Exported on {date.today().isoformat()} by untrained {__version__}."])
