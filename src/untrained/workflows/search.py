"""`search(...)`: find the best architecture of a space.

A strategy proposes architectures, an evaluator turns them into records, and the run folder keeps
the records and the configuration. The same call with the same folder resumes: the strategy proposes
the same architectures again, and the records of those that were already scored are read from the
store.

Ctrl-C ends the current stage. What was scored until then is ranked and saved.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from html import escape
from itertools import zip_longest
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Unpack

from untrained.config import (
    DEFAULT_DATA,
    DEFAULT_PROXY,
    DEFAULT_SPACE,
    ComputeConfig,
    ComputeOptions,
    SearchConfig,
)
from untrained.data import DataSource
from untrained.data.registry import belongs_to_user, name_data_path, parse_data_name
from untrained.data.samples import (
    DATASET_NAME,
    Samples,
    is_samples,
    make_training_source,
    open_samples,
    open_training_samples,
)
from untrained.drawings.diagrams import serialise_diagram
from untrained.engine import make_worker_setup, open_executor
from untrained.engine.devices import check_device
from untrained.engine.executors.base import Executor
from untrained.engine.failures import catch_failure
from untrained.engine.worker import Worker
from untrained.engine.worker_setup import WeightSource
from untrained.errors import Interrupted, UsageError
from untrained.formatting import format_duration, join_words
from untrained.progress import ProgressCallback
from untrained.proxies import Proxy
from untrained.quantities import parse_path, show_value
from untrained.reports.confirmation_result import Confirmation
from untrained.reports.contest_result import (
    BEST_PREFIX,
    DESIGN_PREFIX,
    LARGEST,
    RANDOM,
    Contest,
    ContestEntry,
)
from untrained.runs.folder import (
    DEFAULT_CONTEST_GROUP_SIZE,
    DEFAULT_TABLE_GROUP_SIZE,
    RunFolder,
    get_default_effort,
    get_default_group_size,
)
from untrained.runs.ranking import Ranking, choose_winner, make_record_rows
from untrained.runs.store import Store
from untrained.runs.trace import write_trace
from untrained.runs.winner import (
    CONFIRMATION_FILE,
    CONTEST_FILE,
    RunRanking,
    rank_run,
    read_records,
)
from untrained.spaces import Space
from untrained.strategies.driver import DEFAULT_ASK_SIZE
from untrained.strategies.search_limits import SearchLimits
from untrained.training.adaptation import adapt_recipe
from untrained.training.folder import read_training_key
from untrained.training.recipes import get_default_recipe_name, load_recipe
from untrained.training.result import TRAINING_FILE, TrainingResult
from untrained.types import Arch, Failure, Record
from untrained.workflows.arguments import (
    check_option_names,
    check_proxy_argument,
    check_space_argument,
)
from untrained.workflows.confirm import choose_groups, confirm_ranking
from untrained.workflows.contest import run_contest
from untrained.workflows.contest_entrants import Substitutes
from untrained.workflows.contest_rounds import estimate_longest_contest
from untrained.workflows.contest_training import ContestSettings
from untrained.workflows.data_title import describe_data
from untrained.workflows.export import ExportResult
from untrained.workflows.final_training import estimate_longest_training
from untrained.workflows.live_report import LiveReport
from untrained.workflows.search_setup import SearchSetup, prepare_search
from untrained.workflows.time_plan import CONTEST_PHASE, SCORING, TRAINING, TimePlan
from untrained.workflows.trainable_size import measure_trainable_size

if TYPE_CHECKING:
    import pandas as pd

    from untrained.workflows.winner_export import WinnerExportOptions

# Architectures to ask for at a time, per worker and per network that it measures in one pass.
ASK_SIZE_PER_WORKER = 16
# The contest takes `BEST_FACTOR * confirm` architectures with the best scores.
BEST_FACTOR = 2
# How entries were selected, by name of their group. A group that is not listed is that of a proxy.
CONTEST_GROUPS = {"params": LARGEST, "random": RANDOM}


@dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    Attributes:
        run: The run folder.
        records: All records of the search.
        ranking: The architectures, best first, and those without a score.
        confirmation: The short trainings of the best on a table, if there were any.
        contest: The contest of the best on images, if there was one.
        training: The training of the winner, if the search exported it.
        export_result: The export of the winner, if the search exported it.
    """

    run: RunFolder
    records: tuple[Record, ...]
    ranking: Ranking
    confirmation: Confirmation | None = None
    contest: Contest | None = None
    training: TrainingResult | None = None
    export_result: ExportResult | None = None

    @property
    def has_winner(self) -> bool:
        """Whether a network was scored, and the search was not interrupted."""
        return bool(self.ranking.standings) and self.run.end_reason != "interrupted"

    @property
    def best(self) -> Arch:
        """The best architecture: what short trainings chose, else the first of the ranking.

        On a table, a hand-designed network can win against it; see `winner_name`.
        """
        if not self.ranking.standings:
            raise UsageError(
                "no architecture could be scored, so there is no best one; the report says why"
            )
        archs = {str(standing.arch): standing.arch for standing in self.ranking.standings}
        trained_winner = None
        if self.confirmation is not None:
            trained_winner = self.confirmation.best_arch
        elif self.contest is not None:
            trained_winner = self.contest.winner
        winner = choose_winner(list(archs), trained_winner)
        assert winner is not None
        return archs[winner]

    @property
    def winner_name(self) -> str:
        """The network that `train` and `export` take from the run folder.

        This is `best` as text or, on a table, the name of the hand-designed network that won.
        """
        if self.confirmation is not None and self.confirmation.winning_design:
            return self.confirmation.winning_design
        return str(self.best)

    def frame(self) -> "pd.DataFrame":
        """Return all records as a pandas table, with mean, deviation and number of seeds."""
        import pandas as pd

        return pd.DataFrame(make_record_rows(self.records))

    def report(self) -> Path:
        """Write `report.html` in the run folder and return its path."""
        from untrained.workflows.report import report

        return report(self.run.folder)

    def __repr__(self) -> str:
        lines = [self._format_title(), repr(self.ranking)]
        if self.ranking.standings:
            lines.append(f"best: {self.best}")
        if self.confirmation is not None and self.confirmation.winning_design:
            lines.append(f"{self.confirmation.winner_text}.")
        if self.contest is not None:
            lines.append(self.contest.verdict)
        lines.append(f"run folder: {self.run.folder}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        lines = [f"<p>{escape(self._format_title())}</p>", self.ranking._repr_html_()]
        if self.ranking.standings:
            lines.append(f"<p>best: <code>{escape(str(self.best))}</code></p>")
        if self.confirmation is not None and self.confirmation.winning_design:
            lines.append(f"<p>{escape(self.confirmation.winner_text)}.</p>")
        if self.contest is not None:
            lines.append(f"<p>{escape(self.contest.verdict)}</p>")
        lines.append(f"<p>run folder: <code>{escape(str(self.run.folder))}</code></p>")
        return "\n".join(lines)

    def _format_title(self) -> str:
        config = self.run.config
        return f"Search of {config.space} with {config.score_name} on {config.data}"


class SearchOptions(ComputeOptions, total=False):
    """Further options of `search`.

    Attributes:
        input_size: Side of the square images that networks see; None for that of the data card in
            the default space, else for that of the space.
        latency_table: Latencies that were measured on another device, as a CSV file.
        time: Time for the whole search, with a unit: "30m". It includes scoring, the short
            trainings that choose the winner, and the training of the winner.
        stable: Stop when the best `top` architectures have not changed during this many new ones.
        top: Number of best architectures that `stable` compares.
        screen: Cheap proxies that select the architectures to score with `proxy`.
        keep: Share of the architectures that pass the screen: "20%".
        also: Additional proxies to record.
        validate: How the strategies hnas and best_of_pool validate their final candidates.
        warm_up: Training on a share of the data before networks are scored: "10%".
        seed: First seed of sampling, weights and batches.
        seeds: Number of seeds to average over.
        data_root: Folder of data sets; None for the default.
        workers: Number of worker processes; None for one per core or per GPU.
        ray: "local", or the address of a Ray cluster; None to use processes of this machine.
        time_limit: Longest time for scoring one architecture, such as "30s".
        networks_per_batch: Number of networks that a worker measures in one pass.
        confirm: Choose the winner by short trainings of this many networks per group; 0 for none.
            The default is 3 on pictures of your own, 5 on tables of your own, else 0. For data in
            Python it is 0, unless `export` is set.
        effort: "quick" (15 minutes), "normal" (1 hour) or "thorough" (4 hours). The default is
            "quick" if pictures of your own, or arrays in Python that are not rows, have a contest
            and `time` is not set, else no limit.
        export: Train the winner, and export it to this folder.
        recipe: Recipe of that training; None for the default.
        refit: "all" to train on all samples in the end, test part included.
    """

    input_size: int | None
    latency_table: str | Path | None
    time: str | None
    effort: str
    stable: int | None
    top: int
    screen: str
    keep: str
    also: str
    validate: str
    warm_up: str
    confirm: int | None
    export: str | Path | None
    recipe: str | None
    refit: str | None
    seed: int
    seeds: int
    data_root: str | Path | None


def search(
    space: str | Space = DEFAULT_SPACE,
    proxy: str | Proxy = DEFAULT_PROXY,
    strategy: str = "random",
    budget: int | None = None,
    data: object = DEFAULT_DATA,
    *,
    limits: Mapping[str, str | float | None] | None = None,
    device: str = "cpu",
    run: str | Path | None = None,
    on_progress: ProgressCallback | None = None,
    **options: Unpack[SearchOptions],
) -> SearchResult:
    """Search a space for the best architecture with a proxy. Ctrl-C keeps the best so far.

    The same call resumes a search that was stopped.

    Args:
        space: A space, or its name; "auto" for the one that suits the data: `convnet` for your own
            pictures, `mlp` for tables and arrays that contain only numbers, `nasrec_small` for
            other tables, and `nasbench201` for everything else.
        proxy: A proxy, or its name; "auto" for the one that a calibration of this space recommends.
        strategy: Name of the strategy, with options in brackets: "evolution(population=32)".
        budget: Number of architectures to score; 100 if nothing else ends the search.
        data: What networks see: a name such as "digits" or "folder:./photos", a tensor or numpy
            array of inputs, a pair of inputs and labels, a torch Dataset or a DataLoader. With
            `confirm`, `export` or `warm_up`, networks are trained on them as `train` does it.
        limits: Limits on the architectures: {"params": "1M", "latency": "5ms"}. The keys are
            params, min_params, flops, memory and latency. Latency is measured on this machine,
            unless the option `latency_table` names a table of another device.
        device: A torch device.
        run: The run folder; None for one under `runs/` that is named after the search.
        on_progress: Called after every architecture and every step. Its argument has `stage`,
            `done`, `total` and `best`, the best architecture so far with its score.
        **options: All other options, see `SearchOptions`.

    Returns:
        The records, their ranking and the run folder.

    Raises:
        UsageError: An argument is wrong, or arguments contradict each other.

    Example:
        >>> import untrained as ut
        >>> result = ut.search(
        ...     "nasbench201(channels=4)", "naswot", budget=5, limits={"params": "50k"}, workers=1
        ... )
        >>> len(result.ranking.standings)
        5
        >>> result.best == result.ranking.standings[0].arch
        True
    """
    check_option_names(search, options, SearchOptions.__annotations__)
    check_space_argument(space)
    check_proxy_argument(proxy)
    export = options.pop("export", None)
    recipe = options.pop("recipe", None)
    refit = options.pop("refit", None)
    confirm = options.pop("confirm", None)
    compute_options: dict[str, Any] = {"device": device}
    search_options: dict[str, Any] = {"run": run}
    for name, value in options.items():
        if name in ComputeConfig.__dataclass_fields__:
            compute_options[name] = value
        else:
            search_options[name] = value
    # A config is plain data and holds names only, so the objects are passed beside it.
    space_object = None
    if isinstance(space, Space):
        space_object = space
        space = space.name
    proxy_object = None
    if isinstance(proxy, Proxy):
        proxy_object = proxy
        proxy = proxy.label
    has_training = bool(confirm) or export is not None or bool(options.get("warm_up"))
    search_data = _open_search_data(data, has_training)
    if confirm is None:
        confirm = search_data.choose_group_size(has_export=export is not None)
    is_time_set = options.get("time") is not None or bool(options.get("effort"))
    if confirm and not is_time_set:
        search_options["effort"] = search_data.choose_effort()
    config = SearchConfig(
        space=space,
        proxy=proxy,
        strategy=strategy,
        budget=budget,
        data=search_data.name,
        limits=limits or {},
        confirm=confirm,
        compute=ComputeConfig(**compute_options),
        **search_options,
    )
    time_plan = TimePlan.begin(config.time_seconds, config.confirm > 0, export is not None)

    def run_configured_search() -> SearchResult:
        return run_search(
            config,
            on_progress,
            space=space_object,
            proxy=proxy_object,
            samples=search_data.samples,
            source=search_data.source,
            time_plan=time_plan,
        )

    if export is None:
        _refuse_options_of_export(recipe, refit)
        return run_configured_search()
    # Imported here, because this module needs the result of a search.
    from untrained.workflows.winner_export import WinnerExportOptions, check_winner_export

    if refit not in (None, "all"):
        raise UsageError(f"refit is {show_value(refit)}; write refit='all', or leave it out")
    out = parse_path(export, "export")
    # A search may take hours, so check first whether its winner can be exported.
    check_winner_export(out, recipe, config.run)
    result = run_configured_search()
    export_options = WinnerExportOptions(
        run=result.run.folder,
        out=out,
        space=result.run.config.space if space_object is None else space_object,
        recipe=recipe,
        device=config.compute.device,
        data_root=config.data_root,
        seconds=time_plan.allot_seconds(TRAINING),
        refit=refit or "",
        source=search_data.source,
    )
    return _export_winner(result, export_options, on_progress)


@dataclass(frozen=True)
class _SearchData:
    """The data of `search`, in the forms that `run_search` takes.

    Attributes:
        name: Name of the data; `DATASET_NAME` for objects in Python.
        samples: Objects in Python that nothing is trained on; None for all other data.
        source: Data that are loaded already; None for all other data.
    """

    name: str
    samples: Samples | None = None
    source: DataSource | None = None

    def choose_group_size(self, has_export: bool) -> int:
        """Return the default of `confirm`.

        For named data, it is the same as on the command line. For data in Python, it depends on
        their shape, and is 0 without an export.

        Args:
            has_export: Whether the winner is exported.
        """
        if self.source is not None and self.name == DATASET_NAME and has_export:
            if self.source.is_table:
                return DEFAULT_TABLE_GROUP_SIZE
            return DEFAULT_CONTEST_GROUP_SIZE
        return get_default_group_size(self.name)

    def choose_effort(self) -> str:
        """Return the default of `effort`.

        For named data, it is the same as on the command line. For data in Python, it depends on
        their shape.
        """
        if self.source is not None and self.name == DATASET_NAME and not self.source.is_table:
            return "quick"
        return get_default_effort(self.name)


def _open_search_data(data: object, has_training: bool) -> _SearchData:
    """Open the data of `search`. A name is not opened.

    Args:
        data: The data in any form.
        has_training: Whether networks are trained on them.

    Raises:
        UsageError: The data have another type, or cannot be used.
    """
    if is_samples(data) and has_training:
        return _SearchData(DATASET_NAME, source=make_training_source(open_training_samples(data)))
    if is_samples(data):
        return _SearchData(DATASET_NAME, samples=open_samples(data))
    if isinstance(data, DataSource):
        return _SearchData(data.task.dataset, source=data)
    if isinstance(data, Path):
        return _SearchData(name_data_path(data))
    return _SearchData(parse_data_name(data))


def _refuse_options_of_export(recipe: str | None, refit: str | None) -> None:
    """Refuse options that have no effect without `export`."""
    for name, value in {"recipe": recipe, "refit": refit}.items():
        if value is not None:
            raise UsageError(
                f"{name} has no effect without export: add export='model', or leave it out"
            )


def _export_winner(
    result: SearchResult, options: "WinnerExportOptions", on_progress: ProgressCallback | None
) -> SearchResult:
    """Train and export the winner. Without a winner, the result has no export."""
    from untrained.workflows.winner_export import (
        announce_winner_export,
        export_trained_winner,
        rewrite_report_on_failure,
        train_winner,
    )

    result = announce_winner_export(result, options.out, options.recipe, options.refit)
    if not result.has_winner:
        return result
    with rewrite_report_on_failure(options.run):
        training = train_winner(options, on_progress)
        export_result = export_trained_winner(options)
    return replace(result, training=training, export_result=export_result)


def run_search(
    config: SearchConfig,
    on_progress: ProgressCallback | None = None,
    *,
    space: Space | None = None,
    proxy: Proxy | None = None,
    samples: Samples | None = None,
    source: DataSource | None = None,
    on_data: Callable[[DataSource], None] | None = None,
    on_plan: Callable[[str], None] | None = None,
    time_plan: TimePlan | None = None,
) -> SearchResult:
    """Search a space and keep everything in a run folder; the same config resumes.

    Args:
        config: What the user asks for.
        on_progress: Called after every architecture and every step.
        space: The space itself, if it cannot be loaded by the name in `config`.
        proxy: The proxy itself, if it cannot be loaded by the name in `config`.
        samples: The data, if they are objects in Python that nothing is trained on.
        source: The data, if they are loaded already.
        on_data: Called with the data before the work begins.
        on_plan: Called with the time plan in words, before networks are scored.
        time_plan: How the time is divided among the phases; None to make a plan from `config`,
            without a training of the winner.

    Returns:
        The records, their ranking and the run folder.

    Raises:
        UsageError: A name is unknown, settings contradict each other, or the folder holds another
            run.
        Interrupted: Ctrl-C was pressed during the warm-up, so there is nothing to rank.
    """
    if time_plan is None:
        time_plan = TimePlan.begin(config.time_seconds, config.confirm > 0, has_training=False)
    live_report = LiveReport(on_progress)
    setup = prepare_search(
        config,
        live_report.update,
        space=space,
        proxy=proxy,
        samples=samples,
        source=source,
        on_data=on_data,
        scoring_seconds=time_plan.allot_seconds(SCORING),
    )
    run = _open_run(setup)
    finished_phases = _list_finished_phases(setup, run, time_plan)
    if finished_phases and setup.budget.seconds is not None:
        # More scores would not change which network wins. A search scores at least one network per
        # session.
        setup = replace(setup, budget=replace(setup.budget, seconds=0.0))
    remark = ""
    if time_plan.describe() or finished_phases:
        remark = f"The plan: {_describe_time_plan(setup, time_plan, {}, finished_phases)}."
    with live_report.follow(run, remark):
        run, durations = _limit_network_size(setup, run, time_plan)
        if on_plan is not None and (time_plan.describe() or finished_phases):
            on_plan(_describe_time_plan(setup, time_plan, durations, finished_phases))
        weights = _warm_up(setup, run)
        with _open_executor(setup, run, weights) as executor:
            run.save()
            result = _run_session(setup, run, executor, weights)
        if setup.config.confirm and result.has_winner:
            result = _train_best(setup, result, time_plan)
        live_report.training_follows = result.has_winner and TRAINING in time_plan.phases
        return _save_drawing(setup, result)


def _list_finished_phases(setup: SearchSetup, run: RunFolder, time_plan: TimePlan) -> list[str]:
    """Return the contest and the training, if the same command on pictures finished them before.

    Their results are read from the run folder. The list is empty if the settings have changed.
    """
    if CONTEST_PHASE not in time_plan.phases or setup.source.is_table or not run.has_records():
        return []
    former_run = RunFolder.read(run.folder)
    # A folder may have been moved.
    former_config = replace(former_run.config, run=run.config.run)
    if former_config.to_document() != run.config.to_document():
        return []
    try:
        contest = Contest.read(former_run)
    except UsageError:
        # The file is damaged. It will be written again.
        return []
    if contest is None or contest.end_reason == "interrupted":
        return []
    phases = [CONTEST_PHASE]
    if TRAINING in time_plan.phases and (run.folder / TRAINING_FILE).is_file():
        training_key = read_training_key(run.folder)
        if training_key is not None and training_key.arch == contest.winner:
            phases.append(TRAINING)
    return phases


def _describe_time_plan(
    setup: SearchSetup,
    time_plan: TimePlan,
    durations: Mapping[str, float],
    finished_phases: Sequence[str],
) -> str:
    """Return how the time is divided among the phases.

    On a table, the contest includes the training of the winner on all rows. Every network there is
    trained for at least one epoch, so the time is not an upper limit.

    Args:
        setup: The search.
        time_plan: The plan.
        durations: See `TimePlan.describe`.
        finished_phases: Phases whose results are read from the run folder.
    """
    if finished_phases:
        verb = "is" if len(finished_phases) == 1 else "are"
        text = f"the finished {join_words(finished_phases)} of this run {verb} reused"
        left_out = list(finished_phases)
        if setup.budget.seconds == 0:
            left_out.append(SCORING)
        other_phases = tuple(phase for phase in time_plan.phases if phase not in left_out)
        if not other_phases or other_phases == (SCORING,):
            return text
        if other_phases == (TRAINING,):
            return f"{text}; the training continues"
        plan = replace(time_plan, phases=other_phases).describe(durations)
        return f"{text}; {plan}"
    remaining = time_plan.get_remaining_seconds()
    scoring = time_plan.allot_seconds(SCORING)
    if not setup.source.is_table or remaining is None or scoring is None:
        return time_plan.describe(durations)
    total = format_duration(setup.config.time_seconds or remaining)
    contest = format_duration(remaining - scoring)
    return f"about {total}: {format_duration(scoring)} scoring, {contest} contest"


def _open_run(setup: SearchSetup) -> RunFolder:
    """Open the run folder, and refuse limits that no architecture satisfies. Nothing is written."""
    criterion = setup.plan.criterion
    objectives: list[dict[str, Any]] = []
    if setup.strategy_spec.needs_objectives:
        objectives = setup.plan.describe_objectives()
    run = RunFolder.open(
        setup.config,
        measure=criterion.measure,
        higher_is_better=criterion.higher_is_better,
        about=criterion.about,
        objectives=objectives,
        additional=[proxy.measure for proxy in setup.plan.additional_proxies],
        space_size=setup.space.size,
    )
    setup.stages.step_log.open(run.folder, run.describe_requests(), setup.budget.total)
    if not run.has_records():
        setup.limits.check(setup.config.time_seconds)
    return run


def _limit_network_size(
    setup: SearchSetup, run: RunFolder, time_plan: TimePlan
) -> tuple[RunFolder, dict[str, float]]:
    """Before a contest, limit the proposals to networks that can be trained in the given time.

    A resumed search has the limit of its first session, so that it proposes the same networks.

    Returns:
        The run, and the longest useful duration of the contest and of the training, in seconds by
        phase; empty if they are not known.
    """
    config = setup.config
    durations: dict[str, float] = {}
    if not config.confirm or setup.source.is_table:
        return run, durations
    if not setup.strategy_spec.accepts_extra_proposals:
        return run, durations
    if run.training_time_limit is None and not run.has_records():
        settings = _make_contest_settings(setup, run, time_plan)
        size = measure_trainable_size(setup.limits.make_size_space(), settings)
        if size is not None:
            run = replace(run, training_time_limit=size.limit)
            # The contest has at most 2 * confirm of the best by score, confirm of the largest and
            # confirm / 2 random ones (`_choose_contest_groups`), and the known designs.
            entries = ceil(3.5 * config.confirm) + size.designs
            durations[CONTEST_PHASE] = estimate_longest_contest(
                entries, size.samples, size.step_seconds, settings.recipe.batch
            )
            durations[TRAINING] = estimate_longest_training(
                size.samples, size.step_seconds, settings.recipe.batch
            )
    if run.training_time_limit is not None:
        setup.limits.limit_training_time(run.training_time_limit)
    return run, durations


def _make_contest_settings(
    setup: SearchSetup, run: RunFolder, time_plan: TimePlan
) -> ContestSettings:
    """Return how networks are trained in the contest that begins now."""
    config = setup.config
    recipe_name = get_default_recipe_name(setup.source.task, belongs_to_user(config.data))
    recipe = adapt_recipe(load_recipe(recipe_name), setup.source)
    return ContestSettings(
        space=setup.named_space,
        data=config.data,
        source=setup.source,
        recipe=recipe,
        seconds=time_plan.allot_seconds(CONTEST_PHASE),
        seed=config.seed,
        compute=replace(config.compute, networks_per_batch=1),
        folder=run.folder,
        search_key=run.search_key,
        final_seconds=time_plan.estimate_training_seconds(),
    )


def _warm_up(setup: SearchSetup, run: RunFolder) -> WeightSource | None:
    """Train the supernet for `--warm-up`, or read it from the run folder.

    Returns:
        The weights that networks are scored with; None for fresh ones.

    Raises:
        Interrupted: Ctrl-C was pressed. The last checkpoint stays.
    """
    if setup.warm_up is None:
        return None
    # The checkpoint of the warm-up needs the folder.
    run.save()
    config = setup.config
    return setup.warm_up.prepare_weights(
        setup.space, config.seed, config.compute.device, run.folder, setup.on_progress
    )


def _open_executor(
    setup: SearchSetup, run: RunFolder, weights: WeightSource | None
) -> AbstractContextManager[Executor]:
    """Open the executor that scores networks."""
    compute = setup.config.compute
    plan = setup.plan
    worker_setup = make_worker_setup(
        setup.named_space,
        plan.all_proxies,
        setup.batches,
        compute,
        plan.proxy_names_by_measure,
        weights,
    )
    network_count = setup.budget.total
    if setup.strategy_spec.needs_validation:
        # The budget counts validated architectures; the pool is larger.
        network_count = None
    if network_count is not None:
        network_count = max(network_count, setup.reference_size)
    # If there are records, perhaps none is missing. Workers then start at the first missing one, so
    # that a finished run can be read on a machine without its device.
    lazy = run.has_records()
    if not lazy and setup.limits.max_latency is not None and not isinstance(worker_setup, Worker):
        # Workers that are starting would disturb the first measurements of latency.
        check_device(compute.device)
        lazy = True
    return open_executor(worker_setup, compute, network_count, lazy=lazy)


def _run_session(
    setup: SearchSetup, run: RunFolder, executor: Executor, weights: WeightSource | None
) -> SearchResult:
    """Run the strategy until its budget is spent or Ctrl-C, rank its records and save the run."""
    stages = setup.stages
    with Store(run.store_path) as store:
        stages.connect(executor, store, weights)
        search_key = run.compute_search_key(stages.list_requests() + setup.limits.list_requests())
        run = replace(run, search_key=search_key).save()
        setup.limits.use_store(store, run.search_key)
        ask_size = _choose_ask_size(setup, executor)
        space = setup.limits.space
        limit_sampling_time = space.limit_sampling_time if space.has_limits else None
        start = perf_counter()
        budget = setup.budget
        reference = setup.sample_reference()
        if reference:
            budget = budget.subtract_seconds(perf_counter() - start)
        driver_result = stages.run(
            setup.strategy,
            budget,
            run.search_key,
            reference,
            ask_size,
            limit_sampling_time,
        )
        ranked = _rank_within_latency_limit(run, setup.limits, store, setup.known_designs)
        best = None
        if ranked.ranking.standings:
            best = ranked.ranking.standings[0].arch
        aggregates = [fitted.describe() for fitted in stages.fitted_aggregates]
        run = replace(run, limit_results=setup.limits.describe(best), aggregates=aggregates)
        if setup.known_designs:
            run = replace(run, known_designs=setup.known_designs)
    warm_up_seconds = 0.0
    if weights is not None:
        warm_up_seconds = weights.seconds
    worker_rows = [cost.row() for cost in executor.costs()]
    run = run.add_session(
        worker_rows,
        driver_result.seconds,
        driver_result.end_reason,
        warm_up_seconds,
        stages.step_log,
    )
    run.save()
    write_trace(run.folder, setup.strategy)
    # An earlier contest or confirmation may belong to another ranking.
    (run.folder / CONTEST_FILE).unlink(missing_ok=True)
    (run.folder / CONFIRMATION_FILE).unlink(missing_ok=True)
    return SearchResult(run, ranked.records, ranked.ranking)


def _choose_ask_size(setup: SearchSetup, executor: Executor) -> int:
    """Return how many architectures to ask for at a time.

    After each request, some workers wait for the slowest one, so large requests are better. With
    limits, proposals are expensive, because most of them are rejected, so requests are smaller.
    """
    if setup.limits.texts:
        return DEFAULT_ASK_SIZE
    compute = setup.config.compute
    workers = compute.workers or executor.workers
    return max(DEFAULT_ASK_SIZE, ASK_SIZE_PER_WORKER * workers * compute.networks_per_batch)


def _rank_within_latency_limit(
    run: RunFolder, limits: SearchLimits, store: Store, known_designs: Mapping[str, str]
) -> RunRanking:
    """Rank the records of a run.

    If latency is limited, every architecture that may win is measured first, including those that
    will be trained in a contest or a confirmation.
    """
    records = read_records(run, store)
    if limits.max_latency is None:
        return rank_run(run, records)

    def rank(some_records: list[Record]) -> Ranking:
        return rank_run(run, some_records).ranking

    def list_contenders(ranking: Ranking, some_records: Sequence[Record]) -> list[Arch]:
        contenders: list[Arch] = []
        if run.config.confirm:
            groups = _choose_contest_groups(ranking, some_records, run)
            for archs in groups.values():
                contenders.extend(archs)
            # Known designs compete in the contest, wherever they are in the ranking.
            for standing in ranking.standings:
                if str(standing.arch) in known_designs:
                    contenders.append(standing.arch)
        return contenders

    limits.measure_finalists(records, rank, list_contenders)
    # Read again, because the latencies are records too.
    return rank_run(run, read_records(run, store))


def _train_best(setup: SearchSetup, result: SearchResult, time_plan: TimePlan) -> SearchResult:
    """Train some architectures briefly; the best of them is the winner.

    This is a confirmation on tables and a contest on other data. Ctrl-C keeps what is finished.
    """
    data_title = describe_data(setup.config.data, setup.source)
    run = replace(result.run, data_title=data_title)
    if setup.source.is_table:
        try:
            confirmation = confirm_ranking(
                run,
                result.ranking,
                result.records,
                setup.named_space,
                setup.source,
                setup.on_progress,
                # The winner is trained in the comparison, so it has the time of its training too.
                time_plan.get_remaining_seconds(),
            )
        except Interrupted:
            return replace(result, run=replace(run, end_reason="interrupted").save())
        result = replace(result, confirmation=confirmation)
    else:
        try:
            contest = _run_contest(setup, result, _make_contest_settings(setup, run, time_plan))
        except Interrupted:
            return replace(result, run=replace(run, end_reason="interrupted").save())
        result = replace(result, contest=contest)
        if contest is not None and contest.end_reason == "interrupted":
            run = replace(run, end_reason="interrupted")
    # The winner may have changed, and the run folder describes its values for the limits.
    with Store(run.store_path) as store:
        setup.limits.use_store(store, run.search_key)
        limit_rows = setup.limits.describe(result.best)
    if result.confirmation is not None and result.confirmation.winning_design:
        limit_rows = _describe_limits_of_design(limit_rows, result.confirmation)
    return replace(result, run=replace(run, limit_results=limit_rows).save())


def _describe_limits_of_design(
    limit_rows: list[dict[str, Any]], confirmation: Confirmation
) -> list[dict[str, Any]]:
    """Return the rows of `SearchLimits.describe` with the values of the hand-designed winner."""
    entry = confirmation.winner_entry
    assert entry is not None
    rows = []
    for row in limit_rows:
        # `source` and `predicted` are left out, because they are about the searched architecture.
        rows.append(
            {
                "limit": row["limit"],
                "text": row["text"],
                "rejected": row["rejected"],
                "value": entry.limit_values.get(row["limit"]),
            }
        )
    return rows


def _run_contest(
    setup: SearchSetup, result: SearchResult, settings: ContestSettings
) -> Contest | None:
    """Run the contest between the best, the largest and random architectures and known designs.

    Args:
        setup: The search.
        result: Its result so far.
        settings: How networks are trained.
    """
    run = result.run
    archs = {str(standing.arch): standing.arch for standing in result.ranking.standings}
    entries = _make_entries(result, settings.recipe.rate)

    def add_latency(entry: ContestEntry) -> ContestEntry | None:
        if setup.limits.max_latency is None:
            return entry
        with Store(run.store_path) as store:
            setup.limits.use_store(store, run.search_key)
            latency = setup.limits.measure_latency_within_limit(archs[entry.arch])
        if latency is None:
            return None
        return replace(entry, latency=latency)

    substitutes = Substitutes(
        _make_substitute_candidates(result, settings.recipe.rate), add_latency
    )
    return run_contest(entries, archs, settings, setup.on_progress, substitutes)


def _choose_contest_groups(
    ranking: Ranking, records: Sequence[Record], run: RunFolder
) -> dict[str, list[Arch]]:
    """Choose the entries of the contest: the best by score, and fewer largest and random ones.

    With about ten short trainings, training the best by score finds better networks than training
    the largest or random ones (docs/results/few-trainings.md). The largest and random ones are
    there to show whether this holds on the user's data. In a small search, most networks would be
    among the `confirm` largest, so at most a quarter of them count as the largest.
    """
    count = run.config.confirm
    largest_count = min(count, ceil(len(ranking.standings) / 4))
    groups = choose_groups(ranking, records, BEST_FACTOR * count, run)
    contest_groups = {}
    for name, archs in groups.items():
        # The group of the proxy is complete, even if the proxy is `params` or `random`.
        if name == run.config.score_name:
            contest_groups[name] = archs
        elif name == "params":
            contest_groups[name] = archs[:largest_count]
        else:
            contest_groups[name] = archs[: ceil(count / 2)]
    return contest_groups


def _make_entries(result: SearchResult, rate: float) -> list[ContestEntry]:
    """Return the entries of the contest, each architecture once, the most promising first.

    The best by score and the known designs alternate, the designs in the order of the space. The
    largest and random ones follow.
    """
    run = result.run
    groups = _choose_contest_groups(result.ranking, result.records, run)
    scored_archs = {str(standing.arch) for standing in result.ranking.standings}
    selections: dict[str, list[str]] = {}
    designs = []
    for arch_text, name in run.known_designs.items():
        if arch_text in scored_archs:
            selections[arch_text] = [f"{DESIGN_PREFIX}{name}"]
            designs.append(arch_text)
    best = []
    others = []
    for group_name, archs in groups.items():
        is_proxy_group = group_name == run.config.score_name
        if is_proxy_group:
            selection = f"{BEST_PREFIX}{group_name}"
        else:
            selection = CONTEST_GROUPS[group_name]
        for arch in archs:
            selections.setdefault(str(arch), []).append(selection)
            if is_proxy_group:
                best.append(str(arch))
            else:
                others.append(str(arch))
    ordered = []
    for best_arch, design in zip_longest(best, designs):
        ordered += [best_arch, design]
    ordered += others
    sizes = _read_sizes(result.records)
    latencies = {}
    for record in result.records:
        if record.measure.startswith("latency(") and record.value is not None:
            latencies[str(record.arch)] = record.value
    entries = []
    # The shorter of the two lists is padded with None.
    arch_texts = dict.fromkeys(text for text in ordered if text is not None)
    for number, arch_text in enumerate(arch_texts, 1):
        entry = ContestEntry(
            number=number,
            arch=arch_text,
            selections=tuple(selections[arch_text]),
            rate=rate,
            params=sizes.get(arch_text),
            latency=latencies.get(arch_text),
        )
        entries.append(entry)
    return entries


def _make_substitute_candidates(result: SearchResult, rate: float) -> list[ContestEntry]:
    """Return the networks that follow the best by score in the ranking; see `Substitutes`."""
    config = result.run.config
    sizes = _read_sizes(result.records)
    candidates = []
    for standing in result.ranking.standings[BEST_FACTOR * config.confirm :]:
        arch_text = str(standing.arch)
        candidate = ContestEntry(
            number=0,
            arch=arch_text,
            selections=(f"{BEST_PREFIX}{config.score_name}",),
            rate=rate,
            params=sizes.get(arch_text),
        )
        candidates.append(candidate)
    return candidates


def _read_sizes(records: Sequence[Record]) -> dict[str, int]:
    """Return numbers of parameters by architecture."""
    sizes = {}
    for record in records:
        if record.proxy == "params" and record.value is not None:
            sizes[str(record.arch)] = int(record.value)
    return sizes


def _save_drawing(setup: SearchSetup, result: SearchResult) -> SearchResult:
    """Save the diagram of the winner: a report does not load the space, which may be user code."""
    if not result.ranking.standings:
        return result
    winner = result.best
    diagram = catch_failure(setup.space.draw, winner, setup.source.task)
    if isinstance(diagram, Failure):
        return result
    drawing = {"arch": str(winner), "sketch": serialise_diagram(diagram)}
    return replace(result, run=replace(result.run, drawing=drawing).save())
