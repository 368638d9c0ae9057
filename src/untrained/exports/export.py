"""`export(what, out)`: a folder that holds a network and needs nothing of ours.

The folder appears at its path whole or not at all, and replaces only files that an earlier export wrote.
"""

import json
import os
import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from untrained._onnx import PACKAGES, TOLERANCE, disagreement, extra, open_onnx, write_onnx
from untrained._quantities import MOST_CLASSES, parse_count, parse_path, parse_shape
from untrained.errors import Unscorable, UntrainedError, UsageError
from untrained.exports import page
from untrained.exports.folder import check_folder, replace_folder
from untrained.exports.page import Facts
from untrained.exports.source import rebuilt_network, source
from untrained.exports.subject import Found, found
from untrained.probe import Probe
from untrained.spaces import Space
from untrained.strategies.latency import Stopwatch
from untrained.types import Arch, Batch

CONFIG = "config.json"


@dataclass(frozen=True)
class Exported:
    """Where the folder is, and what its `config.json` says."""

    folder: Path
    config: dict[str, Any]
    missing: dict[str, str]  # files that could not be written, and why
    kept: Path | None = None  # files of the user that appeared in the old folder at the last moment


def export(
    what: "str | Path | Arch | nn.Module",
    out: str | Path,
    *,
    space: str | Space = "nasbench201",
    weights: str | Path | None = None,
    data: str | None = None,
    input_shape: tuple[int, ...] | None = None,
    num_classes: int | None = None,
    data_root: str | Path | None = None,
) -> Exported:
    """Write a network as plain source, weights and ONNX, with a program that predicts and a page that explains.

    `what` is a run folder (its best, with the trained weights where `untrained train` left some), an architecture or
    its string, a module, or a user's factory. `weights` is a state dict. `data` names the classes and says what is
    normal; by default those of the run.
    """
    if num_classes is not None:
        num_classes = parse_count(num_classes, "num_classes", 1, MOST_CLASSES)
    if input_shape is not None:
        input_shape = parse_shape(input_shape)
    if weights is not None:
        weights = parse_path(weights, "weights")
    folder = ready(parse_path(out, "out"))
    subject = found(what, space, weights, data, input_shape, num_classes, data_root)
    _require_answer(subject)
    with replace_folder(folder) as staging:
        facts = _write(subject, staging.folder)
    missing = {"model.py": facts.source, "model.onnx": facts.onnx}
    reasons = {name: why for name, why in missing.items() if why}
    return Exported(folder, page.config(subject, facts), reasons, staging.kept)


def ready(out: Path, run: Path | None = None) -> Path:
    """Check that an export can be written, also before hours of work.

    Args:
        out: The folder to write.
        run: The run folder that is to come, which must not lie in it.

    Returns:
        The folder as an absolute path without links.

    Raises:
        UsageError: A package is missing, the folder cannot be written, or it holds files that no export wrote.
    """
    for package in PACKAGES:
        extra(package)
    folder = out.resolve()
    above = next(parent for parent in folder.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise UsageError(f"{out} cannot be made, since {above} is no folder that can be written to; choose another")
    check_folder(folder)
    if run and run.resolve().is_relative_to(folder):
        raise UsageError(f"{out} would replace the run folder {run}; choose another folder")
    return folder


def _require_answer(subject: Found) -> None:
    """Refuse a network that cannot be run, or that answers with something else than one number a class."""
    try:
        with torch.no_grad():
            answer = subject.network(subject.inputs(2))
    except (Exception, SystemExit) as error:
        raise UsageError(f"{subject.arch} cannot read {subject.task.input_shape}: {_line(error)}") from error
    shape, wanted = getattr(answer, "shape", None), (2, subject.task.num_classes)
    if shape is None or tuple(shape) != wanted:
        told = type(answer).__name__ if shape is None else tuple(shape)
        raise UsageError(f"{subject.arch} answers two samples with {told}; to be exported it must answer with {wanted}")


def _count_macs(probe: Probe) -> int | None:
    """Multiply-adds, or None where an operation has no formula: the network can be exported all the same."""
    try:
        return probe.macs
    except Unscorable:
        return None


def _write(subject: Found, folder: Path) -> Facts:
    network, name = subject.network, type(subject.network).__name__.strip("_")
    probe = Probe(network, Batch(subject.inputs(1), subject.inputs(1)))
    facts = Facts(probe.params, _count_macs(probe), "Network" if type(network) is nn.Sequential else name)
    facts, network, weights = _source(subject, folder, facts)
    facts = _onnx(subject, network, folder, facts)
    if facts.source and facts.onnx:
        raise UsageError(f"{facts.source}; nor can ONNX be written: {facts.onnx}")
    extra("safetensors.torch", "safetensors").save_file(weights, folder / "model.safetensors")
    shutil.copyfile(Path(__file__).with_name("_predict.py"), folder / "predict.py")
    if subject.schema:
        shutil.copyfile(Path(__file__).with_name("_table.py"), folder / "table.py")
        subject.schema.save_vocabularies(folder)
    (folder / CONFIG).write_text(json.dumps(page.config(subject, facts), indent=1) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(page.readme(subject, facts), encoding="utf-8")
    return facts


def _source(subject: Found, folder: Path, facts: Facts) -> tuple[Facts, nn.Module, dict[str, Any]]:
    """Write model.py; the network that it describes, which is easier to read for torch's exporter too, and weights."""
    shape = "x".join(map(str, subject.task.input_shape))
    title = (
        f"{facts.network}, which reads samples of {shape}: `load()` makes it, with the weights in model.safetensors."
    )
    try:
        made = source(subject.network, subject.inputs, title)
    except UntrainedError as why:
        state = subject.network.state_dict()
        weights = {name: tensor.clone().contiguous() for name, tensor in state.items()}
        return replace(facts, source=_line(why)), subject.network, weights
    (folder / "model.py").write_text(made.text, encoding="utf-8")
    return replace(facts, network=made.network, trainable=made.trainable), rebuilt_network(made), made.weights


def _onnx(subject: Found, network: nn.Module, folder: Path, facts: Facts) -> Facts:
    """Write, check against torch for one sample and for several, and measure."""
    path, stopwatch = folder / "model.onnx", Stopwatch(runtime="onnx")
    try:
        opset = write_onnx(network, subject.inputs(2), path, any_number=True)
        opened = open_onnx(path, stopwatch.threads)
        apart = max(disagreement(subject.network, opened, subject.inputs(samples)) for samples in (1, 5))
    except Exception as why:  # torch's exporter and ONNX Runtime raise anything
        path.unlink(missing_ok=True)
        return replace(facts, onnx=_line(why))
    if not apart <= TOLERANCE:
        path.unlink()
        return replace(facts, onnx=f"its answers differ from torch's by {apart:.1g}, over {TOLERANCE:g}")
    latency = stopwatch.time(partial(opened, subject.inputs(1)))
    return replace(facts, opset=opset, disagreement=apart, latency=latency)


def _line(error: BaseException) -> str:
    """The first line of a message that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
