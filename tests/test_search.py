"""Search: what is best, what a run folder remembers, and what is left of it after kill -9 and Ctrl-C."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from torch import nn

import untrained
from untrained import Arch, Probe, Record, Task, report, search
from untrained.engine import Store
from untrained.engine.store import Key, key_of
from untrained.errors import UsageError
from untrained.proxies import Proxy
from untrained.strategies import STRATEGIES, Result
from untrained.strategies.random import RandomSearch
from untrained.strategies.search import drive
from untrained.strategies.select import rank
from untrained.types import Failure

TASK = Task("noise", (3, 8, 8), 4)


@untrained.space(task=TASK, size=16)
def tiny(choose: Any, task: Task) -> nn.Module:
    width, kernel, bias = choose("width", (2, 3, 4, 5)), choose("kernel", (1, 3)), choose("bias", ("yes", "no"))
    conv = nn.Conv2d(3, width, kernel, padding=kernel // 2, bias=bias == "yes")
    return nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.Linear(width * 64, task.num_classes))


@untrained.space(task=TASK)
def four(choose: Any, task: Task) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, choose("width", (1, 2, 3, 4))))


def proxy(higher_is_better: bool = True) -> Proxy:
    @untrained.proxy(higher_is_better=higher_is_better)
    def weight(probe: Probe) -> float:
        """The first weight: any number, another for every architecture and seed."""
        return float(next(probe.model.parameters()).detach().flatten()[0])

    return weight


@untrained.proxy()
def odd(probe: Probe) -> float:
    """Nothing for convolutions of even width, the width of the others."""
    width = len(next(probe.model.parameters()))
    return float("nan") if width % 2 == 0 else float(width)


def find(folder: Path, proxy: Any = "params", budget: int = 6, **options: Any) -> Result:
    options = {"space": tiny, "data": "noise"} | options
    return search(proxy=proxy, budget=budget, run=folder, **options)


def contents(folder: Path) -> dict[Key, tuple[float | None, Failure | None]]:
    with Store(folder / "records.sqlite") as store:
        records = list(store)
    found = {key_of(record): (record.value, record.error) for record in records}
    assert len(found) == len(records)
    return found


def timeless(records: Any) -> list[Record]:
    return [replace(record, build_seconds=0.0, measure_seconds=0.0) for record in records]


# ------------------------------------------------------------------------------------------------ what is best


@pytest.mark.parametrize(("higher", "extreme"), [(True, max), (False, min)])
def test_the_best_has_the_best_score_in_the_direction_of_the_proxy(run_folder, higher, extreme):
    found = find(run_folder, proxy(higher))
    scores = {r.arch: r.value for r in found.records if r.proxy == "weight"}
    assert len(set(scores.values())) == 6
    assert found.best == extreme(scores, key=scores.__getitem__)
    ranked = [standing.score for standing in found.ranking.standings]
    assert ranked == sorted(scores.values(), reverse=higher)
    assert found.run.higher_is_better is higher


def test_sizes_stand_beside_every_score(run_folder):
    found = find(run_folder, proxy())
    for arch in {r.arch for r in found.records}:
        by = {r.proxy: r.value for r in found.records if r.arch == arch}
        width, kernel, bias = arch["width"], arch["kernel"], arch["bias"] == "yes"
        assert by["params"] == 3 * width * kernel**2 + bias * width + 4 * (64 * width + 1)
        assert by["flops"] == 3 * width * kernel**2 * 64 + 4 * 64 * width
    assert [r.proxy for r in find(run_folder / "2", "params", 1).records] == ["params", "flops"]


def test_what_failed_is_counted_and_never_ranked(run_folder):
    found = find(run_folder, odd, budget=16)
    assert {s.arch["width"] for s in found.ranking.standings} == {3, 5}
    assert {arch["width"] for arch, _ in found.ranking.failed} == {2, 4}
    assert len(found.ranking.standings) == len(found.ranking.failed) == 8  # the whole space
    assert {failure.kind for _, failure in found.ranking.failed} == {"nan"}
    assert found.best["width"] == 5


def test_equals_keep_the_order_of_discovery(run_folder):
    constant = untrained.proxy()(lambda probe: 1.0)
    found = find(run_folder, constant)
    discovered = list(dict.fromkeys(r.arch for r in found.records))
    assert [standing.arch for standing in found.ranking.standings] == discovered


def test_nothing_scored_has_no_best_and_still_a_report(run_folder):
    found = find(run_folder, untrained.proxy()(lambda probe: float("inf")))
    assert (len(found.ranking.standings), len(found.ranking.failed)) == (0, 6)
    with pytest.raises(UsageError, match="nothing could be scored"):
        _ = found.best
    assert "infinite" in found.report().read_text()


def record(arch: str, seed: int, value: float | None) -> Record:
    error = Failure("nan", f"seed {seed}") if value is None else None
    return Record(Arch("s", (("a", arch),)), "m@1", TASK, seed, value, error)


def test_one_failed_seed_fails_the_architecture():
    records = [record("a", 0, 9.0), record("a", 1, None), record("b", 0, 1.0), record("b", 1, 3.0)]
    ranking = rank(records, "m@1", higher_is_better=True)
    assert [(s.arch["a"], s.score, s.spread, s.seeds) for s in ranking.standings] == [("b", 2.0, 2**0.5, 2)]
    assert [(arch["a"], str(failure)) for arch, failure in ranking.failed] == [("a", "nan: seed 1")]
    assert rank(records, "another@1", True).standings == ()


def test_seeds_give_mean_and_spread_of_what_is_stored(run_folder):
    found = find(run_folder, proxy(), budget=3, seeds=4, seed=7)
    with Store(run_folder / "records.sqlite") as store:
        stored = [r for r in store if r.proxy == "weight"]
    assert {r.seed for r in stored} == {7, 8, 9, 10}
    for standing in found.ranking.standings:
        values = [r.value for r in stored if r.arch == standing.arch]
        assert len(set(values)) == 4
        assert standing.score == pytest.approx(fmean(values), rel=1e-12)
        assert standing.spread == pytest.approx(stdev(values), rel=1e-12)


def test_one_seed_has_no_spread(run_folder):
    assert {standing.spread for standing in find(run_folder).ranking.standings} == {None}


def test_the_frame_holds_every_record(run_folder):
    found = find(run_folder, odd)
    frame = found.frame()
    assert len(frame) == len(found.records) == 18
    failed = frame[(frame.proxy == "odd") & frame.value.isna()]
    assert set(failed.error) == {"nan: the score is not a number"}
    assert list(frame.arch) == [str(r.arch) for r in found.records]


# ---------------------------------------------------------------------------------------------- the same answer twice


def test_the_same_call_twice_gives_the_same_records_byte_for_byte(tmp_path):
    rows = []
    for name in ("a", "b"):
        find(tmp_path / name, "dextr", seeds=2)
        with sqlite3.connect(tmp_path / name / "records.sqlite") as db:
            columns = [column for _, column, *_ in db.execute("PRAGMA table_info(records)")]
            kept = ", ".join(column for column in columns if not column.endswith("_seconds"))
            rows.append(list(db.execute(f"SELECT {kept} FROM records ORDER BY rowid")))
        db.close()
    assert len(columns) - len(kept.split(", ")) == 2
    assert repr(rows[0]) == repr(rows[1])
    assert len(rows[0]) == 6 * 3 * 2


def test_another_seed_is_another_search(tmp_path):
    one, other = (find(tmp_path / str(seed), seed=seed) for seed in (0, 1))
    assert [r.arch for r in one.records] != [r.arch for r in other.records]


def test_a_larger_budget_goes_on_where_the_smaller_one_stopped(tmp_path):
    asked: list[int] = []

    @untrained.proxy()
    def counted(probe: Probe) -> float:
        asked.append(1)
        return float(probe.params)

    find(tmp_path / "a", counted, budget=5)
    assert len(asked) == 5
    grown = find(tmp_path / "a", counted, budget=10)
    assert len(asked) == 10
    whole = find(tmp_path / "b", counted, budget=10)
    assert timeless(grown.records) == timeless(whole.records)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert grown.best == whole.best
    again = find(tmp_path / "a", counted, budget=10)
    assert len(asked) == 20  # ten and ten: nothing was computed a second time
    assert again.records == grown.records


def test_the_cost_of_a_run_is_that_of_all_its_sittings(run_folder):
    first = find(run_folder, budget=1).run
    assert 0 < first.wall_seconds < 60
    replace(first, wall_seconds=1000.0).save()
    assert 1000 < find(run_folder, budget=2).run.wall_seconds < 1060


OTHERS: dict[str, dict[str, Any]] = {
    "proxy 'params' (now 'flops')": {"proxy": "flops"},
    "seed 0 (now 3)": {"seed": 3},
    "seeds 1 (now 2)": {"seeds": 2},
    "data 'noise' (now 'photos')": {"data": "photos"},
    "space 'tiny' (now 'four')": {"space": four},
}


@pytest.mark.parametrize("what", OTHERS)
def test_other_settings_in_the_same_folder_are_refused_by_name(run_folder, what):
    find(run_folder, budget=2)
    before, facts = contents(run_folder), (run_folder / "run.json").read_text()
    with pytest.raises(UsageError) as caught:
        find(run_folder, **{"budget": 2} | OTHERS[what])
    assert what in str(caught.value)
    assert str(caught.value).count("(now") == 1
    assert "choose another --run folder" in str(caught.value)
    assert (contents(run_folder), (run_folder / "run.json").read_text()) == (before, facts)


def test_a_request_that_failed_before_its_first_record_does_not_occupy_the_folder(run_folder):
    with pytest.raises(UsageError, match="no variant"):
        find(run_folder, "dextr(variant=wrong)", budget=2)
    assert len(find(run_folder, "dextr", budget=2).ranking.standings) == 2


def test_wrong_requests_leave_no_folder(run_folder):
    wrong: list[dict[str, Any]] = [
        {"proxy": "dexter"}, {"space": "nasbench"}, {"strategy": "rand"}, {"data": "cifar"},
        {"device": "gpu"}, {"budget": 0}, {"seeds": 0},
    ]  # fmt: skip
    for options in wrong:
        with pytest.raises(UsageError):
            find(run_folder, **options)
        assert not run_folder.exists()


def test_the_default_folder_says_what_was_asked_and_what_can_be_typed_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(dedent(MINE))
    plain = search("./mine.py:mynet", "params", budget=1, data="noise")
    other = search("./mine.py:mynet", "./mine.py:small", budget=1, data="noise", seed=3, seeds=2)
    assert (plain.run.folder.parts[0], plain.run.folder != other.run.folder) == ("runs", True)
    assert all(part.isascii() and not set(part) & set("/:()' ") for part in other.run.folder.parts)
    assert other.run.options().startswith(
        "--space ./mine.py:mynet --proxy ./mine.py:small --data noise --seed 3 --seeds 2 --budget 1 --run runs/"
    )
    assert timeless(search("./mine.py:mynet", "params", budget=1, data="noise").records) == timeless(plain.records)


# ------------------------------------------------------------------------------------------------------ strategies


@pytest.mark.parametrize(("space", "size"), [(tiny, 16), (four, 4)])  # one knows its size, the other does not
def test_random_search_never_repeats_and_ends_with_the_space(space, size):
    strategy = RandomSearch(space, np.random.default_rng(0))
    asked = [arch for _ in range(size // 3 + 1) for arch in strategy.ask(3)]
    assert len(asked) == len(set(asked)) == size
    assert set(asked) == set(space)
    assert strategy.ask(5) == []


def test_random_search_is_uniform():
    first = [RandomSearch(four, np.random.default_rng(seed)).ask(1)[0]["width"] for seed in range(400)]
    for width in (1, 2, 3, 4):
        assert 60 <= first.count(width) <= 140  # 100 +- 8.7, so more than four standard deviations


def test_an_exhausted_space_ends_the_search(run_folder):
    seen: list[int] = []
    found = find(run_folder, "params", budget=10, space=four, watch=lambda done, records: seen.append(done))
    assert sorted(s.score for s in found.ranking.standings) == [193, 386, 579, 772]
    assert seen == [0, 1, 2, 3, 4]
    assert not found.run.stopped_early


def test_a_strategy_hears_of_what_it_asked_and_of_nothing_else(monkeypatch, run_folder):
    log: list[tuple[str, Any]] = []

    class Listening(RandomSearch):
        def ask(self, n: int) -> list[Arch]:
            log.append(("ask", found := super().ask(min(n, 4))))
            return found

        def tell(self, records: Any) -> None:
            log.append(("tell", {r.arch for r in records}))

    monkeypatch.setitem(STRATEGIES._members, "listening", Listening)
    find(run_folder, budget=6, strategy="listening")
    asked = [set(archs) for what, archs in log if what == "ask"]
    assert [len(archs) for archs in asked] == [4, 2]
    assert [what for what, _ in log] == ["ask", "tell"] * 2
    assert [archs for what, archs in log if what == "tell"] == asked


def test_ctrl_c_keeps_what_was_found():
    def evaluate(archs: Any) -> Any:
        for arch in archs:
            if arch == stop:
                raise KeyboardInterrupt
            yield [Record(arch, "m@1", TASK, 0, 1.0)]

    *before, stop = RandomSearch(tiny, np.random.default_rng(0)).ask(5)
    records, stopped, seconds = drive(RandomSearch(tiny, np.random.default_rng(0)), evaluate, 16)
    assert [r.arch for r in records] == before
    assert stopped
    assert seconds >= 0


# ------------------------------------------------------------------------------------------------------ the run folder


def test_a_report_can_be_written_anew(run_folder):
    found = find(run_folder, odd, budget=16)
    page = report(run_folder)
    assert page == run_folder / "report.html"
    text = page.read_text()
    assert str(found.best) in text
    assert "nan" in text
    page.unlink()
    assert found.report() == page
    assert page.exists()
    assert sorted(p.name for p in run_folder.iterdir()) == ["records.sqlite", "report.html", "run.json"]


def test_a_folder_that_is_no_run_says_how_to_make_one(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError, match=r"has no run\.json; `untrained search --run .*` makes one"):
            report(folder)
    assert list(tmp_path.iterdir()) == []


def _without(name: str) -> str:
    facts = {"settings": {}, "measure": "m@1", "higher_is_better": True, "about": "", "budget": 1}
    return json.dumps({key: value for key, value in facts.items() if key != name})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "null", "{}", '{"settings": 3}', _without("settings"), _without("budget"), "\x00\xff"]
)
def test_a_damaged_run_file_is_named(run_folder, text):
    find(run_folder, budget=1)
    (run_folder / "run.json").write_text(text)
    for again in (lambda: report(run_folder), lambda: find(run_folder, budget=1)):
        with pytest.raises(UsageError, match=r"run\.json is damaged") as caught:
            again()
        assert "\n" not in str(caught.value)


def test_a_run_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UsageError, match="cannot be used as a run folder") as caught:
            find(folder)
        assert str(folder) in str(caught.value)


# ------------------------------------------------------------------------------------- kill -9, Ctrl-C, and end to end

MINE = """
    import time
    from torch import nn
    import untrained

    @untrained.space(task=untrained.Task("noise", (3, 8, 8), 4), size=72)
    def mynet(choose, task):
        width, kernel, depth = choose("width", range(2, 14)), choose("kernel", (1, 3)), choose("depth", (1, 2, 3))
        layers = [nn.Conv2d(3, width, kernel, padding=kernel // 2), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Conv2d(width, width, 1), nn.Tanh()]
        return lambda: time.sleep(0.03) or nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * 64, task.num_classes))

    @untrained.proxy(higher_is_better=False)
    def small(probe):
        return probe.params
"""
MAIN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from untrained.cli import main; main()"


@pytest.fixture
def project(tmp_path) -> Path:
    (tmp_path / "mine.py").write_text(dedent(MINE))
    return tmp_path


def started(project: Path, run: str, budget: int = 40) -> "subprocess.Popen[str]":
    """`untrained search` as a process of its own, in the folder of the user's space."""
    options = f"search --space ./mine.py:mynet --proxy dextr --data noise --run {run} --budget {budget}".split()
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *options],
        cwd=project,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stored(run: Path) -> int:
    """How many records there are, read beside the process that writes them."""
    if not (run / "records.sqlite").exists():
        return 0
    db = sqlite3.connect(run / "records.sqlite", timeout=30)
    try:
        return int(db.execute("SELECT count(*) FROM records").fetchone()[0])
    except sqlite3.OperationalError:  # the table is being made
        return 0
    finally:
        db.close()


def wait_for(process: "subprocess.Popen[str]", run: Path, count: int) -> int:
    deadline = time.monotonic() + 60
    while (found := stored(run)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing was scored for a minute"
        time.sleep(0.005)
    return found


def finished(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_kill_9_loses_no_finished_record_and_doubles_none(project):
    undisturbed = started(project, "undisturbed")
    moments = random.Random(os.urandom(8))
    survived = 0
    for _ in range(3):
        process = started(project, "killed")
        wait_for(process, project / "killed", survived + 1)
        time.sleep(moments.uniform(0, 0.1))
        seen = stored(project / "killed")
        process.kill()
        assert finished(process)[0] == -signal.SIGKILL
        survived = stored(project / "killed")
        assert survived >= seen >= 1
    assert survived < 40 * 3  # it was stopped in the middle
    kept = contents(project / "killed")
    code, _, errors = finished(started(project, "killed"))
    assert code == 0, errors
    code, _, errors = finished(undisturbed)
    assert code == 0, errors
    whole = contents(project / "killed")
    assert kept.items() <= whole.items()
    assert whole == contents(project / "undisturbed")
    assert len(whole) == stored(project / "killed") == 40 * 3  # dextr, params and FLOPs of each


def test_ctrl_c_keeps_the_best_so_far_and_the_same_command_goes_on(project):
    process = started(project, "run")
    seen = wait_for(process, project / "run", 3)
    process.send_signal(signal.SIGINT)
    code, out, err = finished(process)
    assert code == 0, err
    assert "Traceback" not in out + err
    assert "stopped by Ctrl-C" in out
    assert "report: run/report.html" in out
    assert (project / "run" / "report.html").stat().st_size > 1000
    assert json.loads((project / "run" / "run.json").read_text())["stopped_early"] is True
    before = contents(project / "run")
    assert seen <= len(before) < 40 * 3
    code, out, err = finished(started(project, "run"))
    assert code == 0, err
    assert "stopped by Ctrl-C" not in out
    after = contents(project / "run")
    assert before.items() <= after.items()
    assert len(after) == 40 * 3
    assert json.loads((project / "run" / "run.json").read_text())["stopped_early"] is False


def test_from_a_space_to_a_report_in_one_call(run_folder):
    """Sample, score, select, report, with the real space, proxy and data: the flow that every other test cuts up."""
    start = time.monotonic()
    found = search("nasbench201", "dextr", budget=4, run=run_folder)
    page = found.report().read_text()
    assert time.monotonic() - start < 20
    assert len(found.records) == 4 * 3
    assert len(found.ranking.standings) + len(found.ranking.failed) == 4
    best = max((r for r in found.records if r.proxy == "dextr" and r.value is not None), key=lambda r: r.value)
    assert found.best == best.arch == untrained.load_space("nasbench201").parse(str(best.arch))
    assert all(str(standing.arch) in page.replace("<wbr>", "") for standing in found.ranking.standings)
    assert "<svg" in page


def test_a_run_does_not_go_on_with_a_file_that_has_changed(tmp_path, monkeypatch):
    """Records are filed under names; a changed file under the same name would mix two methods in one ranking."""
    monkeypatch.chdir(tmp_path)
    code = "import untrained as ut\n\n@ut.proxy()\ndef mine(probe):\n    return {value}\n"
    Path("mine.py").write_text(code.format(value=1.0))
    search("nasbench201(channels=2,cells=1)", "./mine.py:mine", budget=2, run="r")
    Path("mine.py").write_text(code.format(value=2.0))
    with pytest.raises(UsageError, match="another run, with code"):
        search("nasbench201(channels=2,cells=1)", "./mine.py:mine", budget=3, run="r")
