"""Construct a block once and copy it afterwards, with new weights.

Networks of a space consist of the same few blocks. torch takes a tenth of a millisecond to
construct a layer, most of it to check settings that have been checked before. A template records
once how a block is constructed: which tensors are filled at random, by which calls, in which order.
To make another block, the template copies the modules, repeats the random calls in their order, and
copies all other tensors. The weights are bit-identical to those of a newly constructed block, and
the random state afterwards is the same, too.

Blocks that cannot be made in this way (those that draw orthogonal matrices or hold attributes that
cannot be copied) are constructed every time. A block must depend on nothing but its arguments and
torch's random state.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache, wraps
from typing import NamedTuple, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

P = ParamSpec("P")
M = TypeVar("M", bound=nn.Module)
_IMMUTABLE = (int, float, str, tuple, torch.Size, type(None))  # attributes that copies may share
_CONTAINERS = (dict, OrderedDict, set, list)  # attributes that are copied
_TENSOR_GROUPS = ("_parameters", "_buffers")
_TEMPLATES: WeakKeyDictionary[nn.Module, "_BlockTemplate"] = WeakKeyDictionary()


def copy_from_template(make: Callable[P, M]) -> Callable[P, M]:
    """Speed up repeated calls of a block constructor with equal arguments.

    The first call records a template; later calls copy it.

    Args:
        make: A class or function that constructs a block. Its arguments must be hashable.
    """

    @wraps(make)
    def make_copy(*args: P.args, **kwargs: P.kwargs) -> M:
        default = torch.empty(0)  # has the current default device and type
        template = _record_template(
            make,
            default.device,
            default.dtype,
            args,
            tuple(kwargs.items()),
        )
        if template is None:
            return make(*args, **kwargs)
        return cast(M, template.make_block())

    return make_copy


def find_template(block: nn.Module) -> object | None:
    """Return an object that identifies blocks which differ only in the values of their tensors.

    Returns:
        The template of the block, or None if the block was not made from a template or was changed
        afterwards.
    """
    template = _TEMPLATES.get(block)
    if template is None or not template.matches(block):
        return None
    return template


@cache
def _record_template(
    make: Callable[..., nn.Module],
    device: torch.device,
    dtype: torch.dtype,
    args: tuple[object, ...],
    kwargs: tuple[tuple[str, object], ...],
) -> "_BlockTemplate | None":
    """Construct a block and record how; the random state is restored."""
    with torch.random.fork_rng(range(torch.cuda.device_count())), _DrawRecorder() as recorder:
        block = make(*args, **dict(kwargs))
    return _BlockTemplate.make(block, recorder)


class _Draw(NamedTuple):
    """A call that fills a tensor at random, or changes a tensor that was filled at random."""

    storage: int
    fill: OpOverload
    args: tuple[object, ...]
    kwargs: dict[str, object]


class _DrawRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records random calls while a block is constructed.

    Attributes:
        draws: The calls, in order.
        tensors: The tensors that were filled, by storage. Keeping them alive keeps the ids of
            their storages unique.
        repeatable: False once a random tensor is used in a way that cannot be repeated.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws: list[_Draw] = []
        self.tensors: dict[int, Tensor] = {}
        self.repeatable = True

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        storages = []
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, Tensor):
                storages.append(_get_storage_id(leaf))
        is_random = torch.Tag.nondeterministic_seeded in func.tags
        if is_random or any(storage in self.tensors for storage in storages):
            fills_one_tensor = func._schema.is_mutable and len(storages) == 1
            target = args[0] if args else None
            if fills_one_tensor and isinstance(target, Tensor) and _is_whole_tensor(target):
                self.tensors[storages[0]] = target
                self.draws.append(_Draw(storages[0], func, args[1:], kwargs))
            else:
                self.repeatable = False
        return func(*args, **kwargs)


class _EmptyTensor(NamedTuple):
    """A tensor before it is filled at random."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    def make(self) -> Tensor:
        return torch.empty(self.shape, dtype=self.dtype, device=self.device)


class _FixedTensors(NamedTuple):
    """The tensors of one dtype that are not random, joined so that one call copies them all."""

    entries: Tensor
    indices: list[int]
    shapes: list[torch.Size]

    @staticmethod
    def group_by_dtype(tensors: Sequence[tuple[int, Tensor]]) -> "list[_FixedTensors]":
        """Group tensors, each with its index, by dtype."""
        groups: dict[torch.dtype, list[tuple[int, Tensor]]] = {}
        for index, tensor in tensors:
            groups.setdefault(tensor.dtype, []).append((index, tensor))
        fixed = []
        for members in groups.values():
            entries = torch.cat([tensor.flatten() for _, tensor in members])
            indices = [index for index, _ in members]
            shapes = [tensor.shape for _, tensor in members]
            fixed.append(_FixedTensors(entries, indices, shapes))
        return fixed

    def make_copies(self) -> list[tuple[int, Tensor]]:
        """Copy all tensors; return them with their indices."""
        sizes = [shape.numel() for shape in self.shapes]
        parts = self.entries.clone().split_with_sizes(sizes)
        copies = []
        for index, part, shape in zip(self.indices, parts, self.shapes, strict=True):
            # `data` has its own version: writing into one copy does not affect the others.
            copies.append((index, part.view(shape).data))
        return copies


class _ModuleTemplate(NamedTuple):
    """One module of a block.

    Attributes:
        kind: Its class.
        shared: Attributes that all blocks share.
        copied: Attributes of which every block gets its own copy: name, type, content.
        member_indices: By group (parameters, buffers, modules), the name of each member and its
            index among the tensors or modules of the block.
    """

    kind: type[nn.Module]
    shared: dict[str, object]
    copied: list[tuple[str, type, object]]
    member_indices: dict[str, list[tuple[str, int | None]]]

    def describes(self, module: nn.Module) -> bool:
        """Whether the module has these settings, the same number of children, and no hooks."""
        state = vars(module)
        if type(module) is not self.kind:
            return False
        if state["_forward_hooks"] or state["_forward_pre_hooks"]:
            return False
        if len(state["_modules"]) != len(self.member_indices["_modules"]):
            return False
        return self.shared.items() <= state.items()


@dataclass(frozen=True, eq=False)
class _BlockTemplate:
    """Everything that is needed to make copies of a block.

    Attributes:
        modules: The modules of the block.
        empty: Tensors that are filled at random, by index.
        draws: The random calls, with the index of their tensor.
        fixed: All other tensors.
        requires_grad: Whether each tensor requires gradients; None for a buffer.
    """

    modules: list[_ModuleTemplate]
    empty: dict[int, _EmptyTensor]
    draws: list[tuple[int, _Draw]]
    fixed: list[_FixedTensors]
    requires_grad: list[bool | None]

    @staticmethod
    def make(block: nn.Module, recorder: _DrawRecorder) -> "_BlockTemplate | None":
        """Make the template of a block; None if copies would not be equal to the block."""
        modules = list(block.modules())
        tensors = [*block.parameters(), *block.buffers()]
        if not recorder.repeatable or not _are_separate(tensors):
            return None
        indices = {id(module): index for index, module in enumerate(modules)}
        indices.update((id(tensor), index) for index, tensor in enumerate(tensors))
        module_templates = []
        for module in modules:
            template = _make_module_template(module, indices)
            if template is None:
                return None
            module_templates.append(template)
        random_indices = {}
        for index, tensor in enumerate(tensors):
            if _get_storage_id(tensor) in recorder.tensors:
                random_indices[_get_storage_id(tensor)] = index
        if len(random_indices) < len(recorder.tensors):
            # Something was drawn that is not a tensor of the block.
            return None
        empty = {}
        for index in random_indices.values():
            tensor = tensors[index]
            empty[index] = _EmptyTensor(tensor.shape, tensor.dtype, tensor.device)
        fixed = []
        requires_grad: list[bool | None] = []
        for index, tensor in enumerate(tensors):
            if index not in empty:
                fixed.append((index, tensor.detach()))
            is_parameter = isinstance(tensor, nn.Parameter)
            requires_grad.append(tensor.requires_grad if is_parameter else None)
        return _BlockTemplate(
            modules=module_templates,
            empty=empty,
            draws=[(random_indices[draw.storage], draw) for draw in recorder.draws],
            fixed=_FixedTensors.group_by_dtype(fixed),
            requires_grad=requires_grad,
        )

    def matches(self, block: nn.Module) -> bool:
        """Whether a block that was made from this template has not been changed since."""
        modules: dict[int | None, nn.Module | None] = {0: block}
        for index, template in enumerate(self.modules):
            module = modules.get(index)
            if module is None or not template.describes(module):
                return False
            for name, child_index in template.member_indices["_modules"]:
                modules[child_index] = module._modules.get(name)
        return True

    def make_block(self) -> nn.Module:
        """Make another block."""
        tensors = self._make_tensors()
        modules = [object.__new__(template.kind) for template in self.modules]
        for module, template in zip(modules, self.modules, strict=True):
            state = vars(module)
            state.update(template.shared)
            for name, kind, content in template.copied:
                # Most containers are empty; without an argument they are created faster.
                if content:
                    state[name] = kind(content)
                else:
                    state[name] = kind()
            for group, member_indices in template.member_indices.items():
                candidates: Sequence[object] = modules
                if group in _TENSOR_GROUPS:
                    candidates = tensors
                members: dict[str, object] = {}
                for name, index in member_indices:
                    members[name] = None
                    if index is not None:
                        members[name] = candidates[index]
                state[group] = members
        block = modules[0]
        _TEMPLATES[block] = self
        return block

    def _make_tensors(self) -> list[Tensor]:
        # Otherwise a function mode, such as the one that sets the device, would run in every call.
        with torch._C.DisableTorchFunction(), torch.no_grad():
            by_index = {index: empty.make() for index, empty in self.empty.items()}
            for index, draw in self.draws:
                draw.fill(by_index[index], *draw.args, **draw.kwargs)
            for fixed in self.fixed:
                by_index.update(fixed.make_copies())
            tensors = []
            for index, requires_grad in enumerate(self.requires_grad):
                tensor = by_index[index]
                if requires_grad is not None:
                    tensor = nn.Parameter(tensor, requires_grad)
                tensors.append(tensor)
        return tensors


def _make_module_template(module: nn.Module, indices: dict[int, int]) -> _ModuleTemplate | None:
    """Describe a module; None if an attribute is neither immutable nor a plain container."""
    shared = {}
    copied = []
    member_indices = {}
    for name, value in vars(module).items():
        if name in _TENSOR_GROUPS or name == "_modules":
            member_indices[name] = [(key, indices.get(id(member))) for key, member in value.items()]
        elif name == "training" or type(value) in _CONTAINERS:
            copied.append((name, type(value), value))
        elif isinstance(value, _IMMUTABLE) or _is_frozen_dataclass(value):
            shared[name] = value
        else:
            return None
    return _ModuleTemplate(type(module), shared, copied, member_indices)


def _is_frozen_dataclass(value: object) -> bool:
    # Only frozen dataclasses are hashable by default.
    return is_dataclass(value) and value.__hash__ is not None


def _are_separate(tensors: Sequence[Tensor]) -> bool:
    """Whether the tensors are contiguous and no two of them start at the same place in memory."""
    locations = {(_get_storage_id(tensor), tensor.storage_offset()) for tensor in tensors}
    if len(locations) < len(tensors):
        return False
    return all(tensor.is_contiguous() for tensor in tensors)


def _is_whole_tensor(tensor: object) -> bool:
    """Whether this is a whole tensor and not a part of one."""
    if not isinstance(tensor, Tensor) or not tensor.is_contiguous():
        return False
    return tensor.nbytes == tensor.untyped_storage().nbytes()


def _get_storage_id(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
