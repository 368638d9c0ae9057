"""`bench(...)`: proxies against known results. The same architectures for all of them, failures counted, baselines
always beside, and every statistic with its interval.

Records lie in a run folder: the same call resumes, and a larger one measures only what is new.
"""

from datetime import datetime
from math import isnan
from pathlib import Path
from typing import Any

from untrained._load import split_names
from untrained._quantities import parse_count, parse_path, parse_seed
from untrained._typed import options
from untrained.data import Source
from untrained.engine.measure import Start, device_name, told_apart
from untrained.proxies import Proxy, load_proxy, parse_proxy_names
from untrained.spaces import load_space
from untrained.strategies._desk import warming
from untrained.strategies._run import STORE, for_a_file, versions
from untrained.strategies.search import Watcher
from untrained.studies._combine import combinations
from untrained.studies._judge import Column, Scores, best_first, column, judged, on_the_same
from untrained.studies._scores import Crew, scored
from untrained.studies._truth import Truth, known, looked_at
from untrained.studies.trust import Trust
from untrained.training.warmup import WarmUp

BASELINES = ("params", "flops", "random")


def bench(
    space: str = "nasbench201",
    proxy: str = "all",
    dataset: str | None = None,
    *,
    benchmark: str | None = None,
    metric: str | None = None,
    samples: int = 1000,
    seed: int = 0,
    seeds: int = 1,
    scores: str = "",
    data: str | None = None,
    warm_up: str = "",
    device: str = "cpu",
    workers: int | None = None,
    population: int = 1,
    ray: str | None = None,
    time_limit: str | None = None,
    run: str | Path | None = None,
    data_root: str | Path | None = None,
    watch: Watcher | None = None,
) -> Trust:
    """How far each proxy can be trusted on architectures whose accuracy is known.

    The truth is test accuracy after the longest training on `dataset` where the table has it, or the `metric` of that
    name. `samples` architectures of the table are drawn by `seed` and judged with `seeds` initialisations and batches.
    `scores` names proxies of others that the table holds: table:synflow. `warm_up` trains before judging, as in
    `search`: "10%" by a supernet, "10%(paths=each)" every architecture.
    """
    load_space(space)
    samples = parse_count(samples, "samples", 3)
    seeds = parse_count(seeds, "seeds")
    seed = parse_seed(seed, seeds)
    population = parse_count(population, "population")
    device = device_name(device)
    if run is not None:
        run = parse_path(run, "run")
    crew = Crew(device, workers, ray, time_limit, population)
    typed = {load_proxy(name).measure: name for name in parse_proxy_names(proxy)}
    judges = list(told_apart(map(load_proxy, (*parse_proxy_names(proxy), *BASELINES))).values())
    truth = known(space, benchmark, dataset, metric, samples, seed, data_root)
    seen, source, note = looked_at(data, truth, data_root)
    folder = Path(run) if run else _folder(truth, seen, seed, device, warm_up)
    chances = range(seed, seed + seeds)
    start = _started(warm_up, truth, source, seed, device, folder, watch)
    done = scored(truth.space, truth.archs, judges, source, chances, crew, folder / STORE, typed, watch, start=start)
    columns = [judged_column(judge, *column(done.records, judge.measure, truth.archs, chances)) for judge in judges]
    columns += [*combinations(columns), *(_others(truth, name) for name in split_names(scores))]
    rows = best_first(judged(each, truth.values) for each in columns)
    asked: dict[str, Any] = {
        "space": space,
        "proxy": proxy,
        "dataset": dataset,
        "benchmark": benchmark,
        "metric": metric,
    }
    asked |= {"samples": samples, "seed": seed, "seeds": seeds, "scores": scores, "data": data, "device": device}
    asked |= {"warm_up": warm_up}
    warm = {"warm-up": start.seconds} if start and start.seconds else {}
    trust = Trust(
        title=f"{truth.table.name}: {truth.about}",
        command=f"untrained bench {options(bench, asked | {'device': device, 'run': str(folder)})}",
        space=truth.space,
        truth_about=f"{truth.about}, {truth.table.name}",
        truth_unit=truth.metric.unit,
        archs=tuple(map(str, truth.archs)),
        truth=truth.values,
        judged=rows,
        notes=tuple(filter(None, (on_the_same(rows, truth.values), f"The table holds {truth.table.about}.", note))),
        settings={"samples": f"{len(truth.archs):,}", "data": seen, "seed": str(seed), "device": device}
        | ({"warm-up": warm_up} if warm_up else {}),
        versions=versions(),
        cost=warm | {"total": done.seconds + sum(warm.values())},
        batched=done.batched,
        seeds=seeds,
        folder=str(folder),
        made_on=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
    )
    return trust.save()


def judged_column(proxy: Proxy, by_seed: tuple[Scores, ...], failures: dict[str, int]) -> Column:
    kind = "baseline" if proxy.name in BASELINES else "combination" if proxy.parts else "proxy"
    return Column(proxy.label, proxy.about, kind, proxy.higher_is_better, by_seed, proxy.cost, failures)


def _others(truth: Truth, name: str) -> Column:
    """The scores of somebody else, run by run where there are several: their spread is that of seeds."""
    table, proxy = truth.table, name.removeprefix("table:")
    found = [s for s in table.scores if s.proxy == proxy and s.dataset == truth.metric.dataset] or [table.score(proxy)]
    runs = [table.values(truth.archs, score) for score in found]
    by_seed = tuple(tuple(None if isnan(value) else float(value) for value in run) for run in runs)
    about = f"{proxy} by {found[0].source or 'others'}, as the table has it"
    return Column(f"table:{proxy}", about, "other", found[0].higher_is_better, by_seed, partial=True)


def _folder(truth: Truth, data: str, seed: int, device: str, warm_up: str) -> Path:
    words = ["bench", truth.table.name, truth.metric.name, data, f"seed{seed}", device]
    words += [f"warm-{warm_up}"] if warm_up else []
    return Path("runs", for_a_file(*(word for word in words if word not in ("seed0", "cpu"))))


def _started(
    warm_up: str, truth: Truth, source: Source, seed: int, device: str, folder: Path, watch: Watcher | None
) -> Start | None:
    """What networks start from; None for fresh weights."""
    if not warm_up:
        return None
    asked = WarmUp.of(warm_up, source)
    folder.mkdir(parents=True, exist_ok=True)
    return asked.begin(load_space(truth.space), seed, device, folder, warming(watch))
