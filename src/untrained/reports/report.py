"""`report(folder)`: read a run folder, sum it up, write its page. Reads Records; knows nothing of networks."""

import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from untrained.engine.aggregates import aggregated
from untrained.engine.store import Store
from untrained.errors import UsageError
from untrained.papers import _item
from untrained.proxies import PROXIES
from untrained.reports import reproduction_page, trust_page
from untrained.reports.page import render
from untrained.reports.summary import Failed, Ranked, Summary, Worker
from untrained.spaces import Space, load_space
from untrained.spaces._sketch import Sketch
from untrained.strategies._run import Run
from untrained.strategies.select import Ranking, rank
from untrained.studies.trust import FILE, Trust
from untrained.types import Arch, Record


def report(folder: str | Path) -> Path:
    """Write `report.html` of a folder that a search, a study or a reproduction made, whole or not at all, and say
    where it is."""
    if Path(folder, FILE).is_file():
        page = trust_page.render(Trust.read(folder))
    elif Path(folder, _item.FILE).is_file():
        page = reproduction_page.render(_item.Reproduction.read(folder))
    else:
        page = _search_page(folder)
    partial, path = Path(folder, "report.html.part"), Path(folder, "report.html")
    partial.write_text(page, encoding="utf-8")
    os.replace(partial, path)
    return path


def _search_page(folder: str | Path) -> str:
    run = Run.read(folder)
    with Store(run.store) as store:
        return render(summarise(run, list(store)))


def summarise(run: Run, records: list[Record]) -> Summary:
    """The facts of a run, ready to be shown."""
    settings = run.settings
    if settings.proxy in PROXIES and PROXIES[settings.proxy].parts:
        records = records + aggregated(records, PROXIES[settings.proxy])
    ranking = rank(records, run.measure, run.higher_is_better)
    space = _space(settings.space)
    return Summary(
        title=f"{settings.space} by {settings.proxy}",
        command=f"untrained search {run.options()}",
        space=settings.space,
        space_size=space.size if space else None,
        proxy=settings.proxy,
        proxy_about=run.about,
        higher_is_better=run.higher_is_better,
        ranking=tuple(_ranked(ranking, records)),
        failed=tuple(Failed(str(arch), why.kind, why.detail, why.trace) for arch, why in ranking.failed),
        drawing=_sketch(space, ranking),
        settings={
            "strategy": settings.strategy,
            "data": settings.data,
            "seed": str(settings.seed),
            "device": settings.device,
            "budget": run.asked(),
        },
        versions=run.versions,
        cost={
            "build": sum(record.build_seconds for record in records),
            "transfer": sum(record.transfer_seconds for record in records),
            "measure": sum(record.measure_seconds for record in records),
            "total": run.wall_seconds,
        },
        workers=tuple(_worker(row) for row in run.workers),
        peak_bytes=max((record.peak_bytes for record in records if record.peak_bytes), default=None),
        notes=tuple(dict.fromkeys(record.note for record in records if record.note)),
        screened=run.screened(len({r.arch for r in records}), len(ranking.standings) + len(ranking.failed)),
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


def _worker(row: dict[str, Any]) -> Worker:
    names = ("networks", "build", "transfer", "measure", "idle", "deaths")
    return Worker(row["worker"], **{name: row[name] for name in names})


def _space(name: str) -> Space | None:
    """The space of the run, or None where a user's file has moved since."""
    try:
        return load_space(name)
    except UsageError:
        return None


def _sketch(space: Space | None, ranking: Ranking) -> Sketch | None:
    return space.draft(ranking.standings[0].arch) if space and ranking.standings else None
