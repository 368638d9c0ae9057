"""Warm-up as a dial: a little training before networks are judged, SiGeo's sub-one-shot setting (arXiv:2311.13169).

    10%                                       one pass over a tenth of the samples to learn from
    10%(paths=sandwich,rate=0.05,batch=64)    what is trained in a step, and how
    10%(paths=each)                           every candidate by itself
    1%(preset=nasrec)                         NASRec's schedule, which tables have anyway

Where the space has a supernet, that is trained once, by paths drawn from it (`_paths.py`), and candidates inherit its
weights. Where it has none, or with `paths=each`, every candidate is trained before it is looked at: the time counts as
building it. Presets: `_plan.py`. Gradients are clipped at norm 5.

All of it depends on seeds, never on the order of work: a warm-up that was killed goes on from its checkpoint and ends
with the same weights, bit for bit on a CPU. Knows spaces and data; nothing of proxies, stores or workers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from untrained._load import parse_call
from untrained._quantities import share
from untrained.data import TRAIN, Part, Source
from untrained.engine.executor import threads
from untrained.engine.measure import Start, Warm, usable
from untrained.errors import Interrupted, Unscorable, UsageError
from untrained.identity import torch_version
from untrained.probe.gradients import compute_sample_losses
from untrained.probe.guard import random_state
from untrained.probe.passes import read_logits
from untrained.rng import seed_for, torch_generator
from untrained.spaces import Space
from untrained.training import _checkpoint
from untrained.training._paths import Paths, hand_over
from untrained.training._plan import Plan, planned
from untrained.types import Arch, Batch, Task

CHECKPOINT = "warmup.pt"
OFTEN = 30.0  # seconds between checkpoints
CLIP = 5.0
Tell = Callable[[int, int], None]  # steps done, steps in all
Kept = dict[str, Any]  # init, step, seconds, supernet, optimiser


def _usual(task: Task) -> str:
    """The preset of who names none."""
    return "nasrec" if task.loss == "bce" else "vision"


@dataclass(frozen=True)
class WarmUp:
    """A share of the samples to learn from, and what is done with them."""

    share: float
    plan: Plan
    part: Part
    task: Task

    @staticmethod
    def of(said: str, source: Source) -> "WarmUp":
        """What people type, for data that have something to learn from."""
        base, options = parse_call(said)
        return WarmUp(share(base), planned(options, _usual(source.task)), source.parts[TRAIN], source.task)

    def begin(self, space: Space | None, seed: int, device: str, folder: Path | None, tell: Tell | None) -> Start:
        """Train the supernet of the space, or say how each candidate will be trained. A supernet that is trained
        already is read, and neither needs the device."""
        if space is None or not space.has_supernet or self.plan.paths == "each":
            each = replace(self, plan=replace(self.plan, paths="each"))
            return Trained(each, each.init())
        path = folder / CHECKPOINT if folder else None
        kept = _kept(path, self.init(f"seed={seed}"))
        if kept["step"] == self.steps:
            if tell:
                tell(self.steps, self.steps)
            return Inherited(kept["supernet"], kept["init"], kept["seconds"])
        usable(device)
        return _Sitting(self, space, seed, device, path, kept).train(tell)

    def init(self, *more: str) -> str:
        """Everything that decides the weights, in words; records of other warm-ups have another one."""
        plan = [f"{line.name}={getattr(self.plan, line.name)}" for line in fields(Plan)]
        seen = f"data={len(self.part)}:{self.part.fingerprint()[:16]}"
        return f"warm-up({','.join((f'{100 * self.share:g}%', *plan, *more, seen))})"

    @property
    def size(self) -> int:
        """Samples in a batch: no more than there are."""
        return max(1, min(self.plan.batch, int(self.share * len(self.part))))

    @property
    def steps(self) -> int:
        """Whole batches only: a norm cannot learn from a leftover of one sample."""
        return self.plan.passes * self._a_pass

    @property
    def _a_pass(self) -> int:
        return max(1, int(self.share * len(self.part)) // self.size)

    def batches(self, device: str, *chance: object) -> Iterator[Batch]:
        """All batches of all passes; every pass sees the same samples in the same order."""
        for _ in range(self.plan.passes):
            order = torch_generator("warm-up", "order", *chance)
            for batch in islice(self.part.batches(self.size, order), self._a_pass):
                # the gradient of average pooling is wrong on a GPU where channels come last (dev/LOG.md)
                yield Batch(batch.inputs.contiguous(), batch.targets).to(device)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        outputs = read_logits(model(batch.inputs))
        return compute_sample_losses(self.task.loss, outputs, batch.targets).mean()


@dataclass(frozen=True)
class Trained:
    """Every candidate is trained by itself; weights and order follow the architecture and the seed of its record."""

    warm_up: WarmUp
    init: str
    seconds: float = 0.0  # the time of candidates is in their records

    def open(self, supernet: Callable[[], Any], device: str) -> Warm:
        def warm(model: nn.Module, arch: Arch, seed: int) -> None:
            with random_state(seed_for("warm-up", arch.space, arch, seed)):
                self._train(model.to(device), self.warm_up.batches(device, arch.space, arch, seed))

        return warm

    @torch.enable_grad()
    def _train(self, model: nn.Module, batches: Iterator[Batch]) -> None:
        asked, mode = self.warm_up, model.training
        optimiser = asked.plan.optimiser_of(model.train())
        for step, batch in enumerate(batches):
            value = asked.loss(model, batch)
            if not torch.isfinite(value):
                raise Unscorable("nan", f"its warm-up diverged at step {step + 1} of {asked.steps}")
            value.backward()  # type: ignore[no-untyped-call]
            _advance(optimiser, model, asked.plan.rate_at(step, asked.steps))
        model.train(mode)


@dataclass(frozen=True)
class Inherited:
    """The weights of a supernet that was warmed up; candidates get copies of their own."""

    state: dict[str, Tensor]
    init: str
    seconds: float

    def open(self, supernet: Callable[[], Any], device: str) -> Warm:
        @cache
        def lender() -> Any:  # made for the first candidate: who only reads a finished run may lack the device
            with random_state(0):
                made = supernet()
            made.load_state_dict(self.state)
            return made

        def warm(model: nn.Module, arch: Arch, seed: int) -> None:
            model.load_state_dict(lender().subnet(arch).state_dict())

        return warm


class _Sitting:
    """The training of a supernet, from the beginning or from where a checkpoint left it."""

    def __init__(self, asked: WarmUp, space: Space, seed: int, device: str, path: Path | None, kept: Kept) -> None:
        self.asked, self.device, self.path, self.chance = asked, device, path, (space.name, seed)
        with random_state(seed_for("warm-up", "weights", *self.chance)):
            self.supernet: nn.Module = space.supernet(asked.task, device)
        self.supernet.train()
        self.optimiser = asked.plan.optimiser_of(self.supernet)
        self.paths = Paths(asked.plan.paths, space, asked.task, self.supernet, seed, asked.steps)
        self.init, self.done, self.spent = kept["init"], kept["step"], kept["seconds"]  # those of earlier sittings too
        self.saved = self.done > 0
        if self.done:
            self._resume(kept)

    def train(self, tell: Tell | None) -> Inherited:
        since = kept = perf_counter()
        rest = islice(self.asked.batches(self.device, *self.chance), self.done, None)
        try:
            for step, batch in enumerate(rest, self.done):
                if tell:
                    tell(step, self.asked.steps)
                with threads(1), random_state(seed_for("warm-up", "step", *self.chance, step)):
                    self._step(step, batch)
                now = perf_counter()
                self.done, self.spent, since = step + 1, self.spent + now - since, now
                if now - kept >= OFTEN or self.done == self.asked.steps:
                    self._save()
                    kept = perf_counter()
        except KeyboardInterrupt as stop:
            going_on = f"the same command goes on from the last checkpoint, {self.path}"
            told = f"; {going_on if self.saved else 'nothing was kept yet'}" if self.path else ""
            raise Interrupted(f"stopped by Ctrl-C while warming up{told}") from stop
        if tell:
            tell(self.done, self.asked.steps)
        state = {name: tensor.detach().cpu() for name, tensor in self.supernet.state_dict().items()}
        return Inherited(state, self.init, self.spent)

    @torch.enable_grad()
    def _step(self, step: int, batch: Batch) -> None:
        """The mean loss of the step's paths."""
        for path in self.paths.at(step):
            value = self.asked.loss(path, batch) / self.paths.each_step
            if not torch.isfinite(value):
                lower = replace(self.asked.plan, rate=float(f"{self.asked.plan.rate / 10:g}"))
                said = f"{100 * self.asked.share:g}%({lower.said(_usual(self.asked.task))})"
                raise UsageError(f"the warm-up of the supernet diverged at step {step + 1}; try --warm-up '{said}'")
            value.backward()  # type: ignore[no-untyped-call]
            hand_over(self.supernet, path)
        _advance(self.optimiser, self.supernet, self.asked.plan.rate_at(step, self.asked.steps))

    def _save(self) -> None:
        if self.path is None:
            return
        facts = {"init": self.init, "step": self.done, "seconds": self.spent, "torch": torch_version()}
        weights = {"supernet": self.supernet.state_dict(), "optimiser": self.optimiser.state_dict()}
        _checkpoint.save(self.path, facts | weights)
        self.saved = True

    def _resume(self, kept: Kept) -> None:
        try:
            self.supernet.load_state_dict(kept["supernet"])
            self.optimiser.load_state_dict(kept["optimiser"])
        except Exception as error:  # torch raises whatever the damage happens to look like
            raise _unreadable(self.path, error) from error


def _kept(path: Path | None, init: str) -> Kept:
    """What the checkpoint of this very warm-up holds; where there is none, that nothing is done yet."""
    nothing: Kept = {"init": init, "step": 0, "seconds": 0.0}
    if path is None or not path.is_file():
        return nothing
    try:
        found = _checkpoint.load(path)
        kept = {name: found[name] for name in ("init", "step", "seconds", "supernet", "optimiser")}
        made_by = found.get("torch")
    except Exception as error:
        raise _unreadable(path, error) from error
    return kept if kept["init"] == init and made_by == torch_version() else nothing


def _unreadable(path: Path | None, error: Exception) -> UsageError:
    return UsageError(f"{path} cannot be read ({type(error).__name__}); delete it to warm up anew")


def _advance(optimiser: torch.optim.Optimizer, model: nn.Module, rate: float) -> None:
    """One clipped step; afterwards there are no gradients."""
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()
    model.zero_grad()
