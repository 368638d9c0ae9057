"""The command line. Bodies say what is asked and how the answer is shown; the work is done in the rooms.

Exit codes: 0 done, 1 nothing could be scored, 2 wrong usage.
"""

import json
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from untrained.errors import UsageError, unknown

app = typer.Typer(
    help="Find neural architectures without training them.",
    epilog="Start with `untrained search`: no option is needed, and no data. `untrained list` shows what there is.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

data_app = typer.Typer(help="Tables of known results: import them.", no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(data_app, name="data")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Space = Annotated[str, typer.Option(help="A space by name, or your own: ./mine.py:mynet.")]
Proxies = Annotated[str, typer.Option("--proxy", help="Separated by commas: dextr,params or ./mine.py:mine; or all.")]
Data = Annotated[str | None, typer.Option(help="noise, photos, digits, cifar10 or npz:PATH.", show_default="digits")]
DataRoot = Annotated[
    Path | None, typer.Option(help="Folder of data sets.", show_default="$UNTRAINED_DATA or the cache")
]
Seeds = Annotated[int, typer.Option(min=1, help="Initialisations and batches to average over.")]
RunFolder = Annotated[Path | None, typer.Option(help="Run folder; the same command resumes.", show_default="runs/...")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 or mps.")]

Workers = Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="one a core, or one a GPU")]
Ray = Annotated[str | None, typer.Option(help="Work on a Ray cluster: local, or its address.")]
TimeLimit = Annotated[str | None, typer.Option(help="Fail an architecture that takes longer: 30s.")]


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
    seed: Annotated[int, typer.Option(min=0, help="Decides sampling, weights and batches.")] = 0,
    seeds: Seeds = 1,
    device: Device = "cpu",
    workers: Workers = None,
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
    chance = {"seed": seed, "seeds": seeds, "data": data or _default_data(), "data_root": data_root}
    crew = {"device": device, "workers": workers, "ray": ray, "time_limit": time_limit, "run": run, "beside": beside}
    limits = {"max_params": max_params, "min_params": min_params, "max_flops": max_flops, "max_memory": max_memory}
    limits |= {"max_latency": max_latency, "validate": validate}
    with watching(as_json, seconds(time) if time else None) as watch, _stdout_kept(as_json):
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
    with _stdout_kept(as_json):
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


@app.command()
def bench(
    space: Annotated[str, typer.Option(help="The space whose known results are the truth.")] = "nasbench201",
    dataset: Annotated[str | None, typer.Option(help="Accuracy on what: cifar10, cifar100, ...")] = None,
    proxy: Proxies = "all",
    samples: Annotated[int, typer.Option(min=3, help="How many architectures of the table.")] = 1000,
    seeds: Seeds = 1,
    benchmark: Annotated[str | None, typer.Option(help="A table; see `untrained list benchmarks`.")] = None,
    metric: Annotated[str | None, typer.Option(help="Another truth, by its full name: cifar10_val_12.")] = None,
    scores: Annotated[str, typer.Option(help="Scores of others in the table: table:synflow,table:nwot.")] = "",
    data: Annotated[
        str | None, typer.Option(help="What networks look at.", show_default="the data set, or digits")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides sampling, weights and batches.")] = 0,
    device: Device = "cpu",
    workers: Workers = None,
    ray: Ray = None,
    time_limit: TimeLimit = None,
    run: RunFolder = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """How far can each proxy be trusted? Rank correlation with known accuracies, with intervals and baselines.

    The tables of known results are made once by `untrained data import`.

    Example: untrained bench --space nasbench201 --dataset cifar10 --samples 1000 --proxy dextr,zico
    """
    from untrained import reports, studies
    from untrained._terminal import show_trust, watching
    from untrained.studies.trust import Trust

    what = {"benchmark": benchmark, "metric": metric, "samples": samples, "scores": scores, "data": data, "run": run}
    crew = {"device": device, "workers": workers, "ray": ray, "time_limit": time_limit, "data_root": data_root}
    with watching(as_json) as watch, _stdout_kept(as_json):
        found: Trust = studies.bench(space, proxy, dataset, seed=seed, seeds=seeds, watch=watch, **what, **crew)  # type: ignore[arg-type]
    page = reports.report(found.folder)
    print_json(found.rows()) if as_json else show_trust(found, page)


@app.command()
def calibrate(
    space: Space = "nasbench201",
    data: Data = None,
    proxy: Proxies = "all",
    trainings: Annotated[int, typer.Option(min=4, help="How many architectures to train.")] = 12,
    epochs: Annotated[int, typer.Option(min=1, help="How long to train each.")] = 3,
    samples: Annotated[int, typer.Option(min=10, help="How many samples to learn from and be judged on.")] = 1500,
    seed: Annotated[int, typer.Option(min=0, help="Decides sampling, weights and batches.")] = 0,
    device: Device = "cpu",
    workers: Workers = None,
    ray: Ray = None,
    time_limit: TimeLimit = None,
    run: RunFolder = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Which proxy works on MY space? Trains a few architectures briefly and holds every proxy against them.

    `untrained search --proxy auto` then goes by the best of them.

    Example: untrained calibrate --space ./mine.py:mynet --data digits --trainings 12 --epochs 3
    """
    from untrained import reports, studies
    from untrained._terminal import show_trust, watching

    crew = {"device": device, "workers": workers, "ray": ray, "time_limit": time_limit, "run": run}
    effort = {"trainings": trainings, "epochs": epochs, "samples": samples, "seed": seed, "data_root": data_root}
    with watching(as_json) as watch, _stdout_kept(as_json):
        found = studies.calibrate(space, proxy, data or _default_data(), watch=watch, **effort, **crew)  # type: ignore[arg-type]
    page = reports.report(found.folder)
    print_json(found.rows()) if as_json else show_trust(found, page)


@app.command()
def reproduce(
    item: Annotated[str | None, typer.Argument(help="Such as dextr-table-1; without one, all are listed.")] = None,
    samples: Annotated[
        int | None, typer.Option(min=3, help="Architectures of each table.", show_default="as the experiment asks")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Initialisations and batches.", show_default="as the experiment asks")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Show networks at most so many samples: for a trial.")
    ] = None,
    device: Device = "cpu",
    workers: Workers = None,
    ray: Ray = None,
    time_limit: TimeLimit = None,
    run: RunFolder = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Do a table or figure of a paper again: its numbers, ours with intervals, and what was done differently.

    Without a name it lists all of them with their state. What was measured is kept: the same command goes on.

    Example: untrained reproduce dextr-table-4 --samples 300 --device cuda
    """
    from untrained import papers, reports
    from untrained._terminal import watching
    from untrained._terminal_papers import show_reproduction, show_states

    if item is None:
        print_json(papers.states()) if as_json else show_states(papers.states())
        return
    effort = {"samples": samples, "seeds": seeds, "batch": batch, "run": run, "data_root": data_root}
    crew = {"device": device, "workers": workers, "ray": ray, "time_limit": time_limit}
    with watching(as_json) as watch, _stdout_kept(as_json):
        found = papers.reproduce(item, watch=watch, **effort, **crew)  # type: ignore[arg-type]
    page = reports.report(found.folder)
    print_json(found.document()) if as_json else show_reproduction(found, page)


store = typer.Typer(help="Look into a store of records, take it elsewhere, put two together.", no_args_is_help=True)
app.add_typer(store, name="store")
Where = Annotated[Path, typer.Argument(help="A run folder, or the SQLite file in it.")]


@store.command()
def info(where: Where, as_json: Json = False) -> None:
    """Say what a store holds: architectures, records, failures, measures.

    Example: untrained store info runs/mine
    """
    from untrained._terminal import show_facts
    from untrained.engine import stores

    facts = stores.info(where)
    print_json(facts) if as_json else show_facts(facts)


@store.command()
def export(
    where: Where,
    out: Annotated[Path, typer.Argument(help="A file that ends in .parquet or .csv.")],
    as_json: Json = False,
) -> None:
    """Write all records of a store as a table.

    Example: untrained store export runs/mine records.parquet
    """
    from untrained.engine import stores

    rows = stores.export(where, out)
    print_json({"rows": rows, "file": str(out)}) if as_json else typer.echo(f"{rows:,} records: {out}")


@store.command()
def merge(
    into: Where,
    others: Annotated[list[Path], typer.Argument(help="Stores to read from; they are left as they are.")],
    as_json: Json = False,
) -> None:
    """Add to one store what others know and it does not.

    Example: untrained store merge runs/mine runs/yours
    """
    from untrained.engine import stores

    added = stores.merge(into, others)
    print_json({"added": added, "store": str(into)}) if as_json else typer.echo(f"{added:,} records added to {into}")


@data_app.command("import")
def data_import(
    name: Annotated[str, typer.Argument(help="The benchmark; see `untrained list benchmarks`.")],
    path: Annotated[Path, typer.Argument(help="A file or folder of its publishers.")],
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Make the table of a benchmark from its publishers' files; what is there already stays.

    Example: untrained data import nasbench201 ~/NATS-tss-v1_0-3ffb9-simple
    """
    from untrained.benchmarks import import_benchmark

    table = import_benchmark(name, path, data_root)
    row = {"name": name, "file": str(table.path), "rows": len(table), "about": table.about}
    print_json(row) if as_json else typer.echo(f"{table.path}: {table.about}")


def _default_data() -> str:
    from untrained.engine.score import DEFAULT_DATA

    return DEFAULT_DATA


def _shape(text: str) -> tuple[int, ...]:
    sides = text.lower().split("x")
    if not all(side.isdecimal() and int(side) > 0 for side in sides):
        raise UsageError(f"impossible input shape {text!r}; write channels x height x width, such as 3x224x224")
    return tuple(int(side) for side in sides)


def _stdout_kept(as_json: bool) -> AbstractContextManager[object]:
    """Under --json standard output is one document: what the user's own code prints goes to the error stream."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


def print_json(document: dict[str, Any] | list[Any]) -> None:
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")


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
