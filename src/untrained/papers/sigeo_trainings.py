"""SiGeo: trainings of two-layer networks on MNIST, with statistics of their gradients.

    theta  weights of both layers
    g_i    loss gradient of batch i of the next four batches
    fr         (1/4) sum_i (theta . g_i)^2
    loss       mean loss of the four batches
    gradient   sum of the means over i of |g_i|
    deviation  sum of the standard deviations over i of g_i

One training gives all statistics of an architecture, so this module has its own evaluator. It
stores records like any other evaluator, and reads them when an experiment is repeated.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from untrained.benchmarks.comparison import collect_scores
from untrained.data import TEST, TRAIN, ImagePart, Part, Parts, load_data
from untrained.data.parts import fingerprint_samples
from untrained.data_root import find_data_root
from untrained.engine.failures import catch_failure
from untrained.engine.threads import use_threads
from untrained.errors import Interrupted, Unscorable
from untrained.papers.experiment import ExperimentConfig
from untrained.papers.samples import Scores
from untrained.probe import Probe
from untrained.probe.guard import random_state
from untrained.progress import Progress
from untrained.runs.store import Store
from untrained.seeds import derive_seed, make_torch_generator
from untrained.spaces import Space, load_space
from untrained.spaces.mlp import SIGEO
from untrained.strategies.budget import Budget
from untrained.strategies.driver import run_strategy
from untrained.strategies.screening import FixedCandidates
from untrained.types import Arch, Batch, Failure, Record, ScoreRequest, Task

BATCH = 128
EPOCHS = 3
STATISTIC_BATCHES = 4  # number of batches that statistics are computed on
TENTH_OF_EPOCH = 48 / 468  # the paper's 10 % of an epoch are 48 of 468 batches
# Mean and deviation of the red channel of CIFAR-10, which the paper uses for MNIST as well.
MEAN = torch.tensor([0.4914])
STD = torch.tensor([0.2023])
LEVELS = (0, 10, 40, 60, 80, 100)  # per cent of an epoch
STATISTICS = ("fr", "loss", "gradient", "deviation")
FINAL_LOSSES = ("train", "test")
FINAL_LEVEL = 100 * EPOCHS  # level of the final losses, in per cent of an epoch
# The results of one training: (name, per cent of an epoch).
RESULTS = [(name, level) for level in LEVELS for name in STATISTICS]
RESULTS += [(name, FINAL_LEVEL) for name in FINAL_LOSSES]


@dataclass(frozen=True)
class TrainingSetting:
    """Settings of a training, in which the text of the paper and the authors' notebook differ.

    Attributes:
        name: Name in the table.
        rate: Learning rate.
        normalise: Whether images are normalised by `MEAN` and `STD`, or have values from 0 to 1.
        relu_logits: Whether a ReLU follows the last layer.
    """

    name: str
    rate: float
    normalise: bool = False
    relu_logits: bool = True


SETTINGS = (
    TrainingSetting("text", 0.01, normalise=True, relu_logits=False),  # appendix F.1
    TrainingSetting("code", 0.2),  # the notebook
    TrainingSetting("code at 0.02", 0.02),  # the rate of Section 4.1
)


@dataclass(frozen=True)
class TrainingStatistics:
    """Statistics and final losses of trained networks.

    Attributes:
        scores: By name and per cent of an epoch, arrays (seeds, architectures), NaN where a
            training diverged. The final losses are "train" and "test" at `FINAL_LEVEL`.
        widths: Widths of the networks.
        deviations: Sentences that describe deviations from the paper.
    """

    scores: dict[tuple[str, int], Scores]
    widths: tuple[int, ...]
    deviations: tuple[str, ...]


def train_networks(config: ExperimentConfig, setting: TrainingSetting) -> TrainingStatistics:
    """Train networks of evenly spaced widths from 2, 4, ..., 48.

    Trainings that are in the folder of the experiment already are read from there.
    """
    space = load_space("mlp").with_options(**SIGEO, relu_logits=setting.relu_logits)
    task, parts, deviations = _load_data(config, space.task)
    parts = {name: parts[name] for name in (TRAIN, TEST)}
    if not setting.normalise:
        parts = {name: _remove_normalisation(part) for name, part in parts.items()}
    all_archs = list(space)
    count = min(config.samples, len(all_archs))
    # A smaller experiment still covers the whole range of widths.
    indices = np.unique(np.linspace(0, len(all_archs) - 1, count).round().astype(int))
    archs = [all_archs[index] for index in indices]
    seeds = range(config.seeds)
    with Store(config.store_path) as store:
        evaluator = _TrainingEvaluator(
            space=space,
            task=task,
            parts=parts,
            seeds=seeds,
            store=store,
            batch=min(BATCH, config.batch or BATCH),
            rate=setting.rate,
            device=config.compute.device,
        )

        def report_progress(progress: Progress) -> None:
            if config.on_progress:
                config.on_progress(replace(progress, measured=evaluator.measured_count))

        result = run_strategy(
            FixedCandidates(archs),
            evaluator,
            Budget(len(archs)),
            lambda records: None,
            report_progress,
            stage=f"training, {setting.name}",
        )
    if result.end_reason == "interrupted":
        raise Interrupted(
            f"stopped by Ctrl-C; finished trainings are in {config.folder}, and the same command "
            "resumes"
        )
    scores = {}
    for name, level in RESULTS:
        measure = evaluator.make_measure(name, level)
        scores_by_seed, _ = collect_scores(result.records, measure, archs, seeds)
        scores[name, level] = np.array(scores_by_seed, dtype=np.float64)
    widths = tuple(int(arch["width1"]) for arch in archs)
    return TrainingStatistics(scores, widths, deviations)


@dataclass
class _TrainingEvaluator:
    """An evaluator that trains architectures and returns the statistics as records."""

    space: Space
    task: Task
    parts: Parts
    seeds: Sequence[int]
    store: Store
    batch: int
    rate: float
    device: str
    measured_count: int = 0

    def make_measure(self, name: str, level: int) -> str:
        """Return the measure of a result: its name, and the settings that its value depends on."""
        return f"{name}(after={level}%,batch={self.batch},rate={self.rate:g})@1"

    def __call__(self, archs: Sequence[Arch]) -> Generator[list[Record]]:
        # The fingerprint is part of the key, so other images give other records.
        data = fingerprint_samples(self.parts)
        device = torch.device(self.device).type
        for arch in archs:
            records: list[Record] = []
            for seed in self.seeds:
                requests = []
                for name, level in RESULTS:
                    measure = self.make_measure(name, level)
                    requests.append(
                        ScoreRequest(arch, measure, self.task, seed, data=data, device=device)
                    )
                records += self._read_or_train(requests)
            yield records

    def _read_or_train(self, requests: list[ScoreRequest]) -> list[Record]:
        """Return the stored records of one training, or train if one is missing."""
        records = []
        for request in requests:
            record = self.store.get(request.key)
            if record:
                records.append(record)
        if len(records) < len(requests):
            records = self._train(requests)
            self.store.add(records)
            self.measured_count += 1
        return records

    def _train(self, requests: list[ScoreRequest]) -> list[Record]:
        start = perf_counter()
        # The number of threads changes the last digits of sums.
        with use_threads(1):
            values = catch_failure(self._compute_results, requests[0].arch, requests[0].seed)
        # All records of a training share its time equally.
        seconds = (perf_counter() - start) / len(requests)
        if isinstance(values, Failure):
            return [Record(request, error=values, measure_seconds=seconds) for request in requests]
        records = []
        for request, value in zip(requests, values, strict=True):
            records.append(Record(request, value, measure_seconds=seconds))
        return records

    def _compute_results(self, arch: Arch, seed: int) -> list[float]:
        """Train one network and return values in the order of `RESULTS`."""
        with random_state(derive_seed("weights", arch.space, arch, seed)):
            model = self.space.build(arch, self.task).to(self.device)
        part = self.parts[TRAIN]
        # In a trial with smaller batches, a training has as many steps as with full batches.
        steps_per_epoch = len(part) // BATCH
        statistic_steps = []  # one per level
        for level in LEVELS:
            level_step = round(level / 10 * TENTH_OF_EPOCH * steps_per_epoch)
            statistic_steps.append(min(steps_per_epoch, level_step))
        optimiser = torch.optim.SGD(model.parameters(), lr=self.rate)
        step = 0
        values: list[float] = []
        for epoch in range(EPOCHS):
            # All widths see the same batches, so that only the width differs.
            generator = make_torch_generator("course", seed, epoch)
            # Statistics of the last step need the batches after it.
            batch_count = steps_per_epoch + STATISTIC_BATCHES
            batches = []
            for batch in islice(part.batches(self.batch, generator), batch_count):
                batches.append(batch.to(self.device))
            for index in range(steps_per_epoch):
                if step in statistic_steps:
                    next_batches = batches[index : index + STATISTIC_BATCHES]
                    statistics = _compute_statistics(model, next_batches)
                    # With few batches per epoch, several levels may fall on the same step and have
                    # the same statistics.
                    for _ in range(statistic_steps.count(step)):
                        values += statistics
                loss = F.cross_entropy(model(batches[index].inputs), batches[index].targets)
                # After a divergence all statistics would be NaN, so the whole training fails.
                if not torch.isfinite(loss):
                    raise Unscorable("nan", f"the training diverged after {step} batches")
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                step += 1
        for name in (TRAIN, TEST):
            values.append(_compute_mean_loss(model, self.parts[name], self.device))
        return values


def _compute_statistics(model: nn.Module, batches: Sequence[Batch]) -> list[float]:
    """Return statistics in the order of `STATISTICS`.

    A weight that no gradient reaches has gradient 0; it is not left out.
    """
    probes = [Probe(model, batch) for batch in batches]
    weights = probes[0].weights
    theta = torch.cat([weight.flatten() for weight in weights.values()]).double()
    rows = []
    for probe in probes:
        rows.append(torch.cat([probe.gradients[name].flatten() for name in weights]))
    # float64, since sums over many weights lose digits in float32.
    g = torch.stack(rows).double()  # (batches, weights)
    fisher_rao = float((g @ theta).square().mean())
    loss = sum(probe.loss for probe in probes) / len(probes)
    gradient = float(g.abs().mean(0).sum())
    deviation = float(g.std(0, unbiased=False).sum())
    return [fisher_rao, loss, gradient, deviation]


@torch.no_grad()
def _compute_mean_loss(model: nn.Module, part: Part, device: str) -> float:
    losses = []
    for batch in part.batches(1000):
        outputs = model(batch.inputs.to(device))
        losses.append(F.cross_entropy(outputs, batch.targets.to(device), reduction="sum"))
    return float(torch.stack(losses).double().sum()) / len(part)


def _remove_normalisation(part: Part) -> Part:
    """Return the same images with values from 0 to 1."""
    assert isinstance(part, ImagePart)
    return replace(part, mean=torch.zeros_like(part.mean), std=torch.ones_like(part.std))


def _load_data(config: ExperimentConfig, task: Task) -> tuple[Task, Parts, tuple[str, ...]]:
    """Load MNIST with its published split (60,000 and 10,000 images), or else the digits.

    Returns:
        The task, the parts, and the deviations from the paper.
    """
    root = find_data_root(config.data_root)
    for path in (root / "mnist.npz", root / "mnist" / "mnist.npz"):
        if path.is_file():
            with np.load(path, allow_pickle=False) as arrays:
                parts: dict[str, Part] = {}
                for name in (TRAIN, TEST):
                    images = torch.from_numpy(arrays[f"x_{name}"]).reshape(-1, 28, 28, 1)
                    labels = torch.from_numpy(arrays[f"y_{name}"]).long()
                    parts[name] = ImagePart(images, labels, MEAN, STD)
            return task, parts, ()
    source = load_data("digits", task)
    deviation = (
        "Networks are trained on the digits of scikit-learn, because there is no mnist.npz in the "
        "data root."
    )
    return source.task, source.parts, (deviation,)
