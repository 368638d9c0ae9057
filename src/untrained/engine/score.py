"""`score(...)`: judge anything. An architecture, its string, a model, a factory in somebody's file, a list."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from untrained._load import fingerprint_user_code, from_file, names_file, path_instead, user_code_error
from untrained._numbers import counted
from untrained._quantities import MOST_CLASSES, parse_count, parse_shape, show_value
from untrained.data import Source, from_tensors, load
from untrained.data.samples import is_samples, read_samples
from untrained.engine.aggregates import aggregated, expanded
from untrained.engine.evaluate import ProxyEvaluator
from untrained.engine.measure import Start, usable
from untrained.engine.store import Store
from untrained.engine.zoo import in_zoo, input_shape, made
from untrained.errors import Unscorable, UsageError, out_of_memory
from untrained.probe import Probe
from untrained.probe.guard import random_state
from untrained.proxies import Proxy, load_proxy
from untrained.spaces import SPACES, Space, fingerprint_space, load_space
from untrained.types import Arch, Batch, Record, Task
from untrained.user_code import is_path

DEFAULT_DATA = "digits"  # ranks best of what needs no files: docs/results/dextr-nasbench201.md
OWN_SPACES = ("module", "factory", "timm")  # of networks that belong to no search space
What = nn.Module | Arch | str


@dataclass(frozen=True)
class Subject:
    """Something to judge: its name as an Arch, how to build it for a task, and whether its weights follow a seed."""

    arch: Arch
    task: Task
    build: Callable[[Task], nn.Module]
    stored: bool  # a network of the user's own may change under its name, so it is never read from a store
    home: Space | None = None
    reference: str = ""  # to the factory of a user, as it was typed


def score(
    what: "What | Sequence[What]",
    proxies: "str | Proxy | Sequence[str | Proxy] | Tensor" = ("dextr",),
    data: "str | Tensor | np.ndarray[Any, Any] | tuple[Any, Any] | None" = None,
    *,
    space: str | Space = "nasbench201",
    input_shape: tuple[int, ...] | None = None,
    num_classes: int | None = None,
    seeds: int = 1,
    warm_up: str = "",
    device: str = "cpu",
    store: "str | Path | Store | None" = None,
    data_root: str | Path | None = None,
) -> list[Record]:
    """Judge one or many networks at initialisation: one Record a network, proxy and seed.

    `score(model, inputs)` is the short form for a network of one's own: a tensor as second argument is the data. A
    model is judged with the weights it has; architectures and factories are initialised anew for every seed. `warm_up`
    trains before judging, as in `search`: "10%" of data that have labels. A model of one's own is not touched by it.
    """
    if is_samples(proxies):
        data, proxies = proxies, ("dextr",)  # type: ignore[assignment]
    chosen = _load_proxies(proxies)
    seeds = parse_count(seeds, "seeds")
    device = usable(device)
    if num_classes is not None:
        num_classes = parse_count(num_classes, "num_classes", 1, MOST_CLASSES)
    if input_shape is not None:
        input_shape = parse_shape(input_shape)
    subjects = [subject_of(one, space, device, bool(warm_up)) for one in _listed(what)]
    if not subjects:
        raise UsageError("there is nothing to score: give a module, an architecture, or 'file.py:factory'")
    names = distinct_names([subject.arch for subject in subjects])
    if len(subjects) < 2 and (lonely := next((p for p in chosen if p.parts), None)):
        raise UsageError(f"{lonely.name} compares networks with each other; give at least two")
    records: list[Record] = []
    starts = _Starts(warm_up, device)
    with _opened(store) as opened:
        for subject, name in zip(subjects, names, strict=True):
            source = source_for(subject, data, input_shape, num_classes, data_root)
            evaluate = ProxyEvaluator.here(
                _builder(subject, source.task, isinstance(data, str) or num_classes is not None),
                source,
                expanded(chosen),
                range(seeds),
                device,
                opened if subject.stored else None,
                alike=False,  # all threads for one network
                code=_code_of(subject, space),
                **starts(subject, source),
            )
            # Measured under its plain name, since random numbers are drawn by name: a score must not depend on
            # which other networks are in the list.
            (answers,) = evaluate([subject.arch])
            records += [replace(answer, request=replace(answer.request, arch=name)) for answer in answers]
    return records + [record for judge in chosen if judge.parts for record in aggregated(records, judge)]


def distinct_names(archs: Sequence[Arch]) -> list[Arch]:
    """Number networks of the same name: `Sequential`, `Sequential#2`, `Sequential#3`.

    A class name says little about a module, so every module, factory or timm network in a list is a network of its
    own. Architectures of a space are left as they are: equal ones are the same network.
    """
    counts: Counter[Arch] = Counter()
    names = []
    for arch in archs:
        counts[arch] += 1
        number = counts[arch]
        if arch.space in OWN_SPACES and number > 1:
            arch = Arch(arch.space, (*arch.genes, ("number", number)), f"{arch}#{number}")
        names.append(arch)
    return names


def _load_proxies(proxies: Any) -> list[Proxy]:
    """The proxies that were named: one, or several in a sequence."""
    if isinstance(proxies, str | Proxy):
        proxies = [proxies]
    if not isinstance(proxies, Iterable):
        raise UsageError(f"proxies is {show_value(proxies)}; give names, such as ['dextr', 'naswot']")
    chosen = [load_proxy(proxy) for proxy in proxies]
    if not chosen:
        raise UsageError("score needs at least one proxy, such as dextr")
    return chosen


def _opened(store: "str | Path | Store | None") -> AbstractContextManager[Store | None]:
    """The store at a path, closed afterwards; one that is open already stays open."""
    return Store(store) if isinstance(store, str | Path) else nullcontext(store)


def _listed(what: Any) -> Iterable[What]:
    if isinstance(what, nn.Module | Arch | str):
        return [what]
    if not isinstance(what, Iterable):
        raise UsageError(f"cannot score a {type(what).__name__}; give a module, an architecture, or 'file.py:factory'")
    return what


def subject_of(what: Any, space: str | Space, device: str, warm: bool = False) -> Subject:
    """What `what` means: a module, the factory of a user, an architecture or its string in `space`."""
    if isinstance(what, nn.Module):
        what = plain_module(what)
        name = type(what).__name__
        copied = deepcopy if warm else _itself  # a warm-up must not reach the user's own
        return Subject(Arch("module", (("class", name),), name), _OWN, lambda task: _on(copied(what), device), False)
    if isinstance(what, str) and in_zoo(what):
        arch, task = Arch("timm", (("network", what),), what), replace(_OWN, input_shape=input_shape(what))
        return Subject(arch, task, lambda task: made(what, task.num_classes), stored=False)
    if isinstance(what, str) and names_file(what):
        from_file(what)  # whoever mistyped a name hears that first
        return Subject(_arch_of_factory(what), _OWN, lambda task: _made(what), stored=False, reference=what)
    if isinstance(what, str):
        try:
            what = load_space(space).parse(what)
        except UsageError as error:
            raise path_instead(what) or error from None
    if not isinstance(what, Arch):
        raise UsageError(f"cannot score a {type(what).__name__}; give a module, an architecture, or 'file.py:factory'")
    home = home_of(what, space)
    known = home.name in SPACES and SPACES[home.name] is home
    return Subject(what, home.task, lambda task: home.build(what, task, device), known, home)


def _code_of(subject: Subject, space: str | Space) -> str:
    """A fingerprint of the user's code that builds a subject; empty where it is ours, or a module in memory."""
    if subject.reference:
        return fingerprint_user_code(subject.reference)[:16]
    return fingerprint_space(space) if subject.home and not subject.stored else ""


def _arch_of_factory(reference: str) -> Arch:
    """The name of a network that a user's factory makes. It is the same however the path to the file was typed, and
    another one when the code has changed."""
    where, _, attribute = reference.rpartition(":")
    name = f"./{Path(where).name}:{attribute}" if is_path(where) else reference
    code = fingerprint_user_code(reference)[:16]
    return Arch("factory", (("factory", name), ("code", code)), reference)


class _Starts:
    """What networks start from. The supernet of a space is warmed up once, for all of its architectures."""

    def __init__(self, warm_up: str, device: str) -> None:
        self.warm_up, self.device = warm_up, device
        self.known: dict[tuple[str, Task], Start] = {}

    def __call__(self, subject: Subject, source: Source) -> dict[str, Any]:
        from untrained.training.warmup import WarmUp  # it is made of what is in this room

        if not self.warm_up:
            return {}
        key = subject.home.name if subject.home else "", source.task
        if key not in self.known:
            self.known[key] = WarmUp.of(self.warm_up, source).begin(subject.home, 0, self.device, None, None)
        home, start = subject.home, self.known[key]
        made = start.open(lambda: home.supernet(source.task, self.device) if home else None, self.device)
        return {"init": start.init, "warm": made}


def home_of(arch: Arch, space: str | Space) -> Space:
    """The space of an architecture; those of the user's own are in no catalogue and come as `space`."""
    given = load_space(space)
    if given.name == arch.space:
        return given
    if arch.space not in SPACES:
        raise UsageError(f"{arch} is of the space {arch.space!r}; say where it is, such as space='./mine.py:mynet'")
    return SPACES[arch.space]


def _itself(model: nn.Module) -> nn.Module:
    return model


def _on(model: nn.Module, device: str) -> nn.Module:
    """The user's model if it is on the device; otherwise a copy that is, since theirs must stay where it was."""
    there = torch.empty(0, device=device).device  # with its number, where there are several of a kind
    at_home = all(tensor.device == there for tensor in (*model.parameters(), *model.buffers()))
    return model if at_home else deepcopy(model).to(device)


_OWN = Task("", (), 0)  # a network of the user's own: shape and classes come with the data


def _made(name: str) -> nn.Module:
    """Call the user's factory; what it raises is shown as theirs."""
    factory = from_file(name)
    if not callable(factory):
        raise UsageError(f"{name} is a {type(factory).__name__}; it must be a function that returns an nn.Module")
    try:
        made = factory()
    except (Exception, SystemExit) as error:
        raise user_code_error(name, "when it was called", error) from error
    if not isinstance(made, nn.Module):
        raise UsageError(f"{name}() returned a {type(made).__name__}; it must return an nn.Module")
    return plain_module(made)


def plain_module(model: nn.Module) -> nn.Module:
    """The module itself, or the one that `torch.compile` wraps.

    Scripted and traced modules are refused: their layers are compiled code, which no hook can observe. So are modules
    on the device `meta`, whose tensors have shapes and no numbers.
    """
    model = _compiled_module(model) or model
    for module in model.modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise UsageError("the network is scripted or traced by torch.jit; give the nn.Module that it was made from")
        if _compiled_module(module):
            raise UsageError("a part of the network is compiled by torch.compile; give the network without it")
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.device.type == "meta":
            raise UsageError(f"the network has no weights: {name} is on the device meta; build it on cpu")
    return model


def _compiled_module(module: nn.Module) -> nn.Module | None:
    """What `torch.compile` made a module from. Its class is not asked for, since importing it takes seconds."""
    inner = getattr(module, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else None


def source_for(
    subject: Subject,
    data: Any,
    input_shape: tuple[int, ...] | None,
    num_classes: int | None,
    root: str | Path | None,
) -> Source:
    """The data for a subject, in the shape that it takes."""
    task = subject.task
    if data is not None and not isinstance(data, str):
        inputs, targets = read_samples(data)
        classes = num_classes or task.num_classes or _outputs(subject, lambda: inputs[:1])
        return from_tensors(
            inputs, targets, replace(task, dataset="tensor", input_shape=tuple(inputs.shape[1:]), num_classes=classes)
        )
    shape = tuple(input_shape or task.input_shape)
    if not shape:
        raise UsageError(
            f"say what {subject.arch} takes as input: --input-shape 3x224x224 (in Python, input_shape=...)"
        )
    classes = num_classes or task.num_classes or _outputs(subject, lambda: torch.zeros(1, *shape))
    source = load(_usual(shape) if data is None else data, replace(task, input_shape=shape, num_classes=classes), root)
    there = source.task.num_classes
    if data is not None and num_classes not in (None, there):
        has = counted(there, "number")
        raise UsageError(f"networks for {data} answer with {has}, not {num_classes}; leave out --classes {num_classes}")
    asked = num_classes or not task.num_classes  # and where nobody did, a space is shown what a search shows it
    return _relabelled(source, classes) if data is None and asked and there != classes else source


def _usual(shape: tuple[int, ...]) -> str:
    """Handwritten digits for a network that takes images; noise, which comes in every shape, for any other."""
    return DEFAULT_DATA if len(shape) == 3 and shape[0] in (1, 3) else "noise"


def _relabelled(source: Source, classes: int) -> Source:
    """Sample data that nobody asked for: labels folded into as many classes as the network tells apart."""

    def draw(samples: int, generator: torch.Generator) -> Batch:
        batch = source.draw(samples, generator)
        return Batch(batch.inputs, batch.targets % classes)

    return Source(replace(source.task, num_classes=classes), draw)


def _builder(subject: Subject, task: Task, told: bool) -> Callable[[Arch], nn.Module]:
    """How to build the subject. Where the classes were told, a network of the user's own must tell them all apart."""
    asked = told and subject.home is None
    answer = _answer(subject, task, lambda: torch.zeros(1, *task.input_shape)) if asked else None
    numbers = answer.shape[1] if answer is not None and answer.ndim == 2 else task.num_classes

    def build(arch: Arch) -> nn.Module:
        if numbers < task.num_classes:
            classes = f"there are {task.num_classes} classes"
            raise Unscorable("unsupported", f"the network answers with {numbers} numbers, and {classes}")
        return subject.build(task)

    return build


def _outputs(subject: Subject, inputs: Callable[[], Tensor]) -> int:
    """How many outputs the user's network has; 1 where it cannot be run."""
    answer = _answer(subject, subject.task, inputs)
    return int(answer.shape[-1]) if answer is not None and answer.ndim > 1 else 1


def _answer(subject: Subject, task: Task, inputs: Callable[[], Tensor]) -> Tensor | None:
    """What the user's network says to one sample; None where it cannot be run (its record will say why)."""
    try:
        return _run(subject, task, inputs)
    except UsageError:
        raise
    except (Exception, SystemExit):
        return None


def _run(subject: Subject, task: Task, inputs: Callable[[], Tensor]) -> Tensor:
    with random_state(0):
        model = subject.build(task)
    return Probe(model, Batch(inputs(), torch.zeros(1))).outputs


def require_reading(what: str, shape: tuple[int, ...], space: str | Space) -> None:
    """Refuse a network of the user's own that torch cannot run on a sample of this shape. It is for whoever asks about
    one network; among many, and where its own code goes wrong, that is a failure in a record."""
    subject = subject_of(what, space, "cpu")
    if subject.home:
        return
    try:
        _run(subject, subject.task, lambda: torch.zeros(1, *shape))
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, RuntimeError) and not out_of_memory(error):
            why = str(error).partition("\n")[0]
            raise UsageError(f"{what} cannot read {'x'.join(map(str, shape))}: {why}") from error
