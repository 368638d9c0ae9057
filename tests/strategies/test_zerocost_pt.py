"""Zero-Cost-PT: its decisions, computed by hand on two edges and on DARTS with a known score."""

import numpy as np
import pytest

import untrained
from tests.strategies.edges import SOURCE, two_edges
from untrained import Probe
from untrained.config import Limits
from untrained.data import load_data
from untrained.errors import Unscorable, UsageError
from untrained.spaces import load_space
from untrained.spaces.darts.operations import OPERATIONS
from untrained.strategies.limits import ConstrainedSpace
from untrained.strategies.zerocost_pt import ZeroCostPT
from untrained.types import Task

DARTS = "darts(channels=2,cells=3)"
DATA = load_data("noise", Task("noise", (3, 8, 8), 4))


@untrained.proxy(needs=(), samples=2)
def compute_output(probe: Probe) -> float:
    """The output of the supernet for the input 1."""
    return float(probe.outputs[0, 0])


def make_rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_option_whose_removal_hurts_most_is_kept():
    """Both options of an edge have weight 1/2, and without one of them the other keeps its 1/2.

    The first decision uses the mean of the other edge's options, the second uses its selected option.
    """
    for seed in range(4):
        strategy = ZeroCostPT(
            two_edges, make_rng(seed), source=SOURCE, operations=compute_output, proposals=1
        )
        assert [str(arch) for arch in strategy.ask(9)] == ["a=two,b=three"]
        first, second = strategy.trace[0].decisions
        uniform = {"a": 1.5, "b": 1.75}
        after_first = {"a": 2.0, "b": 3.0}
        # What remains of the edge.
        without = {
            "a": {"one": 1.0, "two": 0.5},
            "b": {"half": 1.5, "three": 0.25},
        }
        other = {"a": "b", "b": "a"}
        for decision, context in ((first, uniform), (second, after_first)):
            expected = {
                option: 0.5 * left * context[other[decision.name]]
                for option, left in without[decision.name].items()
            }
            assert dict(decision.without) == pytest.approx(expected)
        assert {decision.name: decision.outcome for decision in (first, second)} == {
            "a": "two",
            "b": "three",
        }


def test_edges_are_visited_in_random_order():
    orders = set()
    for seed in range(10):
        strategy = ZeroCostPT(
            two_edges, make_rng(seed), source=SOURCE, operations=compute_output, proposals=1
        )
        strategy.ask(1)
        orders.add(tuple(decision.name for decision in strategy.trace[0].decisions))
    assert orders == {("a", "b"), ("b", "a")}


def test_the_direction_of_the_proxy_is_respected():
    small = untrained.proxy(needs=(), samples=2, higher_is_better=False)(compute_output.function)
    (arch,) = ZeroCostPT(two_edges, make_rng(), source=SOURCE, operations=small, proposals=1).ask(1)
    assert str(arch) == "a=one,b=half"


def test_with_equal_scores_the_first_option_and_the_first_edges_stay():
    constant = untrained.proxy(needs=())(lambda probe: 1.0)
    strategy = ZeroCostPT(
        load_space(DARTS), make_rng(), source=DATA, operations=constant, edges=constant, proposals=1
    )
    (arch,) = strategy.ask(1)
    assert {value for name, value in arch.genes if "_op" in name} == {"max_pool_3x3"}
    assert {value for name, value in arch.genes if name.endswith("_inputs")} == {"0,1"}


def test_options_without_a_score_are_passed_over():
    @untrained.proxy(needs=())
    def fail_without_three(probe):
        """No score without `three`, the option that the other tests keep."""
        if float(probe.model.mixture["b"][1]) == 0:
            raise Unscorable("nan")
        return compute_output(probe)

    strategy = ZeroCostPT(
        two_edges, make_rng(), source=SOURCE, operations=fail_without_three, proposals=1
    )
    assert str(strategy.ask(1)[0]).endswith("b=half")
    decision = next(v for v in strategy.trace[0].decisions if v.name == "b")
    assert dict(decision.without)["three"] is None
    always_nan = untrained.proxy(needs=())(lambda probe: float("nan"))
    strategy = ZeroCostPT(two_edges, make_rng(), source=SOURCE, operations=always_nan, proposals=2)
    with pytest.raises(
        UsageError, match=r"all 2 proposals for two_edges were rejected: no .* at [ab]"
    ):
        strategy.ask(1)


def test_darts_keeps_the_best_operations_and_the_best_edges():
    """The score is a sum of known values of operations, then of edges, weighted by the mixture. So
    each edge keeps its most valuable operation, and each node its two most valuable edges."""
    space = load_space(DARTS)
    values = dict(zip(OPERATIONS[1:8], (3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0), strict=True))
    edge_values = make_rng(5).permutation(28) + 1.0

    @untrained.proxy(needs=())
    def score_operations(probe):
        net = probe.model
        total = 0.0
        for i, (name, ops) in enumerate(net.options.items()):
            weights = net.mixture[name]
            option_values = weights.new_tensor([values[op] * edge_values[i] for op in ops])
            total += float(weights @ option_values)
        return total

    @untrained.proxy(needs=())
    def score_edges(probe):
        return sum(
            edge_values[i] * float(weights.sum())
            for i, weights in enumerate(probe.model.mixture.values())
        )

    strategy = ZeroCostPT(
        space, make_rng(), source=DATA, operations=score_operations, edges=score_edges, proposals=1
    )
    (arch,) = strategy.ask(1)
    assert {value for name, value in arch.genes if "_op" in name} == {"sep_conv_5x5"}  # worth 9
    names = list(space.supernet(device="meta").options)
    for kind in ("normal", "reduce"):
        for node in range(2, 6):
            into = {
                source: edge_values[names.index(f"{kind}{node}<-{source}")]
                for source in range(node)
            }
            best = sorted(sorted(into, key=into.__getitem__)[-2:])
            assert arch[f"{kind}{node}_inputs"] == ",".join(map(str, best))
    decisions = strategy.trace[0].decisions
    # 28 edges; one, two and three edges are dropped at nodes 3, 4, 5.
    assert len(decisions) == 28 + 2 * (1 + 2 + 3)
    assert len({decision.name for decision in decisions[:28]}) == 28


def test_proposals_start_with_a_uniform_mixture_and_are_not_repeated():
    strategy = ZeroCostPT(
        two_edges, make_rng(), source=SOURCE, operations=compute_output, proposals=4
    )
    assert len(strategy.ask(9)) == 1  # all four are the same
    assert [proposal.rejection for proposal in strategy.trace] == ["", *["proposed before"] * 3]
    assert all(
        dict(proposal.decisions[0].without) == pytest.approx({"one": 0.875, "two": 0.4375})
        or dict(proposal.decisions[0].without) == pytest.approx({"half": 1.125, "three": 0.1875})
        for proposal in strategy.trace
    )
    assert strategy.ask(9) == []


def test_every_decision_uses_a_new_batch():
    batches = []

    @untrained.proxy(samples=3)
    def record_batches(probe):
        batches.append(tuple(probe.batch.inputs.flatten().tolist()))
        return -float(len(batches))  # the last option has the lowest score

    space = load_space("nasbench201(channels=2,cells=1)")
    ZeroCostPT(space, make_rng(), source=DATA, operations=record_batches, proposals=1).ask(1)
    assert len(batches) == 6 * 5
    assert len(set(batches)) == 6
    assert {len(batch) for batch in batches} == {3 * 3 * 8 * 8}


def test_the_presets_have_the_published_settings():
    source = load_data("digits", Task("digits", (3, 8, 8), 10))
    space = load_space("nasbench201(channels=2,cells=1)")
    paper, dextr = (
        ZeroCostPT(space, make_rng(), source=source, preset=preset) for preset in ("", "dextr")
    )
    assert [(p.name, p.samples) for p in (paper._operation_proxy, paper._edge_proxy)] == [
        ("naswot", 64),
        ("naswot", 64),
    ]
    assert [(p.name, p.samples) for p in (dextr._operation_proxy, dextr._edge_proxy)] == [
        ("dextr", 1),
        ("naswot", 16),
    ]
    assert paper._remaining == dextr._remaining == 10


@pytest.mark.parametrize(
    "name",
    [
        "nasbench201(channels=2,cells=1)",
        "nasbench1shot1_s1(channels=8,stacks=1,cells=1,members=tight)",
    ],
)
def test_real_proxies_work_on_real_supernets(name):
    space = load_space(name)
    strategy = ZeroCostPT(
        space, make_rng(), source=DATA, operations="naswot(samples=8)", proposals=2
    )
    archs = strategy.ask(2)
    assert archs
    assert all(space.parse(str(arch)) == arch for arch in archs)
    decided = {decision.name: decision.outcome for decision in strategy.trace[0].decisions}
    assert dict(archs[0].genes).items() <= (decided | {"parents1": "0", "parents2": "0+1"}).items()


def test_proposals_over_a_limit_are_dropped_and_no_proposal_is_an_error():
    space = load_space("nasbench201(channels=2,cells=1)")
    limited = ConstrainedSpace(space, Limits(max_params=10), DATA.task)
    with pytest.raises(
        UsageError, match=r"all 2 proposals for nasbench201.* were rejected: max_params"
    ):
        ZeroCostPT(
            limited, make_rng(), source=DATA, operations="naswot(samples=8)", proposals=2
        ).ask(2)


def test_wrong_options_are_refused():
    for options, message in (
        ({"preset": "dexter"}, "did you mean dextr"),
        ({"proposals": 0}, "must be at least 1"),
        ({"operations": "az_nas"}, "scores one network"),
        ({"edges": "nasot"}, "did you mean naswot"),
    ):
        with pytest.raises(UsageError, match=message):
            ZeroCostPT(two_edges, make_rng(), source=SOURCE, **options)
    with pytest.raises(UsageError, match="zerocost_pt needs a supernet"):
        ZeroCostPT(load_space("mlp"), make_rng(), source=SOURCE).ask(1)
