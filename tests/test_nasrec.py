"""NASRec: samples and mutations as published, strings, tables of any columns, and the two supernets.

The networks are compared with the authors' code in golden/test_nasrec.py.
"""

import json
from collections import Counter
from math import comb, isfinite

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import untrained
from tests.contracts.models import NAMES, REASONS, score_or_reason
from tests.test_spaces import find_marked_column
from untrained.data import load_data
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.spaces import load_space
from untrained.spaces.nasrec.blocks import make_block_specs
from untrained.spaces.nasrec.network import NasrecBlock
from untrained.spaces.nasrec.operators import OperatorSize, TokenTransformer
from untrained.types import Task
from untrained.workflows.score import score_networks

SMALL = load_space("nasrec_small")
FULL = load_space("nasrec_full")
ROWS = Task("noise", (2 + 3,), 1, "bce", (4, 6, 5))
spaces = pytest.mark.parametrize("space", [SMALL, FULL], ids=lambda space: space.name)


def make_rows(task: Task, n: int = 5) -> Tensor:
    return load_data("noise", task).batch(n, 0).inputs


# ------------------------------------------------------------------------------------------------- samples and mutants


def test_the_number_of_inputs_is_sampled_before_the_inputs():
    """One to four of seven inputs are equally likely, although there are 7, 21, 35 and 35 such subsets."""
    rng = np.random.default_rng(0)
    plans = [make_block_specs(FULL.sample(rng).genes) for _ in range(400)]
    sizes = Counter(len(some[6].sparse_from) for some in plans)
    assert set(sizes) == {1, 2, 3, 4}
    assert all(abs(n - 100) < 40 for n in sizes.values())  # 4.6 standard deviations
    assert Counter(len(some[1].sparse_from) for some in plans).keys() == {1, 2}
    assert {some[0].sparse_from for some in plans} == {(0,)}
    assert {some[6].dense_op for some in plans} == {
        "linear-2d",
        "dot-product",
        "sigmoid-gating",
        "sum",
    }


def test_a_mutation_samples_one_key_of_one_block_again():
    """Half of the mutations change the wiring. A new operator may need other inputs than the old one."""
    rng = np.random.default_rng(0)
    changed_keys = Counter()
    for _ in range(300):
        parent = FULL.sample(rng)
        before = dict(parent.genes)
        after = dict(FULL.mutate(parent, rng).genes)
        changed = {
            name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        }
        assert len({name[-1] for name in changed}) == 1
        keys = {name[:-1] for name in changed}
        if keys & {"dense", "sparse"}:
            assert keys <= {"dense", "sparse", "left", "right", "dense_from"}
            keys = {"operators"}
        assert len(keys) == 1
        changed_keys.update(keys)
    assert set(changed_keys) == {
        *("dense_from", "sparse_from", "left", "right"),
        *("operators", "dense_dim", "sparse_dim", "interact", "fm"),
    }
    wiring = sum(changed_keys[key] for key in ("dense_from", "sparse_from", "left", "right"))
    assert 60 < wiring < 150  # half of the attempts, many of which change nothing and are repeated


@spaces
def test_the_size_is_the_number_of_architectures(space):
    """Counted one by one for a single block; for the seventh by its formula."""
    one = space.with_options(blocks=1)
    assert len(set(one)) == one.size
    subsets = sum(comb(7, n) for n in (1, 2, 3, 4))
    dense = 2 * subsets + (2 * 7**2 if space is FULL else 0)
    last = dense * 8 * (2 if space is FULL else 1) * subsets * 4 * 2 * 2
    assert space.size == space.with_options(blocks=6).size * last


# ------------------------------------------------------------------------------------------------------------- strings


TEXT = "linear-2d(0)512 transformer(0)48 fm; sigmoid-gating(1,0)64 linear-3d(0+1)16 interact"
TWO = FULL.with_options(blocks=2)


def test_an_architecture_is_written_block_by_block():
    arch = TWO.parse(TEXT)
    assert str(arch) == TEXT
    assert (arch["left1"], arch["right1"], arch["sparse_from1"]) == (1, 0, "0+1")
    assert TWO.parse(TEXT.replace("0+1", "1+0").replace("; ", " ;  ")) == arch
    assert TWO.parse(TEXT.replace("1,0", "0,1")) != arch


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("linear-2d(0)512", 0, "a block such as"),
        (TEXT.replace("1,0", "1+0"), TEXT.index("1,0"), "left and right such as"),
        (TEXT.replace("(0)512", "(0,1)512"), TEXT.index("(0)512") + 1, r"inputs such as \(0\+1\)"),
        (f"{TEXT};", len(TEXT) + 1, "a block such as"),
        ('{"micro": [}', 11, "JSON"),
        ('{"micro": []}', 0, "NASRec's lists of blocks"),
    ],
)
def test_an_error_marks_the_position_in_a_malformed_string(text, place, expected):
    with pytest.raises(UsageError, match=expected) as error:
        TWO.parse(text)
    assert find_marked_column(str(error.value)) == place


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0+1", "0+2", "'sparse_from1' is '0\\+2'"),
        ("1,0", "2,0", "'left1' is 2"),
        ("512", "511", "'dense_dim0' is 511"),
        ("transformer", "linear-2d", "'sparse0' is 'linear-2d'"),
    ],
)
def test_architectures_outside_of_the_space_are_rejected(old, new, message):
    with pytest.raises(UsageError, match=message):
        TWO.parse(TEXT.replace(old, new))


def test_the_json_of_the_authors_is_parsed():
    """Nodes are counted by operators: 0 to 3 dense, 4 and 5 sparse."""
    keys = ("active_nodes", "dense_in_dims", "sparse_in_dims", "dense_sparse_interact", "deep_fm")
    micro = [
        dict(zip(keys, values, strict=True))
        for values in (([4, 0], 512, 48, 0, 1), ([2, 5], 64, 16, 1, 0))
    ]
    wiring = {
        "dense_idx": [1, 0],
        "sparse_idx": [1, 0],
        "dense_left_idx": [1],
        "dense_right_idx": [0],
    }
    macro = [{key: [0] for key in wiring}, wiring]
    assert TWO.parse(json.dumps({"micro": micro, "macro": macro})) == TWO.parse(TEXT)


# -------------------------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    ("dense", "words", "classes"), [(13, 26, 1), (1, 1, 1), (0, 3, 1), (16, 2, 4)]
)
def test_columns_follow_from_the_task(dense, words, classes):
    """Also without a dense column; and with as many as a token is wide, where a dot product needs no projection."""
    task = Task("noise", (dense + words,), classes, "bce", (7,) * words)
    for space in (SMALL.with_options(blocks=2), TWO):
        arch = space.parse("dot-product(0)16 linear-3d(0)16 fm; linear-2d(0+1)32 linear-3d(1)16")
        network = space.build(arch, task)
        assert network(make_rows(task, 2)).shape == (2, classes)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (
            Task("noise", (5,), 1, "bce"),
            {},
            "not a table with columns of identifiers.* the space mlp",
        ),
        (Task("noise", (3, 32, 32), 10), {}, "not a table with columns of identifiers"),
        (
            ROWS,
            {"embedding_dim": 12},
            "embedding_dim=12 is not divisible by the 8 attention heads",
        ),
    ],
)
def test_wrong_tasks_and_options_are_rejected(task, options, message):
    with pytest.raises(UsageError, match=message):
        SMALL.with_options(**options).supernet(task)
    space = SMALL.with_options(**options)
    arch = SMALL.sample(np.random.default_rng(0))
    with pytest.raises(UsageError, match=message):
        space.build(arch, task)


def test_a_network_has_at_least_one_block():
    with pytest.raises(
        UsageError, match=r"nasrec_small\(blocks=0\): blocks must be a whole number from 1 to"
    ):
        SMALL.with_options(blocks=0)


def test_identifiers_are_looked_up_rounded_and_wrap_around():
    network = FULL.build(FULL.sample(np.random.default_rng(0)), ROWS)
    x = torch.tensor([[0.5, -1.0, 1.0, 2.0, 3.0]])
    near = x.clone()
    around = x.clone()
    other = x.clone()
    near[0, 2:] -= 0.3
    around[0, 2:] += torch.tensor([4.0, 6.0, -5.0])  # the sizes of the vocabularies
    other[0, 2] += 1
    assert torch.equal(network(x), network(near))
    assert torch.equal(network(x), network(around))
    assert not torch.equal(network(x), network(other))


def test_initial_weights_are_those_of_the_authors():
    """Glorot: a normal of variance 2 / (rows + columns) for tables, uniform up to sqrt(6 / (in + out)) for matrices."""
    torch.manual_seed(0)
    task = Task("noise", (4,), 1, "bce", (3000,))
    one = FULL.with_options(blocks=1)
    network = one.build(one.parse("linear-2d(0)1024 transformer(0)64"), task)
    assert network.stem.tables[0].weight.std().item() == pytest.approx((2 / 3016) ** 0.5, rel=0.02)
    assert network.head.weight.abs().max().item() == pytest.approx(
        (6 / (1024 + 64 * 16 + 1)) ** 0.5, rel=0.02
    )
    transformer = network.blocks[0].ops["transformer"]
    assert not network.head.bias.any()
    assert {
        w.item()
        for norm in (transformer.attention_norm, transformer.fc_norm)
        for w in norm.weight.unique()
    } == {torch.tensor(0.17).item()}


@pytest.mark.parametrize("width", [64, 128])
def test_tokens_exclude_the_factorisation_machine_unless_they_need_no_projection(width):
    """At 8 tokens of 16 the authors' in-place sum reaches them too."""
    torch.manual_seed(0)
    (plan,) = make_block_specs(
        FULL.with_options(blocks=1).parse(f"linear-2d(0){width} linear-3d(0)16 fm interact").genes
    )
    block = NasrecBlock.from_spec(plan, OperatorSize((3,), 4, width, 16, 16))
    x = torch.randn(2, 3)
    tokens = torch.randn(2, 4, 16)
    out, sparse_out, cut = block(plan, [x], tokens)
    alone = block.ops["linear-2d"]([x], tokens)
    pairs = sum(sparse_out[:, i] * sparse_out[:, j] for i in range(16) for j in range(16) if i != j)
    torch.testing.assert_close(out, alone + block.fm.project(pairs))
    expected = out if width == 128 else block.interact(alone)
    torch.testing.assert_close(cut, expected.reshape(2, 8, 16))


# ----------------------------------------------------------------------------------------------------------- supernets


@spaces
def test_a_subnet_is_the_stand_alone_network_with_its_weights(space):
    """For 100 architectures; weights, biases and norms are all random."""
    torch.manual_seed(0)
    supernet = space.supernet(ROWS)
    for parameter in supernet.parameters():
        nn.init.normal_(parameter, std=0.1)
    x = make_rows(ROWS)
    rng = np.random.default_rng(0)
    outputs = []
    for _ in range(100):
        arch = space.sample(rng)
        subnet = supernet.subnet(arch)
        alone = space.build(arch, ROWS, device="meta")
        alone.load_state_dict(subnet.state_dict(), assign=True)
        with torch.no_grad():
            outputs.append(subnet(x))
            torch.testing.assert_close(alone(x), outputs[-1], rtol=1e-5, atol=1e-5)
    assert len({tuple(out.flatten().tolist()) for out in outputs}) == 100


def test_a_subnet_reads_the_columns_of_its_own_inputs():
    """The second block reads 16 of the first block's 1024 dense entries, which follow the two of the table.

    It also reads the table's 3 tokens, 16 of the first block's 64 tokens, and the 8 tokens after those.
    """
    space = FULL.with_options(blocks=2)
    torch.manual_seed(0)
    supernet = space.supernet(ROWS)
    arch = space.parse("linear-2d(0)16 linear-3d(0)16 interact; linear-2d(1)32 linear-3d(0+1)48")
    supernet.subnet(arch)(make_rows(ROWS)).sum().backward()
    ops = supernet.blocks[1].ops

    def find_used_entries(weight: nn.Parameter) -> tuple[set[int], set[int]]:
        touched = weight.grad.nonzero()
        return set(touched[:, 0].tolist()), set(touched[:, 1].tolist())

    lines, columns = find_used_entries(ops["linear-2d"].reads_dense.linear.weight)
    assert lines <= set(range(32))
    assert columns <= {2 + n for n in range(16)}
    assert len(columns) > 4  # not all: some are cut off by a ReLU
    lines, columns = find_used_entries(ops["linear-3d"].reads_tokens.linear.weight)
    assert lines <= set(range(48))
    assert columns <= {*range(3), *range(3, 3 + 16), *range(3 + 64, 3 + 72)}
    assert columns >= {*range(3), *range(3 + 64, 3 + 72)}
    _, columns = find_used_entries(supernet.head.weight)
    assert columns <= {*range(32), *range(1024, 1024 + 48 * 16)}
    assert max(columns) >= 1024 + 40 * 16
    assert ops["sum"].out.weight.grad is None


def test_without_norms_the_output_depends_on_the_scale_of_dense_columns():
    """relu(W x) grows with x, and norm(W x) does not. The supernet has no norms either and cuts out the same."""
    arch = "linear-2d(0)16 linear-3d(0)16; linear-2d(1)32 linear-3d(0)16"
    x = make_rows(ROWS)
    large = 100 * x[:, :2]  # against the norm's epsilon
    for norms in (True, False):
        space = FULL.with_options(blocks=2, norms=norms)
        torch.manual_seed(0)
        supernet = space.supernet(ROWS)
        net = space.build(space.parse(arch), ROWS)
        subnet = supernet.subnet(space.parse(arch))
        net.load_state_dict(subnet.state_dict())
        with torch.no_grad():
            dense = [net.blocks[0].ops["linear-2d"]([times * large], x) for times in (1, 3)]
            torch.testing.assert_close(net(x), subnet(x), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(dense[1], dense[0] * (1 if norms else 3), rtol=1e-3, atol=1e-3)
        kinds = {type(module) for owner in (net, supernet) for module in owner.modules()}
        assert (nn.LayerNorm in kinds) == norms


def test_an_architecture_of_another_supernet_is_rejected():
    supernet = SMALL.with_options(blocks=2).supernet(ROWS, device="meta")
    for text, blocks in ((TEXT, 2), ("linear-2d(0)16 linear-3d(0)16", 1)):
        with pytest.raises(
            UsageError, match="not in this supernet; use the supernet of nasrec_full"
        ):
            supernet.subnet(FULL.with_options(blocks=blocks).parse(text))


# ------------------------------------------------------------------------------------------- the published supernet


def compute_both_logits(
    space: untrained.spaces.Space, text: str, x: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the logits of both supernets for an architecture; weights of equal shapes are equal."""
    torch.manual_seed(0)
    ours = space.supernet(ROWS)
    theirs = space.with_options(variant="published").supernet(ROWS)
    mine = dict(ours.named_parameters())
    equal = {k: mine[k] for k, p in theirs.named_parameters() if mine[k].shape == p.shape}
    theirs.load_state_dict(equal, strict=False)
    return tuple(net.subnet(space.parse(text))(x).detach() for net in (ours, theirs))


def test_both_supernets_agree_where_nothing_is_masked():
    """All inputs, all widths, and tokens in every block."""
    space = FULL.with_options(blocks=2)
    x = make_rows(ROWS)
    full = "linear-2d(0)1024 transformer(0)64 fm interact; dot-product(0+1)1024 linear-3d(0+1)64 interact"
    torch.testing.assert_close(*compute_both_logits(space, full, x))
    for less in (("1024 linear", "512 linear"), ("64 interact", "48 interact"), ("64 fm", "32 fm")):
        ours, theirs = compute_both_logits(space, full.replace(*less), x)
        assert not torch.allclose(ours, theirs, rtol=1e-3), less  # norms see another width


@pytest.mark.parametrize("op", ["sum", "sigmoid-gating"])
def test_the_published_supernet_concatenates_left_and_right_with_zeros(op):
    """The second block is computed by hand: left is the table (entries 0 and 1), right the first block's output."""
    space = FULL.with_options(blocks=2, variant="published")
    x = make_rows(ROWS)
    torch.manual_seed(0)
    supernet = space.supernet(ROWS)
    for parameter in supernet.parameters():
        nn.init.normal_(parameter, std=0.1)
    arch = space.parse(f"linear-2d(0)32 linear-3d(0)16; {op}(0,1)64 linear-3d(0)16 fm")
    with torch.no_grad():
        dense, tokens = supernet.stem(x)
        first = supernet.blocks[0].ops["linear-2d"]([dense], tokens)
        first[:, 32:] = 0
        node = supernet.blocks[1].ops[op]
        left, right = torch.zeros(2, len(x), 2 + 1024)
        left[:, :2] = dense
        right[:, 2:] = first
        mixed = left + right if op == "sum" else node.gate(left).sigmoid() * right
        read = supernet.blocks[1].ops["linear-3d"].reads_tokens
        padded = torch.cat([tokens, torch.zeros(len(x), 72, 16)], 1)
        long = read.norm(read.linear(padded.mT)).relu().mT[:, :16]
        wide = node.norm(node.out(mixed)) + supernet.blocks[1].fm(long)
        weight = supernet.head.weight
        expected = (
            wide[:, :64] @ weight[:, :64].T
            + long.flatten(1) @ weight[:, 1024:1280].T
            + supernet.head.bias
        )
        torch.testing.assert_close(supernet.subnet(arch)(x), expected)


def test_masked_tokens_take_part_in_attention_as_zeros():
    torch.manual_seed(0)
    node = TokenTransformer(OperatorSize((2,), 3, 16, 64, 16))
    nn.init.normal_(node.attention.in_proj_bias)
    tokens = torch.randn(2, 3, 16)
    mask = (torch.arange(64) < 48).float()
    with torch.no_grad():
        x = node.reads_tokens(tokens.mT).mT.contiguous()
        x[:, 48:] = 0
        y = node.attention_norm(x + node.attention(x, x, x)[0])
        out = node.fc_norm(y + node.fc2(node.fc1(y).relu()))
        out[:, 48:] = 0
        torch.testing.assert_close(node(tokens, mask), out)
        assert not torch.allclose(node(tokens)[:, :48], out[:, :48])


def test_weights_cannot_be_extracted_from_the_published_supernet():
    space = SMALL.with_options(blocks=1, variant="published")
    subnet = space.supernet(ROWS).subnet(space.sample(np.random.default_rng(0)))
    with pytest.raises(
        UsageError, match="no stand-alone network computes what the published supernet does"
    ):
        subnet.state_dict()
    with pytest.raises(UsageError, match="variant of nasrec_small"):
        SMALL.with_options(variant="publshed").supernet(ROWS)


# -------------------------------------------------------------------------------------------------------------- scores


def test_every_proxy_scores_a_click_model_or_fails_with_a_reason():
    """With one logit and the loss of clicks; a single output has no extrinsic curvature."""
    space = FULL.with_options(blocks=2)
    torch.manual_seed(0)
    arch = space.parse(
        "dot-product(0)32 transformer(0)16 fm interact; sigmoid-gating(0,1)16 linear-3d(0+1)16 fm"
    )
    probe = Probe(space.build(arch, ROWS), load_data("noise", ROWS).batch(12, 0), loss="bce")
    answers = {name: score_or_reason(name, probe) for name in NAMES}
    bending = {
        name
        for name in NAMES
        if name.startswith("dextr") and not name.startswith("dextr_conditions")
    }
    for name in NAMES:
        if name in bending:
            assert answers[name] == (
                "unsupported: one output moves on a line without curvature: use sigeo or zico, or two outputs"
            )
        elif isinstance(answers[name], str):
            assert answers[name].startswith(REASONS[name]["nasrec"])
        else:
            assert isfinite(answers[name]), name
    assert (
        sum(isinstance(value, float) for value in answers.values()) >= len(NAMES) - len(bending) - 1
    )
    # One backward pass per sample
    for name in (
        "trace",
        "knas",
        "ntk_condition",
        "ntk_trace",
        "nasi_samples",
    ):
        assert answers[name] == pytest.approx(answers[f"{name}(reading=exact)"], rel=1e-4), name


def test_the_default_task_is_criteo():
    (record,) = score_networks(
        SMALL.sample(np.random.default_rng(0)), "grad_norm", "noise", space="nasrec_small"
    )
    assert record.error is None
    assert record.value > 0
    assert (record.task.input_shape, len(record.task.vocabularies), record.task.loss) == (
        (39,),
        26,
        "bce",
    )


def test_without_a_dense_column_the_output_has_no_input_gradient():
    task = Task("noise", (3,), 1, "bce", (4, 6, 5))
    model = SMALL.build(SMALL.sample(np.random.default_rng(0)), task)
    probe = Probe(model, load_data("noise", task).batch(6, 0), loss="bce")
    assert str(score_or_reason("dextr", probe)).startswith("disconnected")
    assert str(score_or_reason("jacob_cov", probe)).startswith(
        "disconnected: the output does not depend on the input"
    )
    assert score_or_reason("zico", probe) > 0
