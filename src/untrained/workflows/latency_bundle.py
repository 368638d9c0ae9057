"""Write a folder of ONNX models whose latency is measured on another device.

The folder needs only onnxruntime and numpy there. Its script `measure.py` writes `latencies.csv`,
which `--latency-table` reads (`strategies/latency_table.py`).
"""

import csv
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import torch

from untrained.config import LIMIT_KEYS, Limits, parse_limit_texts
from untrained.data import load_data, set_input_size
from untrained.errors import UsageError
from untrained.exports import measure_template
from untrained.onnx_files import import_extra, write_traced_onnx
from untrained.probe.guard import random_state
from untrained.progress import Progress, ProgressCallback
from untrained.quantities import check_count, parse_path
from untrained.runs.folder import RunFolder
from untrained.runs.winner import choose_trusted_space, read_ranking, read_winner
from untrained.seeds import derive_seed, make_generator
from untrained.spaces import Space, load_space
from untrained.strategies.base import NewArchSampler
from untrained.strategies.limits import ConstrainedSpace
from untrained.types import Arch, Task
from untrained.workflows.search_checks import check_data

# Default number of sampled architectures, and of the best architectures of a run.
DEFAULT_COUNT = 30
DEFAULT_TOP = 10
MAX_COUNT = 10_000


@dataclass(frozen=True)
class LatencyBundle:
    """A bundle that was written.

    Attributes:
        folder: The folder.
        archs: Its architectures.
        input_shape: Shape of one sample.
    """

    folder: Path
    archs: tuple[Arch, ...]
    input_shape: tuple[int, ...]


def write_sample_bundle(
    out: str | Path,
    space: str | Space,
    *,
    count: int = DEFAULT_COUNT,
    limits: Mapping[str, str | float | None] | None = None,
    data: str | None = None,
    input_size: int | None = None,
    seed: int = 0,
    data_root: Path | None = None,
    on_progress: ProgressCallback | None = None,
) -> LatencyBundle:
    """Write a bundle of sampled architectures.

    Args:
        out: The folder to write. It must be new or empty.
        space: The space, or its name.
        count: Number of architectures.
        limits: Limits on their size, as for `search`. The bundle of a search needs the same.
        data: Data that decide the number of classes and channels; None for those of the space.
        input_size: Side of the square images that networks see; None for that of the space.
        seed: Seed of sampling.
        data_root: Folder of data sets.
        on_progress: Called after each network.

    Raises:
        UsageError: An argument is wrong, or the folder is not empty.
    """
    folder = _check_folder(out)
    check_count(count, "count", 1, MAX_COUNT)
    loaded_space = load_space(space)
    task = set_input_size(loaded_space.task, input_size)
    if data is not None:
        task = load_data(data, task, data_root).task
    check_data(loaded_space, task)
    limit_texts = parse_limit_texts(limits or {})
    parsed_limits = Limits.parse(**{LIMIT_KEYS[key]: text for key, text in limit_texts.items()})
    constrained_space = ConstrainedSpace(loaded_space, parsed_limits, task)
    rng = make_generator("latency bundle", loaded_space.name, seed)
    archs = NewArchSampler(constrained_space).sample_new(count, rng)
    return _write_bundle(folder, loaded_space, task, archs, on_progress)


def write_run_bundle(
    out: str | Path,
    run: str | Path,
    *,
    count: int = DEFAULT_TOP,
    space: str | Space = "nasbench201",
    on_progress: ProgressCallback | None = None,
) -> LatencyBundle:
    """Write a bundle of the best architecture of a run and those that follow it in the ranking.

    A hand-designed network that won is left out.

    Args:
        out: The folder to write. It must be new or empty.
        run: The run folder.
        count: Number of architectures.
        space: The space of the run, if it is defined in a file that was never used on this machine.
        on_progress: Called after each network.

    Raises:
        UsageError: The run has no ranking, its space is not trusted, or the folder is not empty.
    """
    folder = _check_folder(out)
    check_count(count, "count", 1, MAX_COUNT)
    run_path = parse_path(run, "run")
    winner = read_winner(run_path)
    command = f"untrained latency bundle --run {run_path}"
    loaded_space = load_space(choose_trusted_space(winner, run_path, space, command))
    run_folder = RunFolder.read(run_path)
    ranked = read_ranking(run_folder)
    # The winner of short trainings may be far behind in the ranking.
    archs = [winner.arch]
    for standing in ranked.ranking.standings:
        if standing.arch != winner.arch:
            archs.append(standing.arch)
    scored = [record for record in ranked.records if record.measure == run_folder.measure]
    return _write_bundle(folder, loaded_space, scored[0].task, archs[:count], on_progress)


def _check_folder(out: str | Path) -> Path:
    """Return the folder to write, after checking that it is usable and no package is missing."""
    for package in ("onnx", "onnxscript"):
        import_extra(package)
    folder = parse_path(out, "out")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; choose another --out")
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; choose another --out")
    return folder


def _write_bundle(
    folder: Path,
    space: Space,
    task: Task,
    archs: Sequence[Arch],
    on_progress: ProgressCallback | None,
) -> LatencyBundle:
    """Write all files to a temporary folder, which is renamed when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _write_networks(staging, space, task, archs, on_progress)
        shutil.copyfile(measure_template.__file__, staging / "measure.py")
        # `mkdtemp` makes folders that only their owner can read.
        staging.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        os.replace(staging, folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return LatencyBundle(folder, tuple(archs), task.input_shape)


def _write_networks(
    folder: Path,
    space: Space,
    task: Task,
    archs: Sequence[Arch],
    on_progress: ProgressCallback | None,
) -> None:
    """Write one ONNX file per architecture, and their list."""
    stage = "writing networks"
    if on_progress:
        on_progress(Progress(stage, 0, len(archs)))
    inputs = torch.zeros(1, *task.input_shape)
    shape = "x".join(str(side) for side in task.input_shape)
    (folder / "networks").mkdir()
    with open(folder / "archs.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "arch", "input"])
        for number, arch in enumerate(archs, 1):
            name = f"networks/{number:04d}.onnx"
            with random_state(derive_seed("weights", arch.space, arch, 0)):
                network = space.build(arch, task)
            write_traced_onnx(network, inputs, folder / name)
            writer.writerow([name, str(arch), shape])
            if on_progress:
                on_progress(Progress(stage, number, len(archs)))
