"""`search(...)`: a strategy asks, an evaluator answers, the run folder remembers.

The same call on the same folder resumes: the strategy asks the same questions again, and the store answers those that
were answered before. This file knows nothing of networks or devices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from untrained._load import code_of
from untrained._quantities import seconds
from untrained.data import load
from untrained.engine import ProxyEvaluator, Samples, Store, hired, job_for
from untrained.engine.aggregates import aggregated
from untrained.engine.score import DEFAULT_DATA
from untrained.errors import UsageError
from untrained.proxies import Proxy
from untrained.rng import generator
from untrained.spaces import Space, load_space
from untrained.strategies._panel import Panel
from untrained.strategies._run import Run, Settings
from untrained.strategies._strategy import STRATEGIES, Strategy
from untrained.strategies.budget import Budget, Fitness
from untrained.strategies.drive import Drive, drive
from untrained.strategies.screen import Listed, Screen
from untrained.strategies.select import Ranking, fitness, rank, rows
from untrained.types import Arch, Record

if TYPE_CHECKING:
    import pandas as pd


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
    beside: str = "",
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
    The proxy "auto" is the one that a calibration of this space on these data recommends. Proxies `beside` it are
    recorded for the same architectures and decide nothing; parameters and FLOPs always are.
    `workers` processes work in parallel, by default one a core or one a GPU; `ray` is "local" or the address of a
    cluster. An architecture that takes longer than `time_limit` is a failure, and the search goes on.
    """
    if seeds < 1:
        raise UsageError("seeds must be at least 1")
    if proxy == "auto":
        from untrained.studies.calibrate import automatic  # a study is made of searches, so it cannot come first

        proxy = automatic(space if isinstance(space, str) else space.name, data)
    enough = Budget(budget, seconds(time) if time else None, stable, top)
    sieve = Screen.parse(screen, keep, enough) if screen else None
    panel, home = Panel.of(proxy, beside, sieve), load_space(space)
    judge = panel.judge
    if judge.parts and stable:
        raise UsageError(f"{judge.name} compares all candidates, so its ranking never settles; give a --budget")
    if sieve and judge in sieve.proxies:
        raise UsageError(f"{judge.label} cannot screen for itself; screen by something cheaper, such as params")
    asker = STRATEGIES[strategy](home, generator("search", strategy, home.name, seed))
    source = load(data, home.task, data_root)
    named = space if isinstance(space, str) else space.name
    code, kept = code_of(named, panel.asked), keep if screen else ""
    settings = Settings(named, panel.asked, strategy, data, seed, seeds, device, code, screen, kept)
    folder = Path(run) if run else settings.default_folder()
    facts = judge.measure, judge.higher_is_better, judge.about
    begun = Run(folder, settings, *facts, enough.total, time, stable, top, beside)
    samples = Samples.of(source, panel.everybody, range(seed, seed + seeds))
    limit = seconds(time_limit) if time_limit else None
    job = job_for(space, panel.everybody, samples, device, panel.typed)
    with hired(job, workers, ray, limit, enough.total) as executor:
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
                pool = stage("screening", asker, sieve.proxies, replace(enough, stable=None), lambda records: None)
                survivors = sieve.survivors(pool.records)
                left = enough.seconds and enough.seconds - pool.seconds
                asker, enough = Listed(survivors), replace(enough, count=max(1, len(survivors)), seconds=left)
            fit = partial(fitness, measure=judge.measure, higher_is_better=judge.higher_is_better)
            done = pool if pool.ended == "interrupted" else stage("scoring", asker, panel.judges, enough, fit)
            if done.ended == "interrupted":
                done.records = list(store)  # some may have come out of turn, and are not told yet
        sitting = sitting.account(executor.costs(), pool.seconds + done.seconds, done.ended).save()
    records = list(dict.fromkeys(pool.records + done.records))
    if judge.parts:
        records += aggregated(records, judge)
    return Result(sitting, tuple(records), rank(records, judge.measure, judge.higher_is_better))
