"""`untrained report`: rewrite the report of a run, and serve it."""

from pathlib import Path
from typing import Annotated

import typer

from untrained.cli.options import OUTPUT, JsonOption, require_option
from untrained.errors import UsageError


def report(
    folder: Annotated[Path, typer.Argument(help="Run folder, such as runs/mine.")],
    serve: Annotated[
        bool,
        typer.Option(
            "--serve",
            help="Serve the report to browsers on this machine until Ctrl-C.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Port of --serve.",
            show_default="a free one",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Rewrite the report of a run.

    A search writes its report while it runs, and the page reloads itself; this command is not
    needed for that. With --json, it prints the best architecture of a search, its contest or
    confirmation and the result of its training, for use in scripts.

    Example: untrained report runs/mine

    Example: untrained report runs/mine --serve --port 8000
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.json_output import print_json, reserve_stdout
    from untrained.cli.terminal.text import print_line
    from untrained.workflows.report import describe_unfinished_session, read_run_outcome
    from untrained.workflows.report import report as write_report

    require_option("--port", port, "--serve", serve or None)
    if serve and as_json:
        raise UsageError("--serve and --json contradict each other: leave out one of them")
    with reserve_stdout(as_json):
        page = write_report(folder)
        outcome = read_run_outcome(folder)
    if as_json:
        print_json({"report": str(page), **outcome})
        return
    contest = outcome.get("contest")
    if contest:
        print_line(contest["verdict"])
    ending = describe_unfinished_session(folder)
    if ending:
        print_line(ending)
    print_line(f"report: {page}")
    if serve:
        _serve_page(page, port)


def _serve_page(page: Path, port: int | None) -> None:
    """Serve a page until Ctrl-C, which is the usual end."""
    from untrained.cli.report_server import ReportServer
    from untrained.cli.terminal.text import print_line
    from untrained.workflows.report import refresh_report_of_killed_run

    def update() -> None:
        refresh_report_of_killed_run(page.parent)

    with ReportServer(page, port or 0, update) as server:
        print_line(f"open {server.address} in a browser; Ctrl-C stops the server")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
