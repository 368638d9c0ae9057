"""Warm-up: a little training before networks are scored, as in SiGeo (arXiv:2311.13169).

    10%                                       one pass over 10 % of the training samples
    10%(paths=sandwich,rate=0.05,batch=64)    with other subnets, learning rate and batch size
    10%(paths=each)                           every candidate on its own
    1%(preset=nasrec)                         the schedule of NASRec, the default for tables

If the space has a supernet, the supernet is trained once, through subnets that are sampled from it
(`supernet_paths.py`), and candidates inherit its weights. Otherwise, and with `paths=each`, every
candidate is trained before it is scored, and the time counts as build time. Options and presets are
in `warm_up_plan.py`. Gradients are clipped at norm 5.

All random numbers depend on seeds, never on the order of work. A warm-up that was killed therefore
resumes from its checkpoint and ends with the same weights; on a CPU they are equal bit for bit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from untrained.data import TRAIN, DataSource, Part
from untrained.engine.devices import check_device
from untrained.engine.threads import use_threads
from untrained.engine.worker import PrepareWeights
from untrained.engine.worker_setup import WeightSource
from untrained.errors import Interrupted, Unscorable, UsageError
from untrained.identity import read_torch_version
from untrained.names import parse_call
from untrained.probe.gradients import compute_sample_losses
from untrained.probe.guard import random_state
from untrained.probe.passes import read_logits
from untrained.progress import Progress, ProgressCallback
from untrained.quantities import parse_share
from untrained.seeds import derive_seed, make_torch_generator
from untrained.spaces import Space
from untrained.training.checkpoint import (
    CHECKPOINT_SECONDS,
    Weights,
    load_tensors,
    save_tensors,
)
from untrained.training.supernet_paths import SupernetPaths, accumulate_gradients
from untrained.training.warm_up_plan import WarmUpPlan, make_warm_up_plan
from untrained.types import BINARY, Arch, Batch, Task

WARM_UP_FILE = "warmup.pt"
MAX_GRADIENT_NORM = 5.0


@dataclass(frozen=True)
class WarmUp:
    """A short training of networks before they are scored: its samples and its plan.

    Attributes:
        share: Fraction of the training samples to use.
        plan: How to train.
        part: All training samples.
        task: The task of the data.
    """

    share: float
    plan: WarmUpPlan
    part: Part
    task: Task

    @staticmethod
    def parse(text: str, source: DataSource) -> "WarmUp":
        """Parse what a user types, such as `10%(batch=64)`, for data with labels.

        Raises:
            UsageError: The text is wrong, or the data have no labels.
        """
        share_text, options = parse_call(text)
        share = parse_share(share_text)
        plan = make_warm_up_plan(options, _get_default_preset(source.task))
        return WarmUp(share, plan, source.parts[TRAIN], source.task)

    def prepare_weights(
        self,
        space: Space | None,
        seed: int,
        device: str,
        folder: Path | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> WeightSource:
        """Train the supernet of a space, or prepare the training of each candidate.

        A supernet that was trained before is read from its checkpoint. The device is needed only if
        the supernet has to be trained.

        Args:
            space: The space; None for a network that belongs to no space.
            seed: Seed of the weights, the order of the samples and the subnets.
            device: Device to train the supernet on.
            folder: Folder for the checkpoint; None to keep none.
            on_progress: Called before each step of the supernet and after the last one.

        Returns:
            The weights of the supernet, or the function that trains a candidate.

        Raises:
            UsageError: The warm-up diverged, the checkpoint is damaged, or the device is missing.
            Interrupted: The user pressed Ctrl-C.
        """
        if space is None or not space.has_supernet or self.plan.paths == "each":
            warm_up = replace(self, plan=replace(self.plan, paths="each"))
            return CandidateWarmUp(warm_up, warm_up.describe())
        path = None
        if folder is not None:
            path = folder / WARM_UP_FILE
        extra_options = [f"seed={seed}"]
        if space.version != 1:
            extra_options.append(f"version={space.version}")
        checkpoint = _read_checkpoint(path, self.describe(*extra_options))
        if checkpoint.step == self.steps:
            if on_progress:
                on_progress(Progress("warming up", self.steps, self.steps))
            return SupernetWeights(checkpoint.supernet, checkpoint.init, checkpoint.seconds)
        check_device(device)
        training = _SupernetTraining(self, space, seed, device, path, checkpoint)
        return training.run(on_progress)

    def describe(self, *extra_options: str) -> str:
        """Describe everything that the weights depend on, as text for the keys of records."""
        options = [f"{100 * self.share:g}%"]
        for field in fields(WarmUpPlan):
            options.append(f"{field.name}={getattr(self.plan, field.name)}")
        options.extend(extra_options)
        options.append(f"data={len(self.part)}:{self.part.fingerprint()[:16]}")
        return f"warm-up({','.join(options)})"

    @property
    def batch_size(self) -> int:
        """The batch size of the plan, or the number of samples if that is smaller."""
        return max(1, min(self.plan.batch, self._samples))

    @property
    def steps(self) -> int:
        """Number of steps of all passes."""
        return self.plan.passes * self._steps_per_pass

    @property
    def _samples(self) -> int:
        return int(self.share * len(self.part))

    @property
    def _steps_per_pass(self) -> int:
        # Incomplete batches are left out: a batch norm cannot be trained on a single sample.
        return max(1, self._samples // self.batch_size)

    def iterate_batches(self, device: str, *seed_parts: object) -> Iterator[Batch]:
        """Yield the batches of all passes. Every pass has the same samples in the same order."""
        for _ in range(self.plan.passes):
            generator = make_torch_generator("warm-up", "order", *seed_parts)
            batches = self.part.batches(self.batch_size, generator)
            for batch in islice(batches, self._steps_per_pass):
                # On a GPU, torch computes the gradient of average pooling wrongly with channels
                # last (dev/LOG.md).
                inputs = batch.inputs.contiguous()
                yield Batch(inputs, batch.targets).to(device)

    def compute_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Compute the mean loss of a batch."""
        logits = read_logits(model(batch.inputs))
        return compute_sample_losses(self.task.loss, logits, batch.targets).mean()


def _get_default_preset(task: Task) -> str:
    if task.kind == BINARY or task.vocabularies:
        return "nasrec"
    return "vision"


@dataclass(frozen=True)
class CandidateWarmUp:
    """A weight source that trains every candidate on its own.

    Initial weights and order of the samples depend on the architecture and the seed of the record.

    Attributes:
        warm_up: How to train.
        init: Description of the weights, for the keys of records.
        seconds: 0, because the time is in the records of the candidates.
    """

    warm_up: WarmUp
    init: str
    seconds: float = 0.0

    def open(self, make_supernet: Callable[[], Any], device: str) -> PrepareWeights:
        """Return the function that trains a candidate. `make_supernet` is not used."""
        return partial(self.train_candidate, device)

    def train_candidate(
        self,
        device: str,
        model: nn.Module,
        arch: Arch,
        seed: int,
        on_step: Callable[[int], None] | None = None,
    ) -> None:
        """Train one network.

        Args:
            device: Device to train on.
            model: The network, which is changed in place.
            arch: Its architecture.
            seed: Seed of the order of the samples, with the architecture.
            on_step: Called after each step with the number of steps so far.
        """
        batches = self.warm_up.iterate_batches(device, arch.space, arch, seed)
        with random_state(derive_seed("warm-up", arch.space, arch, seed)):
            self._train(model.to(device), batches, on_step)

    @torch.enable_grad()
    def _train(
        self,
        model: nn.Module,
        batches: Iterator[Batch],
        on_step: Callable[[int], None] | None,
    ) -> None:
        warm_up = self.warm_up
        was_training = model.training
        optimiser = warm_up.plan.make_optimiser(model.train())
        for step, batch in enumerate(batches):
            loss = warm_up.compute_loss(model, batch)
            if not torch.isfinite(loss):
                position = f"step {step + 1} of {warm_up.steps}"
                raise Unscorable("nan", f"its warm-up diverged at {position}")
            loss.backward()  # type: ignore[no-untyped-call]
            _update_weights(optimiser, model, warm_up.plan.rate_at(step, warm_up.steps))
            if on_step is not None:
                on_step(step + 1)
        model.train(was_training)


@dataclass(frozen=True)
class SupernetWeights:
    """A weight source that copies the weights of candidates from a trained supernet.

    Attributes:
        weights: State dict of the supernet, on the CPU.
        init: Description of the weights, for the keys of records.
        seconds: Training time of the supernet, including that before an interruption.
    """

    weights: Weights
    init: str
    seconds: float

    def open(self, make_supernet: Callable[[], Any], device: str) -> PrepareWeights:
        """Return the function that copies weights into a candidate.

        Args:
            make_supernet: Builds the supernet of the space on the device.
            device: The device of the candidates. It is not used here: `make_supernet` knows it.
        """

        # The supernet is built for the first candidate and not earlier, so that a finished run can
        # be read on a machine without the device.
        @cache
        def load_supernet() -> Any:
            with random_state(0):
                network = make_supernet()
            network.load_state_dict(self.weights)
            return network

        def copy_weights(model: nn.Module, arch: Arch, seed: int) -> None:
            subnet = load_supernet().subnet(arch)
            model.load_state_dict(subnet.state_dict())

        return copy_weights


@dataclass(frozen=True)
class _WarmUpCheckpoint:
    """State of the training of a supernet.

    Attributes:
        init: Description of the weights. A checkpoint with another description is ignored.
        step: Number of finished steps.
        seconds: Training time so far.
        supernet: Weights; empty before the first step.
        optimiser: State of the optimiser; empty before the first step.
    """

    init: str
    step: int
    seconds: float
    supernet: Weights
    optimiser: dict[str, Any]

    def save(self, path: Path) -> None:
        save_tensors(path, {**vars(self), "torch": read_torch_version()})


def _read_checkpoint(path: Path | None, init: str) -> _WarmUpCheckpoint:
    """Read the checkpoint of this warm-up; without one, return the state before the first step."""
    initial_state = _WarmUpCheckpoint(init, step=0, seconds=0.0, supernet={}, optimiser={})
    if path is None or not path.is_file():
        return initial_state
    try:
        content = load_tensors(path)
        version = content.pop("torch", None)
        checkpoint = _WarmUpCheckpoint(**content)
    except Exception as error:
        raise _damaged_checkpoint_error(path) from error
    # Another version of torch may compute other numbers.
    if checkpoint.init != init or version != read_torch_version():
        return initial_state
    return checkpoint


def _damaged_checkpoint_error(path: Path | None) -> UsageError:
    return UsageError(
        f"{path} is damaged or was not written by untrained; delete it to repeat the warm-up"
    )


class _SupernetTraining:
    """The training of a supernet, from its first step or from a checkpoint."""

    def __init__(
        self,
        warm_up: WarmUp,
        space: Space,
        seed: int,
        device: str,
        path: Path | None,
        checkpoint: _WarmUpCheckpoint,
    ) -> None:
        self.warm_up = warm_up
        self.device = device
        self.checkpoint_path = path
        self.seed_parts = (space.name, seed)
        with random_state(derive_seed("warm-up", "weights", *self.seed_parts)):
            self.supernet: nn.Module = space.supernet(warm_up.task, device)
        self.supernet.train()
        self.optimiser = warm_up.plan.make_optimiser(self.supernet)
        self.paths = SupernetPaths(
            warm_up.plan.paths, space, warm_up.task, self.supernet, seed, warm_up.steps
        )
        self.init = checkpoint.init
        self.step = checkpoint.step
        self.seconds = checkpoint.seconds
        self.has_checkpoint = checkpoint.step > 0
        if checkpoint.step > 0:
            self._resume(checkpoint)

    def run(self, on_progress: ProgressCallback | None) -> SupernetWeights:
        """Do all remaining steps, and return the weights of the trained supernet.

        Raises:
            UsageError: The loss is not finite.
            Interrupted: The user pressed Ctrl-C.
        """
        try:
            self._train(on_progress)
        except KeyboardInterrupt as interrupt:
            message = "stopped by Ctrl-C while warming up"
            if self.has_checkpoint:
                message += (
                    "; run the same command to resume from the last checkpoint, "
                    f"{self.checkpoint_path}"
                )
            elif self.checkpoint_path:
                message += "; nothing was saved yet"
            raise Interrupted(message) from interrupt
        self._report_progress(on_progress)
        weights = {}
        for name, tensor in self.supernet.state_dict().items():
            weights[name] = tensor.detach().cpu()
        return SupernetWeights(weights, self.init, self.seconds)

    def _train(self, on_progress: ProgressCallback | None) -> None:
        steps = self.warm_up.steps
        batches = self.warm_up.iterate_batches(self.device, *self.seed_parts)
        step_start = perf_counter()
        last_save = step_start
        for batch in islice(batches, self.step, None):
            self._report_progress(on_progress)
            # Each step is seeded, so that a resumed warm-up draws the same dropout masks. It uses
            # one thread, because the number of threads determines the order of summation.
            step_seed = derive_seed("warm-up", "step", *self.seed_parts, self.step)
            with use_threads(1), random_state(step_seed):
                self._train_step(batch)
            now = perf_counter()
            self.seconds += now - step_start
            step_start = now
            self.step += 1
            if now - last_save >= CHECKPOINT_SECONDS or self.step == steps:
                self._save()
                last_save = perf_counter()

    @torch.enable_grad()
    def _train_step(self, batch: Batch) -> None:
        """Do one step with the mean loss of its subnets."""
        warm_up = self.warm_up
        for subnet in self.paths.sample_paths(self.step):
            loss = warm_up.compute_loss(subnet, batch) / self.paths.paths_per_step
            if not torch.isfinite(loss):
                raise self._diverged_error()
            loss.backward()  # type: ignore[no-untyped-call]
            accumulate_gradients(self.supernet, subnet)
        rate = warm_up.plan.rate_at(self.step, warm_up.steps)
        _update_weights(self.optimiser, self.supernet, rate)

    def _diverged_error(self) -> UsageError:
        warm_up = self.warm_up
        lower_rate = float(f"{warm_up.plan.rate / 10:g}")
        plan = replace(warm_up.plan, rate=lower_rate)
        options = plan.format_options(_get_default_preset(warm_up.task))
        advice = f"try --warm-up '{100 * warm_up.share:g}%({options})'"
        return UsageError(f"the warm-up of the supernet diverged at step {self.step + 1}; {advice}")

    def _report_progress(self, on_progress: ProgressCallback | None) -> None:
        if on_progress:
            on_progress(Progress("warming up", self.step, self.warm_up.steps))

    def _save(self) -> None:
        if self.checkpoint_path is None:
            return
        checkpoint = _WarmUpCheckpoint(
            init=self.init,
            step=self.step,
            seconds=self.seconds,
            supernet=self.supernet.state_dict(),
            optimiser=self.optimiser.state_dict(),
        )
        checkpoint.save(self.checkpoint_path)
        self.has_checkpoint = True

    def _resume(self, checkpoint: _WarmUpCheckpoint) -> None:
        try:
            self.supernet.load_state_dict(checkpoint.supernet)
            self.optimiser.load_state_dict(checkpoint.optimiser)
        # The type of the exception depends on the kind of damage.
        except Exception as error:
            raise _damaged_checkpoint_error(self.checkpoint_path) from error


def _update_weights(optimiser: torch.optim.Optimizer, model: nn.Module, rate: float) -> None:
    """Do one step of the optimiser with clipped gradients, and clear the gradients."""
    nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()
    model.zero_grad()
