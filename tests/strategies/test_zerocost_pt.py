"""Zero-Cost-PT: what it keeps and drops, worked out on a supernet of two edges and on DARTS with known preferences."""

import numpy as np
import pytest

import untrained
from tests.strategies.edges import SOURCE, two_edges
from untrained import Probe
from untrained.data import load
from untrained.errors import Unscorable, UsageError
from untrained.spaces import load_space
from untrained.spaces.darts.operations import OPERATIONS
from untrained.strategies.limits import Feasible, Limits
from untrained.strategies.zerocost_pt import ZeroCostPT
from untrained.types import Task

DARTS = "darts(channels=2,cells=3)"
DATA = load("noise", Task("noise", (3, 8, 8), 4))


@untrained.proxy(needs=(), samples=2)
def output(probe: Probe) -> float:
    """What the supernet answers to 1."""
    return float(probe.outputs[0, 0])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_what_is_missed_most_is_kept():
    """Half of both options at an edge: without one of them, the other counts half. Whichever edge is first sees the
    other as the mean of its options; the second sees what was kept."""
    for seed in range(4):
        strategy = ZeroCostPT(two_edges, rng(seed), source=SOURCE, operations=output, proposals=1)
        assert [str(arch) for arch in strategy.ask(9)] == ["a=two,b=three"]
        first, second = strategy.trace[0].verdicts
        even, kept = {"a": 1.5, "b": 1.75}, {"a": 2.0, "b": 3.0}
        without = {"a": {"one": 1.0, "two": 0.5}, "b": {"half": 1.5, "three": 0.25}}  # what is left of the edge
        other = {"a": "b", "b": "a"}
        for verdict, beside in ((first, even), (second, kept)):
            expected = {
                option: 0.5 * left * beside[other[verdict.where]] for option, left in without[verdict.where].items()
            }
            assert dict(verdict.without) == pytest.approx(expected)
        assert {verdict.where: verdict.decided for verdict in (first, second)} == {"a": "two", "b": "three"}


def test_edges_are_visited_in_random_order():
    orders = set()
    for seed in range(10):
        strategy = ZeroCostPT(two_edges, rng(seed), source=SOURCE, operations=output, proposals=1)
        strategy.ask(1)
        orders.add(tuple(verdict.where for verdict in strategy.trace[0].verdicts))
    assert orders == {("a", "b"), ("b", "a")}


def test_a_proxy_that_wants_little_keeps_what_makes_it_large_no_more():
    small = untrained.proxy(needs=(), samples=2, higher_is_better=False)(output.function)
    (arch,) = ZeroCostPT(two_edges, rng(), source=SOURCE, operations=small, proposals=1).ask(1)
    assert str(arch) == "a=one,b=half"


def test_equals_keep_the_first_option_and_drop_the_last_edge():
    constant = untrained.proxy(needs=())(lambda probe: 1.0)
    strategy = ZeroCostPT(load_space(DARTS), rng(), source=DATA, operations=constant, edges=constant, proposals=1)
    (arch,) = strategy.ask(1)
    assert {value for name, value in arch.genes if "_op" in name} == {"max_pool_3x3"}
    assert {value for name, value in arch.genes if name.endswith("_inputs")} == {"0,1"}


def test_what_cannot_be_scored_is_passed_over():
    @untrained.proxy(needs=())
    def fussy(probe):
        """No score without `three`, the option that the other tests keep."""
        if float(probe.model.mixture["b"][1]) == 0:
            raise Unscorable("nan")
        return output(probe)

    strategy = ZeroCostPT(two_edges, rng(), source=SOURCE, operations=fussy, proposals=1)
    assert str(strategy.ask(1)[0]).endswith("b=half")
    verdict = next(v for v in strategy.trace[0].verdicts if v.where == "b")
    assert dict(verdict.without)["three"] is None
    never = untrained.proxy(needs=())(lambda probe: float("nan"))
    strategy = ZeroCostPT(two_edges, rng(), source=SOURCE, operations=never, proposals=2)
    with pytest.raises(UsageError, match=r"none of 2 proposals for two_edges can be kept: no .* at [ab]"):
        strategy.ask(1)


def test_darts_keeps_the_wanted_operations_and_the_wanted_edges():
    """The score adds up what the mixture holds of known values: of operations in the first stage, of edges in the
    second. So each edge keeps its most valued operation and each node its two most valued edges."""
    space = load_space(DARTS)
    values = dict(zip(OPERATIONS[1:8], (3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0), strict=True))
    worth = rng(5).permutation(28) + 1.0

    @untrained.proxy(needs=())
    def operations(probe):
        net = probe.model
        return sum(float(net.mixture[name] @ net.mixture[name].new_tensor([values[op] * worth[i] for op in ops]))
                   for i, (name, ops) in enumerate(net.options.items()))  # fmt: skip

    @untrained.proxy(needs=())
    def edges(probe):
        return sum(worth[i] * float(weights.sum()) for i, weights in enumerate(probe.model.mixture.values()))

    strategy = ZeroCostPT(space, rng(), source=DATA, operations=operations, edges=edges, proposals=1)
    (arch,) = strategy.ask(1)
    assert {value for name, value in arch.genes if "_op" in name} == {"sep_conv_5x5"}  # worth 9
    names = list(space.supernet(device="meta").options)
    for kind in ("normal", "reduce"):
        for node in range(2, 6):
            into = {source: worth[names.index(f"{kind}{node}<-{source}")] for source in range(node)}
            best = sorted(sorted(into, key=into.__getitem__)[-2:])
            assert arch[f"{kind}{node}_inputs"] == ",".join(map(str, best))
    verdicts = strategy.trace[0].verdicts
    assert len(verdicts) == 28 + 2 * (1 + 2 + 3)  # 28 edges; one, two and three edges are dropped at nodes 3, 4, 5
    assert len({verdict.where for verdict in verdicts[:28]}) == 28


def test_proposals_begin_from_an_even_mixture_and_are_not_repeated():
    strategy = ZeroCostPT(two_edges, rng(), source=SOURCE, operations=output, proposals=4)
    assert len(strategy.ask(9)) == 1  # all four are the same
    assert [proposal.dropped for proposal in strategy.trace] == ["", "known", "known", "known"]
    assert all(
        dict(proposal.verdicts[0].without) == pytest.approx({"one": 0.875, "two": 0.4375})
        or dict(proposal.verdicts[0].without) == pytest.approx({"half": 1.125, "three": 0.1875})
        for proposal in strategy.trace
    )
    assert strategy.ask(9) == []


def test_every_step_sees_a_new_batch():
    seen = []

    @untrained.proxy(samples=3)
    def watching(probe):
        seen.append(tuple(probe.batch.inputs.flatten().tolist()))
        return -float(len(seen))  # the last option is missed most

    space = load_space("nasbench201(channels=2,cells=1)")
    ZeroCostPT(space, rng(), source=DATA, operations=watching, proposals=1).ask(1)
    assert len(seen) == 6 * 5
    assert len(set(seen)) == 6
    assert {len(batch) for batch in seen} == {3 * 3 * 8 * 8}


def test_the_presets_are_those_of_the_papers():
    source = load("digits", Task("digits", (3, 8, 8), 10))
    space = load_space("nasbench201(channels=2,cells=1)")
    paper, dextr = (ZeroCostPT(space, rng(), source=source, preset=preset) for preset in ("", "dextr"))
    assert [(p.name, p.samples) for p in paper._by] == [("naswot", 64), ("naswot", 64)]
    assert [(p.name, p.samples) for p in dextr._by] == [("dextr", 1), ("naswot", 16)]
    assert paper._left == dextr._left == 10


@pytest.mark.parametrize(
    "name", ["nasbench201(channels=2,cells=1)", "nasbench1shot1_s1(channels=8,stacks=1,cells=1,members=tight)"]
)
def test_real_proxies_on_real_supernets(name):
    space = load_space(name)
    strategy = ZeroCostPT(space, rng(), source=DATA, operations="naswot(samples=8)", proposals=2)
    found = strategy.ask(2)
    assert found
    assert all(space.parse(str(arch)) == arch for arch in found)
    decided = {verdict.where: verdict.decided for verdict in strategy.trace[0].verdicts}
    assert dict(found[0].genes).items() <= (decided | {"parents1": "0", "parents2": "0+1"}).items()


def test_proposals_beyond_a_limit_are_dropped_and_none_at_all_is_an_error():
    space = load_space("nasbench201(channels=2,cells=1)")
    limited = Feasible(space, Limits(max_params=10), DATA.task)
    with pytest.raises(UsageError, match=r"none of 2 proposals for nasbench201.* can be kept: max_params"):
        ZeroCostPT(limited, rng(), source=DATA, operations="naswot(samples=8)", proposals=2).ask(2)


def test_wrong_requests():
    for options, message in (
        ({"preset": "dexter"}, "did you mean dextr"),
        ({"proposals": 0}, "from 1 up"),
        ({"operations": "az_nas"}, "judges one network"),
        ({"edges": "nasot"}, "did you mean naswot"),
    ):
        with pytest.raises(UsageError, match=message):
            ZeroCostPT(two_edges, rng(), source=SOURCE, **options)
    with pytest.raises(UsageError, match="zerocost_pt needs a supernet"):
        ZeroCostPT(load_space("mlp"), rng(), source=SOURCE).ask(1)
