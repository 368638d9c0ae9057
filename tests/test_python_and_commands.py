"""Python can do what the command line can, with the same defaults.

Every option of every command has an argument in Python, or a reason why it has none. A new option
that is missing on one side fails here.
"""

import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import untrained as ut
from tests.cli.helpers import COMMANDS
from untrained.cli.app import app
from untrained.config import ComputeOptions, SearchConfig
from untrained.errors import UsageError
from untrained.runs.folder import get_default_effort, get_default_group_size
from untrained.workflows.score import ScoreOptions
from untrained.workflows.search import SearchOptions, SearchResult

# Options that have another form in Python, for all commands: where they are.
OTHER_FORMS = {
    "as_json": "results are Python objects with rows() or frame()",
    "label": "part of the name of the data: csv:clicks.csv?label=click",
    "task": "part of the name of the data: csv:prices.csv?task=regression",
    "test": "part of the name of the data: folder:./photos?test=folder:./held",
}
# The same, for one command: the argument in Python, or a reason that contains a space.
RENAMED = {
    "search": {
        "max_params": "limits",
        "min_params": "limits",
        "max_flops": "limits",
        "max_memory": "limits",
        "max_latency": "limits",
        "no_confirm": "confirm",
    },
    "score": {"networks": "network", "proxy": "proxies", "classes": "num_classes"},
    "export": {"classes": "num_classes"},
    "report": {"serve": "a server ends with Ctrl-C", "port": "belongs to --serve"},
}
# `score --rank` is a function of its own.
RENAMED["score"]["rank"] = "ut.rank is the function"
# Defaults that differ, and why.
OTHER_DEFAULTS = {
    ("score", "proxy"): "a DataFrame needs no baselines beside the score",
    ("score", "data"): "None means the same embedded data",
    ("search", "data"): "None means digits, which is the default in Python",
    ("search", "top"): "None means the default of SearchConfig",
    ("search", "keep"): "None means the default of SearchConfig",
    ("search", "effort"): "None means the default of the data, see the test below",
    ("calibrate", "data"): "None means digits, which is the default in Python",
}
# Commands without a public function, and what does the same in Python.
WITHOUT_FUNCTION = {
    "latency bundle": "untrained.workflows.latency_bundle",
    "data import": "untrained.benchmarks.importers",
    "data card": "untrained.data",
    "list": "untrained.proxies",
    "doctor": "untrained.cli.installation",
    "store info": "untrained.runs.store",
    "store export": "untrained.runs.store",
    "store merge": "untrained.runs.store",
}
OPTION_TYPES = {
    "search": (SearchOptions,),
    "score": (ScoreOptions,),
    "bench": (ComputeOptions,),
}
PUBLIC = [name for name in COMMANDS if name not in WITHOUT_FUNCTION]


def list_options(command: str) -> dict[str, Any]:
    """Return the parameters of a command with their defaults."""
    for registered in app.registered_commands:
        callback = registered.callback
        assert callback is not None
        if (registered.name or callback.__name__) == command:
            parameters = inspect.signature(callback).parameters.values()
            return {parameter.name: parameter.default for parameter in parameters}
    raise AssertionError(f"there is no command {command}")


def list_arguments(name: str) -> dict[str, Any]:
    """Return the parameters of a public function with their defaults, and its further options."""
    arguments = {}
    for parameter in inspect.signature(getattr(ut, name)).parameters.values():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            arguments[parameter.name] = parameter.default
    for option_type in OPTION_TYPES.get(name, ()):
        for option in typing.get_type_hints(option_type):
            arguments.setdefault(option, ...)
    return arguments


def test_every_command_has_a_function_or_a_module():
    for name in PUBLIC:
        assert callable(getattr(ut, name))
    for module in WITHOUT_FUNCTION.values():
        assert __import__(module, fromlist=["x"])


@pytest.mark.parametrize("command", PUBLIC)
def test_every_option_is_an_argument(command):
    arguments = list_arguments(command)
    renamed = RENAMED.get(command, {})
    for option in list_options(command):
        if option in OTHER_FORMS or " " in renamed.get(option, ""):
            assert option not in arguments
        else:
            assert renamed.get(option, option) in arguments, f"--{option} of {command}"


@pytest.mark.parametrize("command", PUBLIC)
def test_every_argument_is_an_option(command):
    """Arguments that only Python has are callbacks and objects."""
    only_python = {
        "search": {"on_progress", "limits"},
        "score": {"store"},
        "bench": {"on_progress"},
        "calibrate": {"on_progress"},
        "reproduce": {"on_progress"},
        "train": {"on_progress", "checkpoint_every", "start", "finish_in"},
        "export": set(),
        "report": set(),
    }
    names = set()
    for option in list_options(command):
        names.add(RENAMED.get(command, {}).get(option, option))
    assert set(list_arguments(command)) - names == only_python[command] - names


@pytest.mark.parametrize("command", PUBLIC)
def test_defaults_are_equal(command):
    arguments = list_arguments(command)
    fields = SearchConfig.__dataclass_fields__
    differing = {}
    for option, default in list_options(command).items():
        name = RENAMED.get(command, {}).get(option, option)
        if name not in arguments or name == "limits" or (command, option) in OTHER_DEFAULTS:
            continue
        other = arguments[name]
        if other is ... and command == "search" and name in fields:
            other = fields[name].default
        if ... in (other, default) or inspect.Parameter.empty in (other, default):
            continue
        if name == "confirm":
            # Both mean the default of the data, see the test below.
            assert default in (None, False)
            continue
        if other != default and not (not other and not default):
            differing[option] = (default, other)
    assert differing == {}


# ------------------------------------------------------------------------------ search


def capture_config(monkeypatch: pytest.MonkeyPatch, **options: Any) -> SearchConfig:
    """Return the configuration of a search in Python without running it."""
    import untrained.workflows.search as search_module

    configs = []

    def run_search(config: SearchConfig, *_: object, **__: object) -> None:
        configs.append(config)

    monkeypatch.setattr(search_module, "run_search", run_search)
    ut.search(**options)
    return configs[0]


@pytest.mark.parametrize("data", ["digits", "folder:./photos", "npz:x.npz", "csv:x.csv", "clicks"])
def test_a_search_confirms_as_on_the_command_line(monkeypatch, data):
    config = capture_config(monkeypatch, data=data)
    assert config.confirm == get_default_group_size(data)
    assert config.effort == get_default_effort(data)
    assert capture_config(monkeypatch, data=data, time=None, effort="") == config
    assert capture_config(monkeypatch, data=data, confirm=0).confirm == 0
    assert capture_config(monkeypatch, data=data, confirm=0).effort == ""
    assert capture_config(monkeypatch, data=data, confirm=2, time="3m").effort == ""
    assert capture_config(monkeypatch, data=data, effort="normal").effort == "normal"


def test_pictures_of_the_user_have_a_contest_of_15_minutes(monkeypatch):
    config = capture_config(monkeypatch, data="folder:./photos")
    assert (config.confirm, config.effort, config.time_seconds) == (3, "quick", 900.0)
    assert capture_config(monkeypatch, data=torch.zeros(8, 1, 8, 8)).confirm == 0


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    """Dark and bright pictures."""
    folder = tmp_path_factory.mktemp("pictures")
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 2
    images = (60 + 90 * labels)[:, None, None, None] + generator.integers(-20, 20, (60, 8, 8, 3))
    np.savez(folder / "x.npz", x=images.astype(np.uint8), y=labels)
    return folder / "x.npz"


def test_a_search_trains_and_exports_its_winner(pictures, tmp_path, monkeypatch):
    import untrained.workflows.export as export_module

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("not today")

    monkeypatch.setattr(export_module, "write_onnx", refuse)
    stages = []
    result = ut.search(
        "convnet",
        "params",
        budget=2,
        data=f"npz:{pictures}",
        limits={"params": "20k"},
        confirm=0,
        recipe="quick(epochs=1)",
        export=tmp_path / "model",
        run=tmp_path / "run",
        workers=1,
        on_progress=lambda progress: stages.append(progress.stage),
    )
    assert isinstance(result, SearchResult)
    assert result.training is not None
    assert result.training.key.arch == str(result.best)
    assert result.export_result is not None
    assert result.export_result.folder == (tmp_path / "model").resolve()
    assert (tmp_path / "model" / "model.py").is_file()
    assert {"scoring", "training"} <= set(stages)
    page = (tmp_path / "run" / "report.html").read_text()
    assert 'http-equiv="refresh"' not in page
    assert f"--export {tmp_path / 'model'}" in page.replace("<wbr>", "")


def test_an_impossible_export_is_refused_before_the_search(tmp_path):
    (tmp_path / "mine.txt").write_text("a file of mine")
    with pytest.raises(UsageError, match="is not an earlier export"):
        ut.search("nasbench201", "params", budget=1, export=tmp_path, run=tmp_path / "run")
    with pytest.raises(UsageError, match="recipe has no effect without export"):
        ut.search("nasbench201", "params", budget=1, recipe="quick", run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# --------------------------------------------------------------------- objects instead of names


@ut.space(task=ut.Task("noise", (3, 8, 8), 4))
def tiny(choose: Any, task: ut.Task) -> nn.Module:
    width = choose("width", (2, 3, 4, 5, 6))
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36 * width, 4))


@ut.proxy()
def spread(probe: ut.Probe) -> float:
    """Range of the outputs."""
    return float(probe.outputs.max() - probe.outputs.min())


def test_bench_takes_a_space_proxies_and_a_table(tmp_path):
    import pandas as pd

    archs = [f"width={width}" for width in (2, 3, 4, 5, 6)]
    table = pd.DataFrame({"arch": archs, "accuracy": [1.0, 2.0, 3.0, 4.0, 5.0]})
    result = ut.bench(tiny, [spread, "naswot"], table=table, workers=1, run=tmp_path / "run")
    rows = {row["proxy"]: row for row in result.rows()}
    assert set(rows) == {"spread", "naswot", "params", "flops", "random"}
    # More channels have more parameters, so their order is that of the table.
    assert rows["params"]["spearman"] == 1.0
    assert result.space == "tiny"
    with pytest.raises(UsageError, match=r"results for your own space tiny; .*table='results.csv'"):
        ut.bench(tiny, spread)


def test_bench_takes_a_space_of_the_package_as_an_object(tmp_path):
    by_name = ut.bench("convnet", "params", samples=5, data="noise", workers=1, run=tmp_path / "a")
    space = ut.load_space("convnet")
    by_object = ut.bench(space, ["params"], samples=5, data="noise", workers=1, run=tmp_path / "b")
    assert by_object.archs == by_name.archs
    assert by_object.rows() == by_name.rows()


def test_calibrate_takes_a_space_and_arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = torch.randn(40, 3, 8, 8)
    labels = torch.arange(40) % 4
    result = ut.calibrate(
        tiny, spread, (inputs, labels), trainings=4, epochs=1, samples=40, workers=1
    )
    assert {row["proxy"] for row in result.rows()} == {"spread", "params", "flops", "random"}
    assert result.space == "tiny"


# ----------------------------------------------------------------------------- natural mistakes

MODEL = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
INPUTS = torch.randn(8, 3, 8, 8)
LABELS = torch.arange(8) % 5
LOADER = DataLoader(TensorDataset(INPUTS, LABELS), batch_size=4)


def make_model() -> nn.Module:
    return MODEL


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "score(x, model)": (
        lambda: ut.score(INPUTS, MODEL),  # type: ignore[call-overload]
        "the network comes first and the data second: score(model, inputs)",
    ),
    "score(x)": (
        lambda: ut.score(INPUTS),  # type: ignore[call-overload]
        "a Tensor is data, not a network: the network comes first, as in score(model, inputs)",
    ),
    "score(loader)": (lambda: ut.score(LOADER), "a DataLoader is data, not a network"),  # type: ignore[call-overload]
    "score((x, y))": (lambda: ut.score((INPUTS, LABELS)), "a tuple is data, not a network"),  # type: ignore[arg-type]
    "score(class)": (
        lambda: ut.score(nn.Linear),
        "is a class, not a network; give an object: Linear(...)",
    ),  # type: ignore[call-overload]
    "score(function)": (
        lambda: ut.score(make_model),  # type: ignore[call-overload]
        "give the one that it returns: make_model()",
    ),
    "score(proxy=)": (
        lambda: ut.score(MODEL, INPUTS, proxy="naswot"),  # type: ignore[call-overload]
        "no option of score is called 'proxy'; did you mean proxies?",
    ),
    "train(model, x, y)": (
        lambda: ut.train(MODEL, INPUTS, LABELS),  # type: ignore[arg-type]
        "give inputs and labels as one argument: train(model, (inputs, labels))",
    ),
    "train(loader)": (lambda: ut.train(LOADER), "a DataLoader is data, not a network"),  # type: ignore[arg-type]
    "train('resnet18')": (
        lambda: ut.train("resnet18"),
        "name the data to train on: --data digits (in Python, data='digits')",
    ),
    "search('folder:./photos')": (
        lambda: ut.search("folder:./photos"),
        "folder:./photos is data, not a space: --data folder:./photos "
        "(in Python, data='folder:./photos')",
    ),
    "search('digits')": (lambda: ut.search("digits"), "digits is data, not a space: --data digits"),
    "search(folder)": (
        lambda: ut.search("."),
        ". is a folder, not a space; if it has pictures: --data folder:.",
    ),
    "search(loader)": (
        lambda: ut.search(LOADER),  # type: ignore[arg-type]
        "a DataLoader is data, not a space; name the argument: data=...",
    ),
    "search((x, y))": (lambda: ut.search((INPUTS, LABELS)), "a tuple is data, not a space"),  # type: ignore[arg-type]
    "search(model)": (
        lambda: ut.search(MODEL),  # type: ignore[arg-type]
        "a network is not a space to search; score it with score(model, inputs)",
    ),
    "search('naswot')": (
        lambda: ut.search("naswot"),
        "naswot is a proxy, not a space: --proxy naswot (in Python, proxy='naswot')",
    ),
    "search('evolution')": (
        lambda: ut.search("evolution(population=8)"),
        "is a strategy, not a space: --strategy evolution(population=8)",
    ),
    "search(space, 'evolution')": (
        lambda: ut.search("nasbench201", "evolution"),
        "evolution is a strategy, not a proxy: --strategy evolution",
    ),
    "search(space, [proxies])": (
        lambda: ut.search("nasbench201", ["zico", "naswot"]),  # type: ignore[arg-type]
        "a search ranks by one proxy: --proxy zico; record others with --also",
    ),
    "search(max_params=)": (
        lambda: ut.search(max_params="1M"),  # type: ignore[call-arg]
        "search has no argument max_params; write limits={'params': '1M'}",
    ),
    "search(label=)": (
        lambda: ut.search(data="csv:x.csv", label="y"),  # type: ignore[call-arg]
        "search has no argument label; write data='csv:clicks.csv?label=click'",
    ),
    "search(proxies=)": (
        lambda: ut.search(proxies=["zico"]),  # type: ignore[call-arg]
        "no option of search is called 'proxies'; did you mean proxy",
    ),
    "bench('naswot')": (lambda: ut.bench("naswot"), "naswot is a proxy, not a space"),
    "bench(proxies=3)": (lambda: ut.bench(proxy=3), "3 is not a list of names"),  # type: ignore[arg-type]
    "calibrate('digits')": (lambda: ut.calibrate("digits"), "digits is data, not a space"),
    "export('out', model)": (
        lambda: ut.export("out", MODEL),  # type: ignore[arg-type]
        "the network comes first and the folder second: export(model, 'folder')",
    ),
}


@pytest.mark.parametrize("call", MISTAKES)
def test_a_natural_mistake_is_answered_in_one_line(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, message = MISTAKES[call]
    with pytest.raises(UsageError) as caught:
        function()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_result_of_a_search_is_no_network(tmp_path):
    result = ut.search("nasbench201(channels=2,cells=1)", "params", budget=2, run=tmp_path)
    with pytest.raises(UsageError, match=r"give its folder, result\.run\.folder, or its best"):
        ut.train(result, "digits")  # type: ignore[arg-type]


def test_data_of_a_loader_can_be_scored():
    scores = ut.score(MODEL, LOADER, proxies="params")
    assert scores["params"] == 192 * 5 + 5
