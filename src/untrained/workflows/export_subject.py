"""Find the network to export, its weights, and the facts about its data.

The user names a network by a text, a folder, an architecture or a module. The folder of a training
contains the trained weights, `model.pt`, and their description, `train.json`.
"""

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from untrained.data import DataSource
from untrained.data.parts import TRAIN, ArrayPart, ImagePart
from untrained.data.samples import DATASET_NAME
from untrained.data.tables.schema import SCHEMA, Schema, load_schema
from untrained.errors import UsageError
from untrained.exports.subject import ExportSubject
from untrained.names import fingerprint_user_code, is_reference, parse_call, require_trusted_code
from untrained.onnx_files import import_extra
from untrained.probe.guard import random_state
from untrained.readers.json_file import parse_json
from untrained.reports.confirmation_result import Confirmation
from untrained.runs.folder import RunFolder
from untrained.runs.ranking import Standing
from untrained.runs.winner import choose_trusted_space, read_winner
from untrained.seeds import derive_seed
from untrained.spaces import Space, fingerprint_space
from untrained.training.checkpoint import WEIGHTS_FILE, load_tensors
from untrained.training.result import TRAINING_FILE
from untrained.types import Arch, Task
from untrained.workflows.network_spec import (
    PSEUDO_SPACES,
    NetworkSpec,
    find_space_of,
    is_ctr_design,
    load_source_for,
    make_ctr_design_arch,
)
from untrained.workflows.timm_models import is_timm_name
from untrained.workflows.training_setup import (
    find_run_folder,
    load_training_data,
    parse_network,
)


@dataclass(frozen=True)
class _Request:
    """What to export. A folder that the user named is already replaced by its network.

    Attributes:
        network: The architecture, module or reference.
        space: The search space.
        data: The data that the user named or that the run used.
        input_shape: The shape of one sample.
        folder: The folder that the user named, or None.
        training: The content of `train.json` in the folder; empty without a training.
        run: The run in the folder.
        standing: The row of the winner in the ranking of the run; None for a hand-designed one.
        seed: The seed of the run.
        verdict: How a hand-designed network won, without a full stop; empty for any other network.
    """

    network: Any
    space: str | Space
    data: object
    input_shape: tuple[int, ...] | None
    folder: Path | None
    training: dict[str, Any]
    run: RunFolder | None = None
    standing: Standing | None = None
    seed: int = 0
    verdict: str = ""


@dataclass(frozen=True)
class _DataFacts:
    """Facts about the data of a network: task, classes, normalisation and columns.

    `has_arrays` says whether the samples are arrays of the user, not images or rows.
    """

    task: Task
    data: str | None
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    schema: Schema | None = None
    has_arrays: bool = False


def resolve_export_subject(
    network: "str | Path | Arch | nn.Module",
    space: str | Space,
    *,
    weights: str | Path | None = None,
    data: object = None,
    input_shape: tuple[int, ...] | None = None,
    num_classes: int | None = None,
    data_root: str | Path | None = None,
) -> ExportSubject:
    """Find the network to export. The parameters are those of `export`.

    Raises:
        UsageError: There is no such network, or the weights are those of another network.
    """
    request = _read_folder(network, space, weights, data, input_shape)
    requested_network = request.network
    if isinstance(requested_network, Path):
        requested_network = str(requested_network)
    spec = parse_network(requested_network, request.space, "cpu")

    # `train.json` describes the weights in the same folder. If the user names a file with weights,
    # the description next to that file applies.
    weights_folder = None
    if weights is not None and Path(weights).name == WEIGHTS_FILE:
        weights_folder = Path(weights).parent
    if weights is not None:
        weights_training = _read_training(weights_folder)
    else:
        weights_training = request.training

    # The facts about the data come from a training if there is one, else from the data themselves.
    if request.training and request.folder is not None:
        data_facts = _read_data_facts(request.training, request.folder, request.data)
    elif weights_training and weights_folder is not None:
        data_facts = _read_data_facts(weights_training, weights_folder, request.data)
    elif request.data == DATASET_NAME or not isinstance(request.data, str | None):
        data_name, source = load_training_data(spec, request.data, request.input_shape, data_root)
        data_facts = _find_data_facts(source, data_name)
    else:
        source = load_source_for(
            spec, request.data or "noise", request.input_shape, num_classes, data_root
        )
        data_facts = _find_data_facts(source, request.data)

    model = _build_network(spec, data_facts.task, request.seed)
    weights_file = None
    if weights is not None:
        weights_file = Path(weights)
    elif request.training and request.folder is not None:
        weights_file = request.folder / WEIGHTS_FILE
    origin = ""
    if weights_file is not None:
        _load_weights(model, weights_file)
        origin = str(weights_file)
    elif isinstance(request.network, nn.Module):
        origin = "the module itself"

    is_same_network = not weights_training or _is_training_of(
        weights_training["key"], spec, request.space
    )
    return ExportSubject(
        arch=str(spec.arch),
        space=_get_space_name(spec, request.space),
        network=model,
        task=data_facts.task,
        weights=origin,
        data=data_facts.data or "",
        classes=data_facts.classes,
        mean=data_facts.mean,
        std=data_facts.std,
        schema=data_facts.schema,
        was_trained_on_arrays=data_facts.has_arrays,
        # The weights of another network may fit, but its test result does not apply.
        training=weights_training if is_same_network else {},
        run=request.run,
        standing=request.standing,
        verdict=request.verdict,
    )


def _get_space_name(spec: NetworkSpec, space: str | Space) -> str:
    """Return the name of the search space; empty for a network of the user."""
    if spec.arch.space in PSEUDO_SPACES:
        return ""
    if isinstance(space, str):
        return space
    return find_space_of(spec.arch, space).name


# -------------------------------------------------------------------- runs and trainings in folders


def _read_folder(
    network: "str | Path | Arch | nn.Module",
    space: str | Space,
    weights: str | Path | None,
    data: object,
    input_shape: tuple[int, ...] | None,
) -> _Request:
    """Replace a folder by the winner of its run or the network of its training."""
    folder = find_run_folder(network)
    if folder is None:
        return _Request(network, space, data, input_shape, None, {})
    training = _read_training(folder)
    if not (folder / "run.json").is_file():
        if not training:
            raise UsageError(
                f"{folder} contains neither a search nor a training; "
                f"`untrained search --run {folder}` starts a search"
            )
        training_space = _choose_space_of_training(training["key"], folder, space) or space
        arch = training["key"]["arch"]
        return _Request(arch, training_space, data, input_shape, folder, training)

    run = RunFolder.read(folder)
    winner = read_winner(folder)
    if training and training["key"]["arch"] != winner.name:
        # The search has found a better architecture after the training.
        if not weights:
            raise UsageError(
                f"the training in {folder} is that of an earlier winner; "
                f"first run untrained train {folder}"
            )
        training = {}
    requested_data = winner.data if data is None else data
    if winner.winning_design:
        return _Request(
            network=make_ctr_design_arch(winner.winning_design),
            space=space,
            data=requested_data,
            input_shape=input_shape or winner.input_shape,
            folder=folder,
            training=training,
            run=run,
            seed=winner.seed,
            verdict=_read_verdict(run),
        )
    run_space = choose_trusted_space(winner, folder, space, f"untrained export {folder}")
    arch = winner.arch
    if training:
        arch = training["key"]["arch"]
        # The recipe may have added options to the space.
        run_space = _choose_space_of_training(training["key"], folder, space) or run_space
    return _Request(
        network=arch,
        space=run_space,
        data=requested_data,
        input_shape=input_shape or winner.input_shape,
        folder=folder,
        training=training,
        run=run,
        standing=winner.standing,
        seed=winner.seed,
    )


def _read_verdict(run: RunFolder) -> str:
    """Return how a hand-designed network won in a run, without a full stop."""
    confirmation = Confirmation.read(run)
    assert confirmation is not None  # it names the winner
    return confirmation.winner_text


def _choose_space_of_training(
    key: dict[str, Any], folder: Path, named_space: str | Space
) -> str | Space:
    """Return the space of a trained network if it may be loaded.

    Code that a folder refers to runs only if it is unchanged and the user has asked to run this
    version of the code on this machine before, or if the user names it now.

    Args:
        key: The key of the training.
        folder: The folder of the training.
        named_space: The space that the user names now.

    Returns:
        The space; empty for a network without one.

    Raises:
        UsageError: The user must name the code; the message says how.
    """
    space: str = key["space"]
    code: str | None = key.get("code") or None
    if not space:
        _check_factory_of_training(key["arch"], code, folder)
        return ""
    base, options = parse_call(space)
    if isinstance(named_space, Space):
        # A space that is a Python object cannot be loaded by its name, so the object is returned.
        if is_reference(base) or parse_call(named_space.name)[0] == base:
            # The options of the training belong to the network.
            return named_space.with_options(**options) if options else named_space
        return space
    if not is_reference(base):
        return space
    named_base = parse_call(named_space)[0]
    if is_reference(named_base):
        if not options:
            return named_space
        # The options of the training belong to the network, and the file may have moved.
        return f"{named_base}{space[len(base) :]}"
    require_trusted_code(space, code, str(folder), f"untrained export {folder} --space {base}")
    return space


def _check_factory_of_training(arch: str, code: str | None, folder: Path) -> None:
    """Refuse a network without a space if it cannot be rebuilt or its code must not run."""
    if is_timm_name(arch) or is_ctr_design(arch):
        return
    weights = f"{folder}/{WEIGHTS_FILE}"
    if not is_reference(arch):
        call = f"untrained.export(model, 'exported', weights='{weights}')"
        raise UsageError(f"{folder} was trained from a module, which exists only in Python: {call}")
    require_trusted_code(arch, code, str(folder), f"untrained export {arch} --weights {weights}")


def _is_training_of(key: dict[str, Any], spec: NetworkSpec, space: str | Space) -> bool:
    """Return whether a training is one of this architecture, built by the same code."""
    # The name of a module or a factory does not identify its architecture, but its code does.
    if spec.arch.space not in ("module", "factory") and key["arch"] != str(spec.arch):
        return False
    code: str = key.get("code", "")
    if spec.space is not None and spec.space.is_builtin:
        return code == fingerprint_space(spec.space)
    if not code or spec.arch.space in ("module", "timm"):
        return True
    if spec.space is None:
        return code == fingerprint_user_code(spec.factory)
    if not isinstance(space, str):
        return True
    return code == fingerprint_user_code(space)


def _read_training(folder: Path | None) -> dict[str, Any]:
    """Return the content of `train.json` in a folder; empty if there is no finished training."""
    if folder is None:
        return {}
    path = folder / TRAINING_FILE
    if not path.is_file() or not (folder / WEIGHTS_FILE).is_file():
        return {}
    try:
        training: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        # Values that are needed later are parsed here too, to report a damaged file in one place.
        _read_task(training)
        _read_normalisation(training)
        for name in ("arch", "space", "data"):
            if not isinstance(training["key"][name], str):
                raise TypeError(f"{name} is not a string")
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _damaged_file_error(path, error) from error
    return training


def _damaged_file_error(path: Path, error: Exception) -> UsageError:
    return UsageError(f"{path} cannot be read: {error}; repeat the command that wrote it")


# ----------------------------------------------------------------------------- facts about the data


def _read_data_facts(training: dict[str, Any], folder: Path, data: object) -> _DataFacts:
    """Return the facts that a training saved about its data. The data need not exist any more."""
    data_name = training["key"]["data"]
    if isinstance(data, str):
        data_name = data
    mean, std = _read_normalisation(training)
    return _DataFacts(
        task=_read_task(training),
        data=data_name,
        classes=tuple(training.get("classes") or ()),
        mean=mean,
        std=std,
        schema=_read_schema(folder),
        has_arrays=bool(training.get("reads_arrays")),
    )


def _read_task(training: dict[str, Any]) -> Task:
    fields: dict[str, Any] = {}
    for name, value in training["task"].items():
        # JSON has no tuples.
        fields[name] = tuple(value) if isinstance(value, list) else value
    return Task(**fields)


def _read_normalisation(
    training: dict[str, Any],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    normalisation = training.get("normalisation") or {"mean": (), "std": ()}
    return _flatten(normalisation["mean"]), _flatten(normalisation["std"])


def _read_schema(folder: Path) -> Schema | None:
    """Return how the training in a folder encoded rows; None if its data are not a table."""
    path = folder / SCHEMA
    if not path.is_file():
        return None
    try:
        return load_schema(folder)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _damaged_file_error(path, error) from error


def _find_data_facts(source: DataSource, data: str | None) -> _DataFacts:
    """Return the facts about the data that the user named; only the task if there are none."""
    if not data:
        return _DataFacts(source.task, data)
    classes: tuple[str, ...] = ()
    if len(source.classes) == source.task.num_classes:
        classes = source.classes
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    try:
        training_part = source.parts[TRAIN]
    except UsageError:
        # Generated samples have no parts.
        training_part = None
    if isinstance(training_part, ImagePart | ArrayPart):
        mean = _flatten(training_part.mean)
        std = _flatten(training_part.std)
    has_arrays = isinstance(training_part, ArrayPart)
    return _DataFacts(source.task, data, classes, mean, std, source.schema, has_arrays)


def _flatten(values: Any) -> tuple[float, ...]:
    return tuple(torch.as_tensor(values, dtype=torch.float64).flatten().tolist())


# ------------------------------------------------------------------------------ network and weights


def _build_network(spec: NetworkSpec, task: Task, seed: int) -> nn.Module:
    """Build the network with the weights that it is scored with; copy a module with its weights."""
    with random_state(derive_seed("weights", spec.arch.space, spec.arch, seed)):
        network = spec.build(task)
    if spec.arch.space == "module":
        network = deepcopy(network)
    network = network.cpu().eval()
    # Files contain tensors in the default memory format. Another format would round differently.
    return network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload,no-any-return]


def _load_weights(network: nn.Module, file: Path) -> None:
    """Load weights from a file into a network without running any code in the file."""
    if not file.is_file():
        raise UsageError(
            f"there is no file {file}; --weights takes a state dict in a .pt or .safetensors file"
        )
    state = _read_weights(file)
    is_state_dict = isinstance(state, dict) and all(
        isinstance(value, Tensor) for value in state.values()
    )
    if not is_state_dict:
        raise UsageError(
            f"{file} does not contain a state dict; "
            "save one with torch.save(network.state_dict(), ...)"
        )
    _check_weights(network.state_dict(), state, file)
    network.load_state_dict(state)


def _check_weights(expected: dict[str, Tensor], state: dict[str, Tensor], file: Path) -> None:
    """Raise a `UsageError` if weights are those of another network."""
    missing = []
    misshapen = []
    for name, tensor in expected.items():
        if name not in state:
            missing.append(name)
        elif state[name].shape != tensor.shape:
            misshapen.append(name)
    unexpected = [name for name in state if name not in expected]
    problems = {
        "missing weights": missing,
        "unexpected weights": unexpected,
        "weights of another shape": misshapen,
    }
    for problem, names in problems.items():
        if names:
            raise UsageError(
                f"{file} belongs to another network: {problem}: {names[0]} ({len(names)} in total)"
            )


def _read_weights(file: Path) -> Any:
    if file.suffix == ".safetensors":
        safetensors = import_extra("safetensors.torch", "safetensors")
        try:
            return safetensors.load_file(file)
        except Exception as error:
            # The package raises its own exceptions for damaged files.
            raise UsageError(f"{file} is not a safetensors file: {error}") from error
    try:
        return load_tensors(file)
    except UsageError as error:
        raise UsageError(
            f"{file} is refused: it is damaged, or contains objects that could run code; "
            "save a state dict with torch.save(network.state_dict(), ...)"
        ) from error
