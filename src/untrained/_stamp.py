"""Blocks that networks are made of again and again: the second of a kind is a copy of the first, with its own weights.

torch takes a tenth of a millisecond to construct a layer, most of it for checks of what is known by then. A stamp
watches once how a block comes into being: which tensors are filled at random, by which calls, in which order. Whoever
asks for such a block again gets its modules copied, these calls made again in their order, and all other tensors
copied: to the last bit the weights of a block that was constructed, and the same random state after it.

Blocks that are not of this kind (that draw orthogonal matrices, or hold what cannot be copied) are constructed every
time. A block must be decided by its arguments and torch's random state.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import cache, partial, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

P = ParamSpec("P")
M = TypeVar("M", bound=nn.Module)
_FIXED = (int, float, str, tuple, torch.Size, type(None))  # attributes that copies may share
_GROWING = (dict, OrderedDict, set, list)
_PRINTS: WeakKeyDictionary[nn.Module, "_Stamp"] = WeakKeyDictionary()


def stamped(make: Callable[P, M]) -> Callable[P, M]:
    """The same constructor of blocks, quick from the second call with equal arguments on; these must be hashable."""

    @wraps(make)
    def quick(*args: P.args, **kwargs: P.kwargs) -> M:
        here = torch.empty(0)
        known = _known(make, here.device, here.dtype, args, tuple(kwargs.items()))
        return make(*args, **kwargs) if known is None else cast(M, known.printed())

    return quick


def kind_of(block: nn.Module) -> object | None:
    """The same object for all blocks that differ in their numbers alone; None for others, and for what was changed."""
    stamp = _PRINTS.get(block)
    return stamp if stamp is not None and stamp.fits(block) else None


@cache
def _known(
    make: Callable[..., nn.Module], device: torch.device, dtype: torch.dtype, args: Any, kwargs: Any
) -> "_Stamp | None":
    """The stamp of a block, found out on a random state that is put back."""
    with torch.random.fork_rng(range(torch.cuda.device_count())), _Watch() as watch:
        block = make(*args, **dict(kwargs))
    return _Stamp.of(block, watch)


class _Draw(NamedTuple):
    """A call that fills a tensor at random, or goes on with what was so filled."""

    storage: int
    fill: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes what is drawn; `strange` once something is done with it that cannot be done again."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws: list[_Draw] = []
        self.drawn: dict[int, Tensor] = {}  # by storage, which stays alive, so that no other has its number
        self.strange = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        touched = [_storage(x) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        if torch.Tag.nondeterministic_seeded in func.tags or any(storage in self.drawn for storage in touched):
            if func._schema.is_mutable and len(touched) == 1 and _is_whole(args[0]):
                self.drawn[touched[0]] = args[0]
                self.draws.append(_Draw(touched[0], func, args[1:], kwargs))
            else:
                self.strange = True
        return func(*args, **kwargs)


class _Fixed(NamedTuple):
    """The tensors of one type that nobody draws, behind each other: one copy for all of them, and not one for each."""

    entries: Tensor
    places: list[int]
    shapes: list[torch.Size]

    @staticmethod
    def of(tensors: list[tuple[int, Tensor]]) -> "list[_Fixed]":
        """Of tensors with their places."""
        found = []
        for dtype in dict.fromkeys(tensor.dtype for _, tensor in tensors):
            alike = [(place, tensor) for place, tensor in tensors if tensor.dtype == dtype]
            entries = torch.cat([tensor.flatten() for _, tensor in alike])
            found.append(_Fixed(entries, [place for place, _ in alike], [tensor.shape for _, tensor in alike]))
        return found

    def copies(self) -> list[tuple[int, Tensor]]:
        """`data`, so that writing into one is not writing into the others."""
        parts = self.entries.clone().split_with_sizes([shape.numel() for shape in self.shapes])
        return [(p, part.view(s).data) for p, part, s in zip(self.places, parts, self.shapes, strict=True)]


class _Part(NamedTuple):
    """A module of a block: attributes that copies share, attributes of which each has its own, and where its tensors
    and modules are among those of the block."""

    kind: type[nn.Module]
    shared: dict[str, Any]
    own: list[tuple[str, type, Any]]
    places: dict[str, list[tuple[str, int | None]]]  # parameters and buffers, modules

    def describes(self, module: nn.Module) -> bool:
        """Whether the module has these settings, in whatever mode, as many children, and nobody listening to it."""
        state = vars(module)
        heard = state["_forward_hooks"] or state["_forward_pre_hooks"]
        same = len(state["_modules"]) == len(self.places["_modules"]) and self.shared.items() <= state.items()
        return type(module) is self.kind and same and not heard


@dataclass(frozen=True, eq=False)
class _Stamp:
    """How to print a block."""

    parts: list[_Part]
    blank: dict[int, Callable[[], Tensor]]  # tensors to be drawn, by their place
    draws: list[tuple[int, _Draw]]  # with the place of the tensor
    fixed: list[_Fixed]  # all others
    learning: list[bool | None]  # whether each wants a gradient; None for a buffer

    @staticmethod
    def of(block: nn.Module, watch: _Watch) -> "_Stamp | None":
        modules, tensors = list(block.modules()), [*block.parameters(), *block.buffers()]
        places = {id(one): place for among in (modules, tensors) for place, one in enumerate(among)}
        parts = [part for part in (_part(module, places) for module in modules) if part]
        drawn = {_storage(tensor): place for place, tensor in enumerate(tensors) if _storage(tensor) in watch.drawn}
        lying = {(_storage(tensor), tensor.storage_offset()) for tensor in tensors}
        if (
            watch.strange
            or len(parts) < len(modules)
            or len(lying) < len(tensors)
            or len(drawn) < len(watch.drawn)
            or not all(tensor.is_contiguous() for tensor in tensors)
        ):
            return None
        learning = [t.requires_grad if isinstance(t, nn.Parameter) else None for t in tensors]
        draws = [(drawn[draw.storage], draw) for draw in watch.draws]
        blank = {place: _blank(tensors[place]) for place in drawn.values()}
        fixed = [(place, tensor.detach()) for place, tensor in enumerate(tensors) if place not in blank]
        return _Stamp(parts, blank, draws, _Fixed.of(fixed), learning)

    def fits(self, block: nn.Module) -> bool:
        """Whether a block that was printed is still as it was, but for its numbers."""
        live: dict[int | None, nn.Module | None] = {0: block}
        for place, part in enumerate(self.parts):
            module = live.get(place)
            if module is None or not part.describes(module):
                return False
            live.update({index: module._modules.get(name) for name, index in part.places["_modules"]})
        return True

    def printed(self) -> nn.Module:
        """Another block."""
        with torch._C.DisableTorchFunction(), torch.no_grad():  # a mode that names the device would be asked each time
            made = {place: make() for place, make in self.blank.items()}
            for place, (_, fill, args, kwargs) in self.draws:
                fill(made[place], *args, **kwargs)
            for fixed in self.fixed:
                made.update(fixed.copies())
            learning = enumerate(self.learning)
            fresh = [made[i] if wanted is None else nn.Parameter(made[i], wanted) for i, wanted in learning]
        modules = [object.__new__(part.kind) for part in self.parts]
        for module, (_, shared, own, places) in zip(modules, self.parts, strict=True):
            state = vars(module)
            state.update(shared)
            for name, kind, value in own:
                state[name] = kind(value) if value else kind()
            for group, held in places.items():
                among = modules if group == "_modules" else fresh
                state[group] = {name: None if place is None else among[place] for name, place in held}
        _PRINTS[modules[0]] = self
        return modules[0]


def _blank(tensor: Tensor) -> Callable[[], Tensor]:
    return partial(torch.empty, tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _part(module: nn.Module, places: dict[int, int]) -> _Part | None:
    """None where an attribute is neither fixed nor a plain container."""
    shared, own, held = {}, [], {}
    for name, value in vars(module).items():
        if name in ("_parameters", "_buffers", "_modules"):
            held[name] = [(key, places.get(id(one))) for key, one in value.items()]
        elif name == "training" or type(value) in _GROWING:
            own.append((name, type(value), value))
        elif isinstance(value, _FIXED) or (is_dataclass(value) and value.__hash__ is not None):  # a frozen one
            shared[name] = value
        else:
            return None
    return _Part(type(module), shared, own, held)


def _is_whole(tensor: object) -> bool:
    """Whether this is all of a tensor and not a part."""
    return isinstance(tensor, Tensor) and tensor.is_contiguous() and tensor.nbytes == tensor.untyped_storage().nbytes()


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
