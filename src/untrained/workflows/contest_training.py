"""What all trainings of a contest share: settings, the split of the samples, the time of a step."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

from untrained.config import ComputeConfig
from untrained.data import DataSource
from untrained.data.parts import (
    TRAIN,
    VAL,
    ArrayPart,
    ImagePart,
    Part,
    PartInMemory,
    fingerprint_samples,
    join_parts,
    select_samples,
    split_by_class,
)
from untrained.identity import read_torch_version
from untrained.probe.guard import fastest_kernels, random_state
from untrained.seeds import derive_seed, make_torch_generator
from untrained.spaces import Space
from untrained.training.cuda_graph import WARM_UP_STEPS
from untrained.training.distributed import make_training_process
from untrained.training.loop import Training
from untrained.training.recipes import Recipe
from untrained.training.small_pictures import choose_small_share, estimate_relative_cost
from untrained.types import Arch
from untrained.workflows.network_spec import load_network_spec
from untrained.workflows.training_setup import TrainingSetup

# Fraction of the samples that entries are compared on, and the largest number of them.
VAL_SHARE = 0.25
MAX_VAL_SAMPLES = 5000
# Number of steps that are timed. The fastest one counts, because the first one is slower. With CUDA
# graphs, the first `WARM_UP_STEPS` steps are not replayed and are slower, so more steps are timed.
TIMED_STEPS = 4
TIMED_REPLAYED_STEPS = WARM_UP_STEPS + 4


@dataclass(frozen=True)
class ContestSettings:
    """What the entries of a contest have in common.

    Attributes:
        space: The space of the architectures, or its name.
        data: Name of the data.
        source: The data.
        recipe: How to train. The contest sets the number of epochs.
        seconds: Longest duration of the contest; None for no limit.
        seed: Seed of weights, order and augmentation.
        compute: The device.
        folder: The run folder.
        search_key: Identity of the ranking that the entries come from.
        final_seconds: Duration of the training of the winner afterwards; None for no limit.
    """

    space: str | Space
    data: str
    source: DataSource
    recipe: Recipe
    seconds: float | None
    seed: int
    compute: ComputeConfig
    folder: Path
    search_key: str
    final_seconds: float | None = None

    @property
    def relative_cost(self) -> float:
        """Mean time of a step of a short final training, relative to a step of the contest."""
        return estimate_relative_cost(choose_small_share(self.source.task, self.compute.device))

    def compute_fingerprint(self, parts: Mapping[str, Part]) -> str:
        """Return a text that differs if the results of an earlier contest cannot be reused."""
        facts = (
            self.search_key,
            fingerprint_samples(parts),
            self.recipe.label,
            self.seed,
            self.compute.device,
            read_torch_version(),
        )
        return f"{derive_seed('contest', *facts):x}"


def split_for_contest(source: DataSource, seed: int) -> dict[str, PartInMemory]:
    """Split the training and validation samples again, with more samples for the comparison.

    Every class has the same share of the samples for the comparison. Samples with numbers as labels
    are split at random.

    Args:
        source: The data. The test part is not used.
        seed: Seed of the split.
    """
    parts = source.parts
    samples = join_parts(parts[TRAIN], parts[VAL])
    assert isinstance(samples, ImagePart | ArrayPart)
    val_share = min(VAL_SHARE, MAX_VAL_SAMPLES / len(samples))
    shares = {TRAIN: 1 - val_share, VAL: val_share}
    rows = split_by_class(samples.read_labels(), shares, source.task, seed)
    # A round may train on the first samples only, so these must be of all classes.
    generator = make_torch_generator("contest order", seed)
    order = torch.randperm(len(rows[TRAIN]), generator=generator)
    return {
        TRAIN: select_samples(samples, rows[TRAIN][order]),
        VAL: select_samples(samples, rows[VAL]),
    }


def make_training_setup(arch: Arch, settings: ContestSettings) -> TrainingSetup:
    """Return an architecture with the data of the contest."""
    spec = load_network_spec(arch, settings.space, settings.compute.device)
    return TrainingSetup(str(arch), arch.space, spec, settings.data, settings.source, None)


def measure_step_seconds(
    setup: TrainingSetup, settings: ContestSettings, part: PartInMemory
) -> float:
    """Return how long a training step of a network takes.

    Args:
        setup: The network and its data.
        settings: How it is trained.
        part: Training samples, of which a few batches are used.
    """
    process = make_training_process(settings.compute.device)
    network = setup.build_network(process.device, settings.seed)
    steps = TIMED_STEPS
    if settings.recipe.graphs and torch.device(process.device).type == "cuda":
        steps = TIMED_REPLAYED_STEPS
    count = min(len(part), steps * settings.recipe.batch)
    parts = {TRAIN: select_samples(part, torch.arange(count)), VAL: part}
    training = Training(
        network,
        settings.source,
        settings.recipe,
        parts,
        process,
        settings.seed,
        select_weights=False,
    )
    durations = []
    last = perf_counter()
    with random_state(training.seed), fastest_kernels(training.device):
        training.model.train()
        for batch in training.train_loader.iterate_training_batches(0):
            training.train_step(batch)
            # Reading the loss waits until a GPU has finished the step.
            float(training.epoch_loss)
            now = perf_counter()
            durations.append(now - last)
            last = now
    # The first step is slower than the others, because it also prepares the kernels.
    return min(durations)
