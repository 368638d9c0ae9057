"""`untrained reproduce`: repeat a table or figure of a paper."""

from pathlib import Path
from typing import Annotated

import typer

from untrained.cli.options import (
    BUDGET,
    DATA,
    OUTPUT,
    DataRootOption,
    DeviceOption,
    FailuresOption,
    JsonOption,
    RayOption,
    RunOption,
    TimeLimitOption,
    WorkersOption,
)


def reproduce(
    experiment: Annotated[
        str | None,
        typer.Argument(
            help="Name of the table or figure, such as dextr-table-1.",
            show_default="list all experiments",
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            min=3,
            help="Number of architectures from each table.",
            show_default="as in the experiment",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of seeds to average over, each with its own weights and batch.",
            show_default="as in the experiment",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Upper limit on the number of samples per batch, for a quick trial.",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    data_root: DataRootOption = None,
    run: RunOption = None,
    store: Annotated[
        Path | None,
        typer.Option(
            help="SQLite file of the scores, which several experiments may share.",
            show_default="in the run folder",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            help="Parquet file of `untrained store export`, perhaps from another machine, or a "
            "folder of such files. Its scores are not measured again.",
            rich_help_panel=DATA,
        ),
    ] = None,
    only_recorded: Annotated[
        bool,
        typer.Option(
            "--only-recorded",
            help="Measure nothing: use the architectures and scores of --scores alone.",
            rich_help_panel=DATA,
        ),
    ] = False,
    failures: FailuresOption = "omit",
    as_json: JsonOption = False,
    device: DeviceOption = "cpu",
    workers: WorkersOption = None,
    ray: RayOption = None,
    time_limit: TimeLimitOption = None,
) -> None:
    """Repeat a table or figure of a paper and compare the results with the published numbers.

    The report shows our numbers with confidence intervals and lists every deviation from the paper.
    Without a name, it lists all experiments and the results of their last runs. The same command
    resumes an interrupted run.

    Example: untrained reproduce dextr-table-4 --samples 300 --device cuda
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.gpu_hint import print_gpu_hint
    from untrained.cli.terminal.json_output import print_json, reserve_stdout
    from untrained.cli.terminal.progress_bar import show_progress
    from untrained.cli.terminal.reproduction_result import show_experiments, show_reproduction
    from untrained.config import ComputeConfig
    from untrained.papers import list_experiments
    from untrained.papers import reproduce as run_experiment
    from untrained.workflows.report import report as write_report

    if experiment is None:
        experiments = list_experiments()
        if as_json:
            print_json(experiments)
        else:
            show_experiments(experiments)
        return

    compute = ComputeConfig(device, workers, ray, time_limit)
    print_gpu_hint(compute, as_json)
    with show_progress(as_json) as on_progress, reserve_stdout(as_json):
        result = run_experiment(
            experiment,
            samples=samples,
            seeds=seeds,
            batch=batch,
            device=device,
            workers=workers,
            ray=ray,
            time_limit=time_limit,
            run=run,
            store=store,
            scores=scores,
            only_recorded=only_recorded,
            failures=failures,
            data_root=data_root,
            on_progress=on_progress,
        )
    page = write_report(result.folder)
    if as_json:
        print_json(result.to_document())
    else:
        show_reproduction(result, page)
