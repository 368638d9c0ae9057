"""`untrained list`: show what can be named on the command line."""

from typing import Annotated

import typer

from untrained.cli.options import JsonOption
from untrained.errors import unknown_name_error


# Not called `list`, which would hide the type of that name.
def list_entries(
    what: Annotated[
        str | None,
        typer.Argument(
            help="spaces, proxies, strategies, datasets, benchmarks, papers or recipes."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List spaces, proxies, strategies, data sets, benchmarks, papers or recipes.

    With the name of one kind, this shows all facts about its members; without, the names of all
    kinds.

    Example: untrained list proxies
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.catalogue import CATALOGUE
    from untrained.cli.terminal.json_output import print_json
    from untrained.cli.terminal.listing import show_catalogue, show_overview

    if what is None:
        overview = {kind: list_rows() for kind, list_rows in CATALOGUE.items()}
        if as_json:
            print_json(overview)
        else:
            show_overview(overview)
        return

    if what not in CATALOGUE:
        raise unknown_name_error("list", what, CATALOGUE)
    rows = CATALOGUE[what]()
    if as_json:
        print_json(rows)
    else:
        show_catalogue(what, rows)
