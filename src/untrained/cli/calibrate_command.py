"""`untrained calibrate`: find the proxy that works best on the space and data of the user."""

from typing import Annotated

import typer

from untrained.cli.options import (
    BUDGET,
    DataOption,
    DataRootOption,
    DeviceOption,
    JsonOption,
    LabelOption,
    ProxiesOption,
    RayOption,
    RunOption,
    SeedOption,
    SpaceOption,
    TaskOption,
    TimeLimitOption,
    WorkersOption,
    add_label,
)


def calibrate(
    space: SpaceOption = "nasbench201",
    proxy: ProxiesOption = "all",
    seed: SeedOption = 0,
    trainings: Annotated[
        int,
        typer.Option(min=4, help="Number of architectures to train.", rich_help_panel=BUDGET),
    ] = 12,
    epochs: Annotated[
        int,
        typer.Option(min=1, help="Number of epochs per training.", rich_help_panel=BUDGET),
    ] = 3,
    samples: Annotated[
        int,
        typer.Option(
            min=10,
            help="Number of data samples to train and evaluate on (not architectures, which "
            "--trainings sets).",
            rich_help_panel=BUDGET,
        ),
    ] = 1500,
    data: DataOption = None,
    label: LabelOption = None,
    task: TaskOption = None,
    data_root: DataRootOption = None,
    run: RunOption = None,
    as_json: JsonOption = False,
    device: DeviceOption = "cpu",
    workers: WorkersOption = None,
    ray: RayOption = None,
    time_limit: TimeLimitOption = None,
) -> None:
    """Find the proxy that works best on your own space and data.

    It trains a few architectures briefly and compares the ranking of each proxy with their
    accuracies. Afterwards, `untrained search --proxy auto` uses consensus, or another proxy that is
    significantly better; params takes the place of consensus if that was not compared or failed,
    and is used if no proxy ranks better than chance.

    Example: untrained calibrate --space ./mine.py:mynet --data digits --trainings 12 --epochs 3

    Example: untrained calibrate --space nasrec_small --data csv:clicks.csv --label click
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.benchmark_result import show_benchmark_result
    from untrained.cli.terminal.gpu_hint import print_gpu_hint
    from untrained.cli.terminal.json_output import print_json, reserve_stdout
    from untrained.cli.terminal.progress_bar import show_progress
    from untrained.config import DEFAULT_DATA, ComputeConfig
    from untrained.workflows.calibrate import calibrate as run_calibration
    from untrained.workflows.report import report as write_report

    data_name = add_label(data, label, task)
    if data_name is None:
        data_name = DEFAULT_DATA
    compute = ComputeConfig(device, workers, ray, time_limit)
    print_gpu_hint(compute, as_json)
    with show_progress(as_json) as on_progress, reserve_stdout(as_json):
        result = run_calibration(
            space,
            proxy,
            data_name,
            trainings=trainings,
            epochs=epochs,
            samples=samples,
            seed=seed,
            device=device,
            workers=workers,
            ray=ray,
            time_limit=time_limit,
            run=run,
            data_root=data_root,
            on_progress=on_progress,
        )
    page = write_report(result.folder)
    if as_json:
        print_json(result.rows())
    else:
        show_benchmark_result(result, page)
