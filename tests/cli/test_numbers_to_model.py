"""From tables of numbers and classes to exported models that predict without this package."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.exports.networks import run_without_untrained
from untrained.data import load_data
from untrained.spaces import load_space
from untrained.training.ctr_designs import CTR_DESIGNS
from untrained.types import Task
from untrained.workflows import design_trials

PREDICT = "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
ROWS = 260


@pytest.fixture
def table(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rows of two numbers with a price, which is linear, and a size with three classes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    monkeypatch.setattr(design_trials, "list_ctr_designs", lambda task: ["dlrm"])
    draw = random.Random(2)
    lines = ["area,age,price,size"]
    for _ in range(ROWS):
        area = draw.uniform(20, 200)
        age = draw.uniform(0, 50)
        price = 3000 * area - 900 * age + draw.gauss(0, 5000)
        size = "small" if area < 60 else "medium" if area < 140 else "large"
        lines.append(f"{area:.2f},{age:.2f},{price:.2f},{size}")
    (project / "houses.csv").write_text("\n".join(lines))
    return project / "houses.csv"


def search(run_cli, label: str, drop: str, *more: str) -> str:
    code, out, err = run_cli(
        "search", "--data", f"csv:houses.csv?drop={drop}", "--label", label, "--proxy", "grad_norm",
        "--budget", "2", "--confirm", "1", "--workers", "1", "--run", "run", "--export", "model",
        *more,
    )  # fmt: skip
    assert code == 0, err
    return " ".join(f"{err} {out}".split())


def predict_with_torch(data: str) -> torch.Tensor:
    """Return the outputs of the trained network for the test rows, in this process."""
    source = load_data(data, Task("any", (1,), 1))
    arch = json.loads(Path("run/train.json").read_text())["key"]["arch"]
    if arch in CTR_DESIGNS:
        network = CTR_DESIGNS[arch](source.task)
    else:
        space = load_space("mlp")
        network = space.build(space.parse(arch), source.task)
    network.load_state_dict(torch.load("run/model.pt", weights_only=True))
    (batch,) = source.parts["test"].batches(1000)
    with torch.no_grad():
        return network.eval()(batch.inputs)


def predict_with_export(table: Path, runtime: str) -> list[list[str]]:
    done = run_without_untrained(
        PREDICT, table.parent, "model/predict.py", "houses.csv", "--runtime", runtime, "--top", "3"
    )
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_a_search_on_numbers_exports_a_model_that_predicts_in_their_unit(
    table, run_cli, monkeypatch
):
    out = search(run_cli, "price", "size")
    assert "task: regression, because price holds numbers that are not whole" in out
    # One network per group is not compared with another.
    assert "Too few networks were trained to compare" in out
    assert "Always predicting the mean has a test RMSE of" in out
    # The winner was trained in the comparison, so it is not trained a second time.
    assert "already finished" not in out
    data = "csv:houses.csv?drop=size&label=price"
    source = load_data(data, Task("any", (1,), 1))
    expected = predict_with_torch(data).double().flatten() * source.task.target_std
    expected = expected + source.task.target_mean
    (test_batch,) = source.parts["test"].batches(1000)
    test_prices = test_batch.targets.double() * source.task.target_std + source.task.target_mean
    prices = {}
    for line in table.read_text().splitlines()[1:]:
        prices[float(line.split(",")[2])] = len(prices)
    for runtime in ("onnx", "torch"):
        lines = predict_with_export(table, runtime)
        assert len(lines) == ROWS
        assert all(text.startswith("price ") for _, text in lines)
        predictions = np.array([float(text.split()[1]) for _, text in lines])
        known = np.array(list(prices))
        rows = [int(np.abs(known - price).argmin()) for price in test_prices.tolist()]
        assert predictions[rows] == pytest.approx(expected.numpy(), rel=1e-3)
    config = json.loads(Path("model/config.json").read_text())
    training = json.loads(Path("run/train.json").read_text())
    assert (config["rmse"], config["r2"]) == (training["rmse"], training["r2"])
    errors = (predictions[rows] - test_prices.numpy()) ** 2
    assert config["rmse"] == pytest.approx(np.sqrt(errors.mean()), rel=1e-3)
    assert config["target"] == {
        "name": "price", "mean": source.task.target_mean, "std": source.task.target_std,
    }  # fmt: skip
    assert (config["log_loss"], config["accuracy"], config["classes"]) == (None, None, [])
    page = Path("run/report.html").read_text()
    for text in ("Predictions and labels", "Test RMSE", "always predicting the mean"):
        assert text in page
    assert "click" not in Path("model/README.md").read_text()
    assert "RMSE" in Path("model/README.md").read_text()
    # The same command resumes, and trains nothing again.
    monkeypatch.setattr("untrained.training.loop.Training.train_step", None)
    search(run_cli, "price", "size")
    assert json.loads(Path("run/train.json").read_text()) == training


def test_a_search_on_classes_exports_a_model_that_prints_their_names(table, run_cli):
    out = search(run_cli, "size", "price", "--task", "classification")
    assert "task: classification, because task=classification" in out
    assert "Always predicting the most frequent class has a test accuracy of" in out
    lines = predict_with_export(table, "onnx")
    truth = [line.split(",")[3] for line in table.read_text().splitlines()[1:]]
    correct = 0
    for (_, *predictions), label in zip(lines, truth, strict=True):
        names = [text.split()[0] for text in predictions]
        assert sorted(names) == ["large", "medium", "small"]
        assert sum(float(text.split()[1]) for text in predictions) == pytest.approx(1, abs=2e-4)
        correct += names[0] == label
    assert correct / ROWS > 0.8
    config = json.loads(Path("model/config.json").read_text())
    assert config["classes"] == ["large", "medium", "small"]
    assert config["target"] is None
    assert "Confusion matrix" in Path("run/report.html").read_text()


def test_a_task_without_a_table_is_refused(run_cli):
    code, _, err = run_cli("search", "--data", "digits", "--task", "regression")
    assert code == 2
    assert err == (
        "error: --task regression says what the label of a table is, and digits is not a table; "
        "write csv:PATH, parquet:PATH or images:PATH.csv\n"
    )
