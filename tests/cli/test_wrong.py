"""What is wrong is said in one line, and never with our traceback."""

import re
import sys

import pytest

from tests.cli.helpers import SEARCH, SKIP, wrong

WRONG = {
    "list proxys": "no list is called 'proxys'; did you mean proxies or papers?",
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
    "score ARCH --data cifar": "no data set is called 'cifar'; did you mean cifar10 or cifar100?",
    "score ARCH --device gpu": "device 'gpu' cannot be used on this machine; try cpu",
    "score ./no.py:net": "there is no file no.py; give the path as you would to python",
    "score ./mine.py:mke": "is called 'mke'; did you mean make or mynet?",
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
    "search --space ./mine.py": "'./mine.py' is half a name; say which is the space in it: ./mine.py:NAME",
    "search --proxy ./mine.py": "'./mine.py' is half a name; say which is the proxy in it: ./mine.py:NAME",
    "score ./mine.py": "./mine.py is a file; name a factory in it, ./mine.py:make_net, or add --rank for all of them",
    "train runs/absent --data digits": "runs/absent is no folder of a run and no architecture; give",
    "train runs/absent": "runs/absent is no folder of a run and no architecture; give",
    "train ARCH": "say what to train on: --data digits",
    "export runs/absent --out model": "runs/absent is no folder of a run and no architecture; give one",
    "search --proxy dextre": "no proxy is called 'dextre'; did you mean dextr",
    "search --strategy randm": "no strategy is called 'randm'; did you mean random?",
    "search --data nois": "no data set is called 'nois'; did you mean noise or mnist?",
    "search --data digits:3": "digits takes nothing behind its name, and '3' is there; write --data digits",
    "search --data .": ". is a path; say what lies there: folder:.",
    "search --data mine.py": "mine.py is a path; say what lies there: csv:mine.py",
    "search --data clicks:rows=100": "; for a table add --space nasrec_small --proxy sigeo",
    "calibrate --data clicks:rows=100": "clicks:rows=100 has rows of ",
    "search --space nasrec_small": "digits holds images: the input shape is channels x height x width, not (39,); "
    "networks of tables take --data csv:PATH, or clicks for a trial",
    "search --data folder:./absent": "there is no folder absent; give one with a subfolder a class",
    "data card digits": "digits has no card; data of your own have, such as folder:./photos",
    "search --data npz:": "say which file: npz:PATH",
    "search --data npz:./absent.npz": "there is no file absent.npz",
    "search --device cuda:77": "device 'cuda:77' cannot be used on this machine; try cpu",
    "search --time soon": "impossible duration 'soon'; write 90s, 10m or 1h30m",
    "search --time-limit 3y": "no unit of time is called 'y'",
    "search --screen te_nas": "--screen 'te_nas': name proxies that judge a network alone, such as params,naswot",
    "search --screen parms": "no proxy is called 'parms'; did you mean params",
    "search --screen params --keep 200%": "a share is more than nothing and at most 100%, not '200%'",
    "search --screen params --keep most": "impossible share 'most'; write 20% or 0.2",
    "search --screen params --time 5m": "--screen ranks a pool of known size; give --budget",
    "search --proxy az_nas --stable 5": "az_nas compares all candidates, so its ranking never settles; give a --budget",
    "search --recipe quick": "--recipe quick means nothing without --export: add --export model, or leave out --recipe",
    "search --keep 10%": "--keep 10% means nothing without --screen: add --screen params,naswot, or leave out --keep",
    "search --top 10": "--top 10 means nothing without --stable: add --stable 200, or leave out --top",
    "search --confirm 3 --no-confirm": "--confirm 3 and --no-confirm contradict each other: leave out one of them",
    "search --export .": "already exists and is no earlier export: choose another folder, or move it away",
    "search --export mine.py/model": "mine.py/model cannot be made, since",
    "search --export runs": "runs would replace the run folder runs/...; choose another folder",
    "search --export model --run model/run": "model would replace the run folder model/run; choose another folder",
    "search --export model --recipe quik": "no recipe is called 'quik'; did you mean quick",
    "search --export model --data noise": "noise has nothing to learn from; take data with labels, such as digits",
    "search --export model --data photos --json": "photos has nothing to learn from; take data with labels",
    "search --proxy auto": "there is none at runs/calibrate-nasbench201-digits: `untrained calibrate` makes it",
    "search --run mine.py": "mine.py cannot be used as a run folder",
    "report absent": "absent is not a run folder: it has no run.json; `untrained search --run absent` makes one",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_request_is_answered_in_one_line_that_says_what_to_type(untrained_, project, line):
    assert WRONG[line] in wrong(untrained_(*(word.replace("ARCH", SKIP) for word in line.split())))
    assert {path.name for path in project.iterdir()} <= {"mine.py", "__pycache__"}  # and nothing was begun


def test_a_package_that_exporting_needs_is_asked_for_before_the_search(untrained_, project, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert "onnxscript is not installed: pip install" in wrong(untrained_(*SEARCH, "--export", "model"))
    assert not (project / "run").exists()


UNFIT = ["--budget 0", "--seeds 0", "--workers 0", "--stable 0", "--top 0", "--colour red", "--budget many"]


@pytest.mark.parametrize("line", ["serch", "score", *(f"search {option}" for option in UNFIT)])
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


def test_a_cell_that_is_written_with_slashes_is_no_path(untrained_):
    _, _, err = untrained_("score", "0101010/001+input,conv1x1", "--space", "nasbench101")
    assert err.startswith("error: malformed architecture: expected")


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
    page = project / "run" / "report.html"
    page.unlink()
    page.mkdir()
    assert "report.html" in wrong(untrained_("report", "run"))
    assert not list(page.parent.glob("*.part"))


def test_ctrl_c_before_anything_is_scored_is_the_shells_exit_code(untrained_):
    code, out, err = untrained_("score", "./mine.py:stop", "--input-shape", "3x8x8", "--json")
    assert code == 130
    assert out == ""
    assert "Traceback" not in err
