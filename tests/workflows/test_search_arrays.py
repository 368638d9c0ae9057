"""Searches that train on arrays: contest, confirmation, export, and archives of floats."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

import untrained as ut
from untrained.cli.app import main
from untrained.data import load_data
from untrained.data.parts import TEST, TRAIN, VAL
from untrained.errors import UsageError

SPACE = "nasbench201(channels=2,cells=1)"
LABELS = torch.arange(80) % 2
# Two classes that differ in brightness.
IMAGES = torch.randn(80, 3, 8, 8, generator=torch.Generator().manual_seed(0))
IMAGES += 3 * LABELS[:, None, None, None]
VECTORS = np.random.default_rng(0).normal(7, 3, (80, 4))
NUMBERS = 2 * VECTORS[:, 0] - VECTORS[:, 1]
DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_contest_on_images_ends_with_an_exported_network():
    options = {
        "data": (IMAGES, LABELS),
        "budget": 3,
        "confirm": 1,
        "time": "6s",
        "export": "model",
        "run": "run",
        "workers": 1,
    }
    result = ut.search(SPACE, "params", **options)
    assert result.contest is not None
    # 80 % and 10 % of the samples, which the contest splits again.
    assert result.contest.train_samples + result.contest.val_samples == 72
    assert result.training.key.arch == result.contest.winner
    assert result.training.samples["test"] == 8
    config = json.loads(Path("model/config.json").read_text())
    assert config["classes"] == ["0", "1"]
    assert config["reads_arrays"]
    again = ut.search(SPACE, "params", **options)
    assert again.contest.winner == result.contest.winner
    assert again.training.made_on == result.training.made_on


def test_a_confirmation_on_vectors_trains_hand_designed_networks():
    result = ut.search(
        proxy="params",
        data=(VECTORS, NUMBERS),
        budget=3,
        confirm=1,
        time="5s",
        run="run",
        workers=1,
    )
    assert result.run.config.space == "mlp"
    assert result.confirmation is not None
    names = {entry.name for entry in result.confirmation.entries}
    assert {"linear", "gradient boosting"} <= names
    training = json.loads(Path("run/train.json").read_text())
    assert training["task"]["loss"] == "mse"
    assert training["rmse"] < training["constant"]["rmse"]


def test_the_winner_of_a_search_without_training_is_trained_on_the_same_objects():
    data = (IMAGES, LABELS)
    ut.search(SPACE, "params", budget=2, data=data, run="run", workers=1)
    with pytest.raises(UsageError, match=r"give them again, such as data=\(inputs, targets\)"):
        ut.train("run", epochs=1)
    result = ut.train("run", data, epochs=1)
    assert result.folder == "run"
    assert result.task["num_classes"] == 2


class Stream(IterableDataset):
    def __iter__(self):
        yield torch.zeros(3, 8, 8), 0


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (IMAGES, {"confirm": 1}, "no targets to train on"),
        (DataLoader(Stream()), {"confirm": 1}, "read them into tensors first"),
        ((IMAGES, LABELS), {"confirm": 1, "input_size": 16}, "leave out --input-size 16"),
        ((IMAGES[:, 0], LABELS), {"confirm": 1}, r"shape 8x8, and networks of nasbench201"),
        ((IMAGES[:3], LABELS[:3]), {"confirm": 1}, "too few samples to train on"),
    ],
)
def test_data_that_cannot_be_trained_on_are_refused_before_the_search(data, options, message):
    with pytest.raises(UsageError, match=message) as caught:
        ut.search(SPACE, "params", budget=2, data=data, run="run", workers=1, **options)
    assert "\n" not in str(caught.value)
    assert not Path("run").exists()


# ------------------------------------------------------------------------------------ npz of floats


def test_an_archive_of_floats_has_the_same_parts_as_the_arrays():
    np.savez("mine.npz", x=VECTORS, y=NUMBERS)
    source = load_data("npz:mine.npz", ut.Task("any", (3, 8, 8), 10))
    assert source.task.input_shape == (4,)
    assert source.task.loss == "mse"
    trained = ut.train(torch.nn.Linear(4, 1), (VECTORS, NUMBERS), epochs=1, run="memory")
    named = ut.train(torch.nn.Linear(4, 1), "npz:mine.npz", epochs=1, input_shape=(4,), run="file")
    assert named.normalisation == trained.normalisation
    assert named.constant == trained.constant


def test_parts_in_the_archive_are_used_as_they_are():
    np.savez("mine.npz", x=VECTORS, y=NUMBERS, x_test=VECTORS[:5] + 1, y_test=NUMBERS[:5])
    parts = load_data("npz:mine.npz", ut.Task("any", (4,), 1)).parts
    assert {name: len(part) for name, part in parts.items()} == {TRAIN: 72, VAL: 8, TEST: 5}
    assert np.array_equal(parts[TEST].inputs.numpy(), VECTORS[:5] + 1)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": VECTORS, "y": NUMBERS[:9]}, r"targets have the shape \(9,\) for 80 inputs"),
        ({"x": VECTORS, "labels": NUMBERS}, "holds x, labels; it needs x and y"),
        ({"x": VECTORS[:, 0], "y": NUMBERS}, r"inputs have the shape \(80,\)"),
        (
            {"x": VECTORS, "y": NUMBERS, "x_test": VECTORS[:, :2], "y_test": NUMBERS},
            "inputs of the test part have the shape",
        ),
        ({"x": VECTORS.astype(np.int16), "y": NUMBERS}, "or floats"),
    ],
)
def test_wrong_archives_are_refused_in_one_line(arrays, message):
    np.savez("mine.npz", **arrays)
    with pytest.raises(UsageError, match=message) as caught:
        load_data("npz:mine.npz", ut.Task("any", (4,), 1))
    assert "\n" not in str(caught.value)


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run a command and return its exit code."""
    monkeypatch.setattr("sys.argv", ["untrained", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code


def test_the_command_line_searches_and_trains_on_an_archive_of_floats(monkeypatch):
    np.savez("mine.npz", x=VECTORS, y=(NUMBERS > 7).astype(int))
    search = "search --data npz:mine.npz --proxy params --budget 3 --no-confirm --workers 1"
    assert run_command(monkeypatch, *search.split(), "--run", "run") == 0
    config = json.loads(Path("run/run.json").read_text())["config"]
    assert config["space"] == "mlp"
    train = "train run --recipe table(epochs=1) --run trained"
    assert run_command(monkeypatch, *train.split()) == 0
    training = json.loads(Path("trained/train.json").read_text())
    assert training["task"]["input_shape"] == [4]
    assert training["reads_arrays"]
    score = "score run_net.py:make --data npz:mine.npz --input-shape 4 --proxy params"
    Path("run_net.py").write_text(
        "from torch import nn\n\n\ndef make():\n    return nn.Linear(4, 2)\n"
    )
    assert run_command(monkeypatch, *score.split()) == 0
    assert run_command(monkeypatch, *score.replace("shape 4", "shape 3x2x2").split()) == 2


# ----------------------------------------------------------------------------------- other functions


def test_a_source_is_accepted_wherever_a_name_is():
    source = load_data("digits", ut.load_space(SPACE).task)
    cell = str(ut.load_space(SPACE).sample(seed=0))
    options = {"space": SPACE, "proxies": "naswot(samples=8)"}
    by_source = ut.score(cell, source, **options)
    by_name = ut.score(cell, "digits", **options)
    assert by_source["naswot(samples=8)"] == by_name["naswot(samples=8)"]
    result = ut.search(SPACE, "params", budget=2, data=source, run="run", workers=1)
    assert result.run.config.data == "digits"


def test_a_calibration_takes_arrays_and_a_space_object():
    result = ut.calibrate(
        ut.load_space(SPACE),
        "naswot(samples=8)",
        (IMAGES, LABELS),
        trainings=4,
        epochs=1,
        samples=40,
        workers=1,
        run="run",
    )
    assert len(result.archs) == 4


def test_a_path_names_data():
    np.savez("mine.npz", x=VECTORS, y=NUMBERS)
    result = ut.train(
        torch.nn.Linear(4, 1), Path("mine.npz"), epochs=1, input_shape=(4,), run="run"
    )
    assert result.key.data == "npz:mine.npz"


# ---------------------------------------------------------------------------------------- the page


def test_the_examples_of_the_page_on_arrays_run(capsys):
    page = (DOCS / "how-to" / "arrays.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    printed = capsys.readouterr().out
    assert "accuracy" in printed
    assert "'train': 320, 'val': 40, 'test': 40" in printed
    assert Path("exported/predict.py").is_file()
    assert load_data("npz:numbers.npz", ut.Task("any", (6,), 1)).task.loss == "mse"
