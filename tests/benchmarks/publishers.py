"""Small files in the formats of the publishers, written as the publishers' own code writes them."""

import base64
import bz2
import json
import pickle
import struct
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

# ------------------------------------------------------------------------------------------------------- NATS-Bench

SETS = {
    "cifar10-valid": ("x-valid", "ori-test"),
    "cifar10": ("ori-test",),
    "cifar100": ("x-valid", "x-test", "ori-test"),
    "ImageNet16-120": ("x-valid", "x-test", "ori-test"),
}


def make_accuracy(dataset: str, split: str, epochs: int, seed: int, index: int) -> float:
    """Return a number that is different for all arguments."""
    all_splits = []
    for name, splits in SETS.items():
        all_splits += [(name, other) for other in ("train", *splits)]
    position = all_splits.index((dataset, split))
    return 10 + position + epochs / 1000 + (seed - 777) / 50 + index / 7


def make_trial(dataset: str, epochs: int, seed: int, index: int) -> dict[str, Any]:
    """Return the state of a `ResultsCount`; accuracies grow by 1 per epoch."""
    train_accuracies = {}
    eval_accuracies = {}
    for epoch in range(epochs):
        missing = epochs - 1 - epoch
        train_accuracies[epoch] = make_accuracy(dataset, "train", epochs, seed, index) - missing
    for split in SETS[dataset]:
        for epoch in range(epochs):
            missing = epochs - 1 - epoch
            accuracy = make_accuracy(dataset, split, epochs, seed, index) - missing
            eval_accuracies[f"{split}@{epoch}"] = accuracy
    times = None
    if dataset != "cifar100":
        times = OrderedDict((epoch, np.float64(2.0)) for epoch in range(epochs))
    return {
        "name": "infer.tiny",
        "net_state_dict": None,
        "train_acc1es": train_accuracies,
        "train_losses": {},
        "train_times": times,
        "params": 0.5 + index,
        "flop": 80.0 + index,
        "seed": seed,
        "epochs": epochs,
        "latency": [0.01],
        "eval_names": list(SETS[dataset]),
        "eval_acc1es": eval_accuracies,
        "eval_times": {},
        "eval_losses": {},
    }


def write_nats(
    folder: Path, archs: Sequence[str], only: Iterable[int], seeds: Sequence[int] = (777, 888)
) -> Path:
    """Write a folder `NATS-tss-v1_0-3ffb9-simple` with the results of some architectures.

    Args:
        folder: The new folder.
        archs: All architectures, by index.
        only: The indices of the architectures with results.
        seeds: The seeds of trainings over 200 epochs; trainings over 12 epochs have the first.
    """
    folder.mkdir()
    write_pbz2(folder / "meta.pickle.pbz2", {"meta_archs": list(archs), "total_archs": len(archs)})
    for index in only:
        results = OrderedDict()
        for epochs in (12, 200):
            trials = {}
            for dataset in SETS:
                for seed in seeds if epochs == 200 else seeds[:1]:
                    trials[dataset, seed] = make_trial(dataset, epochs, seed, index)
            results[str(epochs)] = {
                "arch_index": index,
                "arch_str": archs[index],
                "all_results": trials,
                "dataset_seed": {dataset: list(seeds) for dataset in SETS},
                "clear_net_done": True,
            }
        write_pbz2(folder / f"{index:06d}.pickle.pbz2", results)
    return folder


def write_pbz2(path: Path, content: Any) -> None:
    """Write a pickle that is compressed by bzip2."""
    with bz2.BZ2File(path, "wb") as file:
        pickle.dump(content, file, protocol=4)


# ------------------------------------------------------------------------------------------------------ NAS-Bench-101


def compute_crc32c(data: bytes) -> int:
    """Return Castagnoli's checksum, computed bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 * (crc & 1))
    return crc ^ 0xFFFFFFFF


def frame_record(data: bytes) -> bytes:
    """Return a record of a TFRecord file: length, checksum of the length, data, checksum of the data."""

    def compute_masked_crc(part: bytes) -> bytes:
        crc = compute_crc32c(part)
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % (1 << 32))

    length = struct.pack("<Q", len(data))
    return length + compute_masked_crc(length) + data + compute_masked_crc(data)


def encode_varint(value: int) -> bytes:
    """Return a number as Protocol Buffers write it: seven bits per byte, the lowest first."""
    lowest_bits = value & 0x7F
    if value > 0x7F:
        return bytes([lowest_bits | 0x80]) + encode_varint(value >> 7)
    return bytes([lowest_bits])


def encode_model_metrics(results: Sequence[Sequence[float]], params: int) -> bytes:
    """Return a `ModelMetrics` message.

    Its fields are evaluations (epoch, seconds and three accuracies), the number of parameters and
    the total seconds. A field begins with a byte of its number and its type.
    """
    message = b""
    for evaluation in results:
        fields = b""
        for number, value in enumerate(evaluation, 1):
            fields += bytes([number << 3 | 1]) + struct.pack("<d", value)
        fields += bytes([6 << 3 | 2]) + encode_varint(4) + b"path"
        message += bytes([1 << 3 | 2]) + encode_varint(len(fields)) + fields
    message += bytes([2 << 3 | 0]) + encode_varint(params)
    message += bytes([3 << 3 | 1]) + struct.pack("<d", 99.0)
    return message


def write_tfrecord(
    path: Path, rows: Iterable[tuple[int, str, str, Sequence[Sequence[float]], int]]
) -> Path:
    """Write a file of NAS-Bench-101.

    Each row has epochs, the digits of the matrix, operations, evaluations and parameters.
    """
    content = b""
    for epochs, matrix, operations, results, params in rows:
        metrics = base64.b64encode(encode_model_metrics(results, params)).decode()
        line = json.dumps(["hash", epochs, matrix, operations, metrics])
        content += frame_record(line.encode())
    path.write_bytes(content)
    return path


# ------------------------------------------------------------------------------------------------------------- others

TASKS = {
    "class_scene": "top1",
    "class_object": "top1",
    "jigsaw": "top1",
    "segmentsemantic": "acc",
    "autoencoder": "ssim",
    "normal": "ssim",
    "room_layout": "neg_loss",
}


def write_transnas(
    path: Path, archs: Sequence[str], *, as_tensor: bool = False, old: bool = False
) -> Path:
    """Write a file `transnas-bench_v10141024.pth`.

    The last value of task t and split s of architecture a is 100 t + 10 s + a. Of the three epochs
    the one in the middle has the largest value.
    """

    def make_values(last: float) -> Any:
        values = [last - 1, last + 0.5, last]
        return torch.tensor(values, dtype=torch.float64) if as_tensor else values

    def make_results(task_index: int, metric: str, arch_index: int) -> dict[str, Any]:
        metrics = {}
        for split_index, split in enumerate(("train", "valid", "test")):
            last = 100 * task_index + 10 * split_index + arch_index
            metrics[f"{split}_{metric}"] = make_values(last)
        return {"model_info": {"encoder_params": 1}, "total_epochs": 3, "metrics": metrics}

    micro: dict[str, dict[str, Any]] = {}
    for arch_index, arch in enumerate(archs):
        micro[arch] = {}
        for task_index, (task, metric) in enumerate(TASKS.items()):
            micro[arch][task] = make_results(task_index, metric, arch_index)
    content = {
        "task_list": list(TASKS),
        "info_names": [],
        "metrics_dict": {},
        "data": {"macro": {}, "micro": micro},
    }
    torch.save(content, path, _use_new_zipfile_serialization=not old)
    return path


def write_hwnas(path: Path, archs: Sequence[str]) -> Path:
    """Write a file `HW-NAS-Bench-v1_0.pickle`: lists in the order of the architectures."""
    measurements = {
        dataset: {
            "config": [{"arch_str": arch, "C": 16, "N": 5} for arch in archs],
            "raspi4_latency": [d + i for i in range(len(archs))],
            "eyeriss_energy": np.arange(len(archs)) + d / 2,
            "eyeriss_arithmetic_intensity": [1.0] * len(archs),
        }
        for d, dataset in enumerate(("cifar10", "cifar100", "ImageNet16-120"), start=1)
    }
    path.write_bytes(pickle.dumps({"nasbench201": measurements, "fbnet": {}}, protocol=4))
    return path
