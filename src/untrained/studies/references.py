"""Networks for a table of clicks in one harness, so that "found beats hand-made" is checked and not claimed.

Candidates are trained from scratch and asked on the val part alone. Whichever is chosen is then trained on all rows,
and so are the hand-made references, by the same recipe; each of them reads the test part once. What suits one network
is wrong for another, so each is offered the same few learning rates, and short trainings choose on the val part. Knows
nothing of proxies or of how candidates were found.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil, inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch

from untrained._files import reading_study, write_whole
from untrained._numbers import quantity
from untrained._quantities import seconds
from untrained.data import Source
from untrained.data._table import Rows
from untrained.data.parts import TEST, TRAIN, VAL, Part
from untrained.engine.faults import attempt
from untrained.engine.score import subject_of
from untrained.errors import Interrupted, Unscorable, UsageError
from untrained.identity import fingerprint_samples, torch_version
from untrained.probe.guard import fastest_kernels, random_state
from untrained.rng import seed_for
from untrained.spaces import Space, fingerprint_space
from untrained.strategies._desk import Progress, Watcher
from untrained.studies._scores import Crew
from untrained.training._crowd import crowd
from untrained.training._feed import ROWS as ROWS_AT_ONCE
from untrained.training._folder import former_ones, lying, set_aside
from untrained.training._judge import answered
from untrained.training._subject import Chosen
from untrained.training.ctr_metrics import losses
from untrained.training.ctr_references import REFERENCES
from untrained.training.loop import Trainer
from untrained.training.recipes import RECIPES, Recipe
from untrained.training.train import Moment, train
from untrained.training.trained import AnotherTraining, Trained
from untrained.types import PASSING, Arch, Failure

RECIPE = RECIPES["ctr"]
RATES = (RECIPE.rate, 0.04, 0.36)  # as published, a third and three times as much
SEEN = 100_000  # rows that a candidate is shown, at most: few of them often, or many of them once
COLUMNS = ("Params", "Rate", "Validation log loss", "AUC", "Test log loss", "AUC", "More log loss than found")
TRAININGS, FOLDER, FOUND = "trainings.json", "references", "found"
Told = Callable[..., None]


@dataclass(frozen=True)
class Entry:
    """The found network or a hand-made one. `behind` is how much more log loss it has than the found one, row by row on
    the test part, and `margin` half of its 95 % interval; the found one has neither. `rate` is the learning rate that
    the val part chose. Without numbers there is a reason."""

    name: str
    params: int | None = None
    val_loss: float | None = None
    val_auc: float | None = None
    loss: float | None = None  # on the test part
    auc: float | None = None
    behind: float | None = None
    margin: float | None = None
    error: str = ""
    rate: float | None = None

    @property
    def told(self) -> list[str]:
        """What stands under each of `COLUMNS`; nothing where there is no number."""
        losses = (self.val_loss, self.val_auc, self.loss, self.auc)
        size = "" if self.params is None else quantity(self.params)
        rate = "" if self.rate is None else f"{self.rate:g}"
        apart = "" if self.behind is None else f"{self.behind:+.4f} \u00b1 {self.margin:.4f}"
        return [size, rate, *("" if value is None else f"{value:.4f}" for value in losses), apart]


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


@dataclass(frozen=True)
class Trials:
    """Trainings of networks of one space on one table. Short ones read the train and the val part, and each is written
    down when it is done, so that the same question is answered at once."""

    space: str | Space
    data: str
    source: Source
    seed: int
    crew: Crew
    folder: Path
    watch: Watcher | None = None

    def validated(self, archs: Sequence[Arch]) -> dict[Arch, dict[str, float]]:
        """What the val part says of each after a training from scratch: loss and auc; those that failed are left
        out."""
        found, new = dict[Arch, dict[str, float]](), 0
        for done, arch in enumerate(archs):
            self._tell("confirming", done, len(archs), new)
            said, trained = self._asked(self._found(arch))
            new += trained
            if said:
                found[arch] = said
        self._tell("confirming", len(archs), len(archs), new)
        return found

    def compared(self, winner: Arch, by_hand: Sequence[str] | None = None) -> tuple[Entry, ...]:
        """The winner, which is trained in the folder of the run as `untrained train` would, and the references, all of
        them unless some are named. Each has the rate that suits it."""
        trained, names = dict[str, Trained | str](), (FOUND, *(REFERENCES if by_hand is None else by_hand))

        def tell(*_: Moment) -> None:
            self._tell("comparing", len(trained), len(names), 0)

        tell()
        for name in names:
            try:
                trained[name] = self._winner(winner, tell) if name == FOUND else self._reference(name, tell)
            except Interrupted:  # by whoever does not want the next one either
                raise
            except UsageError as error:  # it diverged: that is a result
                trained[name] = str(error)
            tell()
        return _entries(trained, self.source.parts[TEST], self.crew.device)

    def _winner(self, arch: Arch, tell: Told) -> Trained:
        how = self._how(self._found(arch), tell)
        if (former := lying(self.folder)) and former.arch != str(arch):
            set_aside(self.folder)
        beside = self.folder / FOLDER / f"{FOUND}-{seed_for(arch):x}"
        for run in (self.folder, *former_ones(self.folder)):
            with suppress(AnotherTraining):  # by a recipe of the user's own
                return train(str(arch), self.data, space=self.space, run=run, **how)
        return train(str(arch), self.data, space=self.space, run=beside, **how)

    def _reference(self, name: str, tell: Told) -> Trained:
        chosen, task = self._by_hand(name), self.source.task
        how = self._how(chosen, tell)
        run = self.folder / FOLDER / name
        return train(chosen.subject.build(task), self.data, input_shape=task.input_shape, run=run, **how)

    def _how(self, chosen: Chosen, tell: Told) -> dict[str, Any]:
        """By the rate of least log loss; the usual one where every training fails."""
        offered = [RECIPE.configured(rate=rate) for rate in RATES]
        found = [(said["loss"], how) for how in offered if (said := self._asked(chosen, how)[0])]
        best = min(found, key=lambda pair: pair[0])[1] if found else RECIPE
        return {"recipe": best.label, "device": self.crew.device, "seed": self.seed, "watch": tell}

    def _asked(self, chosen: Chosen, how: Recipe = RECIPE) -> tuple[dict[str, float] | None, bool]:
        """What the val part says of a network: loss and auc, or nothing where the training failed; and whether it had
        to be trained."""
        parts = {name: fewer(self.source.parts[name]) for name in (TRAIN, VAL)}
        how, path = shorter(len(parts[TRAIN]), how), self.folder / TRAININGS
        code = fingerprint_space(self.space) if chosen.subject.home else chosen.fingerprint_code()
        made_of = f"{fingerprint_samples(parts)} {code} torch {torch_version()}"
        key = f"{how.label} {chosen.space} {chosen.what} {self.data} {made_of}, seed {self.seed}, {self.crew.device}"
        known = _read(path)
        if trained := key not in known:
            try:
                said = attempt(_fit, chosen, how, parts, self.seed, self.crew)
            except KeyboardInterrupt:
                kept = f"what was trained is in {path}, and the same command goes on"
                raise Interrupted(f"stopped by Ctrl-C; {kept}") from None
            if isinstance(said, Failure) and said.kind in PASSING:
                return None, trained
            known[key] = {"error": str(said)} if isinstance(said, Failure) else said
            write_whole(path, json.dumps(known, indent=1) + "\n")
        return (None if "error" in known[key] else known[key]), trained

    def _found(self, arch: Arch) -> Chosen:
        subject = subject_of(arch, self.space, self.crew.device)
        return Chosen(str(arch), arch.space, subject, self.data, self.source, None)

    def _by_hand(self, name: str) -> Chosen:
        with random_state(seed_for("weights", name, self.seed)):
            made = REFERENCES[name](self.source.task)
        return Chosen(name, "", subject_of(made, "", self.crew.device), self.data, self.source, None)

    def _tell(self, stage: str, done: int, of: int, new: int) -> None:
        if self.watch:
            self.watch(Progress(stage, done, of, new, 1))


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


def shorter(rows: int, how: Recipe = RECIPE) -> Recipe:
    """The recipe with as many epochs as a candidate may take: the winner is trained on all rows, so it is chosen among
    networks that saw as many of them as the time allows."""
    epochs = max(1, min(how.epochs, SEEN // max(rows, 1)))
    return how.configured(epochs=epochs, warm_up=min(how.warm_up, epochs / 10))


def _entries(trained: dict[str, Trained | str], test: Part, device: str) -> tuple[Entry, ...]:
    rows = {name: _losses(found, test, device) for name, found in trained.items() if isinstance(found, Trained)}
    entries = []
    for name, found in trained.items():
        if isinstance(found, str):
            entries.append(Entry(name, error=found))
            continue
        best = found.chosen
        rate = found.asked.recipe["rate"]
        entry = Entry(name, found.params, best["loss"], best.get("auc"), found.loss, found.auc, rate=rate)
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
