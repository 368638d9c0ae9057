"""From a click log with missing, rare, odd and bad values to a model that predicts from such rows where nothing of ours
is."""

import csv
import gzip
import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.data.logs import places
from tests.exports.networks import elsewhere
from untrained.data import load
from untrained.spaces import load_space
from untrained.types import Task

SPACE, ROWS = "nasrec_small(blocks=1)", 300
DATA = "csv:clicks.csv?label=click&dense=number,price&hash=60&floor=2"
SEARCH = ("search", "--space", SPACE, "--data", DATA, "--proxy", "sigeo(preset=recommendation)", "--warm-up", "1%")
HEADER = ["click", "number", "user", "note", "price", "shown", "code", "same"]
PREDICT = "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


def log() -> list[list[str]]:
    """`number` grows from row to row; `user` has a tail of rare ones; `code` has too many values for a vocabulary."""
    draw = random.Random(3)
    notes = ["plain", "with, comma", 'with "quotes"', "f\u00fcnf", "NA", "", "NULL", " spaced"]
    prices = ["1.5", " 2.25 ", "-3e2", "", "nan", "inf", "oops", "1_000", "0"]
    rows = []
    for i in range(ROWS):
        user, price = f"u{int(draw.expovariate(0.15))}", prices[i % 9] if i % 7 == 0 else f"{draw.gauss(10, 5):.3f}"
        shown, code = str(int(draw.expovariate(0.01))), f"{draw.randrange(150):x}"
        rows.append([str(int(draw.random() < 0.3)), str(i), user, draw.choice(notes), price, shown, code, "one"])
    return rows


def write(path: Path, header: list[str], rows: list[list[str]], separator: str = ",") -> None:
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows([header, *rows])


@pytest.fixture
def exported(project, untrained_, monkeypatch) -> Path:
    """What one command makes of the log; a byte in it is not UTF-8, and a row is short."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    write(project / "clicks.csv", HEADER, log())
    raw = (project / "clicks.csv").read_bytes().replace("f\u00fcnf".encode(), b"f\xfcnf")
    (project / "clicks.csv").write_bytes(raw + b"1,2,3\n")
    code, out, err = untrained_(*SEARCH, "--budget", "3", "--workers", "1", "--run", "run", "--export", "model")
    assert code == 0, err
    assert "AUC" in out
    assert f"exported: {project / 'model'}" in out
    return project / "model"


def chances(project: Path) -> np.ndarray:
    """What the trained network says of each row of the log, by what it saw of it in training."""
    source = load(DATA, Task("any", (1,), 1))
    told = json.loads((project / "run" / "train.json").read_text())
    space = load_space(SPACE)
    network = space.build(space.parse(told["asked"]["arch"]), source.task)
    network.load_state_dict(torch.load(project / "run" / "model.pt", weights_only=True))
    parts = {name: np.array(part.values) for name, part in source.parts.items()}
    assert source.schema.dense[0].name == "number"
    said = np.empty(ROWS)
    for name, numbers in places(parts).items():
        with torch.no_grad():
            said[numbers] = network.eval()(torch.from_numpy(parts[name][:, :-1])).sigmoid().flatten().numpy()
    return said


def predicted(folder: Path, path: Path, *arguments: str) -> tuple[dict[int, float], str]:
    """By the number of its line, what predict.py says of each row."""
    done = elsewhere(PREDICT, folder.parent, str(folder / "predict.py"), str(path), *arguments)
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix(f"{path}:").split("\t") for line in done.stdout.splitlines()]
    return {int(number): float(said.removeprefix("click ")) for number, said in lines}, done.stderr


def test_one_command_goes_from_a_log_to_a_model_that_predicts_from_such_rows(exported, project):
    expected = chances(project)
    assert expected.std() > 0.01
    for runtime, tolerance in (("torch", 1e-5), ("onnx", 1e-4)):
        said, complaint = predicted(exported, project / "clicks.csv", "--runtime", runtime)
        assert list(said) == list(range(2, ROWS + 2))
        assert np.abs(expected - list(said.values())).max() < tolerance
        assert f"clicks.csv:{ROWS + 2}: 3 fields where 8 are wanted" in complaint

    order = [6, 4, 5, 2, 1, 3]  # other columns first, neither the label nor what was dropped
    rows = [[row[place] for place in order] for row in log()]
    write(project / "later.csv.gz", [f" {HEADER[place]}" for place in order], [*rows[:5], [], *rows[5:]], ";")
    later, _ = predicted(exported, project / "later.csv.gz")
    utf8 = [i for i, row in enumerate(log()) if row[3] == "f\u00fcnf"]  # as text it is another identifier
    same = np.setdiff1d(np.arange(ROWS), utf8)
    assert list(later) == [*range(2, 7), *range(8, ROWS + 3)]
    assert np.abs(expected - list(later.values()))[same].max() < 1e-4

    write(project / "short.csv", HEADER[:4], [row[:4] for row in log()])
    done = elsewhere(PREDICT, project, str(exported / "predict.py"), "short.csv")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the first line must name the columns, and there is no price, shown, code" in done.stderr

    euro = [[*row[:4], row[4].replace(".", ","), *row[5:]] for row in log()]
    write(project / "euro.csv", HEADER, euro, ";")
    refused = elsewhere(PREDICT, project, str(exported / "predict.py"), "euro.csv")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert "of price, such as '" in refused.stderr
    both = elsewhere(PREDICT, project, str(exported / "predict.py"), "euro.csv", "later.csv.gz")
    assert (both.returncode, both.stdout.count("\n")) == (1, ROWS)

    told, config = (json.loads(path.read_text()) for path in (project / "run" / "train.json", exported / "config.json"))
    assert (config["log_loss"], config["auc"], config["accuracy"]) == (told["loss"], told["auc"], None)
    assert [column["name"] for column in config["table"]["identifiers"]] == ["user", "note", "code"]
    readme = (exported / "README.md").read_text()
    assert readme.startswith(f"# NasrecNetwork: AUC {told['auc']:.4f} on the test part of {DATA}\n")
    assert f"Log loss {told['loss']:.4f} and AUC {told['auc']:.4f} on the test part" in readme
    assert "- numbers: `number`, `price`, `shown`; a missing one counts as the mean" in readme
    assert load_file(exported / "model.safetensors").keys()


def test_the_seed_and_the_recipe_of_the_command_reach_the_model(project, untrained_, monkeypatch):
    """The comparison trained the winner by a recipe of its own, which makes room."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    write(project / "clicks.csv", HEADER, log())
    asked = ("--budget", "2", "--workers", "1", "--run", "run", "--confirm", "1", "--seed", "1")
    code, _, err = untrained_(*SEARCH, *asked, "--recipe", "ctr(epochs=1)", "--export", "model")
    assert code == 0, err
    now, then = (json.loads(Path("run", at, "train.json").read_text())["asked"] for at in ("", "former-1"))
    assert (now["seed"], now["recipe"]["epochs"]) == (1, 1)
    assert (then["seed"], then["arch"]) == (1, now["arch"])
    assert then["recipe"]["epochs"] > 1
    assert "--seed 1" in (project / "model" / "README.md").read_text()


def test_rows_are_encoded_by_what_was_learned_though_the_file_is_gone(exported, project, untrained_):
    (project / "clicks.csv").unlink()
    before = json.loads((exported / "config.json").read_text())["table"]
    code, _, err = untrained_("export", "run", "--out", "again")
    assert code == 0, err
    assert json.loads((project / "again" / "config.json").read_text())["table"] == before
    assert (project / "again" / "vocabularies.npz").read_bytes() == (exported / "vocabularies.npz").read_bytes()
