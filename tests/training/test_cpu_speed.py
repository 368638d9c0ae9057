"""What makes training on a CPU fast: freed memory is kept, and bfloat16 if the CPU has it."""

import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from tests.training.toys import get_weights, states_equal, train_toy, write_archive
from untrained.training import loop, memory
from untrained.training.memory import keep_freed_memory
from untrained.training.network import supports_bfloat16

# Allocates and frees 64 MB often, and prints how many pages the kernel provided in the last ten
# times. (By itself, glibc soon keeps blocks of up to 32 MB.)
COUNT_PAGES = """
import resource, sys, torch
from untrained.training.memory import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    print("absent")
    sys.exit()
for _ in range(10):
    torch.ones(2**24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
# Allocates 256 MB in pieces that are kept when they are freed, and prints the resident memory in MB
# before and after it is released.
MEASURE_RELEASE = """
import sys, torch
from untrained.training.memory import keep_freed_memory, release_freed_memory
def measure():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024
if not keep_freed_memory():
    print("absent")
    sys.exit()
blocks = [torch.ones(2**22) for _ in range(16)]
del blocks
kept = measure()
release_freed_memory()
print(kept - measure())
"""
BF16 = "quick(epochs=3,batch=10,crop=1,average=0.9,bf16=True)"


class DtypeRecorder(nn.Module):
    """Records the dtype of the outputs of a convolution in training and evaluation mode."""

    dtypes: ClassVar[set[tuple[bool, torch.dtype]]] = set()

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.head = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        maps = self.conv(x)
        DtypeRecorder.dtypes.add((self.training, maps.dtype))
        outputs: Tensor = self.head(maps.relu().flatten(1))
        return outputs


def count_pages(mode: str) -> str:
    command = [sys.executable, "-c", COUNT_PAGES, mode]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_freed_memory_is_used_again_instead_of_new_pages():
    """64 MB are 16,384 pages of 4 kB, or 32 huge pages; new ones each time unless they are kept."""
    kept = count_pages("keep")
    if kept == "absent":
        pytest.skip("needs Linux with glibc")
    assert int(kept) < 10 * 32
    assert int(count_pages("default")) >= 10 * 32


def test_other_systems_keep_their_allocator(monkeypatch):
    monkeypatch.setattr(memory.platform, "system", lambda: "Darwin")
    assert keep_freed_memory.__wrapped__() is False

    def open_library(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(memory.platform, "system", lambda: "Linux")
    monkeypatch.setattr(memory.ctypes, "CDLL", open_library)
    assert keep_freed_memory.__wrapped__() is False


def test_bfloat16_needs_instructions_of_the_cpu(monkeypatch):
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    for name in checks:
        monkeypatch.setattr(torch.cpu, name, lambda: False, raising=False)
    assert not supports_bfloat16("cpu")
    assert not supports_bfloat16("mps")
    monkeypatch.setattr(torch.cpu, checks[1], lambda: True)
    assert supports_bfloat16("cpu")
    for name in checks:
        monkeypatch.delattr(torch.cpu, name)
    assert not supports_bfloat16("cpu")


def test_bfloat16_needs_a_gpu_that_does_not_emulate_it(monkeypatch):
    capabilities = {"cuda:0": (7, 5), "cuda:1": (8, 0), "cuda": (9, 0)}
    monkeypatch.setattr(torch.cuda, "get_device_capability", capabilities.__getitem__)
    assert [device for device in capabilities if supports_bfloat16(device)] == ["cuda:1", "cuda"]


@pytest.mark.parametrize("supported", [True, False])
def test_only_training_steps_compute_in_bfloat16(tmp_path: Path, monkeypatch, supported):
    monkeypatch.setattr(loop, "supports_bfloat16", lambda device: supported)
    monkeypatch.setattr(DtypeRecorder, "dtypes", set())
    train_toy(tmp_path / "a", write_archive(tmp_path), BF16, what=DtypeRecorder())
    expected = torch.float32
    if supported:
        expected = torch.bfloat16
    assert DtypeRecorder.dtypes == {(True, expected), (False, torch.float32)}


def test_a_training_in_bfloat16_resumes_to_the_same_weights(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(loop, "supports_bfloat16", lambda device: True)
    data = write_archive(tmp_path)
    whole = train_toy(tmp_path / "whole", data, BF16)
    stopped = train_toy(tmp_path / "stopped", data, BF16, time="1ms")
    assert stopped.end_reason == "time"
    resumed = train_toy(tmp_path / "stopped", data, BF16)
    assert states_equal(get_weights(resumed), get_weights(whole))
    plain = train_toy(tmp_path / "plain", data, BF16.replace(",bf16=True", ""))
    assert not states_equal(get_weights(plain), get_weights(whole))


def test_kept_memory_can_be_released():
    command = [sys.executable, "-c", MEASURE_RELEASE]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if output == "absent":
        pytest.skip("no glibc")
    assert int(output) > 200
