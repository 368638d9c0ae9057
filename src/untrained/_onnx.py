"""ONNX: one way to write a network, one way to open the file, one way to compare the two. Needs the extra `export`."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from untrained.errors import UsageError

PACKAGES = ("onnx", "onnxscript", "onnxruntime", "safetensors")
TOLERANCE = 1e-4  # between torch and ONNX Runtime, of the largest output where that is above 1


def extra(name: str, package: str = "") -> Any:
    """A module of the extra `export`, or one line that says what to install."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{package or name} is not installed: pip install {' '.join(PACKAGES)} (or 'untrained[export]')"
        ) from error


def write_onnx(network: nn.Module, samples: Tensor, path: Path, *, any_number: bool = False) -> int:
    """Write the network for so many samples, or for any number of them, and tell the version of ONNX's operators."""
    for name in PACKAGES[:2]:
        extra(name)
    sizes = ({0: torch.export.Dim("batch")},) if any_number else None
    names: dict[str, Any] = {"input_names": ["input"], "output_names": ["output"]}
    with _quiet(), torch.no_grad():
        # Left to itself torch.onnx tries one way after the other and may end with one that fixes the number of samples.
        program = torch.export.export(network.eval(), (samples,), dynamic_shapes=sizes, strict=False)
        torch.onnx.export(program, (), path, dynamic_shapes=sizes, **names, external_data=False, verbose=False)
    return int(extra("onnx").load(str(path), load_external_data=False).opset_import[0].version)


def open_onnx(path: Path, threads: int) -> Callable[[Tensor], Tensor]:
    """The network in the file as a function, on the CPU."""
    runtime = extra("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    return lambda inputs: torch.from_numpy(session.run(None, {given.name: inputs.numpy()})[0])


def disagreement(network: nn.Module, opened: Callable[[Tensor], Tensor], inputs: Tensor) -> float:
    """The largest difference of an output, relative to the largest output where that is above 1."""
    with torch.no_grad():
        ours, theirs = network.eval()(inputs), opened(inputs)
    if ours.shape != theirs.shape:
        return float("inf")
    return float((ours - theirs).abs().max() / ours.abs().max().clamp_min(1))


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch's exporter thinks aloud: about itself, and about packages that nobody asked for."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), open(os.devnull, "w") as nowhere:
            warnings.simplefilter("ignore")
            with redirect_stdout(nowhere), redirect_stderr(nowhere):
                yield
    finally:
        logging.disable(before)
