"""From pictures with numbers as labels to an exported model that predicts without this package."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from tests.data.pictures import save_image
from tests.exports.networks import run_onnx_snippet, run_without_untrained
from untrained.data import TEST
from untrained.data.pictures.label_file import LabelFileOptions, list_label_file
from untrained.workflows import contest_rounds

COUNT = 80
PREDICT = "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
SEARCH = (
    "search --space ./mine.py:mynet --proxy params --data images:ages.csv --label age "
    "--data-root root --budget 2 --workers 1 --confirm 1 --recipe quick(epochs=3) --export model "
    "--run run"
)


@pytest.fixture(autouse=True)
def short_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the trainings of a contest be short, although the data are few."""
    monkeypatch.setattr(contest_rounds, "ENOUGH_STEPS", (4, 12, 36))


@pytest.fixture
def ages(project: Path) -> dict[str, float]:
    """Write pictures whose age grows with their brightness; returns the ages by file name."""
    generator = np.random.default_rng(1)
    lines = ["path,age"]
    ages = {}
    for k in range(COUNT):
        brightness = generator.uniform(40, 210)
        pixels = brightness + generator.integers(-30, 30, (8, 8, 3))
        save_image(project / "pictures" / f"{k}.png", pixels.astype(np.uint8))
        name = f"pictures/{k}.png"
        ages[name] = round(20 + brightness / 4, 3)
        lines.append(f"{name},{ages[name]}")
    (project / "ages.csv").write_text("\n".join(lines))
    return ages


def test_one_command_makes_a_model_that_predicts_in_the_unit_of_the_label(
    ages, project, run_cli, monkeypatch
):
    code, out, err = run_cli(*SEARCH.split())
    assert code == 0, err
    text = " ".join(f"{err} {out}".split())
    assert "task: regression, because age holds numbers that are not whole" in text
    assert "val. RMSE" in text
    assert "in the unit of age" in text
    assert "Always predicting the mean has an RMSE of" in text
    assert "Test RMSE" in text

    training = json.loads(Path("run/train.json").read_text())
    contest = json.loads(Path("run/contest.json").read_text())
    assert contest["task"] == "regression"
    assert training["key"]["arch"] == contest["winner"]

    # predict.py prints a number per picture. Its errors on the test part are those of the training.
    test_names = []
    for file in list_label_file(project / "ages.csv", LabelFileOptions(label="age")).files:
        if file.part == TEST:
            test_names.append(file.name)
    for runtime in ("onnx", "torch"):
        done = run_without_untrained(
            PREDICT, project, "model/predict.py", "pictures", "--runtime", runtime
        )
        assert done.returncode == 0, done.stderr
        predictions = {}
        for row in csv.reader(done.stdout.splitlines(), delimiter="\t"):
            name, prediction = row
            assert prediction.startswith("age ")
            predictions[name] = float(prediction.removeprefix("age "))
        assert predictions.keys() == ages.keys()
        labels = [ages[name] for name in test_names]
        predicted = [predictions[name] for name in test_names]
        assert training["rmse"] == pytest.approx(
            root_mean_squared_error(labels, predicted), rel=1e-3
        )
        assert training["mae"] == pytest.approx(mean_absolute_error(labels, predicted), rel=1e-3)
        assert training["r2"] == pytest.approx(r2_score(labels, predicted), abs=1e-3)

    # So does the program in the README that needs only numpy and ONNX Runtime.
    name = test_names[0]
    (number,) = run_onnx_snippet(project / "model", np.asarray(Image.open(project / name)))
    assert float(number) == pytest.approx(predictions[name], rel=1e-4)

    config = json.loads(Path("model/config.json").read_text())
    assert config["target"] == {
        "name": "age",
        "mean": training["task"]["target_mean"],
        "std": training["task"]["target_std"],
    }
    assert (config["rmse"], config["classes"], config["log_loss"]) == (training["rmse"], [], None)
    readme = Path("model/README.md").read_text()
    assert f"RMSE {training['rmse']:.4g}" in readme
    assert "Predicts `age`, a number, from images of 8 x 8 pixels" in readme
    assert "RMSE and MAE are in the unit of `age`." in readme
    constant = training["constant"]
    assert f"Always predicting the mean has an RMSE of {constant['rmse']:.4g}" in readme
    assert "probable class" not in readme

    page = Path("run/report.html").read_text()
    for section in ("Validation RMSE", "Predictions and labels", "Largest errors", "Test RMSE"):
        assert section in page
    assert f"<h1>ages.csv: regression, {COUNT} pictures</h1>" in page
    # The same command resumes, and trains nothing again.
    monkeypatch.setattr("untrained.training.loop.Training.train_step", None)
    code, _, err = run_cli(*SEARCH.split())
    assert code == 0, err
    assert json.loads(Path("run/train.json").read_text()) == training


def test_the_card_takes_label_and_task(ages, run_cli):
    code, out, _ = run_cli(
        "data", "card", "images:ages.csv", "--label", "age", "--task", "regression",
        "--data-root", "root", "--json",
    )  # fmt: skip
    card = json.loads(out)
    assert code == 0
    assert card["task"] == "regression, because task=regression; --task classification changes it"
    assert card["label"].startswith("age, a number from ")
    assert card["classes"] == {}
    code, _, err = run_cli("data", "card", "images:ages.csv", "--data-root", "root")
    assert code == 2
    assert "its first line must be path,label" in err
