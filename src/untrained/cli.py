"""The command line. Bodies say what is asked and how the answer is shown; the work is done in the rooms.

Exit codes: 0 done, 1 nothing could be scored, 2 wrong usage.
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from untrained._cli import (
    Data,
    DataRoot,
    Device,
    Json,
    Population,
    Proxies,
    Ray,
    RunFolder,
    Seed,
    Seeds,
    Space,
    TimeLimit,
    Workers,
    app,
    default_data,
    print_json,
    stdout_kept,
)
from untrained.errors import UsageError, unknown


@app.command()
def search(
    space: Space = "nasbench201",
    proxy: Annotated[str, typer.Option(help="The proxy to search by: dextr, ./mine.py:mine, ...")] = "dextr",
    strategy: Annotated[
        str, typer.Option(help="How to search: evolution, local(neighbours=4); see `untrained list strategies`.")
    ] = "random",
    budget: Annotated[int | None, typer.Option(min=1, help="Architectures to judge.", show_default="100")] = None,
    time: Annotated[str | None, typer.Option(help="Stop after this long: 10m, 1h30m.")] = None,
    stable: Annotated[
        int | None, typer.Option(min=1, help="Stop when the best have not changed for so many architectures.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many of the best must be stable.")] = 10,
    screen: Annotated[str, typer.Option(help="Cheap proxies that decide who is judged: params,naswot.")] = "",
    keep: Annotated[str, typer.Option(help="The share that the screen lets pass.")] = "20%",
    beside: Annotated[
        str, typer.Option(help="More proxies to record: zico,naswot. Only nsga2 goes by them; of sizes less is better.")
    ] = "",
    validate: Annotated[
        str, typer.Option(help="The last word of hnas and screen: table:cifar10_val_12 or training(epochs=3).")
    ] = "",
    max_params: Annotated[str | None, typer.Option(help="Nothing with more parameters: 1M.")] = None,
    min_params: Annotated[str | None, typer.Option(help="Nothing with fewer parameters: 100k.")] = None,
    max_flops: Annotated[str | None, typer.Option(help="Nothing with more multiply-adds: 150M.")] = None,
    max_memory: Annotated[
        str | None, typer.Option(help="Weights and activations of one sample, in float32: 300MB.")
    ] = None,
    max_latency: Annotated[
        str | None, typer.Option(help="One sample on this machine, measured: 5ms, 5ms@cpu, 1ms@cuda.")
    ] = None,
    data: Data = None,
    seed: Seed = 0,
    seeds: Seeds = 1,
    device: Device = "cpu",
    workers: Workers = None,
    population: Population = None,
    ray: Ray = None,
    time_limit: TimeLimit = None,
    run: RunFolder = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Search a space for the best architecture, and write a report.

    Without options: 100 NAS-Bench-201 networks judged by Dextr on a handwritten digit, in about a minute.
    Ctrl-C keeps the best so far; the same command goes on, also with other workers.

    Example: untrained search --budget 1000 --seeds 3 --run runs/mine

    Example: untrained search --budget 5000 --screen params,naswot --keep 10%

    Example: untrained search --strategy evolution --max-params 1M --max-flops 150M

    Example: untrained search --strategy "screen(pool=600,top=20)" --validate "training(epochs=3,samples=1500)"
    """
    from untrained import strategies
    from untrained._quantities import seconds
    from untrained._terminal import show_result, watching
    from untrained.strategies.select import rows

    enough = {"budget": budget, "time": time, "stable": stable, "top": top, "screen": screen, "keep": keep}
    chance = {"seed": seed, "seeds": seeds, "data": data or default_data(), "data_root": data_root}
    crew: dict[str, Any] = {"device": device, "workers": workers, "population": population, "ray": ray}
    crew |= {"time_limit": time_limit, "run": run, "beside": beside}
    limits = {"max_params": max_params, "min_params": min_params, "max_flops": max_flops, "max_memory": max_memory}
    limits |= {"max_latency": max_latency, "validate": validate}
    with watching(as_json, seconds(time) if time else None) as watch, stdout_kept(as_json):
        found = strategies.search(space, proxy, strategy, **enough, **chance, **crew, **limits, watch=watch)  # type: ignore[arg-type]
    page = found.report()
    print_json(rows(found.records)) if as_json else show_result(found, page)
    raise typer.Exit(0 if found.ranking.standings else 1)


@app.command()
def score(
    what: Annotated[
        list[str], typer.Argument(help="Architecture strings, ./file.py:factory or package.module:factory.")
    ],
    proxy: Proxies = "dextr,params,flops",
    space: Annotated[str, typer.Option(help="The space that architecture strings belong to.")] = "nasbench201",
    input_shape: Annotated[str | None, typer.Option(help="What your network takes, such as 3x224x224.")] = None,
    classes: Annotated[
        int | None, typer.Option(min=1, help="Number of classes.", show_default="the network's outputs")
    ] = None,
    data: Data = None,
    seeds: Seeds = 1,
    device: Device = "cpu",
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Judge networks at initialisation: architectures of a space, or any nn.Module of your own.

    A factory is a function without arguments that returns an nn.Module; naming it runs your code.

    Example: untrained score ./my_net.py:make_net --input-shape 3x224x224
    """
    from untrained import engine
    from untrained._terminal import show_records
    from untrained.proxies import named
    from untrained.strategies.select import rows

    shape = _shape(input_shape) if input_shape else None
    options: dict[str, Any] = {"seeds": seeds, "device": device, "data_root": data_root, "num_classes": classes}
    with stdout_kept(as_json):
        records = engine.score(what, named(proxy), data, space=space, input_shape=shape, **options)
    print_json(rows(records)) if as_json else show_records(rows(records))
    raise typer.Exit(0 if any(record.value is not None for record in records) else 1)


@app.command("list")
def list_(
    what: Annotated[
        str | None, typer.Argument(help="spaces, proxies, strategies, datasets, benchmarks or papers.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List what there is: spaces, proxies, strategies, datasets, benchmarks, papers.

    Example: untrained list proxies
    """
    from untrained._catalogue import CATALOGUE
    from untrained._terminal import show_catalogue

    if what is not None and what not in CATALOGUE:
        raise unknown("list", what, CATALOGUE)
    rooms = {room: CATALOGUE[room]() for room in ([what] if what else CATALOGUE)}
    print_json(rooms[what] if what else rooms) if as_json else show_catalogue(rooms)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A run folder, such as runs/mine.")], as_json: Json = False
) -> None:
    """Write the report of a run folder anew.

    Example: untrained report runs/mine
    """
    from untrained import reports

    page = reports.report(folder)
    print_json({"report": str(page)}) if as_json else typer.echo(f"report: {page}")


from untrained import _cli_store, _cli_studies  # noqa: E402, F401 - their commands come after those above


def _shape(text: str) -> tuple[int, ...]:
    sides = text.lower().split("x")
    if not all(side.isdecimal() and int(side) > 0 for side in sides):
        raise UsageError(f"impossible input shape {text!r}; write channels x height x width, such as 3x224x224")
    return tuple(int(side) for side in sides)


def main() -> None:
    """The entry point: a wrong request is answered in one line, and never with our traceback."""
    try:
        app()
    except (UsageError, OSError) as error:
        typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
        typer.echo(str(error), err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
