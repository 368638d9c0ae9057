"""Networks for a table of clicks in one harness, so that "found beats hand-made" is checked and not claimed.

Candidates are trained from scratch and asked on the val part alone. Whichever is chosen is then trained on all rows,
and so are the hand-made references, by the same recipe; each of them reads the test part once. Knows nothing of proxies
or of how candidates were found.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch

from untrained._files import reading_study, write_whole
from untrained._quantities import seconds
from untrained.data import Source
from untrained.data._source import fingerprint
from untrained.data._table import Rows
from untrained.data.parts import TEST, TRAIN, VAL, Part
from untrained.engine.faults import attempt
from untrained.engine.score import subject_of
from untrained.errors import Unscorable, UsageError
from untrained.probe.guard import fastest_kernels, random_state
from untrained.rng import seed_for
from untrained.spaces import Space
from untrained.strategies._desk import Progress, Watcher
from untrained.studies._scores import Crew
from untrained.training._crowd import crowd
from untrained.training._feed import ROWS as ROWS_AT_ONCE
from untrained.training._judge import answered
from untrained.training._subject import Chosen
from untrained.training.ctr_metrics import losses
from untrained.training.ctr_references import REFERENCES
from untrained.training.loop import Trainer
from untrained.training.recipes import RECIPES, Recipe
from untrained.training.train import Interrupted, train
from untrained.training.trained import FILE, Trained
from untrained.types import PASSING, Arch, Failure

RECIPE = RECIPES["ctr"]
SEEN = 100_000  # rows that a candidate is shown, at most: few of them often, or many of them once
TRAININGS, FOLDER, FOUND = "trainings.json", "references", "found"


@dataclass(frozen=True)
class Entry:
    """The found network or a hand-made one. `behind` is how much more log loss it has than the found one, row by row on
    the test part, and `margin` half of its 95 % interval; the found one has neither. Without numbers there is a
    reason."""

    name: str
    params: int | None = None
    val_loss: float | None = None
    val_auc: float | None = None
    loss: float | None = None  # on the test part
    auc: float | None = None
    behind: float | None = None
    margin: float | None = None
    error: str = ""


def verdict(entries: Sequence[Entry]) -> str:
    """What the first entry, which was found, is worth beside the others, in a sentence."""
    told: dict[str, list[str]] = {}
    for entry in entries[1:]:
        if entry.behind is None or entry.margin is None:
            continue
        clear = abs(entry.behind) > entry.margin
        said = "cannot be told from" if not clear else "has less log loss than" if entry.behind > 0 else "has more than"
        told.setdefault(said, []).append(f"{entry.name} ({entry.behind:+.4f} \u00b1 {entry.margin:.4f})")
    words = "; it ".join(f"{said} {', '.join(names)}" for said, names in told.items())
    return f"On the test part the found network {words}." if told else ""


def validated(
    space: str | Space,
    archs: Sequence[Arch],
    data: str,
    source: Source,
    seed: int,
    crew: Crew,
    folder: Path,
    watch: Watcher | None = None,
) -> dict[Arch, dict[str, float]]:
    """What the val part says of each after a training from scratch: loss and auc; those that failed are left out. Each
    is written down when it is done, so that the same call goes on."""
    parts = {name: fewer(source.parts[name]) for name in (TRAIN, VAL)}
    how = shorter(len(parts[TRAIN]))
    path, found = folder / TRAININGS, dict[Arch, dict[str, float]]()
    known, new = _read(path), 0
    seen = fingerprint(source.batch(64, seed))
    for done, arch in enumerate(archs):
        if watch:
            watch(Progress("confirming", done, len(archs), new, 1))
        key = f"{how.label} {arch.space} {arch} {data} {seen} {len(parts[TRAIN])} rows, seed {seed}, {crew.device}"
        if key not in known:
            chosen = Chosen(str(arch), arch.space, subject_of(arch, space, crew.device), data, source, None)
            try:
                said = attempt(_fit, chosen, how, parts, seed, crew)
            except KeyboardInterrupt:
                raise Interrupted(
                    f"stopped by Ctrl-C; what was trained is in {path}, and the same command goes on"
                ) from None
            new += 1
            if isinstance(said, Failure) and said.kind in PASSING:
                continue
            known[key] = {"error": str(said)} if isinstance(said, Failure) else said
            write_whole(path, json.dumps(known, indent=1) + "\n")
        if "error" not in known[key]:
            found[arch] = known[key]
    if watch:
        watch(Progress("confirming", len(archs), len(archs), new, 1))
    return found


def _read(path: Path) -> dict[str, dict[str, Any]]:
    if not path.is_file():
        return {}
    with reading_study(path) as known:
        return known


def _fit(chosen: Chosen, how: Recipe, parts: dict[str, Part], seed: int, crew: Crew) -> dict[str, float]:
    trainer = Trainer(chosen, how, parts, crowd(crew.device), seed)
    limit = seconds(crew.time_limit) if crew.time_limit else inf
    with random_state(seed), fastest_kernels(crew.device):
        ended = trainer.run(lambda: None, how.epochs * trainer.steps, None, limit, lambda: None)
    if ended == "time":
        raise Unscorable("timeout", f"took longer than {crew.time_limit}")
    if "auc" not in trainer.best:
        raise Unscorable("error", "the rows to choose by are all of one kind; take more of them")
    return {name: trainer.best[name] for name in ("loss", "auc")}


def fewer(part: Part) -> Part:
    """Rows from all over the part, where it has more than a candidate may see."""
    step = ceil(len(part) / SEEN)
    return Rows(part.values[::step]) if isinstance(part, Rows) and step > 1 else part


def shorter(rows: int) -> Recipe:
    """The recipe with as many epochs as a candidate may take: the winner is trained on all rows, so it is chosen among
    networks that saw as many of them as the time allows."""
    epochs = max(1, min(RECIPE.epochs, SEEN // max(rows, 1)))
    return RECIPE.configured(epochs=epochs, warm_up=min(RECIPE.warm_up, epochs / 10))


def compared(
    space: str | Space,
    winner: Arch,
    data: str,
    source: Source,
    seed: int,
    crew: Crew,
    folder: Path,
    watch: Watcher | None = None,
) -> tuple[Entry, ...]:
    """The winner, which is trained in the folder of the run as `untrained train` would, and the references."""
    how: dict[str, Any] = {"recipe": RECIPE.name, "device": crew.device, "seed": seed}

    def learned(name: str) -> Trained:
        if name == FOUND:
            return train(str(winner), data, space=space, run=_home(folder, winner), **how)
        with random_state(seed_for("weights", name, seed)):
            made = REFERENCES[name](source.task)
        return train(made, data, input_shape=source.task.input_shape, run=folder / FOLDER / name, **how)

    trained: dict[str, Trained | str] = {}
    names = (FOUND, *REFERENCES)
    for done, name in enumerate(names):
        if watch:
            watch(Progress("comparing", done, len(names), 0, 1))
        try:
            trained[name] = learned(name)
        except Interrupted:
            raise
        except UsageError as error:  # it diverged: that is a result
            trained[name] = str(error)
    if watch:
        watch(Progress("comparing", len(names), len(names), 0, 1))
    return _entries(trained, source.parts[TEST], crew.device)


def _home(folder: Path, winner: Arch) -> Path:
    """The folder of the run, unless something else was trained there before."""
    before = Trained.read(folder).asked if (folder / FILE).is_file() else None
    ours = before is None or (before.arch, before.recipe) == (str(winner), RECIPE.facts)
    return folder if ours else folder / FOLDER / f"{FOUND}-{seed_for(winner):x}"


def _entries(trained: dict[str, Trained | str], test: Part, device: str) -> tuple[Entry, ...]:
    rows = {name: _losses(found, test, device) for name, found in trained.items() if isinstance(found, Trained)}
    entries = []
    for name, found in trained.items():
        if isinstance(found, str):
            entries.append(Entry(name, error=found))
            continue
        best = found.chosen
        entry = Entry(name, found.params, best["loss"], best.get("auc"), found.loss, found.auc)
        if name != FOUND and FOUND in rows:
            apart = rows[name] - rows[FOUND]
            margin = 1.96 * float(apart.std(ddof=1)) / sqrt(len(apart)) if len(apart) > 1 else inf
            entry = replace(entry, behind=float(apart.mean()), margin=margin)
        entries.append(entry)
    return tuple(entries)


def _losses(found: Trained, test: Part, device: str) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """The log loss of each test row by weights that are chosen already."""
    assert found.model is not None
    batches = (batch.to(device) for batch in test.batches(ROWS_AT_ONCE))
    logits, labels = answered(found.model, batches, torch.contiguous_format)
    return losses(logits.double().flatten().cpu().numpy(), labels.double().flatten().cpu().numpy())
