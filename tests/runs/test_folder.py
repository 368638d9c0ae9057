"""A run folder: what it stores, which runs it refuses, and how damage is reported."""

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import untrained
from tests.records import change_record
from tests.runs.test_store_versions import write_store_1
from tests.strategies.helpers import MINE, drop_costs, four, odd, read_values, search_tiny, tiny
from untrained import load_space, report, search
from untrained.config import ComputeConfig, SearchConfig
from untrained.data import load_data
from untrained.drawings.diagrams import CellGraph
from untrained.engine import SeedBatches, Worker, WorkerCost, WorkerSetup, make_worker_setup
from untrained.errors import UsageError
from untrained.proxies import load_proxy
from untrained.runs.folder import RunFolder, choose_default_folder, make_folder_name
from untrained.runs.store import Store
from untrained.runs.winner import read_ranking
from untrained.workflows.report import summarise_run

OTHER_SETTINGS: dict[str, dict[str, Any]] = {
    "proxy 'params' (now 'flops')": {"proxy": "flops"},
    "seed 0 (now 3)": {"seed": 3},
    "seeds 1 (now 2)": {"seeds": 2},
    "data 'noise' (now 'photos')": {"data": "photos"},
    "space 'tiny' (now 'four')": {"space": four},
}


@pytest.mark.parametrize("difference", OTHER_SETTINGS)
def test_other_settings_in_the_same_folder_are_refused_by_name(run_folder, difference):
    search_tiny(run_folder, budget=2)
    before = read_values(run_folder)
    facts = (run_folder / "run.json").read_text()
    with pytest.raises(UsageError) as caught:
        search_tiny(run_folder, **{"budget": 2} | OTHER_SETTINGS[difference])
    assert difference in str(caught.value)
    assert str(caught.value).count("(now") == 1
    assert str(caught.value).endswith(f"; for this one add --run {run_folder}-2")
    assert (read_values(run_folder), (run_folder / "run.json").read_text()) == (before, facts)


def test_a_search_that_fails_before_its_first_record_does_not_occupy_the_folder(run_folder):
    with pytest.raises(UsageError, match="no variant"):
        search_tiny(run_folder, "dextr(variant=wrong)", budget=2)
    assert len(search_tiny(run_folder, "dextr", budget=2).ranking.standings) == 2


def test_wrong_options_leave_no_folder(run_folder):
    wrong: list[dict[str, Any]] = [
        {"proxy": "dexter"}, {"space": "nasbench"}, {"strategy": "rand"}, {"data": "cifar"},
        {"device": "gpu"}, {"budget": 0}, {"seeds": 0},
    ]  # fmt: skip
    for options in wrong:
        with pytest.raises(UsageError):
            search_tiny(run_folder, **options)
        assert not run_folder.exists()


def test_the_default_folder_is_named_after_the_settings_and_the_command_is_complete(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(dedent(MINE))
    plain = search("./mine.py:mynet", "params", budget=1, data="noise")
    other = search(
        "./mine.py:mynet", "./mine.py:small", budget=1, data="noise", seed=3, seeds=2, top=3
    )
    assert (plain.run.folder.parts[0], plain.run.folder != other.run.folder) == ("runs", True)
    assert all(part.isascii() and not set(part) & set("/:()' ") for part in other.run.folder.parts)
    assert other.run.to_command().startswith(
        "untrained search --space ./mine.py:mynet --proxy ./mine.py:small --data noise --seed 3 --seeds 2 --budget 1 --run runs/"
    )
    assert drop_costs(
        search("./mine.py:mynet", "params", budget=1, data="noise").records
    ) == drop_costs(plain.records)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"networks_per_batch": 8}, "--networks-per-batch 8"),
        ({"networks_per_batch": 8, "time_limit": "30s"}, "--time-limit 30s"),
        ({"device": "cuda"}, "--device cuda"),
        ({"device": "cpu", "workers": 3, "networks_per_batch": 1}, ""),
    ],
)
def test_the_command_contains_what_the_keys_of_records_depend_on(options, expected):
    """Otherwise the command would measure all architectures again."""
    config = SearchConfig("s", "naswot", budget=9, compute=ComputeConfig(**options))
    run = RunFolder(Path("run"), config, "naswot@2", higher_is_better=True, about="")
    words = f"untrained search --space s --proxy naswot --budget 9 {expected} --run run".split()
    assert sorted(run.to_command().split()) == sorted(words)


def test_the_code_of_a_run_is_all_user_code_that_decides_the_search(tmp_path):
    """The proxies of `also` decide it only if the strategy weighs them."""
    names = {}
    for word in ("space", "proxy", "strategy", "screen", "also"):
        (tmp_path / f"{word}.py").write_text(f"name = {word!r}")
        names[word] = f"{tmp_path}/{word}.py:name"
    config = SearchConfig(
        names["space"],
        names["proxy"],
        f"zerocost_pt(proxy={names['strategy']})",
        screen=f"params,{names['screen']}(samples=2)",
        also=f"{names['also']},naswot",
    )
    always = [names["space"], names["proxy"], names["strategy"], f"{names['screen']}(samples=2)"]
    assert config.list_user_code() == always
    assert config.list_user_code(has_objectives=True) == [*always, names["also"]]


def test_the_command_names_the_folder_of_data_sets_that_the_user_named():
    config = SearchConfig("s", "naswot", budget=9, data_root="my data")
    run = RunFolder(Path("run"), config, "naswot@2", higher_is_better=True, about="")
    assert "--data-root 'my data'" in run.to_command()


# Every setting of a search with another value, and what it changes:
#
# - "scores": which architectures are proposed, or their scores. Such runs need different folders.
# - "winner": when the search stops, or how its winner is chosen. The records can be used again.
# - "nothing": neither of them.
SETTINGS: dict[str, tuple[Any, str]] = {
    "space": ("t", "scores"),
    "proxy": ("flops", "scores"),
    "strategy": ("local", "scores"),
    "data": ("photos", "scores"),
    "data_root": ("elsewhere", "nothing"),
    "input_size": (16, "scores"),
    "budget": (7, "winner"),
    "time": ("3m", "winner"),
    "effort": ("normal", "winner"),
    "stable": (5, "winner"),
    "top": (3, "winner"),
    "screen": ("flops", "scores"),
    "keep": ("30%", "scores"),
    # It changes the scores only if the strategy weighs them, see the test.
    "also": ("zico", "nothing"),
    "validate": ("training(epochs=1)", "scores"),
    "warm_up": ("10%", "scores"),
    "confirm": (2, "winner"),
    "limits": ({"latency": "6ms"}, "scores"),
    "latency_table": ("table.csv", "scores"),
    "seed": (1, "scores"),
    "seeds": (2, "scores"),
    "run": ("runs/other", "nothing"),
    "device": ("cuda", "scores"),
    "workers": (3, "nothing"),
    "ray": ("local", "nothing"),
    # A failure of this kind is measured again by the next run.
    "time_limit": ("9s", "nothing"),
    # It is part of the key of every record.
    "networks_per_batch": (8, "nothing"),
}
# The path of the folder is that of the run, and a run can be resumed with other workers.
NOT_IN_COMMAND = {"run", "workers", "ray"}


def make_run(objectives: Sequence[str] = (), **settings: Any) -> RunFolder:
    """Return a run in which all settings have an effect, with some of them changed."""
    compute = {}
    for field in fields(ComputeConfig):
        if field.name in settings:
            compute[field.name] = settings.pop(field.name)
    defaults: dict[str, Any] = {"space": "s", "proxy": "p", "screen": "params", "stable": 20}
    defaults["limits"] = {"latency": "5ms"}
    config = SearchConfig(compute=ComputeConfig(**compute), **{**defaults, **settings})
    weighed = [{"measure": measure} for measure in objectives]
    return RunFolder(Path("run"), config, "p@1", True, "", objectives=weighed)


def test_every_setting_has_a_known_effect():
    names = {field.name for field in fields(SearchConfig)} - {"compute"}
    assert set(SETTINGS) == names | {field.name for field in fields(ComputeConfig)}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_changed_setting_has_the_stated_effect(name):
    """Otherwise a search is resumed with the records or the winner of another one."""
    value, effect = SETTINGS[name]
    before = make_run()
    after = make_run(**{name: value})
    changes_scores = before.describe_requests() != after.describe_requests()
    changes_key = before.compute_search_key([]) != after.compute_search_key([])
    assert (changes_scores, changes_key) == (effect == "scores", effect != "nothing")
    folders = {choose_default_folder(run.config) for run in (before, after)}
    assert (len(folders) == 2) == (effect == "scores")
    assert (before.to_command() != after.to_command()) == (name not in NOT_IN_COMMAND)


def test_additional_proxies_change_the_scores_if_the_strategy_weighs_them():
    before = make_run(["flops@1"], also="flops")
    after = make_run(["zico@1"], also="zico")
    assert before.describe_requests() != after.describe_requests()
    assert choose_default_folder(before.config, True) != choose_default_folder(after.config, True)


@pytest.mark.parametrize("letter", ["a", "\u00e4", "\u65e5"])
def test_a_long_folder_name_is_cut_and_stays_unique(tmp_path, letter):
    """File systems allow 255 bytes; shorter names stay unchanged."""
    assert (
        make_folder_name("mlp", "csv:./w.csv?label=click", "seed3")
        == "mlp-csv_._w.csv_label_click-seed3"
    )
    long = [("mlp", f"csv:w.csv?drop={letter * 300}{end}", "seed3") for end in "xy"]
    names = {make_folder_name(*words) for words in (*long, *long, ("mlp", long[0][1] + "-seed3"))}
    assert len(names) == 3
    for name in names:
        assert len(f"{name}-2".encode()) <= 255
        assert name.startswith("mlp-csv_w.csv_drop_" + letter * 60)
        (tmp_path / name).mkdir()


def test_a_report_can_be_rewritten(run_folder):
    result = search_tiny(run_folder, odd, budget=16)
    page = report(run_folder)
    assert page == run_folder / "report.html"
    text = page.read_text()
    assert str(result.best) in text
    assert "nan" in text
    page.unlink()
    assert result.report() == page
    assert page.exists()
    assert sorted(p.name for p in run_folder.iterdir()) == [
        "records.sqlite",
        "report.html",
        "run.json",
    ]


def test_the_error_for_a_folder_without_a_run_says_how_to_make_one(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(
            UsageError, match=r"has no run\.json; `untrained search --run .*` makes one"
        ):
            report(folder)
    assert list(tmp_path.iterdir()) == []


def write_facts_without(name: str) -> str:
    config = SearchConfig(budget=1).to_document()
    facts = {"config": config, "measure": "m@1", "higher_is_better": True, "about": ""}
    return json.dumps({key: value for key, value in facts.items() if key != name})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        "{}",
        '{"config": 3}',
        '{"config": {}}',
        '{"config": {"compute": {"workers": "many"}}}',
        write_facts_without("config"),
        write_facts_without("measure"),
        "\x00\xff",
    ],
)
def test_the_error_for_a_damaged_run_file_names_it(run_folder, text):
    search_tiny(run_folder, budget=1)
    (run_folder / "run.json").write_text(text)
    for again in (lambda: report(run_folder), lambda: search_tiny(run_folder, budget=1)):
        with pytest.raises(UsageError, match=r"run\.json is damaged") as caught:
            again()
        assert "\n" not in str(caught.value)


def test_the_error_for_a_folder_that_cannot_be_made_names_it(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UsageError, match="cannot be used as a run folder") as caught:
            search_tiny(folder)
        assert str(folder) in str(caught.value)


def test_a_run_is_not_resumed_with_a_changed_file(tmp_path, monkeypatch):
    """Records are stored under names, so a changed file of the same name would mix two proxies in one ranking."""
    monkeypatch.chdir(tmp_path)
    code = "import untrained as ut\n\n@ut.proxy()\ndef mine(probe):\n    return {value}\n"
    Path("mine.py").write_text(code.format(value=1.0))
    search("nasbench201(channels=2,cells=1)", "./mine.py:mine", budget=2, run="r")
    Path("mine.py").write_text(code.format(value=2.0))
    with pytest.raises(
        UsageError,
        match=r"^r holds another run, with an earlier version of mine\.py; for this",
    ):
        search("nasbench201(channels=2,cells=1)", "./mine.py:mine", budget=3, run="r")


def test_every_file_that_may_have_changed_is_named_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        Path(f"{name}.py").touch()
    config = SearchConfig("./a.py:net", "./a.py:p", "zerocost_pt(operations=./b.py:q)", "noise")
    now = RunFolder(Path("run"), config, "p@1", True, "", code="12")
    before = replace(now, code="34")
    assert now.describe_changes(before) == "an earlier version of a.py or b.py"
    other_seed = replace(before, config=replace(config, seed=3))
    assert now.describe_changes(other_seed) == "seed 3 (now 0), an earlier version of a.py or b.py"
    other_proxy = replace(before, config=replace(config, proxy="./c.py:p"))
    assert now.describe_changes(other_proxy) == "proxy './c.py:p' (now './a.py:p')"


def test_the_diagram_shows_the_network_for_the_data_of_the_run(tmp_path, monkeypatch):
    """Networks of the space end in four outputs by themselves; these data have three classes."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(dedent(MINE))
    np.savez("x.npz", x=np.zeros((9, 8, 8, 3), np.uint8), y=np.arange(9) % 3)
    result = search("./mine.py:mynet", "params", budget=1, data="npz:x.npz", confirm=0, run="r")
    diagram = summarise_run(result.run, read_ranking(result.run)).diagram
    assert isinstance(diagram, CellGraph)
    assert diagram.nodes[-2:] == ("linear, 3", "output 3")


# --------------------------------------------------------------------------------------------- workers and their cost


def test_a_space_without_a_name_is_refused_in_worker_processes(run_folder):
    assert search_tiny(run_folder, budget=40).run.workers[0]["worker"] == "this process"
    for option in ({"workers": 2}, {"time_limit": "9s"}, {"ray": "local"}):
        with pytest.raises(UsageError, match=r"put it in a file and give \./mine\.py:NAME"):
            search_tiny(run_folder / "other", **option)
    assert not (run_folder / "other").exists()


def test_a_proxy_without_a_name_is_refused_in_worker_processes(run_folder):
    constant = untrained.proxy()(lambda probe: 1.0)
    with pytest.raises(UsageError, match=r"put it in a file and give \./mine\.py:NAME"):
        search_tiny(run_folder, constant, space="nasbench201(channels=2,cells=1)", workers=2)


def test_a_space_object_is_replaced_by_its_name_if_the_name_leads_to_it():
    space = load_space("nasbench201(channels=2,cells=1)")
    proxy = load_proxy("dextr(variant=published)")
    samples = SeedBatches.for_proxies(load_data("noise", space.task), [proxy], (0,))
    setup = make_worker_setup(space, [proxy, load_proxy("params")], samples, ComputeConfig())
    assert isinstance(setup, WorkerSetup)
    assert (setup.space, setup.proxies) == (
        "nasbench201(channels=2,cells=1)",
        ("dextr(variant=published)", "params"),
    )
    assert isinstance(make_worker_setup(tiny, [proxy], samples, ComputeConfig()), Worker)
    assert isinstance(make_worker_setup(space, [odd], samples, ComputeConfig()), Worker)
    changed = replace(space, hooks=replace(space.hooks, size=3))  # the name leads to another one
    assert isinstance(make_worker_setup(changed, [proxy], samples, ComputeConfig()), Worker)


def test_costs_add_up_over_sessions(run_folder):
    run = RunFolder(run_folder, SearchConfig("s", "p", data="noise", budget=5), "p@1", True, "")
    one = WorkerCost(
        "process 1",
        3,
        build=1.0,
        transfer=0.5,
        measure=2.0,
        alive=5.0,
        deaths=1,
        batched_networks=2,
    )
    two = WorkerCost("process 2", 2, build=0.5, measure=1.0, alive=5.0)
    first = run.add_session([one.row(), two.row()], 6.0, "time")
    second = (
        first.save()
        .resume()
        .add_session(
            [one.row(), WorkerCost("ray actor 1", 7, measure=4.0, alive=4.5).row()], 4.0, "budget"
        )
    )
    assert (first.wall_seconds, second.wall_seconds, second.end_reason) == (6.0, 10.0, "budget")
    assert {row["worker"]: row for row in second.workers} == {
        "process 1": {"worker": "process 1", "networks": 6, "build": 2.0, "transfer": 1.0, "measure": 4.0,
                      "alive": 10.0, "deaths": 2, "batched": 4, "idle": 3.0},
        "process 2": two.row() | {"idle": 3.5},
        "ray actor 1": {"worker": "ray actor 1", "networks": 7, "build": 0.0, "transfer": 0.0, "measure": 4.0,
                        "alive": 4.5, "deaths": 0, "batched": 0, "idle": 0.5},
    }  # fmt: skip
    assert RunFolder.read(second.save().folder) == second


def test_the_cost_of_a_run_is_the_sum_of_the_costs_of_its_records(run_folder):
    first = search_tiny(run_folder, budget=3)
    again = search_tiny(run_folder, budget=6)
    (row,) = again.run.workers
    assert row["networks"] == 6
    for name in ("build", "transfer", "measure"):
        assert row[name] == pytest.approx(sum(getattr(r, f"{name}_seconds") for r in again.records))
    assert row["alive"] <= again.run.wall_seconds
    assert first.run.workers[0]["networks"] == 3


@pytest.mark.parametrize(
    "facts",
    [
        {"settings": {"space": "tiny"}, "measure": "params@1", "budget": 4},
        {"config": {"space": "tiny", "beside": ""}, "measure": "params@1", "question": "0f0f"},
    ],
)
def test_a_run_folder_of_an_earlier_version_is_refused(run_folder, facts):
    run_folder.mkdir()
    (run_folder / "run.json").write_text(json.dumps(facts))
    for read_again in (lambda: report(run_folder), lambda: search_tiny(run_folder, budget=1)):
        with pytest.raises(UsageError, match=r"run\.json was written by an earlier version"):
            read_again()


def test_a_run_with_a_store_of_the_first_version_resumes(tmp_path):
    """That store had one table and no version of torch, so its records are kept and measured again.

    Unknown entries of `run.json` are ignored.
    """
    whole = search_tiny(tmp_path / "whole", budget=6)
    folder = tmp_path / "former"
    interrupted = replace(whole.run, folder=folder, wall_seconds=100.0, workers=[], end_reason="")
    interrupted = replace(interrupted, config=replace(whole.run.config, run=folder, budget=4))
    interrupted.save()
    facts = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(facts | {"stopped_early": True}))
    records = [replace(r, build_seconds=7.0) for r in drop_costs(whole.records)[:8]]
    write_store_1(folder / "records.sqlite", records)
    assert (RunFolder.read(folder).end_reason, RunFolder.read(folder).config.budget) == ("", 4)
    resumed = search_tiny(folder, budget=6)
    assert drop_costs(resumed.records) == drop_costs(whole.records)
    assert 100 < resumed.run.wall_seconds < 160
    assert (resumed.run.end_reason, resumed.run.workers[0]["networks"]) == ("budget", 6)
    with Store(folder / "records.sqlite", read_only=True) as store:
        assert list(store)[:8] == [change_record(r, torch="", code="") for r in records]
    assert "stopped_early" not in json.loads((folder / "run.json").read_text())
    assert report(folder).exists()
    with pytest.raises(UsageError, match=r"another run, with seeds 1 \(now 2\)"):
        search_tiny(folder, seeds=2)


def test_the_number_of_networks_scored_in_batches_is_recorded(run_folder):
    options = {
        "budget": 6,
        "data": "noise",
        "workers": 1,
        "networks_per_batch": 4,
        "run": run_folder,
    }
    result = search("nasbench201(channels=2,cells=1)", "dextr", **options, input_size=16)
    (row,) = result.run.workers
    assert 3 <= row["batched"] < row["networks"] == 6
    assert f"<dd>{row['batched']} networks</dd>" in result.report().read_text()
