"""`score` takes networks from a file of the user; errors of that file are shown as such."""

import sys
from uuid import uuid4

import pytest

from tests.engine.helpers import get_failure, get_value, make_proxy, weight_sum
from untrained.config import DEFAULT_DATA
from untrained.errors import UsageError
from untrained.names import UserCodeError
from untrained.workflows.score import score_networks


@pytest.mark.parametrize("relative", [True, False])
def test_a_factory_in_a_file_is_scored(user_file, monkeypatch, relative):
    monkeypatch.chdir(user_file.parent)
    name = "./net.py:make" if relative else f"{user_file}:make"
    records = score_networks(name, ("params", "flops", "dextr"), input_shape=(3, 16, 16), seeds=2)
    values = {(r.proxy, r.seed): r.value for r in records}
    assert values["params", 0] == 3 * 4 * 9 + 4 + 4 * 5 + 5
    assert values["flops", 0] == 3 * 4 * 9 * 14 * 14 + 4 * 5
    assert values["dextr", 0] != values["dextr", 1]  # every seed is another initialisation
    assert {r.task.num_classes for r in records} == {5}
    again = score_networks(name, ("params", "flops", "dextr"), input_shape=(3, 16, 16), seeds=2)
    assert [r.value for r in again] == [r.value for r in records]


def test_a_factory_that_draws_from_numpy_is_seeded_too(user_file):
    weights = make_proxy(weight_sum)
    a, b = (
        get_value(score_networks(f"{user_file}:numpy_weights", weights, input_shape=(3, 8, 8)))
        for _ in range(2)
    )
    assert a == b


def test_a_factory_in_an_importable_module_is_scored(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users_package").mkdir()
    (tmp_path / "users_package" / "__init__.py").touch()
    (tmp_path / "users_package" / "nets.py").write_text(
        "from torch import nn\nmake = lambda: nn.Linear(4, 2)\n"
    )
    assert get_value(score_networks("users_package.nets:make", "params", input_shape=(4,))) == 10


def test_a_network_that_takes_no_images_is_measured_on_noise_by_default(user_file):
    (user_file.parent / "vector.py").write_text(
        "from torch import nn\nmake = lambda: nn.Linear(4, 2)\n"
    )
    for name, shape, data in [
        ("vector.py:make", (4,), "noise"),
        ("net.py:make", (3, 8, 8), DEFAULT_DATA),
    ]:
        (record,) = score_networks(f"{user_file.parent}/{name}", "params", input_shape=shape)
        assert record.task.dataset == data != ""


def test_default_data_have_no_more_classes_than_the_network(user_file):
    """Data with ten labels must not break a gradient proxy on a network with five outputs."""
    loss = make_proxy(
        lambda probe: float(probe.batch.targets.max()) + 0 * probe.loss,
        samples=64,
        needs=("data", "labels"),
    )
    assert get_value(score_networks(f"{user_file}:make", loss, input_shape=(3, 8, 8))) == 4


def test_an_exception_in_a_factory_is_shown_without_our_own_frames(user_file):
    with pytest.raises(UserCodeError) as caught:
        score_networks(f"{user_file}:boom", "params", input_shape=(3, 8, 8))
    text = str(caught.value)
    assert text.startswith(f"{user_file}:boom raised an error when it was called\n")
    assert text.endswith("ValueError: the weights are elsewhere")
    assert text.count(f'File "{user_file}"') == 2  # boom, and inner, which it calls
    assert not any(
        ours in text for ours in ("src/untrained", "untrained/engine", "importlib", "Traceback")
    )


@pytest.mark.parametrize(
    ("source", "last"),
    [
        ("import torch\n1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def make(:\n", "SyntaxError: invalid syntax"),
        (
            "import a_missing_module\n",
            "ModuleNotFoundError: No module named 'a_missing_module'",
        ),
    ],
)
@pytest.mark.parametrize("by", ["path", "module"])
def test_an_exception_while_a_file_is_loaded_is_shown_without_our_own_frames(
    tmp_path, monkeypatch, source, last, by
):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    stem = f"bad_{uuid4().hex}"
    (tmp_path / f"{stem}.py").write_text(source)
    with pytest.raises(UserCodeError) as caught:
        score_networks(
            f"./{stem}.py:make" if by == "path" else f"{stem}:make", "params", input_shape=(3, 8, 8)
        )
    text = str(caught.value)
    assert text.endswith(last)
    assert f'{stem}.py", line' in text
    assert not any(ours in text for ours in ("src/untrained", "untrained/engine", "importlib"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("net.py:number", r"number\(\) returned a int; it must return an nn.Module"),
        ("net.py:three", "is a int; it must be a function that returns an nn.Module"),
        ("net.py:mke", r"no object in .*net.py is called 'mke'; did you mean make\?"),
        ("nett.py:make", "there is no file .*nett.py"),
        ("net:make", "there is no file .*net; give the path"),
        ("net.py:", "is incomplete"),
    ],
)
def test_a_name_that_is_not_a_factory_is_refused(user_file, name, message):
    with pytest.raises(UsageError, match=message) as caught:
        score_networks(f"{user_file.parent}/{name}", "params", input_shape=(3, 8, 8))
    assert "\n" not in str(caught.value)


def test_the_error_for_a_wrong_name_lists_what_the_file_defines_and_not_its_imports(tmp_path):
    path = tmp_path / f"nets_{uuid4().hex}.py"
    path.write_text(
        "import os.path\nfrom torch import nn as layers\n"
        "wide = 3\nmake = lambda: layers.Linear(4, 2)\n"
    )
    with pytest.raises(UsageError, match=r"is called 'xyz'; available: make, wide$"):
        score_networks(f"{path}:xyz", "params", input_shape=(4,))
    path = tmp_path / f"nets_{uuid4().hex}.py"  # a file that only imports
    path.write_text("from torch import nn\nfrom torch.nn import Linear\n")
    with pytest.raises(UsageError, match=r"is called 'xyz'; available: Linear, nn$"):
        score_networks(f"{path}:xyz", "params", input_shape=(4,))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "missing_package.nets:make",
            r"there is no module missing_package.nets .* \./missing_package/nets.py:NAME",
        ),
        (":make", "is incomplete"),
    ],
)
def test_a_missing_module_is_refused(name, message):
    with pytest.raises(UsageError, match=message):
        score_networks(name, "params", input_shape=(3, 8, 8))


def test_a_failure_of_a_network_from_a_file_is_a_record(user_file):
    error = get_failure(score_networks(f"{user_file}:Broken", "dextr", input_shape=(3, 8, 8)))
    assert (error.kind, error.detail.split(" (")[0]) == ("error", "RuntimeError: no forward today")
