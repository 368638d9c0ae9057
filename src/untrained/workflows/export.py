"""`export(network, out)`: write a network to a folder that can be used without `untrained`.

The folder is written completely or not at all, and replaces only files that an earlier export
wrote.
"""

import json
import os
import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from untrained.data.registry import name_data_path
from untrained.errors import Unscorable, UntrainedError, UsageError
from untrained.exports import predict_template, table_template
from untrained.exports.documents import ExportFacts, make_config, make_readme
from untrained.exports.folder import check_folder, replace_folder
from untrained.exports.source import build_from_source, get_class_name, write_source
from untrained.exports.subject import ExportSubject
from untrained.onnx_files import (
    PACKAGES,
    TOLERANCE,
    import_extra,
    measure_disagreement,
    open_onnx,
    write_onnx,
)
from untrained.probe import Probe
from untrained.quantities import MAX_CLASSES, check_count, parse_path, parse_shape
from untrained.spaces import Space
from untrained.strategies.latency import LatencyTimer
from untrained.training.checkpoint import WEIGHTS_FILE
from untrained.training.result import TrainingResult
from untrained.types import Arch, Batch
from untrained.workflows.export_subject import resolve_export_subject

CONFIG = "config.json"


@dataclass(frozen=True)
class ExportResult:
    """The result of an export.

    Attributes:
        folder: The folder of the export.
        config: The content of `config.json`.
        missing: Files that could not be written, with the reasons.
        moved_files_folder: Folder with the files that were added or changed in the output folder
            during the export; None if there were none.
    """

    folder: Path
    config: dict[str, Any]
    missing: dict[str, str]
    moved_files_folder: Path | None = None

    def __repr__(self) -> str:
        # The whole config would fill the screen of a notebook.
        text = f"ExportResult({str(self.folder)!r}"
        if self.missing:
            text += f", missing={sorted(self.missing)}"
        return f"{text})"


def export(
    network: "str | Path | Arch | nn.Module | TrainingResult",
    out: str | Path,
    *,
    space: str | Space = "nasbench201",
    weights: str | Path | None = None,
    data: object = None,
    input_shape: tuple[int, ...] | None = None,
    num_classes: int | None = None,
    data_root: str | Path | None = None,
) -> ExportResult:
    """Export a network as plain source, weights and ONNX, with a program that predicts.

    Args:
        network: A run folder (its winner, with the trained weights if it has been trained), an
            architecture, an architecture string, a module, a reference to a factory such as
            "./my_net.py:make_net", or what `train` returned.
        out: The folder to write.
        space: The search space of an architecture.
        weights: A file with a state dict.
        data: Data for the names of the classes and the normalisation, in any form that `train`
            takes; by default those of the run.
        input_shape: Shape of one sample, for a network of your own.
        num_classes: Number of classes, for a network of your own.
        data_root: Folder that contains the data sets.

    Returns:
        The folder, its `config.json`, and what could not be written.

    Raises:
        UsageError: The network cannot be exported, or the folder cannot be written.

    Example:
        >>> import torch
        >>> import untrained as ut
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
        >>> result = ut.export(model, "exported", input_shape=(3, 32, 32))
        >>> result.missing
        {}
    """
    if isinstance(out, nn.Module):
        raise UsageError("the network comes first and the folder second: export(model, 'folder')")
    if isinstance(network, TrainingResult):
        weights = weights or Path(network.folder, WEIGHTS_FILE)
        network = network.model or network.folder
    if isinstance(data, Path):
        data = name_data_path(data)
    if num_classes is not None:
        num_classes = check_count(num_classes, "num_classes", 1, MAX_CLASSES)
    if input_shape is not None:
        input_shape = parse_shape(input_shape)
    if weights is not None:
        weights = parse_path(weights, "weights")
    folder = check_export(parse_path(out, "out"))
    subject = resolve_export_subject(
        network,
        space,
        weights=weights,
        data=data,
        input_shape=input_shape,
        num_classes=num_classes,
        data_root=data_root,
    )
    _check_output_shape(subject)
    with replace_folder(folder) as staging:
        facts = _write_files(subject, staging.folder)
    missing = {}
    if facts.source_failure:
        missing["model.py"] = facts.source_failure
    if facts.onnx_failure:
        missing["model.onnx"] = facts.onnx_failure
    return ExportResult(folder, make_config(subject, facts), missing, staging.kept)


def check_export(out: Path, run: Path | None = None) -> Path:
    """Check that an export can be written, for example before hours of training.

    Args:
        out: The folder to write.
        run: The run folder of the coming run, which must not be inside `out`.

    Returns:
        The folder as an absolute path without links.

    Raises:
        UsageError: A package is missing, the folder cannot be written, or it contains files that no
            export wrote.
    """
    for package in PACKAGES:
        import_extra(package)
    folder = out.resolve()
    if folder.parent == folder:
        raise UsageError(f"{out} is the root of the file system; choose another folder")
    existing_parent = next(parent for parent in folder.parents if parent.exists())
    if not existing_parent.is_dir() or not os.access(existing_parent, os.W_OK):
        raise UsageError(
            f"cannot create {out}: {existing_parent} is not a writable folder; choose another"
        )
    check_folder(folder)
    if run is not None and run.resolve().is_relative_to(folder):
        raise UsageError(f"{out} would replace the run folder {run}; choose another folder")
    return folder


def _check_output_shape(subject: ExportSubject) -> None:
    """Refuse a network that cannot run, or that does not return one number per class."""
    try:
        with torch.no_grad():
            output = subject.network(subject.make_inputs(2))
    except (Exception, SystemExit) as error:
        shape = subject.task.input_shape
        reason = _get_first_line(error)
        raise UsageError(f"{subject.arch} fails on inputs of shape {shape}: {reason}") from error
    expected = (2, subject.task.num_classes)
    if not hasattr(output, "shape"):
        description = f"a {type(output).__name__}"
    elif tuple(output.shape) != expected:
        description = f"the shape {tuple(output.shape)}"
    else:
        return
    raise UsageError(
        f"{subject.arch} returns {description} for two samples; "
        f"to export it, it must return the shape {expected}"
    )


def _write_files(subject: ExportSubject, folder: Path) -> ExportFacts:
    """Write all files of an export and return the facts about them."""
    probe = Probe(subject.network, Batch(subject.make_inputs(1), subject.make_inputs(1)))
    facts = ExportFacts(probe.params, _count_macs(probe), get_class_name(subject.network))
    facts, network, weights = _write_source_file(subject, folder, facts)
    facts = _write_onnx_file(subject, network, folder, facts)
    if facts.source_failure and facts.onnx_failure:
        raise UsageError(f"{facts.source_failure}; ONNX failed too: {facts.onnx_failure}")
    safetensors = import_extra("safetensors.torch", "safetensors")
    safetensors.save_file(weights, folder / "model.safetensors")
    shutil.copyfile(predict_template.__file__, folder / "predict.py")
    if subject.schema is not None:
        shutil.copyfile(table_template.__file__, folder / "table.py")
        subject.schema.save_vocabularies(folder)
    config = json.dumps(make_config(subject, facts), indent=1) + "\n"
    (folder / CONFIG).write_text(config, encoding="utf-8")
    (folder / "README.md").write_text(make_readme(subject, facts), encoding="utf-8")
    return facts


def _count_macs(probe: Probe) -> int | None:
    """Return the number of multiply-adds; None if there is no formula for an operation."""
    try:
        return probe.macs
    except Unscorable:
        return None


def _write_source_file(
    subject: ExportSubject, folder: Path, facts: ExportFacts
) -> tuple[ExportFacts, nn.Module, dict[str, Tensor]]:
    """Write model.py if the network can be written as plain source.

    Returns:
        The facts, the network that the source builds, and its weights. torch's ONNX exporter can
        capture this network more easily than the original one. If there is no source, this is the
        original network.
    """
    shape = "x".join(map(str, subject.task.input_shape))
    title = (
        f"{facts.class_name} for samples of shape {shape}.\n\n"
        "`load()` builds it with the weights in model.safetensors.\n"
    )
    try:
        source = write_source(subject.network, subject.make_inputs, title)
    except UntrainedError as error:
        state = subject.network.state_dict()
        weights = {name: tensor.clone().contiguous() for name, tensor in state.items()}
        return replace(facts, source_failure=_get_first_line(error)), subject.network, weights
    (folder / "model.py").write_text(source.text, encoding="utf-8")
    facts = replace(facts, class_name=source.class_name, is_trainable=source.is_trainable)
    return facts, build_from_source(source), source.weights


def _write_onnx_file(
    subject: ExportSubject, network: nn.Module, folder: Path, facts: ExportFacts
) -> ExportFacts:
    """Write model.onnx, compare it with torch for one sample and for several, and time it."""
    path = folder / "model.onnx"
    timer = LatencyTimer(runtime="onnx")
    try:
        opset = write_onnx(network, subject.make_inputs(2), path, dynamic_batch=True)
        run_onnx = open_onnx(path, timer.threads)
        disagreements = []
        for samples in (1, 5):
            inputs = subject.make_inputs(samples)
            disagreements.append(measure_disagreement(subject.network, run_onnx, inputs))
    except Exception as error:
        # torch's exporter and ONNX Runtime raise exceptions of any type.
        path.unlink(missing_ok=True)
        return replace(facts, onnx_failure=_get_first_line(error))
    # `max` of numpy returns NaN if there is one, and that of Python may not.
    disagreement = float(np.max(disagreements))
    # `not <=` instead of `>`, so that a disagreement of NaN is refused too.
    if not disagreement <= TOLERANCE:
        path.unlink()
        failure = f"its outputs differ from torch by {disagreement:.1g}, more than {TOLERANCE:g}"
        if np.isnan(disagreement):
            failure = "its outputs are not finite"
        return replace(facts, onnx_failure=failure)
    latency = timer.time_function(partial(run_onnx, subject.make_inputs(1)))
    return replace(facts, opset=opset, disagreement=disagreement, latency=latency)


def _get_first_line(error: BaseException) -> str:
    """Return the first line of a message that is not empty, or the type of the error."""
    for line in str(error).splitlines():
        if line.strip():
            return line.strip()
    return type(error).__name__
