"""From scores of a supernet's options to architectures, best first."""

from itertools import islice, product

import numpy as np
import pytest

from untrained.spaces import load_space
from untrained.spaces.core.supernet import group_options_by_choice, rank_combinations
from untrained.types import Task

TASK = Task("noise", (3, 8, 8), 4)


def draw_scores(supernet, seed: int = 0) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(size=len(options)).tolist() for name, options in supernet.options.items()
    }


def test_combinations_are_sorted_by_their_sum_of_scores():
    rng = np.random.default_rng(0)
    options = {"a": ("x", "y", "z"), "b": ("x", "y"), "c": ("w", "x", "y", "z")}
    scores = {name: rng.normal(size=len(some)).tolist() for name, some in options.items()}
    value = {name: dict(zip(some, scores[name], strict=True)) for name, some in options.items()}
    expected = sorted(
        product(*options.values()),
        key=lambda c: -sum(value[n][o] for n, o in zip(options, c, strict=True)),
    )
    assert [
        tuple(o for _, o in genes)
        for genes in rank_combinations(group_options_by_choice(options, scores))
    ] == expected
    ties = {"a": [0.0, 0.0, 0.0], "b": [1.0, 1.0], "c": [0.0] * 4}
    assert next(rank_combinations(group_options_by_choice(options, ties))) == (
        ("a", "x"),
        ("b", "x"),
        ("c", "w"),
    )


def test_nasbench201_takes_the_best_operation_of_each_edge():
    space = load_space("nasbench201(channels=2,cells=1)")
    supernet = space.supernet(TASK)
    scores = draw_scores(supernet)
    ((genes,),) = islice(supernet.decode_scores(scores), 1)
    arch = space.make_arch(genes)
    for name, ops in supernet.options.items():
        assert arch[name] == ops[int(np.argmax(scores[name]))]
    assert (
        len({space.make_arch(genes) for (genes,) in islice(supernet.decode_scores(scores), 200)})
        == 200
    )


@pytest.mark.parametrize("part", ["s1", "s2", "s3"])
def test_every_combination_of_1shot1_has_a_loose_and_a_tight_spelling(part):
    loose_space, tight_space = (
        load_space(f"nasbench1shot1_{part}(channels=8,stacks=1,cells=1,members={m})")
        for m in ("loose", "tight")
    )
    supernet = loose_space.supernet(TASK)
    for loose_genes, tight_genes in islice(supernet.decode_scores(draw_scores(supernet)), 50):
        tight_arch = tight_space.make_arch(tight_genes)
        assert set(tight_arch.genes) <= set(loose_space.make_arch(loose_genes).genes)
        assert (
            loose_space.build(loose_space.make_arch(loose_genes), TASK).layers[1].spec
            == tight_space.build(tight_arch, TASK).layers[1].spec
        )


def test_darts_keeps_the_two_edges_with_the_largest_weights():
    """Node 3 of the normal cell: the best operations have softmax weights 0.5, 0.7 and 0.6."""
    space = load_space("darts(channels=2,cells=3,operations=darts8)")
    supernet = space.supernet(TASK)
    scores = {name: [0.0] * 8 for name in supernet.options}
    for source, (place, weight) in enumerate([(4, 0.5), (6, 0.7), (1, 0.6)]):
        scores[f"normal3<-{source}"][place] = float(np.log(7 * weight / (1 - weight)))
    # `none` has the largest weight, but is never kept.
    scores["normal2<-0"] = [
        9.0,
        *[0.0] * 6,
        1.0,
    ]
    ((genes,),) = islice(supernet.decode_scores(scores), 1)
    arch = space.make_arch(genes)
    ops = supernet.options["normal3<-0"]
    assert (arch["normal3_inputs"], arch["normal3_op0"], arch["normal3_op1"]) == (
        "1,2",
        ops[6],
        ops[1],
    )
    assert (arch["normal2_inputs"], arch["normal2_op0"]) == ("0,1", ops[7])
    later = [space.make_arch(genes) for (genes,) in islice(supernet.decode_scores(scores), 100)]
    assert len(set(later)) == 100


def test_darts_nasi_joins_the_best_operation_of_a_node_with_its_best_input():
    space = load_space("darts_nasi(channels=2,cells=3)")
    supernet = space.supernet(TASK)
    scores = {name: [0.0] * len(options) for name, options in supernet.options.items()}
    scores["reduce4_op"] = [0.0, 1.0, 5.0, 0.0, 4.0, 2.0, 0.0]
    scores["reduce4_input"] = [3.0, 0.0, 1.0, 7.0]
    ((genes,),) = islice(supernet.decode_scores(scores), 1)
    arch = space.make_arch(genes)
    ops = supernet.options["reduce4_op"]
    assert arch["reduce4_inputs"] == "0,3"
    # Source 3 has the highest score.
    assert (arch["reduce4_op1"], arch["reduce4_op0"]) == (
        ops[2],
        ops[4],
    )
    for (genes,) in islice(supernet.decode_scores(draw_scores(supernet)), 50):
        decoded = space.make_arch(genes)
        assert all(
            decoded[f"{k}{n}_op0"] != decoded[f"{k}{n}_op1"]
            for k in ("normal", "reduce")
            for n in range(2, 6)
        )
