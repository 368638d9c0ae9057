"""What is to be exported: from a string, a folder, an architecture or a module to a network with its weights, and what
is known about it. Trained weights lie in the folder of a training (`model.pt`, with `train.json` beside it)."""

from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from untrained._load import fingerprint_user_code, names_file, parse_call, require_named
from untrained._onnx import extra
from untrained.data import Source, load
from untrained.data._schema import SCHEMA, Schema, load_schema
from untrained.data.parts import TRAIN, Pictures
from untrained.engine.score import OWN_SPACES, Subject, home_of, source_for
from untrained.engine.zoo import in_zoo
from untrained.errors import UsageError
from untrained.probe.guard import random_state
from untrained.readers.json_file import parse_json
from untrained.rng import seed_for
from untrained.runs.ranking import Standing
from untrained.runs.winner import open_space, read_winner
from untrained.spaces import Space
from untrained.strategies._run import Run
from untrained.training import _checkpoint
from untrained.training._checkpoint import WEIGHTS
from untrained.training._subject import named_subject, run_of
from untrained.training.trained import FILE as TRAINING
from untrained.types import Arch, Task


@dataclass(frozen=True)
class Found:
    """A network with its weights, and what is known about it."""

    arch: str
    space: str  # empty for a network of the user's own
    network: nn.Module
    task: Task
    weights: str  # where they come from; empty where they are as they were made, untrained as far as is known
    data: str = ""
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()  # of each channel, on the scale 0 to 1
    std: tuple[float, ...] = ()
    schema: Schema | None = None  # how rows of a table become numbers
    training: dict[str, Any] = field(default_factory=dict)  # what `train.json` says
    run: Run | None = None
    standing: Standing | None = None  # in the ranking of the run

    def inputs(self, samples: int) -> Tensor:
        """Random inputs that the network can read; a few are the first of many."""
        return load("noise", self.task).batch(samples).inputs


def found(
    what: "str | Path | Arch | nn.Module",
    space: str | Space,
    weights: str | Path | None,
    data: str | None,
    input_shape: tuple[int, ...] | None,
    num_classes: int | None,
    root: str | Path | None,
) -> Found:
    folder = run_of(what)
    run = None
    standing = None
    named_space = space
    lies = _training(folder)
    if folder and Path(folder, "run.json").is_file():
        run = Run.read(folder)
        best = read_winner(folder)
        standing = best.standing
        former = bool(lies) and lies["asked"]["arch"] != str(best.arch)
        if former and not weights:
            raise UsageError(f"{folder} was trained before it had its best one; first untrained train {folder}")
        lies = {} if former else lies
        what = best.arch
        space = open_space(best, folder, named_space, f"untrained export {folder}")
        data = data or best.data
        input_shape = input_shape or best.input_shape
    elif folder and not lies:
        raise UsageError(f"{folder} holds neither a search nor a training; `untrained search --run {folder}` makes one")
    if lies and folder:
        what = lies["asked"]["arch"]
        space = _space_of_training(lies["asked"], folder, named_space) or space
    beside = Path(weights).parent if weights and Path(weights).name == WEIGHTS else None
    told = _training(beside) if weights else lies  # about these very weights
    known, at = (lies, folder) if lies else (told, beside)
    subject = named_subject(str(what) if isinstance(what, Path) else what, space, "cpu")
    if told and not _is_of(told["asked"], subject, space):
        told = {}  # what the training says is not about this network, though its weights may fit
    if known and at:
        task, classes, normal = _of_training(known)
        data, schema = data or known["asked"]["data"], _schema(at)
    else:
        source = source_for(subject, data or "noise", input_shape, num_classes, root)
        task, classes, normal = source.task, _classes(source, data), _normal(source, data)
        schema = source.schema if data else None
    network = _built(subject, task)
    file = Path(weights) if weights else Path(folder, WEIGHTS) if lies and folder else None
    if file:
        _fill(network, file)
    origin = str(file) if file else "the module itself" if isinstance(what, nn.Module) else ""
    own = subject.arch.space in OWN_SPACES
    home = "" if own else space if isinstance(space, str) else home_of(subject.arch, space).name
    about = (data or "", classes, *normal, schema, told, run, standing)
    return Found(str(subject.arch), home, network, task, origin, *about)


def _space_of_training(asked: dict[str, Any], folder: Path, named: str | Space) -> str | Space:
    """The space of a trained network, where it may be loaded; empty for a factory of the user's, which may be too.

    As for a search, code that a folder names is run only if it is as it was, and named by the user before or now.
    """
    space: str = asked["space"]
    arch: str = asked["arch"]
    code: str | None = asked.get("code") or None
    if not space:
        if in_zoo(arch):
            return ""
        if not names_file(arch):
            call = f"untrained.export(model, 'exported', weights='{folder}/{WEIGHTS}')"
            raise UsageError(f"{folder} was trained from a module, which only Python has: {call}")
        require_named(arch, code, str(folder), f"untrained export {arch} --weights {folder}/{WEIGHTS}")
        return ""
    base, options = parse_call(space)
    if not names_file(base):
        return space
    if isinstance(named, Space):
        return named
    if names_file(parse_call(named)[0]):
        # The recipe may have added options to the space.
        return f"{parse_call(named)[0]}{space[len(base) :]}" if options else named
    require_named(space, code, str(folder), f"untrained export {folder} --space {base}")
    return space


def _is_of(asked: dict[str, Any], subject: Subject, space: str | Space) -> bool:
    """Whether a training was one of this network, by the code that makes it."""
    code: str = asked.get("code", "")
    if not code or subject.arch.space in ("module", "timm"):
        return True
    if subject.home is None:
        return code == fingerprint_user_code(subject.reference)
    return not isinstance(space, str) or code == fingerprint_user_code(space)


def _training(folder: Path | None) -> dict[str, Any]:
    """What a training in this folder says; nothing where there was none."""
    path = Path(folder or "", TRAINING)
    if folder is None or not path.is_file() or not Path(folder, WEIGHTS).is_file():
        return {}
    try:
        facts: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        _of_training(facts)
        for name in ("arch", "space", "data"):
            if not isinstance(facts["asked"][name], str):
                raise TypeError(f"{name} is no text")
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path} cannot be read: {error}; the command that made it makes it anew") from error
    return facts


def _of_training(facts: dict[str, Any]) -> tuple[Task, tuple[str, ...], tuple[tuple[float, ...], tuple[float, ...]]]:
    told: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in facts["task"].items()
    }
    normal = facts.get("normal") or {"mean": (), "std": ()}
    return Task(**told), tuple(facts.get("classes") or ()), (_flat(normal["mean"]), _flat(normal["std"]))


def _schema(folder: Path) -> Schema | None:
    """How the rows of a table became numbers for the training in this folder; nothing where it was no table."""
    try:
        return load_schema(folder) if Path(folder, SCHEMA).is_file() else None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"{folder / SCHEMA} cannot be read: {error}; the command that made it makes it anew"
        ) from error


def _classes(source: Source, data: str | None) -> tuple[str, ...]:
    return source.classes if data and len(source.classes) == source.task.num_classes else ()


def _normal(source: Source, data: str | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel of the data; nothing for samples that are made up, and for tables."""
    try:
        part = source.parts[TRAIN] if data else None
    except UsageError:
        part = None
    return (_flat(part.mean), _flat(part.std)) if isinstance(part, Pictures) else ((), ())


def _flat(values: Any) -> tuple[float, ...]:
    return tuple(torch.as_tensor(values, dtype=torch.float64).flatten().tolist())


def _built(subject: Subject, task: Task) -> nn.Module:
    """With the weights that it is judged with; a module keeps its own, and is copied."""
    with random_state(seed_for("weights", subject.arch.space, subject.arch, 0)):
        made = subject.build(task)
    ours = (deepcopy(made) if subject.arch.space == "module" else made).cpu().eval()
    return ours.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload,no-any-return] # as files hold it


def _fill(network: nn.Module, file: Path) -> None:
    """Put the weights of a file into the network. Nothing in the file is run."""
    if not file.is_file():
        raise UsageError(f"there is no file {file}; --weights wants a state dict, a .pt or a .safetensors file")
    state = _read(file)
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise UsageError(f"{file} holds no state dict: save the weights by torch.save(network.state_dict(), ...)")
    wanted = network.state_dict()
    missing, strange = [n for n in wanted if n not in state], [n for n in state if n not in wanted]
    other = [n for n in wanted if n in state and wanted[n].shape != state[n].shape]
    for names, said in (
        (missing, "lacks"),
        (strange, "has, and the network has not,"),
        (other, "has in another shape"),
    ):
        if names:
            raise UsageError(f"{file} is of another network: it {said} {names[0]} ({len(names)} such weights)")
    network.load_state_dict(state)


def _read(file: Path) -> Any:
    if file.suffix == ".safetensors":
        try:
            return extra("safetensors.torch", "safetensors").load_file(file)
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(f"{file} is no safetensors file: {error}") from error
    try:
        return _checkpoint.load(file)
    except UsageError as error:
        raise UsageError(
            f"{file} is refused: it is damaged, or holds more than weights, which could run code; "
            "save a state dict by torch.save(network.state_dict(), ...)"
        ) from error
