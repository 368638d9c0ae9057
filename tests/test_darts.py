"""DARTS without reference data: choices, notation, drop path, supernets. Official values: golden/test_darts.py."""

from itertools import product
from math import comb, prod

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import untrained
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.spaces import Space, load_space
from untrained.spaces._blocks import FactorizedReduce, Zero, drop_path
from untrained.spaces._darts_net import Place, WiredCell
from untrained.spaces._genotype import Wiring
from untrained.types import Arch, Batch, Task

darts, nasi = load_space("darts"), load_space("darts_nasi")
small = darts.configured(channels=4, cells=3)  # normal, reduction, reduction
TASK = Task("noise", (3, 8, 8), 5)
seeds = st.integers(0, 2**32 - 1)


def written(
    normal: list[tuple[str, int]], reduce: list[tuple[str, int]] | None = None, concat: str = "range(2, 6)"
) -> str:
    return f"Genotype(normal={normal}, normal_concat={concat}, reduce={reduce or normal}, reduce_concat={concat})"


def alike(op: str) -> list[tuple[str, int]]:
    return [(op, source) for _ in range(4) for source in (0, 1)]


SKIPS, CONVS = written(alike("skip_connect")), written(alike("sep_conv_3x3"))
ENAS_LIKE = written([("sep_conv_7x7", 0), ("avg_pool_3x3", 0)] * 5, concat="[2, 4, 6]")


# ---------------------------------------------------------------------------------------------------------- the choices


@pytest.mark.parametrize(
    ("options", "each"),
    [
        ({}, 7),
        ({"operations": "hnas"}, 6),
        ({"operations": "s1"}, 2),
        ({"operations": "s3"}, 2),
        ({"operations": "s6"}, 1),
    ],
)
def test_the_size_is_the_number_of_combinations(options: dict[str, str], each: int):
    """A node of k earlier states has k(k-1)/2 pairs of sources and two operations; nodes 2 to 5, two cells. No two
    combinations are the same cell, since sources are written in order."""
    space = darts.configured(**options) if options else darts
    for picked in (0, -1):
        calls = space.trace(lambda _, options, picked=picked: options[picked])
        assert prod(len(call.options) for call in calls) == space.size
    assert space.size == (1 * 3 * 6 * 10 * each**8) ** 2


def test_the_size_of_nasi():
    """The same wiring, and two different operations a node."""
    calls = nasi.trace(lambda _, options: options[0])
    assert prod(len(call.options) for call in calls) == nasi.size == (180 * (7 * 6) ** 4) ** 2
    assert darts.size == 1037664180**2  # about 10^18, as the DARTS paper says


def test_nasi_draws_different_operations_but_reads_equal_ones():
    rng = np.random.default_rng(0)
    for arch in (nasi.sample(rng) for _ in range(100)):
        assert all(
            arch[f"{cell}{n}_op0"] != arch[f"{cell}{n}_op1"] for cell in ("normal", "reduce") for n in range(2, 6)
        )
    assert str(nasi.parse(CONVS)) == CONVS


def test_samples_reach_every_pair_of_sources_and_every_operation():
    rng = np.random.default_rng(0)
    archs = [darts.sample(rng) for _ in range(300)]
    assert len(set(archs)) == 300
    for node in range(2, 6):
        assert len({arch[f"normal{node}_inputs"] for arch in archs}) == comb(node, 2)
        assert len({arch[f"reduce{node}_op1"] for arch in archs}) == 7
    assert {arch["normal_concat"] for arch in archs} == {"2,3,4,5"}


@settings(derandomize=True, max_examples=50)
@given(seeds)
def test_mutation_changes_one_operation_or_the_sources_of_one_node(seed: int):
    rng = np.random.default_rng(seed)
    parent = darts.sample(rng)
    child = darts.mutate(parent, rng)
    assert darts.parse(str(child)) == child
    assert sum(a != b for a, b in zip(parent.genes, child.genes, strict=True)) == 1


@settings(derandomize=True, max_examples=50)
@given(seeds)
def test_a_child_has_every_gene_from_a_parent(seed: int):
    rng = np.random.default_rng(seed)
    a, b = darts.sample(rng), darts.sample(rng)
    child = darts.crossover(a, b, rng)
    assert all(gene in (*a.genes, *b.genes) for gene in child.genes)


def test_what_is_published_but_not_of_the_space_mutates_near_itself():
    parent, rng = darts.parse(ENAS_LIKE), np.random.default_rng(0)
    for child in (darts.mutate(parent, rng) for _ in range(20)):
        assert child["normal_nodes"] == 5
        assert child["reduce_concat"] == "2,4,6"
        assert str(child).count("sep_conv_7x7") >= 9
        assert darts.parse(str(child)) == child


def test_options_that_may_be_written_but_are_never_drawn():
    @untrained.space
    def ratios(choose, task):
        return nn.Linear(1, int(choose("ratio", (3, 4), also=(2,))))

    assert [str(arch) for arch in ratios] == ["ratio=3", "ratio=4"]
    old, rng = ratios.parse("ratio=2"), np.random.default_rng(0)
    assert ratios.build(old).out_features == 2
    assert {ratios.sample(rng)["ratio"] for _ in range(20)} == {3, 4}
    assert {ratios.mutate(old, rng)["ratio"] for _ in range(20)} == {3, 4}
    assert {ratios.crossover(old, old, rng)["ratio"] for _ in range(20)} == {2}
    with pytest.raises(UsageError, match="it can only be one of 3, 4, 2"):
        ratios.parse("ratio=5")


# ------------------------------------------------------------------------------------------------------------- notation


@settings(derandomize=True, max_examples=50)
@given(seeds, st.sampled_from([darts, nasi]))
def test_genotypes_are_parsed_back(seed: int, space: Space):
    arch = space.sample(np.random.default_rng(seed))
    assert space.parse(str(arch)) == arch
    assert str(space.parse(str(arch))) == str(arch)


def test_the_order_of_the_two_edges_of_a_node_means_nothing():
    edges = alike("skip_connect")
    edges[2:4] = [("sep_conv_3x3", 2), ("dil_conv_5x5", 1)]
    swapped = [*edges[:2], edges[3], edges[2], *edges[4:]]
    assert darts.parse(written(edges)) == darts.parse(written(swapped))
    assert str(darts.parse(written(edges))) == written(swapped)  # the lower source first
    twice = [("sep_conv_5x5", 0), ("max_pool_3x3", 0)] * 4
    assert darts.parse(written(twice)) == darts.parse(written(twice[::-1]))


def test_the_concatenation_is_a_range_or_a_list():
    assert darts.parse(written(alike("none"), concat="[2, 3, 4, 5]")) == darts.parse(written(alike("none")))
    assert str(darts.parse(written(alike("none"), concat="[5, 3, 4]"))) == written(alike("none"), concat="range(3, 6)")
    assert str(darts.parse(ENAS_LIKE)).count("concat=[2, 4, 6]") == 2
    assert darts.parse(SKIPS.replace(", ", ",\n   ")) == darts.parse(SKIPS)


@pytest.mark.parametrize(
    ("bad", "at", "says"),
    [
        (SKIPS.replace("Genotype", "Genome"), 0, r"Genotype\(normal="),
        (SKIPS.replace("reduce_concat", "reduced"), 0, r"Genotype\(normal="),
        (SKIPS[:-1], 8, r"Genotype\(normal="),
        ("", 0, r"Genotype\(normal="),
        (SKIPS.replace("skip_connect", "skip", 1), SKIPS.index("skip_connect") - 1, "one of none, max_pool_3x3"),
        (SKIPS.replace("0), ", "2), ", 1), SKIPS.index("('"), "a source below 2"),
        (SKIPS.replace("('skip_connect', 0), ", "", 1), SKIPS.index("[("), "8 or 10 edges"),
        (SKIPS.replace("range(2, 6)", "range(2, 7)", 1), SKIPS.index("range"), r"range\(2, 6\) or a list"),
        (SKIPS.replace("range(2, 6)", "range(0, 10**9)", 1), SKIPS.index("range"), r"range\(2, 6\) or a list"),
        (SKIPS.replace("range(2, 6)", "[2, 2]", 1), SKIPS.index("range"), r"range\(2, 6\) or a list"),
        (SKIPS.replace("range(2, 6)", "[]", 1), SKIPS.index("range"), r"range\(2, 6\) or a list"),
        (SKIPS.replace("range(2, 6)", "list(range(2, 6))", 1), SKIPS.index("range"), r"range\(2, 6\) or a list"),
        (SKIPS.replace("'skip_connect'", "print('ha')", 1), SKIPS.index("('"), "'sep_conv_3x3', 0"),
    ],
)
def test_malformed_genotypes_are_marked(bad: str, at: int, says: str):
    with pytest.raises(UsageError, match=says) as caught:
        darts.parse(bad)
    assert len(str(caught.value).splitlines()[-1]) - 1 == at + 2  # two spaces of indentation, then the arrow


def test_no_text_is_evaluated(capsys: pytest.CaptureFixture[str]):
    for text in ("Genotype(normal=print('ha'))", "print('ha')", "Genotype(**{print('ha'): 1})", "(" * 5000, "\0"):
        with pytest.raises(UsageError):
            darts.parse(text)
    assert capsys.readouterr().out == ""


def test_a_drawing_has_both_cells_and_their_outputs():
    sketch = darts.sketch(darts.parse(ENAS_LIKE))
    assert [name for name, _ in sketch.parts] == ["normal", "reduce"]
    cell = sketch.parts[0][1]
    assert len(cell.nodes) == 2 + 5 + 1
    assert [edge for edge in cell.edges if edge[1] == 7] == [(2, 7, ""), (4, 7, ""), (6, 7, "")]
    assert cell.edges[0] == (0, 2, "avg_pool_3x3")


# ------------------------------------------------------------------------------------------------------------- networks


def build(space: Space, text: str = CONVS, task: Task = TASK) -> nn.Module:
    torch.manual_seed(0)
    return space.build(space.parse(text), task)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 17, 23), (4, 8, 9)])
@pytest.mark.parametrize("stem", ["cifar", "tiny_imagenet", "imagenet", "imagenet_search"])
@pytest.mark.parametrize("name", ["darts", "darts_nasi"])
def test_any_input_size(name: str, stem: str, shape: tuple[int, ...]):
    space = load_space(f"{name}(channels=4,cells=4,stem={stem},auxiliary=True)")
    x, task = torch.randn(2, *shape), Task("noise", shape, 7)
    for model in (build(space, SKIPS, task), space.supernet(task)):
        beside, logits = model(x)
        assert beside.shape == logits.shape == (2, 7)
        (beside.sum() + logits.sum()).backward()
        assert model.eval()(x).shape == (2, 7)


def test_a_probe_reads_the_main_logits_of_a_network_with_a_tower():
    model = build(small.configured(auxiliary=True))
    batch = Batch(torch.randn(4, 3, 8, 8), torch.zeros(4, dtype=torch.long))
    with torch.no_grad():
        beside, logits = model(batch.inputs)
    assert torch.equal(Probe(model, batch).outputs, logits)
    assert not torch.equal(beside, logits)


def test_the_factorised_reduction_is_that_of_darts_where_sizes_are_even():
    block, x = FactorizedReduce(6, 4).eval(), torch.randn(2, 6, 8, 10)
    even, odd = (
        F.conv2d(part, conv.weight, stride=2)
        for part, conv in ((x.relu(), block.conv_1), (x.relu()[:, :, 1:, 1:], block.conv_2))
    )
    torch.testing.assert_close(block(x), torch.cat([even, odd], 1) / (1 + 1e-5) ** 0.5)
    assert block(torch.randn(2, 6, 7, 5)).shape == (2, 4, 4, 3)


def test_a_cut_edge_keeps_the_gradient():
    x = torch.randn(2, 3, 5, 5, requires_grad=True)
    out = Zero(2)(x)
    assert out.shape == (2, 3, 3, 3)
    out.sum().backward()
    assert not out.any()
    assert not x.grad.any()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"stem": "cifra"}, "no stem is called 'cifra'; did you mean cifar"),
        ({"operations": "s7"}, "no set of operations is called 's7'"),
        ({"cells": 0}, "at least 2 channels and 1 cell"),
        ({"drop_path": 1.0}, "drop_path is from 0 to below 1"),
    ],
)
def test_options_that_make_no_network_are_refused(options: dict[str, object], says: str):
    with pytest.raises(UsageError, match=says):
        darts.configured(**options).sample(np.random.default_rng(0))


# ------------------------------------------------------------------------------------------------------------ drop path


def test_drop_path_keeps_the_mean_and_drops_whole_samples():
    torch.manual_seed(0)
    out = drop_path(torch.ones(4000, 2, 3, 3), 0.25)
    assert out.unique().tolist() == pytest.approx([0, 4 / 3])
    assert torch.equal(out, out[:, :1, :1, :1].expand_as(out))
    assert out.mean().item() == pytest.approx(1, abs=0.05)


def cell(op: str) -> WiredCell:
    place = Place((6, 6), 6, "normal", after_reduction=False, stride=1)
    return WiredCell(Wiring(tuple(alike(op)), (2,)), place).eval()


def test_drop_path_acts_on_each_edge_by_itself():
    """Node 2 is the sum of two pooled inputs a and b, each zero or doubled: 0, 2a, 2b or 2a + 2b in every sample."""
    torch.manual_seed(0)
    pooling, s0, s1 = cell("avg_pool_3x3"), torch.randn(64, 6, 4, 4), torch.randn(64, 6, 4, 4)
    with torch.no_grad():
        a, b = pooling.edges[0](pooling.preprocess0(s0)), pooling.edges[1](pooling.preprocess1(s1))
        torch.testing.assert_close(pooling(s0, s1, 0.0), a + b)
        out = pooling(s0, s1, 0.5)
    seen = set()
    for i in range(64):
        (kind,) = (k for k in product((0, 2), repeat=2) if torch.allclose(out[i], k[0] * a[i] + k[1] * b[i], atol=1e-6))
        seen.add(kind)
    assert len(seen) == 4


def test_drop_path_spares_identities():
    skipping, s0, s1 = cell("skip_connect"), torch.randn(8, 6, 4, 4), torch.randn(8, 6, 4, 4)
    assert torch.equal(skipping(s0, s1, 0.9), skipping(s0, s1, 0.0))


def test_drop_path_is_for_training_only_and_can_be_raised():
    model, x = build(small.configured(drop_path=0.5)), torch.randn(8, 3, 8, 8)
    assert not torch.equal(model(x), model(x))
    model.drop_path = 0.0
    assert torch.equal(model(x), model(x))
    model.drop_path = 0.9
    plain = build(small)
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model.eval()(x), plain.eval()(x))


# ------------------------------------------------------------------------------------------------------------ supernets


def network(space: Space) -> nn.Module:
    torch.manual_seed(1)
    net = space.supernet(TASK)
    for _ in range(2):
        net(torch.randn(8, 3, 8, 8))  # statistics that are not those of a new network
    return net


@pytest.mark.parametrize("options", ["channels=4,cells=3", "channels=4,cells=3,stem=imagenet,auxiliary=True"])
@pytest.mark.parametrize("name", ["darts", "darts_nasi"])
def test_a_subnet_is_the_built_network_with_shared_weights(name: str, options: str):
    space = load_space(f"{name}({options})")
    net, x, rng = network(space), torch.randn(4, 3, 8, 8), np.random.default_rng(0)
    own = {id(tensor) for tensor in (*net.parameters(), *net.buffers())}
    for arch in (space.sample(rng) for _ in range(3)):
        state = torch.get_rng_state()
        sub = net.subnet(arch)
        assert torch.equal(torch.get_rng_state(), state)  # nothing is drawn
        built = space.build(arch, TASK)
        built.load_state_dict(sub.state_dict())
        assert torch.equal(logits(sub.eval(), x), logits(built.eval(), x))
        convs = [m.weight for m in sub.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        assert {id(tensor) for tensor in (*convs, *sub.buffers())} <= own
        with torch.no_grad():
            net.classifier.weight.mul_(2)
        assert not torch.equal(logits(sub, x), logits(built, x))


def logits(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return model(x)


def test_a_subnet_is_the_mixture_that_has_it_alone():
    """Without pooling (whose norms only the supernet has) a one-hot mixture and the subnet are the same function."""
    net, rng, x = network(small).eval(), np.random.default_rng(0), torch.randn(4, 3, 8, 8)
    convs = small.configured(operations="s2")
    for arch in (convs.sample(rng) for _ in range(3)):
        net.mixture = one_hot(net.options, arch)
        torch.testing.assert_close(logits(net, x), logits(net.subnet(arch), x))


def one_hot(options: dict[str, tuple[str, ...]], arch: Arch) -> dict[str, Tensor]:
    chosen = {
        (f"{kind}{node}<-{source}", arch[f"{kind}{node}_op{i}"])
        for kind in ("normal", "reduce")
        for node in range(2, 6)
        for i, source in enumerate(str(arch[f"{kind}{node}_inputs"]).split(","))
    }
    return {name: torch.tensor([float((name, op) in chosen) for op in ops]) for name, ops in options.items()}


def test_a_node_without_edges_is_zero():
    net = network(small).eval()
    net.mixture = {name: torch.zeros(len(ops)) for name, ops in net.options.items()}
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(logits(net, x), net.classifier.bias.detach().expand(2, 5))


def test_weights_of_zero_get_a_gradient_where_it_is_asked_for():
    net = network(small)
    hot = {name: F.one_hot(torch.tensor(0), len(ops)).double() for name, ops in net.options.items()}
    hot["normal5<-4"] = torch.zeros(7)  # an edge that is cut
    net.mixture = {name: weight.requires_grad_() for name, weight in hot.items()}
    net(torch.randn(4, 3, 8, 8)).square().sum().backward()
    assert all(weight.grad is not None and weight.grad.count_nonzero() == len(weight) for weight in hot.values())


def test_nasi_has_an_operation_and_an_input_a_node():
    """All nodes take state 0 and skip: the cell's output is four times its older input, brought to its width."""
    net = network(nasi.configured(channels=4, cells=3)).eval()
    assert len(net.options) == 2 * (4 + 4)
    assert [len(net.options[f"normal{node}_input"]) for node in range(2, 6)] == [2, 3, 4, 5]
    net.mixture = {
        name: torch.tensor([float(option in ("skip_connect", "0")) for option in options])
        for name, options in net.options.items()
    }
    first, s0, s1 = net.cells[0], torch.randn(2, 12, 4, 4), torch.randn(2, 12, 4, 4)
    torch.testing.assert_close(first(s0, s1, net.how()), torch.cat([first.preprocess0(s0)] * 4, 1))
    assert not any(m.stride in (2, (2, 2)) for m in net.cells.modules() if isinstance(m, nn.Conv2d | nn.MaxPool2d))


@pytest.mark.parametrize("options", ["pooled=True", "pooled=False"])
def test_maps_are_halved_by_pooling_or_by_strides(options: str):
    sizes = []
    model = build(load_space(f"darts_nasi(channels=4,cells=3,{options})"))
    for part in model.cells:
        part.register_forward_hook(lambda _, __, out: sizes.append(out.shape[1:]))
    model(torch.randn(2, 3, 8, 8))
    assert sizes == [(16, 8, 8), (32, 4, 4), (64, 2, 2)]


def test_noise_is_noise_in_evaluation_too():
    net, x = network(small.configured(operations="s4")).eval(), torch.randn(2, 3, 8, 8)
    assert not torch.equal(logits(net, x), logits(net, x))


def test_what_a_supernet_does_not_hold_is_refused():
    with pytest.raises(UsageError, match=r"no sep_conv_3x3 at normal2<-0, only sep_conv_5x5"):
        network(small.configured(operations="s6")).subnet(small.parse(CONVS))
    with pytest.raises(UsageError, match="cells of four nodes that are all joined"):
        network(small).subnet(small.parse(ENAS_LIKE))
    with pytest.raises(UsageError, match="leave pooled=False out"):
        nasi.configured(pooled=False).supernet()
