"""The command that takes a network out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from untrained._cli import DataRoot, Json, Label, Space, app, labelled, print_json, stdout_kept
from untrained._quantities import parse_shape
from untrained._terminal_text import print_line


@app.command()
def export(
    what: Annotated[str, typer.Argument(help="A run folder (its best), an architecture, or ./file.py:factory.")],
    out: Annotated[
        Path, typer.Option(help="The folder to make. The files of an earlier export are replaced, yours stay.")
    ],
    space: Space = "nasbench201",
    weights: Annotated[
        Path | None,
        typer.Option(help="A state dict (.pt, .safetensors).", show_default="model.pt of the run folder, if trained"),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Names the classes and the mean of each channel.", show_default="that of the run")
    ] = None,
    label: Label = None,
    input_shape: Annotated[str | None, typer.Option(help="What your network takes, such as 3x224x224.")] = None,
    classes: Annotated[
        int | None, typer.Option(min=1, help="Number of classes.", show_default="the network's outputs")
    ] = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Write a network as a folder that needs nothing of ours: plain source, weights, ONNX, a program that predicts.

    A run whose network is in a file of your own runs that file. It is refused where the file has changed since, and
    where you have not run it on this machine; name it then: --space ./mine.py:mynet

    ONNX is checked against torch and its latency measured. Needs: pip install 'untrained\\[export]'

    Example: untrained export runs/mine --out exported

    Example: untrained export ./my_net.py:make_net --out exported --input-shape 3x224x224 --weights best.pt
    """
    from untrained import exports
    from untrained._terminal_export import show_exported

    sides = None if input_shape is None else parse_shape(input_shape)
    size = {"input_shape": sides, "num_classes": classes, "data_root": data_root}
    named = labelled(data, label)
    with stdout_kept(as_json):
        made = exports.export(what, out, space=space, weights=weights, data=named, **size)  # type: ignore[arg-type]
    document = {"folder": str(made.folder), **made.config, "missing": made.missing}
    print_json(document) if as_json else show_exported(made)


def deliverable(out: Path, recipe: str | None, run: Path | None) -> None:
    """Refuse before a search what `deliver` would refuse after it."""
    from untrained import exports
    from untrained.training import recipes

    exports.ready(out, run or Path("runs", "..."))  # where a run lies whose folder nobody named
    if recipe:
        recipes.recipe(recipe)


def deliver(run: Path, out: Path, recipe: str | None, device: str, data_root: Path | None, quiet: bool) -> None:
    """Train the winner of a run on its data, and take it out."""
    from untrained import exports, reports, training
    from untrained._terminal_export import show_exported
    from untrained._terminal_train import show_trained, training_bar
    from untrained.training._folder import set_aside
    from untrained.training.trained import AnotherTraining

    with stdout_kept(quiet):
        with training_bar(quiet) as watch:
            how: dict[str, Any] = {"recipe": recipe, "device": device, "data_root": data_root, "watch": watch}
            try:
                trained = training.train(run, **how)
            except AnotherTraining:  # such as that of a comparison, which has a recipe of its own
                if recipe is None:
                    raise
                set_aside(run)
                trained = training.train(run, **how)
        if not quiet:
            print_line(f"exporting to {out}", err=True)
        page, made = reports.report(run), exports.export(run, out, data_root=data_root)
    if not quiet:
        show_trained(trained, page)
        show_exported(made)
