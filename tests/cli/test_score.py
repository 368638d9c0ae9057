"""`untrained score`: one document under --json, a table otherwise."""

import json
import re
import sys
from statistics import fmean, stdev

import pytest

from tests.cli.helpers import CHATTY, NONE, RECORD, SKIP, wrong
from untrained.proxies import PROXIES, split_names


def test_score_prints_one_document_of_records(untrained_):
    code, out, _ = untrained_("score", NONE, SKIP, "--proxy", "dextr,params", "--seeds", "2", "--json")
    rows = json.loads(out)
    assert code == 0
    assert [(row["arch"], row["seed"], row["proxy"]) for row in rows] == [
        (arch, seed, proxy) for arch in (NONE, SKIP) for seed in (0, 1) for proxy in ("dextr", "params")
    ]
    for row in rows:
        assert set(row) >= RECORD
        assert (row["value"] is None) != (row["error"] is None)
        assert (row["value"] is None) == (row["proxy"] == "dextr" and row["arch"] == NONE)
    assert {row["error"].partition(":")[0] for row in rows if row["error"]} == {"disconnected"}


def test_score_prints_a_table(untrained_):
    code, out, err = untrained_("score", SKIP, "--proxy", "params,flops")
    assert (code, err) == (0, "")
    assert SKIP in out
    assert re.search(r"params +[\d,]+ *\n", out)
    assert "seeds" not in out


def test_score_over_several_seeds_tells_mean_and_deviation(untrained_):
    code, out, _ = untrained_("score", SKIP, "--proxy", "l2_norm,params", "--seeds", "3")
    assert code == 0
    (line,) = (line.split() for line in out.splitlines() if "l2_norm" in line)
    _, rows, _ = untrained_("score", SKIP, "--proxy", "l2_norm", "--seeds", "3", "--json")
    found = json.loads(rows)
    values = [row["value"] for row in found]
    assert len(set(values)) == 3  # three initialisations
    assert [(row["mean"], row["std"], row["n"]) for row in found] == [
        (pytest.approx(fmean(values)), pytest.approx(stdev(values)), 3)
    ] * 3
    assert (float(line[-3]), float(line[-2]), line[-1]) == (
        pytest.approx(fmean(values), rel=1e-5), pytest.approx(stdev(values), rel=1e-2), "3",
    )  # fmt: skip


def test_all_means_every_proxy_that_judges_a_network_alone(untrained_, project):
    _, out, _ = untrained_("score", "./mine.py:make", "--input-shape", "3x8x8", "--proxy", "all", "--json")
    named = [row["proxy"] for row in json.loads(out)]
    assert named == [name for name, p in PROXIES.items() if not p.parts]
    assert len(named) > 40


def test_an_aggregate_compares_networks(untrained_):
    other = SKIP.replace("skip_connect~0", "nor_conv_1x1~0")
    code, out, _ = untrained_("score", SKIP, other, "--proxy", "te_nas", "--json")
    assert code == 0
    assert [row["proxy"] for row in json.loads(out)][-2:] == ["te_nas", "te_nas"]
    code, _, err = untrained_("score", SKIP, "--proxy", "te_nas")
    assert (code, "give at least two" in err) == (2, True)


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_nothing_scored_is_exit_code_1(untrained_, as_json):
    code, out, _ = untrained_("score", NONE, "--proxy", "dextr", *as_json)
    assert code == 1
    assert "disconnected: the output does not change with the input" in out


def test_what_the_users_own_code_prints_does_not_spoil_the_document(untrained_, project, monkeypatch):
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (project / "chatty.py").write_text(CHATTY)
    code, out, err = untrained_("score", "./chatty.py:make", "--input-shape", "3x8x8", "--proxy", "params", "--json")
    assert (code, [row["value"] for row in json.loads(out)]) == (0, [137])
    assert {"loading", "making"} <= set(err.split())


def test_score_a_network_of_the_users_own(untrained_):
    arguments = ("score", "./mine.py:make", "--input-shape", "3x32x32", "--json")
    code, out, _ = untrained_(*arguments)
    rows = {row["proxy"]: row for row in json.loads(out)}
    assert code == 0
    assert rows["params"]["value"] == 3 * 4 * 9 + 4 + 4 * 5 + 5
    assert rows["flops"]["value"] == 3 * 4 * 9 * 30 * 30 + 4 * 5
    assert rows["dextr"]["value"] > 0
    assert rows["dextr"]["arch"] == "./mine.py:make"
    again = {row["proxy"]: row["value"] for row in json.loads(untrained_(*arguments)[1])}
    assert again == {proxy: row["value"] for proxy, row in rows.items()}


def test_score_an_architecture_of_the_users_own_space(untrained_):
    code, out, _ = untrained_("score", "width=3", "--space", "./mine.py:mynet", "--proxy", "params", "--json")
    (row,) = json.loads(out)
    classes = int(row["task"].split(":")[2])
    assert (code, row["value"]) == (0, 3 * 27 + 3 + classes * (3 * 36 + 1))


@pytest.mark.parametrize("data", [(), ("--data", "noise")])
def test_an_architecture_is_built_for_as_many_classes_as_were_asked_for(untrained_, data):
    """Data that nobody named, and noise, have as many."""
    command = ("score", "width=3", "--space", "./mine.py:mynet", "--classes", "7", "--proxy", "params,grad_norm")
    code, out, _ = untrained_(*command, *data, "--json")
    params, norm = json.loads(out)
    assert (code, params["value"]) == (0, 3 * 27 + 3 + 7 * (3 * 36 + 1))
    assert params["task"].split(":")[2] == "7"
    assert norm["value"] > 0


def test_without_data_an_architecture_is_the_network_that_a_search_judges(untrained_):
    """On digits, which have ten classes, though the space is known for 47."""
    command = ("score", "64-41414-1_02_333", "--space", "transnas_micro", "--proxy", "params", "--json")
    rows = [json.loads(untrained_(*command, *more)[1])[0] for more in ((), ("--data", "digits"))]
    assert rows[0]["value"] == rows[1]["value"] > 0


def test_data_that_have_their_own_classes_do_not_take_others(untrained_):
    command = ("score", "width=3", "--space", "./mine.py:mynet", "--data", "digits", "--classes")
    assert untrained_(*command, "10", "--proxy", "params")[0] == 0
    told = "networks for digits answer with 10 numbers, not 7; leave out --classes 7"
    assert told in wrong(untrained_(*command, "7"))


def test_a_proxy_of_the_users_own(untrained_):
    names = "./mine.py:spread,params,./mine.py:spread(times=2,plus=1)"
    code, out, _ = untrained_("score", "width=2", "--space", "./mine.py:mynet", "--proxy", names, "--json")
    rows = json.loads(out)
    assert (code, [row["proxy"] for row in rows]) == (0, ["spread", "params", "spread(plus=1,times=2)"])
    once, _, twice = (row["value"] for row in rows)
    assert once > 0
    assert twice == pytest.approx(2 * once + 1, rel=1e-12)


def test_a_variant_of_a_proxy(untrained_):
    names = "dextr,dextr(variant=published)"
    code, out, _ = untrained_("score", SKIP, "--proxy", names, "--json")
    default, published = json.loads(out)
    assert code == 0
    assert (default["proxy"], published["proxy"]) == tuple(names.split(","))
    assert default["measure"] != published["measure"]
    assert default["value"] != published["value"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", ["a", "b"]),
        ("a, b", ["a", "b"]),
        ("a(x=1,y=2),b", ["a(x=1,y=2)", "b"]),
        ("./m.py:a(x=1, y=2), b(z=3)", ["./m.py:a(x=1, y=2)", "b(z=3)"]),
        (" a ", ["a"]),
        (",", []),
    ],
)
def test_commas_inside_brackets_do_not_separate(text, names):
    assert split_names(text) == names


def test_a_model_whose_forward_fails_is_told_word_for_word(untrained_):
    """Its message is theirs: what looks like markup in it is neither obeyed nor swallowed."""
    code, out, _ = untrained_("score", "./mine.py:Fussy", "--input-shape", "3x8x8", "--proxy", "dextr")
    assert code == 1
    assert "error: ValueError: [/bold] wants [batch, channels] (forward, line" in out


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_a_network_that_cannot_read_the_shape_is_told_in_one_line(untrained_, as_json):
    told = wrong(untrained_("score", "./mine.py:make", "--input-shape", "1x8x8", "--proxy", "flops,params", *as_json))
    assert "error: ./mine.py:make cannot read 1x8x8: Given groups=1, weight of size [4, 3, 3, 3], expected" in told


def test_among_many_a_network_that_cannot_read_the_shape_is_a_failure(untrained_, project):
    (project / "models.py").write_text(
        "from torch import nn\ndef flat():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 5))\n"
    )
    command = ("score", "--input-shape", "1x8x8", "--proxy", "flops")
    code, out, _ = untrained_(*command, "./mine.py:make", "./models.py:flat", "--json")
    assert (code, [row["value"] for row in json.loads(out)]) == (0, [None, 64 * 5])
    code, out, _ = untrained_(*command, "--rank", "./models.py", "./mine.py:make", "--json")
    assert (code, [row["flops"] for row in json.loads(out)]) == (0, [64 * 5, None])


def test_a_factory_that_is_named_twice_is_two_networks(untrained_):
    factory = "./mine.py:make"
    code, out, _ = untrained_("score", factory, factory, "--input-shape", "3x8x8", "--proxy", "params,te_nas", "--json")
    assert code == 0
    names = [(row["arch"], row["proxy"]) for row in json.loads(out) if row["proxy"] in ("params", "te_nas")]
    assert sorted(names) == [
        (factory, "params"), (factory, "te_nas"), (f"{factory}#2", "params"), (f"{factory}#2", "te_nas"),
    ]  # fmt: skip
