"""Data from Python: tensors, numpy arrays, a torch Dataset and a DataLoader."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from tests.docstring_examples import run_examples
from untrained.data import load_data, registry
from untrained.data.source import fingerprint_batch
from untrained.errors import UsageError
from untrained.types import Task
from untrained.workflows.score import score_networks

TASK = Task("any", (2, 4, 4), 3)


@pytest.fixture
def inputs() -> torch.Tensor:
    return torch.randn(10, 2, 4, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def targets() -> torch.Tensor:
    return torch.arange(10) % 3


class Squares(Dataset):
    """Ten samples whose input is their index, and whose target is its square."""

    def __init__(self, with_target: bool = True) -> None:
        self.with_target = with_target
        self.reads: list[int] = []

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> object:
        self.reads.append(index)
        sample = torch.full((2, 4, 4), float(index))
        return (sample, index**2) if self.with_target else sample


class Endless(IterableDataset):
    """Samples without an end, without indices and without a length."""

    def __iter__(self):
        index = 0
        while True:
            yield torch.full((2, 4, 4), float(index)), index % 3
            index += 1


class WithoutLength(Dataset):
    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.zeros(2, 4, 4), 0


def test_arrays_are_the_same_data_as_tensors(inputs, targets):
    from_tensors = load_data((inputs, targets), TASK)
    from_arrays = load_data((inputs.numpy(), targets.numpy()), TASK)
    assert from_arrays.task == from_tensors.task == Task("tensor", (2, 4, 4), 3)
    expected = fingerprint_batch(from_tensors.batch(6))
    assert fingerprint_batch(from_arrays.batch(6)) == expected
    assert torch.equal(from_tensors.batch(6).inputs, inputs[:6])


def test_samples_of_a_dataset_are_drawn_by_the_seed_and_belong_to_their_targets():
    source = load_data(Squares(), TASK)
    small_batch = source.batch(4, seed=1)
    batch = source.batch(10, seed=1)
    indices = batch.inputs[:, 0, 0, 0].long()
    assert sorted(indices.tolist()) == list(range(10))
    assert torch.equal(batch.targets, indices**2)
    assert torch.equal(small_batch.inputs, batch.inputs[:4])
    assert torch.equal(load_data(Squares(), TASK).batch(10, seed=1).inputs, batch.inputs)
    assert not torch.equal(source.batch(10, seed=2).inputs, batch.inputs)


def test_only_the_samples_that_are_needed_are_read_and_each_once():
    dataset = Squares()
    source = load_data(dataset, TASK)
    source.batch(3)
    source.batch(5)
    assert len(dataset.reads) == len(set(dataset.reads)) <= 6  # and the first one, for the shape


def test_a_dataset_without_targets_gets_random_ones():
    source = load_data(Squares(with_target=False), TASK)
    batch = source.batch(10)
    assert batch.targets.shape == (10,)
    assert set(batch.targets.tolist()) <= {0, 1, 2}
    assert torch.equal(source.batch(4).targets, batch.targets[:4])


def test_a_loader_keeps_its_order_and_joins_its_batches(inputs, targets):
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=4)
    source = load_data(loader, TASK)
    expected = load_data((inputs, targets), TASK)
    for samples in (3, 7, 10, 20):
        batch = source.batch(samples)
        assert torch.equal(batch.inputs, inputs[:samples])
        assert fingerprint_batch(batch) == fingerprint_batch(expected.batch(samples))


def test_a_loader_without_targets_gets_random_ones(inputs):
    source = load_data(DataLoader(inputs, batch_size=4), TASK)
    batch = source.batch(10)
    assert set(batch.targets.tolist()) <= {0, 1, 2}
    assert torch.equal(source.batch(3).targets, batch.targets[:3])


def test_a_loader_that_shuffles_gives_the_same_samples_to_all_and_leaves_the_random_state(
    inputs, targets
):
    state = torch.get_rng_state()
    source = load_data(DataLoader(TensorDataset(inputs, targets), batch_size=4, shuffle=True), TASK)
    batch = source.batch(10)
    assert torch.equal(source.batch(5).inputs, batch.inputs[:5])
    assert sorted(batch.inputs[:, 0, 0, 0].tolist()) == sorted(inputs[:, 0, 0, 0].tolist())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_loader_may_have_no_end():
    batch = load_data(DataLoader(Endless(), batch_size=3), TASK).batch(8)
    assert batch.inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_source_is_data_and_a_path_is_opened_by_its_kind(tmp_path):
    source = load_data("noise", TASK)
    assert load_data(source, TASK) is source
    path = tmp_path / "images.npz"
    np.savez(path, x=np.zeros((6, 4, 4), np.uint8), y=np.arange(6) % 3)
    assert load_data(path, Task("any", (1, 4, 4), 3)).task.dataset == "npz:images.npz"
    with pytest.raises(UsageError, match=f"there is no file {tmp_path / 'none.parquet'}"):
        load_data(tmp_path / "none.parquet", TASK)


class Texts(Dataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> dict[str, str]:
        return {"text": "a word"}


class Broken(Texts):
    def __getitem__(self, index: int) -> dict[str, str]:
        raise KeyError("the disk is gone")


class Uneven(Texts):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(index + 1)


class Empty(Texts):
    def __len__(self) -> int:
        return 0


WRONG = {
    "no length": (WithoutLength(), "WithoutLength has no length, .* give it a method __len__"),
    "no indices": (Endless(), "Endless has no indices .* give a DataLoader of it"),
    "no samples": (Empty(), "Empty has no samples"),
    "texts": (Texts(), "a batch of Texts is made of dict; it must be a tensor of inputs"),
    "its own error": (Broken(), "Broken raised an error for sample [01](.|\n)*the disk is gone"),
    "uneven": (Uneven(), "samples of Uneven cannot be stacked into a batch: "),
    "empty loader": (DataLoader(torch.zeros(0, 2)), "the DataLoader has no samples"),
    "a list": ([1, 2], "data is \\[1, 2\\]; give a name as text"),
}


@pytest.mark.parametrize("name", WRONG)
def test_data_that_cannot_be_used_are_refused_with_the_reason(name):
    data, message = WRONG[name]
    with pytest.raises(UsageError, match=message):
        load_data(data, TASK).batch(2)


def test_scores_on_a_loader_are_those_on_the_same_tensors(inputs, targets):
    """They have the same identity as well: the fingerprint of the samples is in the key."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 3))
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=4)
    forms = {
        "tensors": (inputs, targets),
        "arrays": (inputs.numpy(), targets.numpy()),
        "loader": loader,
    }
    records = {
        name: list(score_networks(model, ["naswot", "grad_norm"], data=data))
        for name, data in forms.items()
    }
    for name in ("arrays", "loader"):
        for record, expected in zip(records[name], records["tensors"], strict=True):
            assert record.key == expected.key
            assert record.value == expected.value


def test_scores_on_another_dataset_have_another_identity(inputs):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 3))
    (record,) = score_networks(model, ["grad_norm"], data=Squares(with_target=False))
    (other,) = score_networks(
        model, ["grad_norm"], data=TensorDataset(inputs, torch.arange(10) % 3)
    )
    assert record.value is not None
    assert record.data != other.data


def test_a_dataset_as_second_argument_is_the_data(inputs, targets):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 3))
    (record,) = score_networks(model, data=TensorDataset(inputs, targets))
    assert record.task.input_shape == (2, 4, 4)


def test_example_of_load_data_is_right():
    run_examples(registry)
