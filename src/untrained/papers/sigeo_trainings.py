"""SiGeo's small trainings: two-layer networks on MNIST, what their gradients say on the way, and where they end.

    theta  weights of both layers                g_i         loss gradient of batch i of the four that come next
    fr     (1/4) sum_i (theta . g_i)^2           gradient    sum of the means over i of |g_i|
    loss   mean loss of the four batches         deviation   sum of the standard deviations over i of g_i

One training gives everything, so it is an evaluator of its own: records of one architecture come together, and a store
that has them is asked instead.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from untrained._root import data_root
from untrained.data import TEST, TRAIN, Part, Parts, Pictures, load
from untrained.engine import Store
from untrained.engine.executor import threads
from untrained.engine.faults import attempt
from untrained.errors import Interrupted, Unscorable
from untrained.identity import fingerprint_samples
from untrained.papers.experiment import ExperimentConfig
from untrained.papers.samples import Scores
from untrained.probe import Probe
from untrained.probe.guard import random_state
from untrained.rng import seed_for, torch_generator
from untrained.spaces import Space, load_space
from untrained.spaces.mlp import SIGEO
from untrained.strategies._run import STORE
from untrained.strategies.budget import Budget
from untrained.strategies.drive import drive
from untrained.strategies.search import Progress
from untrained.strategies.sieve import Listed
from untrained.studies._judge import column
from untrained.types import Arch, Batch, Failure, Record, ScoreRequest, Task

BATCH, EPOCHS, LOOKS = 128, 3, 4
TENTH = 48 / 468  # of an epoch: the paper's 10 % are 48 batches
MEAN, STD = torch.tensor([0.4914]), torch.tensor([0.2023])  # those of CIFAR-10's red: the paper's, also on MNIST
LEVELS = (0, 10, 40, 60, 80, 100)  # per cent of an epoch
STATISTICS = ("fr", "loss", "gradient", "deviation")
FINAL, END = ("train", "test"), 100 * EPOCHS
MEASURED = [(name, level) for level in LEVELS for name in STATISTICS] + [(name, END) for name in FINAL]


@dataclass(frozen=True)
class Setting:
    """How networks are trained, which the paper's words and its authors' notebook tell differently."""

    name: str
    rate: float
    normal: bool = False  # images normalised by the statistics above, or else as they are, from 0 to 1
    relu_logits: bool = True  # a ReLU behind the last layer


SETTINGS = (
    Setting("text", 0.01, normal=True, relu_logits=False),  # appendix F.1
    Setting("code", 0.2),  # the notebook
    Setting("code at 0.02", 0.02),  # the rate of Section 4.1
)


@dataclass(frozen=True)
class Courses:
    """What was measured, by name and after how many per cent of an epoch: (seeds, architectures), NaN where a training
    diverged. Losses of the parts to learn from and to be judged on are there at the end."""

    scores: dict[tuple[str, int], Scores]
    widths: tuple[int, ...]
    deviations: tuple[str, ...]


def courses(effort: ExperimentConfig, setting: Setting) -> Courses:
    """Train networks of some of the widths 2, 4, ..., 48, spread evenly, in the folder of the effort."""
    space = load_space("mlp").with_options(**SIGEO, relu_logits=setting.relu_logits)
    task, parts, told = _data(effort, space.task)
    parts = {name: parts[name] if setting.normal else _plain(parts[name]) for name in (TRAIN, TEST)}
    every = list(space)
    places = np.unique(np.linspace(0, len(every) - 1, min(effort.samples, len(every))).round().astype(int))
    archs, seeds = [every[place] for place in places], range(effort.seeds)
    with Store(effort.folder / STORE) as store:
        trainer = _Trainer(
            space, task, parts, seeds, store, min(BATCH, effort.batch or BATCH), setting.rate, effort.compute.device
        )

        def tell(done: int, records: Sequence[Record]) -> None:
            if effort.on_progress:
                effort.on_progress(
                    Progress(f"training, {setting.name}", done, len(archs), trainer.measured, 1, records)
                )

        found = drive(Listed(archs), trainer, Budget(len(archs)), lambda records: None, tell)
    if found.ended == "interrupted":
        raise Interrupted(f"stopped by Ctrl-C; what was trained is in {effort.folder}, and the same command goes on")
    by_seed = {key: column(found.records, trainer.measure(*key), archs, seeds)[0] for key in MEASURED}
    scores = {key: np.array(values, dtype=np.float64) for key, values in by_seed.items()}
    return Courses(scores, tuple(int(arch["width1"]) for arch in archs), told)


@dataclass
class _Trainer:
    """An evaluator: architectures in, records of their trainings out."""

    space: Space
    task: Task
    parts: Parts
    seeds: Sequence[int]
    store: Store
    batch: int
    rate: float
    device: str
    measured: int = 0

    def measure(self, name: str, level: int) -> str:
        """What a record is filed under; network and images are told by its architecture and its data."""
        return f"{name}(after={level}%,batch={self.batch},rate={self.rate:g})@1"

    def __call__(self, archs: Sequence[Arch]) -> Generator[list[Record]]:
        data = fingerprint_samples(self.parts)
        for arch in archs:
            found: list[Record] = []
            for seed in self.seeds:
                device = torch.device(self.device).type
                requests = [
                    ScoreRequest(arch, self.measure(*key), self.task, seed, data=data, device=device)
                    for key in MEASURED
                ]
                known = [record for request in requests if (record := self.store.get(request.key))]
                if len(known) < len(requests):
                    known = self._trained(requests)
                    self.store.add(known)
                    self.measured += 1
                found += known
            yield found

    def _trained(self, requests: list[ScoreRequest]) -> list[Record]:
        start = perf_counter()
        with threads(1):
            found = attempt(self._course, requests[0].arch, requests[0].seed)
        each = (perf_counter() - start) / len(requests)
        if isinstance(found, Failure):
            return [Record(request, error=found, measure_seconds=each) for request in requests]
        pairs = zip(requests, found, strict=True)
        return [Record(request, value, measure_seconds=each) for request, value in pairs]

    def _course(self, arch: Arch, seed: int) -> list[float]:
        """Values in the order of `MEASURED`."""
        with random_state(seed_for("weights", arch.space, arch, seed)):
            model = self.space.build(arch, self.task).to(self.device)
        part, epoch = self.parts[TRAIN], len(self.parts[TRAIN]) // BATCH
        looks = [min(epoch, round(level / 10 * TENTH * epoch)) for level in LEVELS]
        optimiser = torch.optim.SGD(model.parameters(), lr=self.rate)
        passed, values = 0, list[float]()
        for pass_ in range(EPOCHS):
            # the same batches for all: widths differ little from each other
            order = torch_generator("course", seed, pass_)
            batches = [batch.to(self.device) for batch in islice(part.batches(self.batch, order), epoch + LOOKS)]
            for place in range(epoch):
                if passed in looks:
                    values += looks.count(passed) * _look(model, batches[place : place + LOOKS])
                loss = F.cross_entropy(model(batches[place].inputs), batches[place].targets)
                if not torch.isfinite(loss):
                    raise Unscorable("nan", f"the training diverged after {passed} batches")
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                passed += 1
        return [*values, *(_mean_loss(model, self.parts[name], self.device) for name in (TRAIN, TEST))]


def _look(model: nn.Module, batches: Sequence[Batch]) -> list[float]:
    """In the order of `STATISTICS`. What no gradient reaches is 0 and stands last; it is not left out."""
    looks = [Probe(model, batch) for batch in batches]
    theta = torch.cat([weight.flatten() for weight in looks[0].weights.values()]).double()
    g = torch.stack([torch.cat([look.gradients[name].flatten() for name in look.weights]) for look in looks]).double()
    fisher_rao, loss = float((g @ theta).square().mean()), sum(look.loss for look in looks) / len(looks)
    return [fisher_rao, loss, float(g.abs().mean(0).sum()), float(g.std(0, unbiased=False).sum())]


@torch.no_grad()
def _mean_loss(model: nn.Module, part: Part, device: str) -> float:
    losses = [
        F.cross_entropy(model(batch.inputs.to(device)), batch.targets.to(device), reduction="sum")
        for batch in part.batches(1000)
    ]
    return float(torch.stack(losses).double().sum()) / len(part)


def _plain(part: Part) -> Part:
    """Pictures from 0 to 1."""
    assert isinstance(part, Pictures)
    return replace(part, mean=torch.zeros_like(part.mean), std=torch.ones_like(part.std))


def _data(effort: ExperimentConfig, task: Task) -> tuple[Task, Parts, tuple[str, ...]]:
    """MNIST as published, 60,000 and 10,000 images, or else digits; and what must be said of it."""
    root = data_root(effort.data_root)
    file = next((at for at in (root / "mnist.npz", root / "mnist" / "mnist.npz") if at.is_file()), None)
    if file is None:
        source = load("digits", task)
        told = "Networks learn the digits of scikit-learn, since no mnist.npz is under the data root."
        return source.task, source.parts, (told,)
    with np.load(file, allow_pickle=False) as arrays:
        found = {name: torch.from_numpy(arrays[name]) for name in ("x_train", "y_train", "x_test", "y_test")}
    images = {name: found[f"x_{name}"].reshape(-1, 28, 28, 1) for name in (TRAIN, TEST)}
    parts = {name: Pictures(x, found[f"y_{name}"].long(), MEAN, STD) for name, x in images.items()}
    return task, parts, ()
