"""Generate plain PyTorch source for a network, with one readable class per kind of block.

`tracing.py` records what each block computes. Blocks with the same computation become one class;
numbers in which they differ become arguments of its constructor. Attributes keep their names, so
weights do too. Parts that the network never uses, such as an auxiliary tower in evaluation mode,
are left out. The source does not import `untrained`. Before it is returned, `check_source` runs it
and compares its outputs with those of the original.
"""

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from inspect import getdoc
from textwrap import dedent
from types import ModuleType

import torch
from torch import Tensor, nn

from untrained.exports.class_writer import Block, BlockClass, write_classes
from untrained.exports.expressions import (
    Call,
    Code,
    Collection,
    Expression,
    InstanceRef,
    KeyValue,
    Keyword,
    make_literal,
)
from untrained.exports.merge_traces import TracedPass, merge_traces, trace_network
from untrained.exports.network_structure import NetworkStructure, check_identifier
from untrained.exports.value_expressions import SourceError
from untrained.probe.guard import random_state


@dataclass(frozen=True)
class NetworkSource:
    """The generated source of a network.

    Attributes:
        text: The source of a Python module.
        class_name: Name of the class of the network in this module.
        weights: The weights by their names in that class.
        is_trainable: Whether it also computes the same as the original in training mode.
    """

    text: str
    class_name: str
    weights: dict[str, Tensor]
    is_trainable: bool


def write_source(
    network: nn.Module, make_inputs: Callable[[int], Tensor], title: str
) -> NetworkSource:
    """Generate source that computes the same as a network.

    Args:
        network: The network, which is not changed.
        make_inputs: Makes a batch of the given size.
        title: The docstring of the module.

    Returns:
        Source that reproduces the outputs of the network bit for bit.

    Raises:
        SourceError: Source cannot be generated; the message names the reason.
    """
    copy = deepcopy(network).cpu()
    for module in copy.modules():
        # Cells of some spaces add x * 0, so that a gradient flows through edges without an
        # operation. The plain source leaves these terms out.
        if hasattr(module, "skips_zeros"):
            module.skips_zeros = True  # type: ignore[assignment]
    try:
        with random_state(0):
            passes = trace_network(copy, make_inputs)
        writer = _SourceWriter(passes)
        text, class_name = writer.write_module(title)
    except SourceError as error:
        raise SourceError(_describe_failure(network, str(error))) from error
    is_trainable = any(traced_pass.training for traced_pass in passes)
    source = NetworkSource(text, class_name, writer.collect_weights(network), is_trainable)
    check_source(source, network, make_inputs)
    return source


def check_source(
    source: NetworkSource, network: nn.Module, make_inputs: Callable[[int], Tensor]
) -> None:
    """Compare the outputs of the generated network with those of the original, bit for bit.

    Raises:
        SourceError: An output differs, or is not finite.
    """
    generated = build_from_source(source)
    # Batch sizes that were not traced. Batch norm cannot train on a single sample.
    batch_sizes_by_mode = {False: (5, 1)}
    if source.is_trainable:
        batch_sizes_by_mode[True] = (5, 2)
    for training, batch_sizes in batch_sizes_by_mode.items():
        expected = _compute_outputs(network, make_inputs, training, batch_sizes)
        outputs = _compute_outputs(generated, make_inputs, training, batch_sizes)
        for expected_output, output in zip(expected, outputs, strict=True):
            # Equal infinities would not show a difference.
            if not expected_output.isfinite().all():
                raise SourceError(_describe_failure(network, "its outputs are not finite"))
            if not torch.equal(expected_output, output):
                reason = "the generated network has different outputs"
                raise SourceError(_describe_failure(network, reason))


def _compute_outputs(
    network: nn.Module,
    make_inputs: Callable[[int], Tensor],
    training: bool,
    batch_sizes: Sequence[int],
) -> list[Tensor]:
    # Training mode changes buffers, so this runs on a copy.
    copy = deepcopy(network).cpu().train(training)
    with random_state(0), torch.no_grad():
        return [copy(make_inputs(batch_size)) for batch_size in batch_sizes]


def _describe_failure(network: nn.Module, reason: str) -> str:
    return f"cannot write plain source for {type(network).__name__}: {reason}"


def build_from_source(source: NetworkSource) -> nn.Module:
    """Build the network from generated source, with its weights."""
    module = ModuleType("model")
    module.__file__ = "model.py"
    # The text is our own: it was generated from a network that has already run.
    exec(compile(source.text, "model.py", "exec"), module.__dict__)
    with random_state(0):
        network: nn.Module = vars(module)[source.class_name]()
    network.load_state_dict(source.weights)
    return network


class _SourceWriter:
    """Turns the traces of a network into the source of a Python module."""

    def __init__(self, passes: Sequence[TracedPass]) -> None:
        self._tracer = passes[0].tracer
        self._structure: NetworkStructure = self._tracer.structure
        self._traces = merge_traces(passes)
        self._classes: list[BlockClass] = []
        self._class_indices: dict[Block, int] = {}
        self._used_modules = self._find_used_modules()

    def write_module(self, title: str) -> tuple[str, str]:
        """Return the text of the module and the name of the network's class."""
        self._express_module(self._structure.network)
        write_classes(self._classes)
        # A class comes after those that it uses, so the network is the last one.
        network_class = self._classes[-1].name
        texts = [block_class.text for block_class in self._classes]
        return _format_module(title, "\n\n\n".join(texts), network_class), network_class

    # ------------------------------------------------------------------------------------ weights

    def collect_weights(self, network: nn.Module) -> dict[str, Tensor]:
        """Return the tensors of a network by their names in the generated one.

        These are the weights and buffers of all parts in use, and tensors that are constants.

        Args:
            network: A network with the same modules as the traced one.
        """
        complete_modules = self._list_complete_modules()
        original_modules = dict(network.named_modules(remove_duplicate=False))
        weights: dict[str, Tensor] = {}
        for name, module in self._structure.network.named_modules(remove_duplicate=False):
            constants = self._list_constants(module)
            for attribute in (*module._parameters, *module._buffers, *constants):
                tensor = getattr(original_modules[name], attribute)
                if tensor is None:
                    continue
                weight_name = f"{name}.{attribute}" if name else attribute
                # `load` is strict, so a layer of torch needs every tensor of its state dict.
                is_saved_by_layer = (
                    id(module) in complete_modules
                    and attribute not in module._non_persistent_buffers_set
                )
                is_used = weight_name in self._tracer.used_weights or attribute in constants
                if is_saved_by_layer or is_used:
                    weights[weight_name] = tensor.detach()
        for name, first_name in self._structure.list_ties():
            # `load` is strict, so if one of the names is needed, both are.
            if first_name in weights:
                weights[name] = weights[first_name]
            elif name in weights:
                weights[first_name] = weights[name]
        return {name: tensor.cpu().clone().contiguous() for name, tensor in weights.items()}

    def _list_complete_modules(self) -> set[int]:
        """Return the ids of modules in use that are written with all their weights."""
        complete: set[int] = set()
        for module in self._structure.network.modules():
            if id(module) not in self._used_modules:
                continue
            is_layer = id(module) in self._structure.layer_calls
            if is_layer or type(module) is nn.ParameterList:
                complete.update(id(child) for child in module.modules())
        return complete

    def _list_constants(self, module: nn.Module) -> set[str]:
        """Return the attributes of a block that are tensors but not weights."""
        return {name for owner, name in self._tracer.constants if owner == id(module)}

    def _find_used_modules(self) -> set[int]:
        """Return the ids of modules that were called or read, or that contain such modules."""
        used = set()
        for name, module in self._structure.network.named_modules(remove_duplicate=False):
            is_called = any(id(child) in self._tracer.called_modules for child in module.modules())
            prefix = f"{name}."
            is_read = any(weight.startswith(prefix) for weight in self._tracer.used_weights)
            if is_called or is_read:
                used.add(id(module))
        return used

    # ------------------------------------------------------------------------------------- blocks

    def _express_module(self, module: nn.Module) -> Expression:
        """Return the expression that makes a module, and add the class of a block."""
        if id(module) in self._structure.layer_calls:
            return self._structure.layer_calls[id(module)]
        if self._structure.is_container(module):
            return Call(Code(f"nn.{type(module).__name__}"), self._express_children(module))
        block = self._make_block(module)
        if block not in self._class_indices:
            self._class_indices[block] = len(self._classes)
            self._classes.append(BlockClass([]))
        class_index = self._class_indices[block]
        instances = self._classes[class_index].instances
        instances.append(block)
        return InstanceRef(class_index, len(instances) - 1)

    def _express_children(self, module: nn.Module) -> tuple[Expression, ...]:
        """Return the constructor arguments of a container."""
        if isinstance(module, nn.ParameterList):
            zeros: list[Expression] = [_express_zeros(parameter) for parameter in module]
            return (Collection("[]", tuple(zeros)),)
        children: dict[str, Expression] = {}
        for name, child in module._modules.items():
            if child is None:
                continue
            if id(child) in self._used_modules:
                children[name] = self._express_module(child)
            else:
                # A placeholder, so that other children keep their positions and weight names.
                children[name] = Code("nn.Identity()")
        if isinstance(module, nn.ModuleDict):
            items = [KeyValue(json.dumps(name), child) for name, child in children.items()]
            return (Collection("{}", tuple(items)),)
        if isinstance(module, nn.ModuleList):
            return (Collection("[]", tuple(children.values())),)
        if list(children) == [str(position) for position in range(len(children))]:
            return tuple(children.values())
        # The children of this `nn.Sequential` have names instead of numbers.
        pairs = []
        for name, child_expression in children.items():
            pairs.append(Collection("()", (Code(json.dumps(name)), child_expression)))
        return (Call(Code("OrderedDict"), (Collection("[]", tuple(pairs)),)),)

    def _make_block(self, module: nn.Module) -> Block:
        """Collect the parts of a block: base class, attributes and forward pass."""
        is_root = module is self._structure.network
        base_arguments: tuple[Expression, ...] = ()
        members: list[tuple[str, Expression]] = []
        if isinstance(module, nn.Sequential | nn.ModuleList):
            base = "nn.Sequential" if isinstance(module, nn.Sequential) else "nn.ModuleList"
            base_arguments = self._express_children(module)
        else:
            base = "nn.Module"
            for name, child in module._modules.items():
                if child is not None and id(child) in self._used_modules:
                    members.append((check_identifier(name, module), self._express_module(child)))
        members.extend(self._express_own_tensors(module))
        trace = None
        if not self._structure.is_chain(module):
            trace = self._traces.get(id(module))
        return Block(
            name=get_class_name(module) or "Block",
            base=base,
            doc=_find_docstring(module, is_root),
            base_arguments=base_arguments,
            members=tuple(members),
            trace=trace,
            last_statements=self._write_ties() if is_root else (),
        )

    def _express_own_tensors(self, module: nn.Module) -> list[tuple[str, Expression]]:
        """Return the statements that create the weights, buffers and constants of a block."""
        members: list[tuple[str, Expression]] = []
        for name, parameter in module._parameters.items():
            if parameter is not None and self._uses_weight(module, name):
                zeros = _express_zeros(parameter)
                members.append(
                    (check_identifier(name, module), Call(Code("nn.Parameter"), (zeros,)))
                )
        constants = self._list_constants(module)
        tensors = dict(module._buffers)
        for name in constants:
            tensors[name] = getattr(module, name)
        for name, tensor in tensors.items():
            if tensor is None:
                continue
            if name in constants or self._uses_weight(module, name):
                arguments = (Code(json.dumps(name)), _express_zeros(tensor))
                members.append(("", Call(Code("self.register_buffer"), arguments)))
        return members

    def _uses_weight(self, module: nn.Module, name: str) -> bool:
        """Return whether a block itself reads one of its weights, under any name of the block."""
        for prefix, other in self._structure.network.named_modules(remove_duplicate=False):
            if other is not module:
                continue
            weight_name = f"{prefix}.{name}" if prefix else name
            if weight_name in self._tracer.used_weights:
                return True
        return False

    def _write_ties(self) -> tuple[str, ...]:
        """Return the assignments that tie weights with several names."""
        network = self._structure.network
        weights = self.collect_weights(network)
        assignments = []
        for name, first_name in self._structure.list_ties():
            if name in weights and first_name in weights:
                target = self._structure.format_path(network, name)
                source = self._structure.format_path(network, first_name)
                assignments.append(f"{target} = {source}")
        return tuple(assignments)


def get_class_name(module: nn.Module) -> str:
    """Return the class name of a module for source and documents."""
    if type(module) is nn.Sequential:
        return "Network"
    return type(module).__name__.strip("_")


def _express_zeros(tensor: Tensor) -> Call:
    """Return `torch.zeros(...)` of the shape and type of a tensor; `load` fills in the values."""
    sizes: tuple[Expression, ...] = tuple(make_literal(int(size)) for size in tensor.shape)
    if not sizes:
        sizes = (Collection("()", ()),)
    dtype = Keyword("dtype", Code(str(tensor.dtype)), "torch.float32")
    return Call(Code("torch.zeros"), (*sizes, dtype))


def _find_docstring(module: nn.Module, is_root: bool) -> str:
    """Return the first sentence of the docstring of a block, or a default."""
    block_type = type(module)
    sentence = ""
    # `getdoc` would inherit the docstring of nn.Module, which says nothing about the block.
    has_own_doc = bool(block_type.__dict__.get("__doc__"))
    if has_own_doc and not block_type.__module__.startswith("torch."):
        paragraph = (getdoc(block_type) or "").split("\n\n")[0]
        sentence = " ".join(paragraph.split()).partition(". ")[0]
        # Neither a backslash nor a quote may end the docstring early.
        sentence = sentence.replace("\\", "/").replace('"', "'").rstrip(".")
    if sentence:
        return f"{sentence}."
    return "The whole network." if is_root else "A block of the network."


def _format_module(title: str, classes: str, network_class: str) -> str:
    """Put imports before the classes and `load` after them."""
    imports = []
    if "OrderedDict(" in classes:
        imports.append("from collections import OrderedDict")
    imports.append("from pathlib import Path")
    imports.append("")
    if "torch." in classes:
        imports.append("import torch")
    if "Tensor" in classes:
        imports.append("from torch import Tensor, nn")
    else:
        imports.append("from torch import nn")
    if "F." in classes:
        imports.append("from torch.nn import functional as F")
    load = f'''
        def load(weights: str | Path | None = None) -> {network_class}:
            """Build the network with its weights, ready to predict.

            Args:
                weights: A file of weights; by default model.safetensors beside this file.
            """
            from safetensors.torch import load_file

            network = {network_class}()
            file = weights or Path(__file__).with_name("model.safetensors")
            network.load_state_dict(load_file(file))
            return network.eval()
    '''
    return "\n".join(
        [f'"""{title}"""', "", *imports, "", "", classes, "", "", dedent(load).strip(), ""]
    )
