"""Graphs of networks: layers, skips, branches, and large networks by their modules."""

import base64
import re
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

import untrained
from untrained.drawings.diagrams import CellGraph, CellGraphs, Stage, StageList, read_diagram
from untrained.drawings.network_graph import trace_layer_graph
from untrained.errors import UsageError
from untrained.spaces import load_space


class Residual(nn.Module):
    """Two convolutions beside a skip connection, which has a convolution if the width changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs), nn.ReLU()
        )
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm = nn.BatchNorm2d(outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.skip(x) + self.norm(self.second(self.first(x))))


class Branches(nn.Module):
    """Three branches of different depth, joined by concatenation."""

    def __init__(self):
        super().__init__()
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(8, 4, 1))
        self.narrow = nn.Conv2d(8, 4, 1)
        self.wide = nn.Conv2d(8, 8, 3, padding=1, groups=8)

    def forward(self, x):
        wide = self.wide(x)
        wide *= 2
        return torch.cat([self.narrow(x).relu(), wide, self.pool(x)], dim=1)


def trace(*layers, shape=(3, 8, 8)):
    """Return the nodes of the graph with the labels of their sources."""
    with torch.device("meta"):
        network = nn.Sequential(*(make() for make in layers))
    graph = trace_layer_graph(network, shape)
    sources = [[] for _ in graph.nodes]
    for source, target, label in graph.edges:
        assert label == ""
        sources[target].append(graph.nodes[source])
    return list(zip(graph.nodes, sources, strict=True))


def test_skips_are_edges():
    assert trace(
        lambda: nn.Conv2d(3, 8, 3), lambda: Residual(8, 8, 1), lambda: Residual(8, 16, 2)
    ) == [
        ("input 3\u00d78\u00d78", []),
        ("conv 3x3, 8", ["input 3\u00d78\u00d78"]),
        ("conv 3x3, 8, relu", ["conv 3x3, 8"]),
        ("conv 3x3, 8", ["conv 3x3, 8, relu"]),
        ("+, relu", ["conv 3x3, 8", "conv 3x3, 8"]),
        ("conv 1x1, 16, stride 2", ["+, relu"]),
        ("conv 3x3, 16, stride 2, relu", ["+, relu"]),
        ("conv 3x3, 16", ["conv 3x3, 16, stride 2, relu"]),
        ("+, relu", ["conv 1x1, 16, stride 2", "conv 3x3, 16"]),
        ("output 144", ["+, relu"]),
    ]


def test_branches_meet_where_they_are_joined():
    assert trace(lambda: nn.Conv2d(3, 8, 1), Branches, lambda: nn.Flatten(), shape=(3, 4, 4)) == [
        ("input 3\u00d74\u00d74", []),
        ("conv 1x1, 8", ["input 3\u00d74\u00d74"]),
        ("depthwise conv 3x3, 8", ["conv 1x1, 8"]),
        ("conv 1x1, 4, relu", ["conv 1x1, 8"]),
        ("max pool", ["conv 1x1, 8"]),
        ("conv 1x1, 4", ["max pool"]),
        ("concat", ["conv 1x1, 4, relu", "depthwise conv 3x3, 8", "conv 1x1, 4"]),
        ("output 256", ["concat"]),
    ]


def test_functions_without_modules_are_seen():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(6, 5))
            self.unused = nn.Linear(6, 6)

        def forward(self, x):
            self.unused(x)  # not on a path to the output
            value, gate = (x @ self.weight).softmax(-1), x.mean(1, keepdim=True)
            return {"logits": value * gate.sigmoid().exp().log()}

    assert trace(Gated, shape=(6,)) == [
        ("input 6", []),
        ("matmul, softmax", ["input 6"]),
        ("mean, sigmoid, exp, …", ["input 6"]),
        ("\u00d7", ["matmul, softmax", "mean, sigmoid, exp, …"]),
        ("output 5", ["\u00d7"]),
    ]


def test_a_module_that_is_called_twice_is_two_nodes():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(self.layer(x) + x)

    labels = [label for label, _ in trace(Twice, shape=(4,))]
    assert labels == ["input 4", "linear, 4", "+", "linear, 4", "output 4"]


def test_a_large_network_is_drawn_by_its_modules():
    layers = [lambda: nn.Conv2d(3, 8, 3, padding=1)]
    for _ in range(2):
        layers.append(lambda: nn.Sequential(*(Residual(8, 8, 1) for _ in range(9))))
    assert trace(*layers) == [
        ("input 3\u00d78\u00d78", []),
        ("conv 3x3, 8", ["input 3\u00d78\u00d78"]),
        ("Residual, 8 \u00d718", ["conv 3x3, 8"]),
        ("output 512", ["Residual, 8 \u00d718"]),
    ]


def test_a_network_that_is_too_large_has_no_graph():
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(200))

        def forward(self, x):
            return torch.cat([layer(x) for layer in self.layers], dim=1)

    with torch.device("meta"):
        network = Wide()
    assert trace_layer_graph(network, (4,)) is None


def test_a_densely_connected_network_is_drawn_by_its_modules():
    """Each of 20 layers reads all earlier ones: few nodes, but too many edges for a layout."""

    class Dense(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv2d(8 * (i + 1), 8, 1) for i in range(20))

        def forward(self, x):
            outputs = [x]
            for layer in self.layers:
                outputs.append(layer(torch.cat(outputs, 1)))
            return outputs[-1]

    assert trace(lambda: nn.Conv2d(3, 8, 1), Dense) == [
        ("input 3\u00d78\u00d78", []),
        ("conv 1x1, 8", ["input 3\u00d78\u00d78"]),
        ("Dense, 8", ["conv 1x1, 8"]),
        ("output 512", ["Dense, 8"]),
    ]


def test_the_mode_of_a_network_stays():
    with torch.device("meta"):
        network = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
    trace_layer_graph(network, (4,))
    assert network.training
    assert not network[0]._forward_hooks


# ------------------------------------------------------------------------------------------ pictures


@pytest.mark.parametrize("name", ["nasbench201", "darts", "mlp", "vit"])
def test_an_architecture_becomes_a_picture_in_a_notebook_and_a_file(name, tmp_path):
    space = load_space(name)
    diagram = space.draw(space.sample(seed=0))
    file = diagram.save(tmp_path / "arch.svg")
    content = file.read_text()
    root = ElementTree.fromstring(content)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    # A picture loads nothing and contains its own colours.
    assert "--paper:" in content
    assert "http" not in content.replace("http://www.w3.org/2000/svg", "")
    image = re.fullmatch(
        r'<img alt="architecture" src="data:image/svg\+xml;base64,(.*)">', diagram._repr_html_()
    )
    assert base64.b64decode(image[1]).decode() == content


def test_cells_are_below_each_other_in_one_file():
    cell = CellGraph(("a", "b"), ((0, 1, "conv 3x3"),))
    root = ElementTree.fromstring(CellGraphs((("normal", cell), ("reduce", cell))).to_svg())
    parts = root.findall("{http://www.w3.org/2000/svg}svg")
    first, second = parts
    bottom = float(first.get("y")) + float(first.get("height"))
    assert float(second.get("y")) > bottom
    assert float(root.get("height")) >= float(second.get("y")) + float(second.get("height")) - 1
    text = "".join(root.itertext())
    assert "normal" in text
    assert "reduce" in text


def test_a_drawing_is_saved_only_as_svg(tmp_path):
    diagram = StageList((Stage("conv 3x3", 8),))
    with pytest.raises(UsageError, match=r"use a name that ends in \.svg"):
        diagram.save(tmp_path / "arch.png")
    with pytest.raises(UsageError, match="cannot be written"):
        diagram.save(tmp_path / "missing" / "arch.svg")


def test_a_huge_graph_from_a_file_is_refused():
    with pytest.raises(UsageError, match="a graph of 100,000 nodes is too large"):
        read_diagram({"kind": "CellGraph", "nodes": ["a"] * 100_000, "edges": []})


def test_a_dense_graph_from_a_file_is_refused():
    """Its layout would take minutes."""
    edges = [[source, target, ""] for target in range(25) for source in range(target)]
    with pytest.raises(UsageError, match="a graph of 25 nodes and 300 edges is too large"):
        read_diagram({"kind": "CellGraph", "nodes": ["a"] * 25, "edges": edges})


@pytest.mark.parametrize("edges", [[[0, 1, ""], [1, 0, ""]], [[0, 0, ""]]])
def test_a_cycle_from_a_file_is_refused(edges):
    with pytest.raises(UsageError, match="this one has a cycle"):
        read_diagram({"kind": "CellGraph", "nodes": ["a", "b"], "edges": edges})


def test_own_spaces_draw_their_networks():
    @untrained.space(task=untrained.Task("noise", (3, 8, 8), 5))
    def own(choose, task):
        width = choose("width", [4, 8])
        return nn.Sequential(nn.Conv2d(3, width, 1), Residual(width, width, 1))

    diagram = own.draw(own.parse("width=4"))
    assert isinstance(diagram, CellGraph)
    assert (1, 4, "") in diagram.edges  # the skip connection
