"""NASI: its formulas computed by hand on a supernet of two edges, and its steps on real supernets."""

from math import exp, hypot

import numpy as np
import pytest
import torch

from tests.strategies.edges import FACTORS, SOURCE, two_edges
from tests.strategies.toys import ten, twelve
from untrained.config import Limits
from untrained.data import load_data
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.proxies import PROXIES
from untrained.spaces import load_space
from untrained.strategies.limits import ConstrainedSpace, NetworkSize
from untrained.strategies.nasi import (
    NASI,
    compute_objective,
    compute_one_step,
    compute_trace_norm,
    sample_straight_through,
)
from untrained.types import Task

SMALL = "nasbench201(channels=4,cells=1)"


class FixedNoise:
    """A generator that returns given Gumbel noise; all seeds are 0."""

    def __init__(self, *noise: tuple[float, float]) -> None:
        self._noise = list(noise)

    def gumbel(self, size: int) -> np.ndarray:
        return np.array(self._noise.pop(0))

    def integers(self, *_: int) -> int:
        return 0


def compute_gradient(a: tuple[float, float], b: tuple[float, float]) -> dict[str, list[float]]:
    """Return dt/dalpha at alpha = 0 for t = s^4, s = (w_a . f_a)(w_b . f_b), through the softmax."""
    noise = {"a": a, "b": b}
    factors = {name: list(FACTORS[name].values())[int(g[1] > g[0])] for name, g in noise.items()}
    s = factors["a"] * factors["b"]
    results = {}
    for name, g in noise.items():
        v = [4 * s**3 * factor * s / factors[name] for factor in FACTORS[name].values()]
        p = [exp(x) / sum(map(exp, g)) for x in g]
        mean = sum(pi * vi for pi, vi in zip(p, v, strict=True))
        results[name] = [pi * (vi - mean) for pi, vi in zip(p, v, strict=True)]
    return results


def read_alpha(strategy: NASI) -> dict[str, list[float]]:
    return {name: [value for _, value in options] for name, options in strategy.trace[-1].alpha}


def compute_norm(G: dict[str, list[float]]) -> float:
    return hypot(*(x for values in G.values() for x in values))


# -------------------------------------------------------------------------------------- formulas


def test_a_sample_is_one_hot_and_has_the_gradient_of_a_softmax():
    alpha = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    sample = sample_straight_through(alpha, torch.tensor([0.1, 2.0, -1.0], dtype=torch.float64))
    assert sample.tolist() == pytest.approx([0.0, 1.0, 0.0])
    assert sample[0].item() == sample[2].item() == 0.0  # exactly
    p = torch.tensor([0.1, 2.0, -1.0], dtype=torch.float64).softmax(0).tolist()
    (gradient,) = torch.autograd.grad(sample[1], alpha)
    assert gradient.tolist() == pytest.approx([-p[1] * p[0], p[1] * (1 - p[1]), -p[1] * p[2]])


def test_above_nu_the_objective_is_penalised_by_mu():
    t = torch.tensor([3.0, 5.0, 9.0])
    assert compute_objective(t, mu=2.0, nu=5.0).tolist() == [3.0, 5.0, 9.0 - 2 * 4.0]
    assert compute_objective(t, mu=1.0, nu=5.0).tolist() == [3.0, 5.0, 5.0]


def test_gradients_are_divided_by_the_largest_norm_so_far():
    """Gradients with norms 5, 10 and 1 are divided by 5, 10 and 10."""
    G = [{"a": torch.tensor([3.0]), "b": torch.tensor([4.0])}, {"a": torch.tensor([6.0]), "b": torch.tensor([8.0])},
         {"a": torch.tensor([0.0]), "b": torch.tensor([-1.0])}]  # fmt: skip
    delta = compute_one_step(G)
    assert delta["a"].tolist() == pytest.approx([(3 / 5 + 6 / 10) / 3])
    assert delta["b"].tolist() == pytest.approx([(4 / 5 + 8 / 10 - 1 / 10) / 3])
    zero = {"a": torch.tensor([0.0])}
    assert compute_one_step([zero, {"a": torch.tensor([2.0])}])["a"].tolist() == [0.5]


# ----------------------------------------------------------------------------------- Algorithm 1


def test_the_first_step_on_two_edges_equals_the_one_computed_by_hand():
    """The noise selects `two` and `half`: s = 1 and t = 1; dt/dalpha is computed above."""
    noise = (0.2, 0.9), (1.3, -0.4)
    strategy = NASI(two_edges, FixedNoise(*noise), source=SOURCE, steps=1, batch=3, nu0=1e6)
    (arch,) = strategy.ask(1)
    G = compute_gradient(*noise)
    (step,) = strategy.trace[0].steps
    assert (step.t, step.nu) == (pytest.approx(1.0), 1e6)
    assert step.gradient_norm == pytest.approx(compute_norm(G))
    for name, values in read_alpha(strategy).items():
        assert values == pytest.approx([g / compute_norm(G) for g in G[name]])
    assert str(arch) == "a=two,b=three"  # t grows with s


def test_two_steps_with_the_adaptive_constraint():
    """First `two` and `three`, t = 6^4; then `one` and `half`, t = 1/16. nu_1 = 10 and
    nu_2 = (10 + 6^4) / 2. The first t is above nu_1, so with mu = 2 its gradient changes sign."""
    noise = [(0.0, 1.0), (0.0, 0.5)], [(1.0, 0.0), (0.3, 0.0)]
    strategy = NASI(
        two_edges,
        FixedNoise(*noise[0], *noise[1]),
        source=SOURCE,
        steps=2,
        mu=2.0,
        nu="adaptive",
        nu0=10.0,
    )
    strategy.ask(1)
    steps = strategy.trace[0].steps
    first = compute_gradient(*noise[0])
    second = compute_gradient(*noise[1])
    assert [step.t for step in steps] == pytest.approx([6.0**4, 0.5**4])
    assert [step.nu for step in steps] == pytest.approx([10.0, (10 + 6.0**4) / 2])
    largest = max(compute_norm(first), compute_norm(second))
    assert compute_norm(first) == largest
    for name, values in read_alpha(strategy).items():
        expected = [
            (-g / largest + h / largest) / 2 for g, h in zip(first[name], second[name], strict=True)
        ]
        assert values == pytest.approx(expected)
    # The trace has the mean of G_1 and G_2, which are not divided by anything.
    for name, options in strategy.trace[0].mean_gradient:
        expected = [(-g + h) / 2 for g, h in zip(first[name], second[name], strict=True)]
        assert [value for _, value in options] == pytest.approx(expected)


def test_the_fixed_constraint_is_the_mean_over_random_architectures():
    """Two samples, s = 1/2 and s = 6, come before the steps."""
    noise = FixedNoise((1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 1.0), (1.0, 0.0), (1.0, 0.0))
    strategy = NASI(two_edges, noise, source=SOURCE, steps=1, nu="fixed", samples=2)
    strategy.ask(1)
    assert strategy.trace[0].steps[0].nu == pytest.approx((0.5**4 + 6.0**4) / 2)


def test_zero_gradients_are_an_error():
    with pytest.raises(UsageError, match=r"above nu = 0\.001; give a larger nu0"):
        NASI(
            two_edges, np.random.default_rng(0), source=SOURCE, steps=3, nu="fixed", nu0=0.001
        ).ask(1)


def test_every_proposal_is_a_run_of_its_own_and_new():
    strategy = NASI(two_edges, np.random.default_rng(0), source=SOURCE, steps=5, nu0=1e6)
    results = strategy.ask(3)
    assert (len(set(results)), len(strategy.trace), str(results[0])) == (3, 3, "a=two,b=three")
    assert len(strategy.ask(9)) == 1
    assert strategy.ask(1) == []  # the space has four


# -------------------------------------------------------------------------------- real supernets


def test_the_trace_norm_equals_that_of_the_sampled_network():
    """Compare with the proxy `nasi_batch` of the subnet with the same weights."""
    space = load_space(SMALL)
    task = Task("noise", (3, 8, 8), 4)
    torch.manual_seed(0)
    supernet = space.supernet(task)
    batch = load_data("noise", task).batch(5)
    rng = np.random.default_rng(1)
    for _ in range(4):
        arch = space.sample(rng)
        for name, ops in supernet.options.items():
            supernet.mixture[name] = torch.tensor(
                [float(op == arch[name]) for op in ops], dtype=torch.float64
            )
        expected = PROXIES["nasi_batch"].function(Probe(supernet.subnet(arch), batch))
        assert float(
            compute_trace_norm(supernet, batch, "cross_entropy").detach()
        ) == pytest.approx(expected, rel=1e-5)


def test_parameters_of_norms_may_be_left_out_of_the_trace_norm():
    space = load_space(SMALL)
    task = Task("noise", (3, 8, 8), 4)
    torch.manual_seed(0)
    supernet = space.supernet(task)
    batch = load_data("noise", task).batch(5)
    arch = space.sample(np.random.default_rng(1))
    for name, ops in supernet.options.items():
        weights = [float(op == arch[name]) for op in ops]
        supernet.mixture[name] = torch.tensor(weights, dtype=torch.float64)
    gradients = Probe(supernet.subnet(arch), batch).gradients
    network = supernet.subnet(arch)
    expected = 0.0
    for name, gradient in gradients.items():
        layer = network.get_submodule(name.rpartition(".")[0])
        if not isinstance(layer, torch.nn.BatchNorm2d):
            expected += float(gradient.double().square().sum())
    without_norms = compute_trace_norm(supernet, batch, "cross_entropy", norms=False)
    assert float(without_norms.detach()) == pytest.approx(expected, rel=1e-5)
    assert float(compute_trace_norm(supernet, batch, "cross_entropy").detach()) > 1.001 * expected


def test_the_trace_norm_does_not_change_the_supernet():
    space = load_space(SMALL)
    task = Task("noise", (3, 8, 8), 4)
    supernet = space.supernet(task)
    batch = load_data("noise", task).batch(5)
    before = {name: value.clone() for name, value in supernet.state_dict().items()}
    compute_trace_norm(supernet, batch, "cross_entropy")
    assert all(bool((value == before[name]).all()) for name, value in supernet.state_dict().items())
    assert supernet.training
    assert all(p.grad is None for p in supernet.parameters())


def test_gradients_in_the_mixture_equal_finite_differences():
    """dt/dw for the mixture of one edge, by central differences in float64."""
    space = load_space(SMALL)
    task = Task("noise", (3, 8, 8), 4)
    torch.manual_seed(0)
    supernet = space.supernet(task).double()
    batch = load_data("noise", task).batch(5)
    batch = type(batch)(batch.inputs.double(), batch.targets)

    def t(weights: torch.Tensor) -> torch.Tensor:
        supernet.mixture["3<-0"] = weights
        return compute_trace_norm(
            supernet, batch, "cross_entropy", differentiable=weights.requires_grad
        )

    at = torch.full((5,), 0.2, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(t(at), at)
    for k in range(1, 5):
        step = torch.zeros(5, dtype=torch.float64)
        step[k] = 1e-5
        slope = (t(at.detach() + step) - t(at.detach() - step)) / 2e-5
        assert float(gradient[k]) == pytest.approx(float(slope), rel=1e-4)


SPACES = [SMALL, "nasbench1shot1_s2(channels=8,stacks=1,cells=1)", "darts(channels=4,cells=3)",
          "darts_nasi(channels=4,cells=3)"]  # fmt: skip


@pytest.mark.parametrize("name", SPACES)
def test_nasi_searches_every_space_with_a_mixture_on_data_labels_or_noise(name):
    space = load_space(name)
    source = load_data("digits", Task("digits", (3, 8, 8), 10))
    results = {}
    for labels, inputs in (("data", "data"), ("random", "data"), ("random", "noise")):
        options = {
            "source": source,
            "steps": 2,
            "batch": 4,
            "nu0": 1e9,
            "labels": labels,
            "inputs": inputs,
        }
        strategy = NASI(space, np.random.default_rng(0), **options)
        (arch,) = strategy.ask(1)
        assert space.parse(str(arch)) == arch
        results[labels, inputs] = [step.t for step in strategy.trace[0].steps]
    assert len({tuple(norms) for norms in results.values()}) == 3


def test_the_zero_operation_is_used_only_with_its_option():
    space = load_space(SMALL)
    source = load_data("noise", Task("noise", (3, 8, 8), 4))
    operations = {}
    listed = {}
    for zero in (False, True):
        strategy = NASI(space, np.random.default_rng(0), source=source, steps=1, batch=4, zero=zero)
        operations[zero] = {op for arch in strategy.ask(5) for _, op in arch.genes}
        listed[zero] = {option for _, options in strategy.trace[0].alpha for option, _ in options}
    assert ("none" in operations[False], "none" in operations[True]) == (False, True)
    assert listed[True] - listed[False] == {"none"}


def test_proposals_keep_the_limits():
    space = load_space(SMALL)
    source = load_data("noise", Task("noise", (3, 8, 8), 4))
    options = {"source": source, "steps": 2, "batch": 4, "nu0": 1e9}
    (unlimited,) = NASI(space, np.random.default_rng(0), **options).ask(1)
    size = NetworkSize(space, unlimited, source.task).params
    limited = ConstrainedSpace(space, Limits(max_params=size - 1), source.task)
    (limited_arch,) = NASI(limited, np.random.default_rng(0), **options).ask(1)
    assert NetworkSize(space, limited_arch, source.task).params < size
    assert limited.rejected["max_params"] > 0
    with pytest.raises(
        UsageError,
        match=r"none of the 500 best architectures .* relax max_params \(violated 500 times\)",
    ):
        NASI(
            ConstrainedSpace(space, Limits(max_params=10), source.task),
            np.random.default_rng(0),
            **options,
        ).ask(1)


def test_wrong_options_are_refused():
    for space, message in (
        (ten, "nasi needs a supernet, and ten has none"),
        (twelve, "nasi needs a supernet"),
        (load_space("autoformer_tiny"), "cannot; try nasbench201"),
    ):
        with pytest.raises(UsageError, match=message):
            NASI(space, np.random.default_rng(0), source=SOURCE).ask(1)
    for options in (
        {"steps": 0},
        {"nu": "unlimited"},
        {"labels": "true"},
        {"inputs": "photos"},
        {"mu": -1.0},
    ):
        with pytest.raises(UsageError, match="nasi"):
            NASI(two_edges, np.random.default_rng(0), source=SOURCE, **options)
