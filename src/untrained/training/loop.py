"""The training loop: one network and the steps of a recipe, without files or progress bars."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf, isfinite
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor, nn

from untrained.data import DataSource
from untrained.data.parts import TRAIN, VAL, Part
from untrained.probe.guard import seed_torch
from untrained.seeds import derive_seed
from untrained.training.adaptation import adapt_recipe
from untrained.training.batches import BatchLoader
from untrained.training.checkpoint import (
    BestWeights,
    Checkpoint,
    load_weights,
    read_checkpoint,
)
from untrained.training.cuda_graph import GradientFunction, ReplayedGradients
from untrained.training.distributed import SingleProcess, TrainingProcess
from untrained.training.ema import WeightAverage
from untrained.training.evaluation import (
    DivergedError,
    apply_memory_format,
    evaluate_network,
    get_selection_metric,
)
from untrained.training.memory import keep_freed_memory
from untrained.training.network import (
    DropPathSchedule,
    check_network_fits,
    choose_memory_format,
    make_loss,
    make_optimiser,
    supports_bfloat16,
)
from untrained.training.recipes import Recipe
from untrained.training.result import TrainingKey
from untrained.training.small_pictures import (
    MIN_SIDE,
    accepts_small_pictures,
    compute_work,
    count_small_steps,
    reduce_pictures,
)
from untrained.types import Batch


class Training:
    """The training of one network.

    `make_checkpoint` returns the whole state between two steps, and `resume_if_saved` restores it.

    Attributes:
        model: The network, which is changed in place.
        step: Number of finished steps.
        steps_per_epoch: Number of steps per epoch.
        curve: One row of metrics per finished epoch.
        best: The best weights on the validation part so far.
        seconds: Training time in total.
        epoch_seconds: Training time of finished epochs, without evaluation.
        epoch_samples: Number of samples that were trained on in that time.
    """

    def __init__(
        self,
        model: nn.Module,
        source: DataSource,
        recipe: Recipe,
        parts: Mapping[str, Part],
        process: TrainingProcess,
        seed: int,
        select_weights: bool = True,
    ) -> None:
        """Prepare the first step.

        Args:
            model: The network, on the device of the process.
            source: The data, for the task and a sample batch.
            recipe: How to train. Options that depend on the data are set here if the caller has not
                done so.
            parts: The train and the validation part. They may differ from those of `source`:
                thinned out, or joined for a refit.
            process: This process, which trains alone or with others.
            seed: Seed of order, augmentation and dropout.
            select_weights: Whether to evaluate after every epoch and keep the best weights. If not,
                the validation part is not read, and the result is `final_model`.

        Raises:
            UsageError: The network does not fit the data, or cannot be trained.
        """
        self.model = model
        self.select_weights = select_weights
        recipe = adapt_recipe(recipe, source)
        self.recipe = recipe
        self.process = process
        self.seed = seed
        self.task = source.task
        self.device = process.device
        self.use_bfloat16 = recipe.bf16 and supports_bfloat16(self.device)
        if torch.device(self.device).type == "cpu":
            keep_freed_memory()
        sample = source.batch(2, seed).to(self.device)
        check_network_fits(model, sample, self.task)
        self.memory_format = choose_memory_format(model, sample)
        model.to(memory_format=self.memory_format)  # type: ignore[call-overload]
        self.train_loader = BatchLoader.open(parts[TRAIN], self.task, recipe, self.device, seed)
        self.val_loader = BatchLoader.open(parts[VAL], self.task, recipe, self.device, seed)
        self.steps_per_epoch = self.train_loader.steps_per_epoch
        self.optimiser = make_optimiser(model, recipe)
        self.compute_loss = make_loss(self.task, recipe)
        self.selection_metric, self.metric_sign = get_selection_metric(self.task)
        self.wrapped_model = process.wrap_model(model)
        self.weight_average: WeightAverage | None = None
        if recipe.average:
            self.weight_average = WeightAverage(model, recipe.average)
        self.drop_path = DropPathSchedule(model)
        self.small_share = recipe.small_share
        if recipe.small_share and not self._accepts_small_pictures(sample):
            self.small_share = 0.0
        self.gradient_function: GradientFunction = self.compute_gradients
        if self._can_replay_steps():
            self.gradient_function = ReplayedGradients(self.compute_gradients, self.device)
        self.loss_weight = 1.0
        self.step = 0
        # The sum of losses stays on the device. Reading it in every step would block the GPU.
        self.epoch_loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self.curve: list[dict[str, float]] = []
        self.best: BestWeights | None = None
        self.seconds = 0.0
        self.epoch_seconds = 0.0
        self.epoch_samples = 0

    @property
    def total_steps(self) -> int:
        """Number of steps of the whole training."""
        return self.recipe.epochs * self.steps_per_epoch

    @property
    def is_at_epoch_end(self) -> bool:
        """Whether the last finished step was the last of an epoch."""
        return self.step % self.steps_per_epoch == 0

    def run(
        self,
        *,
        save_checkpoint: Callable[[], None] | None = None,
        checkpoint_every: int = 1,
        checkpoint_seconds: float = inf,
        patience: int | None = None,
        time_limit: float = inf,
        finish_in: float = inf,
        on_step: Callable[[], None] | None = None,
    ) -> str:
        """Train until the end.

        Args:
            save_checkpoint: Called after every epoch, after every `checkpoint_every` steps, after
                every `checkpoint_seconds`, and when the time limit is reached.
            checkpoint_every: Number of steps between checkpoints.
            checkpoint_seconds: Longest time between checkpoints.
            patience: Stop after this number of epochs without improvement; None for never.
            time_limit: Stop after this number of seconds.
            finish_in: Leave out epochs if the training would take more than this number of seconds.
                The learning-rate schedule is shortened with it. In the first half of the training,
                epochs that were left out are added again if the later ones turn out to be faster.
            on_step: Called after every step.

        Returns:
            Why the training ended: "epochs", "patience" or "time".
        """
        start = perf_counter()
        last_step_end = start
        last_save = start
        first_step = self.step
        planned_epochs = self.recipe.epochs
        # A resumed training may have been killed after its last step, before its result was saved.
        if self.is_out_of_patience(patience):
            return "patience"
        for _ in self._iterate_steps():
            now = perf_counter()
            self.seconds += now - last_step_end
            last_step_end = now
            is_late = now - start > time_limit
            if self.is_at_epoch_end:
                work = self._compute_work(first_step) - self._compute_work(self.step)
                affordable_work = (start + finish_in - now) * work / (now - start)
                self._adjust_epochs(affordable_work, planned_epochs)
            is_checkpoint_due = (
                self.is_at_epoch_end
                or is_late
                or self.step % checkpoint_every == 0
                or now - last_save >= checkpoint_seconds
            )
            if save_checkpoint and is_checkpoint_due:
                save_checkpoint()
                last_save = perf_counter()
            if on_step:
                on_step()
            if self.is_out_of_patience(patience):
                return "patience"
            if is_late and self.step < self.total_steps:
                return "time"
        return "epochs"

    def limit_epochs(self, epochs: int) -> None:
        """Train for at most this number of epochs. The learning-rate schedule ends there, too."""
        self.recipe = replace(self.recipe, epochs=min(epochs, self.recipe.epochs))

    def _compute_work(self, first_step: int, epochs: int | None = None) -> float:
        """Return the work of the steps from `first_step`, in steps on pictures of full size."""
        if epochs is None:
            epochs = self.recipe.epochs
        return compute_work(first_step, epochs * self.steps_per_epoch, self.small_share)

    def _adjust_epochs(self, affordable_work: float, planned_epochs: int) -> None:
        """Set the number of epochs to what there is time for. At least one more epoch is trained.

        The first epochs are often slower than the later ones, so an early choice can be too low. It
        is raised again only in the first half of the training. Later, a longer schedule would make
        the learning rate, which has already fallen, rise again.

        Args:
            affordable_work: The work that there is time for, in steps on pictures of full size.
            planned_epochs: Number of epochs if the time suffices.
        """
        epoch = self.step // self.steps_per_epoch
        if epoch >= self.recipe.epochs or affordable_work == inf:
            return
        epochs = planned_epochs
        while epochs > epoch + 1 and self._compute_work(self.step, epochs) > affordable_work:
            epochs -= 1
        is_in_first_half = epoch <= self.recipe.epochs / 2
        if epochs < self.recipe.epochs or is_in_first_half:
            self.recipe = replace(self.recipe, epochs=epochs)

    def _iterate_steps(self) -> Iterator[None]:
        """Do all remaining steps, one per iteration, and evaluate at the end of each epoch."""
        while self.step < self.total_steps:
            epoch, first_step = divmod(self.step, self.steps_per_epoch)
            drop_path_factor = 1.0
            if self.recipe.growing_drop_path:
                drop_path_factor = epoch / self.recipe.epochs
            self.drop_path.scale_rates(drop_path_factor)
            start = perf_counter()
            self.model.train()
            for batch in self.train_loader.iterate_training_batches(epoch, first_step):
                self.loss_weight = self.process.compute_loss_weight(batch)
                self.train_step(self.process.select_samples(batch))
                if self.is_at_epoch_end:
                    self._finish_epoch(epoch, start, self.steps_per_epoch - first_step)
                yield

    def train_step(self, batch: Batch) -> None:
        """Do one step of the optimiser."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.rate_at(self.step, self.steps_per_epoch)
        # Dropout and drop path draw from the global generator. It is seeded per step, so that a
        # resumed training draws the same numbers.
        seed_torch(derive_seed("step", self.seed, self.step))
        inputs = batch.inputs
        if self.step < count_small_steps(self.small_share, self.total_steps):
            inputs = reduce_pictures(inputs)
        inputs = apply_memory_format(inputs, self.memory_format)
        loss = self.gradient_function(inputs, batch.targets)
        if self.recipe.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimiser.step()
        self.epoch_loss += loss
        if self.weight_average:
            self.weight_average.update(self.step)
        self.step += 1

    def compute_gradients(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Compute the loss of a batch, and leave its gradients in the parameters."""
        device_type = torch.device(self.device).type
        with torch.autocast(device_type, torch.bfloat16, enabled=self.use_bfloat16):
            loss = self.compute_loss(self.wrapped_model(inputs), targets)
        if self.loss_weight != 1:
            loss = loss * self.loss_weight
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _accepts_small_pictures(self, sample: Batch) -> bool:
        """Return whether steps can use reduced pictures.

        The samples must be pictures of a sufficient size, and the network must accept smaller ones.
        A GPU that replays recorded steps needs inputs of one size.
        """
        if sample.inputs.ndim != 4 or min(sample.inputs.shape[2:]) < MIN_SIDE:
            return False
        return not self._can_replay_steps() and accepts_small_pictures(self.model, sample.inputs)

    def _can_replay_steps(self) -> bool:
        """Return whether steps can be replayed from a CUDA graph (`cuda_graph.py`).

        The recipe must allow it, and a single process must train on a GPU. A replayed step repeats
        the recorded drop-path rates, so these must not grow.
        """
        if not self.recipe.graphs:
            return False
        if torch.device(self.device).type != "cuda":
            return False
        if not isinstance(self.process, SingleProcess):
            return False
        rates_grow = self.recipe.growing_drop_path and self.drop_path.is_active
        return not rates_grow

    def _finish_epoch(self, epoch: int, start: float, steps: int) -> None:
        """Evaluate the weights after an epoch, and add a row to the curve.

        Args:
            epoch: Number of the epoch, from 0.
            start: When the first step of the epoch in this process began.
            steps: Number of steps of the epoch in this process.

        Raises:
            DivergedError: The loss is not finite.
        """
        self.average_epoch_loss()
        loss = float(self.epoch_loss) / self.steps_per_epoch
        self.epoch_loss.zero_()
        if not isfinite(loss):
            raise DivergedError(f"the training diverged: the loss of epoch {epoch + 1} is {loss}")
        # Reading the loss has synchronised the device, so the time includes all its work.
        self.epoch_seconds += perf_counter() - start
        self.epoch_samples += steps * self.train_loader.batch_size
        row = {
            "epoch": epoch + 1,
            "rate": self.recipe.rate_at(self.step - 1, self.steps_per_epoch),
            "loss": loss,
        }
        if not self.select_weights:
            self.curve.append(row)
            return
        candidate = self.evaluate_epoch(epoch)
        for name, value in candidate.metrics.items():
            row[f"val_{name}"] = value
        self.curve.append(row)
        # Of two equally good epochs, the weights of the later one are kept.
        if self.best is None or self._get_quality(candidate) >= self._get_quality(self.best):
            self.best = candidate

    def average_epoch_loss(self) -> None:
        """Replace `epoch_loss` by its mean over all processes, each of which must call this.

        All processes therefore detect in the same epoch that the training has diverged.
        """
        self.epoch_loss.copy_(self.process.average(self.epoch_loss))

    @property
    def final_model(self) -> nn.Module:
        """The network at the end of a training without selection: its moving average, if any."""
        if self.weight_average:
            return self.weight_average.model
        return self.model

    def copy_final_weights(self) -> BestWeights:
        """Return the weights of `final_model`, without validation metrics."""
        epoch = -(-self.step // self.steps_per_epoch)
        kind = "average" if self.weight_average else "weights"
        weights = {}
        for name, tensor in self.final_model.state_dict().items():
            weights[name] = tensor.detach().clone()
        return BestWeights(epoch, kind, {}, weights)

    def _get_quality(self, candidate: BestWeights) -> float:
        """Return the selection metric of some weights, with the sign for which higher is better."""
        return self.metric_sign * candidate.metrics[self.selection_metric]

    def evaluate_epoch(self, epoch: int) -> BestWeights:
        """Evaluate the weights and their moving average on the validation part.

        Returns:
            A copy of the better of the two. If both are equally good, it is the average.
        """
        models = {"weights": self.model}
        if self.weight_average:
            models = {"average": self.weight_average.model, "weights": self.model}
        best: BestWeights | None = None
        for kind, model in models.items():
            evaluation = evaluate_network(
                model, self.val_loader.iterate_evaluation_batches(), self.task, self.memory_format
            )
            candidate = BestWeights(epoch + 1, kind, evaluation.summary, model.state_dict())
            if best is None or self._get_quality(candidate) > self._get_quality(best):
                best = candidate
        assert best is not None
        # The state dict shares memory with the network, which training continues to change.
        weights = {name: tensor.detach().clone() for name, tensor in best.weights.items()}
        return BestWeights(best.epoch, best.kind, best.metrics, weights)

    def is_out_of_patience(self, patience: int | None) -> bool:
        """Return whether the last `patience` epochs brought no improvement.

        It is decided only at the end of an epoch. An epoch that is as good as the best one is no
        improvement, although its weights are kept.
        """
        if not patience or not self.curve or not self.is_at_epoch_end:
            return False
        name = f"val_{self.selection_metric}"
        values = [self.metric_sign * row[name] for row in self.curve]
        best_epoch = values.index(max(values))
        return len(values) - 1 - best_epoch >= patience

    def make_checkpoint(self, key: TrainingKey) -> Checkpoint:
        """Return the state of the training between two steps."""
        average = {}
        if self.weight_average:
            average = self.weight_average.model.state_dict()
        return Checkpoint(
            key=key,
            step=self.step,
            model=self.model.state_dict(),
            average=average,
            optimiser=self.optimiser.state_dict(),
            epoch_loss=self.epoch_loss,
            curve=self.curve,
            best=self.best,
            seconds=self.seconds,
            epoch_seconds=self.epoch_seconds,
            epoch_samples=self.epoch_samples,
            epochs=self.recipe.epochs,
        )

    def resume_if_saved(self, path: Path, key: TrainingKey) -> None:
        """Restore the state of a checkpoint if there is one, so that `run` continues from there.

        Order, augmentation and dropout depend only on the seed and the number of the step. So the
        result is the same as without the interruption; on a CPU it is equal bit for bit.

        Args:
            path: The checkpoint file. If it does not exist, the training starts at its first step.
            key: Identity of the training.

        Raises:
            UsageError: The checkpoint is damaged or belongs to another training.
        """
        if not path.is_file():
            return
        checkpoint = read_checkpoint(path)
        key.check_same(checkpoint.key, path.parent)
        load_weights(self.model, checkpoint.model, path)
        if self.weight_average:
            load_weights(self.weight_average.model, checkpoint.average, path)
        self.optimiser.load_state_dict(checkpoint.optimiser)
        self.epoch_loss.copy_(checkpoint.epoch_loss)
        self.step = checkpoint.step
        self.curve = checkpoint.curve
        self.best = checkpoint.best
        self.seconds = checkpoint.seconds
        self.epoch_seconds = checkpoint.epoch_seconds
        self.epoch_samples = checkpoint.epoch_samples
        if checkpoint.epochs is not None:
            self.limit_epochs(checkpoint.epochs)
