"""`untrained store export --as optuna`: Optuna reads back what the store contains."""

import json
import re
import sys
from wsgiref.util import setup_testing_defaults

import pytest

from tests.cli.helpers import SEARCH, read_usage_error
from untrained import names, user_code
from untrained.runs.store import Store

optuna = pytest.importorskip("optuna", reason="optuna is not installed")
# Fails on one of the three widths.
PARTLY = """
@untrained.proxy(higher_is_better=False)
def partly(probe):
    \"\"\"The parameters, but not of the narrowest network.\"\"\"
    if probe.params < 400:
        raise ValueError("too narrow")
    return probe.params / 2
"""


@pytest.fixture
def load_study():
    storages = []

    def load(file: str) -> "optuna.Study":
        storage = optuna.storages.RDBStorage(f"sqlite:///{file}")
        storages.append(storage)
        return optuna.load_study(study_name="run", storage=storage)

    yield load
    for storage in storages:
        storage.remove_session()
        storage.engine.dispose()


def read_by_arch(project):
    """Return the records of the run: value or failure by architecture and proxy."""
    found = {}
    with Store(project / "run" / "records.sqlite", read_only=True) as store:
        for record in store:
            found.setdefault(record.arch, {})[record.proxy] = record
    return found


def test_trials_are_the_architectures_of_the_run(run_cli, project, load_study):
    (project / "mine.py").write_text((project / "mine.py").read_text() + PARTLY)
    assert run_cli(*SEARCH, "--proxy", "./mine.py:partly")[0] == 0
    assert run_cli("store", "export", "run", "new/study.db", "--as", "optuna") == (
        0,
        "3 trials: new/study.db\n",
        "",
    )
    study = load_study("new/study.db")
    expected = read_by_arch(project)
    (ranking_proxy,) = {name for own in expected.values() for name in own} - {"params", "flops"}
    assert study.metric_names == [ranking_proxy, "params"]
    assert [direction.name for direction in study.directions] == ["MINIMIZE", "MINIMIZE"]
    assert len(study.trials) == len(expected) == 3
    states = []
    for trial, (arch, records) in zip(study.trials, expected.items(), strict=True):
        states.append(trial.state.name)
        assert trial.params == dict(arch.genes)
        assert trial.distributions["width"].choices == (2, 3, 4)
        assert trial.user_attrs["arch"] == str(arch)
        assert trial.user_attrs["params"] == records["params"].value
        assert trial.user_attrs["flops"] == records["flops"].value
        score = records[ranking_proxy]
        if score.error:
            assert trial.state.name == "FAIL"
            assert trial.values is None
            assert "too narrow" in trial.user_attrs["failure"]
            assert trial.user_attrs["failure"] == str(score.error)
            assert ranking_proxy not in trial.user_attrs
        else:
            assert trial.values == [score.value, records["params"].value]
            assert trial.user_attrs[ranking_proxy] == score.value
    assert sorted(states) == ["COMPLETE", "COMPLETE", "FAIL"]


def test_size_is_one_objective_if_it_ranks(run_cli, project, load_study):
    assert run_cli(*SEARCH, "--proxy", "params")[0] == 0
    for _ in range(2):  # an existing file is replaced, as with tables
        code, out, err = run_cli(
            "store", "export", "run/records.sqlite", "s.db", "--as", "optuna", "--json"
        )
        assert (code, json.loads(out), err) == (0, {"rows": 3, "file": "s.db"}, "")
    study = load_study("s.db")
    assert (study.metric_names, study.direction.name) == (["params"], "MAXIMIZE")
    values = [own["params"].value for own in read_by_arch(project).values()]
    assert [trial.value for trial in study.trials] == values
    assert study.best_value == max(values)
    assert not list(project.glob("*.part"))


def test_latency_is_an_objective_if_it_was_limited(run_cli, project, load_study, monkeypatch):
    # Without ONNX, latency is measured in torch, which takes less time.
    monkeypatch.setattr("untrained.strategies.max_latency.can_run_onnx", lambda: False)
    assert run_cli(*SEARCH, "--proxy", "naswot", "--max-latency", "10s@cpu")[0] == 0
    assert run_cli("store", "export", "run", "study.db", "--as", "optuna")[0] == 0
    study = load_study("study.db")
    first, second, latency = study.metric_names
    assert (first, second) == ("naswot", "params")
    # The finalists, here all networks, are measured a second time, with 100 forward passes.
    assert re.match(r"latency\(runtime=torch,batch=1,threads=1,runs=100,", latency)
    assert [direction.name for direction in study.directions] == [
        *("MAXIMIZE", "MINIMIZE", "MINIMIZE"),
    ]
    for trial, records in zip(study.trials, read_by_arch(project).values(), strict=True):
        assert trial.values == [records[name].value for name in study.metric_names]
        assert 0 < trial.values[2] < 10
        assert sum(name.startswith("latency(") for name in trial.user_attrs) == 2


def request(app, path: str) -> tuple[str, bytes]:
    """Send a request to a program that follows WSGI; returns the status and the content."""
    statuses = []
    environment = {"PATH_INFO": path}
    setup_testing_defaults(environment)
    parts = app(environment, lambda status, headers, *_: statuses.append(status))
    content = b"".join(parts)
    # Files that it sends are open until then.
    if hasattr(parts, "close"):
        parts.close()
    return statuses[0], content


def test_the_dashboard_shows_the_study(run_cli, project, load_study):
    dashboard = pytest.importorskip("optuna_dashboard", reason="optuna-dashboard is not installed")
    (project / "mine.py").write_text((project / "mine.py").read_text() + PARTLY)
    assert run_cli(*SEARCH, "--proxy", "./mine.py:partly")[0] == 0
    assert run_cli("store", "export", "run", "study.db", "--as", "optuna")[0] == 0
    study = load_study("study.db")
    app = dashboard.wsgi(study._storage)
    assert request(app, "/dashboard")[0] == "200 OK"
    status, content = request(app, f"/api/studies/{study._study_id}")
    shown = json.loads(content)
    assert (status, shown["name"], shown["objective_names"]) == (
        *("200 OK", "run", study.metric_names),
    )
    assert shown["directions"] == ["minimize", "minimize"]
    expected = read_by_arch(project)
    for trial, (arch, records) in zip(shown["trials"], expected.items(), strict=True):
        (parameter,) = trial["params"]
        assert (parameter["name"], int(parameter["param_external_value"])) == arch.genes[0]
        attributes = {row["key"]: row["value"] for row in trial["user_attrs"]}
        assert float(attributes["params"]) == records["params"].value
        if trial["state"] == "Fail":
            assert "too narrow" in attributes["failure"]
        else:
            assert trial["values"][1] == records["params"].value
    assert sorted(trial["state"] for trial in shown["trials"]) == ["Complete", "Complete", "Fail"]


def test_wrong_exports_are_refused_in_one_line(run_cli, project, monkeypatch):
    assert run_cli(*SEARCH, "--proxy", "params")[0] == 0
    (project / "run" / "copy.db").write_bytes((project / "run" / "records.sqlite").read_bytes())
    before = (project / "run" / "copy.db").read_bytes()
    wrong = {
        "run s.txt --as optuna": "use a name that ends in .db",
        "run s.db --as ax": "--as ax is unknown; use --as optuna",
        "run s.db": "has an unknown format; use a name that ends in .parquet or .csv, or add --as",
        "absent s.db --as optuna": "there is no store at absent",
        "run/copy.db run/copy.db --as optuna": "is the store of the run; choose another file",
        "run mine.py/s.db --as optuna": "mine.py/s.db cannot be written",
    }
    for line, message in wrong.items():
        assert message in read_usage_error(run_cli("store", "export", *line.split()))
    assert (project / "run" / "copy.db").read_bytes() == before
    monkeypatch.setitem(sys.modules, "optuna", None)
    error = read_usage_error(run_cli("store", "export", "run", "s.db", "--as", "optuna"))
    assert "pip install optuna" in error
    assert not (project / "s.db").exists()


RANGES = """
import untrained
from torch import nn

@untrained.space(task=untrained.Task("noise", (3, 8, 8), 4))
def ranged(choose, task):
    width = choose.int("width", 2, 10, step=4)
    layers = [nn.Flatten(), nn.Linear(192, width)]
    if choose("act", [nn.ReLU, None]):
        layers.append(nn.Dropout(choose.float("rate", 0.1, 0.5)))
    return nn.Sequential(*layers, nn.Linear(width, choose.int("out", 1, 50, log=True)))
"""


def test_ranges_are_numeric_parameters_of_the_study(run_cli, project, load_study, monkeypatch):
    (project / "ranged.py").write_text(RANGES)
    search = ("--proxy", "params", "--budget", "12", "--run", "run", "--workers", "1")
    assert run_cli("search", "--space", "./ranged.py:ranged", *search)[0] == 0
    assert run_cli("store", "export", "run", "study.db", "--as", "optuna")[0] == 0
    distributions = optuna.distributions
    expected = {
        "width": distributions.IntDistribution(2, 10, step=4),
        "act": distributions.CategoricalDistribution(("None", "ReLU")),
        "rate": distributions.FloatDistribution(0.1, 0.5),
        "out": distributions.IntDistribution(1, 50, log=True),
    }
    archs = read_by_arch(project)
    trials = load_study("study.db").trials
    assert {name for trial in trials for name in trial.params} == set(expected)
    for trial, arch in zip(trials, archs, strict=True):
        assert trial.params == dict(arch.genes)
        assert trial.distributions == {name: expected[name] for name in trial.params}

    # Code that the user has not run on this machine is not run by an export.
    monkeypatch.setattr(user_code, "is_trusted", lambda code: False)
    monkeypatch.setattr(names, "is_trusted", lambda code: False)
    assert run_cli("store", "export", "run", "unknown.db", "--as", "optuna")[0] == 0
    (trial, *_) = load_study("unknown.db").trials
    assert trial.distributions["width"] == distributions.CategoricalDistribution(
        sorted({arch["width"] for arch in archs})
    )
