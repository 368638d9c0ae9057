"""Load the networks that users name: modules, factories in files, timm models, architectures.

`load_network_spec` turns each of them into a `NetworkSpec`, which builds the network, and
`load_source_for` loads data in its input shape. Scoring, training and export use both.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from inspect import isfunction
from pathlib import Path

import torch
from torch import Tensor, nn

from untrained.config import DEFAULT_DATA
from untrained.data import DataSource, load_data
from untrained.data.registry import is_table_name, name_data_path
from untrained.data.samples import (
    DATASET_NAME,
    convert_floats,
    is_samples,
    make_scoring_source,
    make_training_source,
    open_samples,
    open_training_samples,
)
from untrained.errors import Unscorable, UsageError, is_out_of_memory, make_unknown_name_error
from untrained.formatting import format_count
from untrained.names import (
    fingerprint_user_code,
    is_reference,
    load_object,
    make_path_error,
    make_user_code_error,
)
from untrained.probe import Probe
from untrained.probe.guard import random_state
from untrained.spaces import SPACES, Space, fingerprint_space, load_space
from untrained.spaces.convnet_designs import NAMED_NETWORKS
from untrained.training.ctr_designs import CTR_DESIGNS
from untrained.types import Arch, Batch, Task
from untrained.user_code import is_path
from untrained.workflows.timm_models import build_timm_model, get_timm_input_shape, is_timm_name

# Values of `Arch.space` for networks that do not belong to a search space.
PSEUDO_SPACES = ("module", "factory", "timm", "reference")
# The task of such networks until the data define input shape and number of classes.
_UNKNOWN_TASK = Task("", (), 0)
_FINGERPRINT_LENGTH = 16
# Networks that users may name: hand-designed ones for pictures and for tables.
KNOWN_NAMES = (*NAMED_NETWORKS, *CTR_DESIGNS)

Network = nn.Module | Arch | str


@dataclass(frozen=True)
class NetworkSpec:
    """How to build a network for a task.

    Attributes:
        arch: The architecture, or the name of a network without a space as an `Arch`.
        task: The default task. Its input shape is empty, and its number of classes 0, if they are
            not known.
        build: Builds the network for a task.
        cacheable: Whether records may be read from a store. A network of the user can change and
            keep its name, so it is always measured.
        space: The space of an architecture, else None.
        factory: The name of the user's factory as the user typed it, else empty.
    """

    arch: Arch
    task: Task
    build: Callable[[Task], nn.Module]
    cacheable: bool
    space: Space | None = None
    factory: str = ""

    def fingerprint_code(self, space: str | Space) -> str:
        """Return a fingerprint of the code that builds the network, or an empty text.

        Args:
            space: The space as the user named it, for a network of a user's space.
        """
        if self.factory:
            return fingerprint_user_code(self.factory)[:_FINGERPRINT_LENGTH]
        if self.space is None:
            return ""
        if self.space.is_builtin:
            return fingerprint_space(self.space)
        return fingerprint_space(space)


def load_network_spec(
    network: object, space: str | Space, device: str, copy_module: bool = False
) -> NetworkSpec:
    """Load a network in one of the forms that a user can name.

    Args:
        network: A module, the name of a factory or of a timm model, an architecture, an
            architecture string, or the name of a known network such as "resnet18".
        space: The space of architecture strings.
        device: Device on which the network is built.
        copy_module: Whether `build` returns copies of a module, because they will be trained.

    Raises:
        UsageError: The argument is not a network.
    """
    if isinstance(network, nn.Module):
        return _load_module(network, device, copy_module)
    network = replace_known_name(network)
    if is_ctr_design(network):
        return _load_ctr_design(str(network))
    if isinstance(network, str) and is_timm_name(network):
        return _load_timm_model(network)
    if isinstance(network, str) and is_reference(network):
        return _load_factory(network)
    if isinstance(network, str):
        arch = _parse_arch(network, space)
    elif isinstance(network, Arch):
        arch = network
    else:
        raise unknown_network_error(network)
    own_space = find_space_of(arch, space)
    is_registered = own_space.name in SPACES and SPACES[own_space.name] is own_space
    return NetworkSpec(
        arch,
        own_space.task,
        lambda task: own_space.build(arch, task, device),
        cacheable=is_registered,
        space=own_space,
    )


def replace_known_name(network: object) -> object:
    """Return the architecture of a known network such as "resnet18"; anything else as it is."""
    if isinstance(network, str) and network in NAMED_NETWORKS:
        return SPACES["convnet"].parse(NAMED_NETWORKS[network])
    return network


def _parse_arch(text: str, space: str | Space) -> Arch:
    try:
        return load_space(space).parse(text)
    except UsageError:
        # For a file, a folder or a mistyped name, a message about a malformed architecture would be
        # misleading.
        path_error = make_path_error(text)
        if path_error is None and get_close_matches(text, KNOWN_NAMES, cutoff=0.7):
            raise make_unknown_name_error("network", text, KNOWN_NAMES) from None
        if path_error is not None:
            raise path_error from None
        raise


def unknown_network_error(network: object) -> UsageError:
    """Make the error for an object that is not a network."""
    kind = type(network).__name__
    if is_samples(network):
        return UsageError(
            f"a {kind} is data, not a network: the network comes first, as in score(model, inputs) "
            "and train(model, 'digits')"
        )
    if isinstance(network, type) and issubclass(network, nn.Module):
        return UsageError(
            f"{network.__name__} is a class, not a network; give an object: {network.__name__}(...)"
        )
    if isfunction(network):
        return UsageError(
            f"a function is not a network; give the one that it returns: {network.__name__}()"
        )
    if kind == "SearchResult":
        return UsageError(
            "this is the result of a search; give its folder, result.run.folder, or its best "
            "architecture, result.best"
        )
    return UsageError(
        f"an object of the type {kind} is not a network; "
        "give a module, an architecture, or 'file.py:factory'"
    )


def _load_module(module: nn.Module, device: str, copy_module: bool) -> NetworkSpec:
    module = unwrap_module(module)
    name = type(module).__name__

    def build(task: Task) -> nn.Module:
        return _place_module(deepcopy(module) if copy_module else module, device)

    return NetworkSpec(
        Arch("module", (("class", name),), name), _UNKNOWN_TASK, build, cacheable=False
    )


def _place_module(module: nn.Module, device: str) -> nn.Module:
    """Return the module if it is on the device, else a copy, so that the user's does not move."""
    # torch.device("cuda") has no index, so it differs from that of a tensor, such as "cuda:0".
    target = torch.empty(0, device=device).device
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.device != target:
            return deepcopy(module).to(device)
    return module


def unwrap_module(module: nn.Module) -> nn.Module:
    """Return the module itself, or the one that `torch.compile` wraps.

    Raises:
        UsageError: The module is scripted or traced, so no hook can observe its layers; a part of
            it is compiled; or it is on the device `meta` and has no weights.
    """
    module = _find_compiled_module(module) or module
    for part in module.modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise UsageError(
                "the network is scripted or traced by torch.jit; "
                "give the nn.Module that it was made from"
            )
        if _find_compiled_module(part):
            raise UsageError(
                "a part of the network is compiled by torch.compile; give the network without it"
            )
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.device.type == "meta":
            raise UsageError(
                f"the network has no weights: {name} is on the device meta; build it on cpu"
            )
    return module


def _find_compiled_module(module: nn.Module) -> nn.Module | None:
    """Return the module that `torch.compile` wraps; None for other modules."""
    # isinstance would need the class of compiled modules, which takes seconds to import.
    inner = getattr(module, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else None


def _load_timm_model(name: str) -> NetworkSpec:
    arch = Arch("timm", (("network", name),), name)
    task = replace(_UNKNOWN_TASK, input_shape=get_timm_input_shape(name))

    def build(task: Task) -> nn.Module:
        return build_timm_model(name, task.num_classes)

    return NetworkSpec(arch, task, build, cacheable=False)


def is_ctr_design(network: object) -> bool:
    """Return whether this is a hand-designed network for tables, or its name, such as "dlrm"."""
    if isinstance(network, Arch):
        return network.space == "reference"
    return isinstance(network, str) and network in CTR_DESIGNS


def make_ctr_design_arch(name: str) -> Arch:
    """Return a hand-designed network for tables as an `Arch`.

    Raises:
        UsageError: There is no such network. A run folder of someone else may name anything.
    """
    if name not in CTR_DESIGNS:
        raise make_unknown_name_error("network for tables", name, CTR_DESIGNS)
    return Arch("reference", (("network", name),), name)


def _load_ctr_design(name: str) -> NetworkSpec:
    def build(task: Task) -> nn.Module:
        if not task.is_table:
            raise UsageError(
                f"{name} reads the rows of a table, and {task.dataset} has other samples; name a "
                "table, such as csv:clicks.csv"
            )
        return CTR_DESIGNS[name](task)

    # The table sets the number of columns.
    task = replace(_UNKNOWN_TASK, input_shape=(1,), num_classes=1)
    return NetworkSpec(make_ctr_design_arch(name), task, build, cacheable=False)


def _load_factory(name: str) -> NetworkSpec:
    # Load the factory now, to report a mistyped name before the data are loaded.
    load_object(name)
    location, _, attribute = name.rpartition(":")
    # The identity does not depend on how the user typed the path, but on the code.
    short_name = name
    if is_path(location):
        short_name = f"./{Path(location).name}:{attribute}"
    code = fingerprint_user_code(name)[:_FINGERPRINT_LENGTH]
    arch = Arch("factory", (("factory", short_name), ("code", code)), name)
    return NetworkSpec(
        arch, _UNKNOWN_TASK, lambda task: _call_factory(name), cacheable=False, factory=name
    )


def _call_factory(name: str) -> nn.Module:
    """Call the user's factory; an exception in it becomes a `UserCodeError`."""
    factory = load_object(name)
    if not callable(factory):
        raise UsageError(
            f"{name} is a {type(factory).__name__}; it must be a function that returns an nn.Module"
        )
    try:
        model = factory()
    except (Exception, SystemExit) as error:
        raise make_user_code_error(name, "when it was called", error) from error
    if not isinstance(model, nn.Module):
        raise UsageError(f"{name}() returned a {type(model).__name__}; it must return an nn.Module")
    return unwrap_module(model)


def find_space_of(arch: Arch, space: str | Space) -> Space:
    """Return the space of an architecture.

    Args:
        arch: The architecture.
        space: The space that the user named. It is needed if the space of the architecture is not
            registered, because it is defined by the user.

    Raises:
        UsageError: The space of the architecture is neither registered nor `space`.
    """
    named_space = load_space(space)
    if named_space.name == arch.space:
        return named_space
    if arch.space not in SPACES:
        raise UsageError(
            f"{arch} belongs to the space {arch.space!r}; pass this space, such as "
            "space='./mine.py:mynet'"
        )
    return SPACES[arch.space]


# -------------------------------------------------------------------------------------- data


def load_source_for(
    spec: NetworkSpec,
    data: object,
    input_shape: tuple[int, ...] | None,
    num_classes: int | None,
    root: str | Path | None,
) -> DataSource:
    """Load data in the input shape of a network.

    Args:
        spec: The network.
        data: Samples, a name, a path, or None for embedded data.
        input_shape: Shape of one sample; None for that of the data or of the network.
        num_classes: Number of classes; None for that of the data or of the network.
        root: Folder that contains the data sets; None for the default.

    Raises:
        UsageError: The shape is unknown, or data, shape and number of classes are inconsistent.
    """
    if isinstance(data, DataSource):
        return data
    task = spec.task
    if data is not None and not isinstance(data, str | Path):
        samples = open_samples(data)
        dtype = _find_float_type(spec)
        first_input = convert_floats(samples.read_first_input(), dtype)
        classes = num_classes or task.num_classes
        if not classes:
            classes = _count_outputs(spec, lambda: first_input)
        shape = tuple(first_input.shape[1:])
        task = replace(task, dataset=DATASET_NAME, input_shape=shape, num_classes=classes)
        return make_scoring_source(samples, task, dtype)
    if isinstance(data, Path):
        data = name_data_path(data)
    shape = tuple(input_shape or task.input_shape)
    classes = num_classes or task.num_classes
    if not shape and data is not None and is_table_name(data):
        # The table sets the numbers of columns and of outputs.
        shape = (1,)
        classes = classes or 1
    if not shape:
        raise UsageError(
            f"the input shape of {spec.arch} is unknown; add --input-shape, such as 3x224x224 "
            "for images or 12 for rows of 12 numbers (in Python, input_shape=...)"
        )
    if not classes:
        classes = _count_outputs(spec, lambda: torch.zeros(1, *shape))
    task = replace(task, input_shape=shape, num_classes=classes)
    if data is not None:
        source = load_data(data, task, root)
        own_shape = source.task.input_shape
        if input_shape is not None and source.schema is None and own_shape != shape:
            raise UsageError(
                f"{data} has samples of the shape {own_shape}, not {shape}; write --input-shape "
                f"{'x'.join(map(str, own_shape))}"
            )
        data_classes = source.task.num_classes
        if num_classes not in (None, data_classes):
            raise UsageError(
                f"networks for {data} have {format_count(data_classes, 'output')}, "
                f"not {num_classes}; leave out --classes {num_classes}"
            )
        return source
    source = load_data(_choose_embedded_data(shape), task, root)
    # An architecture sees the same labels as in a search, unless the user sets `num_classes`.
    may_change_labels = num_classes is not None or not spec.task.num_classes
    if may_change_labels and source.task.num_classes != classes:
        return _fold_labels(source, classes)
    return source


def _find_float_type(spec: NetworkSpec) -> torch.dtype:
    """Return the floating type of the inputs that a network reads: float32, or float64."""
    if spec.arch.space not in ("module", "factory"):
        return torch.float32
    # A network of the user ignores the task.
    for parameter in spec.build(spec.task).parameters():
        if parameter.dtype in (torch.float32, torch.float64):
            return parameter.dtype
    return torch.float32


def load_training_samples(
    spec: NetworkSpec, data: object, input_shape: tuple[int, ...] | None
) -> DataSource:
    """Load samples from Python with parts to train a network on.

    Args:
        spec: The network.
        data: The samples: a pair of inputs and targets, a Dataset or a DataLoader.
        input_shape: Shape of one sample as the user named it; None for that of the data.

    Raises:
        UsageError: The samples cannot be trained on, or have another shape.
    """
    samples = open_training_samples(data)
    first_input = samples.read_first_input()
    shape = tuple(first_input.shape[1:])
    if input_shape is not None and tuple(input_shape) != shape:
        raise UsageError(
            f"input_shape is {tuple(input_shape)}, and the inputs have the shape {shape}; "
            "leave out input_shape"
        )
    min_classes = 2
    if spec.arch.space in ("module", "factory"):
        # The user's network may have more outputs than there are classes in these data.
        min_classes = max(min_classes, _count_outputs(spec, first_input.float))
    return make_training_source(samples, min_classes)


def _choose_embedded_data(shape: tuple[int, ...]) -> str:
    """Return "digits" for networks with images as inputs, else "noise", which has any shape."""
    is_image = len(shape) == 3 and shape[0] in (1, 3)
    return DEFAULT_DATA if is_image else "noise"


def _fold_labels(source: DataSource, classes: int) -> DataSource:
    """Return the same data with labels modulo `classes`, for a network with that many outputs."""

    def draw(samples: int, generator: torch.Generator) -> Batch:
        batch = source.draw(samples, generator)
        return Batch(batch.inputs, batch.targets % classes)

    return DataSource(replace(source.task, num_classes=classes), draw)


# ------------------------------------------------------------------------- running a network


def make_checked_builder(
    spec: NetworkSpec, task: Task, has_fixed_classes: bool
) -> Callable[[Arch], nn.Module]:
    """Return a function that builds the network for a task and checks its number of outputs.

    Args:
        spec: The network.
        task: The task.
        has_fixed_classes: Whether the user named data or the number of classes. Then a network of
            the user with fewer outputs than classes cannot be scored.
    """
    output_count = task.num_classes
    if has_fixed_classes and spec.space is None:
        outputs = _try_run(spec, task, lambda: torch.zeros(1, *task.input_shape))
        if outputs is not None and outputs.ndim == 2:
            output_count = outputs.shape[1]

    def build(arch: Arch) -> nn.Module:
        if output_count < task.num_classes:
            raise Unscorable(
                "unsupported",
                f"the network has {format_count(output_count, 'output')} "
                f"for {task.num_classes} classes",
            )
        return spec.build(task)

    return build


def check_input_shape(network: str, shape: tuple[int, ...], space: str | Space) -> None:
    """Check that a network of the user accepts inputs of a shape.

    Commands with a single network use this. With many networks, an unsuitable shape or an exception
    in the user's code becomes the failure of one record.

    Raises:
        UsageError: torch raises an error for inputs of this shape.
    """
    spec = load_network_spec(network, space, "cpu")
    if spec.space:
        return
    try:
        _run_network(spec, spec.task, lambda: torch.zeros(1, *shape))
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, RuntimeError) and not is_out_of_memory(error):
            sides = "x".join(map(str, shape))
            first_line = str(error).partition("\n")[0]
            raise UsageError(f"{network} fails on inputs of shape {sides}: {first_line}") from error
        # Other errors are not about the shape. They are recorded when the network is scored.


def _count_outputs(spec: NetworkSpec, make_inputs: Callable[[], Tensor]) -> int:
    """Return the number of outputs of the user's network; 1 if it cannot be run."""
    outputs = _try_run(spec, spec.task, make_inputs)
    if outputs is None or outputs.ndim < 2:
        return 1
    return int(outputs.shape[-1])


def _try_run(spec: NetworkSpec, task: Task, make_inputs: Callable[[], Tensor]) -> Tensor | None:
    """Run the user's network on one sample; None if it fails. Scoring records the failure later."""
    try:
        return _run_network(spec, task, make_inputs)
    except UsageError:
        raise
    except (Exception, SystemExit):
        return None


def _run_network(spec: NetworkSpec, task: Task, make_inputs: Callable[[], Tensor]) -> Tensor:
    with random_state(0):
        model = spec.build(task)
    # The inputs are made here, so that callers handle the error that an impossible shape raises.
    return Probe(model, Batch(make_inputs(), torch.zeros(1))).outputs
