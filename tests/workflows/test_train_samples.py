"""Training on tensors, numpy arrays, torch Datasets and DataLoaders."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import untrained as ut
from untrained.data.parts import TEST, TRAIN, VAL
from untrained.data.samples import make_training_source, open_samples
from untrained.errors import Interrupted, UsageError
from untrained.training.result import AnotherTrainingError

FEATURES = 6
SERIES = torch.randn(60, 3, 12, generator=torch.Generator().manual_seed(1))
SERIES_LABELS = torch.arange(60) % 3


def make_vectors(count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Vectors far from zero, whose class is the sign of a weighted sum."""
    generator = np.random.default_rng(0)
    vectors = generator.normal(50, 20, (count, FEATURES))
    weights = np.arange(1, FEATURES + 1)
    return vectors, ((vectors - 50) @ weights > 0).astype(np.int64)


def make_network(outputs: int = 2, features: int = FEATURES) -> nn.Module:
    generator_state = torch.get_rng_state()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, outputs))
    torch.set_rng_state(generator_state)
    return network


def make_series_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 3)
    )


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "model.pt", weights_only=True)


class Pairs(Dataset):
    """A map-style Dataset that is not a TensorDataset."""

    def __init__(self, inputs, targets) -> None:
        self.inputs = inputs
        self.targets = targets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int):
        return self.inputs[index], self.targets[index]


# ------------------------------------------------------------------------------ kinds of samples


def test_all_forms_of_the_same_samples_give_the_same_weights(tmp_path):
    vectors, labels = make_vectors()
    inputs = torch.from_numpy(vectors)
    targets = torch.from_numpy(labels)
    forms = {
        "arrays": (vectors, labels),
        "tensors": (inputs, targets),
        "dataset": Pairs(vectors, labels),
        "tensor_dataset": TensorDataset(inputs, targets),
        "loader": DataLoader(Pairs(vectors, labels), batch_size=7, shuffle=True),
    }
    expected = None
    for name, data in forms.items():
        result = ut.train(make_network(), data, epochs=2, run=tmp_path / name)
        weights = read_weights(tmp_path / name)
        if expected is None:
            expected = weights
        assert all(torch.equal(weights[key], expected[key]) for key in expected), name
        assert result.samples == {"train": 96, "val": 12, "test": 12}


def test_a_separable_problem_is_learned_although_the_inputs_are_far_from_zero(tmp_path):
    result = ut.train(make_network(), make_vectors(400), run=tmp_path / "run")
    assert result.accuracy > 0.9
    assert result.key.recipe["name"] == "table"
    assert result.reads_arrays


def test_series_are_trained_on(tmp_path):
    result = ut.train(
        make_series_network(), (SERIES, SERIES_LABELS), epochs=1, run=tmp_path / "run"
    )
    assert tuple(result.task["input_shape"]) == (3, 12)
    # One mean per channel.
    assert len(result.normalisation["mean"]) == 3


def test_integer_inputs_and_images_of_a_space_are_trained_on(tmp_path):
    images = torch.randint(0, 256, (40, 3, 8, 8), generator=torch.Generator().manual_seed(2))
    arch = ut.load_space("nasbench201").sample(seed=0)
    result = ut.train(
        arch,
        (images.to(torch.uint8), torch.arange(40) % 4),
        space="nasbench201(channels=2,cells=1)",
        epochs=1,
        run=tmp_path / "run",
    )
    # The network has one output per class of the data.
    assert result.task["num_classes"] == 4
    assert result.command == ""
    assert "left out" in " ".join(result.notes)


def test_a_network_may_have_more_outputs_than_there_are_classes(tmp_path):
    result = ut.train(make_network(outputs=5), make_vectors(), epochs=1, run=tmp_path / "run")
    assert result.task["num_classes"] == 5
    assert len(result.confusion) == 5


# ------------------------------------------------------------------------------------- regression


def test_a_regression_is_evaluated_in_the_unit_of_the_target(tmp_path):
    vectors, _ = make_vectors(400)
    numbers = 3 * vectors[:, 0] - vectors[:, 1] + 1000
    result = ut.train(make_network(outputs=1), (vectors, numbers), run=tmp_path / "run")
    source = make_training_source(open_samples((vectors, numbers)))
    train_rows, test_rows = find_rows(source, vectors)
    mean = numbers[train_rows].mean()
    std = numbers[train_rows].std()
    with torch.no_grad():
        standardised = (vectors - vectors[train_rows].mean(0)) / vectors[train_rows].std(0)
        outputs = result.model(torch.from_numpy(standardised[test_rows]).float())[:, 0].numpy()
    errors = mean + std * outputs.astype(np.float64) - numbers[test_rows]
    assert result.rmse == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-4)
    assert result.mae == pytest.approx(np.abs(errors).mean(), rel=1e-4)
    expected_r2 = 1 - (errors**2).mean() / numbers[test_rows].var()
    assert result.r2 == pytest.approx(expected_r2, abs=1e-4)
    constant_errors = numbers[test_rows] - mean
    assert result.constant["rmse"] == pytest.approx(np.sqrt((constant_errors**2).mean()), rel=1e-5)
    assert result.rmse < result.constant["rmse"]


def find_rows(source, vectors: np.ndarray) -> tuple[list[int], list[int]]:
    """Find the rows of the training and of the test part in the original array."""
    numbers_by_row = {row.tobytes(): number for number, row in enumerate(vectors)}
    rows = []
    for part in (TRAIN, TEST):
        inputs = source.parts[part].inputs.numpy()
        rows.append([numbers_by_row[row.tobytes()] for row in inputs])
    return rows[0], rows[1]


# ----------------------------------------------------------------------------- split and statistics


def test_the_split_is_stratified_and_complete():
    inputs = torch.arange(200.0)[:, None]
    # 150 samples of class 0 and 50 of class 1.
    targets = (torch.arange(200) % 4 == 0).long()
    parts = make_training_source(open_samples((inputs, targets))).parts
    assert {name: len(part) for name, part in parts.items()} == {TRAIN: 160, VAL: 20, TEST: 20}
    assert {name: int(part.targets.sum()) for name, part in parts.items()} == {
        TRAIN: 40,
        VAL: 5,
        TEST: 5,
    }
    rows = torch.cat([part.inputs[:, 0] for part in parts.values()])
    assert rows.sort().values.tolist() == list(range(200))
    again = make_training_source(open_samples((inputs.clone(), targets.clone()))).parts
    for name in parts:
        assert torch.equal(parts[name].inputs, again[name].inputs)


@pytest.mark.parametrize("shape", [(50, 4), (50, 4, 7), (50, 4, 5, 6)])
def test_the_training_part_has_mean_0_and_deviation_1(shape):
    generator = torch.Generator().manual_seed(3)
    scale = torch.tensor([1.0, 1e3, 1e-3, 5.0]).reshape((1, 4) + (1,) * (len(shape) - 2))
    inputs = torch.randn(shape, generator=generator) * scale + 7 * scale
    parts = make_training_source(open_samples((inputs, torch.arange(50) % 2))).parts
    (batch,) = parts[TRAIN].batches(50)
    axes = [axis for axis in range(len(shape)) if axis != 1]
    assert batch.inputs.dtype == torch.float32
    assert batch.inputs.double().mean(axes) == pytest.approx(np.zeros(4), abs=1e-4)
    assert batch.inputs.double().std(axes, correction=0) == pytest.approx(np.ones(4), abs=1e-4)


def test_a_constant_feature_becomes_zero():
    inputs = torch.stack([torch.full((40,), 0.1), torch.arange(40.0)], 1)
    parts = make_training_source(open_samples((inputs, torch.arange(40) % 2))).parts
    (batch,) = parts[TRAIN].batches(50)
    assert batch.inputs[:, 0].abs().max() < 1e-6


# ------------------------------------------------------------------------------ resume and identity


def test_a_training_that_was_interrupted_ends_with_the_same_weights(tmp_path):
    data = make_vectors()
    recipe = "table(epochs=3,batch=16)"  # 96 // 16 = 6 steps per epoch
    whole = ut.train(make_network(), data, recipe, run=tmp_path / "whole")

    def interrupt(progress) -> None:
        if progress.done == 8:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        ut.train(
            make_network(),
            data,
            recipe,
            run=tmp_path / "resumed",
            checkpoint_every=1,
            on_progress=interrupt,
        )
    assert not (tmp_path / "resumed" / "model.pt").exists()
    steps = []
    resumed = ut.train(
        make_network(),
        data,
        recipe,
        run=tmp_path / "resumed",
        on_progress=lambda progress: steps.append(progress.done),
    )
    assert steps == list(range(9, 19))
    assert resumed.curve == whole.curve
    expected = read_weights(tmp_path / "whole")
    actual = read_weights(tmp_path / "resumed")
    assert all(torch.equal(actual[name], expected[name]) for name in expected)


def test_a_finished_training_is_returned_and_other_samples_are_refused(tmp_path):
    vectors, labels = make_vectors()
    first = ut.train(make_network(), (vectors, labels), epochs=1, run=tmp_path / "run")
    again = ut.train(make_network(), (vectors.copy(), labels), epochs=1, run=tmp_path / "run")
    assert again.made_on == first.made_on
    assert again.curve == first.curve
    changed = vectors.copy()
    changed[17, 2] += 1
    with pytest.raises(AnotherTrainingError, match="other samples") as caught:
        ut.train(make_network(), (changed, labels), epochs=1, run=tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_the_default_folder_depends_on_the_samples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vectors, labels = make_vectors()
    first = ut.train(make_network(), (vectors, labels), epochs=1)
    second = ut.train(make_network(), (vectors + 1, labels), epochs=1)
    assert first.folder != second.folder


def test_a_refit_on_all_samples_keeps_the_estimate(tmp_path):
    result = ut.train(make_network(), make_vectors(), epochs=1, refit="all", run=tmp_path / "run")
    assert result.samples["train"] == 120
    estimate = json.loads((tmp_path / "run" / "estimate" / "train.json").read_text())
    assert result.accuracy == estimate["accuracy"]


# ----------------------------------------------------------------------------------------- mistakes


class Stream(IterableDataset):
    def __iter__(self):
        yield torch.zeros(3), 0


VECTORS, LABELS = make_vectors(40)
WRONG_DATA = {
    "no targets": (VECTORS, "no targets to train on"),
    "a stream": (Stream(), "no indices or no length"),
    "a loader of a stream": (DataLoader(Stream()), "no indices or no length"),
    "a loader of a subset": (
        DataLoader(Pairs(VECTORS, LABELS), sampler=torch.utils.data.SubsetRandomSampler(range(5))),
        "Subset",
    ),
    "a loader that changes samples": (
        DataLoader(Pairs(VECTORS, LABELS), collate_fn=lambda batch: batch),
        "collate_fn",
    ),
    "one-hot targets": ((VECTORS, np.eye(2)[LABELS]), "argmax"),
    "negative classes": ((VECTORS, LABELS - 1), "number the classes 0, 1, 2"),
    "a missing number": ((VECTORS, np.where(LABELS, np.nan, 1.0)), "target .* is nan"),
    "a missing input": (
        (np.where(np.arange(40)[:, None] == 3, np.nan, VECTORS), LABELS),
        "sample 3 of the inputs",
    ),
    "no features": ((VECTORS[:, 0], LABELS), r"shape \(40,\); expected \(samples, features\)"),
    "another number of targets": ((VECTORS, LABELS[:5]), "40 inputs and 5 targets"),
    "too few samples": ((VECTORS[:3], LABELS[:3]), "too few samples"),
    "texts": ((np.array([["a", "b"]]), np.array([0])), "give one of float32 or int64"),
}


@pytest.mark.parametrize("name", WRONG_DATA)
def test_wrong_data_are_refused_in_one_line(name, tmp_path):
    data, message = WRONG_DATA[name]
    with pytest.raises(UsageError, match=message) as caught:
        ut.train(make_network(), data, run=tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_subset_is_a_dataset(tmp_path):
    data = Subset(Pairs(VECTORS, LABELS), list(range(30)))
    result = ut.train(make_network(), data, epochs=1, run=tmp_path / "run")
    assert sum(result.samples.values()) == 30


def test_an_input_shape_must_be_that_of_the_samples(tmp_path):
    with pytest.raises(UsageError, match="leave out input_shape"):
        ut.train(make_network(), make_vectors(), input_shape=(3, 2, 1), run=tmp_path / "run")


def test_a_network_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot read samples"):
        ut.train(make_network(features=9), make_vectors(), run=tmp_path / "run")
