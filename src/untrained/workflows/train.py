"""`train(...)`: train a network on data with a recipe, and save the result in a folder.

The samples, augmentation and dropout of a step depend only on the seed and the number of the step.
So a training that was killed resumes from its last checkpoint and ends with the same weights, on a
CPU bit for bit. After every epoch, the weights and their moving average are evaluated on the
validation part: by accuracy, or by the loss on tables and in regressions. The best weights are
kept; if two epochs are equally good, those of the later one; if the weights and their average are
equally good, the average. The test part is evaluated once, at the end, with the best weights.

A refit also trains on the validation part, and takes the weights at the end. Before a refit on all
samples, another refit without the test part estimates how good the result will be.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import Any, TypedDict, Unpack

from torch import nn

from untrained.command_text import format_options
from untrained.data import DataSource
from untrained.data.mirror import describe_mirroring
from untrained.data.parts import (
    TEST,
    TRAIN,
    VAL,
    ArrayPart,
    ImagePart,
    Part,
    fingerprint_samples,
    join_parts,
)
from untrained.data.registry import belongs_to_user
from untrained.data.samples import DATASET_NAME, is_samples
from untrained.errors import Interrupted, UsageError
from untrained.files import remove_partial_writes
from untrained.identity import read_torch_version
from untrained.names import is_reference
from untrained.probe.guard import fastest_kernels, random_state
from untrained.progress import Progress, ProgressCallback
from untrained.quantities import (
    check_count,
    check_optional_count,
    check_seed,
    parse_duration,
    parse_path,
    parse_shape,
)
from untrained.runs.folder import RunFolder
from untrained.runs.winner import CONTEST_FILE
from untrained.spaces import Space
from untrained.training.adaptation import adapt_recipe
from untrained.training.checkpoint import (
    CHECKPOINT_FILE,
    CHECKPOINT_SECONDS,
    CHECKPOINT_STEPS,
    WEIGHTS_FILE,
    copy_portable_weights,
    fingerprint_weights,
    load_tensors,
    load_weights,
    save_tensors,
)
from untrained.training.distributed import ACCELERATE, TrainingProcess, make_training_process
from untrained.training.evaluation import DivergedError
from untrained.training.final_evaluation import evaluate_training
from untrained.training.folder import (
    TENSORBOARD_FOLDER,
    move_training_aside,
    read_training_key,
)
from untrained.training.loop import Training
from untrained.training.recipes import (
    RECIPES,
    Recipe,
    format_recipe,
    get_default_recipe_name,
    load_recipe,
)
from untrained.training.result import (
    ESTIMATE_FOLDER,
    TRAINING_FILE,
    AnotherTrainingError,
    TrainingKey,
    TrainingResult,
)
from untrained.types import REGRESSION, Arch
from untrained.workflows.final_training import FinalTraining, plan_final_training
from untrained.workflows.live_report import LiveReport
from untrained.workflows.network_spec import is_ctr_design
from untrained.workflows.training_setup import TrainingSetup, find_run_folder, prepare_training

# Values of the option `refit`.
VALIDATION = "validation"
ALL_PARTS = "all"


class _EstimateOptions(TypedDict):
    """Options that the estimate training shares with `train`."""

    data: object
    recipe: str
    space: str | Space
    device: str
    seed: int
    refit: bool | str
    start: str | Path | None
    finish_in: float | None
    checkpoint_every: int
    input_shape: tuple[int, ...] | None
    data_root: str | Path | None
    on_progress: ProgressCallback | None


def train(
    network: "nn.Module | Arch | str | Path",
    data: object = None,
    recipe: str | None = None,
    *,
    space: str | Space = "nasbench201",
    epochs: int | None = None,
    run: str | Path | None = None,
    device: str = "cpu",
    seed: int | None = None,
    patience: int | None = None,
    refit: bool | str = False,
    start: str | Path | None = None,
    time: str | None = None,
    finish_in: float | None = None,
    checkpoint_every: int = CHECKPOINT_STEPS,
    input_shape: tuple[int, ...] | None = None,
    tensorboard: bool = False,
    data_root: str | Path | None = None,
    on_progress: ProgressCallback | None = None,
) -> TrainingResult:
    """Train a network on data, and evaluate it once on the test part.

    The same call with the same folder resumes a training that was killed, and returns the result of
    a finished one.

    Args:
        network: A module, which is copied; an architecture or an architecture string of `space`; a
            factory such as "./file.py:factory"; or a run folder, for its winner.
        data: Data to train on: a name such as "digits" or "folder:./photos", a pair (inputs,
            targets) of tensors or numpy arrays, a torch Dataset of such pairs, or a DataLoader,
            whose dataset is used. The default is the data of the run. Inputs in Python may have any
            shape: (N, F), (N, C, L), (N, C, H, W). They are standardised with the mean and the
            deviation of each feature or channel in the training part, and are not augmented.
            Integer targets are classes; floats are numbers for a regression. 80 % of the samples
            are for training and 10 % each for validation and test, with equal shares of each class;
            the split depends only on the samples and their order.
        recipe: A recipe, with options in brackets: "quick(epochs=5,rate=0.05)". The default is the
            recipe of the earlier training of the run if there is one, else "ctr" for tables with a
            binary label, "photos" for your own pictures and arrays (C, H, W), "table" for other
            data of your own and "quick" for everything else. The winner of a contest continues with
            its weights and its learning rate, as a refit, unless `data`, `recipe`, `run`, `start`
            or `patience` is set.
        space: The space of an architecture.
        epochs: Number of epochs, instead of that of the recipe.
        run: Folder of the training. The default is the run folder, or a new one below `runs`. If
            the run has a new winner, the training of the earlier winner is moved into a subfolder.
        device: A torch device, or "accelerate" for several processes.
        seed: Seed of weights, order and augmentation. The default is that of the run, or 0.
        patience: Stop after this number of epochs without improvement.
        refit: True or "validation" to train on the training and the validation part together.
            Nothing is then selected: the result has the moving average of the weights at the end,
            or the last weights if the recipe has no average. "all" to train in the same way on all
            samples, test part included, after a training without the test part, which is kept in
            the subfolder `estimate` and estimates how good the network is.
        start: Path of a file with initial weights, such as the model.pt of another training of the
            same network. The default is fresh weights.
        time: Stop after this time, such as "5m". The same call then continues.
        finish_in: Seconds within which the whole learning-rate schedule must finish. Epochs are
            left out if it would take longer; `time` only interrupts the training.
        checkpoint_every: Number of steps between checkpoints. There is also one after every epoch
            and, unless several processes train, one when 30 seconds have passed.
        input_shape: Input shape of the network, such as (3, 32, 32).
        tensorboard: Whether to write the learning curve for TensorBoard too.
        data_root: Folder that contains the data sets.
        on_progress: Called after every step.

    Returns:
        The result. Its `model` has the selected weights and is in evaluation mode. If an earlier
        call has finished this training, `was_finished` is true, and nothing was trained.

    Raises:
        UsageError: A value is invalid, the network does not fit the data, the folder contains
            another training, or the training diverged.
        Interrupted: The user pressed Ctrl-C.

    Example:
        >>> import torch
        >>> import untrained as ut
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
        >>> result = ut.train(
        ...     model, "digits", "quick(epochs=1)", input_shape=(3, 32, 32), run="runs/linear"
        ... )
        >>> result.end_reason
        'epochs'
    """
    if is_samples(recipe):
        raise UsageError("give inputs and labels as one argument: train(model, (inputs, labels))")
    checkpoint_every = check_count(checkpoint_every, "checkpoint_every")
    epochs = check_optional_count(epochs, "epochs")
    patience = check_optional_count(patience, "patience")
    if seed is not None:
        seed = check_seed(seed)
    if input_shape is not None:
        input_shape = parse_shape(input_shape)
    if run is not None:
        run = parse_path(run, "run")
    if start is not None:
        start = parse_path(start, "start")
    refit = parse_refit(refit)
    if refit and patience:
        raise UsageError(
            "--patience needs the validation part, which --refit trains on; leave one of them out"
        )
    if refit == ALL_PARTS and time is not None:
        raise UsageError(
            "--refit all trains twice for equally many epochs, so --time cannot stop it; "
            "use --epochs instead"
        )
    time_limit = inf
    if time is not None:
        time_limit = parse_duration(time)
    if tensorboard:
        # A missing package is reported before anything is computed.
        _import_summary_writer()
    process = make_training_process(device)
    # The winner of a contest is trained as by `search --export`, unless the user sets options.
    # Seed, number of epochs and time do not matter here: they change the length and the random
    # numbers of this training, but not what is trained and how.
    uses_data_of_run = data is None or _is_contest_on_python_data(network)
    if uses_data_of_run and all(option is None for option in (recipe, run, start, patience)):
        final_training = _plan_winner_training(network)
        if final_training is not None:
            recipe = final_training.recipe
            start = final_training.start
            refit = refit or final_training.refit
    recipe_text = recipe or _read_former_recipe(network)
    # The default recipe depends on the task, which is known only after the data are loaded.
    loaded_recipe = _load_recipe(recipe_text or "quick", epochs)
    if device == ACCELERATE and (time or patience or finish_in is not None):
        # Each process has its own clock and its own running statistics.
        raise UsageError(
            "--time, --patience and finish_in cannot be used with --device accelerate; leave them "
            "out"
        )
    start_time = perf_counter()
    setup = prepare_training(
        network, space, data, loaded_recipe, input_shape, process.device, data_root
    )
    if recipe_text is None:
        default_recipe = get_default_recipe_name(setup.source.task, belongs_to_user(setup.data))
        loaded_recipe = _load_recipe(default_recipe, epochs)
    if seed is None:
        seed = setup.seed
    parts = _load_parts(setup)
    notes = []
    is_flip_from_data = "flip" in loaded_recipe.from_data
    loaded_recipe = adapt_recipe(loaded_recipe, setup.source)
    if is_flip_from_data and isinstance(parts[TRAIN], ImagePart):
        has_numbers = setup.source.task.kind == REGRESSION
        notes.append(describe_mirroring(loaded_recipe.flip, has_numbers=has_numbers))
    if isinstance(parts[TRAIN], ArrayPart) and loaded_recipe.augments_images:
        notes.append(f"the augmentation of {loaded_recipe.name} is left out: samples are arrays")
    key = TrainingKey(
        what=setup.name,
        space=setup.space,
        arch=setup.arch,
        data=setup.data,
        recipe=loaded_recipe.to_document(),
        seed=seed,
        device=device,
        input_shape="x".join(str(side) for side in input_shape or ()),
        patience=patience,
        refit=refit,
        start=_fingerprint_weights(start),
        code=setup.fingerprint_code(),
        samples=fingerprint_samples(parts),
        torch=read_torch_version(),
    )
    if run is None:
        folder = setup.choose_default_folder(loaded_recipe.name, key.code, key.samples)
    else:
        folder = Path(run)
    if folder == setup.run_folder:
        _move_earlier_training(folder, key, process)
    earlier_result = _read_finished_training(folder, key)
    if earlier_result is not None:
        if process.writes_files:
            # A process may have been killed just before it removed its checkpoint. The folder of a
            # finished training may be read-only.
            with suppress(OSError):
                _remove_checkpoint(folder)
        model = _load_trained_network(setup, folder, process.device, seed)
        return replace(earlier_result, model=model, was_finished=True)
    # The parts to train and select with, and the parts whose sizes are listed in the result.
    training_parts = parts
    listed_parts = parts
    estimate: TrainingResult | None = None
    if refit:
        joined_part = join_parts(parts[TRAIN], parts[VAL])
        if refit == ALL_PARTS:
            # Both trainings have equally many epochs, so the samples decide how the time is shared.
            estimate_seconds = None
            if finish_in is not None:
                samples = len(joined_part)
                estimate_seconds = finish_in * samples / (2 * samples + len(parts[TEST]))
            estimate = _train_for_estimate(
                network,
                folder / ESTIMATE_FOLDER,
                process,
                data=get_data_argument(setup.data, setup.source),
                recipe=loaded_recipe.label,
                space=space,
                device=device,
                seed=seed,
                refit=True,
                start=start,
                finish_in=estimate_seconds,
                checkpoint_every=checkpoint_every,
                input_shape=input_shape,
                data_root=data_root,
                on_progress=on_progress,
            )
            joined_part = join_parts(joined_part, parts[TEST])
        training_parts = {TRAIN: joined_part, VAL: parts[VAL]}
        listed_parts = {TRAIN: joined_part, TEST: parts[TEST]}
    model = setup.build_network(process.device, seed)
    if start is not None:
        _load_initial_weights(model, start)
    training = Training(
        model,
        setup.source,
        loaded_recipe,
        training_parts,
        process,
        seed,
        select_weights=not refit,
    )
    if estimate is not None:
        # If the estimate was shortened, so is this training.
        training.limit_epochs(len(estimate.curve))
    training.resume_if_saved(folder / CHECKPOINT_FILE, key)
    checkpoint_seconds = CHECKPOINT_SECONDS
    if device == ACCELERATE:
        # Each process has its own clock, but all must save at the same step.
        checkpoint_seconds = inf
    live_report = LiveReport(on_progress)
    remaining_seconds = inf
    if finish_in is not None:
        remaining_seconds = finish_in - (perf_counter() - start_time)
    board: TensorBoardWriter | None = None

    def save_checkpoint() -> None:
        training.average_epoch_loss()
        if process.writes_files:
            training.make_checkpoint(key).save(folder / CHECKPOINT_FILE)

    def report_step() -> None:
        if board:
            board.write_epoch(training)
        live_report.update(_make_progress(training))

    with ExitStack() as stack:
        if tensorboard and process.writes_files:
            board = TensorBoardWriter(folder / TENSORBOARD_FOLDER)
            stack.callback(board.close)
        if process.writes_files and folder == setup.run_folder:
            network_text = f"The winner is being trained: {setup.arch or setup.name}."
            stack.enter_context(live_report.follow(RunFolder.read(folder), network_text))
        stack.enter_context(random_state(seed))
        stack.enter_context(fastest_kernels(process.device))
        stack.enter_context(_explain_early_end(training, folder))
        end_reason = training.run(
            save_checkpoint=save_checkpoint,
            checkpoint_every=checkpoint_every,
            checkpoint_seconds=checkpoint_seconds,
            patience=patience,
            time_limit=time_limit,
            finish_in=remaining_seconds,
            on_step=report_step,
        )
        if training.recipe.epochs < loaded_recipe.epochs:
            notes.append(
                f"there was time for {training.recipe.epochs} of {loaded_recipe.epochs} epochs"
            )
        result = evaluate_training(
            training,
            key,
            end_reason,
            listed_parts,
            class_names=tuple(setup.source.classes),
            command=_format_command(key, loaded_recipe, folder),
            notes=tuple(notes),
            folder=folder,
        )
        if estimate is not None:
            result = result.with_test_results_of(estimate)
        if process.writes_files:
            save_tensors(folder / WEIGHTS_FILE, copy_portable_weights(training.model))
            if setup.source.schema:
                setup.source.schema.save(folder)
            result.save()
            # A training that reached its time limit needs its checkpoint to continue.
            if end_reason != "time":
                _remove_checkpoint(folder)
    process.wait_for_others()
    return result


def parse_refit(refit: bool | str) -> bool | str:
    """Check the option `refit`.

    Returns:
        False for no refit, True for one on training and validation part, or `ALL_PARTS`.

    Raises:
        UsageError: It has another value.
    """
    if refit == VALIDATION:
        return True
    if isinstance(refit, bool) or refit == ALL_PARTS:
        return refit
    raise UsageError(
        f"--refit {refit} is unknown: write --refit {VALIDATION} to train on the validation part "
        f"too, or --refit {ALL_PARTS} for the test part as well"
    )


def _train_for_estimate(
    network: "nn.Module | Arch | str | Path",
    folder: Path,
    process: TrainingProcess,
    **options: Unpack[_EstimateOptions],
) -> TrainingResult:
    """Train without the test part, to estimate how good a training on all samples will be.

    Args:
        network: The network, as the user named it.
        folder: Folder of this training. An earlier one with other settings is moved aside.
        process: This process.
        **options: Options of `train`.
    """
    try:
        return train(network, run=folder, **options)
    except AnotherTrainingError:
        if process.writes_files:
            move_training_aside(folder)
        process.wait_for_others()
    return train(network, run=folder, **options)


def get_data_argument(name: str, source: DataSource) -> str | DataSource:
    """Return what `train` takes for data that are loaded already.

    Args:
        name: Name of the data.
        source: The data.

    Returns:
        The name, or the source if only objects in Python have these samples.
    """
    if name == DATASET_NAME:
        return source
    return name


def _is_contest_on_python_data(network: object) -> bool:
    """Return whether the user named the run folder of a contest whose data exist only in Python."""
    run_folder = find_run_folder(network)
    if run_folder is None or not (run_folder / CONTEST_FILE).is_file():
        return False
    return RunFolder.read(run_folder).config.data == DATASET_NAME


def _plan_winner_training(network: object) -> FinalTraining | None:
    """Plan the training of the winner of a contest as `search --export` does.

    Returns:
        The plan; None if the network is no run folder, or the run has no contest.
    """
    run_folder = find_run_folder(network)
    if run_folder is None or not (run_folder / CONTEST_FILE).is_file():
        return None
    return plan_final_training(run_folder, None)


def _read_former_recipe(network: object) -> str | None:
    """Read the recipe of the earlier training in a run folder; None if there is none.

    A confirmation may have selected the learning rate of this recipe.
    """
    run_folder = find_run_folder(network)
    if run_folder is None:
        return None
    former_key = read_training_key(run_folder)
    if former_key is None:
        return None
    return format_recipe(former_key.recipe)


def _load_recipe(text: str, epochs: int | None) -> Recipe:
    recipe = load_recipe(text)
    if epochs is not None:
        recipe = recipe.with_options(epochs=epochs)
    return recipe


def _fingerprint_weights(path: Path | None) -> str:
    """Return a fingerprint of a file of weights; empty without a file.

    Raises:
        UsageError: There is no such file.
    """
    if path is None:
        return ""
    try:
        return fingerprint_weights(path)
    except OSError as error:
        raise UsageError(f"start={str(path)!r} cannot be read: {error}") from error


def _load_initial_weights(model: nn.Module, path: Path) -> None:
    """Load the file of the option `start` into a network.

    Raises:
        UsageError: The file is damaged, or holds the weights of another network.
    """
    try:
        load_weights(model, load_tensors(path), path)
    except UsageError as error:
        raise UsageError(
            f"start={str(path)!r} is not a state dict of this network; name one, such as the "
            f"{WEIGHTS_FILE} of another training of the same network, or leave start out"
        ) from error


def _load_parts(setup: TrainingSetup) -> dict[str, Part]:
    """Load the training, validation and test part, and refuse an empty one."""
    parts = {}
    for name in (TRAIN, VAL, TEST):
        part = setup.source.parts[name]
        if len(part) == 0:
            raise UsageError(
                f"{setup.data} has no samples for the {name} part; add more samples of each class"
            )
        parts[name] = part
    return parts


def _move_earlier_training(folder: Path, key: TrainingKey, process: TrainingProcess) -> None:
    """Move the training of an earlier winner into a subfolder of the run folder."""
    if process.writes_files:
        former_key = read_training_key(folder)
        if former_key is not None and former_key.arch != key.arch:
            move_training_aside(folder)
    # The other processes must not read the folder before it is moved.
    process.wait_for_others()


def _read_finished_training(folder: Path, key: TrainingKey) -> TrainingResult | None:
    """Read the result of an earlier call; None if there is none or its time limit was reached.

    Raises:
        AnotherTrainingError: The folder contains another training.
    """
    if not (folder / TRAINING_FILE).is_file():
        return None
    result = TrainingResult.read(folder)
    key.check_same(result.key, folder)
    if result.end_reason == "time":
        return None
    return result


def _load_trained_network(setup: TrainingSetup, folder: Path, device: str, seed: int) -> nn.Module:
    """Build the network and load the weights of a finished training."""
    network = setup.build_network(device, seed)
    path = folder / WEIGHTS_FILE
    load_weights(network, load_tensors(path), path)
    return network.eval()


def _remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a finished training, and partial files of killed processes."""
    (folder / CHECKPOINT_FILE).unlink(missing_ok=True)
    remove_partial_writes(folder / CHECKPOINT_FILE)
    remove_partial_writes(folder / WEIGHTS_FILE)


@contextmanager
def _explain_early_end(training: Training, folder: Path) -> Iterator[None]:
    """Explain in one line why a training ended early: Ctrl-C, or the loss diverged."""
    checkpoint = folder / CHECKPOINT_FILE
    try:
        yield
    except KeyboardInterrupt:
        epoch = training.step // training.steps_per_epoch + 1
        advice = "nothing was saved yet"
        if checkpoint.is_file():
            advice = f"the last checkpoint is in {folder}; run the same command to resume from it"
        raise Interrupted(
            f"stopped by Ctrl-C in epoch {epoch} of {training.recipe.epochs}; {advice}"
        ) from None
    except DivergedError as error:
        # A training resumed from this checkpoint would diverge again.
        checkpoint.unlink(missing_ok=True)
        recipe = _lower_rate(training.recipe).label
        raise UsageError(f"{error}; try a lower rate: --recipe '{recipe}'") from None


def _lower_rate(recipe: Recipe) -> Recipe:
    """Return the recipe with a tenth of its learning rate, or the default rate if that is lower."""
    tenth = float(f"{recipe.rate / 10:g}")
    default_rate = RECIPES[recipe.name].rate
    return recipe.with_options(rate=min(tenth, default_rate))


def _make_progress(training: Training) -> Progress:
    """Return the progress of a training, with the metrics of the last finished epoch."""
    last_row: Mapping[str, float] = {}
    if training.curve:
        last_row = training.curve[-1]
    epochs = training.recipe.epochs
    metrics = {
        "epoch": min(training.step // training.steps_per_epoch + 1, epochs),
        "epochs": epochs,
        "loss": last_row.get("loss"),
        "val_accuracy": last_row.get("val_accuracy"),
        "val_loss": last_row.get("val_loss"),
        "val_rmse": last_row.get("val_rmse"),
    }
    return Progress("training", training.step, training.total_steps, metrics=metrics)


def _format_command(key: TrainingKey, recipe: Recipe, folder: Path) -> str:
    """Return the command that repeats a training.

    It is empty for what a command cannot express: a module, data in Python, or initial weights from
    a file.
    """
    # The winner of a run folder may be a hand-designed network, which has no space.
    is_named = bool(key.space) or is_reference(key.what) or is_ctr_design(key.arch)
    if not is_named or key.start or key.data == DATASET_NAME:
        return ""
    options: dict[str, Any] = {
        "space": key.space,
        "data": key.data,
        "recipe": recipe.label,
        "input_shape": key.input_shape,
        "seed": key.seed,
        "device": key.device,
        "patience": key.patience,
        "run": str(folder),
    }
    command = f"untrained train {quote(key.what)} {format_options(train, options)}"
    if key.refit:
        value = ALL_PARTS if key.refit == ALL_PARTS else VALIDATION
        command += f" --refit {value}"
    return command


def _import_summary_writer() -> Any:
    """Return the class of torch that writes for TensorBoard.

    Raises:
        UsageError: The optional package is missing.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UsageError("--tensorboard needs one more package: pip install tensorboard") from error
    return SummaryWriter


class TensorBoardWriter:
    """Writes the learning curve of a training for TensorBoard, which is an optional package."""

    def __init__(self, folder: Path) -> None:
        self._writer = _import_summary_writer()(str(folder))

    def write_epoch(self, training: Training) -> None:
        """Write the metrics of the last epoch if it has just ended."""
        if not training.is_at_epoch_end:
            return
        row = training.curve[-1]
        epoch = int(row["epoch"])
        for name, value in row.items():
            if name != "epoch":
                self._writer.add_scalar(name, value, epoch)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
