"""The graph of any network: its layers, and how data flows between them, with skips and branches.

The network runs once on torch's meta device, where nothing is computed. Every torch function that
receives data from the input becomes a node. Then the graph is simplified:

1. Functions that do not deserve a node of their own, such as norms, dropout, arithmetic with
   constants and changes of shape, disappear.
2. Other functions of one input, such as activations, are appended to the label of the layer that
   they follow.
3. If there are too many nodes, those of one module become one node.
4. Equal nodes that follow each other become one: `conv 3x3, 16 ×3`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from untrained.drawings.diagrams import CellGraph
from untrained.drawings.layout import MAX_SLOTS, count_slots

# In a graph with more nodes, the nodes are modules instead of layers.
_MAX_LAYER_NODES = 48
# A graph with more nodes is not drawn.
_MAX_MODULE_NODES = 96
# Functions appended to the label of a layer; further ones are replaced by an ellipsis.
_MAX_SUFFIXES = 2

# Functions that do not deserve a node of their own. With several inputs, some of them merge data
# and stay.
_PLAIN_FUNCTIONS = frozenset(
    "batch_norm layer_norm group_norm instance_norm rms_norm local_response_norm normalize dropout "
    "dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout view reshape flatten "
    "unflatten permute transpose swapaxes movedim squeeze unsqueeze expand repeat contiguous clone "
    "detach to float double half long int bool type chunk split tensor_split unbind getitem narrow "
    "select pad constant_pad identity add sub mul div neg alias get cat stack".split()
)
# Names of the positional arguments of convolutions. Linear layers and embeddings have the same
# first two. Transposed convolutions have `output_padding` instead of `dilation`; labels show
# neither.
_ARGUMENT_NAMES = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
# Labels of functions that become layers.
_LAYER_LABELS = {
    "linear": "linear",
    "bilinear": "bilinear",
    "embedding": "embedding",
    "embedding_bag": "embedding",
    "multi_head_attention_forward": "attention",
    "scaled_dot_product_attention": "attention",
    "matmul": "matmul",
    "bmm": "matmul",
    "mm": "matmul",
    "einsum": "einsum",
    "interpolate": "resize",
    "upsample": "resize",
    "pixel_shuffle": "pixel shuffle",
    "lstm": "LSTM",
    "gru": "GRU",
    "rnn_tanh": "RNN",
    "rnn_relu": "RNN",
    "mean": "mean",
}
# Labels of functions that merge the data of several nodes.
_MERGE_LABELS = {"add": "+", "mul": "\u00d7", "sub": "\u2212", "div": "/", "cat": "concat"}
# The class name of a container says nothing about its content, so the label of its node is its name
# in the network.
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


@dataclass
class _Node:
    """A function call of the network.

    Attributes:
        label: What it is.
        kind: "layer" (always a node), "plain" (disappears) or "function" (appended to the label of
            a layer).
        sources: Numbers of the nodes whose results it receives, without repetition.
        scope: Numbers of the module calls that contain it, the outermost first.
        suffixes: Functions that are appended to its label.
        repeats: How many equal nodes it stands for.
    """

    label: str
    kind: str
    sources: list[int]
    scope: tuple[int, ...]
    suffixes: list[str] = field(default_factory=list)
    repeats: int = 1

    def format_label(self) -> str:
        parts = [self.label, *self.suffixes[:_MAX_SUFFIXES]]
        if len(self.suffixes) > _MAX_SUFFIXES:
            parts.append("\u2026")
        text = ", ".join(parts)
        if self.repeats > 1:
            text += f" \u00d7{self.repeats}"
        return text


# Nodes by number, in the order of the calls. Numbers of sources are smaller than that of the node.
_Nodes = dict[int, _Node]


def trace_layer_graph(network: nn.Module, input_shape: Sequence[int]) -> CellGraph | None:
    """Return the graph of a network on the meta device.

    Args:
        network: The network; its parameters are on the meta device.
        input_shape: Shape of one sample.

    Returns:
        The graph, or None if the network cannot run on the meta device, because it depends on the
        values of its input, or if the graph is too large to be read.
    """
    recorder = _Recorder(network)
    inputs = torch.zeros((2, *input_shape), device="meta")
    was_training = network.training
    network.eval()
    try:
        output = recorder.run(inputs)
    except Exception:
        # The network is the user's code, which may raise anything.
        return None
    finally:
        network.train(was_training)
    nodes = _keep_ancestors(recorder.nodes, output)
    nodes = _remove_plain(nodes)
    nodes = _append_functions(nodes)
    graph = _make_graph(_join_repeated(nodes))
    if len(nodes) > _MAX_LAYER_NODES or not _can_arrange(graph):
        nodes = _group_by_module(nodes, recorder)
        graph = _make_graph(_join_repeated(nodes))
    if len(graph.nodes) > _MAX_MODULE_NODES or not _can_arrange(graph):
        return None
    return graph


def _can_arrange(graph: CellGraph) -> bool:
    """Return whether the layout of a graph takes little time, even if it has many long edges."""
    return count_slots(len(graph.nodes), graph.edges) <= MAX_SLOTS


class _Recorder(TorchFunctionMode):
    """Records the calls of torch functions that receive data from the input."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.nodes: _Nodes = {}
        self.call_labels: list[str] = []  # labels of the calls of modules, by their number
        self._network = network
        self._producers: dict[int, int] = {}  # id of a tensor -> number of the node
        # An id is valid only while its tensor is alive.
        self._tensors: list[Tensor] = []
        self._scope: list[int] = []

    def run(self, inputs: Tensor) -> int:
        """Run the network and return the number of the output node."""
        shape = "\u00d7".join(map(str, inputs.shape[1:]))
        self._add_node(f"input {shape}", "layer", [], [inputs])
        with self._watch_modules(), self:
            outputs = self._network(inputs)
        tensors = _collect_tensors([outputs])
        sources = self._find_sources(tensors)
        size = prod(tensors[0].shape[1:]) if tensors else 0
        return self._add_node(f"output {size}", "layer", sources, [])

    def __torch_function__(
        self,
        func: Any,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        arguments = [*args, *kwargs.values()]
        sources = self._find_sources(_collect_tensors(arguments))
        results = _collect_tensors([result])
        if sources and results:
            name = str(getattr(func, "__name__", "function")).strip("_")
            label, kind = _describe_call(name, args, kwargs, len(sources))
            self._add_node(label, kind, sources, results)
        return result

    def _add_node(
        self, label: str, kind: str, sources: list[int], results: Sequence[Tensor]
    ) -> int:
        number = len(self.nodes)
        self.nodes[number] = _Node(label, kind, sources, tuple(self._scope))
        for tensor in results:
            self._producers[id(tensor)] = number
            self._tensors.append(tensor)
        return number

    def _find_sources(self, tensors: Sequence[Tensor]) -> list[int]:
        # A dictionary removes repetitions and keeps the order.
        numbers: dict[int, None] = {}
        for tensor in tensors:
            if id(tensor) in self._producers:
                numbers[self._producers[id(tensor)]] = None
        return list(numbers)

    @contextmanager
    def _watch_modules(self) -> Iterator[None]:
        """Keep `_scope` up to date while the network runs."""
        names = {module: name for name, module in self._network.named_modules() if name}

        def enter(module: nn.Module, _: object) -> None:
            self._scope.append(len(self.call_labels))
            label = type(module).__name__.strip("_")
            if isinstance(module, _CONTAINERS):
                label = names[module]
            self.call_labels.append(label)

        def leave(module: nn.Module, _: object, result: object) -> None:
            call = self._scope.pop()
            tensors = _collect_tensors([result])
            if tensors and tensors[0].dim() > 1:
                # Images have channels on the second axis, tokens and vectors on the last.
                axis = 1 if tensors[0].dim() > 3 else -1
                self.call_labels[call] += f", {tensors[0].shape[axis]}"

        handles = []
        for module in names:
            handles.append(module.register_forward_pre_hook(enter))
            handles.append(module.register_forward_hook(leave))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _collect_tensors(values: Sequence[object]) -> list[Tensor]:
    """Return the tensors among values, also those in lists, tuples and dictionaries."""
    tensors: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, list | tuple):
            tensors.extend(_collect_tensors(value))
        elif isinstance(value, dict):
            tensors.extend(_collect_tensors(list(value.values())))
    return tensors


def _describe_call(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], source_count: int
) -> tuple[str, str]:
    """Return the label and the kind of a call, see `_Node`.

    Args:
        name: Name of the function, without underscores around it.
        args: Its arguments.
        kwargs: Its keyword arguments.
        source_count: How many different nodes it receives data from.
    """
    if source_count > 1:
        return _MERGE_LABELS.get(name, _LAYER_LABELS.get(name, name)), "layer"
    if name in _PLAIN_FUNCTIONS:
        return name, "plain"
    arguments = dict(zip(_ARGUMENT_NAMES, args, strict=False)) | kwargs
    weight = arguments.get("weight")
    if name.startswith("conv") and isinstance(weight, Tensor):
        return _describe_convolution(name, weight, arguments), "layer"
    if "pool" in name:
        for kind in ("max", "avg"):
            if kind in name:
                return f"{kind} pool", "layer"
        return "lp pool", "layer"
    if name in ("linear", "embedding", "embedding_bag") and isinstance(weight, Tensor):
        # The weight of an embedding has one row per category.
        size = weight.shape[0] if name == "linear" else weight.shape[1]
        return f"{_LAYER_LABELS[name]}, {size}", "layer"
    if name in _LAYER_LABELS:
        return _LAYER_LABELS[name], "layer"
    return name, "function"


def _describe_convolution(name: str, weight: Tensor, arguments: dict[str, Any]) -> str:
    """Return a label such as `conv 3x3, 16, stride 2`.

    Args:
        name: Name of the function, such as `conv2d` or `conv_transpose2d`.
        weight: Its weight, (out, in / groups, ...), or (in, out / groups, ...) if transposed.
        arguments: All its arguments by name, see `_ARGUMENT_NAMES`.
    """
    is_transposed = "transpose" in name
    groups = arguments.get("groups", 1)
    channels = weight.shape[1] * groups if is_transposed else weight.shape[0]
    kernel = "x".join(map(str, weight.shape[2:]))
    label = f"conv {kernel}"
    if is_transposed:
        label = f"transposed {label}"
    elif groups > 1 and weight.shape[1] == 1:
        label = f"depthwise {label}"
    elif groups > 1:
        label = f"{label} in {groups} groups"
    label += f", {channels}"
    stride = arguments.get("stride", 1)
    strides = list(stride) if isinstance(stride, list | tuple) else [stride]
    if len(set(strides)) == 1:
        strides = strides[:1]
    if strides != [1]:
        label += f", stride {'x'.join(map(str, strides))}"
    return label


# ------------------------------------------------------------------------------ simplification


def _keep_ancestors(nodes: _Nodes, output: int) -> _Nodes:
    """Return the nodes that the output depends on, and the input."""
    needed = {0, output}
    for number in sorted(nodes, reverse=True):
        if number in needed:
            needed.update(nodes[number].sources)
    return {number: node for number, node in nodes.items() if number in needed}


def _remove_plain(nodes: _Nodes) -> _Nodes:
    """Remove nodes that only pass on the data of one source."""
    kept: _Nodes = {}
    replacements: dict[int, int] = {}
    for number, node in nodes.items():
        node.sources = _replace_sources(node.sources, replacements)
        if node.kind == "plain" and len(node.sources) == 1:
            replacements[number] = node.sources[0]
        else:
            kept[number] = node
    return kept


def _count_uses(nodes: _Nodes) -> dict[int, int]:
    """Return how many nodes receive data from each node."""
    counts = dict.fromkeys(nodes, 0)
    for node in nodes.values():
        for source in node.sources:
            counts[source] += 1
    return counts


def _append_functions(nodes: _Nodes) -> _Nodes:
    """Append each function of one source to the label of that source, if nothing else uses it."""
    use_counts = _count_uses(nodes)
    kept: _Nodes = {}
    replacements: dict[int, int] = {}
    for number, node in nodes.items():
        direct_sources = node.sources
        node.sources = _replace_sources(direct_sources, replacements)
        # Nothing is appended to the label of the input, which is node 0.
        follows_one_layer = len(node.sources) == 1 and node.sources != [0]
        is_appendable = node.kind == "function" and follows_one_layer
        if is_appendable and use_counts[direct_sources[0]] == 1:
            kept[node.sources[0]].suffixes.append(node.label)
            replacements[number] = node.sources[0]
        else:
            kept[number] = node
    return kept


def _group_by_module(nodes: _Nodes, recorder: _Recorder) -> _Nodes:
    """Replace the nodes of one call of a module by one node.

    This uses the deepest level of modules at which the graph is small enough, or else the top
    level.
    """
    deepest = max(len(node.scope) for node in nodes.values())
    grouped = nodes
    for level in range(deepest, 0, -1):
        grouped = _group_at_level(nodes, level, recorder.call_labels)
        graph = _make_graph(_join_repeated(grouped))
        if len(graph.nodes) <= _MAX_LAYER_NODES and _can_arrange(graph):
            break
    return grouped


def _group_at_level(nodes: _Nodes, level: int, call_labels: Sequence[str]) -> _Nodes:
    """Replace the nodes of one call of a module by one node, for all modules at one level.

    Args:
        nodes: The nodes.
        level: How deep the modules are nested; 1 for those that the network itself calls.
        call_labels: Labels of the calls of modules, by their number.
    """
    scopes = [node.scope for node in nodes.values()]
    member_counts = Counter(scope[level - 1] for scope in scopes if len(scope) >= level)
    grouped: _Nodes = {}
    replacements: dict[int, int] = {}
    first_numbers: dict[int, int] = {}  # number of a call -> number of its node
    for number, node in nodes.items():
        sources = _replace_sources(node.sources, replacements)
        # The label of a single layer says more than the name of its module.
        if len(node.scope) < level or member_counts[node.scope[level - 1]] == 1:
            grouped[number] = _Node(node.label, node.kind, sources, node.scope, node.suffixes)
            continue
        call = node.scope[level - 1]
        first = first_numbers.setdefault(call, number)
        replacements[number] = first
        if first == number:
            grouped[number] = _Node(call_labels[call], "layer", [], node.scope[:level])
        module_node = grouped[first]
        others = [source for source in sources if source != first]
        module_node.sources = list(dict.fromkeys([*module_node.sources, *others]))
    return grouped


def _join_repeated(nodes: _Nodes) -> _Nodes:
    """Join a node with its only source if both have the same label and no other neighbours."""
    use_counts = _count_uses(nodes)
    joined: _Nodes = {}
    replacements: dict[int, int] = {}
    for number, node in nodes.items():
        sources = _replace_sources(node.sources, replacements)
        if len(sources) == 1:
            previous = joined[sources[0]]
            is_equal = (previous.label, previous.suffixes) == (node.label, node.suffixes)
            is_only_user = use_counts[node.sources[0]] == 1
            if is_equal and is_only_user and len(previous.sources) == 1:
                previous.repeats += 1
                replacements[number] = sources[0]
                continue
        # A copy, because `repeats` may change and the caller still needs the original nodes.
        joined[number] = replace(node, sources=sources)
    return joined


def _replace_sources(sources: Sequence[int], replacements: dict[int, int]) -> list[int]:
    return list(dict.fromkeys(replacements.get(source, source) for source in sources))


def _make_graph(nodes: _Nodes) -> CellGraph:
    places = {number: place for place, number in enumerate(nodes)}
    edges = []
    for number, node in nodes.items():
        for source in node.sources:
            edges.append((places[source], places[number], ""))
    return CellGraph(tuple(node.format_label() for node in nodes.values()), tuple(edges))
