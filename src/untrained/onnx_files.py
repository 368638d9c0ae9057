"""Write a network as an ONNX file, run the file, and compare both. Needs the extra `export`."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from untrained.errors import UsageError

PACKAGES = ("onnx", "onnxscript", "onnxruntime", "safetensors")

# The largest accepted difference between torch and ONNX Runtime, see `measure_disagreement`.
TOLERANCE = 1e-4

_LOG_ERRORS_ONLY = 3  # a severity level of ONNX Runtime


def import_extra(module: str, package: str = "") -> Any:
    """Import a module of the extra `export`.

    Args:
        module: The module.
        package: Name of the package for the message, if it differs from that of the module.

    Raises:
        UsageError: The package is not installed; the message says what to install.
    """
    try:
        return import_module(module)
    except ImportError as error:
        packages = " ".join(PACKAGES)
        raise UsageError(
            f"{package or module} is not installed: pip install {packages} "
            "(or '.[export]' in a clone of untrained)"
        ) from error


def can_run_onnx() -> bool:
    """Return whether the packages that write and run ONNX files are installed."""
    return all(find_spec(package) is not None for package in ("onnx", "onnxscript", "onnxruntime"))


def write_onnx(
    network: nn.Module, samples: Tensor, path: Path, *, dynamic_batch: bool = False
) -> int:
    """Write a network as an ONNX file.

    Args:
        network: The network. It is put into evaluation mode.
        samples: A batch of inputs of the network.
        path: The file to write.
        dynamic_batch: Whether the file accepts any batch size, or only that of `samples`.

    Returns:
        The version of the ONNX operator set.
    """
    onnx = import_extra("onnx")
    import_extra("onnxscript")
    dynamic_shapes = None
    if dynamic_batch:
        dynamic_shapes = ({0: torch.export.Dim("batch")},)
    with _silence_exporter(), torch.no_grad():
        # Without this call, torch.onnx tries several ways to capture the network, and the last of
        # them fixes the batch size.
        program = torch.export.export(
            network.eval(), (samples,), dynamic_shapes=dynamic_shapes, strict=False
        )
        torch.onnx.export(
            program,
            (),
            path,
            input_names=["input"],
            output_names=["output"],
            dynamic_shapes=dynamic_shapes,
            external_data=False,
            verbose=False,
        )
    model = onnx.load(str(path), load_external_data=False)
    return int(model.opset_import[0].version)


def write_traced_onnx(network: nn.Module, samples: Tensor, path: Path) -> None:
    """Write a network as an ONNX file that accepts only the batch size of `samples`, quickly.

    torch's earlier exporter traces one forward pass, which is about ten times faster than
    `write_onnx`. ONNX Runtime optimises both files to the same operations, so they are equally
    fast. A network that this exporter does not support is written with `write_onnx`.

    Args:
        network: The network. It is put into evaluation mode.
        samples: A batch of inputs of the network.
        path: The file to write.
    """
    import_extra("onnx")
    import_extra("onnxscript")
    network.eval()
    try:
        with _silence_exporter(), torch.no_grad():
            torch.onnx.export(
                network,
                (samples,),
                path,
                input_names=["input"],
                output_names=["output"],
                dynamo=False,
            )
    except Exception:  # the exporter raises errors of many types
        write_onnx(network, samples, path)


def open_onnx(path: Path, threads: int) -> Callable[[Tensor], Tensor]:
    """Return the network in an ONNX file as a function that runs on the CPU."""
    runtime = import_extra("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _LOG_ERRORS_ONLY
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (network_input,) = session.get_inputs()

    def run(inputs: Tensor) -> Tensor:
        outputs = session.run(None, {network_input.name: inputs.numpy()})
        return torch.from_numpy(outputs[0])

    return run


def measure_disagreement(
    network: nn.Module, run_onnx: Callable[[Tensor], Tensor], inputs: Tensor
) -> float:
    """Return the largest difference between the outputs of torch and of ONNX Runtime.

    The difference is relative to the largest output if that is above 1. It is infinite if the
    shapes differ.
    """
    with torch.no_grad():
        expected = network.eval()(inputs)
        outputs = run_onnx(inputs)
    if expected.shape != outputs.shape:
        return float("inf")
    difference = (expected - outputs).abs().max()
    return float(difference / expected.abs().max().clamp_min(1))


@contextmanager
def _silence_exporter() -> Iterator[None]:
    """Hide what torch's exporter prints and logs about its own progress and optional packages."""
    level_before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), open(os.devnull, "w") as devnull:
            warnings.simplefilter("ignore")
            with redirect_stdout(devnull), redirect_stderr(devnull):
                yield
    finally:
        logging.disable(level_before)
