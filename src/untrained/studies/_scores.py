"""Score a list of architectures by a list of proxies, in a folder that remembers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from untrained._quantities import seconds
from untrained.data import Source
from untrained.engine import ProxyEvaluator, Samples, Store, check_workers, hired, job_for
from untrained.engine.aggregates import aggregated, expanded
from untrained.engine.hire import networks_per_pass
from untrained.engine.measure import Start
from untrained.engine.store import begun
from untrained.errors import Interrupted
from untrained.proxies import Proxy
from untrained.spaces import Space, fingerprint_space
from untrained.strategies.budget import Budget
from untrained.strategies.drive import Drive, drive
from untrained.strategies.search import Progress, Watcher
from untrained.strategies.sieve import Listed
from untrained.types import FRESH, Arch, Record

DEAR = 1000  # forward passes of one sample: networks that take as many are worth a process each, however few they are


@dataclass(frozen=True)
class Crew:
    """Who does the work, as in `search`."""

    device: str = "cpu"
    workers: int | None = None
    ray: str | None = None
    time_limit: str | None = None
    population: int = 1

    def __post_init__(self) -> None:
        check_workers(self.workers, self.ray)


def scored(
    space: str | Space,
    archs: Sequence[Arch],
    proxies: Sequence[Proxy],
    source: Source,
    seeds: Sequence[int],
    crew: Crew,
    store_at: Path,
    typed: Mapping[str, str] | None = None,
    watch: Watcher | None = None,
    stage: str = "scoring",
    start: Start | None = None,
) -> Drive:
    """All records, aggregates too. Ctrl-C ends it: what was measured is kept, and the same call goes on."""
    single = expanded(proxies)
    samples = Samples.of(source, single, seeds)
    job = job_for(space, single, samples, crew.device, typed, start, crew.population)
    limit = seconds(crew.time_limit) if crew.time_limit else None
    dear = sum(proxy.samples * proxy.cost for proxy in single) >= DEAR
    hiring = hired(job, crew.workers, crew.ray, limit, None if dear else len(archs), later=begun(store_at))
    with hiring as executor, Store(store_at) as store:
        evaluate = ProxyEvaluator(
            samples,
            single,
            executor,
            crew.device,
            store,
            start.init if start else FRESH,
            fingerprint_space(space),
            networks_per_pass(crew.population, limit),
        )

        def tell(done: int, records: Sequence[Record]) -> None:
            if watch:
                watch(Progress(stage, done, len(archs), evaluate.measured, executor.workers, records))

        done = drive(Listed(archs), evaluate, Budget(len(archs)), lambda records: None, tell)
        done.batched = sum(cost.batched for cost in executor.costs())
    if done.ended == "interrupted":
        raise Interrupted(f"stopped by Ctrl-C; what was measured is in {store_at}, and the same command goes on")
    for proxy in proxies:
        if proxy.parts:
            done.records += aggregated(done.records, proxy)
    return done
