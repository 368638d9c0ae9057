"""`untrained list`: show the names that options accept."""

from typing import Annotated

import typer

from untrained.cli.options import JsonOption
from untrained.errors import unknown_name_error


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
    as_json: JsonOption = False,
) -> None:
    """List spaces, proxies, strategies, data sets, benchmarks, papers or recipes.

    For one kind, it shows the description and the options of each entry. Without a kind, it shows
    the names of all entries.

    Example: untrained list proxies
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.catalogue import CATALOGUE
    from untrained.cli.terminal.json_output import print_json
    from untrained.cli.terminal.listing import show_catalogue, show_overview

    if kind is None:
        overview = {title: list_rows() for title, list_rows in CATALOGUE.items()}
        if as_json:
            print_json(overview)
        else:
            show_overview(overview)
        return

    if kind not in CATALOGUE:
        raise unknown_name_error("list", kind, CATALOGUE)
    rows = CATALOGUE[kind]()
    if as_json:
        print_json(rows)
    else:
        show_catalogue(kind, rows)
