"""`untrained latency`: measure latencies on another device."""

from pathlib import Path
from typing import Annotated

import typer

from untrained.cli.help_text import GroupWithFlags, add_command
from untrained.cli.options import (
    DATA,
    OUTPUT,
    WHAT,
    DataRootOption,
    InputSizeOption,
    JsonOption,
    LabelOption,
    MaxFlopsOption,
    MaxMemoryOption,
    MaxParamsOption,
    MinParamsOption,
    SeedOption,
    SpaceOption,
    TaskOption,
    add_label,
)
from untrained.config import Limits
from untrained.errors import UsageError

latency_app = typer.Typer(
    cls=GroupWithFlags,
    help="Measure latencies on another device.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


def write_bundle(
    *,
    space: SpaceOption = "nasbench201",
    run: Annotated[
        Path | None,
        typer.Option(
            help="Write the best architectures of this run folder instead of sampled ones.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of architectures.",
            show_default="30, or 10 with --run",
            rich_help_panel=WHAT,
        ),
    ] = None,
    seed: SeedOption = 0,
    max_params: MaxParamsOption = None,
    min_params: MinParamsOption = None,
    max_flops: MaxFlopsOption = None,
    max_memory: MaxMemoryOption = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Data set of the search, which decides the numbers of classes and channels.",
            show_default="those of the space",
            rich_help_panel=DATA,
        ),
    ] = None,
    label: LabelOption = None,
    task: TaskOption = None,
    input_size: InputSizeOption = None,
    data_root: DataRootOption = None,
    out: Annotated[
        Path,
        typer.Option(help="Folder to write; it must be new or empty.", rich_help_panel=OUTPUT),
    ],
    as_json: JsonOption = False,
) -> None:
    """Write networks and a script that measures their latency on another device.

    Copy the folder to the device and run `python measure.py` there, which needs only onnxruntime
    and numpy. Copy back the file latencies.csv, and search with it: --latency-table latencies.csv
    --max-latency 20ms. Sample with the same space, limits, data and input size as in the search.
    Requires: pip install '.\\[export]' in a clone of untrained

    Example: untrained latency bundle --space convnet --max-params 500k --out bundle

    Example: untrained latency bundle --run runs/mine --out bundle
    """
    Limits.parse_options(
        max_params=max_params, min_params=min_params, max_flops=max_flops, max_memory=max_memory
    )
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.json_output import print_json, reserve_stdout
    from untrained.cli.terminal.progress_bar import show_progress
    from untrained.cli.terminal.text import print_line
    from untrained.formatting import format_count
    from untrained.workflows.latency_bundle import (
        DEFAULT_COUNT,
        DEFAULT_TOP,
        write_run_bundle,
        write_sample_bundle,
    )

    limits = {
        "params": max_params,
        "min_params": min_params,
        "flops": max_flops,
        "memory": max_memory,
    }
    data_name = add_label(data, label, task)
    if run is not None:
        has_limits = any(text is not None for text in limits.values())
        if has_limits or data_name is not None or input_size is not None:
            raise UsageError(
                "--run uses the limits and the data of the run; leave out the options for limits, "
                "--data and --input-size"
            )
    with show_progress(as_json) as on_progress, reserve_stdout(as_json):
        if run is not None:
            bundle = write_run_bundle(
                out, run, count=count or DEFAULT_TOP, space=space, on_progress=on_progress
            )
        else:
            bundle = write_sample_bundle(
                out,
                space,
                count=count or DEFAULT_COUNT,
                limits=limits,
                data=data_name,
                input_size=input_size,
                seed=seed,
                data_root=data_root,
                on_progress=on_progress,
            )
    if as_json:
        archs = [str(arch) for arch in bundle.archs]
        print_json({"folder": str(bundle.folder), "archs": archs})
    else:
        print_line(f"{format_count(len(bundle.archs), 'network')}: {bundle.folder}")
        print_line(
            f"copy {bundle.folder} to the device, run `python measure.py` in it, "
            "and copy back latencies.csv"
        )


add_command(latency_app, "bundle", write_bundle)
