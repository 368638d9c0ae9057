"""Options of any type, ranges of numbers, wrong calls of `choose`, and functions that are not repeatable."""

import random
from functools import partial
from itertools import count

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import untrained
from untrained.errors import UsageError
from untrained.pairs import format_pairs, split_pairs
from untrained.runs.store import Store
from untrained.spaces import InvalidArch
from untrained.spaces.core.notation import PairNotation
from untrained.spaces.core.ranges import FloatRange, IntRange
from untrained.types import Arch, Record, ScoreRequest, Task

TASK = Task("noise", (3, 8, 8), 5)

# -------------------------------------------------------------------------------- options of any type


def double(x):
    return 2 * x


@untrained.space(task=TASK)
def mixed(choose, task):
    """One choice of every kind of option."""
    kernel = choose("kernel", [(1, 3), (3, 1), [3, 3]])
    activation = choose("activation", [nn.ReLU, partial(nn.ELU, alpha=0.5), None])
    function = choose("function", [double, torch.tanh, F.relu])
    pool = choose(
        "pool", {"mean": lambda: nn.AdaptiveAvgPool2d(1), "max": lambda: nn.AdaptiveMaxPool2d(1)}
    )
    assert isinstance(kernel, tuple | list)
    assert callable(function)
    layers = [nn.Conv2d(task.input_shape[0], 4, tuple(kernel), padding="same")]
    if activation is not None:
        layers.append(activation())
    layers.append(pool() if choose("made", [True, False]) else nn.AdaptiveMaxPool2d(1))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4, task.num_classes))


def test_options_of_any_type_have_a_text():
    assert str(next(iter(mixed))) == (
        "kernel=(1,3),activation=ReLU,function=double,pool=mean,made=True"
    )
    texts = {value for arch in mixed for _, value in arch.genes}
    assert texts == {
        *("(1,3)", "(3,1)", "[3,3]", "ReLU", "ELU(alpha=0.5)", "None"),
        *("double", "tanh", "relu", "mean", "max", True, False),
    }
    assert len(list(mixed)) == 3 * 3 * 3 * 2 * 2


def test_architectures_with_such_options_survive_printing_and_parsing():
    for arch in mixed:
        assert mixed.parse(str(arch)) == arch
    typed = "kernel=( 1, 3 ), activation=ELU( alpha=0.5 ),function=relu,pool=max,made=False"
    assert mixed.parse(typed).genes[:2] == (("kernel", "(1,3)"), ("activation", "ELU(alpha=0.5)"))


def test_the_function_gets_the_option_itself():
    arch = mixed.parse("kernel=(3,1),activation=ELU(alpha=0.5),function=tanh,pool=mean,made=True")
    network = mixed.build(arch)
    assert network[0].kernel_size == (3, 1)
    assert (type(network[1]), network[1].alpha) == (nn.ELU, 0.5)
    assert isinstance(network[2], nn.AdaptiveAvgPool2d)
    without = mixed.parse("kernel=[3,3],activation=None,function=tanh,pool=max,made=False")
    assert [type(layer) for layer in mixed.build(without)] == [
        nn.Conv2d,
        nn.AdaptiveMaxPool2d,
        nn.Flatten,
        nn.Linear,
    ]


def test_mutation_and_crossover_keep_such_options_in_the_space():
    members = set(mixed)
    rng = np.random.default_rng(0)
    parent = mixed.sample(rng)
    other = mixed.sample(rng)
    for _ in range(30):
        child = mixed.mutate(parent, rng)
        assert child in members
        assert sum(a != b for a, b in zip(child.genes, parent.genes, strict=True)) == 1
        crossed = mixed.cross(parent, other, rng)
        assert all(value in (parent[name], other[name]) for name, value in crossed.genes)


def test_a_store_returns_the_same_architectures(tmp_path):
    archs = [*list(mixed)[::17], *(ranges.sample(seed) for seed in range(5))]
    with Store(tmp_path / "records.sqlite") as store:
        store.add(Record.of(ScoreRequest(arch, "params@1", TASK, 0), 1.0) for arch in archs)
        stored = [record.arch for record in store]
    assert stored == archs
    assert [str(arch) for arch in stored] == [str(arch) for arch in archs]
    for arch in stored:
        space = mixed if arch.space == "mixed" else ranges
        assert space.make_arch(arch.genes) == arch


@given(st.dictionaries(st.sampled_from("abc"), st.text(max_size=12) | st.integers() | st.floats()))
@settings(derandomize=True)
def test_pairs_of_any_text_survive_printing_and_parsing(pairs):
    text = format_pairs(pairs.items())
    parsed = PairNotation().parse(text) if pairs else ()
    assert [(name, str(value)) for name, value in parsed] == [
        (name, str(value)) for name, value in pairs.items()
    ]


def test_parts_in_brackets_and_quotes_are_not_split():
    assert split_pairs("a=(1,2),b='x,y',c=\"it's, so\",d=[(1,),{2,3}]") == [
        (0, "a=(1,2)"),
        (8, "b='x,y'"),
        (16, 'c="it\'s, so"'),
        (29, "d=[(1,),{2,3}]"),
    ]
    assert format_pairs([("a", "x,y"), ("b", "(x,y)"), ("c", "(")]) == "a='x,y',b=(x,y),c='('"


# ----------------------------------------------------------------------------------------------- ranges


@untrained.space(task=TASK)
def ranges(choose, task):
    width = choose.int("width", 16, 128, step=8)
    hidden = choose.int("hidden", 1, 1000, log=True)
    ratio = choose.float("ratio", 0.1, 0.5)
    rate = choose.float("rate", 1e-5, 1e-1, log=True)
    share = choose.float("share", 0.1, 0.3, step=0.1)
    return partial(make_ranges, width, hidden, ratio, rate, share)


def make_ranges(width, hidden, ratio, rate, share):
    return nn.Sequential(
        nn.Flatten(), nn.LazyLinear(width), nn.Linear(width, hidden), nn.Dropout(ratio)
    )


def test_samples_of_a_range_are_in_it_and_readable():
    archs = [ranges.sample(seed) for seed in range(300)]
    widths = {arch["width"] for arch in archs}
    assert widths == set(range(16, 129, 8))
    assert {arch["share"] for arch in archs} == {0.1, 0.2, 0.3}
    for arch in archs:
        assert 0.1 <= arch["ratio"] <= 0.5
        assert 1e-5 <= arch["rate"] <= 1e-1
        assert type(arch["hidden"]) is int
        assert round(arch["ratio"], 4) == arch["ratio"]
        assert float(f"{arch['rate']:.4g}") == arch["rate"]
        assert ranges.parse(str(arch)) == arch


def test_logarithmic_samples_are_even_per_decade():
    """Of 1 to 1000, a third of the logarithms lies in each decade; 3 000 samples have a deviation of 0.9 %."""
    rng = np.random.default_rng(0)
    hidden = [IntRange(1, 1000, 1, log=True).sample(rng) for _ in range(3000)]
    # The first and the last number get half a number more: log(1000.5 / 0.5) instead of log(1000).
    total = np.log(1000.5 / 0.5)
    expected = [np.log(10.5 / 0.5) / total, np.log(100.5 / 10.5) / total]
    assert np.mean(np.array(hidden) <= 10) == pytest.approx(expected[0], abs=0.03)
    assert np.mean((np.array(hidden) > 10) & (np.array(hidden) <= 100)) == pytest.approx(
        expected[1], abs=0.03
    )
    rates = [FloatRange(1e-5, 1e-1, log=True).sample(rng) for _ in range(3000)]
    assert np.mean(np.array(rates) < 1e-3) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    "numbers",
    [
        IntRange(16, 128, 8),
        IntRange(1, 2, 1),
        IntRange(3, 17, 1, log=True),
        IntRange(1, 10**6, 1, log=True),
        FloatRange(0.1, 0.5),
        FloatRange(-3.0, 3.0),
        FloatRange(0.1, 0.3, 0.1),
        FloatRange(1e-8, 1e-1, log=True),
        FloatRange(1.0, 1.0001, log=True),
    ],
    ids=lambda numbers: numbers.describe(),
)
def test_mutants_differ_are_near_and_in_the_range(numbers):
    rng = np.random.default_rng(0)
    parent = numbers.sample(rng)
    mutants = [numbers.mutate(parent, rng) for _ in range(400)]
    assert all(numbers.find(mutant) == mutant != parent for mutant in mutants)
    middle = numbers.get_number_at(0.5)
    moves = [
        abs(numbers.get_position_of(numbers.mutate(middle, rng)) - numbers.get_position_of(middle))
        for _ in range(400)
    ]
    # Half of a normal distribution lies within 0.67 deviations, which are 0.2 of the range; two
    # numbers are half a range apart.
    if len(numbers.list_values() or range(99)) > 10:
        assert np.median(moves) == pytest.approx(0.67 * 0.2, abs=0.05)


def test_children_take_numbers_from_their_parents():
    rng = np.random.default_rng(0)
    first = ranges.sample(1)
    second = ranges.sample(2)
    for _ in range(20):
        child = ranges.cross(first, second, rng)
        assert all(value in (first[name], second[name]) for name, value in child.genes)


def test_ranges_are_listed_unless_they_have_no_steps():
    @untrained.space
    def listed(choose, task):
        width = choose.int("width", 2, 9, step=3)
        return nn.Linear(width, 1 + round(10 * choose.float("share", 0.0, 0.3, step=0.1)))

    assert [str(arch) for arch in listed] == [
        f"width={width},share={share}" for width in (2, 5, 8) for share in (0.0, 0.1, 0.2, 0.3)
    ]
    with pytest.raises(UsageError, match=r"cannot be listed, because 'ratio' is a number from 0.1"):
        list(ranges)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            "width=17",
            "'width' is 17, but it can only be a whole number from 16 to 128 in steps of 8",
        ),
        ("width=136", "'width' is 136"),
        ("width=16.5", "'width' is 16.5"),
        ("width=True", "'width' is True"),
        ("ratio=0.51", "'ratio' is 0.51, but it can only be a number from 0.1 to 0.5"),
        ("ratio=nan", "'ratio' is 'nan'"),
        ("ratio=1e999", "'ratio' is inf"),
        (
            "share=0.15",
            "'share' is 0.15, but it can only be a number from 0.1 to 0.3 in steps of 0.1",
        ),
    ],
)
def test_numbers_outside_of_a_range_are_rejected(changed, message):
    name = changed.partition("=")[0]
    pairs = dict(ranges.sample(0).genes)
    text = ",".join(changed if key == name else f"{key}={value}" for key, value in pairs.items())
    with pytest.raises(UsageError) as caught:
        ranges.parse(text)
    assert message in str(caught.value)


def test_typed_numbers_become_those_of_the_range():
    text = "width=16.0,hidden=1000,ratio=0.30000001,rate=1e-3,share=0.30000000000000004"
    arch = ranges.parse(text)
    assert arch.genes == (
        *(("width", 16), ("hidden", 1000), ("ratio", 0.30000001), ("rate", 0.001), ("share", 0.3)),
    )
    assert type(arch["width"]) is int


def test_a_range_of_tiny_steps_is_not_listed(monkeypatch):
    """A list of a billion numbers would not fit into memory."""

    @untrained.space
    def fine(choose, task):
        choose.float("rate", 0.0, 1.0, 1e-9)
        return nn.Linear(1, 1)

    message = "the numbers were listed"
    monkeypatch.setattr(FloatRange, "list_values", lambda _: pytest.fail(message))
    parent = fine.parse("rate=0.25")
    assert fine.mutate(parent, 0) != parent
    values = FloatRange(0.0, 1.0, 1e-9).list_representative_values()
    assert len(values) == 64
    assert (values[0], values[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("make_choice", "message"),
    [
        (
            lambda choose: choose.int("n", 0, 2**63),
            r"high is 9223372036854775808, .* limit is 2\^53",
        ),
        (lambda choose: choose.int("n", -(2**60), 0), r"low is -1152921504606846976, .* is 2\^53"),
        (lambda choose: choose.float("x", -1e308, 1e308), "is invalid: the range is too large"),
        (
            lambda choose: choose.float("x", 0, 1e200, 1e-200),
            "is invalid: the range is too large",
        ),
    ],
)
def test_a_range_beyond_floating_point_numbers_is_refused(make_choice, message):
    @untrained.space
    def wrong(choose, task):
        make_choice(choose)
        return nn.Linear(1, 1)

    with pytest.raises(UsageError, match=message) as caught:
        wrong.sample(0)
    assert "\n" not in str(caught.value)


def test_the_largest_whole_numbers_can_be_mutated():
    @untrained.space
    def large(choose, task):
        choose.int("n", 2**53 - 3, 2**53)
        return nn.Linear(1, 1)

    parent = large.parse(f"n={2**53}")
    mutants = {large.mutate(parent, seed)["n"] for seed in range(50)}
    assert mutants <= {2**53 - 3, 2**53 - 2, 2**53 - 1}


def test_a_scale_of_words_is_refused():
    @untrained.space(scale="size")
    def words(choose, task):
        choose("size", ["small", "large"])
        return nn.Linear(1, 1)

    with pytest.raises(UsageError, match="the options of scale='size' are not numbers"):
        words.list_scaled(words.sample(0))


def test_a_range_can_scale_networks():
    @untrained.space(scale="width")
    def scaled(choose, task):
        return nn.Linear(choose.int("width", 1, 5000), choose("depth", [1, 2]))

    widths = [arch["width"] for arch in scaled.list_scaled(scaled.parse("width=7,depth=2"))]
    assert widths == sorted(set(widths))
    assert (widths[0], widths[-1]) == (1, 5000)
    # A selection of at most 64 numbers from the whole range, and the number of the architecture.
    assert 30 < len(widths) <= 65
    assert 7 in widths


# ------------------------------------------------------------------------------------- wrong calls


def call(make_choice):
    """Return the message for a space whose function makes one choice, without the location."""

    @untrained.space
    def wrong(choose, task):
        make_choice(choose)
        return nn.Linear(1, 1)

    with pytest.raises(UsageError) as caught:
        wrong.sample(0)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("space wrong (test_space_options.py:")
    return message.partition("): ")[2]


@pytest.mark.parametrize(
    ("make_choice", "message"),
    [
        (lambda choose: choose("w"), "the choice 'w' has no options; write them as a list"),
        (lambda choose: choose("w", []), "the choice 'w' has no options; its list is empty"),
        (lambda choose: choose("w", {}), "the choice 'w' has no options; its list is empty"),
        (lambda choose: choose([8, 16]), "the choice [8, 16] has no name; write the name"),
        (lambda choose: choose("w=1", [1]), "the choice 'w=1' cannot be written as name=value"),
        (lambda choose: choose("", [1]), "the choice '' cannot be written as name=value"),
        (lambda choose: choose("w", 8), "the options are 8; write a list, such as [8, 16]"),
        (lambda choose: choose("w", 8, 16), "the options are 8; write a list"),
        (
            lambda choose: choose("w", "abc"),
            "the options are the string 'abc'; write them as a list",
        ),
        (lambda choose: choose("w", {8, 16}), "the options are a set, which has no order"),
        (lambda choose: choose("w", [8, 8]), "two options are written 8; remove one of them"),
        (lambda choose: choose("w", [8, "8"]), "two options are written 8"),
        (lambda choose: choose("w", [1, True]), "two options are written True"),
        (lambda choose: choose("w", [lambda: 1]), "has no name; write the options as a dictionary"),
        (lambda choose: choose("w", [object()]), "has no name; write the options as a dictionary"),
        (lambda choose: choose("w", [nn.ReLU()]), "is a layer, which all networks would share"),
        (lambda choose: choose("w", {nn.ReLU: 1}), "of an option is not a string"),
        (lambda choose: choose.int("w"), "the choice 'w' needs low and high"),
        (lambda choose: choose.int("w", 3), "the choice 'w' needs low and high"),
        (lambda choose: choose.int("w", 5, 3), "low is 5, which is more than high, 3"),
        (lambda choose: choose.int("w", 1.5, 3), "low is 1.5, which is not a whole number"),
        (lambda choose: choose.int("w", 1, 3, step=0), "step is 0, which is not positive"),
        (lambda choose: choose.int("w", 0, 3, log=True), "log=True needs positive numbers"),
        (lambda choose: choose.int("w", 1, 9, 2, log=True), "log=True and step exclude each other"),
        (lambda choose: choose.float("w", 0, float("inf")), "high is inf, which is not a number"),
        (lambda choose: choose.float("w", 1, 9, 2, log=True), "log=True and step exclude"),
        (lambda choose: choose.float("w", "a", 9), "low is 'a', which is not a number"),
        (lambda choose: (choose("w", [1, 2]), choose.int("w", 1, 2)), "'w' is made twice"),
    ],
)
def test_a_wrong_choice_is_explained_in_one_line(make_choice, message):
    assert message in call(make_choice)


def test_numpy_numbers_are_numbers():
    @untrained.space
    def numpy_options(choose, task):
        width = choose("width", np.arange(2, 5))
        return nn.Linear(width, choose("out", [np.float64(2.0), np.int64(3)]).__int__())

    assert [str(arch) for arch in numpy_options][:2] == ["width=2,out=2.0", "width=2,out=3"]
    assert {type(value) for arch in numpy_options for _, value in arch.genes} == {int, float}


# ---------------------------------------------------------------- networks that are not returned or repeated


def test_a_forgotten_return_is_reported():
    @untrained.space
    def forgotten(choose, task):
        nn.Linear(choose("width", [1, 2]), 1)

    @untrained.space
    def forgotten_inside(choose, task):
        width = choose("width", [1, 2])

        def build():
            nn.Linear(width, 1)

        return build

    message = "the function of the space forgotten returned None instead of a network; add `return`"
    for use in (lambda: forgotten.sample(0), lambda: forgotten.parse("width=1")):
        with pytest.raises(UsageError, match=message):
            use()
    with pytest.raises(UsageError, match="builds None instead of a network"):
        forgotten_inside.build(forgotten_inside.parse("width=1"))


def sample_some(space):
    """Sample until the space has been checked with three architectures."""
    for seed in range(3):
        space.sample(seed)


def test_a_function_that_uses_random_numbers_is_reported():
    @untrained.space
    def dice(choose, task):
        choose("depth", [1, 2])
        return nn.Linear(random.randint(1, 10**6), 1)

    @untrained.space
    def dice_in_builder(choose, task):
        choose("depth", [1, 2])
        return lambda: nn.Sequential(nn.ReLU(), nn.Conv2d(1, random.randint(1, 10**6), 1))

    with pytest.raises(UsageError) as caught:
        sample_some(dice)
    assert "\n" not in str(caught.value)
    assert "the space dice is not repeatable: for depth=" in str(caught.value)
    assert "it returned networks with Linear(in_features=" in str(caught.value)
    with pytest.raises(UsageError, match=r"dice_in_builder is not repeatable.*1: Conv2d\(1, "):
        dice_in_builder.build(dice_in_builder.sample(0))


def test_a_builder_is_only_called_to_build_a_network():
    """It may crash its process, so the process of a search must not call it."""
    built = []

    def make_network():
        built.append(1)
        return nn.Linear(1, 1)

    @untrained.space
    def with_builder(choose, task):
        choose("depth", [1, 2, 3, 4])
        return make_network

    archs = [with_builder.sample(seed) for seed in range(5)]
    assert not built
    for arch in archs:
        with_builder.build(arch)
    # Five networks, of which the first three are built a second time for the check.
    assert len(built) == 5 + 3


def test_a_function_that_makes_other_choices_is_reported():
    calls = iter(range(100))

    @untrained.space
    def moody(choose, task):
        if next(calls) % 2:
            choose("extra", [1, 2])
        return nn.Linear(choose("width", [1, 2]), 1)

    @untrained.space
    def growing(choose, task):
        return nn.Linear(choose("width", range(1, 3 + next(calls))), 1)

    with pytest.raises(
        UsageError,
        match=r"made the choice '\w+' in one run and '\w+' in another",
    ):
        sample_some(moody)
    with pytest.raises(UsageError, match="gave the choice 'width' different options"):
        sample_some(growing)


def test_a_function_that_fails_in_some_runs_is_reported():
    @untrained.space
    def choosy(choose, task):
        network = nn.Linear(choose("width", [1, 2]), 1)
        if next(calls):
            raise InvalidArch("bad luck")
        return network

    @untrained.space
    def broken(choose, task):
        network = nn.Linear(choose("width", [1, 2]), 1)
        if next(calls):
            raise ValueError("bad luck")
        return network

    # The first run samples an architecture, the second one begins the check.
    calls = count()
    message = (
        r"choosy is not repeatable: for width=\d it raised InvalidArch\('bad luck'\) in one run"
    )
    with pytest.raises(UsageError, match=message):
        choosy.sample(0)
    calls = count()
    message = "the space broken raised an error when asked for its choices"
    with pytest.raises(UsageError, match=message):
        broken.sample(0)


def test_repeatable_functions_pass_whatever_their_weights_are():
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.activation = lambda x: x
            self.weight = nn.Parameter(torch.rand(3, device="cpu"))

    calls = []

    @untrained.space
    def fine(choose, task):
        calls.append(1)
        return nn.Sequential(nn.LazyLinear(choose("width", [1, 2, 3])), Scaled())

    for seed in range(20):
        fine.sample(seed)
    # Only the first three samples are checked, with four runs each.
    assert len(calls) == 20 + 3 * 4


# ------------------------------------------------------------------------------------------------ Optuna


def test_a_trial_of_optuna_makes_the_choices():
    optuna = pytest.importorskip("optuna", reason="optuna is not installed")
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    @untrained.space
    def stepped(choose, task):
        return nn.Linear(choose.int("width", 1, 10, step=4), len(choose("out", [(1, 2), (3,)])))

    archs = []

    def objective(trial):
        archs.append(ranges.suggest(trial))
        return archs[-1]["ratio"]

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=5)
    assert [dict(arch.genes) for arch in archs] == [trial.params for trial in study.trials]
    assert [ranges.make_arch(arch.genes) for arch in archs] == archs
    distributions = optuna.distributions
    assert study.trials[0].distributions == {
        "width": distributions.IntDistribution(16, 128, step=8),
        "hidden": distributions.IntDistribution(1, 1000, log=True),
        "ratio": distributions.FloatDistribution(0.1, 0.5),
        "rate": distributions.FloatDistribution(1e-5, 1e-1, log=True),
        "share": distributions.FloatDistribution(0.1, 0.3, step=0.1),
    }
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: stepped.suggest(trial)["width"], n_trials=5)
    assert study.trials[0].distributions == {
        "width": distributions.IntDistribution(1, 9, step=4),
        "out": distributions.CategoricalDistribution(["(1,2)", "(3,)"]),
    }


def test_a_lambda_can_stand_for_choose():
    optuna = pytest.importorskip("optuna", reason="optuna is not installed")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = untrained.load_space("mlp")

    def objective(trial):
        build = space.network(
            lambda name, options: trial.suggest_categorical(name, options), space.task
        )
        return sum(parameter.numel() for parameter in build().parameters())

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=3)
    best = Arch("mlp", tuple(study.best_params.items()))
    network = space.build(space.parse(str(best)))
    assert sum(parameter.numel() for parameter in network.parameters()) == study.best_value


def test_a_method_of_choose_that_does_not_exist_names_the_right_one():
    @untrained.space
    def wrong(choose, task):
        return nn.Linear(choose.integer("width", 4, 8), 2)

    message = r"\(test_space_options.py:\d+\): choose has no integer; did you mean choose.int\?"
    with pytest.raises(UsageError, match=message):
        wrong.sample(0)
