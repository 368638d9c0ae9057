"""Subnets and mixtures of the supernets of DARTS and NASI. Official values are in golden/test_darts.py."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.genotypes import CONVS, ENAS_LIKE, TASK, nasi, small
from untrained.errors import UsageError
from untrained.spaces import Space, load_space
from untrained.types import Arch


def build_supernet(space: Space) -> nn.Module:
    torch.manual_seed(1)
    net = space.supernet(TASK)
    for _ in range(2):
        # So that the running statistics differ from those of a new network
        net(torch.randn(8, 3, 8, 8))
    return net


@pytest.mark.parametrize(
    "options", ["channels=4,cells=3", "channels=4,cells=3,stem=imagenet,auxiliary=True"]
)
@pytest.mark.parametrize("name", ["darts", "darts_nasi"])
def test_a_subnet_is_the_built_network_with_shared_weights(name: str, options: str):
    space = load_space(f"{name}({options})")
    net = build_supernet(space)
    x = torch.randn(4, 3, 8, 8)
    rng = np.random.default_rng(0)
    own = {id(tensor) for tensor in (*net.parameters(), *net.buffers())}
    for arch in (space.sample(rng) for _ in range(3)):
        state = torch.get_rng_state()
        sub = net.subnet(arch)
        assert torch.equal(torch.get_rng_state(), state)  # no random numbers are used
        built = space.build(arch, TASK)
        built.load_state_dict(sub.state_dict())
        assert torch.equal(compute_logits(sub.eval(), x), compute_logits(built.eval(), x))
        convs = [m.weight for m in sub.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        assert {id(tensor) for tensor in (*convs, *sub.buffers())} <= own
        with torch.no_grad():
            net.classifier.weight.mul_(2)
        assert not torch.equal(compute_logits(sub, x), compute_logits(built, x))


def compute_logits(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return model(x)


def test_a_subnet_equals_its_one_hot_mixture():
    """Without pooling (whose norms only the supernet has) a one-hot mixture and the subnet are the same function."""
    net = build_supernet(small).eval()
    rng = np.random.default_rng(0)
    x = torch.randn(4, 3, 8, 8)
    convs = small.with_options(operations="s2")
    for arch in (convs.sample(rng) for _ in range(3)):
        net.mixture = make_one_hot_mixture(net.options, arch)
        torch.testing.assert_close(compute_logits(net, x), compute_logits(net.subnet(arch), x))


def make_one_hot_mixture(options: dict[str, tuple[str, ...]], arch: Arch) -> dict[str, Tensor]:
    operations = set()
    for kind in ("normal", "reduce"):
        for node in range(2, 6):
            sources = str(arch[f"{kind}{node}_inputs"]).split(",")
            for i, source in enumerate(sources):
                operations.add((f"{kind}{node}<-{source}", arch[f"{kind}{node}_op{i}"]))
    return {
        name: torch.tensor([float((name, op) in operations) for op in ops])
        for name, ops in options.items()
    }


def test_a_node_without_edges_is_zero():
    net = build_supernet(small).eval()
    net.mixture = {name: torch.zeros(len(ops)) for name, ops in net.options.items()}
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(compute_logits(net, x), net.classifier.bias.detach().expand(2, 5))


def test_weights_of_zero_get_a_gradient_if_they_require_it():
    net = build_supernet(small)
    hot = {name: F.one_hot(torch.tensor(0), len(ops)).double() for name, ops in net.options.items()}
    hot["normal5<-4"] = torch.zeros(7)  # an edge that is cut
    net.mixture = {name: weight.requires_grad_() for name, weight in hot.items()}
    net(torch.randn(4, 3, 8, 8)).square().sum().backward()
    assert all(
        weight.grad is not None and weight.grad.count_nonzero() == len(weight)
        for weight in hot.values()
    )


def test_nasi_has_one_operation_and_one_input_per_node():
    """All nodes take state 0 and skip: the cell's output is four times its older input, brought to its width."""
    net = build_supernet(nasi.with_options(channels=4, cells=3)).eval()
    assert len(net.options) == 2 * (4 + 4)
    assert [len(net.options[f"normal{node}_input"]) for node in range(2, 6)] == [2, 3, 4, 5]
    net.mixture = {
        name: torch.tensor([float(option in ("skip_connect", "0")) for option in options])
        for name, options in net.options.items()
    }
    first = net.cells[0]
    s0 = torch.randn(2, 12, 4, 4)
    s1 = torch.randn(2, 12, 4, 4)
    torch.testing.assert_close(
        first(s0, s1, net.make_context()), torch.cat([first.preprocess0(s0)] * 4, 1)
    )
    assert not any(
        m.stride in (2, (2, 2))
        for m in net.cells.modules()
        if isinstance(m, nn.Conv2d | nn.MaxPool2d)
    )


def test_noise_is_random_in_evaluation_mode_too():
    net = build_supernet(small.with_options(operations="s4")).eval()
    x = torch.randn(2, 3, 8, 8)
    assert not torch.equal(compute_logits(net, x), compute_logits(net, x))


def test_architectures_outside_of_the_supernet_are_rejected():
    with pytest.raises(UsageError, match=r"no sep_conv_3x3 at normal2<-0, only sep_conv_5x5"):
        build_supernet(small.with_options(operations="s6")).subnet(small.parse(CONVS))
    with pytest.raises(UsageError, match="cells of four nodes that are all concatenated"):
        build_supernet(small).subnet(small.parse(ENAS_LIKE))
    with pytest.raises(UsageError, match="remove pooled=False"):
        nasi.with_options(pooled=False).supernet()
