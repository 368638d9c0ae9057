"""NASI's formulas, worked out on a supernet of two edges, and its steps on real ones."""

from math import exp, hypot

import numpy as np
import pytest
import torch

from tests.strategies.edges import FACTORS, SOURCE, two_edges
from tests.strategies.toys import ten, twelve
from untrained.data import load
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.proxies import PROXIES
from untrained.spaces import load_space
from untrained.strategies.limits import Feasible, Limits, Size
from untrained.strategies.nasi import NASI, objective, one_step, straight_through, trace_norm
from untrained.types import Task

SMALL = "nasbench201(channels=4,cells=1)"


class Dealt:
    """A generator that deals known Gumbel noise; seeds are all 0."""

    def __init__(self, *noise: tuple[float, float]) -> None:
        self._noise = list(noise)

    def gumbel(self, size: int) -> np.ndarray:
        return np.array(self._noise.pop(0))

    def integers(self, *_: int) -> int:
        return 0


def worked(a: tuple[float, float], b: tuple[float, float]) -> dict[str, list[float]]:
    """dt/dalpha at alpha = 0 for t = s^4, s = (w_a . f_a)(w_b . f_b): 4 s^3 ds/dw through the softmax of the noise."""
    noise = {"a": a, "b": b}
    taken = {name: list(FACTORS[name].values())[int(g[1] > g[0])] for name, g in noise.items()}
    s = taken["a"] * taken["b"]
    found = {}
    for name, g in noise.items():
        v = [4 * s**3 * factor * s / taken[name] for factor in FACTORS[name].values()]
        p = [exp(x) / sum(map(exp, g)) for x in g]
        mean = sum(pi * vi for pi, vi in zip(p, v, strict=True))
        found[name] = [pi * (vi - mean) for pi, vi in zip(p, v, strict=True)]
    return found


def alphas(strategy: NASI) -> dict[str, list[float]]:
    return {name: [value for _, value in options] for name, options in strategy.trace[-1].alpha}


def norm(G: dict[str, list[float]]) -> float:
    return hypot(*(x for values in G.values() for x in values))


# --------------------------------------------------------------------------------------------------- its formulas


def test_a_sample_is_one_hot_and_has_the_gradient_of_a_softmax():
    alpha = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    sample = straight_through(alpha, torch.tensor([0.1, 2.0, -1.0], dtype=torch.float64))
    assert sample.tolist() == pytest.approx([0.0, 1.0, 0.0])
    assert sample[0].item() == sample[2].item() == 0.0  # to the last bit
    p = torch.tensor([0.1, 2.0, -1.0], dtype=torch.float64).softmax(0).tolist()
    (gradient,) = torch.autograd.grad(sample[1], alpha)
    assert gradient.tolist() == pytest.approx([-p[1] * p[0], p[1] * (1 - p[1]), -p[1] * p[2]])


def test_beyond_nu_the_objective_falls_by_mu():
    t = torch.tensor([3.0, 5.0, 9.0])
    assert objective(t, mu=2.0, nu=5.0).tolist() == [3.0, 5.0, 9.0 - 2 * 4.0]
    assert objective(t, mu=1.0, nu=5.0).tolist() == [3.0, 5.0, 5.0]


def test_a_step_divides_by_the_largest_gradient_so_far():
    """Norms 5, 10 and 1: divided by 5, 10 and 10."""
    G = [{"a": torch.tensor([3.0]), "b": torch.tensor([4.0])}, {"a": torch.tensor([6.0]), "b": torch.tensor([8.0])},
         {"a": torch.tensor([0.0]), "b": torch.tensor([-1.0])}]  # fmt: skip
    delta = one_step(G)
    assert delta["a"].tolist() == pytest.approx([(3 / 5 + 6 / 10) / 3])
    assert delta["b"].tolist() == pytest.approx([(4 / 5 + 8 / 10 - 1 / 10) / 3])
    zero = {"a": torch.tensor([0.0])}
    assert one_step([zero, {"a": torch.tensor([2.0])}])["a"].tolist() == [0.5]


# ---------------------------------------------------------------------------------------------------- Algorithm 1


def test_the_first_step_on_two_edges_worked_out_by_hand():
    """The noise picks `two` and `half`: s = 1, t = 1, and dt/dalpha as worked out above."""
    noise = (0.2, 0.9), (1.3, -0.4)
    strategy = NASI(two_edges, Dealt(*noise), source=SOURCE, steps=1, batch=3, nu0=1e6)
    (arch,) = strategy.ask(1)
    G = worked(*noise)
    (step,) = strategy.trace[0].steps
    assert (step.t, step.nu) == (pytest.approx(1.0), 1e6)
    assert step.gradient == pytest.approx(norm(G))
    for name, values in alphas(strategy).items():
        assert values == pytest.approx([g / norm(G) for g in G[name]])
    assert str(arch) == "a=two,b=three"  # t grows with s


def test_two_steps_and_the_adaptive_constraint():
    """First two * three, t = 6^4; then one * half, t = 1/16. nu_1 = 10, nu_2 = (10 + 6^4) / 2. With mu = 2 the first
    lies above nu_1 and its gradient is turned round."""
    noise = [(0.0, 1.0), (0.0, 0.5)], [(1.0, 0.0), (0.3, 0.0)]
    strategy = NASI(two_edges, Dealt(*noise[0], *noise[1]), source=SOURCE, steps=2, mu=2.0, nu="adaptive", nu0=10.0)
    strategy.ask(1)
    steps, first, second = strategy.trace[0].steps, worked(*noise[0]), worked(*noise[1])
    assert [step.t for step in steps] == pytest.approx([6.0**4, 0.5**4])
    assert [step.nu for step in steps] == pytest.approx([10.0, (10 + 6.0**4) / 2])
    largest = max(norm(first), norm(second))
    assert norm(first) == largest
    for name, values in alphas(strategy).items():
        expected = [(-g / largest + h / largest) / 2 for g, h in zip(first[name], second[name], strict=True)]
        assert values == pytest.approx(expected)


def test_the_fixed_constraint_is_the_mean_of_random_architectures():
    """Samples of s = 1/2 and 6; then the search."""
    dealt = Dealt((1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 1.0), (1.0, 0.0), (1.0, 0.0))
    strategy = NASI(two_edges, dealt, source=SOURCE, steps=1, nu="fixed", samples=2)
    strategy.ask(1)
    assert strategy.trace[0].steps[0].nu == pytest.approx((0.5**4 + 6.0**4) / 2)


def test_nothing_learned_is_not_an_answer():
    with pytest.raises(UsageError, match=r"above nu = 0\.001; give a larger nu0"):
        NASI(two_edges, np.random.default_rng(0), source=SOURCE, steps=3, nu="fixed", nu0=0.001).ask(1)


def test_further_answers_are_searches_of_their_own_and_never_repeat():
    strategy = NASI(two_edges, np.random.default_rng(0), source=SOURCE, steps=5, nu0=1e6)
    found = strategy.ask(3)
    assert (len(set(found)), len(strategy.trace), str(found[0])) == (3, 3, "a=two,b=three")
    assert len(strategy.ask(9)) == 1
    assert strategy.ask(1) == []  # there are four


# --------------------------------------------------------------------------------------------------- real supernets


def test_the_trace_norm_is_that_of_the_sampled_network():
    """`nasi_batch` of the subnet with the same weights, measured by the Probe."""
    space, task = load_space(SMALL), Task("noise", (3, 8, 8), 4)
    torch.manual_seed(0)
    supernet, batch = space.supernet(task), load("noise", task).batch(5)
    rng = np.random.default_rng(1)
    for _ in range(4):
        arch = space.sample(rng)
        for name, ops in supernet.options.items():
            supernet.mixture[name] = torch.tensor([float(op == arch[name]) for op in ops], dtype=torch.float64)
        expected = PROXIES["nasi_batch"].function(Probe(supernet.subnet(arch), batch))
        assert float(trace_norm(supernet, batch, "cross_entropy").detach()) == pytest.approx(expected, rel=1e-5)


def test_a_look_at_the_supernet_leaves_no_trace():
    space, task = load_space(SMALL), Task("noise", (3, 8, 8), 4)
    supernet, batch = space.supernet(task), load("noise", task).batch(5)
    before = {name: value.clone() for name, value in supernet.state_dict().items()}
    trace_norm(supernet, batch, "cross_entropy")
    assert all(bool((value == before[name]).all()) for name, value in supernet.state_dict().items())
    assert supernet.training
    assert all(p.grad is None for p in supernet.parameters())


def test_gradients_of_the_logits_are_those_of_differences():
    """d t / d w along the mixture of one edge, by central differences in float64."""
    space, task = load_space(SMALL), Task("noise", (3, 8, 8), 4)
    torch.manual_seed(0)
    supernet, batch = space.supernet(task).double(), load("noise", task).batch(5)
    batch = type(batch)(batch.inputs.double(), batch.targets)

    def t(weights: torch.Tensor) -> torch.Tensor:
        supernet.mixture["3<-0"] = weights
        return trace_norm(supernet, batch, "cross_entropy", differentiable=weights.requires_grad)

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
def test_it_searches_every_space_with_a_mixture_and_leaves_the_data_as_asked(name):
    space, source = load_space(name), load("digits", Task("digits", (3, 8, 8), 10))
    found = {}
    for labels, inputs in (("data", "data"), ("random", "data"), ("random", "noise")):
        options = {"source": source, "steps": 2, "batch": 4, "nu0": 1e9, "labels": labels, "inputs": inputs}
        strategy = NASI(space, np.random.default_rng(0), **options)
        (arch,) = strategy.ask(1)
        assert space.parse(str(arch)) == arch
        found[labels, inputs] = [step.t for step in strategy.trace[0].steps]
    assert len({tuple(norms) for norms in found.values()}) == 3


def test_a_zero_is_taken_only_where_that_is_asked_for():
    space, source = load_space(SMALL), load("noise", Task("noise", (3, 8, 8), 4))
    taken, known = {}, {}
    for zero in (False, True):
        strategy = NASI(space, np.random.default_rng(0), source=source, steps=1, batch=4, zero=zero)
        taken[zero] = {op for arch in strategy.ask(5) for _, op in arch.genes}
        known[zero] = {option for _, options in strategy.trace[0].alpha for option, _ in options}
    assert ("none" in taken[False], "none" in taken[True]) == (False, True)
    assert known[True] - known[False] == {"none"}


def test_its_answer_keeps_to_limits():
    space, source = load_space(SMALL), load("noise", Task("noise", (3, 8, 8), 4))
    options = {"source": source, "steps": 2, "batch": 4, "nu0": 1e9}
    (free,) = NASI(space, np.random.default_rng(0), **options).ask(1)
    size = Size(space, free, source.task).params
    limited = Feasible(space, Limits(max_params=size - 1), source.task)
    (kept,) = NASI(limited, np.random.default_rng(0), **options).ask(1)
    assert Size(space, kept, source.task).params < size
    assert limited.rejected["max_params"] > 0
    with pytest.raises(UsageError, match=r"none of the 500 most wanted keeps to max_params \(500\)"):
        NASI(Feasible(space, Limits(max_params=10), source.task), np.random.default_rng(0), **options).ask(1)


def test_wrong_requests():
    for space, message in (
        (ten, "nasi needs a supernet, and ten has none"),
        (twelve, "nasi needs a supernet"),
        (load_space("autoformer_tiny"), "cannot; try nasbench201"),
    ):
        with pytest.raises(UsageError, match=message):
            NASI(space, np.random.default_rng(0), source=SOURCE).ask(1)
    for options in ({"steps": 0}, {"nu": "free"}, {"labels": "true"}, {"inputs": "photos"}, {"mu": -1.0}):
        with pytest.raises(UsageError, match="nasi"):
            NASI(two_edges, np.random.default_rng(0), source=SOURCE, **options)
