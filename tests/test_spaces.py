"""`@space`: sampling, mutation, crossover, enumeration, text and networks of a function; and `load_space`."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import untrained
import untrained.spaces.core.space
from tests.docstring_examples import run_examples
from untrained.drawings.diagrams import CellGraph, Stage
from untrained.errors import UsageError
from untrained.spaces import SPACES, InvalidArch, load_space
from untrained.types import Genes, Task

seeds = st.integers(0, 2**32)


def find_marked_column(message: str) -> int:
    """Return the column that the arrow of an error message marks."""
    _, text, arrow = message.split("\n")
    assert text.startswith("  ")
    assert arrow.endswith("^")
    assert arrow[:-1].strip() == ""
    return len(arrow) - 1 - 2  # both lines are indented by two


# ---------------------------------------------------------------------------------------------- a function of the user


@untrained.space(task=Task("noise", (3, 8, 8), 5))
def tower(choose, task):
    """One to three blocks, plain or separable; only separable blocks have a kernel size."""
    depth = choose("depth", (1, 2, 3))
    width = choose("width", (4, 8))
    layers: list[nn.Module] = [nn.Conv2d(task.input_shape[0], width, 1)]
    for i in range(depth):
        if choose(f"kind{i}", ("plain", "separable")) == "separable":
            kernel = choose(f"kernel{i}", (3, 5))
            layers.append(nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width))
        layers += [nn.Conv2d(width, width, 1), nn.ReLU()]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, task.num_classes)
    )


ALL_TOWERS = list(tower)


def test_enumeration_follows_branches_and_loops():
    """A block has 3 variants (plain, or separable with one of two kernels), so there are 2 (3 + 3^2 + 3^3) = 78."""
    assert len(ALL_TOWERS) == len(set(ALL_TOWERS)) == 2 * (3 + 3**2 + 3**3)
    assert str(ALL_TOWERS[0]) == "depth=1,width=4,kind0=plain"
    assert ALL_TOWERS[-1].genes[:4] == (
        ("depth", 3),
        ("width", 8),
        ("kind0", "separable"),
        ("kernel0", 5),
    )


def test_samples_are_members_of_every_depth():
    rng = np.random.default_rng(0)
    samples = {tower.sample(rng) for _ in range(60)}
    assert samples <= set(ALL_TOWERS)
    assert {arch["depth"] for arch in samples} == {1, 2, 3}


@pytest.mark.parametrize("arch", ALL_TOWERS, ids=str)
def test_pairs_survive_printing_and_parsing(arch):
    assert tower.parse(str(arch)) == arch
    assert str(tower.parse(str(arch))) == str(arch)


@settings(derandomize=True)
@given(st.sampled_from(ALL_TOWERS), seeds)
def test_mutation_changes_one_of_the_common_choices(parent, seed):
    """The other choices that parent and child have in common keep their values."""
    child = tower.mutate(parent, np.random.default_rng(seed))
    assert child in set(ALL_TOWERS)
    before = dict(parent.genes)
    after = dict(child.genes)
    assert sum(before[name] != after[name] for name in before.keys() & after.keys()) == 1


def test_a_choice_that_no_longer_fits_is_sampled_again():
    @untrained.space
    def grouped(choose, task):
        width = choose("width", (2, 4))
        groups = choose("groups", (1, 2) if width == 2 else (4,))
        return nn.Conv2d(width, width, 1, groups=groups)

    rng = np.random.default_rng(0)
    wide = grouped.parse("width=4,groups=4")
    assert {str(grouped.mutate(wide, rng)) for _ in range(30)} == {
        "width=2,groups=1",
        "width=2,groups=2",
    }
    narrow = grouped.parse("width=2,groups=1")
    assert {str(grouped.mutate(narrow, rng)) for _ in range(30)} == {
        "width=2,groups=2",
        "width=4,groups=4",
    }


def test_a_network_is_built_with_the_choices_and_the_task():
    arch = tower.parse("depth=2,width=4,kind0=separable,kernel0=5,kind1=plain")
    model = tower.build(arch, Task("noise", (1, 9, 7), 6))
    assert [layer.kernel_size for layer in model if isinstance(layer, nn.Conv2d)] == [
        (1, 1),
        (5, 5),
        (1, 1),
        (1, 1),
    ]
    assert model(torch.randn(2, 1, 9, 7)).shape == (2, 6)


def test_nothing_is_allocated_before_building():
    devices: list[str] = []

    @untrained.space
    def watched(choose, task):
        model = nn.Linear(2, choose("width", (3, 4)))
        devices.append(model.weight.device.type)
        return model

    arch = watched.mutate(
        watched.parse(str(watched.sample(np.random.default_rng(0)))), np.random.default_rng(0)
    )
    assert [*watched]
    assert set(devices) == {"meta"}
    assert watched.build(arch).weight.device.type == "cpu"


def test_options_keep_their_types_when_parsed():
    @untrained.space
    def odd(choose, task):
        kernel = choose("kernel", ("3", "5"))  # text that looks like a number
        rate = choose("rate", (0.001, 2.0, 3))
        norm = choose("norm", ("None", "batch"))
        assert isinstance(kernel, str)
        assert isinstance(norm, str)
        return nn.Linear(int(kernel), int(rate) + 1)

    archs = list(odd)
    assert len(archs) == 2 * 3 * 2
    for arch in archs:
        assert odd.parse(str(arch)) == arch
        assert [type(value) for _, value in odd.parse(str(arch)).genes] == [
            type(value) for _, value in arch.genes
        ]
    assert odd.parse("kernel=3, rate=1e-3, norm=batch")["rate"] == 0.001
    assert odd.build(odd.parse("kernel=3,rate=3.0,norm=batch")).weight.shape == (4, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("depth=1,width=4", "'kind0'; it can be one of plain, separable"),
        ("depth=4,width=4,kind0=plain", "'depth' is 4, but it can only be one of 1, 2, 3"),
        ("depth=1,width=4,kind0=plain,kind1=plain", "no choice 'kind1'"),
        ("depth=1,width=4,width=8,kind0=plain", "has 'width' twice"),
        ("depth=1,with=4,kind0=plain", "'width'; it can be one of 4, 8"),
    ],
)
def test_wrong_pairs_are_rejected(text, message):
    with pytest.raises(UsageError, match=message):
        tower.parse(text)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("depth", 0),
        ("depth=1,width", 8),
        ("depth=1,,kind0=plain", 8),
        ("depth=1,width=4,=plain", 16),
        ("", 0),
    ],
)
def test_an_error_marks_the_position_in_malformed_pairs(text, column):
    with pytest.raises(UsageError, match="expected name=value") as caught:
        tower.parse(text)
    assert find_marked_column(str(caught.value)) == column


@pytest.mark.parametrize(
    ("space", "text"),
    [
        ("nats_size", f"8:8:8:8:{'5' * 5000}"),
        ("nasrec_small", f"linear-2d(0){'5' * 5000} linear-3d(0)16"),
        ("mobilenetv2", f"SuperConvK3BNRELU(3,{'8' * 5000},2,1)"),
    ],
)
def test_a_number_that_python_does_not_read_is_refused(space, text):
    with pytest.raises(UsageError, match=f"is not an architecture of {space}: Exceeds the limit"):
        load_space(space).parse(text)


@pytest.mark.parametrize("space", ["nasbench101", "nasbench1shot1_s1"])
def test_a_cell_without_vertices_is_malformed(space):
    with pytest.raises(UsageError, match="expected the operations at position 1"):
        load_space(space).parse("+")


def test_a_choice_made_twice_is_rejected():
    @untrained.space
    def twice(choose, task):
        return nn.Linear(choose("width", (1, 2)), choose("width", (1, 2)))

    with pytest.raises(UsageError, match="'width' is made twice"):
        twice.sample(np.random.default_rng(0))


def test_a_choice_without_options_is_rejected():
    @untrained.space
    def empty(choose, task):
        return nn.Linear(choose("width", ()), 1)

    with pytest.raises(UsageError, match="'width' has no options"):
        empty.sample(np.random.default_rng(0))


def test_a_space_without_choices_has_one_member_and_no_mutants():
    @untrained.space
    def fixed(choose, task):
        return nn.Linear(choose("width", (2,)), 1)

    assert [str(arch) for arch in fixed] == ["width=2"]
    with pytest.raises(UsageError, match="no choice that could change"):
        fixed.mutate(next(iter(fixed)), np.random.default_rng(0))


# -------------------------------------------------------------------------------------------------------------- hooks


def smallest_first(genes: Genes) -> Genes:
    """Return the two numbers in ascending order."""
    return tuple(zip(("a", "b"), sorted(int(value) for _, value in genes), strict=True))


@untrained.space(canonical=smallest_first, size=6)
def sums(choose, task):
    """a + b = b + a, so 6 of the 3 x 3 pairs are different."""
    a = choose("a", (1, 2, 3))
    b = choose("b", (1, 2, 3))
    return nn.Linear(a + b, 1)


def test_architectures_with_the_same_canonical_form_are_equal():
    assert sums.parse("a=3,b=1") == sums.parse("a=1,b=3")
    assert str(sums.parse("a=3,b=1")) == "a=1,b=3"
    assert [str(arch) for arch in sums] == [
        "a=1,b=1",
        "a=1,b=2",
        "a=1,b=3",
        "a=2,b=2",
        "a=2,b=3",
        "a=3,b=3",
    ]
    assert sums.size == len(list(sums))


def test_mutation_changes_the_canonical_form():
    """From 1 + 2, changing one number gives 1 + 1, 1 + 3, 2 + 2 and 2 + 3."""
    rng = np.random.default_rng(0)
    parent = sums.parse("a=1,b=2")
    assert {str(sums.mutate(parent, rng)) for _ in range(100)} == {
        "a=1,b=1",
        "a=1,b=3",
        "a=2,b=2",
        "a=2,b=3",
    }


@untrained.space
def triangle(choose, task):
    """Three sides in ascending order; the last is shorter than the sum of the others."""
    a = choose("a", (1, 2, 3))
    b = choose("b", (1, 2, 3))
    if b < a:
        raise InvalidArch("the sides must be in ascending order")
    c = choose("c", (1, 2, 3))
    if not b <= c < a + b:
        raise InvalidArch("it does not close")
    return nn.Linear(a + b + c, 1)


TRIANGLES = [
    "a=1,b=1,c=1",
    "a=1,b=2,c=2",
    "a=1,b=3,c=3",
    "a=2,b=2,c=2",
    "a=2,b=2,c=3",
    "a=2,b=3,c=3",
    "a=3,b=3,c=3",
]


def test_invalid_combinations_are_skipped():
    rng = np.random.default_rng(0)
    assert [str(arch) for arch in triangle] == TRIANGLES
    assert {str(triangle.sample(rng)) for _ in range(100)} == set(TRIANGLES)
    mutants = {
        text: {str(triangle.mutate(triangle.parse(text), rng)) for _ in range(20)}
        for text in TRIANGLES
    }
    assert all(texts <= set(TRIANGLES) - {text} for text, texts in mutants.items())
    assert mutants["a=2,b=2,c=3"] == {"a=2,b=2,c=2", "a=2,b=3,c=3"}  # one side changed
    # No change of one side is valid, so two are changed.
    assert mutants["a=1,b=1,c=1"] == {
        "a=1,b=2,c=2",
        "a=1,b=3,c=3",
    }


def test_the_error_for_an_invalid_combination_has_the_reason():
    with pytest.raises(
        UsageError, match="a=2,b=1,c=1 is not in triangle: the sides must be in ascending order"
    ):
        triangle.parse("a=2,b=1,c=1")
    with pytest.raises(UsageError, match="is not in triangle: it does not close"):
        triangle.build(untrained.Arch("triangle", (("a", 1), ("b", 2), ("c", 3))))


def test_a_space_without_valid_members_is_an_error():
    @untrained.space
    def nothing(choose, task):
        choose("a", (1, 2))
        raise InvalidArch("never")

    assert list(nothing) == []
    with pytest.raises(UsageError, match=r"no valid architecture in [\d,]+ attempts.*never"):
        nothing.sample(np.random.default_rng(0))


def test_a_child_has_every_choice_from_one_of_its_parents():
    rng = np.random.default_rng(0)
    a = tower.parse("depth=2,width=4,kind0=plain,kind1=separable,kernel1=3")
    b = tower.parse("depth=3,width=8,kind0=separable,kernel0=5,kind1=plain,kind2=plain")
    children = {tower.cross(a, b, rng) for _ in range(200)}
    assert children <= set(ALL_TOWERS)
    for child in children:
        assert all(
            value in (dict(a.genes).get(name), dict(b.genes).get(name))
            for name, value in child.genes
        )
    assert {arch["depth"] for arch in children} == {2, 3}
    assert len(children) > 10
    assert tower.cross(a, a, rng) == a


def test_a_space_can_define_its_mutation():
    def up(space, arch, rng):
        return space.make_arch((("width", arch["width"] + 1),))

    @untrained.space(mutate=up)
    def ladder(choose, task):
        return nn.Linear(choose("width", (1, 2, 3)), 1)

    assert str(ladder.mutate(ladder.parse("width=1"), np.random.default_rng(0))) == "width=2"
    with pytest.raises(UsageError, match="'width' is 4"):
        ladder.mutate(ladder.parse("width=3"), np.random.default_rng(0))


def test_the_size_can_depend_on_options():
    @untrained.space(size=lambda widths=2: widths)
    def wide(choose, task, widths=2):
        return nn.Linear(choose("width", range(1, widths + 1)), 1)

    assert wide.size == len(list(wide)) == 2
    assert wide.with_options(widths=5).size == len(list(wide.with_options(widths=5))) == 5


def test_a_space_without_a_draw_hook_shows_its_network():
    arch = tower.parse("depth=2,width=4,kind0=separable,kernel0=5,kind1=plain")
    assert tower.draw(arch) == CellGraph(
        (
            "input 3\u00d78\u00d78",
            "conv 1x1, 4",
            "depthwise conv 5x5, 4",
            "conv 1x1, 4, relu \u00d72",
            "avg pool",
            "linear, 5",
            "output 5",
        ),
        tuple((i, i + 1, "") for i in range(6)),
    )
    assert tower.draw(arch, Task("noise", (1, 6, 6), 3)).nodes[0] == "input 1\u00d76\u00d76"


def test_a_network_that_reads_its_input_is_drawn_as_a_list():
    class Reader(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(192, width), nn.Linear(192, width)])

        def forward(self, x):
            return self.layers[int(x.sum() > 0)](x.flatten(1))

    @untrained.space(task=Task("noise", (3, 8, 8), 5))
    def reading(choose, task):
        return Reader(choose("width", [2, 3]))

    assert reading.draw(reading.parse("width=3")).stages == (Stage("linear", 3, repeats=2),)


def test_the_error_for_a_missing_supernet_lists_the_spaces_with_one():
    with pytest.raises(UsageError, match=r"tower has no supernet; these have: .*nasbench201"):
        tower.supernet()


# --------------------------------------------------------------------------------------------------------- load_space


def test_the_error_for_an_unknown_space_lists_close_names():
    with pytest.raises(
        UsageError, match="no space is called 'nasbench210'; did you mean nasbench201"
    ):
        load_space("nasbench210")
    with pytest.raises(UsageError, match=r"available: .*nasbench101"):
        load_space("xyz")


def test_every_registered_space_has_the_name_of_its_function():
    for name, space in SPACES.items():
        assert space.name == name == space.network.__name__
        assert space.about.endswith(".")


MINE = """
import untrained
from torch import nn

@untrained.space
def mynet(choose, task):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, choose("width", (2, 3))))

def helper(choose, task):
    pass
"""


def test_a_space_is_loaded_from_a_file(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    space = load_space(f"{file}:mynet")
    logits: Tensor = space.build(space.parse("width=3"))(torch.zeros(1, 3, 2, 2))
    assert logits.shape == (1, 3)
    assert load_space(space) is space
    with pytest.raises(UsageError, match=r"is not a space; put @untrained\.space above"):
        load_space(f"{file}:helper")
    with pytest.raises(UsageError, match="did you mean mynet"):
        load_space(f"{file}:mynt")
    with pytest.raises(UsageError, match="there is no file"):
        load_space(f"{tmp_path}/other.py:mynet")


# ------------------------------------------------------------------------------------------------- seeds and examples


def test_an_int_seed_and_its_generator_give_the_same_results():
    first = tower.sample(seed=3)
    second = tower.sample(seed=4)
    assert first == tower.sample(np.random.default_rng(3))
    assert tower.mutate(first, seed=1) == tower.mutate(first, np.random.default_rng(1))
    assert tower.cross(first, second, seed=2) == tower.cross(
        first, second, np.random.default_rng(2)
    )


@pytest.mark.parametrize("module", [untrained.spaces, untrained.spaces.core.space])
def test_the_examples_in_docstrings_are_true(module: ModuleType):
    run_examples(module, load_space=load_space)
