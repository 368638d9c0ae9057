"""`untrained bench`: compare proxies with a table of known results."""

from pathlib import Path
from typing import Annotated

import typer

from untrained.cli.options import (
    BUDGET,
    DATA,
    WHAT,
    DataRootOption,
    DeviceOption,
    FailuresOption,
    InputSizeOption,
    JsonOption,
    NetworksPerBatchOption,
    RayOption,
    RunOption,
    SeedOption,
    SeedsOption,
    TimeLimitOption,
    WarmUpOption,
    WorkersOption,
)
from untrained.cli.terminal.loading import announce_loading
from untrained.config import ComputeConfig
from untrained.data_path import check_data_path


def bench(
    space: Annotated[
        str,
        typer.Option(
            help="Search space with known results, or your own with --table. Results of convnet "
            "and vit come with untrained.",
            rich_help_panel=WHAT,
        ),
    ] = "convnet",
    table: Annotated[
        Path | None,
        typer.Option(
            help="CSV or parquet file with results of your own: columns arch and accuracy.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Data set of the known accuracies: cifar10, cifar100, ...",
            show_default="the first of the table",
            rich_help_panel=WHAT,
        ),
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(
            help="Proxies, separated by commas: dextr,params or ./mine.py:mine; all for every "
            "proxy.",
            show_default="consensus, its members and dextr",
            rich_help_panel=WHAT,
        ),
    ] = None,
    benchmark: Annotated[
        str | None,
        typer.Option(
            help="Table of known results; see `untrained list benchmarks`.",
            show_default="that of the space",
            rich_help_panel=WHAT,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Metric of the table to compare with: cifar10_val_12, or a column of --table.",
            show_default="test accuracy after the longest training",
            rich_help_panel=WHAT,
        ),
    ] = None,
    scores: Annotated[
        str,
        typer.Option(
            help="Published scores in the table to compare too: table:synflow,table:nwot.",
            rich_help_panel=WHAT,
        ),
    ] = "",
    warm_up: WarmUpOption = "",
    failures: FailuresOption = "omit",
    seed: SeedOption = 0,
    seeds: SeedsOption = 1,
    samples: Annotated[
        int,
        typer.Option(min=3, help="Number of architectures from the table.", rich_help_panel=BUDGET),
    ] = 1000,
    data: Annotated[
        str | None,
        typer.Option(
            help="Data set whose samples the networks see.",
            show_default="that of --dataset, or digits",
            rich_help_panel=DATA,
        ),
    ] = None,
    input_size: InputSizeOption = None,
    data_root: DataRootOption = None,
    run: RunOption = None,
    as_json: JsonOption = False,
    device: DeviceOption = "cpu",
    workers: WorkersOption = None,
    networks_per_batch: NetworksPerBatchOption = 1,
    ray: RayOption = None,
    time_limit: TimeLimitOption = None,
) -> None:
    """Measure how well each proxy ranks architectures with known accuracy.

    The result is the rank correlation of each proxy and of simple baselines with the known
    accuracy, with confidence intervals. Without options, it uses the known results of convnet that
    come with untrained, so it does the same on every machine. Import published tables once with
    `untrained data import`, or give results of your own with --table.

    Example: untrained bench --proxy all

    Example: untrained bench --space nasbench201 --dataset cifar10 --samples 1000 --proxy dextr,zico
    """
    compute = ComputeConfig(device, workers, ray, time_limit, networks_per_batch)
    if data is not None:
        check_data_path(data)
    announce_loading("torch and the table", quiet=as_json)
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.benchmark_result import show_benchmark_result
    from untrained.cli.terminal.gpu_hint import print_gpu_hint
    from untrained.cli.terminal.json_output import print_json, reserve_stdout
    from untrained.cli.terminal.progress_bar import show_progress
    from untrained.workflows.bench import bench as run_bench
    from untrained.workflows.report import report as write_report

    print_gpu_hint(compute, as_json)
    with show_progress(as_json) as on_progress, reserve_stdout(as_json):
        result = run_bench(
            space,
            proxy,
            dataset,
            table=table,
            benchmark=benchmark,
            metric=metric,
            samples=samples,
            seed=seed,
            seeds=seeds,
            scores=scores,
            data=data,
            warm_up=warm_up,
            failures=failures,
            device=device,
            workers=workers,
            networks_per_batch=networks_per_batch,
            ray=ray,
            time_limit=time_limit,
            run=run,
            data_root=data_root,
            input_size=input_size,
            on_progress=on_progress,
        )
    page = write_report(result.folder)
    if as_json:
        print_json(result.rows())
    else:
        show_benchmark_result(result, page)
