"""`report(folder)`: write the HTML report of a run folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from untrained.benchmarks.result import BENCHMARK_FILE, BenchmarkResult
from untrained.benchmarks.statistics import orient_score
from untrained.drawings.diagrams import Diagram, read_diagram
from untrained.errors import UsageError
from untrained.files import write_atomically
from untrained.formatting import format_now
from untrained.names import parse_call
from untrained.quantities import parse_path
from untrained.reports.confirmation_result import Confirmation
from untrained.reports.contest_result import Contest
from untrained.reports.pages.benchmark_page import render_benchmark_page
from untrained.reports.pages.reproduction_page import render_reproduction_page
from untrained.reports.pages.search_page import render_search_page
from untrained.reports.pages.training_page import render_training_page
from untrained.reports.reproduction_result import RESULT_FILE, ReproductionResult
from untrained.reports.search_summary import (
    ConsensusSummary,
    FailedArch,
    LimitResult,
    RankedArch,
    SearchSummary,
    Tradeoff,
    TradeoffPoint,
    WorkerTimes,
)
from untrained.runs.folder import RUN_FILE, RunFolder
from untrained.runs.ranking import Ranking, collect_columns, compute_fitnesses
from untrained.runs.reference import describe_consensus, describe_scale, get_confirm_advice
from untrained.runs.session import SESSION_FILE, Session, read_session
from untrained.runs.trace import read_prediction, read_trace
from untrained.runs.winner import (
    RunRanking,
    find_winner,
    rank_run,
    read_ranking,
    read_winning_design,
)
from untrained.spaces import SPACES, Space
from untrained.strategies.nsga2 import find_pareto_front
from untrained.training.checkpoint import WEIGHTS_FILE
from untrained.training.folder import has_unfinished_training
from untrained.training.result import TRAINING_FILE, TrainingResult
from untrained.types import Arch, Record

REPORT_FILE = "report.html"
# The page of a run in progress reloads after this time.
RELOAD_SECONDS = 5


def report(folder: str | Path) -> Path:
    """Write `report.html` of a search, a training, a benchmark or a reproduction.

    An existing report is replaced.

    Args:
        folder: The run folder.

    Returns:
        The path of the report.

    Raises:
        UsageError: The folder contains no run, or its files are damaged.

    Example:
        >>> import untrained as ut
        >>> result = ut.search("nasbench201", "params", budget=3, workers=1, run="runs/small")
        >>> ut.report("runs/small").name
        'report.html'
    """
    folder = parse_path(folder, "folder")
    return write_report(folder)


def write_report(folder: Path, reload_seconds: int | None = None) -> Path:
    """Write `report.html` of a run folder.

    Args:
        folder: The run folder.
        reload_seconds: The page reloads after this time; None if nothing follows. The page of a run
            that another process works on always reloads.

    Returns:
        The path of the report.

    Raises:
        UsageError: The folder contains no run, or its files are damaged.
    """
    try:
        page = _render_page(folder, reload_seconds)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        # Files of a folder may contain anything: text instead of a number, or a list that is too
        # short.
        message = " ".join(str(error).split())
        raise UsageError(
            f"cannot write a report of {folder}, because its files are damaged: "
            f"{type(error).__name__}: {message}"
        ) from error
    path = Path(folder, REPORT_FILE)
    write_atomically(path, page)
    return path


def refresh_report_of_killed_run(folder: Path) -> None:
    """If the run was killed, rewrite its report so that it no longer reloads.

    Args:
        folder: The folder of any run.

    Raises:
        UsageError: The files of the run are damaged.
    """
    session = read_session(folder)
    if session is None or session.is_running:
        return
    page = folder / REPORT_FILE
    killed_at = (folder / SESSION_FILE).stat().st_mtime
    # A report that was written after the run was killed needs no change. The last live page was
    # written less than a second after the session file, so a page must be more than that newer.
    if page.is_file() and page.stat().st_mtime > killed_at + 1.0:
        return
    write_report(folder)


def read_run_outcome(folder: str | Path) -> dict[str, Any]:
    """Read the result of a search or a training as plain data for `--json`.

    Returns:
        For a search: `best`, `winner`, `contest`, `confirmed`, `trained` and `weights`, each of
        which can be None. `winner` is `best`, the best architecture, or the hand-designed network
        that won against it. For a training: `trained` and `weights`. For other folders: an empty
        dictionary.
    """
    training = _read_training(folder)
    result: dict[str, Any] = {}
    if Path(folder, RUN_FILE).is_file():
        run = RunFolder.read(folder)
        contest = Contest.read(run)
        confirmation = Confirmation.read(run)
        winner = find_winner(run, read_ranking(run))
        names = ("best", "winner", "contest", "confirmed", "trained", "weights")
        result = dict.fromkeys(names)
        if winner:
            result["best"] = str(winner.arch)
            result["winner"] = read_winning_design(run) or str(winner.arch)
        if contest:
            result["contest"] = contest.to_summary()
        if confirmation:
            result["confirmed"] = confirmation.to_document()
    # The training in the folder of a search may be that of an earlier winner.
    if training and training.key.arch == result.get("winner", training.key.arch):
        result["trained"] = training.to_document()
        result["weights"] = str(Path(folder, WEIGHTS_FILE))
    return result


def _render_page(folder: str | Path, reload_seconds: int | None) -> str:
    if Path(folder, BENCHMARK_FILE).is_file():
        return render_benchmark_page(BenchmarkResult.read(folder))
    if Path(folder, RESULT_FILE).is_file():
        return render_reproduction_page(ReproductionResult.read(folder))
    if not Path(folder, RUN_FILE).is_file():
        training = _read_training(folder)
        if training:
            return render_training_page(training)
        if has_unfinished_training(Path(folder)):
            raise UsageError(
                f"{folder} has no report yet, because the training in it was stopped or still "
                "runs; if it was stopped, the same `untrained train` command resumes it"
            )
    run = RunFolder.read(folder)
    session = read_session(folder)
    if not run.store_path.is_file() and session is not None:
        # Nothing was measured before the process was killed.
        ranked = rank_run(run, [])
    else:
        ranked = read_ranking(run)
    summary = summarise_run(run, ranked)
    if session is not None and session.is_running:
        ending = describe_running_session(session)
        summary = replace(summary, ending=ending, stopped_early=False)
        reload_seconds = RELOAD_SECONDS
    elif session is not None:
        ending = describe_killed_session(session)
        summary = replace(summary, ending=ending, stopped_early=True)
    elif reload_seconds is not None:
        ending = "The winner is being trained. This page reloads."
        summary = replace(summary, ending=ending, stopped_early=False)
    return render_search_page(summary, reload_seconds)


def describe_unfinished_session(folder: Path) -> str:
    """Describe in a sentence that a run is in progress or was killed; empty if it is neither.

    Args:
        folder: The folder of any run.
    """
    session = read_session(folder)
    if session is None:
        return ""
    if session.is_running:
        return describe_running_session(session)
    return describe_killed_session(session)


def describe_running_session(session: Session) -> str:
    """Describe in a sentence that a session is in progress, with its progress."""
    return (
        f"A command is working on this run ({session.text}). The report shows what is stored so "
        "far."
    )


def describe_killed_session(session: Session) -> str:
    """Describe in a sentence that the last session was killed, with its progress."""
    return (
        f"The last session was killed ({session.text}). What was finished is kept, and the same "
        "command resumes."
    )


def make_search_title(run: RunFolder) -> str:
    """Return the title of the page of a search."""
    return run.data_title or f"Architecture search for {run.config.data}"


def _find_export(run: RunFolder) -> str:
    """Return the folder to which the winner was exported; empty if there is none."""
    if not run.export or not Path(run.export, "predict.py").is_file():
        return ""
    return run.export


def _read_training(folder: str | Path) -> TrainingResult | None:
    if not Path(folder, TRAINING_FILE).is_file():
        return None
    return TrainingResult.read(folder)


def summarise_run(run: RunFolder, ranked: RunRanking) -> SearchSummary:
    """Return the facts about a search that its report shows."""
    config = run.config
    ranking = ranked.ranking
    records = list(ranked.records)
    space = _find_builtin_space(config.space)
    arch_count = len({record.arch for record in records})
    failed = []
    for arch, failure in ranking.failed:
        failed.append(FailedArch(str(arch), failure.kind, failure.detail, failure.trace))
    limits = []
    for row in run.limit_results:
        limits.append(
            LimitResult(
                name=row["limit"],
                requested=row["text"],
                rejected=row["rejected"],
                value=row["value"],
                source=row.get("source", ""),
            )
        )
    other_columns = collect_columns(records, run.additional)
    peaks = [record.peak_bytes for record in records if record.peak_bytes]
    confirmation = Confirmation.read(run)
    contest = Contest.read(run)
    advice = get_confirm_advice(has_trained=contest is not None or confirmation is not None)
    # The command trains networks if it has `--confirm` or `--export`.
    has_trainings = config.confirm > 0 or bool(run.export)
    return SearchSummary(
        title=make_search_title(run),
        command=run.to_command(),
        space=config.space,
        space_size=space.size if space else run.space_size,
        proxy=config.score_name,
        proxy_about=run.about,
        higher_is_better=run.higher_is_better,
        ranking=tuple(_list_ranked(ranking, records, other_columns)),
        other_proxies=tuple(other_columns),
        failed=tuple(failed),
        diagram=_make_diagram(space, run, ranked),
        settings=_list_settings(run),
        versions=run.versions,
        cost=_sum_costs(run, records),
        workers=tuple(_read_worker(row) for row in run.workers),
        peak_bytes=max(peaks, default=None),
        notes=tuple(dict.fromkeys(record.note for record in records if record.note)),
        consensus=tuple(_summarise_consensus(facts, advice) for facts in run.aggregates),
        screening=run.describe_screening(arch_count, len(ranking.standings) + len(ranking.failed)),
        scores_in_order=tuple(_list_scores_in_order(ranking, records, run.measure)),
        tradeoff=_make_tradeoff(run, ranking, records),
        limits=tuple(limits),
        trace=tuple(read_trace(run.folder)),
        prediction=read_prediction(run.folder),
        seeds=config.seeds,
        stopped_early=run.stopped_early,
        ending=run.describe_end(bool(ranking.standings)),
        made_on=format_now(),
        confirmation=confirmation,
        contest=contest,
        training=_read_training(run.folder),
        export=_find_export(run),
        has_timed_trainings=has_trainings and config.time_seconds is not None,
    )


def _summarise_consensus(facts: dict[str, Any], advice: str) -> ConsensusSummary:
    """Return the weights and the agreement of a consensus, from the facts in `run.json`.

    Args:
        facts: The facts.
        advice: What to do if the members hardly agree.
    """
    weights = sorted(facts["weights"].items(), key=lambda item: -item[1])
    return ConsensusSummary(
        label=str(facts["label"]),
        description=describe_consensus(facts, advice),
        scale=describe_scale(facts),
        reference_size=int(facts["reference_size"]),
        weights=tuple((str(name), float(weight)) for name, weight in weights),
        left_out=tuple((str(name), str(reason)) for name, reason in facts["left_out"].items()),
    )


def _list_settings(run: RunFolder) -> dict[str, str]:
    """Return the settings of a search as the report lists them."""
    config = run.config
    settings = {
        "strategy": config.strategy,
        "data": config.data,
        "seed": str(config.seed),
        "device": config.compute.device,
        "budget": run.describe_budget(),
    }
    if config.input_size:
        settings["input size"] = str(config.input_size)
    if config.warm_up:
        settings["warm-up"] = config.warm_up
    for name, limit in config.limit_texts.items():
        settings[name.replace("_", " ")] = limit
    if config.confirm:
        settings["networks trained per group"] = str(config.confirm)
    return settings


def _sum_costs(run: RunFolder, records: Sequence[Record]) -> dict[str, float]:
    """Return the seconds of each part of a search."""
    costs = {}
    if run.warm_up_seconds:
        costs["warm-up"] = run.warm_up_seconds
    if run.strategy_seconds:
        costs["strategy"] = run.strategy_seconds
    # Without a shared supernet, each network is warmed up while it is built.
    build = "build"
    if run.config.warm_up and not run.warm_up_seconds:
        build = "build and warm-up"
    costs[build] = sum(record.build_seconds for record in records)
    costs["transfer"] = sum(record.transfer_seconds for record in records)
    costs["measure"] = sum(record.measure_seconds for record in records)
    costs["total"] = run.wall_seconds
    return costs


def _list_ranked(
    ranking: Ranking,
    records: Sequence[Record],
    other_columns: Mapping[str, Mapping[Arch, float | None]],
) -> list[RankedArch]:
    sizes: dict[tuple[Arch, str], float | None] = {}
    for record in records:
        if record.proxy in ("params", "flops"):
            sizes[record.arch, record.proxy] = record.value
    rows = []
    for rank, standing in enumerate(ranking.standings, 1):
        rows.append(
            RankedArch(
                rank=rank,
                arch=str(standing.arch),
                score=standing.score,
                spread=standing.spread,
                params=sizes.get((standing.arch, "params")),
                flops=sizes.get((standing.arch, "flops")),
                margin=standing.margin,
                tied=standing.tied,
                other_scores=tuple(column.get(standing.arch) for column in other_columns.values()),
            )
        )
    return rows


def _list_scores_in_order(ranking: Ranking, records: Sequence[Record], measure: str) -> list[float]:
    """Return scores in the order in which their architectures were first scored."""
    scores = {standing.arch: standing.score for standing in ranking.standings}
    archs = dict.fromkeys(record.arch for record in records if record.measure == measure)
    return [scores[arch] for arch in archs if arch in scores]


def _make_tradeoff(run: RunFolder, ranking: Ranking, records: list[Record]) -> Tradeoff | None:
    """Return the score and the first other objective of all architectures, and the Pareto front."""
    others = _list_objectives(run)
    if not others:
        return None
    # The front is computed from values for which higher is better.
    values = {}
    for other in others:
        values[other.measure] = compute_fitnesses(records, other.measure, other.higher_is_better)
    standings = []
    vectors = []
    for standing in ranking.standings:
        vector = [orient_score(standing.score, run.higher_is_better)]
        for other in others:
            value = values[other.measure].get(standing.arch)
            if value is not None:
                vector.append(value)
        # An architecture without a value of some objective is left out.
        if len(vector) == 1 + len(others):
            standings.append(standing)
            vectors.append(tuple(vector))
    front = set(find_pareto_front(vectors))
    first = others[0]
    points = []
    for index, standing in enumerate(standings):
        # The chart shows the measured value. Orienting a score twice restores it.
        objective = orient_score(vectors[index][1], first.higher_is_better)
        points.append(TradeoffPoint(objective, standing.score, str(standing.arch), index in front))
    return Tradeoff(first.label, first.higher_is_better, 1 + len(others), tuple(points))


@dataclass(frozen=True)
class _Objective:
    """A proxy that the strategy optimised in addition to the score."""

    label: str
    measure: str
    higher_is_better: bool


def _list_objectives(run: RunFolder) -> list[_Objective]:
    """Return the additional objectives of a run."""
    return [_Objective(**facts) for facts in run.objectives]


def _read_worker(row: dict[str, Any]) -> WorkerTimes:
    return WorkerTimes(
        name=row["worker"],
        networks=row["networks"],
        build=row["build"],
        transfer=row["transfer"],
        measure=row["measure"],
        idle=row["idle"],
        crashes=row["deaths"],
        batched=row.get("batched", 0),
    )


def _find_builtin_space(name: str) -> Space | None:
    """Return the space if it is built in; None for a space of the user, whose code is not run."""
    base, options = parse_call(name)
    if base not in SPACES:
        return None
    if not options:
        return SPACES[base]
    try:
        return SPACES[base].with_options(**options)
    except UsageError:
        return None


def _make_diagram(space: Space | None, run: RunFolder, ranked: RunRanking) -> Diagram | None:
    """Return the diagram of the winner.

    For a built-in space it is drawn now, otherwise it is read from the run folder.
    """
    winner = find_winner(run, ranked)
    if winner is None:
        return None
    if space:
        return space.draw(winner.arch, ranked.records[0].task)
    if run.drawing and run.drawing.get("arch") == str(winner.arch):
        return read_diagram(run.drawing.get("sketch"))
    return None
