"""The loop: one network on its way through the steps of a recipe. It knows nothing of folders, names or terminals."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from untrained.data.parts import TRAIN, VAL, Part
from untrained.probe.guard import seed_torch
from untrained.rng import seed_for
from untrained.training import _checkpoint
from untrained.training._crowd import Alone, Several
from untrained.training._ema import Average, copied
from untrained.training._feed import Feed
from untrained.training._judge import Diverged, chosen_by, judged, laid
from untrained.training._network import DropPath, layout, loss_of, optimiser, require_fitting
from untrained.training._replay import Replayed
from untrained.training._subject import Chosen
from untrained.training.recipes import Recipe
from untrained.training.trained import Asked
from untrained.types import Batch


class Trainer:
    """One network on its way. What `state` says is all there is to know of it between two steps."""

    def __init__(
        self, chosen: Chosen, recipe: Recipe, parts: Mapping[str, Part], who: Alone | Several, seed: int
    ) -> None:
        device, self.who = who.device, who
        self.recipe, self.task, self.device, self.seed = recipe, chosen.source.task, device, seed
        self.model = chosen.network(device, seed)
        sample = chosen.source.batch(2, seed).to(device)
        require_fitting(self.model, sample, self.task)
        self.layout = layout(self.model, sample)
        self.model.to(memory_format=self.layout)  # type: ignore[call-overload]
        self.feeds = {name: Feed.of(parts[name], self.task, recipe, device, seed) for name in (TRAIN, VAL)}
        self.steps = self.feeds[TRAIN].steps
        self.optimiser, self.loss = optimiser(self.model, recipe), loss_of(self.task, recipe)
        self.by, self.sign = chosen_by(self.task)
        self.joined = who.join(self.model)
        self.average = Average(self.model, recipe.average) if recipe.average else None
        self.paths = DropPath(self.model)
        self.gradients = Replayed(self.launched, device) if self._same_each_step() else self.launched
        self.step, self.lost = 0, torch.zeros((), dtype=torch.float64, device=device)
        self.curve: list[dict[str, float]] = []
        self.best: dict[str, Any] = {}
        self.seconds, self.learning, self.learned = 0.0, 0.0, 0  # in all; in whole epochs, and their samples

    def run(
        self, save: Callable[[], None], every: int, patience: int | None, limit: float, tell: Callable[[], None]
    ) -> str:
        """Until it is over, and why: `epochs`, `patience` or `time`."""
        start = before = perf_counter()
        if self.tired(patience):  # and was stopped before it could say so
            return "patience"
        for _ in self.walk():
            now = perf_counter()
            self.seconds, before = self.seconds + now - before, now
            whole, late = self.step % self.steps == 0, now - start > limit
            if whole or late or self.step % every == 0:
                save()
            tell()
            if self.tired(patience):
                return "patience"
            if late and self.step < self.recipe.epochs * self.steps:
                return "time"
        return "epochs"

    def walk(self) -> Iterator[None]:
        """All steps that are left. After the last of an epoch the weights have been judged."""
        while self.step < self.recipe.epochs * self.steps:
            epoch, done = divmod(self.step, self.steps)
            self.paths.grow(epoch / self.recipe.epochs if self.recipe.growing else 1.0)
            start = perf_counter()
            self.model.train()
            for batch in self.feeds[TRAIN].learned(epoch, done):
                self.learn(self.who.share(batch))
                if self.step % self.steps == 0:
                    self.finish(epoch, start, self.steps - done)
                yield

    def learn(self, batch: Batch) -> None:
        """One step."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.rate_at(self.step, self.steps)
        seed_torch(seed_for("step", self.seed, self.step))  # for dropout and drop path
        loss = self.gradients(laid(batch.inputs, self.layout), batch.targets)
        if self.recipe.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimiser.step()
        self.lost += loss
        if self.average:
            self.average.update(self.step)
        self.step += 1

    def launched(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch; its gradients are left in the parameters."""
        kind = torch.device(self.device).type
        with torch.autocast(kind, torch.bfloat16, enabled=self.recipe.bf16 and kind == "cuda"):
            loss: Tensor = self.loss(self.joined(inputs), targets)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _same_each_step(self) -> bool:
        """Whether steps may be replayed, where the recipe asks for it: on one GPU, and if no path is dropped ever more
        often."""
        changes = self.recipe.growing and self.paths.drops
        alone = isinstance(self.who, Alone) and torch.device(self.device).type == "cuda"
        return self.recipe.graphs and alone and not changes

    def finish(self, epoch: int, start: float, steps: int) -> None:
        """Close an epoch: its loss, what the weights are worth now, and whether they are the best so far."""
        loss = float(self.lost) / self.steps  # waits for the device
        self.lost.zero_()
        if not isfinite(loss):
            raise Diverged(f"the training diverged: the loss of epoch {epoch + 1} is {loss}")
        self.learning += perf_counter() - start
        self.learned += steps * self.feeds[TRAIN].size
        now = self.judged(epoch)
        row = {"epoch": epoch + 1, "rate": self.recipe.rate_at(self.step - 1, self.steps), "loss": loss}
        facts = {f"val_{name}": now[name] for name in ("loss", "accuracy", "auc") if name in now}
        self.curve.append({**row, **facts})
        if not self.best or self.sign * now[self.by] >= self.sign * self.best[self.by]:
            self.best = now

    def judged(self, epoch: int) -> dict[str, Any]:
        """The better of the weights and their average on the val part, with what they are worth."""
        rivals = {"average": self.average.model} if self.average else {}
        found: list[dict[str, Any]] = []
        for kind, model in {**rivals, "weights": self.model}.items():
            said = judged(model, self.feeds[VAL].judged(), self.task, self.layout)
            found.append({"epoch": epoch + 1, "kind": kind, **said.facts, "of": model})
        best = max(found, key=lambda row: self.sign * row[self.by])  # the average, which comes first, of equals
        return {**best, "of": copied(best["of"].state_dict())}

    def tired(self, patience: int | None) -> bool:
        """Whether an epoch has just ended, and so many since the val part last found the weights better than before."""
        if not patience or not self.curve or self.step % self.steps:
            return False
        values = [self.sign * row[f"val_{self.by}"] for row in self.curve]
        return len(values) - 1 - values.index(max(values)) >= patience

    def state(self, asked: Asked) -> dict[str, Any]:
        average = self.average.model.state_dict() if self.average else {}
        return {
            "asked": asdict(asked), "step": self.step, "model": self.model.state_dict(), "average": average,
            "optimiser": self.optimiser.state_dict(), "lost": self.lost, "curve": self.curve, "best": self.best,
            "seconds": self.seconds, "learning": self.learning, "learned": self.learned,
        }  # fmt: skip

    def resume(self, path: Path, asked: Asked) -> None:
        """Go on from a checkpoint, where there is one of the same training."""
        if not path.is_file():
            return
        state = _checkpoint.load(path)
        asked.require_same(Asked(**state["asked"]), path.parent)
        loading = (self.model, state["model"]), (self.average and self.average.model, state["average"])
        for module, weights in loading:
            if module:
                _checkpoint.fill(module, weights, path)
        self.optimiser.load_state_dict(state["optimiser"])
        self.lost.copy_(state["lost"])
        for name in ("step", "curve", "best", "seconds", "learning", "learned"):
            setattr(self, name, state[name])
