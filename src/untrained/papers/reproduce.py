"""`reproduce(name)`: run an experiment of a paper in a folder that remembers; `states()`: what was run, and how near it
came."""

import re
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from untrained._quantities import parse_count, parse_optional_count, parse_path
from untrained._typed import options
from untrained.benchmarks import open_table
from untrained.engine.measure import device_name
from untrained.errors import UsageError
from untrained.papers._item import FILE, ITEMS, Effort, Item, Reproduction
from untrained.strategies._run import versions
from untrained.strategies.search import Watcher
from untrained.studies._scores import Crew


def reproduce(
    item: str,
    *,
    samples: int | None = None,
    seeds: int | None = None,
    batch: int | None = None,
    device: str = "cpu",
    workers: int | None = None,
    ray: str | None = None,
    time_limit: str | None = None,
    run: str | Path | None = None,
    data_root: str | Path | None = None,
    watch: Watcher | None = None,
) -> Reproduction:
    """The table or figure `item`, such as dextr-table-1, with the published numbers beside ours.

    `samples` architectures with `seeds` initialisations and batches, as many as the experiment asks for unless said;
    `batch` shows networks at most so many samples, to try things out. The same call goes on where it was stopped.
    """
    chosen = ITEMS[item]
    wanted = parse_count(chosen.samples if samples is None else samples, "samples", 3)
    chances = parse_count(chosen.seeds if seeds is None else seeds, "seeds")
    batch = parse_optional_count(batch, "batch")
    device = device_name(device)
    if run is not None:
        run = parse_path(run, "run")
    crew = Crew(device, workers, ray, time_limit)
    for table in chosen.needs:
        open_table(table, data_root)  # what is missing is said before anything is measured
    folder = Path(run) if run else default_folder(item)
    effort = Effort(wanted, chances, folder, crew, batch, data_root, watch)
    start = perf_counter()
    found = chosen.run(effort)
    told = {"samples": f"{effort.samples:,}", "seeds": str(effort.seeds), "device": device}
    asked: dict[str, Any] = {"samples": samples, "seeds": seeds, "batch": batch, "device": device, "run": run}
    return Reproduction(
        item=item,
        paper=chosen.paper,
        title=chosen.title,
        about=chosen.about,
        unit=chosen.unit,
        lines=found.lines,
        deviations=tuple(dict.fromkeys(filter(None, found.deviations))),
        pictures=found.pictures,
        command=f"untrained reproduce {item} {options(reproduce, asked)}".rstrip(),
        settings=told | ({"batch": str(batch)} if batch else {}),
        versions=versions(),
        seconds=perf_counter() - start,
        made_on=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        folder=str(folder),
    ).save()


def default_folder(item: str) -> Path:
    return Path("runs", f"reproduce-{item}")


def states() -> list[dict[str, Any]]:
    """Every experiment, and how its last run came out; numbers within names count as numbers."""
    names = sorted(ITEMS, key=lambda name: [int(w) if w.isdecimal() else w for w in re.split(r"(\d+)", name)])
    return [_facts(ITEMS[name]) | _state(name) for name in names]


def _facts(item: Item) -> dict[str, Any]:
    told = {"name": item.name, "paper": item.paper, "title": item.title, "about": item.about}
    return told | {"needs": list(item.needs)}


def _state(item: str) -> dict[str, Any]:
    folder = default_folder(item)
    if not (folder / FILE).is_file():
        return {"state": "never run", "made_on": "", "furthest": None, "folder": ""}
    try:
        found = Reproduction.read(folder)
    except UsageError as error:
        return {"state": str(error), "made_on": "", "furthest": None, "folder": str(folder)}
    line = found.furthest
    said = f"furthest off: {line.difference:+.3g} ({line.what})" if line else "no published numbers"
    difference = line.difference if line else None
    return {"state": said, "made_on": found.made_on, "furthest": difference, "folder": str(folder)}
