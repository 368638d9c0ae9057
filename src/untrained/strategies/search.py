"""`search(...)`: a strategy asks, an evaluator answers, the run folder remembers.

The same call on the same folder resumes: the strategy asks the same questions again, and the store answers those that
were answered before. This file knows nothing of networks or devices.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from untrained._load import fingerprint_user_code
from untrained._quantities import parse_count, parse_path, parse_seed, seconds
from untrained.data import Source, load, sized
from untrained.engine import Samples, Store, check_workers, hired, job_for
from untrained.engine.faults import attempt
from untrained.engine.hire import networks_per_pass
from untrained.engine.measure import Start, device_name
from untrained.engine.score import DEFAULT_DATA
from untrained.errors import Interrupted, UsageError
from untrained.proxies import Proxy
from untrained.rng import generator
from untrained.runs.question import name_question
from untrained.runs.ranking import Ranking, choose_winner, rows
from untrained.runs.winner import CONFIRMED, rank_run, read_records
from untrained.spaces import Space, fingerprint_space, load_space
from untrained.spaces.core.diagrams import write_diagram
from untrained.strategies import _trace
from untrained.strategies._bounds import Bounds
from untrained.strategies._check import Asked, matching_data
from untrained.strategies._desk import Desk, warming
from untrained.strategies._desk import Progress as Progress
from untrained.strategies._desk import Watcher as Watcher
from untrained.strategies._run import Run, Settings
from untrained.strategies._strategy import Strategy
from untrained.strategies.budget import Budget
from untrained.strategies.drive import CHUNK
from untrained.strategies.limits import Limits
from untrained.training.warmup import WarmUp
from untrained.types import Arch, Failure, Record, Task

if TYPE_CHECKING:
    import pandas as pd

    from untrained.studies.confirm import Confirmation

ROUNDS = 16  # populations of each worker that are asked for at a time


@dataclass(frozen=True)
class Result:
    """What a search found."""

    run: Run
    records: tuple[Record, ...]
    ranking: Ranking
    confirmed: "Confirmation | None" = None

    @property
    def best(self) -> Arch:
        """The one that short trainings confirmed, where there were some, and else the first of the ranking."""
        if not self.ranking.standings:
            raise UsageError("nothing could be scored, so nothing is best; the report says why")
        ranked = {str(standing.arch): standing.arch for standing in self.ranking.standings}
        winner = choose_winner(list(ranked), self.confirmed.winner if self.confirmed else None)
        assert winner is not None
        return ranked[winner]

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
    input_size: int | None = None,
    time: str | None = None,
    stable: int | None = None,
    top: int = 10,
    screen: str = "",
    keep: str = "20%",
    beside: str = "",
    validate: str = "",
    warm_up: str = "",
    confirm: int = 0,
    max_params: str | None = None,
    min_params: str | None = None,
    max_flops: str | None = None,
    max_memory: str | None = None,
    max_latency: str | None = None,
    seed: int = 0,
    seeds: int = 1,
    device: str = "cpu",
    workers: int | None = None,
    population: int = 1,
    ray: str | None = None,
    time_limit: str | None = None,
    run: str | Path | None = None,
    data_root: str | Path | None = None,
    watch: Watcher | None = None,
    look: Callable[[Source], None] | None = None,
) -> Result:
    """Search `space` for the best architecture by `proxy`. Ctrl-C keeps the best so far.

    Enough is `budget` architectures (100), `time` ("10m"), or that the best `top` have not changed for `stable` new
    architectures. `strategy` takes options in brackets: "evolution(population=32)". `screen` names cheap proxies: only
    the share `keep` that ranks best by them is judged by `proxy`. The proxy "auto" is the one that a calibration of
    this space on these data recommends. Proxies `beside` it are recorded for the same architectures and decide nothing,
    unless the strategy weighs several; parameters and FLOPs always are. `validate` names what has the last word for
    hnas and screen: "table:cifar10_val_12" or "training(epochs=3,samples=1500)". With `confirm` the best so many by
    proxy, by parameters and at random are trained briefly on the same data, and the best of them is the winner; here
    that is off unless asked for, while the command line does it by itself on data of the user's own.
    `warm_up` trains on a share of the data before judging, "10%" or "10%(paths=sandwich,rate=0.05)": the supernet of
    the space, whose weights candidates inherit, or else, and with "10%(paths=each)", every candidate by itself.
    Limits are as people write them, "1M", "150M", "300MB", "5ms@cpu"; nothing beyond them is ever judged, and latency
    is measured on this machine.
    `workers` processes work in parallel, by default one a core or one a GPU; `ray` is "local" or the address of a
    cluster. Each looks at `population` networks together, which is meant for a GPU.
    An architecture that takes longer than `time_limit` is a failure, and the search goes on.
    Networks are shown images of the space's usual size, or of `input_size` a side; `look` sees the data before the work
    begins.
    """
    seeds = parse_count(seeds, "seeds")
    seed = parse_seed(seed, seeds)
    confirm = parse_count(confirm, "confirm", 0)
    population = parse_count(population, "population")
    device = device_name(device)
    home = load_space(space)
    if run is not None:
        run = parse_path(run, "run")
    check_workers(workers, ray)
    limits = {"max_params": max_params, "min_params": min_params, "max_flops": max_flops, "max_memory": max_memory}
    limits |= {"max_latency": max_latency}
    Limits.read(**limits)  # who mistyped one hears it before data are read and shown
    named = space if isinstance(space, str) else space.name
    if proxy == "auto":
        from untrained.studies.calibrate import automatic  # a study is made of searches, so it cannot come first

        proxy = automatic(named, data)
    limit = None if time_limit is None else seconds(time_limit)
    enough = Budget(budget, None if time is None else seconds(time), stable, top)
    asked = Asked.of(strategy, proxy, beside, screen, keep, validate, enough, named, data_root)
    chosen, panel, decides = asked.strategy, asked.panel, asked.panel.decides
    source = load(data, sized(home.task, input_size), data_root)
    matching_data(home, source.task)
    if look:
        look(source)
    if confirm:
        _ = source.parts  # who cannot be trained on says so now, and not after the search
    warmth = WarmUp.of(warm_up, source) if warm_up else None
    space_code = fingerprint_space(space)
    bounds = Bounds(home, source.task, limits, space_code)
    samples = Samples.of(source, panel.everybody, range(seed, seed + seeds))
    limit = seconds(time_limit) if time_limit else None
    desk = Desk(panel, samples, device, watch, space_code, networks_per_pass(population, limit))
    chance = generator("search", chosen.name, home.name, seed)
    own = {"source": source, "device": device, "notes": desk.notes}
    others = {"judge": desk.judge, "by": panel.by, "beside": panel.objectives}
    asker = chosen.make(bounds.space, chance, panel.fit, **own, **others)
    if enough == Budget(top=top):
        enough = replace(enough, count=getattr(asker, "usual", None))

    objectives, kept = beside if chosen.needs("beside") else "", keep if screen else ""
    settings = Settings(named, panel.asked, chosen.label, data, seed, seeds, device, "", screen, kept, objectives,
                        validate, warm_up, input_size=input_size, **bounds.asked)  # fmt: skip
    settings = replace(settings, code=fingerprint_user_code(*settings.user_code))
    folder = Path(run) if run else settings.default_folder()
    facts = decides.measure, decides.higher_is_better, decides.about
    described: dict[str, Any] = {
        "space_code": fingerprint_user_code(named),
        "space_size": home.size,
        "objectives": panel.describe_objectives() if objectives else [],
    }
    begun = Run(folder, settings, *facts, enough.total, time, stable, top, beside, confirm, **described).resume()
    desk.notes.keep(folder, settings, enough.total)
    if not (known := begun.begun()):
        bounds.ready()
    start = None
    if warmth:
        begun.save()
        start = warmth.begin(home, seed, device, folder, warming(watch))
        desk.init = start.init
    job = job_for(space, panel.everybody, samples, device, panel.typed, start, population)
    many = None if chosen.needs("judge") else enough.total
    with hired(job, workers, ray, limit, many, later=known) as desk.executor:
        if not bounds.asked:  # keeping to limits makes asking dear
            desk.chunk = max(CHUNK, ROUNDS * (workers or desk.executor.workers) * population)
        result = _sat(begun.save(), desk, asker, enough, bounds, start)
    if confirm and result.ranking.standings and result.run.ended != "interrupted":
        result = _confirmed(result, confirm, space, source, bounds, (device, workers, ray, time_limit), watch)
    return _with_drawing(result, home, source.task)


def _with_drawing(result: Result, space: Space, task: Task) -> Result:
    """Keep the drawing of the winner with the run: a report does not load the space, which may be the user's code."""
    if not result.ranking.standings:
        return result
    best = result.best
    sketch = attempt(space.draw, best, task)
    if isinstance(sketch, Failure):
        return result
    drawing = {"arch": str(best), "sketch": write_diagram(sketch)}
    return replace(result, run=replace(result.run, drawing=drawing).save())


def _sat(run: Run, desk: Desk, asker: Strategy, enough: Budget, bounds: Bounds, start: Start | None) -> Result:
    """One sitting: the strategy asks until enough is done, and the run folder knows what came of it."""
    with Store(run.store) as desk.store:
        stops = [run.budget, run.time, run.stable, run.top if run.stable else None, run.confirm]
        question = name_question(asdict(run.settings), stops, desk.requests())
        run = replace(run, question=question).save()
        desk.question = question
        bounds.remember(desk.store, run.question)
        done = desk.work(asker, enough, desk.panel.fit)
        records = read_records(run, desk.store)
        bounds.settle(records, lambda some: rank_run(run, some).ranking, lambda *known: _to_train(run, *known))
        ranked = rank_run(run, read_records(run, desk.store) if bounds.clock else records)
    standings = ranked.ranking.standings
    best = standings[0].arch if standings else None
    run = replace(run, limits=bounds.kept(best))
    run = run.account(desk.executor.costs(), done.seconds, done.ended, start, desk.notes).save()
    _trace.save(run.folder, asker)
    (run.folder / CONFIRMED).unlink(missing_ok=True)  # it may be of another ranking
    return Result(run, ranked.records, ranked.ranking)


def _to_train(run: Run, ranking: Ranking, records: Sequence[Record]) -> list[Arch]:
    """Those of a ranking that a confirmation will train."""
    from untrained.studies.confirm import chosen

    groups = chosen(ranking, records, run.confirm, run) if run.confirm else {}
    return [arch for group in groups.values() for arch in group]


def _confirmed(
    result: Result,
    count: int,
    space: str | Space,
    source: Source,
    bounds: Bounds,
    crew: tuple[str, int | None, str | None, str | None],
    watch: Watcher | None,
) -> Result:
    """The best `count` by proxy, by size and at random are trained briefly, and the best of them is the winner, whose
    limits are told. Ctrl-C leaves the ranking as it is."""
    from untrained.studies._scores import Crew  # a study is made of searches, so it cannot come first
    from untrained.studies.confirm import confirm

    run, found = result.run, (result.ranking, list(result.records))
    try:
        result = replace(result, confirmed=confirm(run, *found, space, source, count, Crew(*crew), watch))
    except Interrupted:
        return replace(result, run=replace(run, ended="interrupted").save())
    with Store(run.store) as store:  # the winner may be another than the best by proxy
        bounds.remember(store, run.question)
        return replace(result, run=replace(run, limits=bounds.kept(result.best)).save())
