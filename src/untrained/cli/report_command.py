"""`untrained report`: rewrite the report of a run."""

from pathlib import Path
from typing import Annotated

import typer

from untrained.cli.options import JsonOption


def report(
    folder: Annotated[Path, typer.Argument(help="Run folder: runs/mine.")],
    as_json: JsonOption = False,
) -> None:
    """Rewrite the report of a run.

    With --json, it prints the best architecture of a search, its contest or confirmation and the
    result of its training, for use in scripts.

    Example: untrained report runs/mine
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.json_output import print_json, reserve_stdout
    from untrained.cli.terminal.text import print_line
    from untrained.workflows.report import read_outcome
    from untrained.workflows.report import report as write_report

    with reserve_stdout(as_json):
        page = write_report(folder)
        outcome = read_outcome(folder)
    if as_json:
        print_json({"report": str(page), **outcome})
        return
    contest = outcome.get("contest")
    if contest:
        print_line(contest["verdict"])
    print_line(f"report: {page}")
