"""`untrained search`: search a space for the best architecture."""

from dataclasses import replace
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from untrained.cli.exit_codes import INTERRUPTED, NOTHING_SCORED
from untrained.cli.options import (
    BUDGET,
    LIMITS,
    OUTPUT,
    WHAT,
    DataOption,
    DataRootOption,
    DeviceOption,
    InputSizeOption,
    JsonOption,
    LabelOption,
    MaxFlopsOption,
    MaxMemoryOption,
    MaxParamsOption,
    MinParamsOption,
    NetworksPerBatchOption,
    RayOption,
    RunOption,
    SeedOption,
    SeedsOption,
    TaskOption,
    TestOption,
    TimeLimitOption,
    WarmUpOption,
    WorkersOption,
    add_label,
    add_test,
    require_option,
)
from untrained.cli.terminal.loading import announce_loading
from untrained.cli.terminal.text import print_line
from untrained.cli.winner_export import export_winner
from untrained.config import (
    DEFAULT_DATA,
    DEFAULT_PROXY,
    DEFAULT_SPACE,
    ComputeConfig,
    Limits,
    SearchConfig,
)
from untrained.data_path import check_data_path
from untrained.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from untrained.data import DataSource


def search(
    # What
    space: Annotated[
        str,
        typer.Option(
            help="Search space: a name, or your own as ./mine.py:mynet.",
            show_default="convnet on your own pictures, "
            "mlp on tables without categorical columns, nasrec_small on other tables, "
            "else nasbench201",
            rich_help_panel=WHAT,
        ),
    ] = DEFAULT_SPACE,
    proxy: Annotated[
        str,
        typer.Option(
            help="Proxy that ranks the architectures: consensus, dextr, ./mine.py:mine, ...; "
            "auto for the one that `untrained calibrate` recommends; auto:FOLDER if that "
            "calibration used --run FOLDER.",
            rich_help_panel=WHAT,
        ),
    ] = DEFAULT_PROXY,
    strategy: Annotated[
        str,
        typer.Option(
            help="Search strategy: evolution, local(neighbours=4), ...; "
            "see `untrained list strategies`.",
            rich_help_panel=WHAT,
        ),
    ] = "random",
    screen: Annotated[
        str,
        typer.Option(
            help="Cheap proxies that select which architectures --proxy scores: params,naswot.",
            rich_help_panel=WHAT,
        ),
    ] = "",
    keep: Annotated[
        str | None,
        typer.Option(
            help="Share of the architectures that pass --screen.",
            show_default="20%",
            rich_help_panel=WHAT,
        ),
    ] = None,
    also: Annotated[
        str,
        typer.Option(
            help="Additional proxies to record: zico,naswot. The strategy nsga2 also optimises "
            "them, and minimises sizes such as params.",
            rich_help_panel=WHAT,
        ),
    ] = "",
    validate: Annotated[
        str,
        typer.Option(
            help="How the strategies hnas and best_of_pool validate their final candidates: by "
            "short trainings, training(epochs=3); by the known results of the space, "
            "table:cifar10_val_12; or by another table, table:darts1000:cifar10_val_200.",
            rich_help_panel=WHAT,
        ),
    ] = "",
    warm_up: WarmUpOption = "",
    seed: SeedOption = 0,
    seeds: SeedsOption = 1,
    # Limits
    max_params: MaxParamsOption = None,
    min_params: MinParamsOption = None,
    max_flops: MaxFlopsOption = None,
    max_memory: MaxMemoryOption = None,
    max_latency: Annotated[
        str | None,
        typer.Option(
            help="Longest latency for one sample, measured on this machine in ONNX Runtime "
            "with one CPU thread, or on a GPU: 5ms, 1ms@cuda.",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    latency_table: Annotated[
        Path | None,
        typer.Option(
            help="Latencies of another device for --max-latency: latencies.csv; see "
            "`untrained latency bundle`.",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    # Budget
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of architectures to score.",
            show_default="100",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="Time for the whole run, such as 30m: scoring, the short trainings that choose "
            "the winner (the contest), and the training of the winner.",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    effort: Annotated[
        str | None,
        typer.Option(
            help="Instead of --time: quick (15 minutes), normal (1 hour) or thorough (4 hours).",
            show_default="quick on your own pictures, else no limit",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    stable: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop when the best architectures have not changed during this many new ones.",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of best architectures that --stable compares.",
            show_default="10",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    confirm: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Choose the winner by short trainings in groups of this size N. On tables: the N "
            "best architectures by score, the N largest and N random ones. On pictures: the 2N "
            "best, the N largest, N/2 random ones and the known designs.",
            show_default="3 on your own pictures, 5 on your own tables, else none",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    no_confirm: Annotated[
        bool,
        typer.Option(
            "--no-confirm",
            help="Skip the short trainings: the best architecture by score wins.",
            rich_help_panel=BUDGET,
        ),
    ] = False,
    # Data
    data: DataOption = None,
    label: LabelOption = None,
    task: TaskOption = None,
    test: TestOption = None,
    input_size: InputSizeOption = None,
    data_root: DataRootOption = None,
    # Output
    run: RunOption = None,
    export: Annotated[
        Path | None,
        typer.Option(
            help="Train the winner and export it to this folder, which can be used without "
            "untrained.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Recipe for the training before --export; see `untrained list recipes`.",
            show_default="photos for your own pictures and arrays (C, H, W); ctr for "
            "tables with a binary label; table for other data of your own; else quick",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    refit: Annotated[
        str | None,
        typer.Option(
            help="all: train the exported model on all samples, including the test part; a "
            "training without it runs first, to estimate the quality.",
            show_default="after a contest, on the training and validation parts",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_json: JsonOption = False,
    # Compute
    device: DeviceOption = "cpu",
    workers: WorkersOption = None,
    networks_per_batch: NetworksPerBatchOption = 1,
    ray: RayOption = None,
    time_limit: TimeLimitOption = None,
) -> None:
    """Search a space for the best architecture and write a report.

    Without options, it scores 100 NAS-Bench-201 networks with a consensus of eight proxies on 16
    handwritten digits, which takes about a minute. Ctrl-C stops the search and reports the best
    architecture so far. The same command resumes it, even with a different number of workers.

    Example: untrained search --budget 1000 --seeds 3 --run runs/mine

    Example: untrained search --data folder:./photos --input-size 64 --max-params 2M --export model

    Example: untrained search --space convnet --max-latency 20ms --latency-table pi.csv

    Example: untrained search --budget 5000 --screen params,naswot --keep 10%

    Example: untrained search --strategy evolution --max-params 1M --max-flops 150M

    Example: untrained search --data npz:./mine.npz --confirm 5

    Example: untrained search --strategy "best_of_pool(pool=600,top=20)" --validate
    "training(epochs=3,samples=1500)"

    Example: untrained search --proxy "sigeo(preset=vision)" --warm-up 10% --data digits
    """
    # The time of the command includes that of the imports.
    start = perf_counter()
    require_option("--recipe", recipe, "--export model", export)
    require_option("--refit", refit, "--export model", export)
    if refit not in (None, "all"):
        raise UsageError(
            f"--refit {refit} is not possible in a search; write --refit all, or leave it out"
        )
    require_option("--latency-table", latency_table, "--max-latency 20ms", max_latency)
    require_option("--keep", keep, "--screen params,naswot", screen)
    require_option("--top", top, "--stable 200", stable)
    if confirm and no_confirm:
        raise UsageError(
            f"--confirm {confirm} and --no-confirm contradict each other: leave out one of them"
        )
    Limits.parse_options(
        max_params=max_params,
        min_params=min_params,
        max_flops=max_flops,
        max_memory=max_memory,
        max_latency=max_latency,
    )
    data_name = add_test(add_label(data, label, task), test)
    if data_name is None:
        data_name = DEFAULT_DATA
    check_data_path(data_name)
    # The config checks the other options. Its defaults that depend on the data are set below.
    config = SearchConfig(
        space=space,
        proxy=proxy,
        strategy=strategy,
        data=data_name,
        data_root=data_root,
        input_size=input_size,
        budget=budget,
        time=time,
        effort=effort or "",
        stable=stable,
        top=SearchConfig.top if top is None else top,
        screen=screen,
        keep=SearchConfig.keep if keep is None else keep,
        also=also,
        validate=validate,
        warm_up=warm_up,
        confirm=confirm or 0,
        limits={
            "params": max_params,
            "min_params": min_params,
            "flops": max_flops,
            "memory": max_memory,
            "latency": max_latency,
        },
        latency_table=latency_table,
        seed=seed,
        seeds=seeds,
        run=run,
        compute=ComputeConfig(device, workers, ray, time_limit, networks_per_batch),
    )
    announce_loading("torch and the data", quiet=as_json)
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.data_card import show_card_summary
    from untrained.cli.terminal.gpu_hint import print_gpu_hint
    from untrained.cli.terminal.json_output import print_json, reserve_stdout
    from untrained.cli.terminal.progress_bar import show_progress
    from untrained.cli.terminal.search_result import show_search_result
    from untrained.runs.folder import get_default_effort, get_default_group_size
    from untrained.runs.ranking import make_record_rows
    from untrained.workflows.report import REPORT_FILE
    from untrained.workflows.search import run_search
    from untrained.workflows.time_plan import SCORING, TRAINING, TimePlan
    from untrained.workflows.winner_export import announce_winner_export, check_winner_export

    if export:
        # A search may take hours, so check first whether its winner can be exported.
        check_winner_export(export, recipe, run)
    # Short trainings take time. They are worth it on the user's own data; for data that come with
    # the package, the quality of the proxies is known.
    if no_confirm:
        confirm = 0
    elif confirm is None:
        confirm = get_default_group_size(data_name)
    if effort is None:
        effort = ""
        if confirm and time is None:
            effort = get_default_effort(data_name)
    config = replace(config, confirm=confirm, effort=effort)

    def inspect_data(source: "DataSource") -> None:
        if not as_json:
            show_card_summary(source)
        if export:
            # Splitting the data raises a UsageError if no network can be trained on them.
            _ = source.parts

    def show_plan(text: str) -> None:
        if not as_json:
            print_line(text, err=True)

    print_gpu_hint(config.compute, as_json)
    time_plan = TimePlan.begin(config.time_seconds, config.confirm > 0, export is not None, start)
    scoring_seconds = time_plan.allot_seconds(SCORING)
    with show_progress(as_json, scoring_seconds) as on_progress, reserve_stdout(as_json):
        try:
            result = run_search(
                config,
                on_progress,
                on_data=inspect_data,
                on_plan=show_plan,
                time_plan=time_plan,
            )
        except KeyboardInterrupt:
            raise Interrupted(
                "stopped by Ctrl-C before the ranking was finished; what was measured is kept, and "
                "the same command resumes"
            ) from None
    if export:
        result = announce_winner_export(result, export, recipe, refit)
        page = result.run.folder / REPORT_FILE
    else:
        page = result.report()
    if as_json:
        print_json(make_record_rows(result.records))
    else:
        show_search_result(result, page)

    # After Ctrl-C the result so far is printed, but the winner is not trained.
    if result.run.end_reason == "interrupted":
        if export and result.ranking.standings and not as_json:
            folder = quote(str(result.run.folder))
            print_line(
                f"to export the best so far: untrained train {folder} && untrained export {folder} "
                f"--out {quote(str(export))}"
            )
        raise typer.Exit(INTERRUPTED)
    if not result.ranking.standings:
        raise typer.Exit(NOTHING_SCORED)
    if export:
        training_seconds = time_plan.allot_seconds(TRAINING)
        export_winner(
            run=result.run.folder,
            out=export,
            space=result.run.config.space,
            recipe=recipe,
            device=device,
            data_root=data_root,
            as_json=as_json,
            seconds=training_seconds,
            refit=refit or "",
        )
