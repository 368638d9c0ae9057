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


def accuracy(dataset: str, judged: str, epochs: int, seed: int, index: int) -> float:
    """Some number that tells them all apart."""
    place = [(d, s) for d, sets in SETS.items() for s in ("train", *sets)].index((dataset, judged))
    return 10 + place + epochs / 1000 + (seed - 777) / 50 + index / 7


def trial(dataset: str, epochs: int, seed: int, index: int) -> dict[str, Any]:
    """The state of a `ResultsCount`."""
    judged = [(f"{name}@{epoch}", name, epoch) for name in SETS[dataset] for epoch in range(epochs)]
    final = {
        key: accuracy(dataset, name, epochs, seed, index) - (epochs - 1 - e)
        for key, name, e in judged
    }
    return {
        "name": "infer.tiny",
        "net_state_dict": None,
        "train_acc1es": {
            e: accuracy(dataset, "train", epochs, seed, index) - (epochs - 1 - e)
            for e in range(epochs)
        },
        "train_losses": {},
        "train_times": OrderedDict((e, np.float64(2.0)) for e in range(epochs))
        if dataset != "cifar100"
        else None,
        "params": 0.5 + index,
        "flop": 80.0 + index,
        "seed": seed,
        "epochs": epochs,
        "latency": [0.01],
        "eval_names": list(SETS[dataset]),
        "eval_acc1es": final,
        "eval_times": {},
        "eval_losses": {},
    }


def nats(
    folder: Path, archs: Sequence[str], only: Iterable[int], seeds: Sequence[int] = (777, 888)
) -> Path:
    """`NATS-tss-v1_0-3ffb9-simple` with the results of some architectures."""
    folder.mkdir()
    pbz2(folder / "meta.pickle.pbz2", {"meta_archs": list(archs), "total_archs": len(archs)})
    for index in only:
        results = OrderedDict()
        for epochs in (12, 200):
            trials = {
                (d, s): trial(d, epochs, s, index)
                for d in SETS
                for s in (seeds if epochs == 200 else seeds[:1])
            }
            seen = {d: list(seeds) for d in SETS}
            state = {
                "arch_index": index,
                "arch_str": archs[index],
                "all_results": trials,
                "dataset_seed": seen,
            }
            results[str(epochs)] = state | {"clear_net_done": True}
        pbz2(folder / f"{index:06d}.pickle.pbz2", results)
    return folder


def pbz2(path: Path, content: Any) -> None:
    with bz2.BZ2File(path, "wb") as file:
        pickle.dump(content, file, protocol=4)


# ------------------------------------------------------------------------------------------------------ NAS-Bench-101


def crc32c(data: bytes) -> int:
    """Castagnoli's checksum, one bit after the other."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 * (crc & 1))
    return crc ^ 0xFFFFFFFF


def framed(data: bytes) -> bytes:
    def masked(part: bytes) -> bytes:
        crc = crc32c(part)
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % (1 << 32))

    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(value: int) -> bytes:
    head = value & 0x7F
    return bytes([head | 0x80]) + varint(value >> 7) if value > 0x7F else bytes([head])


def model_metrics(results: Sequence[Sequence[float]], params: int) -> bytes:
    """`ModelMetrics`: evaluations with epoch, seconds and three accuracies; parameters; seconds in total."""
    packed = b""
    for evaluation in results:
        fields = b"".join(
            bytes([number << 3 | 1]) + struct.pack("<d", v)
            for number, v in enumerate(evaluation, 1)
        )
        fields += bytes([6 << 3 | 2]) + varint(4) + b"path"
        packed += bytes([1 << 3 | 2]) + varint(len(fields)) + fields
    return (
        packed
        + bytes([2 << 3 | 0])
        + varint(params)
        + bytes([3 << 3 | 1])
        + struct.pack("<d", 99.0)
    )


def tfrecord(
    path: Path, rows: Iterable[tuple[int, str, str, Sequence[Sequence[float]], int]]
) -> Path:
    """Rows of epochs, matrix digits, operations, evaluations and parameters."""
    lines = (
        json.dumps(
            ["hash", epochs, matrix, ops, base64.b64encode(model_metrics(results, params)).decode()]
        )
        for epochs, matrix, ops, results, params in rows
    )
    path.write_bytes(b"".join(framed(line.encode()) for line in lines))
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


def transnas(
    path: Path, archs: Sequence[str], *, as_tensor: bool = False, old: bool = False
) -> Path:
    """`transnas-bench_v10141024.pth`; the number of task t, split s and epoch e of architecture a is 100 t + 10 s + a,
    with a bump in the middle epoch."""

    def numbers(base: float) -> Any:
        values = [base - 1, base + 0.5, base]
        return torch.tensor(values, dtype=torch.float64) if as_tensor else values

    def results(task: int, metric: str, a: int) -> dict[str, Any]:
        splits = enumerate(("train", "valid", "test"))
        metrics = {f"{split}_{metric}": numbers(100 * task + 10 * s + a) for s, split in splits}
        return {"model_info": {"encoder_params": 1}, "total_epochs": 3, "metrics": metrics}

    tasks = list(enumerate(TASKS.items()))
    micro = {
        arch: {task: results(t, metric, a) for t, (task, metric) in tasks}
        for a, arch in enumerate(archs)
    }
    content = {
        "task_list": list(TASKS),
        "info_names": [],
        "metrics_dict": {},
        "data": {"macro": {}, "micro": micro},
    }
    torch.save(content, path, _use_new_zipfile_serialization=not old)
    return path


def hwnas(path: Path, archs: Sequence[str]) -> Path:
    """`HW-NAS-Bench-v1_0.pickle`: lists in the order of the architectures."""
    measured = {
        dataset: {
            "config": [{"arch_str": arch, "C": 16, "N": 5} for arch in archs],
            "raspi4_latency": [d + i for i in range(len(archs))],
            "eyeriss_energy": np.arange(len(archs)) + d / 2,
            "eyeriss_arithmetic_intensity": [1.0] * len(archs),
        }
        for d, dataset in enumerate(("cifar10", "cifar100", "ImageNet16-120"), start=1)
    }
    path.write_bytes(pickle.dumps({"nasbench201": measured, "fbnet": {}}, protocol=4))
    return path
