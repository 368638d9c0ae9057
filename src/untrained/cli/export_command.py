"""`untrained export`: write a network to a folder that can be used without untrained."""

from pathlib import Path
from typing import Annotated

import typer

from untrained.cli.options import (
    DATA,
    OUTPUT,
    WHAT,
    ClassesOption,
    DataRootOption,
    InputShapeOption,
    JsonOption,
    LabelOption,
    SpaceOption,
    TaskOption,
    add_label,
)
from untrained.quantities import parse_shape


def export(
    network: Annotated[
        str,
        typer.Argument(
            help="Run folder (for its winner), architecture string or ./file.py:factory.",
        ),
    ],
    # Keyword-only, so that the required option --out can follow optional ones: `--help` shows the
    # groups of options in the order of the parameters.
    *,
    space: SpaceOption = "nasbench201",
    weights: Annotated[
        Path | None,
        typer.Option(
            help="File with a state dict: .pt or .safetensors.",
            show_default="model.pt of the run folder, if it exists",
            rich_help_panel=WHAT,
        ),
    ] = None,
    input_shape: InputShapeOption = None,
    classes: ClassesOption = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Data set for the names of the classes and the normalisation of inputs.",
            show_default="that of the run",
            rich_help_panel=DATA,
        ),
    ] = None,
    label: LabelOption = None,
    task: TaskOption = None,
    data_root: DataRootOption = None,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder to write. Files of an earlier export are replaced, other files stay.",
            rich_help_panel=OUTPUT,
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Write a network to a folder that can be used without untrained.

    The folder contains plain source code, weights, an ONNX model and a program that predicts. The
    ONNX model is compared with torch, and its latency is measured. Requires:
    pip install '.\\[export]' in a clone of untrained

    If the network of a run is defined in a file of your own, exporting runs that file. This is
    refused if the file has changed since the search, or if you have never run it on this machine.
    To allow it, name the file: --space ./mine.py:mynet

    Example: untrained export runs/mine --out exported

    Example: untrained export ./my_net.py:make_net --out exported --input-shape 3x224x224 --weights
    best.pt
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.export_result import show_export_result
    from untrained.cli.terminal.json_output import print_json, reserve_stdout
    from untrained.workflows.export import export as export_network

    shape = None if input_shape is None else parse_shape(input_shape)
    data_name = add_label(data, label, task)
    with reserve_stdout(as_json):
        result = export_network(
            network,
            out,
            space=space,
            weights=weights,
            data=data_name,
            input_shape=shape,
            num_classes=classes,
            data_root=data_root,
        )
    if as_json:
        print_json({"folder": str(result.folder), **result.config, "missing": result.missing})
    else:
        show_export_result(result)
