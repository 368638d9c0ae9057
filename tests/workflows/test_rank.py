"""Rankings of a user's networks: all factories in a file, and networks of timm."""

import sys
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from textwrap import dedent
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

import untrained as ut
from untrained.errors import UsageError
from untrained.proxies import load_proxy, proxy
from untrained.proxies.base import list_members
from untrained.proxies.consensus import MEMBERS
from untrained.runs.aggregates import compute_aggregates
from untrained.types import Arch, Record, ScoreRequest, Task
from untrained.workflows import timm_models as zoo
from untrained.workflows.rank import ModelRanking, rank
from untrained.workflows.score import score_networks

MODELS = """
    from functools import partial
    from torch import nn
    from torch.nn import *

    calls = []

    def net(width):
        return nn.Sequential(nn.Flatten(), nn.Linear(12, width), nn.ReLU(), nn.Linear(width, 4))

    def small():
        return net(3)

    def large(width=8):
        return net(width)

    class Middle(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 4))

    def broken():
        raise ValueError("no such file: weights.bin\\nmore")

    def helper():
        calls.append("helper")
        return 3

    def main():
        raise SystemExit("a script, not a factory")

    def _hidden():
        return net(100)

    widest = partial(net, 200)
"""


@proxy(higher_is_better=False)
def count_params_inverted(probe):
    """The number of parameters; fewer are better."""
    return float(probe.params)


def count_params(width: int) -> int:
    return 13 * width + 4 * width + 4


@pytest.fixture
def models_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "models.py").write_text(dedent(MODELS))
    return "./models.py"


def test_all_factories_of_a_file_are_ranked(models_file):
    ranking = rank([models_file], ["params"], "noise", input_shape=(3, 2, 2))
    rows = ranking.rows()
    assert [(row["place"], row["arch"], row["params"]) for row in rows[:4]] == [
        (1, f"{models_file}:widest", count_params(200)),
        (2, f"{models_file}:large", count_params(8)),
        (3, f"{models_file}:Middle", count_params(5)),
        (4, f"{models_file}:small", count_params(3)),
    ]
    message = "ValueError: no such file: weights.bin"
    assert rows[4:] == [
        {
            "place": None,
            "arch": f"{models_file}:broken",
            "params": None,
            "flops": None,
            "low": None,
            "high": None,
            "tied": None,
            "error": message,
        }
    ]
    assert ranking.find_best(ranking.proxies[0]) == f"{models_file}:widest"


def test_the_first_proxy_decides_and_sizes_are_shown_too(models_file):
    ranking = rank([models_file], ["grad_norm", "params"], "noise", input_shape=(3, 2, 2), seeds=2)
    assert [proxy.label for proxy in ranking.proxies] == ["grad_norm", "params", "flops"]
    by_hand: dict[str, list[float]] = {}
    names = [f"{models_file}:{name}" for name in ("small", "large", "Middle", "widest")]
    for record in score_networks(names, ["grad_norm"], "noise", input_shape=(3, 2, 2), seeds=2):
        by_hand.setdefault(str(record.arch), []).append(record.value)
    means = {name: sum(values) / 2 for name, values in by_hand.items()}
    rows = ranking.rows()[:4]
    assert [row["arch"] for row in rows] == sorted(means, key=means.get, reverse=True)
    assert [row["grad_norm"] for row in rows] == pytest.approx(sorted(means.values(), reverse=True))
    down = rank([models_file], [count_params_inverted], "noise", input_shape=(3, 2, 2)).rows()[:4]
    assert [row["count_params_inverted"] for row in down] == [
        count_params(3),
        count_params(5),
        count_params(8),
        count_params(200),
    ]


def test_a_network_with_too_few_outputs_has_no_rank(models_file):
    """The network has 4 outputs, which is enough for 3 and for 4 classes."""
    for classes, message in (
        (3, None),
        (4, None),
        (5, "unsupported: the network has 4 outputs for 5 classes"),
    ):
        rows = rank(
            [f"{models_file}:small"], ["params"], input_shape=(3, 2, 2), num_classes=classes
        ).rows()
        assert (rows[0]["error"] or "").startswith(message or "")
        assert (rows[0]["params"] is None) == (message is not None)


def test_single_factories_of_a_file_are_ranked(models_file):
    ranking = rank(
        [f"{models_file}:small", f"{models_file}:large"], ["params"], "noise", input_shape=(3, 2, 2)
    )
    assert [row["arch"] for row in ranking.rows()] == [
        f"{models_file}:large",
        f"{models_file}:small",
    ]


def test_a_file_without_networks_is_refused(tmp_path):
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match=r"no function in .*empty.py makes a network"):
        rank([str(tmp_path / "empty.py")])
    with pytest.raises(UsageError, match="there is no file"):
        rank([str(tmp_path / "absent.py")])


def test_the_arguments_may_be_single_objects_as_for_score(models_file):
    expected = rank([models_file], ["params"], "noise", input_shape=(3, 2, 2)).rows()
    file = Path(models_file)
    for networks in (file, [file]):
        rows = rank(networks, "params", "noise", input_shape=(3, 2, 2)).rows()
        assert [row["params"] for row in rows] == [row["params"] for row in expected]


@pytest.mark.parametrize(
    ("networks", "proxies", "options", "message"),
    [
        ([], ["params"], {}, "there is nothing to rank: give modules, architectures, or 'file.py'"),
        (5, ["params"], {}, "give a module, an architecture, or"),
        ([nn.Linear(3, 2)], 5, {}, "proxies is 5; give names, such as"),
        ([nn.Linear(3, 2)], [], {}, "name at least one proxy"),
        ([nn.Linear(3, 2)], ["params"], {"seed": 3}, "no option of rank is called 'seed'"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(networks, proxies, options, message):
    with pytest.raises(UsageError, match=message):
        rank(networks, proxies, **options)


def test_the_error_of_a_function_is_shown_if_all_functions_fail(tmp_path):
    file = tmp_path / "bad.py"
    file.write_text("def net():\n    raise ValueError('no gpu')\n")
    with pytest.raises(UsageError, match=r"bad.py:net raised ValueError: no gpu$"):
        rank(str(file), ["params"])


def test_a_baseline_that_is_also_named_is_scored_once(models_file):
    names = [f"{models_file}:small", f"{models_file}:large"]
    ranking = rank(names, [load_proxy("params")], "noise", input_shape=(3, 2, 2))
    assert [proxy.label for proxy in ranking.proxies] == ["params", "flops"]
    assert len(ranking.records) == 4
    assert [row["low"] for row in ranking.rows()] == [None, None]


def test_a_partial_without_a_signature_is_no_factory(tmp_path):
    file = tmp_path / "partials.py"
    file.write_text(
        "from functools import partial\n"
        "from torch import nn\n"
        "options = partial(dict, a=1)\n"
        "net = partial(nn.Linear, 12, 4)\n"
    )
    rows = rank(str(file), ["params"], "noise", input_shape=(12,)).rows()
    assert [(row["arch"], row["params"]) for row in rows] == [(f"{file}:net", 12 * 4 + 4)]


# -------------------------------------------------------------------------------------- consensus


def make_network(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4)
    )


def make_networks(*widths: int) -> list[nn.Module]:
    networks = []
    for width in widths:
        torch.manual_seed(width)
        network = make_network(width)
        network(torch.zeros(2, 3, 8, 8))
        networks.append(network)
    return networks


def test_networks_are_ranked_by_consensus(models_file):
    ranking = ut.rank(make_networks(2, 8, 32), input_shape=(3, 8, 8))
    assert [proxy.label for proxy in ranking.proxies] == ["consensus", "params", "flops"]
    rows = ranking.rows()
    assert [row["place"] for row in rows] == [1, 2, 3]
    for row in rows:
        assert row["low"] <= row["consensus"] <= row["high"]
    assert not rows[0]["tied"]
    # The members agree that the smallest is the last: it is last in every draw of members.
    assert rows[2]["params"] == min(row["params"] for row in rows)


def make_member_records(values: dict[str, list[float]]) -> tuple[Record, ...]:
    """Records of the members of `consensus` for networks net0, net1, ..."""
    records = []
    for part in list_members(load_proxy("consensus")):
        for index, value in enumerate(values[part.label]):
            arch = Arch("toy", (("index", index),), f"net{index}")
            request = ScoreRequest(arch, part.measure, Task("noise", (3, 8, 8), 10), 0)
            records.append(Record.of(request, value))
    return (*records, *compute_aggregates(records, load_proxy("consensus")))


def test_networks_that_all_members_tell_apart_are_not_tied():
    values = {member: [3.0, 2.0, 1.0] for member in MEMBERS}
    ranking = ModelRanking((load_proxy("consensus"),), make_member_records(values), ())
    rows = ranking.rows()
    assert [row["arch"] for row in rows] == ["net0", "net1", "net2"]
    assert [row["tied"] for row in rows] == [False, False, False]
    # All members have the same percentile, whichever are drawn.
    assert [row["low"] for row in rows] == pytest.approx([3 / 4, 2 / 4, 1 / 4])
    assert [row["high"] for row in rows] == pytest.approx([3 / 4, 2 / 4, 1 / 4])
    assert ranking.describe_certainty() == [
        "3 networks are too few to tell how far the 8 proxies of consensus agree."
    ]


def test_networks_that_members_disagree_about_are_tied():
    """Five of eight members prefer net0 to net1; all prefer both to net2."""
    values: dict[str, list[float]] = {}
    for index, member in enumerate(MEMBERS):
        values[member] = [3.0, 2.0, 1.0] if index < 5 else [2.0, 3.0, 1.0]
    ranking = ModelRanking((load_proxy("consensus"),), make_member_records(values), ())
    rows = ranking.rows()
    assert [row["arch"] for row in rows] == ["net0", "net1", "net2"]
    assert [row["tied"] for row in rows] == [False, True, False]
    assert (
        ranking.describe_certainty()[0]
        == "= 1 network is not significantly worse than the best (95 %)"
    )


def test_seeds_give_the_interval_of_another_proxy(models_file):
    ranking = rank([models_file], ["grad_norm"], "noise", input_shape=(3, 2, 2), seeds=3)
    values: dict[str, list[float]] = {}
    for record in ranking.records:
        if record.proxy == "grad_norm":
            values.setdefault(str(record.arch), []).append(record.value)
    for row in ranking.rows():
        if row["place"]:
            mean = fmean(values[row["arch"]])
            # 4.303 is the 97.5 % quantile of the t distribution with 2 degrees of freedom.
            margin = 4.303 * stdev(values[row["arch"]]) / sqrt(3)
            assert (row["low"], row["high"]) == pytest.approx(
                (mean - margin, mean + margin), rel=1e-3
            )
    one_seed = rank([models_file], ["grad_norm"], "noise", input_shape=(3, 2, 2))
    assert all(row["tied"] is None for row in one_seed.rows())


def test_one_network_cannot_be_compared(models_file):
    with pytest.raises(UsageError, match="consensus compares networks with each other; give at"):
        rank(f"{models_file}:small", input_shape=(3, 2, 2))


# ------------------------------------------------------------------------------------------------------------ timm


@pytest.fixture
def timm(monkeypatch):
    """A fake timm with three networks; the one called tall has taller images."""

    def create_model(name: str, pretrained: bool, num_classes: int = 1000) -> nn.Module:
        assert not pretrained
        size = (3, 6, 4) if name == "tall" else (3, 4, 4)
        network = nn.Sequential(nn.Flatten(), nn.Linear(size[0] * size[1] * size[2], num_classes))
        network.default_cfg = {"input_size": size}
        return network

    fake = ModuleType("timm")
    fake.create_model = create_model
    fake.list_models = lambda: ["flat_a", "flat_b", "tall"]
    monkeypatch.setitem(sys.modules, "timm", fake)
    zoo.get_timm_input_shape.cache_clear()
    yield SimpleNamespace(create=create_model)
    zoo.get_timm_input_shape.cache_clear()


def test_networks_of_timm_have_their_own_input_shape(timm):
    (record,) = score_networks("timm:tall", "params", "noise")
    assert (record.value, record.task.input_shape, record.task.num_classes) == (
        3 * 6 * 4 * 1000 + 1000,
        (3, 6, 4),
        1000,
    )
    (record,) = score_networks("timm:flat_a", "params", "digits")
    assert record.value == 3 * 4 * 4 * 10 + 10  # as many outputs as the data have classes


def test_a_pattern_selects_all_matching_networks(timm):
    assert [row["arch"] for row in rank(["timm:flat*"], ["params"], "noise").rows()] == [
        "timm:flat_a",
        "timm:flat_b",
    ]
    assert next(row["arch"] for row in rank(["timm:*"], ["params"], "noise").rows()) == "timm:tall"


def test_the_error_for_an_unknown_timm_network_lists_close_names(timm):
    with pytest.raises(UsageError, match="no timm model is called 'flat_c'; did you mean flat_"):
        score_networks("timm:flat_c", "params")
    with pytest.raises(UsageError, match=r"no timm model is called 'vit\*'"):
        rank(["timm:vit*"])


def test_without_timm_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UsageError, match="timm is not installed: pip install timm"):
        score_networks("timm:resnet18", "params")
