"""Training in several processes, with a fake accelerate package."""

import sys
from pathlib import Path

import pytest
import torch

from tests.training.toys import fake_accelerate, get_weights, states_equal, train_toy, write_archive
from untrained.errors import UsageError
from untrained.training.distributed import make_training_process
from untrained.types import Batch

PLAIN = "quick(epochs=2,batch=10,average=0.0,crop=0)"


def test_every_sample_of_a_batch_belongs_to_one_process(monkeypatch):
    batch = Batch(torch.arange(7.0), torch.arange(7))
    shares = []
    for place in range(3):
        fake_accelerate(monkeypatch, place, 3)
        shares.append(make_training_process("accelerate").select_samples(batch))
    assert [share.targets.tolist() for share in shares] == [[0, 3, 6], [1, 4], [2, 5]]
    assert all(torch.equal(share.inputs, share.targets.float()) for share in shares)
    with pytest.raises(
        UsageError, match="a batch of 2 samples cannot be divided among 3 processes"
    ):
        make_training_process("accelerate").select_samples(Batch(torch.zeros(2), torch.zeros(2)))


def test_a_single_process_reaches_the_weights_without_accelerate(tmp_path: Path, monkeypatch):
    calls = fake_accelerate(monkeypatch, 0, 1)
    data = write_archive(tmp_path)
    together = train_toy(tmp_path / "a", data, PLAIN, device="accelerate")
    assert calls == ["model", "wait"]
    assert states_equal(get_weights(together), get_weights(train_toy(tmp_path / "b", data, PLAIN)))


def test_only_the_first_process_writes(tmp_path: Path, monkeypatch):
    data = write_archive(tmp_path)
    fake_accelerate(monkeypatch, 1, 2)
    result = train_toy(tmp_path / "a", data, PLAIN, device="accelerate")
    assert not (tmp_path / "a").exists()
    # It was trained on its share of each batch.
    assert not states_equal(
        get_weights(result), get_weights(train_toy(tmp_path / "b", data, PLAIN))
    )


def test_options_that_need_a_common_stop_are_refused(tmp_path: Path, monkeypatch):
    data = write_archive(tmp_path)
    fake_accelerate(monkeypatch, 0, 2)
    for option in ({"time": "1m"}, {"patience": 3}):
        with pytest.raises(UsageError, match="cannot be used with --device accelerate"):
            train_toy(tmp_path / "a", data, PLAIN, device="accelerate", **option)
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(UsageError, match="pip install accelerate"):
        train_toy(tmp_path / "a", data, PLAIN, device="accelerate")
