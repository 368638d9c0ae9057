"""`untrained list`: show the names that options accept."""

from typing import Annotated

import typer

from untrained.cli.options import WHAT, JsonOption
from untrained.errors import UsageError, make_unknown_name_error


# Not called `list`, which would hide the built-in type.
def list_entries(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="What to list: spaces, proxies, strategies, datasets, benchmarks, papers or "
            "recipes.",
            show_default="the names of all entries",
        ),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Measure the cost of proxies on this machine, in about a minute, and save the "
            "result.",
            rich_help_panel=WHAT,
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List spaces, proxies, strategies, data sets, benchmarks, papers or recipes.

    For one kind, it shows the description and the options of each entry. Without a kind, it shows
    the names of all entries.

    Example: untrained list proxies --measure
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.catalogue import CATALOGUE, add_measured_costs
    from untrained.cli.terminal.json_output import print_json, reserve_stdout
    from untrained.cli.terminal.listing import show_catalogue, show_overview

    if measure and kind != "proxies":
        raise UsageError("--measure is only for proxies: type untrained list proxies --measure")
    if kind is None:
        overview = {title: list_rows() for title, list_rows in CATALOGUE.items()}
        if as_json:
            print_json(overview)
        else:
            show_overview(overview)
        return

    if kind not in CATALOGUE:
        raise make_unknown_name_error("kind of entry", kind, CATALOGUE)
    rows = CATALOGUE[kind]()
    remark = ""
    if measure:
        from untrained.cli.terminal.progress_bar import show_progress
        from untrained.workflows.proxy_cost import describe_measurement

        with show_progress(as_json) as on_progress, reserve_stdout(as_json):
            rows = add_measured_costs(rows, on_progress)
        remark = describe_measurement()
    if as_json:
        print_json(rows)
    else:
        show_catalogue(kind, rows, remark)
