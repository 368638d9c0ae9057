"""The command line and the public page: frozen names, one document under --json, one line for what is wrong."""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, stdev
from textwrap import dedent
from typing import Any

import pytest
from typer.main import get_command

import untrained
from untrained.cli import app, main
from untrained.engine import Store
from untrained.proxies import PROXIES, split_names

NONE = "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|"
SKIP = NONE.replace("none", "skip_connect")
MINE = """
    from torch import nn
    import untrained

    @untrained.space(task=untrained.Task("noise", (3, 8, 8), 4))
    def mynet(choose, task):
        width = choose("width", (2, 3, 4))
        return nn.Sequential(nn.Conv2d(3, width, 3), nn.Tanh(), nn.Flatten(), nn.Linear(width * 36, task.num_classes))

    @untrained.proxy(higher_is_better=False)
    def spread(probe, times=1, plus=0):
        \"\"\"How far the outputs lie apart.\"\"\"
        return times * float(probe.outputs.max() - probe.outputs.min()) + plus

    @untrained.proxy()
    def broken(probe):
        return proob.outputs

    def make():
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))

    def boom():
        raise ValueError("no weights here")

    def stop():
        raise KeyboardInterrupt

    class Fussy(nn.Module):
        def forward(self, x):
            raise ValueError("[/bold] wants [batch, channels]")

    @untrained.space
    def faulty(choose, task):
        return nn.Linear(choose("width", (2, 3)), 1 / 0)
"""
CHATTY = "print('loading')\nfrom mine import make as quiet\ndef make():\n    print('making')\n    return quiet()\n"
Answer = tuple[int, str, str]


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """The folder of a user, with a file of theirs."""
    (tmp_path / "mine.py").write_text(dedent(MINE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.fixture
def untrained_(project, monkeypatch, capsys) -> Callable[..., Answer]:
    """`untrained ARGUMENTS`, in this process: exit code, standard output, error stream."""
    monkeypatch.setenv("COLUMNS", "160")

    def call(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["untrained", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code or 0
        assert isinstance(code, int)
        return code, *capsys.readouterr()

    return call


def wrong(answer: Answer) -> str:
    """The one line that answers a wrong request."""
    code, out, err = answer
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


# ---------------------------------------------------------------------------------------------------- frozen names

COMMANDS = {
    "search": "--space --proxy --strategy --budget --data --seed --seeds --device --run --data-root --json",
    "score": "what --proxy --space --input-shape --classes --data --seeds --device --data-root --json",
    "list": "what --json",
    "report": "folder --json",
    "data import": "name path --data-root --json",
}
PUBLIC = "score search report load_space space proxy Probe Arch Batch Record Task"


def commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """All commands by what is typed, those of groups too."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


def test_the_command_line_is_frozen():
    """Scripts depend on these names: adding is fine (add it here), renaming and removing are not."""
    options = {name: {opt for p in command.params for opt in p.opts} for name, command in commands(get_command(app))}
    assert options == {name: set(text.split()) for name, text in COMMANDS.items()}


def test_the_public_page_is_frozen_and_every_name_on_it_resolves():
    assert set(untrained.__all__) == set(PUBLIC.split())
    assert len(untrained.__all__) <= 15
    for name in untrained.__all__:
        assert getattr(untrained, name).__name__ == name
        assert name in dir(untrained)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = untrained.nonsense


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_a_command_does_and_shows_an_example_that_can_be_typed(untrained_, name):
    code, out, _ = untrained_(*name.split(), "--help")
    assert code == 0
    text = " ".join(out.split())
    for option in COMMANDS[name].split():
        assert option in text
    (example,) = re.findall(rf"Example: untrained {name} (.*?) ╭", text)
    assert set(re.findall(r"--[a-z-]+", example)) <= set(COMMANDS[name].split())
    assert " " + dict(commands(get_command(app)))[name].help.partition(".")[0] in " " + text


def test_help_tells_the_defaults_that_are_not_plain_values(untrained_):
    """Square brackets are markup to the library that draws the help: a default written with them would vanish."""
    text = " ".join(untrained_("score", "--help")[1].replace("│", " ").split())
    assert re.search(r"npz:PATH\. \[default: \(\w+", text)
    assert "[default: ($UNTRAINED_DATA or the cache)]" in text
    assert "[default: (the network's outputs)]" in text


# ----------------------------------------------------------------------------------------------------- light door

HELP = "import sys; sys.argv = ['untrained', '--help']\ntry:\n import untrained.cli; untrained.cli.main()\nfinally: "
LOADED = "print(*sys.modules, file=sys.stderr)"


@pytest.mark.parametrize("code", ["import sys, untrained; ", HELP])
def test_the_door_is_light(code):
    """Half a second for `import untrained` and `untrained --help`, in processor time, which other processes leave
    alone; and neither torch nor anything else that is heavy."""
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", code + LOADED], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        loaded = set(done.stderr.split())
        assert "untrained" in loaded
        assert not loaded & {"torch", "numpy", "pandas", "scipy", "sklearn", "PIL"}
        if min(seconds) < 0.5:
            break
    assert min(seconds) < 0.5


def test_the_program_is_installed_and_answers():
    program = Path(sys.executable).parent / "untrained"
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    assert all(name.split()[0] in done.stdout for name in COMMANDS)
    assert "untrained search" in done.stdout


# ------------------------------------------------------------------------------------------------------------ list


@pytest.mark.parametrize(
    ("what", "some"),
    [
        ("spaces", {"nasbench201"}),
        ("proxies", {"dextr", "dextr_conditions", "dextr_curvature", "params", "flops"}),
        ("strategies", {"random"}),
        ("datasets", {"noise", "photos", "digits", "cifar10", "npz"}),
        ("benchmarks", {"nasbench201", "nasbench101", "nasbench1shot1_s1", "nasbench301", "darts1000", "transnas"}),
    ],
)
def test_list(untrained_, what, some):
    code, out, _ = untrained_("list", what, "--json")
    rows = json.loads(out)
    assert (code, isinstance(rows, list)) == (0, True)
    assert some <= {row["name"] for row in rows}
    assert all(row["about"] for row in rows)
    code, out, _ = untrained_("list", what)
    assert code == 0
    assert all(row["name"] in out for row in rows)
    everything = json.loads(untrained_("list", "--json")[1])
    assert everything[what] == rows


# ----------------------------------------------------------------------------------------------------------- score

RECORD = {"arch", "proxy", "value", "error", "seed", "space", "measure", "task", "data", "build_seconds"}


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
    assert "disconnected: the output does not move with the input" in out


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


# ---------------------------------------------------------------------------------------------------------- search

SEARCH = ("search", "--space", "./mine.py:mynet", "--data", "noise", "--budget", "3", "--run", "run")


def test_search_prints_one_document_of_records_and_leaves_a_report(untrained_, project):
    code, out, _ = untrained_(*SEARCH, "--proxy", "./mine.py:spread", "--json")
    rows = json.loads(out)
    assert code == 0
    assert len(rows) == 3 * 3
    assert all(set(row) >= RECORD for row in rows)
    assert {row["proxy"] for row in rows} == {"spread", "params", "flops"}
    with Store(project / "run" / "records.sqlite") as store:
        kept = json.loads(json.dumps([record.row() for record in store]))
        assert [{key: row[key] for key in kept[0]} for row in rows] == kept
    assert all((row["mean"], row["std"], row["n"]) == (row["value"], None, 1) for row in rows)
    assert "--proxy ./mine.py:spread" in (project / "run" / "report.html").read_text()  # what can be typed again
    assert untrained_(*SEARCH, "--proxy", "./mine.py:spread", "--json") == (0, out, "")  # seconds and all: it resumed


def test_search_shows_the_best_first_and_its_progress_on_the_other_stream(untrained_):
    code, out, err = untrained_(*SEARCH, "--proxy", "./mine.py:spread", "--seeds", "2")
    assert code == 0
    assert "3/3" in err
    assert "3/3" not in out
    assert "The best 3 of 3 by ./mine.py:spread (lower is better)" in out
    assert "± 95 %" in out
    rows = [line.split() for line in out.splitlines() if "width=" in line and not line.startswith("best:")]
    rows = [row[1:] if row[0] == "=" else row for row in rows]  # what two seeds cannot tell from the best
    assert [row[0] for row in rows] == ["1", "2", "3"]
    scores = [float(row[1]) for row in rows]
    assert scores == sorted(scores)
    assert f"best: {rows[0][-1]}\n" in out
    assert out.rstrip().endswith("report: run/report.html")


def test_a_search_that_finds_nothing_says_why(untrained_, project):
    code, out, _ = untrained_(*SEARCH, "--proxy", "./mine.py:broken")
    assert code == 1
    assert "nothing could be scored" in out
    assert "no score for 3 of 3: 3 error (NameError: name 'proob' is not defined (broken, line" in out
    assert (project / "run" / "report.html").exists()


def test_report_writes_the_page_anew(untrained_, project):
    untrained_(*SEARCH, "--proxy", "params")
    (project / "run" / "report.html").unlink()
    assert untrained_("report", "run")[:2] == (0, "report: run/report.html\n")
    assert (project / "run" / "report.html").exists()
    assert json.loads(untrained_("report", "run", "--json")[1]) == {"report": "run/report.html"}


# ------------------------------------------------------------------------------------------------- what is wrong

WRONG = {
    "list proxys": "no list is called 'proxys'; did you mean proxies?",
    "score ARCH --proxy dexter": "no proxy is called 'dexter'; did you mean dextr",
    "score ARCH --proxy zzz": "no proxy is called 'zzz'; there are: az_expressivity, az_nas",
    "score ARCH --proxy ,": "at least one proxy, such as dextr",
    "score ARCH --proxy dextr(variant=fast)": "no variant 'fast'; there are: default, published",
    "score ARCH --proxy dextr(varian=published)": "no option of dextr is called 'varian'; did you mean variant?",
    "score ARCH --proxy dextr(published)": "write options as name=value, such as dextr(variant=published)",
    "score ARCH --proxy params(x=1)": "no option of params is called 'x'; there are: samples",
    "score ARCH --proxy ./mine.py:make": "is not a proxy; put @untrained.proxy(...) above the function",
    "score ARCH --proxy ./mine.py:spred": "is called 'spred'; did you mean spread?",
    "score ARCH --space nasbench": "no space is called 'nasbench'; did you mean nasbench201 or nasbench101",
    "score ARCH --data cifar": "no data set is called 'cifar'; did you mean cifar10?",
    "score ARCH --device gpu": "device 'gpu' cannot be used on this machine; try cpu",
    "score ./mine.py:make": "say what ./mine.py:make takes as input: --input-shape 3x224x224",
    "score ./mine.py:make --input-shape 3,32,32": "impossible input shape '3,32,32'; write channels x height x width",
    "score ./mine.py:make --input-shape 3x0x32": "impossible input shape '3x0x32'",
    "score ./mine.py:make --input-shape 3x-1x32": "impossible input shape '3x-1x32'",
    "score ./mine.py:make --input-shape ³x32": "impossible input shape '³x32'",
    "score ./mine.py:make --input-shape 3x9999999x9999999": "do not fit into memory",
    "score ./yours.py:make --input-shape 3x8x8": "there is no file yours.py",
    "score width=9 --space ./mine.py:mynet": "'width' is 9, but it can only be one of 2, 3, 4",
    "search --space nasbench202": "no space is called 'nasbench202'; did you mean nasbench201 or ",
    "search --space ./mine.py:make": "is not a space; put @untrained.space above the function",
    "search --proxy dextre": "no proxy is called 'dextre'; did you mean dextr",
    "search --strategy randm": "no strategy is called 'randm'; did you mean random?",
    "search --data nois": "no data set is called 'nois'; did you mean noise?",
    "search --data npz:": "say which file: npz:PATH",
    "search --data npz:./absent.npz": "there is no file absent.npz",
    "search --device cuda:77": "device 'cuda:77' cannot be used on this machine; try cpu",
    "search --run mine.py": "mine.py cannot be used as a run folder",
    "report absent": "absent is not a run folder: it has no run.json; `untrained search --run absent` makes one",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_request_is_answered_in_one_line_that_says_what_to_type(untrained_, project, line):
    assert WRONG[line] in wrong(untrained_(*(word.replace("ARCH", SKIP) for word in line.split())))
    assert {path.name for path in project.iterdir()} <= {"mine.py", "__pycache__"}  # and nothing was begun


@pytest.mark.parametrize(
    "line", ["search --budget 0", "search --seeds 0", "search --colour red", "serch", "score", "search --budget many"]
)
def test_options_that_do_not_exist_or_do_not_fit_are_exit_code_2(untrained_, line):
    code, out, err = untrained_(*line.split())
    assert (code, out) == (2, "")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (SKIP.replace("skip_connect~2", "skip_conect~2"), "skip_conect~2"),
        (SKIP.replace("skip_connect~1|+", "conv~1|+"), "conv~1"),
        (SKIP[:-1], None),
        ("nonsense", "nonsense"),
    ],
)
def test_the_place_where_an_architecture_goes_wrong_is_marked(untrained_, text, at):
    code, out, err = untrained_("score", text)
    assert (code, out) == (2, "")
    first, second, arrow = err.splitlines()
    place = text.index(at) if at else len(text)
    assert first.startswith("error: malformed architecture: expected")
    assert first.endswith(f"at position {place}")
    assert second == f"  {text}"
    assert arrow == " " * (2 + place) + "^"


def test_missing_data_say_which_file_where_and_what_to_do(untrained_, project):
    answer = wrong(untrained_("search", "--data", "cifar10", "--data-root", str(project)))
    for part in (f"not under {project}", "data_batch_1.bin", "cifar-10-batches-py", "--data-root", "UNTRAINED_DATA"):
        assert part in answer


@pytest.mark.parametrize(
    ("line", "last"),
    [
        ("score ./mine.py:boom --input-shape 3x8x8", "ValueError: no weights here"),
        ("score width=2 --space ./mine.py:faulty", "ZeroDivisionError: division by zero"),
        ("search --space ./mine.py:faulty --data noise --run run", "ZeroDivisionError: division by zero"),
        ("score ./worse.py:make --input-shape 3x8x8", "RuntimeError: worse"),
        ("search --proxy ./worse.py:make", "RuntimeError: worse"),
    ],
)
def test_what_the_users_own_code_raises_is_shown_without_our_frames(untrained_, project, line, last):
    (project / "worse.py").write_text("raise RuntimeError('worse')\n")
    code, _, err = untrained_(*line.split())
    assert code == 2
    said = err[err.index("error: ") :].splitlines()
    assert "raised" in said[0]
    assert said[-1] == last
    assert re.search(r'File ".*/(mine|worse)\.py", line \d+', err)
    assert not any(ours in err for ours in ("src/untrained", "untrained/engine", "untrained/cli", "importlib"))


def test_a_page_that_cannot_be_written_is_named(untrained_, project):
    untrained_(*SEARCH, "--proxy", "params")
    (project / "run" / "report.html.part").mkdir()
    assert "report.html.part" in wrong(untrained_("report", "run"))


def test_ctrl_c_before_anything_is_scored_is_the_shells_exit_code(untrained_):
    code, out, err = untrained_("score", "./mine.py:stop", "--input-shape", "3x8x8", "--json")
    assert code == 130
    assert out == ""
    assert "Traceback" not in err


def test_the_whole_program_in_its_own_process(project):
    """Once without any help of this process: the installed program, user code, a pipe, a resumed run."""
    program = Path(sys.executable).parent / "untrained"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [program, *SEARCH, "--proxy", "./mine.py:spread", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, env=environment, check=True)
    assert len(json.loads(done.stdout)) == 9
    command = [program, "score", "./mine.py:boom", "--input-shape", "3x8x8"]
    failed = subprocess.run(command, capture_output=True, text=True, cwd=project, env=environment, check=False)
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: ./mine.py:boom raised\n")
