"""`search(...)`: a strategy asks, an evaluator answers, the run folder remembers.

The same call on the same folder resumes: the strategy asks the same questions again, and the store answers those that
were answered before. This file knows nothing of networks or devices.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from untrained.config import (
    DEFAULT_DATA,
    DEFAULT_PROXY,
    ComputeConfig,
    Limits,
    SearchConfig,
)
from untrained.data import DataSource, load_data, with_input_size
from untrained.engine import SeedBatches, make_worker_setup, open_executor
from untrained.engine.devices import parse_device_name
from untrained.engine.failures import catch_failure
from untrained.engine.worker_setup import WeightSource
from untrained.errors import Interrupted, UsageError, unknown_name_error
from untrained.progress import ProgressCallback
from untrained.proxies import Proxy
from untrained.runs.folder import RunFolder
from untrained.runs.question import name_question
from untrained.runs.ranking import Ranking, choose_winner, make_record_rows
from untrained.runs.store import Store
from untrained.runs.trace import write_trace
from untrained.runs.winner import CONFIRMED, rank_run, read_records
from untrained.seeds import make_generator
from untrained.spaces import Space, fingerprint_space, load_space
from untrained.spaces.core.diagrams import write_diagram
from untrained.strategies.base import Strategy, StrategyInputs
from untrained.strategies.budget import Budget
from untrained.strategies.driver import DEFAULT_ASK
from untrained.strategies.search_limits import SearchLimits
from untrained.training.warm_up import WarmUp
from untrained.types import Arch, Failure, Record, Task
from untrained.workflows.search_checks import Asked, matching_data
from untrained.workflows.search_stages import SearchStages

if TYPE_CHECKING:
    import pandas as pd

    from untrained.reports.confirmation_result import Confirmation

ROUNDS = 16  # populations of each worker that are asked for at a time


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        run: The run folder.
        records: All records that the search asked for.
        ranking: The architectures, best first, and those without a score.
        confirmed: The short trainings of the best, if there were any.
    """

    run: RunFolder
    records: tuple[Record, ...]
    ranking: Ranking
    confirmed: "Confirmation | None" = None

    @property
    def best(self) -> Arch:
        """The winner: the architecture that short trainings confirmed, else the first of the ranking."""
        if not self.ranking.standings:
            raise UsageError("nothing could be scored, so nothing is best; the report says why")
        ranked = {str(standing.arch): standing.arch for standing in self.ranking.standings}
        confirmed = self.confirmed.winner if self.confirmed else None
        winner = choose_winner(list(ranked), confirmed)
        assert winner is not None
        return ranked[winner]

    def frame(self) -> "pd.DataFrame":
        """Return all records as a pandas table, with mean, deviation and number over their seeds."""
        import pandas as pd

        return pd.DataFrame(make_record_rows(self.records))

    def report(self) -> Path:
        """Write `report.html` in the run folder and return its path."""
        from untrained.workflows.report import report

        return report(self.run.folder)


class SearchOptions(TypedDict, total=False):
    """Further options of `search`. `SearchConfig` and `ComputeConfig` say what they mean."""

    input_size: int | None
    time: str | None
    stable: int | None
    top: int
    screen: str
    keep: str
    beside: str
    validate: str
    warm_up: str
    confirm: int
    seed: int
    seeds: int
    data_root: str | Path | None
    workers: int | None
    ray: str | None
    time_limit: str | None
    networks_per_batch: int


def search(
    space: str | Space = "nasbench201",
    proxy: str | Proxy = DEFAULT_PROXY,
    strategy: str = "random",
    budget: int | None = None,
    data: str | Path = DEFAULT_DATA,
    *,
    limits: Mapping[str, str | float | None] | None = None,
    device: str = "cpu",
    run: str | Path | None = None,
    on_progress: ProgressCallback | None = None,
    **options: Unpack[SearchOptions],
) -> SearchResult:
    """Search a space for the best architecture by a proxy. Ctrl-C keeps the best so far.

    The same call resumes a search that was stopped.

    Args:
        space: A space, or its name.
        proxy: A proxy, or its name; "auto" for the one that a calibration of this space recommends.
        strategy: Name of the strategy, with options in brackets: "evolution(population=32)".
        budget: Number of architectures to score; 100 if nothing else ends the search.
        data: Name of the data that networks see, such as "digits" or "folder:./photos".
        limits: What an architecture may cost: {"params": "1M", "latency": "5ms"}. There are params,
            min_params, flops, memory and latency, which is measured on this machine.
        device: A torch device.
        run: The run folder; None for one under `runs/` that is named after the search.
        on_progress: Called after every architecture and every step.
        **options: Everything else, see `SearchOptions`.

    Returns:
        The records, their ranking and the run folder.

    Raises:
        UsageError: Something that was asked for is impossible.

    Example:
        >>> import untrained as ut
        >>> result = ut.search("nasbench201", data="digits", budget=100, limits={"params": "1M"})
        >>> result.best
    """
    for name in options:
        if name not in SearchOptions.__annotations__:
            raise unknown_name_error("option of search", name, SearchOptions.__annotations__)
    compute_options: dict[str, Any] = {"device": device}
    search_options: dict[str, Any] = {"run": run}
    for name, value in options.items():
        if name in ComputeConfig.__dataclass_fields__:
            compute_options[name] = value
        else:
            search_options[name] = value
    config = SearchConfig(
        space=space.name if isinstance(space, Space) else space,
        proxy=proxy.label if isinstance(proxy, Proxy) else proxy,
        strategy=strategy,
        budget=budget,
        data=str(data) if isinstance(data, Path) else data,
        limits=limits or {},
        compute=ComputeConfig(**compute_options),
        **search_options,
    )
    return run_search(
        config,
        on_progress,
        space=space if isinstance(space, Space) else None,
        proxy=proxy if isinstance(proxy, Proxy) else None,
    )


def run_search(
    config: SearchConfig,
    on_progress: ProgressCallback | None = None,
    *,
    space: Space | None = None,
    proxy: Proxy | None = None,
    on_data: Callable[[DataSource], None] | None = None,
) -> SearchResult:
    """Search a space and keep everything in a run folder; the same config resumes.

    Args:
        config: What the user asks for.
        on_progress: Called after every architecture and every step.
        space: The space, if it is an object that `config.space` does not lead to.
        proxy: The proxy, if it is an object that `config.proxy` does not lead to.
        on_data: Called with the data before the work begins.
    """
    compute = config.compute
    device = parse_device_name(compute.device)
    home = space or load_space(config.space)
    limits = Limits.parse(**config.limit_texts)
    if limits.max_latency:
        parse_device_name(limits.max_latency.device)
    if config.proxy == "auto":
        # A calibration is made of searches, so its module cannot be imported first.
        from untrained.workflows.calibrate import read_recommended_proxy

        config = replace(config, proxy=read_recommended_proxy(config.space, config.data))
    budget = Budget(config.budget, config.time_seconds, config.stable, config.top)
    asked = Asked.of(config, proxy or config.proxy, budget)
    chosen, panel, decides = asked.strategy, asked.panel, asked.panel.decides
    source = load_data(config.data, with_input_size(home.task, config.input_size), config.data_root)
    matching_data(home, source.task)
    if on_data:
        on_data(source)
    if config.confirm:
        _ = (
            source.parts
        )  # data that nothing can be trained on are refused now, not after the search
    warmth = WarmUp.parse(config.warm_up, source) if config.warm_up else None
    space_code = fingerprint_space(space or config.space)
    bounds = SearchLimits(home, source.task, config.limit_texts, space_code)
    seeds = range(config.seed, config.seed + config.seeds)
    samples = SeedBatches.for_proxies(source, panel.everybody, seeds)
    desk = SearchStages(
        panel,
        samples,
        device,
        on_progress,
        space_code,
        compute.networks_per_pass,
    )
    rng = make_generator("search", chosen.seed_name, home.name, config.seed)
    inputs = StrategyInputs(
        source=source,
        device=device,
        step_log=desk.notes,
        evaluate_pool=desk.judge,
        pool_fitness=panel.by,
        beside=panel.objectives,
    )
    asker = chosen.make(bounds.space, rng, panel.fit, inputs)
    if budget == Budget(top=config.top):
        budget = replace(budget, count=asker.default_budget)

    config = replace(
        config,
        proxy=panel.asked,
        strategy=chosen.label,
        budget=budget.total,
        compute=replace(compute, device=device),
    )
    run = RunFolder.open(
        config,
        measure=decides.measure,
        higher_is_better=decides.higher_is_better,
        about=decides.about,
        objectives=panel.describe_objectives() if chosen.needs_objectives else [],
        space_size=home.size,
    )
    desk.notes.open(run.folder, run.describe_question(), budget.total)
    has_records = run.has_records()
    if not has_records:
        bounds.check()
    start = None
    if warmth:
        run.save()
        start = warmth.prepare_weights(home, config.seed, device, run.folder, on_progress)
        desk.init = start.init
    setup = make_worker_setup(
        space or config.space,
        panel.everybody,
        samples,
        config.compute,
        panel.typed,
        start,
    )
    many = None if chosen.needs_validation else budget.total
    with open_executor(setup, config.compute, many, lazy=has_records) as desk.executor:
        if not bounds.texts:  # with limits, proposing architectures is expensive
            workers = compute.workers or desk.executor.workers
            desk.chunk = max(DEFAULT_ASK, ROUNDS * workers * compute.networks_per_batch)
        result = _sat(run.save(), desk, asker, budget, bounds, start)
    if config.confirm and result.ranking.standings and result.run.ended != "interrupted":
        result = _confirmed(result, space or config.space, source, bounds, on_progress)
    return _with_drawing(result, home, source.task)


def _with_drawing(result: SearchResult, space: Space, task: Task) -> SearchResult:
    """Keep the drawing of the winner with the run: a report does not load the space, which may be the user's code."""
    if not result.ranking.standings:
        return result
    best = result.best
    sketch = catch_failure(space.draw, best, task)
    if isinstance(sketch, Failure):
        return result
    drawing = {"arch": str(best), "sketch": write_diagram(sketch)}
    return replace(result, run=replace(result.run, drawing=drawing).save())


def _sat(
    run: RunFolder,
    desk: SearchStages,
    asker: Strategy,
    enough: Budget,
    bounds: SearchLimits,
    start: WeightSource | None,
) -> SearchResult:
    """One sitting: the strategy asks until enough is done, and the run folder knows what came of it."""
    with Store(run.store) as desk.store:
        config = run.config
        top = config.top if config.stable else None
        stops = [config.budget, config.time, config.stable, top, config.confirm]
        question = name_question(run.describe_question(), stops, desk.requests())
        run = replace(run, question=question).save()
        desk.question = question
        bounds.use_store(desk.store, run.question)
        done = desk.work(asker, enough, desk.panel.fit)
        records = read_records(run, desk.store)
        bounds.measure_finalists(
            records, lambda some: rank_run(run, some).ranking, lambda *known: _to_train(run, *known)
        )
        ranked = rank_run(run, read_records(run, desk.store) if bounds.max_latency else records)
    standings = ranked.ranking.standings
    best = standings[0].arch if standings else None
    run = replace(run, limits=bounds.describe(best))
    workers = [cost.row() for cost in desk.executor.costs()]
    warm_up_seconds = start.seconds if start else 0.0
    run = run.add_session(workers, done.seconds, done.ended, warm_up_seconds, desk.notes).save()
    write_trace(run.folder, asker)
    (run.folder / CONFIRMED).unlink(missing_ok=True)  # it may be of another ranking
    return SearchResult(run, ranked.records, ranked.ranking)


def _to_train(run: RunFolder, ranking: Ranking, records: Sequence[Record]) -> list[Arch]:
    """Those of a ranking that a confirmation will train."""
    from untrained.workflows.confirm import choose_groups

    groups = choose_groups(ranking, records, run.config.confirm, run) if run.config.confirm else {}
    return [arch for group in groups.values() for arch in group]


def _confirmed(
    result: SearchResult,
    space: str | Space,
    source: DataSource,
    bounds: SearchLimits,
    on_progress: ProgressCallback | None,
) -> SearchResult:
    """Train the best by score, by size and at random briefly; the best of them is the winner.

    Ctrl-C leaves the ranking as it is.
    """
    from untrained.workflows.confirm import confirm

    run = result.run
    config = run.config
    try:
        confirmation = confirm(
            run,
            result.ranking,
            list(result.records),
            space,
            source,
            config.confirm,
            replace(config.compute, networks_per_batch=1),
            on_progress,
        )
    except Interrupted:
        return replace(result, run=replace(run, ended="interrupted").save())
    result = replace(result, confirmed=confirmation)
    # The winner may be another one than the best by proxy, and the run says what limits it keeps.
    with Store(run.store) as store:
        bounds.use_store(store, run.question)
        return replace(result, run=replace(run, limits=bounds.describe(result.best)).save())
