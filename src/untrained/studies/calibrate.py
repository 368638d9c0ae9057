"""`calibrate(...)`: which proxy should rank my space? A few architectures, spread over its sizes, are trained briefly
on the user's data, and every proxy is held against what they reach.

A dozen trainings cannot tell good proxies apart, and the answer says so. What it can tell is a proxy that fails here.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Any

from untrained._load import names_file, require_named
from untrained._numbers import counted
from untrained._quantities import MOST_SAMPLES, parse_count, parse_path, parse_seed
from untrained._typed import options
from untrained.data import load
from untrained.engine.measure import device_name, told_apart
from untrained.engine.score import DEFAULT_DATA
from untrained.errors import UsageError
from untrained.proxies import load_proxy, parse_proxy_names
from untrained.rng import generator
from untrained.spaces import load_space
from untrained.strategies._check import matching_data
from untrained.strategies._run import STORE, for_a_file, versions
from untrained.strategies.random import RandomSearch
from untrained.strategies.search import Watcher
from untrained.studies._judge import best_first, column, judged
from untrained.studies._scores import Crew, scored
from untrained.studies.bench import BASELINES, judged_column
from untrained.studies.trust import Judged, Trust
from untrained.training.brief import NAME
from untrained.types import Arch, Record

POOL = 8  # architectures drawn for each that is trained


def calibrate(
    space: str = "nasbench201",
    proxy: str = "all",
    data: str = DEFAULT_DATA,
    *,
    trainings: int = 12,
    epochs: int = 3,
    samples: int = 1500,
    seed: int = 0,
    device: str = "cpu",
    workers: int | None = None,
    ray: str | None = None,
    time_limit: str | None = None,
    run: str | Path | None = None,
    data_root: str | Path | None = None,
    watch: Watcher | None = None,
) -> Trust:
    """Which proxies rank `trainings` architectures of `space` as they turn out after `epochs` on `samples` samples of
    `data`. `search(..., proxy="auto")` goes by the best of them."""
    trainings = parse_count(trainings, "trainings", 4)
    epochs = parse_count(epochs, "epochs")
    samples = parse_count(samples, "samples", 10, MOST_SAMPLES)
    seed = parse_seed(seed)
    device = device_name(device)
    if run is not None:
        run = parse_path(run, "run")
    home, crew = load_space(space), Crew(device, workers, ray, time_limit)
    source, folder = load(data, home.task, data_root), Path(run) if run else default_folder(space, data)
    matching_data(home, source.task)
    training = load_proxy(f"{NAME}(epochs={epochs},samples={samples})")
    judges = list(told_apart(map(load_proxy, (*parse_proxy_names(proxy), *BASELINES))).values())
    typed = {load_proxy(name).measure: name for name in parse_proxy_names(proxy)}
    typed[training.measure] = f"{NAME}(epochs={epochs},samples={samples})"
    work = (crew, folder / STORE, typed, watch)
    pool = RandomSearch(home, generator("calibrate", home.name, seed)).ask(POOL * trainings)
    sized = scored(space, pool, [load_proxy("params")], source, (seed,), *work, stage="sizing")
    archs = _spread(sized.records, trainings)
    trained = scored(space, archs, [training], source, (seed,), *work, stage="training")
    reached = {r.arch: r.value for r in trained.records if r.value is not None}
    archs = [arch for arch in archs if arch in reached]
    if len(archs) < 3:
        first = next(str(r.error) for r in trained.records if r.error)
        raise UsageError(f"only {len(archs)} of {trainings} trainings came to an end, the first failed by {first}")
    done = scored(space, archs, judges, source, (seed,), *work)
    truth = [100 * reached[arch] for arch in archs]
    rows = best_first(judged(judged_column(p, *column(done.records, p.measure, archs, (seed,))), truth) for p in judges)
    asked: dict[str, Any] = {"space": space, "proxy": proxy, "data": data, "trainings": trainings, "epochs": epochs}
    asked |= {"samples": samples, "seed": seed, "device": device, "run": str(folder)}
    best, reaching = recommended(rows), "AUC" if source.task.loss == "bce" else "accuracy"
    own = {load_proxy(name).label: name for name in parse_proxy_names(proxy) if names_file(name)}
    chosen = own.get(best, best)  # as it can be typed again
    trained_for = counted(epochs, "epoch")
    following = "auto" if folder == default_folder(space, data) else chosen  # auto looks in the default folder only
    return Trust(
        title=f"{space} on {data}: which proxy?",
        command=f"untrained calibrate {options(calibrate, asked)}",
        space=space,
        truth_about=f"held-out {reaching} on {data} after {trained_for}",
        truth_unit="%",
        archs=tuple(map(str, archs)),
        truth=tuple(truth),
        judged=rows,
        notes=(
            f"{len(archs)} architectures, spread over the sizes of the space, were trained for {trained_for} on "
            f"{min(samples, len(source.batch(samples)))} samples, a fifth of them held out.",
            _caution(rows, len(archs), reaching),
        ),
        advice=_advice(rows, best, chosen),
        following=f"untrained search --space {quote(space)} --data {quote(data)} --proxy {quote(following)}",
        settings={
            "trainings": str(trainings),
            "epochs": str(epochs),
            "data": data,
            "seed": str(seed),
            "device": device,
        },
        versions=versions(),
        cost={"total": sized.seconds + trained.seconds + done.seconds, "training": trained.seconds},
        recommended=chosen,
        folder=str(folder),
        made_on=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
    ).save()


def recommended(rows: Sequence[Judged]) -> str:
    """The best by rank correlation of those that judged everybody; the cheapest of equals. Parameters where nothing
    ranks better than chance would."""
    whole = [row for row in rows if not row.failed and row.statistics["spearman"] and row.proxy != "random"]
    best = max(whole, key=lambda row: (round(_rho(row), 3), -(row.cost or 0)), default=None)
    return best.proxy if best and _rho(best) > 0 else "params"


def _advice(rows: Sequence[Judged], best: str, typed: str = "") -> str:
    """What to search by; `typed` is what to type for it where that is not its name."""
    ranked = any(row.proxy == best and _rho(row) > 0 for row in rows)
    why = "it ranked these architectures best" if ranked else "nothing ranked these architectures better than chance"
    return f"Search by {typed or best}: {why}."


def default_folder(space: str, data: str) -> Path:
    return Path("runs", for_a_file("calibrate", space, data))


def automatic(space: str, data: str) -> str:
    """The proxy that a calibration of this space on these data recommends; `search --proxy auto` asks for it."""
    folder = default_folder(space, data)
    if not (folder / "trust.json").exists():
        typed = f"untrained calibrate {options(calibrate, {'space': space, 'data': data})}".strip()
        raise UsageError(f"--proxy auto goes by a calibration, and there is none at {folder}: `{typed}` makes it")
    recommended = Trust.read(folder).recommended
    require_named(recommended, None, str(folder), f"--proxy {recommended}")
    return recommended


def _rho(row: Judged) -> float:
    estimate = row.statistics["spearman"]
    return estimate.value if estimate else -1.0


def _spread(records: Sequence[Record], count: int) -> list[Arch]:
    """Architectures at equal steps of the ranking by size, the smallest and the largest among them."""
    sized = sorted((r for r in records if r.value is not None), key=lambda r: (r.value, str(r.arch)))
    if len(sized) <= count:
        return [r.arch for r in sized]
    return [sized[round(i * (len(sized) - 1) / (count - 1))].arch for i in range(count)]


def _caution(rows: Sequence[Judged], n: int, reaching: str) -> str:
    """What so few trainings can tell: who is not excluded as the best."""
    known = [(row.proxy, main) for row in rows if (main := row.statistics["spearman"])]
    if not known:
        return f"All trainings came to the same {reaching}, so nothing can be told: train longer, or on harder data."
    (best, first), *others = known
    alike = [name for name, main in others if not first.apart(main)]
    why = "the intervals are wide" if first.low is not None else f"{best} has no interval"
    said = f"With {n} trainings {why}: {len(alike)} of the other {len(others)} cannot be told from {best}."
    if len(alike) == len(others):
        return f"{said} So few cannot say whom to trust."
    return f"{said} What stands far below is not to be trusted here; what stands above is only not refuted."
