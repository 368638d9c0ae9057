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


class _Part(NamedTuple):
    """A module of a block: attributes that copies share, attributes that grow, and where its tensors and modules are
    among those of the block."""

    kind: type[nn.Module]
    shared: dict[str, Any]
    growing: list[tuple[str, type, Any]]
    places: dict[str, list[tuple[str, int | None]]]  # parameters and buffers, modules

    def describes(self, module: nn.Module) -> bool:
        """Whether the module has these settings, in whatever mode, as many children, and nobody listening to it."""
        state = vars(module)
        settings = state | {"training": self.shared["training"]}
        heard = state["_forward_hooks"] or state["_forward_pre_hooks"]
        same = len(state["_modules"]) == len(self.places["_modules"]) and self.shared.items() <= settings.items()
        return type(module) is self.kind and same and not heard


@dataclass(frozen=True, eq=False)
class _Stamp:
    """How to print a block."""

    parts: list[_Part]
    makers: list[Callable[[], Tensor]]  # of its tensors
    learning: list[bool | None]  # whether each wants a gradient; None for a buffer
    draws: list[tuple[int, _Draw]]  # with the place of the tensor

    @staticmethod
    def of(block: nn.Module, watch: _Watch) -> "_Stamp | None":
        modules, tensors = list(block.modules()), [*block.parameters(), *block.buffers()]
        places = {id(one): place for among in (modules, tensors) for place, one in enumerate(among)}
        storages = {_storage(tensor): place for place, tensor in enumerate(tensors)}
        parts = [part for part in (_part(module, places) for module in modules) if part]
        if (
            watch.strange
            or len(parts) < len(modules)
            or len(storages) < len(tensors)
            or not set(watch.drawn) <= set(storages)
        ):
            return None
        learning = [t.requires_grad if isinstance(t, nn.Parameter) else None for t in tensors]
        draws = [(storages[draw.storage], draw) for draw in watch.draws]
        return _Stamp(parts, [_maker(t, drawn=_storage(t) in watch.drawn) for t in tensors], learning, draws)

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
            fresh = [make() for make in self.makers]
            for place, (_, fill, args, kwargs) in self.draws:
                fill(fresh[place], *args, **kwargs)
            learning = zip(fresh, self.learning, strict=True)
            fresh = [tensor if wanted is None else nn.Parameter(tensor, wanted) for tensor, wanted in learning]
        modules = [object.__new__(part.kind) for part in self.parts]
        for module, (_, shared, growing, places) in zip(modules, self.parts, strict=True):
            state = vars(module)
            state.update(shared)
            for name, kind, value in growing:
                state[name] = kind(value) if value else kind()
            for group, held in places.items():
                among = modules if group == "_modules" else fresh
                state[group] = {name: None if place is None else among[place] for name, place in held}
        _PRINTS[modules[0]] = self
        return modules[0]


def _maker(tensor: Tensor, *, drawn: bool) -> Callable[[], Tensor]:
    if drawn:
        strides = tensor.shape, tensor.stride()
        return partial(torch.empty_strided, *strides, dtype=tensor.dtype, device=tensor.device)
    return partial(torch.clone, tensor.detach())


def _part(module: nn.Module, places: dict[int, int]) -> _Part | None:
    """None where an attribute is neither fixed nor a plain container."""
    shared, growing, held = {}, [], {}
    for name, value in vars(module).items():
        if name in ("_parameters", "_buffers", "_modules"):
            held[name] = [(key, places.get(id(one))) for key, one in value.items()]
        elif isinstance(value, _FIXED) or (is_dataclass(value) and value.__hash__ is not None):  # a frozen one
            shared[name] = value
        elif type(value) in _GROWING:
            growing.append((name, type(value), value))
        else:
            return None
    return _Part(type(module), shared, growing, held)


def _is_whole(tensor: object) -> bool:
    """Whether this is all of a tensor and not a part."""
    return isinstance(tensor, Tensor) and tensor.is_contiguous() and tensor.nbytes == tensor.untyped_storage().nbytes()


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
