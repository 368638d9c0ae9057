"""`report(folder)`: read a run folder, sum it up, write its page. Reads Records; knows nothing of networks."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from untrained._files import write_whole
from untrained._load import names_file, parse_call
from untrained._numbers import counted
from untrained._quantities import parse_path
from untrained.errors import UsageError
from untrained.proxies import load_proxy, split_names
from untrained.reports import reproduction_facts
from untrained.reports.pages import reproduction_page, training_page, trust_page
from untrained.reports.pages.search_page import render
from untrained.reports.summary import Failed, Limit, Ranked, Summary, Tradeoff, Worker
from untrained.runs.ranking import Ranking, fitnesses
from untrained.runs.winner import RunRanking, find_winner, read_ranking
from untrained.spaces import SPACES, Space
from untrained.spaces.core.diagrams import Diagram, read_diagram
from untrained.strategies import _trace
from untrained.strategies._bounds import LIMITS
from untrained.strategies._panel import wanted_high
from untrained.strategies._run import Run
from untrained.strategies.nsga2 import pareto_front
from untrained.studies.confirm import Confirmation
from untrained.studies.trust import FILE, Trust
from untrained.training import trained
from untrained.training._checkpoint import WEIGHTS
from untrained.training.trained import Trained
from untrained.types import Arch, Record


def report(folder: str | Path) -> Path:
    """Write `report.html` of a folder that a search, a study or a reproduction made, whole or not at all, and say
    where it is."""
    folder = parse_path(folder, "folder")
    try:
        page = _render(folder)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        # The files of a folder may hold anything: a text where a number belongs, or a list that is too short.
        told = " ".join(str(error).split())
        raise UsageError(
            f"{folder} cannot be reported, its files are damaged: {type(error).__name__}: {told}"
        ) from error
    path = Path(folder, "report.html")
    write_whole(path, page)
    return path


def _render(folder: str | Path) -> str:
    if Path(folder, FILE).is_file():
        return trust_page.render(Trust.read(folder))
    if Path(folder, reproduction_facts.RESULT_FILE).is_file():
        return reproduction_page.render(reproduction_facts.ReproductionResult.read(folder))
    if Path(folder, trained.FILE).is_file() and not Path(folder, "run.json").is_file():
        return training_page.render(Trained.read(folder))
    return _search_page(folder)


def outcome(folder: str | Path) -> dict[str, Any]:
    """What a script asks of the folder of a search or a training: the best architecture, what the short trainings that
    confirmed it said, what its own training came to, and where its weights are; None where there was no such thing.
    A study has a document of its own, and nothing here."""
    known, found = _trained(folder), dict[str, Any]()
    if Path(folder, "run.json").is_file():
        run = Run.read(folder)
        said = Confirmation.read(run)
        winner = find_winner(run, read_ranking(run))
        best = str(winner.arch) if winner else None
        found = {"best": best, "confirmed": said and asdict(said), "trained": None, "weights": None}
    if known and known.asked.arch == found.get("best", known.asked.arch):  # and not of a former best
        found |= {"trained": known.document(), "weights": str(Path(folder, WEIGHTS))}
    return found


def _trained(folder: str | Path) -> Trained | None:
    return Trained.read(folder) if Path(folder, trained.FILE).is_file() else None


def _search_page(folder: str | Path) -> str:
    run = Run.read(folder)
    believed = {"trace": tuple(_trace.read(folder)), "belief": _trace.belief(folder)}
    later = {**believed, "confirmed": Confirmation.read(run), "trained": _trained(folder)}
    return render(replace(summarise(run, read_ranking(run)), **later))  # type: ignore[arg-type]


def summarise(run: Run, ranked: RunRanking) -> Summary:
    """The facts of a run, ready to be shown."""
    settings = run.settings
    ranking = ranked.ranking
    records = list(ranked.records)
    space = _space(settings.space)
    return Summary(
        title=f"{settings.space} by {settings.score}",
        command=f"untrained search {run.options()}",
        space=settings.space,
        space_size=space.size if space else run.space_size,
        proxy=settings.score,
        proxy_about=run.about,
        higher_is_better=run.higher_is_better,
        ranking=tuple(_ranked(ranking, records)),
        failed=tuple(Failed(str(arch), why.kind, why.detail, why.trace) for arch, why in ranking.failed),
        drawing=_sketch(space, run, ranked),
        settings={
            "strategy": settings.strategy,
            "data": settings.data,
            "seed": str(settings.seed),
            "device": settings.device,
            "budget": run.asked(),
            **({"input size": str(settings.input_size)} if settings.input_size else {}),
            **({"warm-up": settings.warm_up} if settings.warm_up else {}),
            **{name.replace("_", " "): said for name in LIMITS if (said := getattr(settings, name)) is not None},
            **({"confirmed by": f"{counted(run.confirm, 'short training')} of each kind"} if run.confirm else {}),
        },
        versions=run.versions,
        cost={
            **({"warm-up": run.warm_up_seconds} if run.warm_up_seconds else {}),
            **({"strategy": run.noted_seconds} if run.noted_seconds else {}),
            "build and warm-up" if settings.warm_up and not run.warm_up_seconds else "build": sum(
                record.build_seconds for record in records
            ),
            "transfer": sum(record.transfer_seconds for record in records),
            "measure": sum(record.measure_seconds for record in records),
            "total": run.wall_seconds,
        },
        workers=tuple(_worker(row) for row in run.workers),
        peak_bytes=max((record.peak_bytes for record in records if record.peak_bytes), default=None),
        notes=tuple(dict.fromkeys(record.note for record in records if record.note)),
        screened=run.screened(len({r.arch for r in records}), len(ranking.standings) + len(ranking.failed)),
        course=tuple(_course(ranking, records, run.measure)),
        tradeoff=_tradeoff(run, ranking, records),
        limits=tuple(Limit(row["limit"], row["asked"], row["rejected"], row["value"]) for row in run.limits),
        seeds=settings.seeds,
        stopped_early=run.stopped_early,
        ending=run.ending,
        made_on=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
    )


def _ranked(ranking: Ranking, records: Iterable[Record]) -> Iterable[Ranked]:
    sizes: dict[tuple[Arch, str], float | None] = {
        (record.arch, record.proxy): record.value for record in records if record.proxy in ("params", "flops")
    }
    for place, standing in enumerate(ranking.standings, 1):
        params, flops = sizes.get((standing.arch, "params")), sizes.get((standing.arch, "flops"))
        yield Ranked(
            place, str(standing.arch), standing.score, standing.spread, params, flops, standing.margin, standing.tied
        )


def _course(ranking: Ranking, records: Iterable[Record], measure: str) -> Iterable[float]:
    """Scores in the order in which their architectures were first judged."""
    scores = {standing.arch: standing.score for standing in ranking.standings}
    judged = dict.fromkeys(record.arch for record in records if record.measure == measure)
    return (scores[arch] for arch in judged if arch in scores)


def _tradeoff(run: Run, ranking: Ranking, records: list[Record]) -> Tradeoff | None:
    """The score against the first of the other objectives; the front is that of all of them."""
    others = _objectives(run)
    if not others:
        return None
    values = {other.measure: fitnesses(records, other.measure, other.higher_is_better) for other in others}
    sign = 1 if run.higher_is_better else -1
    known = []
    for standing in ranking.standings:
        point = [sign * standing.score]
        for other in others:
            value = values[other.measure].get(standing.arch)
            if value is not None:
                point.append(value)
        if len(point) == 1 + len(others):
            known.append((standing, tuple(point)))
    unbeaten = set(pareto_front([point for _, point in known]))
    up = others[0].higher_is_better
    drawn = (
        (point[1] if up else -point[1], standing.score, str(standing.arch), place in unbeaten)
        for place, (standing, point) in enumerate(known)
    )
    return Tradeoff(others[0].label, up, 1 + len(others), tuple(drawn))


@dataclass(frozen=True)
class _Objective:
    """A proxy that was weighed against the score."""

    label: str
    measure: str
    higher_is_better: bool


def _objectives(run: Run) -> list[_Objective]:
    """What the run wrote down of its objectives; of an earlier version's run, the built-in ones."""
    if run.objectives:
        return [_Objective(**facts) for facts in run.objectives]
    names = split_names(run.settings.objectives)
    if any(names_file(parse_call(name)[0]) for name in names):
        return []
    proxies = [load_proxy(name) for name in names]
    return [_Objective(proxy.label, proxy.measure, wanted_high(proxy)) for proxy in proxies]


def _worker(row: dict[str, Any]) -> Worker:
    names = ("networks", "build", "transfer", "measure", "idle", "deaths")
    return Worker(row["worker"], **{name: row[name] for name in names}, batched=row.get("batched", 0))


def _space(name: str) -> Space | None:
    """The space of the run; None where it is not one of ours. The user's own code is not run for a report."""
    base, options = parse_call(name)
    if base not in SPACES:
        return None
    try:
        return SPACES[base].with_options(**options) if options else SPACES[base]
    except UsageError:
        return None


def _sketch(space: Space | None, run: Run, ranked: RunRanking) -> Diagram | None:
    """The drawing of the winner: as the search left it, or drawn now where the space is one of ours."""
    winner = find_winner(run, ranked)
    if winner is None:
        return None
    if space:
        return space.draw(winner.arch, ranked.records[0].task)
    if run.drawing and run.drawing.get("arch") == str(winner.arch):
        return read_diagram(run.drawing.get("sketch"))
    return None
