"""Several processes that train together, by a stand-in for accelerate."""

import sys
from pathlib import Path

import pytest
import torch

from tests.training.toys import accelerate, archive, same, trained, weights
from untrained.errors import UsageError
from untrained.training.distributed import connect_process
from untrained.types import Batch

PLAIN = "quick(epochs=2,batch=10,average=0.0,crop=0)"


def test_every_sample_of_a_batch_is_learned_by_one_process(monkeypatch):
    batch = Batch(torch.arange(7.0), torch.arange(7))
    shares = []
    for place in range(3):
        accelerate(monkeypatch, place, 3)
        shares.append(connect_process("accelerate").select_samples(batch))
    assert [share.targets.tolist() for share in shares] == [[0, 3, 6], [1, 4], [2, 5]]
    assert all(torch.equal(share.inputs, share.targets.float()) for share in shares)
    with pytest.raises(UsageError, match="batches of 2 cannot be shared by 3 processes"):
        connect_process("accelerate").select_samples(Batch(torch.zeros(2), torch.zeros(2)))


def test_one_process_of_one_learns_what_it_learns_alone(tmp_path: Path, monkeypatch):
    asked, data = accelerate(monkeypatch, 0, 1), archive(tmp_path)
    together = trained(tmp_path / "a", data, PLAIN, device="accelerate")
    assert asked == ["model", "wait"]
    assert same(weights(together), weights(trained(tmp_path / "b", data, PLAIN)))


def test_only_the_first_process_writes(tmp_path: Path, monkeypatch):
    data = archive(tmp_path)
    accelerate(monkeypatch, 1, 2)
    found = trained(tmp_path / "a", data, PLAIN, device="accelerate")
    assert not (tmp_path / "a").exists()
    assert not same(
        weights(found), weights(trained(tmp_path / "b", data, PLAIN))
    )  # it learned its share


def test_what_several_processes_cannot_do_is_refused(tmp_path: Path, monkeypatch):
    data = archive(tmp_path)
    accelerate(monkeypatch, 0, 2)
    for option in ({"time": "1m"}, {"patience": 3}):
        with pytest.raises(UsageError, match="do not agree when to stop"):
            trained(tmp_path / "a", data, PLAIN, device="accelerate", **option)
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(UsageError, match="pip install accelerate"):
        trained(tmp_path / "a", data, PLAIN, device="accelerate")
