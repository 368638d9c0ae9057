"""`search(...)`: a strategy asks, an evaluator answers, the run folder remembers.

The same call on the same folder resumes: the strategy asks the same questions again, and the store answers those that
were answered before. This file knows nothing of networks or devices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from untrained._load import absolute, code_of, names_file, split_names
from untrained._quantities import seconds
from untrained.data import load
from untrained.engine import Examiner, Job, ProxyEvaluator, Samples, Store, hired
from untrained.engine.aggregates import aggregated, expanded
from untrained.engine.measure import told_apart
from untrained.engine.score import DEFAULT_DATA
from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy
from untrained.rng import generator
from untrained.spaces import Space, load_space
from untrained.strategies._run import Run, Settings
from untrained.strategies._strategy import STRATEGIES, Strategy
from untrained.strategies.budget import Budget, Fitness
from untrained.strategies.drive import Drive, drive
from untrained.strategies.screen import Listed, Screen
from untrained.strategies.select import Ranking, fitness, rank, rows
from untrained.types import Arch, Record

if TYPE_CHECKING:
    import pandas as pd

BASELINES = ("params", "flops")


@dataclass(frozen=True)
class Progress:
    """How far a search is: architectures done and at most to do, how many of them had to be measured, by how many
    workers; and the records of the last one."""

    stage: str
    done: int
    total: int | None
    measured: int
    workers: int
    records: Sequence[Record] = ()


Watcher = Callable[[Progress], None]


@dataclass(frozen=True)
class Result:
    """What a search found."""

    run: Run
    records: tuple[Record, ...]
    ranking: Ranking

    @property
    def best(self) -> Arch:
        if not self.ranking.standings:
            raise UsageError("nothing could be scored, so nothing is best; the report says why")
        return self.ranking.standings[0].arch

    def frame(self) -> "pd.DataFrame":
        """All records as a pandas table, one row a record, with mean, deviation and number over its seeds."""
        import pandas as pd

        return pd.DataFrame(rows(self.records))

    def report(self) -> Path:
        """Write `report.html` in the run folder, and say where it is."""
        from untrained.reports import report

        return report(self.run.folder)


def search(
    space: str | Space = "nasbench201",
    proxy: str | Proxy = "dextr",
    strategy: str = "random",
    budget: int | None = None,
    data: str = DEFAULT_DATA,
    *,
    time: str | None = None,
    stable: int | None = None,
    top: int = 10,
    screen: str = "",
    keep: str = "20%",
    seed: int = 0,
    seeds: int = 1,
    device: str = "cpu",
    workers: int | None = None,
    ray: str | None = None,
    time_limit: str | None = None,
    run: str | Path | None = None,
    data_root: str | Path | None = None,
    watch: Watcher | None = None,
) -> Result:
    """Search `space` for the best architecture by `proxy`. Ctrl-C keeps the best so far.

    Enough is `budget` architectures (100), `time` ("10m"), or that the best `top` have not changed for `stable` new
    architectures. `screen` names cheap proxies: only the share `keep` that ranks best by them is judged by `proxy`.
    `workers` processes work in parallel, by default one a core or one a GPU; `ray` is "local" or the address of a
    cluster. An architecture that takes longer than `time_limit` is a failure, and the search goes on.
    """
    if seeds < 1:
        raise UsageError("seeds must be at least 1")
    enough = Budget(budget, seconds(time) if time else None, stable, top)
    home, judge = load_space(space), load_proxy(proxy)
    if judge.parts and stable:
        raise UsageError(f"{judge.name} compares all candidates, so its ranking never settles; give a --budget")
    sieve = Screen.parse(screen, keep, enough) if screen else None
    asker = STRATEGIES[strategy](home, generator("search", strategy, home.name, seed))
    source = load(data, home.task, data_root)
    named = space if isinstance(space, str) else space.name
    asked = proxy if isinstance(proxy, str) and names_file(proxy) else judge.label  # as it can be typed again
    settings = Settings(
        named, asked, strategy, data, seed, seeds, device, code_of(named, asked), screen, keep if screen else ""
    )
    begun = Run(
        Path(run) if run else settings.default_folder(),
        settings,
        judge.measure,
        judge.higher_is_better,
        judge.about,
        enough.total,
        time,
        stable,
        top,
    )
    judges = expanded([judge, *(load_proxy(name) for name in BASELINES if name != judge.label)])
    cheap = sieve.proxies if sieve else ()
    everybody = list(told_apart([*judges, *cheap]).values())
    samples = Samples.of(source, everybody, range(seed, seed + seeds))
    typed = {load_proxy(p).measure: p for p in (proxy, *split_names(screen)) if isinstance(p, str)}
    job = _job(space, [typed.get(p.measure, p) for p in everybody], samples, device)
    with hired(job, workers, ray, seconds(time_limit) if time_limit else None, enough.total) as executor:
        sitting = begun.resume().save()
        with Store(sitting.store) as store:

            def stage(name: str, asker: Strategy, proxies: Sequence[Proxy], budget: Budget, fit: Fitness) -> Drive:
                evaluate = ProxyEvaluator(samples, proxies, executor, device, store)

                def tell(done: int, records: Sequence[Record]) -> None:
                    if watch:
                        watch(Progress(name, done, budget.total, evaluate.measured, executor.workers, records))

                return drive(asker, evaluate, budget, fit, tell)

            pool = Drive()
            if sieve:
                pool = stage("screening", asker, cheap, replace(enough, stable=None), lambda records: None)
                survivors = sieve.survivors(pool.records)
                left = enough.seconds and enough.seconds - pool.seconds
                asker, enough = Listed(survivors), replace(enough, count=max(1, len(survivors)), seconds=left)
            fit = partial(fitness, measure=judge.measure, higher_is_better=judge.higher_is_better)
            done = pool if pool.ended == "interrupted" else stage("scoring", asker, judges, enough, fit)
        sitting = sitting.account(executor.costs(), pool.seconds + done.seconds, done.ended).save()
    records = list(dict.fromkeys(pool.records + done.records))
    if judge.parts:
        records += aggregated(records, judge)
    return Result(sitting, tuple(records), rank(records, judge.measure, judge.higher_is_better))


def _job(space: str | Space, proxies: Sequence[str | Proxy], samples: Samples, device: str) -> Job | Examiner:
    """What workers do, in names where everything has one, so that other processes can do it too."""
    task, batches = samples.source.task, samples.largest()
    names = [_name(space, load_space), *(_name(p, load_proxy) for p in proxies)]
    if all(names):
        home, *judges = (name for name in names if name)
        return Job(home, tuple(judges), task, batches, device)
    built, loaded = load_space(space), [load_proxy(p) for p in proxies]
    return Examiner(lambda arch: built.build(arch, task, device), loaded, task.loss, batches, device)


def _name(what: "str | Space | Proxy", load: Callable[[Any], object]) -> str | None:
    """What to type for this in another process; None for an object that no name leads to."""
    if isinstance(what, str):
        return absolute(what)
    name = what.label if isinstance(what, Proxy) else what.name
    try:
        return name if load(name) == what else None
    except UsageError:
        return None
