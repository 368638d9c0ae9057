"""From a click log to an exported model that predicts without this package.

The log has missing, rare, unusual and broken values.
"""

import csv
import gzip
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.data.logs import find_row_numbers
from tests.exports.networks import run_without_untrained
from untrained.data import load_data
from untrained.spaces import load_space
from untrained.training.ctr_designs import CTR_DESIGNS
from untrained.training.result import TrainingResult
from untrained.types import Task
from untrained.workflows import design_trials

SPACE = "nasrec_small(blocks=1)"
ROWS = 300
DATA = "csv:clicks.csv?label=click&dense=number,price&hash=60&floor=2"
SEARCH = (
    "search",
    "--space",
    SPACE,
    "--data",
    DATA,
    "--proxy",
    "sigeo(preset=recommendation)",
    "--warm-up",
    "1%",
)
HEADER = ["click", "number", "user", "note", "price", "shown", "code", "same"]
PREDICT = "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


def make_log() -> list[list[str]]:
    """Return the rows of a click log.

    `number` grows from row to row; `user` has many rare values; `code` has too many values for a
    vocabulary.
    """
    draw = random.Random(3)
    notes = ["plain", "with, comma", 'with "quotes"', "f\u00fcnf", "NA", "", "NULL", " spaced"]
    prices = ["1.5", " 2.25 ", "-3e2", "", "nan", "inf", "oops", "1_000", "0"]
    rows = []
    for i in range(ROWS):
        user = f"u{int(draw.expovariate(0.15))}"
        if i % 7 == 0:
            price = prices[i % 9]
        else:
            price = f"{draw.gauss(10, 5):.3f}"
        shown = str(int(draw.expovariate(0.01)))
        code = f"{draw.randrange(150):x}"
        rows.append(
            [
                str(int(draw.random() < 0.3)),
                str(i),
                user,
                draw.choice(notes),
                price,
                shown,
                code,
                "one",
            ]
        )
    return rows


def write_table(path: Path, header: list[str], rows: list[list[str]], separator: str = ",") -> None:
    open_file = gzip.open if path.suffix == ".gz" else open
    with open_file(path, "wt", newline="") as file:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows([header, *rows])


def set_winner(monkeypatch: pytest.MonkeyPatch, winner: str) -> None:
    """Let logistic regression, DLRM or "found" have the lowest validation loss when fully trained."""
    real_train = design_trials.train

    def train_with_fake_loss(network: Any, *arguments: Any, **options: Any) -> TrainingResult:
        result = real_train(network, *arguments, **options)
        name = result.key.arch
        if name not in CTR_DESIGNS:
            name = "found"
        return replace(result, best={**result.best, "loss": 0.1 if name == winner else 0.2})

    monkeypatch.setattr(design_trials, "train", train_with_fake_loss)
    monkeypatch.setattr(design_trials, "list_ctr_designs", lambda task: ["logistic", "dlrm"])


@pytest.fixture
def exported(project, run_cli, monkeypatch) -> Path:
    """Search, train and export with one command; the log has a byte that is not UTF-8 and a short row.

    The found network wins.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    set_winner(monkeypatch, "found")
    write_table(project / "clicks.csv", HEADER, make_log())
    raw = (project / "clicks.csv").read_bytes().replace("f\u00fcnf".encode(), b"f\xfcnf")
    (project / "clicks.csv").write_bytes(raw + b"1,2,3\n")
    code, out, err = run_cli(
        *SEARCH, "--budget", "3", "--workers", "1", "--run", "run", "--export", "model"
    )
    assert code == 0, err
    assert "AUC" in out
    assert f"exported: {project / 'model'}" in out
    return project / "model"


def predict_with_torch(project: Path) -> np.ndarray:
    """Return the probability of a click for each row, from the trained weights in this process."""
    source = load_data(DATA, Task("any", (1,), 1))
    arch = json.loads((project / "run" / "train.json").read_text())["key"]["arch"]
    if arch in CTR_DESIGNS:
        network = CTR_DESIGNS[arch](source.task)
    else:
        space = load_space(SPACE)
        network = space.build(space.parse(arch), source.task)
    network.load_state_dict(torch.load(project / "run" / "model.pt", weights_only=True))
    parts = {name: np.array(part.values) for name, part in source.parts.items()}
    assert source.schema.dense[0].name == "number"
    probabilities = np.empty(ROWS)
    for name, numbers in find_row_numbers(parts).items():
        with torch.no_grad():
            probabilities[numbers] = (
                network.eval()(torch.from_numpy(parts[name][:, :-1])).sigmoid().flatten().numpy()
            )
    return probabilities


def run_predict(
    folder: Path, path: Path, *arguments: str, code: int = 0
) -> tuple[dict[int, float], str]:
    """Run the exported predict.py; returns the probability by line number, and the error stream."""
    done = run_without_untrained(
        PREDICT, folder.parent, str(folder / "predict.py"), str(path), *arguments
    )
    assert done.returncode == code, done.stderr
    lines = [line.removeprefix(f"{path}:").split("\t") for line in done.stdout.splitlines()]
    probabilities = {int(number): float(text.removeprefix("click ")) for number, text in lines}
    return probabilities, done.stderr


def test_the_help_and_the_messages_of_predict_suit_a_table(exported, project):
    done = run_without_untrained(PREDICT, project, str(exported / "predict.py"), "--help")
    assert "Predict click for each row of a CSV file" in done.stdout
    assert "images" not in done.stdout
    assert "classes" not in done.stdout
    header = (project / "clicks.csv").read_bytes().splitlines()[0]
    (project / "no_rows.csv").write_bytes(header + b"\n")
    predictions, messages = run_predict(exported, project / "no_rows.csv", code=1)
    assert predictions == {}
    assert "no_rows.csv: cannot be read: it has a header and no rows" in messages


def test_one_command_makes_a_model_from_a_click_log(exported, project):
    expected = predict_with_torch(project)
    assert expected.std() > 0.01
    for runtime, tolerance in (("torch", 1e-5), ("onnx", 1e-4)):
        # The last row has too few fields, so the exit code says that a prediction is missing.
        predictions, messages = run_predict(
            exported, project / "clicks.csv", "--runtime", runtime, code=1
        )
        assert list(predictions) == list(range(2, ROWS + 2))
        assert np.abs(expected - list(predictions.values())).max() < tolerance
        assert f"clicks.csv:{ROWS + 2}: left out, 3 fields, not 8" in messages

    # Columns in another order, without the label and the dropped column, and with an empty line.
    order = [6, 4, 5, 2, 1, 3]
    rows = [[row[place] for place in order] for row in make_log()]
    write_table(
        project / "later.csv.gz",
        [f" {HEADER[place]}" for place in order],
        [*rows[:5], [], *rows[5:]],
        ";",
    )
    later, _ = run_predict(exported, project / "later.csv.gz")
    # The log contains this text as Latin-1 and the new file as UTF-8: other identifiers.
    recoded = [i for i, row in enumerate(make_log()) if row[3] == "f\u00fcnf"]
    same = np.setdiff1d(np.arange(ROWS), recoded)
    assert list(later) == [*range(2, 7), *range(8, ROWS + 3)]
    assert np.abs(expected - list(later.values()))[same].max() < 1e-4

    write_table(project / "short.csv", HEADER[:4], [row[:4] for row in make_log()])
    done = run_without_untrained(PREDICT, project, str(exported / "predict.py"), "short.csv")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the first line must name the columns, and there is no price, shown, code" in done.stderr

    euro = [[*row[:4], row[4].replace(".", ","), *row[5:]] for row in make_log()]
    write_table(project / "euro.csv", HEADER, euro, ";")
    refused = run_without_untrained(PREDICT, project, str(exported / "predict.py"), "euro.csv")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert "of price, such as '" in refused.stderr
    both = run_without_untrained(
        PREDICT, project, str(exported / "predict.py"), "euro.csv", "later.csv.gz"
    )
    assert (both.returncode, both.stdout.count("\n")) == (1, ROWS)

    training = json.loads((project / "run" / "train.json").read_text())
    config = json.loads((exported / "config.json").read_text())
    assert (config["log_loss"], config["auc"], config["accuracy"]) == (
        training["loss"],
        training["auc"],
        None,
    )
    assert [column["name"] for column in config["table"]["identifiers"]] == ["user", "note", "code"]
    readme = (exported / "README.md").read_text()
    assert readme.startswith(
        f"# NasrecNetwork: AUC {100 * training['auc']:.2f} % on the test part of {DATA}\n"
    )
    assert (
        f"Log loss {training['loss']:.4f} and AUC {100 * training['auc']:.2f} % on the test part"
        in readme
    )
    assert (
        "- numbers: `number`, `price`, `shown`; a missing number is replaced by the mean" in readme
    )
    assert load_file(exported / "model.safetensors").keys()


@pytest.mark.parametrize("winner", ["logistic", "dlrm"])
def test_a_hand_designed_winner_is_exported(project, run_cli, monkeypatch, winner):
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    set_winner(monkeypatch, winner)
    write_table(project / "clicks.csv", HEADER, make_log())
    options = ("--budget", "2", "--workers", "1", "--run", "run", "--confirm", "1")
    code, out, err = run_cli(*SEARCH, *options, "--export", "model")
    assert code == 0, err
    words = " ".join(out.split())
    assert f"The winner of this run is {winner}, a hand-designed network" in words
    assert f"winner: {winner}, a hand-designed network" in words
    assert f"* {winner} " in words
    expected = predict_with_torch(project)
    for runtime, tolerance in (("torch", 1e-5), ("onnx", 1e-4)):
        predictions, _ = run_predict(
            project / "model", project / "clicks.csv", "--runtime", runtime
        )
        assert np.abs(expected - list(predictions.values())).max() < tolerance
    training = json.loads((project / "run" / "references" / winner / "train.json").read_text())
    config = json.loads((project / "model" / "config.json").read_text())
    assert (config["arch"], config["params"]) == (winner, training["params"])
    assert config["auc"] == training["auc"]
    readme = (project / "model" / "README.md").read_text()
    assert f"Architecture: `{winner}`." in readme
    assert f"The winner of this run is {winner}, a hand-designed network: trained" in readme

    # Training and export by hand deliver the same network.
    for command in (("train", "run"), ("export", "run", "--out", "again")):
        code, _, err = run_cli(*command)
        assert code == 0, err
    again = json.loads((project / "again" / "config.json").read_text())
    assert (again["arch"], again["auc"]) == (winner, training["auc"])
    # The folder of a reference and one of a training by name are exported like any other.
    code, _, err = run_cli("export", f"run/references/{winner}", "--out", "third")
    assert code == 0, err
    command = ("train", winner, "--data", DATA, "--recipe", "ctr(epochs=1)", "--run", "named")
    code, _, err = run_cli(*command)
    assert code == 0, err


def test_the_export_uses_the_seed_and_the_recipe_of_the_command(project, run_cli, monkeypatch):
    """The training of the confirmation, which has another recipe, is kept as `former-1`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    set_winner(monkeypatch, "found")
    write_table(project / "clicks.csv", HEADER, make_log())
    options = ("--budget", "2", "--workers", "1", "--run", "run", "--confirm", "1", "--seed", "1")
    code, _, err = run_cli(*SEARCH, *options, "--recipe", "ctr(epochs=1)", "--export", "model")
    assert code == 0, err
    exported = json.loads(Path("run", "train.json").read_text())["key"]
    set_aside = json.loads(Path("run", "former-1", "train.json").read_text())["key"]
    assert (exported["seed"], exported["recipe"]["epochs"]) == (1, 1)
    assert (set_aside["seed"], set_aside["arch"]) == (1, exported["arch"])
    assert set_aside["recipe"]["epochs"] > 1
    assert "--seed 1" in (project / "model" / "README.md").read_text()


def test_an_export_does_not_need_the_table(exported, project, run_cli):
    (project / "clicks.csv").unlink()
    before = json.loads((exported / "config.json").read_text())["table"]
    code, _, err = run_cli("export", "run", "--out", "again")
    assert code == 0, err
    assert json.loads((project / "again" / "config.json").read_text())["table"] == before
    assert (project / "again" / "vocabularies.npz").read_bytes() == (
        exported / "vocabularies.npz"
    ).read_bytes()
