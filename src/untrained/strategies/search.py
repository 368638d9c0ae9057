"""`search(...)`: a strategy asks, an evaluator answers, the run folder remembers.

The same call on the same folder resumes: the strategy asks the same questions again, and the store answers those that
were answered before. This file knows nothing of networks or devices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from untrained._load import code_of, names_file
from untrained.data import load
from untrained.engine import Evaluator, ProxyEvaluator, Store
from untrained.engine.aggregates import aggregated, expanded
from untrained.engine.score import DEFAULT_DATA
from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy
from untrained.rng import generator
from untrained.spaces import Space, load_space
from untrained.strategies._run import Run, Settings
from untrained.strategies._strategy import STRATEGIES, Strategy
from untrained.strategies.select import Ranking, rank, rows
from untrained.types import Arch, Record

if TYPE_CHECKING:
    import pandas as pd

BASELINES = ("params", "flops")
CHUNK = 16  # how many architectures are asked for at a time
Watcher = Callable[[int, Sequence[Record]], None]  # architectures done so far, the records of the last one


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
    budget: int = 100,
    data: str = DEFAULT_DATA,
    *,
    seed: int = 0,
    seeds: int = 1,
    device: str = "cpu",
    run: str | Path | None = None,
    data_root: str | Path | None = None,
    watch: Watcher | None = None,
) -> Result:
    """Search `space` for the best architecture by `proxy`, judging `budget` of them. Ctrl-C keeps the best so far."""
    if budget < 1 or seeds < 1:
        raise UsageError("budget and seeds must be at least 1")
    home, judge = load_space(space), load_proxy(proxy)
    asker = STRATEGIES[strategy](home, generator("search", strategy, home.name, seed))
    source = load(data, home.task, data_root)
    named = space if isinstance(space, str) else space.name
    asked = proxy if isinstance(proxy, str) and names_file(proxy) else judge.label  # as it can be typed again
    settings = Settings(named, asked, strategy, data, seed, seeds, device, code_of(named, asked))
    judges = expanded([judge, *(load_proxy(name) for name in BASELINES if name != judge.label)])
    evaluate = ProxyEvaluator(
        lambda arch: home.build(arch, source.task), source, judges, range(seed, seed + seeds), device
    )
    folder = Path(run) if run else settings.default_folder()
    sitting = Run(folder, settings, judge.measure, judge.higher_is_better, judge.about, budget).resume().save()
    with Store(sitting.store) as store:
        records, stopped, seconds = drive(asker, replace(evaluate, store=store), budget, watch)
    done = replace(sitting, stopped_early=stopped, wall_seconds=sitting.wall_seconds + seconds).save()
    if judge.parts:
        records += aggregated(records, judge)
    return Result(done, tuple(records), rank(records, judge.measure, judge.higher_is_better))


def drive(
    strategy: Strategy, evaluate: Evaluator, budget: int, watch: Watcher | None = None
) -> tuple[list[Record], bool, float]:
    """Ask and tell until the budget is spent, the space exhausted or the user presses Ctrl-C: records, whether it was
    Ctrl-C, and seconds."""
    records: list[Record] = []
    start, done = perf_counter(), 0
    if watch:
        watch(done, records)
    try:
        while done < budget and (archs := strategy.ask(min(CHUNK, budget - done))):
            told: list[Record] = []
            for found in evaluate(archs):
                told += found
                records += found
                done += 1
                if watch:
                    watch(done, found)
            strategy.tell(told)
    except KeyboardInterrupt:
        return records, True, perf_counter() - start
    return records, False, perf_counter() - start
