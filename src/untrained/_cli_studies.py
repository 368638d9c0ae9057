"""The commands that answer with a table: how far proxies can be trusted, and the papers' numbers beside ours."""

from typing import Annotated

import typer

from untrained import _cli as option
from untrained._cli import app, default_data, labelled, mind_the_gpu, print_json, stdout_kept


@app.command()
def bench(
    space: Annotated[str, typer.Option(help="The space whose known results are the truth.")] = "nasbench201",
    dataset: Annotated[str | None, typer.Option(help="Accuracy on what: cifar10, cifar100, ...")] = None,
    proxy: option.Proxies = "all",
    samples: Annotated[int, typer.Option(min=3, help="How many architectures of the table.")] = 1000,
    seeds: option.Seeds = 1,
    benchmark: Annotated[str | None, typer.Option(help="A table; see `untrained list benchmarks`.")] = None,
    metric: Annotated[str | None, typer.Option(help="Another truth, by its full name: cifar10_val_12.")] = None,
    scores: Annotated[str, typer.Option(help="Scores of others in the table: table:synflow,table:nwot.")] = "",
    data: Annotated[
        str | None, typer.Option(help="What networks look at.", show_default="the data set, or digits")
    ] = None,
    warm_up: option.WarmUp = "",
    seed: option.Seed = 0,
    device: option.Device = "cpu",
    workers: option.Workers = None,
    population: option.Population = 1,
    ray: option.Ray = None,
    time_limit: option.TimeLimit = None,
    run: option.RunFolder = None,
    data_root: option.DataRoot = None,
    as_json: option.Json = False,
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
    what |= {"warm_up": warm_up}
    crew |= {"population": population}
    mind_the_gpu(device, None if ray else workers, as_json)
    with watching(as_json) as watch, stdout_kept(as_json):
        found: Trust = studies.bench(space, proxy, dataset, seed=seed, seeds=seeds, watch=watch, **what, **crew)  # type: ignore[arg-type]
    page = reports.report(found.folder)
    print_json(found.rows()) if as_json else show_trust(found, page)


@app.command()
def calibrate(
    space: option.Space = "nasbench201",
    data: option.Data = None,
    label: option.Label = None,
    proxy: option.Proxies = "all",
    trainings: Annotated[int, typer.Option(min=4, help="How many architectures to train.")] = 12,
    epochs: Annotated[int, typer.Option(min=1, help="How long to train each.")] = 3,
    samples: Annotated[int, typer.Option(min=10, help="How many samples to learn from and be judged on.")] = 1500,
    seed: option.Seed = 0,
    device: option.Device = "cpu",
    workers: option.Workers = None,
    ray: option.Ray = None,
    time_limit: option.TimeLimit = None,
    run: option.RunFolder = None,
    data_root: option.DataRoot = None,
    as_json: option.Json = False,
) -> None:
    """Which proxy works on MY space? Trains a few architectures briefly and holds every proxy against them.

    `untrained search --proxy auto` then goes by the best of them.

    Example: untrained calibrate --space ./mine.py:mynet --data digits --trainings 12 --epochs 3

    Example: untrained calibrate --space nasrec_small --data csv:clicks.csv --label click
    """
    from untrained import reports, studies
    from untrained._terminal import show_trust, watching

    crew = {"device": device, "workers": workers, "ray": ray, "time_limit": time_limit, "run": run}
    effort = {"trainings": trainings, "epochs": epochs, "samples": samples, "seed": seed, "data_root": data_root}
    seen = labelled(data, label, default_data())
    mind_the_gpu(device, None if ray else workers, as_json)
    with watching(as_json) as watch, stdout_kept(as_json):
        found = studies.calibrate(space, proxy, seen, watch=watch, **effort, **crew)  # type: ignore[arg-type]
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
    device: option.Device = "cpu",
    workers: option.Workers = None,
    ray: option.Ray = None,
    time_limit: option.TimeLimit = None,
    run: option.RunFolder = None,
    data_root: option.DataRoot = None,
    as_json: option.Json = False,
) -> None:
    """Do a table or figure of a paper again: its numbers, ours with intervals, and what was done differently.

    Without a name it lists all of them with their state. What was measured is kept: the same command goes on.

    Example: untrained reproduce dextr-table-4 --samples 300 --device cuda
    """
    from untrained import papers, reports
    from untrained._terminal import watching
    from untrained._terminal_papers import show_reproduction, show_states

    if item is None:
        print_json(papers.list_experiments()) if as_json else show_states(papers.list_experiments())
        return
    effort = {"samples": samples, "seeds": seeds, "batch": batch, "run": run, "data_root": data_root}
    crew = {"device": device, "workers": workers, "ray": ray, "time_limit": time_limit}
    mind_the_gpu(device, None if ray else workers, as_json)
    with watching(as_json) as watch, stdout_kept(as_json):
        found = papers.reproduce(item, on_progress=watch, **effort, **crew)  # type: ignore[arg-type]
    page = reports.report(found.folder)
    print_json(found.to_document()) if as_json else show_reproduction(found, page)
