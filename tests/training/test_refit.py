"""A refit trains on the training and the validation part, from fresh weights or from a file."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.training.toys import (
    ROWS,
    CountedRows,
    get_weights,
    make_busy,
    make_rows,
    states_equal,
    train_toy,
    use_parts,
    write_archive,
)
from untrained.data import DataSource
from untrained.data.parts import ImagePart, JoinedPart, join_parts
from untrained.errors import UsageError
from untrained.progress import Progress
from untrained.training.checkpoint import save_tensors
from untrained.training.result import AnotherTrainingError, TrainingKey, TrainingResult
from untrained.types import Batch
from untrained.workflows.report import report
from untrained.workflows.train import train

PLAIN = "quick(epochs=2,batch=10,average=0.0,crop=0)"
AVERAGED = "quick(epochs=2,batch=10,average=0.9,crop=1)"


@pytest.fixture
def data(tmp_path: Path) -> str:
    return write_archive(tmp_path)


def test_a_refit_is_a_training_on_both_parts_and_ends_with_the_average(tmp_path, monkeypatch):
    """The same part as training part gives the same weights, if the last average is selected.

    The training labels are correct and the rows easy, so that every epoch has an accuracy of 1, and
    of equally good weights the last average is selected.
    """
    task = ROWS
    easy = torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]])

    def make_part(pairs: int) -> CountedRows:
        return CountedRows(easy.repeat(pairs, 1), torch.tensor([0, 1] * pairs))

    model = nn.Linear(4, 2)
    model.weight.data = torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]])
    model.bias.data = torch.zeros(2)
    recipe = "quick(epochs=3,batch=4,average=0.9)"
    parts = {"train": make_part(8), "val": make_part(2), "test": make_part(4)}
    whole = {**parts, "train": JoinedPart(parts["train"], parts["val"])}
    use_parts(monkeypatch, task, parts)
    refit = train(model, "rows", recipe, run=tmp_path / "refit", refit=True)
    assert parts["test"].passes == 1
    assert parts["val"].passes == 3  # once per epoch, for training
    assert all(parts["val"].orders)
    assert refit.samples == {"train": 20, "test": 8}
    assert refit.best == {"epoch": 3, "kind": "average"}
    assert [sorted(row) for row in refit.curve] == [["epoch", "loss", "rate"]] * 3
    sample = Batch(easy, torch.tensor([0, 1]))
    source = DataSource(task, lambda samples, generator: sample, lambda: whole)
    monkeypatch.setattr("untrained.workflows.training_setup.load_source_for", lambda *_: source)
    selected = train(model, "rows", recipe, run=tmp_path / "selected")
    assert (selected.best["epoch"], selected.best["kind"]) == (3, "average")
    assert states_equal(get_weights(refit), get_weights(selected))


def test_without_an_average_the_last_weights_are_the_result(tmp_path, data):
    saved = []

    def copy_weights(progress: Progress) -> None:
        saved.append(progress.done)

    result = train_toy(tmp_path / "a", data, PLAIN, refit=True, on_progress=copy_weights)
    # 54 of 60 pictures in batches of 10 are five steps per epoch; 45 would be four.
    assert saved == list(range(1, 11))
    assert result.best == {"epoch": 2, "kind": "weights"}
    assert result.samples["train"] + result.samples["test"] == 60
    facts = json.loads((tmp_path / "a" / "train.json").read_text())
    assert facts["key"]["refit"] is True
    weights = torch.load(tmp_path / "a" / "model.pt", weights_only=True)
    assert states_equal(weights, get_weights(result))
    page = report(tmp_path / "a").read_text()
    assert "The validation data were used for training" in page
    assert "Validation accuracy" not in page


def test_a_stopped_refit_resumes_to_the_same_weights(tmp_path, data):
    whole = train_toy(tmp_path / "whole", data, AVERAGED, refit=True)
    stopped = train_toy(tmp_path / "stopped", data, AVERAGED, refit=True, time="1ms")
    assert stopped.end_reason == "time"
    resumed = train_toy(tmp_path / "stopped", data, AVERAGED, refit=True)
    assert states_equal(get_weights(resumed), get_weights(whole))
    again = train_toy(tmp_path / "stopped", data, AVERAGED, refit=True)
    assert (again.best, again.curve) == (whole.best, whole.curve)


def test_a_refit_is_another_training(tmp_path, data):
    train_toy(tmp_path / "a", data, PLAIN)
    with pytest.raises(AnotherTrainingError, match=r"refit False \(now True\)"):
        train_toy(tmp_path / "a", data, PLAIN, refit=True)
    with pytest.raises(UsageError, match=r"--patience needs the validation part"):
        train_toy(tmp_path / "b", data, PLAIN, refit=True, patience=2)


def test_files_of_earlier_versions_are_read_as_ordinary_trainings(tmp_path, data):
    result = train_toy(tmp_path / "a", data, PLAIN)
    file = tmp_path / "a" / "train.json"
    content = json.loads(file.read_text())
    del content["key"]["refit"]
    del content["key"]["start"]
    del content["key"]["recipe"]["augment"]
    del content["notes"]
    file.write_text(json.dumps(content))
    former = TrainingResult.read(tmp_path / "a")
    assert (former.key.refit, former.key.start, former.notes) == (False, "", ())
    assert train_toy(tmp_path / "a", data, PLAIN).accuracy == result.accuracy


def test_a_training_begins_with_the_weights_of_a_file(tmp_path, data):
    """With a rate of almost zero, the weights stay what they were."""
    still = PLAIN.replace("average=0.0", "average=0.0,rate=1e-30,decay=0.0")
    first = make_busy()
    first.head.weight.data.fill_(0.25)
    save_tensors(tmp_path / "start.pt", first.state_dict())
    result = train_toy(tmp_path / "a", data, still, start=tmp_path / "start.pt", refit=True)
    assert torch.equal(get_weights(result)["head.weight"], first.head.weight)
    assert result.key.start
    assert result.command == ""
    other = make_busy()
    save_tensors(tmp_path / "start.pt", other.state_dict())
    with pytest.raises(AnotherTrainingError, match="other weights to begin with"):
        train_toy(tmp_path / "a", data, still, start=tmp_path / "start.pt", refit=True)
    with pytest.raises(UsageError, match=r"start='.*missing.pt' cannot be read"):
        train_toy(tmp_path / "b", data, still, start=tmp_path / "missing.pt")
    save_tensors(tmp_path / "start.pt", nn.Linear(2, 2).state_dict())
    with pytest.raises(UsageError) as foreign:
        train_toy(tmp_path / "b", data, still, start=tmp_path / "start.pt")
    (tmp_path / "start.pt").write_bytes(b"no weights")
    with pytest.raises(UsageError) as damaged:
        train_toy(tmp_path / "b", data, still, start=tmp_path / "start.pt")
    # The file belongs to the user, so nobody should delete it.
    for error in (foreign, damaged):
        assert str(error.value) == (
            f"start={str(tmp_path / 'start.pt')!r} is not a state dict of this network; name one, "
            "such as the model.pt of another training of the same network, or leave start out"
        )


def test_the_command_that_repeats_a_refit_says_so(tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(
        "from torch import nn\ndef make(): return nn.Sequential(nn.Flatten(), nn.Linear(36, 3))\n"
    )
    result = train_toy(Path("a"), data, PLAIN, what="./net.py:make", refit=True)
    assert result.command.endswith(" --run a --refit validation")


def test_joined_pictures_are_one_part():
    def make_part(count: int, value: int) -> ImagePart:
        images = torch.full((count, 2, 2, 1), value, dtype=torch.uint8)
        return ImagePart(images, torch.full((count,), value), torch.ones(1), torch.ones(1))

    joined = join_parts(make_part(3, 1), make_part(2, 7))
    assert isinstance(joined, ImagePart)
    assert joined.labels.tolist() == [1, 1, 1, 7, 7]
    assert joined.images[:, 0, 0, 0].tolist() == [1, 1, 1, 7, 7]


def test_joined_rows_are_read_once_each_in_any_order():
    first = make_rows(25)
    second = make_rows(7, seed=1)
    joined = join_parts(first, second)
    assert len(joined) == 32
    expected = torch.cat([first.inputs, second.inputs])
    in_order = torch.cat([batch.inputs for batch in joined.batches(10)])
    assert torch.equal(in_order, expected)
    for seed in range(5):
        batches = list(joined.batches(10, torch.Generator().manual_seed(seed)))
        rows = torch.cat([batch.inputs for batch in batches])
        assert sorted(rows.tolist()) == sorted(expected.tolist())
    assert joined.fingerprint() != join_parts(second, first).fingerprint()


@pytest.mark.parametrize(
    ("counts", "sizes"),
    [
        ((25, 7), [10, 10, 10, 2]),
        ((65, 61), [10] * 12 + [6]),
        ((4, 3), [7]),
        ((4, 9), [10, 3]),
        ((20, 10), [10] * 3),
    ],
)
def test_only_the_last_batch_of_joined_rows_is_smaller(counts, sizes):
    """A training leaves out the last batch of an epoch; a batch of one breaks a batch norm."""
    joined = join_parts(make_rows(counts[0]), make_rows(counts[1], seed=1))
    batches = list(joined.batches(10, torch.Generator().manual_seed(0)))
    assert [len(batch) for batch in batches] == sizes
    third = make_rows(18, seed=2)
    batches = list(join_parts(joined, third).batches(10, torch.Generator().manual_seed(0)))
    full_count, left_count = divmod(sum(counts) + 18, 10)
    expected = [10] * full_count + [left_count] * (left_count > 0)
    assert [len(batch) for batch in batches] == expected
    rows = torch.cat([batch.inputs for batch in batches]).tolist()
    everything = torch.cat([joined.first.inputs, joined.second.inputs, third.inputs]).tolist()
    assert sorted(rows) == sorted(everything)


def test_the_batches_of_both_parts_are_mixed():
    first = make_rows(40)
    joined = join_parts(first, make_rows(40, seed=1))
    own_rows = {tuple(row) for row in first.inputs.tolist()}
    orders = set()
    for seed in range(5):
        batches = joined.batches(10, torch.Generator().manual_seed(seed))
        orders.add(tuple(tuple(batch.inputs[0].tolist()) in own_rows for batch in batches))
    assert len(orders) > 1
    assert {sum(order) for order in orders} == {4}


def test_keys_without_the_new_fields_are_those_of_ordinary_trainings():
    key = TrainingKey("a", "", "b", "digits", {"name": "quick"}, 0, "cpu")
    assert (key.refit, key.start) == (False, "")
