"""A search on data that the caller has in Python."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import untrained as ut
from untrained.benchmarks.result import BenchmarkResult
from untrained.cli.terminal.benchmark_result import show_benchmark_result
from untrained.errors import UsageError
from untrained.reports.pages.benchmark_page import render_benchmark_page

SPACE = "nasbench201(channels=2,cells=1)"
INPUTS = torch.randn(40, 3, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(40) % 12


def search(data: object, folder, **options) -> "ut.workflows.search.SearchResult":
    return ut.search(
        SPACE, "naswot(samples=8)", budget=3, data=data, run=folder, workers=1, **options
    )


@pytest.mark.parametrize(
    "data",
    [
        INPUTS,
        INPUTS.numpy(),
        (INPUTS, LABELS),
        (INPUTS.numpy(), LABELS.numpy()),
        TensorDataset(INPUTS, LABELS),
        DataLoader(TensorDataset(INPUTS, LABELS), batch_size=10),
    ],
    ids=["tensor", "array", "tensors", "arrays", "Dataset", "DataLoader"],
)
def test_a_search_takes_samples_of_any_kind(data, tmp_path):
    result = search(data, tmp_path / "run")
    assert len(result.ranking.standings) + len(result.ranking.failed) == 3
    assert {record.task.input_shape for record in result.records} == {(3, 8, 8)}
    assert result.run.config.data == "tensor"


@pytest.mark.parametrize("kind", ["arrays", "Dataset", "DataLoader"])
def test_float64_inputs_have_the_scores_of_float32_inputs(kind, tmp_path):
    """Numpy creates float64 by default, and networks are built in float32."""
    data: object = (INPUTS.double().numpy(), LABELS.numpy())
    expected_data: object = (INPUTS, LABELS)
    if kind == "Dataset":
        data = TensorDataset(INPUTS.double(), LABELS)
        expected_data = TensorDataset(INPUTS, LABELS)
    elif kind == "DataLoader":
        data = DataLoader(TensorDataset(INPUTS.double(), LABELS), batch_size=10)
    result = search(data, tmp_path / "run")
    expected = search(expected_data, tmp_path / "expected")
    assert not result.ranking.failed
    values = {record.arch: record.value for record in result.records}
    assert values == {record.arch: record.value for record in expected.records}


def test_networks_have_an_output_for_every_label(tmp_path):
    """NAS-Bench-201 has ten classes by default, and these labels need twelve."""
    result = search((INPUTS, LABELS), tmp_path / "run")
    assert {record.task.num_classes for record in result.records} == {12}
    without_labels = search(INPUTS, tmp_path / "other")
    assert {record.task.num_classes for record in without_labels.records} == {10}


def test_the_same_samples_resume_and_other_samples_are_measured_again(tmp_path):
    first = search(INPUTS, tmp_path / "run")
    again = search(INPUTS.clone(), tmp_path / "run")
    assert [r.value for r in again.records] == [r.value for r in first.records]
    assert [r.key for r in again.records] == [r.key for r in first.records]
    other = search(INPUTS + 1, tmp_path / "run")
    assert not {r.data for r in other.records if r.proxy.startswith("naswot")} & {
        r.data for r in first.records if r.proxy.startswith("naswot")
    }


def test_samples_without_targets_cannot_be_trained_on(tmp_path):
    with pytest.raises(UsageError, match="there are no targets to train on"):
        search(INPUTS, tmp_path / "run", confirm=1)


def test_a_run_on_data_from_python_has_no_command(tmp_path):
    result = search(INPUTS, tmp_path / "run")
    assert result.run.to_command() == ""
    page = Path(result.report()).read_text()
    assert "Made with data passed in Python." in page
    assert "--data tensor" not in page


def test_a_benchmark_on_data_from_python_has_no_command(tmp_path):
    archs = [str(ut.load_space(SPACE).sample(seed=seed)) for seed in range(6)]
    table = pd.DataFrame({"arch": archs, "accuracy": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]})
    options = {"table": table, "workers": 1}
    on_tensor = ut.bench(SPACE, "params", data=INPUTS, run=tmp_path / "a", **options)
    assert on_tensor.command == ""
    assert "Made with data passed in Python." in render_benchmark_page(on_tensor)
    on_name = ut.bench(SPACE, "params", data="noise", run=tmp_path / "b", **options)
    assert on_name.command.startswith("untrained bench")
    assert "Made with data passed in Python." not in render_benchmark_page(on_name)


@ut.proxy(needs=())
def broken(probe):
    """Raises an error."""
    raise ValueError("there is no <score>")


def test_a_benchmark_shows_the_reason_of_a_failure_per_proxy(tmp_path, capsys):
    archs = [str(ut.load_space(SPACE).sample(seed=seed)) for seed in range(6)]
    table = pd.DataFrame({"arch": archs, "accuracy": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]})
    result = ut.bench(
        SPACE, broken, table=table, data="noise", run=tmp_path / "run", workers=1, samples=6
    )
    examples = {row["proxy"]: row["failure_example"] for row in result.rows()}
    assert examples["broken"].startswith("error: ValueError: there is no <score>")
    assert examples["params"] == ""
    assert "<dt>broken</dt><dd>error: ValueError: there is no &lt;score&gt;" in (
        render_benchmark_page(result)
    )
    assert BenchmarkResult.read(tmp_path / "run").rows() == result.rows()
    show_benchmark_result(result, tmp_path / "report.html")
    printed = " ".join(capsys.readouterr().out.split())
    assert "broken failed on 6 architectures, for example: error: ValueError: there is" in printed


def make_series_network(choose, task):
    width = choose("width", [2, 3])
    channels = task.input_shape[0]
    return nn.Sequential(
        nn.Conv1d(channels, width, 3, padding=1), nn.Flatten(), nn.LazyLinear(task.num_classes)
    )


def test_rows_for_networks_of_series_need_another_axis(tmp_path):
    space = ut.space(task=ut.Task("noise", (1, 8), 5))(make_series_network)
    rows = np.random.default_rng(0).normal(size=(20, 8))
    with pytest.raises(UsageError, match=r"add an axis to the inputs: x\[:, None\]$"):
        ut.search(space, "params", budget=2, data=rows, run=tmp_path / "run", workers=1)
    options = {"budget": 2, "run": tmp_path / "run", "workers": 1}
    result = ut.search(space, "params", data=rows[:, None], **options)
    assert {record.task.input_shape for record in result.records} == {(1, 8)}


def test_rows_for_networks_of_images_need_another_space(tmp_path):
    with pytest.raises(UsageError, match=r"for rows of numbers use space='mlp'$"):
        search(INPUTS.flatten(1), tmp_path / "run")


@pytest.mark.parametrize("data", [5, None, {"x": 1}, np.array(["a"])])
def test_other_objects_are_refused_in_one_line(data, tmp_path):
    with pytest.raises(UsageError) as caught:
        search(data, tmp_path / "run")
    assert "\n" not in str(caught.value)
