"""`untrained score`: a JSON document with `--json`, otherwise a table."""

import json
import re
import sys
from statistics import fmean, stdev

import pytest

from tests.cli.helpers import NONE, PRINTING_FILE, RECORD_KEYS, SKIP, read_usage_error
from untrained.names import make_absolute, parse_call
from untrained.proxies import PROXIES, split_names


def test_score_prints_records_as_json(run_cli):
    code, out, _ = run_cli("score", NONE, SKIP, "--proxy", "dextr,params", "--seeds", "2", "--json")
    rows = json.loads(out)
    assert code == 0
    assert [(row["arch"], row["seed"], row["proxy"]) for row in rows] == [
        (arch, seed, proxy)
        for arch in (NONE, SKIP)
        for seed in (0, 1)
        for proxy in ("dextr", "params")
    ]
    for row in rows:
        assert set(row) >= RECORD_KEYS
        assert (row["value"] is None) != (row["error"] is None)
        assert (row["value"] is None) == (row["proxy"] == "dextr" and row["arch"] == NONE)
    assert {row["error"].partition(":")[0] for row in rows if row["error"]} == {"disconnected"}


def test_score_prints_a_table(run_cli):
    code, out, err = run_cli("score", SKIP, "--proxy", "params,flops")
    assert (code, err) == (0, "")
    assert SKIP in out
    assert re.search(r"params +[\d,]+ *\n", out)
    assert "seeds" not in out


def test_score_with_several_seeds_prints_mean_and_deviation(run_cli):
    code, out, _ = run_cli("score", SKIP, "--proxy", "l2_norm,params", "--seeds", "3")
    assert code == 0
    (line,) = (line.split() for line in out.splitlines() if "l2_norm" in line)
    _, rows, _ = run_cli("score", SKIP, "--proxy", "l2_norm", "--seeds", "3", "--json")
    records = json.loads(rows)
    values = [row["value"] for row in records]
    assert len(set(values)) == 3
    assert [(row["mean"], row["std"], row["n"]) for row in records] == [
        (pytest.approx(fmean(values)), pytest.approx(stdev(values)), 3)
    ] * 3
    assert (float(line[-3]), float(line[-2]), line[-1]) == (
        pytest.approx(fmean(values), rel=1e-5), pytest.approx(stdev(values), rel=1e-2), "3",
    )  # fmt: skip


def test_all_stands_for_every_proxy_that_scores_single_networks(run_cli, project):
    _, out, _ = run_cli(
        "score", "./mine.py:make", "--input-shape", "3x8x8", "--proxy", "all", "--json"
    )
    proxies = [row["proxy"] for row in json.loads(out)]
    assert proxies == [name for name, proxy in PROXIES.items() if not proxy.parts]
    assert len(proxies) > 40


def test_an_aggregate_needs_at_least_two_networks(run_cli):
    other = SKIP.replace("skip_connect~0", "nor_conv_1x1~0")
    code, out, _ = run_cli("score", SKIP, other, "--proxy", "te_nas", "--json")
    assert code == 0
    assert [row["proxy"] for row in json.loads(out)][-2:] == ["te_nas", "te_nas"]
    code, _, err = run_cli("score", SKIP, "--proxy", "te_nas")
    assert code == 2
    assert "give at least two" in err


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_score_exits_with_1_if_nothing_could_be_scored(run_cli, as_json):
    code, out, _ = run_cli("score", NONE, "--proxy", "dextr", *as_json)
    assert code == 1
    assert "disconnected: the output does not change with the input" in out


def test_output_of_user_code_does_not_mix_with_the_json_document(run_cli, project, monkeypatch):
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (project / "printing.py").write_text(PRINTING_FILE)
    code, out, err = run_cli(
        "score", "./printing.py:make", "--input-shape", "3x8x8", "--proxy", "params", "--json"
    )
    assert (code, [row["value"] for row in json.loads(out)]) == (0, [137])
    assert {"loading", "making"} <= set(err.split())


def test_score_a_network_of_the_user(run_cli):
    arguments = ("score", "./mine.py:make", "--input-shape", "3x32x32", "--json")
    code, out, _ = run_cli(*arguments)
    rows = {row["proxy"]: row for row in json.loads(out)}
    assert code == 0
    assert rows["params"]["value"] == 3 * 4 * 9 + 4 + 4 * 5 + 5
    assert rows["flops"]["value"] == 3 * 4 * 9 * 30 * 30 + 4 * 5
    assert rows["dextr"]["value"] > 0
    assert rows["dextr"]["arch"] == "./mine.py:make"
    again = {row["proxy"]: row["value"] for row in json.loads(run_cli(*arguments)[1])}
    assert again == {proxy: row["value"] for proxy, row in rows.items()}


def test_score_an_architecture_of_a_user_space(run_cli):
    code, out, _ = run_cli(
        "score", "width=3", "--space", "./mine.py:mynet", "--proxy", "params", "--json"
    )
    (row,) = json.loads(out)
    classes = int(row["task"].split(":")[2])
    assert (code, row["value"]) == (0, 3 * 27 + 3 + classes * (3 * 36 + 1))


@pytest.mark.parametrize("data", [(), ("--data", "noise")])
def test_classes_sets_the_outputs_of_an_architecture(run_cli, data):
    """Without data, and with noise, any number of classes is possible."""
    command = (
        "score",
        "width=3",
        "--space",
        "./mine.py:mynet",
        "--classes",
        "7",
        "--proxy",
        "params,grad_norm",
    )
    code, out, _ = run_cli(*command, *data, "--json")
    params, norm = json.loads(out)
    assert (code, params["value"]) == (0, 3 * 27 + 3 + 7 * (3 * 36 + 1))
    assert params["task"].split(":")[2] == "7"
    assert norm["value"] > 0


def test_without_data_an_architecture_is_built_as_in_a_search(run_cli):
    """It has ten classes as digits has, although the task of the space has 47."""
    command = (
        "score",
        "64-41414-1_02_333",
        "--space",
        "transnas_micro",
        "--proxy",
        "params",
        "--json",
    )
    rows = [json.loads(run_cli(*command, *more)[1])[0] for more in ((), ("--data", "digits"))]
    assert rows[0]["value"] == rows[1]["value"] > 0


def test_classes_must_match_the_data(run_cli):
    command = ("score", "width=3", "--space", "./mine.py:mynet", "--data", "digits", "--classes")
    assert run_cli(*command, "10", "--proxy", "params")[0] == 0
    message = "networks for digits have 10 outputs, not 7; leave out --classes 7"
    assert message in read_usage_error(run_cli(*command, "7"))


def test_score_with_a_proxy_of_the_user(run_cli):
    names = "./mine.py:spread,params,./mine.py:spread(times=2,plus=1)"
    code, out, _ = run_cli(
        "score", "width=2", "--space", "./mine.py:mynet", "--proxy", names, "--json"
    )
    rows = json.loads(out)
    assert (code, [row["proxy"] for row in rows]) == (
        0,
        ["spread", "params", "spread(plus=1,times=2)"],
    )
    once, _, twice = (row["value"] for row in rows)
    assert once > 0
    assert twice == pytest.approx(2 * once + 1, rel=1e-12)


def test_score_with_a_variant_of_a_proxy(run_cli):
    names = "dextr,dextr(variant=published)"
    code, out, _ = run_cli("score", SKIP, "--proxy", names, "--json")
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
        ("mlp(widths=[8,16]),b", ["mlp(widths=[8,16])", "b"]),
        ("a(x=1,y=(2,3)),b", ["a(x=1,y=(2,3))", "b"]),
        ("./it's/mine.py:net,params", ["./it's/mine.py:net", "params"]),
        ("./it's/mine.py:net(a='x,y'),params", ["./it's/mine.py:net(a='x,y')", "params"]),
        (" a ", ["a"]),
        (",", []),
    ],
)
def test_commas_in_brackets_do_not_separate_proxies(text, names):
    assert split_names(text) == names


def test_options_may_be_lists_and_tuples():
    assert parse_call("mlp(widths=[8,16])") == ("mlp", {"widths": [8, 16]})
    assert parse_call("mlp(a=1,widths=(8,16),b=2)") == ("mlp", {"a": 1, "widths": (8, 16), "b": 2})


@pytest.mark.parametrize(
    ("text", "base", "options"),
    [
        ("./nets (1)/mine.py:net", "./nets (1)/mine.py:net", {}),
        ("./nets (1)/mine.py:net(depth=2)", "./nets (1)/mine.py:net", {"depth": 2}),
        ("./a(b)/it's/mine.py:net (sizes=(1,2))", "./a(b)/it's/mine.py:net", {"sizes": (1, 2)}),
        ("mine:net(bracket=')')", "mine:net", {"bracket": ")"}),
    ],
)
def test_a_folder_may_contain_brackets(text, base, options):
    assert parse_call(text) == (base, options)


def test_a_path_in_a_folder_with_brackets_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options in ("", "(depth=2)", "(data=a/../b:c)"):
        expected = f"{tmp_path}/nets (1)/mine.py:net{options}"
        assert make_absolute(f"./nets (1)/mine.py:net{options}") == expected
    assert make_absolute("naswot(samples=8)") == "naswot(samples=8)"


def test_the_error_of_a_forward_pass_is_printed_literally(run_cli):
    """Square brackets in the message are not markup."""
    code, out, _ = run_cli("score", "./mine.py:Fussy", "--input-shape", "3x8x8", "--proxy", "dextr")
    assert code == 1
    assert "error: ValueError: [/bold] wants [batch, channels] (forward, line" in out


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_a_wrong_input_shape_of_one_network_is_a_usage_error(run_cli, as_json):
    message = read_usage_error(
        run_cli(
            "score", "./mine.py:make", "--input-shape", "1x8x8", "--proxy", "flops,params", *as_json
        )
    )
    assert (
        "error: ./mine.py:make fails on inputs of shape 1x8x8: Given groups=1, weight of size [4, 3, 3, 3], expected"
        in message
    )


def test_a_wrong_input_shape_of_one_network_among_several_is_a_failure(run_cli, project):
    (project / "models.py").write_text(
        "from torch import nn\ndef flat():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 5))\n"
    )
    command = ("score", "--input-shape", "1x8x8", "--proxy", "flops")
    code, out, _ = run_cli(*command, "./mine.py:make", "./models.py:flat", "--json")
    assert (code, [row["value"] for row in json.loads(out)]) == (0, [None, 64 * 5])
    code, out, _ = run_cli(*command, "--rank", "./models.py", "./mine.py:make", "--json")
    assert (code, [row["flops"] for row in json.loads(out)]) == (0, [64 * 5, None])


def test_a_factory_that_is_named_twice_gives_two_networks(run_cli):
    factory = "./mine.py:make"
    code, out, _ = run_cli(
        "score", factory, factory, "--input-shape", "3x8x8", "--proxy", "params,te_nas", "--json"
    )
    assert code == 0
    names = [
        (row["arch"], row["proxy"])
        for row in json.loads(out)
        if row["proxy"] in ("params", "te_nas")
    ]
    assert sorted(names) == [
        (factory, "params"), (factory, "te_nas"), (f"{factory}#2", "params"), (f"{factory}#2", "te_nas"),
    ]  # fmt: skip
