"""The command line. Bodies say what is asked and how the answer is shown; the work is done in the rooms.

Exit codes: 0 done, 1 nothing could be scored, 2 wrong usage, 130 stopped by Ctrl-C.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from untrained import _cli as option
from untrained._cli import (
    ClickUsageError,
    app,
    belongs,
    default_data,
    describe_click_error,
    labelled,
    mind_the_gpu,
    print_json,
    stdout_kept,
)
from untrained._quantities import is_utf8, parse_shape, printable
from untrained._terminal_text import print_line
from untrained.errors import Interrupted, UsageError, unknown

if TYPE_CHECKING:
    from untrained.data import Source

STOPPED = 130  # what shells say of whoever was stopped by Ctrl-C


@app.command()
def search(
    space: option.Space = "nasbench201",
    proxy: Annotated[str, typer.Option(help="The proxy to search by: dextr, ./mine.py:mine, ...")] = "dextr",
    strategy: Annotated[
        str, typer.Option(help="How to search: evolution, local(neighbours=4); see `untrained list strategies`.")
    ] = "random",
    budget: Annotated[int | None, typer.Option(min=1, help="Architectures to judge.", show_default="100")] = None,
    time: Annotated[str | None, typer.Option(help="Stop after this long: 10m, 1h30m.")] = None,
    stable: Annotated[
        int | None, typer.Option(min=1, help="Stop when the best have not changed for so many architectures.")
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="How many of the best must be stable.", show_default="10")
    ] = None,
    screen: Annotated[str, typer.Option(help="Cheap proxies that decide who is judged: params,naswot.")] = "",
    keep: Annotated[str | None, typer.Option(help="The share that --screen lets pass.", show_default="20%")] = None,
    beside: Annotated[
        str, typer.Option(help="More proxies to record: zico,naswot. Only nsga2 goes by them; of sizes less is better.")
    ] = "",
    validate: Annotated[
        str,
        typer.Option(
            help="How the strategies hnas and screen check their few candidates: training(epochs=3), or known results, "
            "table:cifar10_val_12, of a named table table:darts1000:cifar10_val_200."
        ),
    ] = "",
    warm_up: option.WarmUp = "",
    confirm: Annotated[
        int | None,
        typer.Option(
            min=1, help="Train so many of the best briefly, beside others.", show_default="5 on your own data"
        ),
    ] = None,
    no_confirm: Annotated[
        bool,
        typer.Option("--no-confirm", help="Do not train the best briefly to check the proxy: believe it."),
    ] = False,
    export: Annotated[
        Path | None, typer.Option(help="Train the best, and write it to this folder, which needs nothing of ours.")
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="How --export trains; see `untrained list recipes`.", show_default="quick; ctr for tables"),
    ] = None,
    max_params: Annotated[str | None, typer.Option(help="Nothing with more parameters: 1M.")] = None,
    min_params: Annotated[str | None, typer.Option(help="Nothing with fewer parameters: 100k.")] = None,
    max_flops: Annotated[str | None, typer.Option(help="Nothing with more multiply-adds: 150M.")] = None,
    max_memory: Annotated[
        str | None, typer.Option(help="Weights and activations of one sample, in float32: 300MB.")
    ] = None,
    max_latency: Annotated[
        str | None, typer.Option(help="One sample on a GPU or one thread, measured here: 5ms, 1ms@cuda.")
    ] = None,
    data: option.Data = None,
    label: option.Label = None,
    input_size: option.InputSize = None,
    seed: option.Seed = 0,
    seeds: option.Seeds = 1,
    device: option.Device = "cpu",
    workers: option.Workers = None,
    population: option.Population = 1,
    ray: option.Ray = None,
    time_limit: option.TimeLimit = None,
    run: option.RunFolder = None,
    data_root: option.DataRoot = None,
    as_json: option.Json = False,
) -> None:
    """Search a space for the best architecture, and write a report.

    Without options: 100 NAS-Bench-201 networks judged by Dextr on a handwritten digit, in about a minute.
    Ctrl-C keeps the best so far; the same command goes on, also with other workers.

    Example: untrained search --budget 1000 --seeds 3 --run runs/mine

    Example: untrained search --data folder:./photos --input-size 64 --max-params 2M --export model

    Example: untrained search --budget 5000 --screen params,naswot --keep 10%

    Example: untrained search --strategy evolution --max-params 1M --max-flops 150M

    Example: untrained search --data npz:./mine.npz --confirm 5

    Example: untrained search --strategy "screen(pool=600,top=20)" --validate "training(epochs=3,samples=1500)"

    Example: untrained search --proxy "sigeo(preset=vision)" --warm-up 10% --data digits
    """
    from untrained import strategies
    from untrained._quantities import seconds
    from untrained._terminal import show_result, watching
    from untrained._terminal_data import show_shortly
    from untrained.runs.ranking import rows
    from untrained.studies.confirm import usual

    belongs("--recipe", recipe, "--export model", export)
    belongs("--keep", keep, "--screen params,naswot", screen)
    belongs("--top", top, "--stable 200", stable)
    if confirm and no_confirm:
        raise UsageError(f"--confirm {confirm} and --no-confirm contradict each other: leave out one of them")
    if export:
        _cli_export.deliverable(export, recipe, run)

    def look(source: "Source") -> None:
        if not as_json:
            show_shortly(source)
        if export:
            _ = source.parts  # data that nothing can be trained on are refused now, and not after the search

    seen = labelled(data, label, default_data())
    enough: dict[str, Any] = {"budget": budget, "time": time, "stable": stable, "screen": screen}
    enough |= {name: said for name, said in (("top", top), ("keep", keep)) if said is not None}
    chance = {"seed": seed, "seeds": seeds, "data": seen, "data_root": data_root}
    chance |= {"input_size": input_size, "look": look}
    crew: dict[str, Any] = {"device": device, "workers": workers, "population": population, "ray": ray}
    crew |= {"time_limit": time_limit, "run": run, "beside": beside}
    limits = {"max_params": max_params, "min_params": min_params, "max_flops": max_flops, "max_memory": max_memory}
    limits |= {"max_latency": max_latency, "validate": validate, "warm_up": warm_up}
    crew |= {"confirm": 0 if no_confirm else confirm or usual(seen)}
    mind_the_gpu(device, None if ray else workers, as_json)
    with watching(as_json, seconds(time) if time else None) as watch, stdout_kept(as_json):
        found = strategies.search(space, proxy, strategy, **enough, **chance, **crew, **limits, watch=watch)  # type: ignore[arg-type]
    page = found.report()
    print_json(rows(found.records)) if as_json else show_result(found, page)
    if found.run.ended == "interrupted":
        raise typer.Exit(STOPPED)
    if export and found.ranking.standings:
        _cli_export.deliver(found.run.folder, export, recipe, device, data_root, as_json)
    raise typer.Exit(0 if found.ranking.standings else 1)


@app.command()
def score(
    what: Annotated[
        list[str],
        typer.Argument(help="Architecture strings, ./file.py:factory, package.module:factory or timm:NAME."),
    ],
    rank: Annotated[
        bool, typer.Option("--rank", help="Rank: all factories in a file ./file.py, all networks timm:resnet*, ...")
    ] = False,
    proxy: option.Proxies = "dextr,params,flops",
    space: Annotated[str, typer.Option(help="The space that architecture strings belong to.")] = "nasbench201",
    input_shape: Annotated[str | None, typer.Option(help="What your network takes, such as 3x224x224.")] = None,
    classes: Annotated[
        int | None, typer.Option(min=1, help="Number of classes.", show_default="the network's outputs")
    ] = None,
    data: option.Data = None,
    label: option.Label = None,
    warm_up: option.WarmUp = "",
    seeds: option.Seeds = 1,
    device: option.Device = "cpu",
    data_root: option.DataRoot = None,
    as_json: option.Json = False,
) -> None:
    """Judge networks at initialisation: architectures of a space, or any nn.Module of your own.

    A factory is a function without arguments that returns an nn.Module; naming it runs your code.

    With --rank, a file stands for all its factories; the first proxy decides which to train first.

    Example: untrained score ./my_net.py:make_net --input-shape 3x224x224

    Example: untrained score --rank ./models.py --input-shape 3x32x32 --data digits --proxy zico
    """
    from untrained import engine, studies
    from untrained._terminal import show_records
    from untrained._terminal_export import show_ranked
    from untrained.engine.score import require_reading
    from untrained.proxies import parse_proxy_names
    from untrained.runs.ranking import rows

    sides = None if input_shape is None else parse_shape(input_shape)
    options: dict[str, Any] = {"seeds": seeds, "device": device, "data_root": data_root, "num_classes": classes}
    options |= {"space": space, "warm_up": warm_up, "input_shape": sides}
    seen = labelled(data, label)
    with stdout_kept(as_json):
        if sides and len(what) == 1 and not rank:
            require_reading(what[0], sides, space)
        ranked = studies.rank(what, parse_proxy_names(proxy), seen, **options) if rank else None
        records = ranked.records if ranked else engine.score(what, parse_proxy_names(proxy), seen, **options)
    if ranked:
        if ranked.caution:
            print_line(f"careful: {ranked.caution}", err=True)
        print_json(ranked.rows()) if as_json else show_ranked(ranked)
        raise typer.Exit(0 if ranked.first_by(ranked.proxies[0]) else 1)
    print_json(rows(records)) if as_json else show_records(rows(records))
    raise typer.Exit(0 if any(record.value is not None for record in records) else 1)


@app.command("list")
def list_(
    what: Annotated[
        str | None, typer.Argument(help="spaces, proxies, strategies, datasets, benchmarks, papers or recipes.")
    ] = None,
    as_json: option.Json = False,
) -> None:
    """List what there is: of one kind with all that is known, without a name the names of all kinds.

    Example: untrained list proxies
    """
    from untrained._catalogue import CATALOGUE
    from untrained._terminal_list import show_catalogue, show_overview

    if what is not None and what not in CATALOGUE:
        raise unknown("list", what, CATALOGUE)
    if what is None:
        rooms = {room: listed() for room, listed in CATALOGUE.items()}
        print_json(rooms) if as_json else show_overview(rooms)
    else:
        print_json(CATALOGUE[what]()) if as_json else show_catalogue(what, CATALOGUE[what]())


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A run folder, such as runs/mine.")], as_json: option.Json = False
) -> None:
    """Write the report of a run folder anew.

    Of a search or a training --json tells scripts the best, what confirmed it, and what its training came to.

    Example: untrained report runs/mine
    """
    from untrained import reports

    with stdout_kept(as_json):
        page, found = reports.report(folder), reports.outcome(folder) if as_json else {}
    print_json({"report": str(page), **found}) if as_json else print_line(f"report: {page}")


from untrained import (  # noqa: E402, F401 - their commands come after those above
    _cli_export,
    _cli_store,
    _cli_studies,
    _cli_train,
)


def main() -> None:
    """Run the command line. A wrong request is answered in one line, and never with a traceback of this package."""
    try:
        _require_utf8(sys.argv[1:])
        code = app(standalone_mode=False)
    except ClickUsageError as error:
        _show_error(describe_click_error(error))
        sys.exit(2)
    except (UsageError, OSError) as error:
        _show_error(str(error))
        sys.exit(STOPPED if isinstance(error, Interrupted) else 2)
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    sys.exit(code if isinstance(code, int) else 0)


def _require_utf8(arguments: list[str]) -> None:
    """Refuse names that are not UTF-8: reports, JSON and the store could not repeat them."""
    for argument in arguments:
        if not is_utf8(argument):
            raise UsageError(f"{printable(argument)!r} is not UTF-8; rename the file or folder, and type its new name")


def _show_error(message: str) -> None:
    typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
    print_line(message, err=True)
