"""Small valid files of every kind that is read, in the formats of their publishers."""

import gzip
import json
import pickle
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tests.benchmarks import publishers
from tests.data.tiny import write_python
from untrained import search
from untrained.benchmarks import import_benchmark
from untrained.spaces import load_space
from untrained.spaces.nasbench201 import make_arch_from_index

CELLS_201 = [str(make_arch_from_index(index)) for index in range(3)]
CELLS_TRANSNAS = ["64-41414-3_33_333", "64-41414-0_12_301"]
CELL_101 = "010001000", "input,conv3x3-bn-relu,output"


@dataclass(frozen=True)
class Example:
    """A valid file. All of `folder` is copied for each mutated file; `file` is the one that changes."""

    kind: str
    folder: Path
    file: str

    @property
    def content(self) -> bytes:
        return (self.folder / self.file).read_bytes()


def make_examples(root: Path) -> list[Example]:
    """Write one example or more of each kind."""
    run = _make_run(root / "search")
    return [
        *_make_tables(root),
        *_make_cifar(root / "cifar"),
        *_make_torch_files(root),
        *_make_npz(root),
        *_make_csv(root),
        Example("run.json", run, "run.json"),
        Example("run.json", run, "trace.json"),
        Example("store.sqlite", _make_store(root / "store", run), "records.sqlite"),
    ]


def copy_example(example: Example, content: bytes, target: Path) -> Path:
    """Copy the folder of an example with another content of its file; return the file."""
    shutil.copytree(example.folder, target)
    path = target / example.file
    path.write_bytes(content)
    return path


def _make_tables(root: Path) -> list[Example]:
    (root / "hwnas").mkdir(parents=True)
    publishers.write_hwnas(root / "hwnas" / "HW-NAS-Bench-v1_0.pickle", CELLS_201)
    publishers.write_nats(root / "nats", CELLS_201, only=(0,), seeds=(777,))
    (root / "tfrecord").mkdir()
    evaluations = [(0, 0, 0.1, 0.1, 0.1), (108, 1000, 0.99, 0.9, 0.8)]
    rows = [(108, *CELL_101, evaluations, 2_500_000)] * 2
    publishers.write_tfrecord(root / "tfrecord" / "a.tfrecord", rows)
    suite_zero = {
        "cifar100": {"(4, 3, 3, 3, 2, 3)": {"params": 0.4, "zen": 1.5, "val_accuracy": 68.3}}
    }
    suite_zero["cifar10"] = {
        "(0, 1, 2, 3, 4, 0)": {"zen": {"score": 2.0, "time": 1.0}, "val_accuracy": 9}
    }
    (root / "suite_zero").mkdir()
    (root / "suite_zero" / "zc.json").write_text(json.dumps(suite_zero))
    (root / "darts").mkdir()
    genotypes = [str(load_space("darts").sample(np.random.default_rng(seed))) for seed in range(3)]
    lines = [f'"{text}",{90 + place}\n' for place, text in enumerate(genotypes)]
    packed = gzip.compress(("genotype,val_acc\n" + "".join(lines)).encode(), mtime=0)
    (root / "darts" / "darts1000_cifar10.csv.gz").write_bytes(packed)
    pth = publishers.write_transnas(root / "some.pth", CELLS_TRANSNAS)
    import_benchmark("transnas", pth, root / "parquet")
    return [
        Example("hwnas.pickle", root / "hwnas", "HW-NAS-Bench-v1_0.pickle"),
        Example("nats.pbz2", root / "nats", "000000.pickle.pbz2"),
        Example("nats.pbz2", root / "nats", "meta.pickle.pbz2"),
        Example("nasbench101.tfrecord", root / "tfrecord", "a.tfrecord"),
        Example("suite_zero.json", root / "suite_zero", "zc.json"),
        Example("table.csv.gz", root / "darts", "darts1000_cifar10.csv.gz"),
        Example("table.parquet", root / "parquet", "benchmarks/transnas.parquet"),
    ]


def _make_cifar(root: Path) -> list[Example]:
    """Batches as Python 2 and Python 3 write them: arrays are text, bytes or buffers."""
    examples = []
    for protocol in (2, 4, 5):
        folder = root / f"protocol{protocol}"
        write_python(folder)
        file = folder / "cifar-10-batches-py" / "data_batch_1"
        file.write_bytes(pickle.dumps(pickle.loads(file.read_bytes()), protocol=protocol))
        examples.append(Example("cifar.pickle", folder, "cifar-10-batches-py/data_batch_1"))
    return examples


def _make_torch_files(root: Path) -> list[Example]:
    examples = []
    for name, options in (("new", {}), ("tensors", {"as_tensor": True}), ("old", {"old": True})):
        folder = root / f"transnas_{name}"
        folder.mkdir()
        publishers.write_transnas(folder / "a.pth", CELLS_TRANSNAS[:1], **options)
        examples.append(Example("transnas.pth", folder, "a.pth"))
    folder = root / "checkpoint"
    folder.mkdir()
    state = {"weight": torch.arange(6.0).reshape(2, 3), "step": 3, "names": ["a", "b"]}
    torch.save(state, folder / "checkpoint.pt")
    examples.append(Example("checkpoint.pt", folder, "checkpoint.pt"))
    return examples


def _make_npz(root: Path) -> list[Example]:
    rng = np.random.default_rng(0)
    arrays = {"x": rng.integers(256, size=(40, 8, 8, 3), dtype=np.uint8), "y": np.arange(40) % 4}
    examples = []
    for name, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
        folder = root / f"npz_{name}"
        folder.mkdir()
        save(folder / "a.npz", **arrays)
        examples.append(Example("images.npz", folder, "a.npz"))
    return examples


def _make_csv(root: Path) -> list[Example]:
    folder = root / "clicks"
    folder.mkdir()
    rng = np.random.default_rng(1)
    lines = ["click,age,price,city,shop"]
    for _ in range(120):
        age = rng.integers(100)
        city = rng.integers(5)
        shop = rng.integers(9)
        click = rng.integers(2)
        lines.append(f"{click},{age},{rng.random():.3f},town{city},s{shop}")
    text = "\n".join(lines) + "\n"
    (folder / "clicks.csv").write_text(text)
    packed = root / "clicks_packed"
    packed.mkdir()
    (packed / "clicks.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return [
        Example("clicks.csv", folder, "clicks.csv"),
        Example("clicks.csv", packed, "clicks.csv.gz"),
    ]


def _make_run(folder: Path) -> Path:
    """A search of six architectures, with the trace of its strategy."""
    search(
        "nasbench201",
        "params",
        "evolution(population=2)",
        budget=6,
        data="noise",
        input_size=8,
        run=folder,
    )
    (folder / "report.html").unlink(missing_ok=True)
    return folder


def _make_store(folder: Path, run: Path) -> Path:
    folder.mkdir()
    (store,) = run.glob("records*.sqlite")
    shutil.copyfile(store, folder / "records.sqlite")
    return folder
