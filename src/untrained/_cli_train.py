"""The command that trains."""

from typing import Annotated

import typer

from untrained._cli import DataRoot, Json, Label, Space, app, labelled, print_json, stdout_kept
from untrained._quantities import parse_shape


@app.command()
def train(
    what: Annotated[
        str, typer.Argument(help="An architecture string, a run folder (its winner) or ./file.py:factory.")
    ],
    data: Annotated[
        str | None, typer.Option(help="What to learn: digits, cifar10, csv:PATH, ...", show_default="that of the run")
    ] = None,
    label: Label = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="quick, cifar, quick(rate=0.1), ...; see `untrained list recipes`.",
            show_default="quick; ctr for tables",
        ),
    ] = None,
    space: Space = "nasbench201",
    epochs: Annotated[int | None, typer.Option(min=1, help="So many epochs.", show_default="the recipe's")] = None,
    patience: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many epochs without a better one.", show_default="never")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Stop after this long: 5m, 1h30m.")] = None,
    input_shape: Annotated[str | None, typer.Option(help="What your network takes, such as 3x64x64.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Decides weights and batches.", show_default="that of the run, or 0"),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps; or accelerate, for several GPUs.")] = "cpu",
    run: Annotated[
        str | None, typer.Option(help="Folder; the same command resumes.", show_default="the run's, or runs/train-...")
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write the curve for TensorBoard.")] = False,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Train a network on your data, and judge it once on samples that had no say.

    Ctrl-C and kill -9 lose at most 200 steps: the same command goes on to the same weights.
    What was trained of a run before it had its present winner is kept in its folder as former-1.
    The folder then holds model.pt, train.json and report.html with curves, confusions and the hardest mistakes;
    of a table of clicks, log loss, AUC and calibration.

    A run whose space is in a file of your own runs that file. It is refused where the file has changed since the
    search, and where you have not run it on this machine; name it then: --space ./mine.py:mynet

    Several GPUs each learn a share of every batch by accelerate (pip install 'untrained\\[train]'):
    accelerate launch --num_processes 4 --no_python untrained train runs/mine --device accelerate

    Example: untrained train runs/mine --recipe "quick(epochs=20)"

    Example: untrained train ./my_net.py:make_net --input-shape 3x32x32 --data digits --time 5m

    Example: untrained train ./my_net.py:make_net --input-shape 5 --data csv:clicks.csv --label click
    """
    from untrained import reports, training
    from untrained._terminal_train import show_trained, training_bar
    from untrained.training._crowd import crowd

    speaks = crowd(device).writes  # of several processes the first one
    size = None if input_shape is None else parse_shape(input_shape)
    when = {"epochs": epochs, "patience": patience, "time": time, "seed": seed, "tensorboard": tensorboard}
    where = {"space": space, "input_shape": size, "device": device, "run": run, "data_root": data_root}
    with training_bar(as_json or not speaks) as watch, stdout_kept(as_json):
        found = training.train(what, labelled(data, label), recipe, watch=watch, **when, **where)  # type: ignore[arg-type]
    if speaks:
        page = reports.report(found.folder)
        print_json(found.document()) if as_json else show_trained(found, page)
