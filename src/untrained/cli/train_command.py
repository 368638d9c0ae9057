"""`untrained train`: train a network on the user's data."""

from typing import Annotated

import typer

from untrained.cli.options import (
    BUDGET,
    COMPUTE,
    DATA,
    OUTPUT,
    WHAT,
    DataRootOption,
    InputShapeOption,
    JsonOption,
    LabelOption,
    SpaceOption,
    TaskOption,
    TestOption,
    add_label,
    add_test,
)
from untrained.cli.terminal.loading import announce_loading
from untrained.data_path import check_data_path
from untrained.quantities import parse_duration, parse_shape


def train(
    network: Annotated[
        str,
        typer.Argument(
            help="Run folder (for its winner), architecture string, ./file.py:factory, or a known "
            "network: resnet18, resnet20, mobilenetv2, convnext, ...",
        ),
    ],
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Recipe: quick, photos, quick(rate=0.1), ...; see `untrained list recipes`.",
            show_default="photos for your own pictures and arrays (C, H, W); ctr for "
            "tables with a binary label; table for other data of your own; else quick",
            rich_help_panel=WHAT,
        ),
    ] = None,
    refit: Annotated[
        str | None,
        typer.Option(
            help="validation: train on the training and validation parts and keep the final "
            "weights. all: add the test part too; a training without it runs first, to estimate "
            "the quality.",
            show_default="none; validation for the winner of a contest",
            rich_help_panel=WHAT,
        ),
    ] = None,
    space: SpaceOption = "nasbench201",
    input_shape: InputShapeOption = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Random seed for weights and batches.",
            show_default="that of the run, or 0",
            rich_help_panel=WHAT,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of epochs.",
            show_default="that of the recipe",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop after this number of epochs without improvement.",
            show_default="never",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Stop after this time: 5m, 1h30m.", rich_help_panel=BUDGET),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Data set to train on: digits, cifar10, csv:PATH, ...",
            show_default="that of the run",
            rich_help_panel=DATA,
        ),
    ] = None,
    label: LabelOption = None,
    task: TaskOption = None,
    test: TestOption = None,
    data_root: DataRootOption = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="Folder of the training. Repeating the command with the same folder resumes it.",
            show_default="the run folder, or runs/train-...",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    tensorboard: Annotated[
        bool,
        typer.Option(
            "--tensorboard",
            help="Also write the learning curve for TensorBoard.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    as_json: JsonOption = False,
    device: Annotated[
        str,
        typer.Option(
            help="Device: cpu, cuda, cuda:1 or mps; accelerate for several GPUs.",
            rich_help_panel=COMPUTE,
        ),
    ] = "cpu",
) -> None:
    """Train a network on your data and evaluate it once on the test part.

    It writes model.pt, train.json and report.html. The report shows learning curves, a confusion
    matrix and the worst mistakes; for click logs, log loss, AUC and calibration. After Ctrl-C or
    kill -9, the same command resumes from the last checkpoint and ends with the same weights. A
    checkpoint is saved after every epoch, after every 200 steps, and when 30 seconds have passed
    since the last one (not with --device accelerate). A finished training is not repeated: to train
    again, use another --run. If a search has found a new winner since, the earlier training is kept
    as former-1 in the run folder.

    The winner of a contest is trained with --refit validation by default. If it was trained before,
    the default is the value of that training. With --data, --recipe, --run or --patience, the
    default is none.

    If the space of a run is defined in a file of your own, training runs that file. This is refused
    if the file has changed since the search, or if you have never run it on this machine. To allow
    it, name the file: --space ./mine.py:mynet

    To train on several GPUs, use accelerate (pip install '.\\[train]'):
    accelerate launch --num_processes 4 --no_python untrained train runs/mine --device accelerate

    Example: untrained train runs/mine --recipe "quick(epochs=20)"

    Example: untrained train ./my_net.py:make_net --input-shape 3x32x32 --data digits --time 5m

    Example: untrained train ./my_net.py:make_net --input-shape 5 --data csv:clicks.csv --label
    click
    """
    data_name = add_test(add_label(data, label, task), test)
    if data_name is not None:
        check_data_path(data_name)
    if time is not None:
        parse_duration(time)
    shape = None if input_shape is None else parse_shape(input_shape)
    announce_loading("torch and the data", quiet=as_json)
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.json_output import print_json, reserve_stdout
    from untrained.cli.terminal.training_result import show_training_progress, show_training_result
    from untrained.training.distributed import make_training_process
    from untrained.workflows.report import report as write_report
    from untrained.workflows.train import train as train_network

    # With accelerate there are several processes, of which only the first one writes and prints.
    is_main_process = make_training_process(device).writes_files
    quiet = as_json or not is_main_process
    with show_training_progress(quiet) as on_progress, reserve_stdout(as_json):
        result = train_network(
            network,
            data_name,
            recipe,
            space=space,
            epochs=epochs,
            run=run,
            device=device,
            seed=seed,
            patience=patience,
            refit=refit or False,
            time=time,
            input_shape=shape,
            tensorboard=tensorboard,
            data_root=data_root,
            on_progress=on_progress,
        )
    if not is_main_process:
        return
    page = write_report(result.folder)
    if as_json:
        print_json(result.to_document())
    else:
        show_training_result(result, page)
