"""What is installed on this machine: versions, devices, optional extras and data.

The facts come from the metadata of the installed packages, so they can be collected even if a
package is missing, or damaged so that it cannot be imported.
"""

import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import TypedDict

from untrained.data_root import find_data_root
from untrained.errors import UsageError
from untrained.version import __version__
from untrained.workers import count_cores

# What each extra enables.
EXTRA_PURPOSES = {
    "ray": "workers on a Ray cluster: --ray",
    "datasets": "data sets of the Hugging Face hub: --data hf:NAME",
    "train": "training on several GPUs with accelerate, and --tensorboard",
    "export": "exported models, latency in ONNX Runtime and on other devices",
    "optuna": "runs written as Optuna studies: store export --as optuna",
}

# A requirement in the metadata of a package, such as `ray>=2.40; extra == "ray"`.
_REQUIREMENT = re.compile(
    r"""
    (?P<name>[\w.-]+) (\[.*\])? \s*  # the package, and its own extras
    (?P<versions>[^;]*)
    (; \s* extra \s* == \s* ["'](?P<extra>[\w-]+)["'])?
    """,
    re.VERBOSE,
)


class Package(TypedDict):
    """A package that untrained uses; `version` is empty if it is not installed."""

    name: str
    required: str
    version: str
    problem: str


class Gpu(TypedDict):
    """A GPU that torch can use."""

    device: str
    name: str
    memory_bytes: int


class Devices(TypedDict):
    """The processors of this machine, as torch sees them.

    `cuda_version` is the version of CUDA that torch was built for; None if it is for the CPU only.
    """

    cores: int
    threads: int | None
    cuda_version: str | None
    gpus: list[Gpu]
    mps: bool
    problem: str


class Extra(TypedDict):
    """An optional extra; `install` is the command that adds it."""

    name: str
    installed: bool
    enables: str
    install: str
    packages: list[Package]


class DataRoot(TypedDict):
    """The folder of data sets and tables, and where its path comes from."""

    path: str
    source: str
    exists: bool


class DataFiles(TypedDict):
    """A known data set or table; `problem` says what to do if it is not found."""

    name: str
    about: str
    found: bool
    files: list[str]
    problem: str


class Installation(TypedDict):
    """Everything that `untrained doctor` shows."""

    untrained: str
    folder: str
    python: str
    executable: str
    platform: str
    dependencies: list[Package]
    devices: Devices
    extras: list[Extra]
    data_root: DataRoot
    datasets: list[DataFiles]
    tables: list[DataFiles]
    problems: list[str]


def describe_installation(data_root: Path | None = None) -> Installation:
    """Collect versions, devices, optional extras and data.

    Args:
        data_root: The data root, if not the default one.
    """
    dependencies, extras = _list_packages()
    devices = _describe_devices()
    problems = []
    if not dependencies:
        problems.append(
            "untrained is not installed as a package, so its dependencies are not known: "
            "pip install PATH_OF_THE_CLONE"
        )
    for package in dependencies:
        if package["problem"]:
            problems.append(package["problem"])
    if devices["problem"]:
        problems.append(devices["problem"])

    datasets: list[DataFiles] = []
    tables: list[DataFiles] = []
    root = find_data_root(data_root)
    try:
        datasets = _list_datasets(root)
        tables = _list_tables(root)
    # A damaged package raises an OSError if a shared library is missing.
    except (ImportError, OSError) as error:
        problems.append(f"data sets and tables cannot be listed: {error}")

    return Installation(
        untrained=__version__,
        folder=str(Path(__file__).parents[1]),
        python=platform.python_version(),
        executable=sys.executable,
        platform=platform.platform(),
        dependencies=dependencies,
        devices=devices,
        extras=extras,
        data_root=DataRoot(
            path=str(root), source=_describe_root_source(data_root), exists=root.is_dir()
        ),
        datasets=datasets,
        tables=tables,
        problems=problems,
    )


def _list_packages() -> tuple[list[Package], list[Extra]]:
    """Return the dependencies and the extras of untrained; none without its metadata."""
    dependencies: list[Package] = []
    packages_of_extras: dict[str, list[Package]] = {name: [] for name in EXTRA_PURPOSES}
    for requirement in _read_requirements():
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None:
            continue
        extra = match["extra"]
        # The extras `dev` and `docs` are for contributors.
        if extra is not None and extra not in packages_of_extras:
            continue
        package = _describe_package(match["name"], match["versions"].strip())
        if extra is None:
            dependencies.append(package)
        else:
            packages_of_extras[extra].append(package)

    extras = []
    for name, packages in packages_of_extras.items():
        is_usable = bool(packages) and not any(package["problem"] for package in packages)
        extras.append(
            Extra(
                name=name,
                installed=is_usable,
                enables=EXTRA_PURPOSES[name],
                install=f"pip install '.[{name}]'",
                packages=packages,
            )
        )
    return dependencies, extras


def _read_requirements() -> list[str]:
    try:
        return metadata.requires("untrained") or []
    except metadata.PackageNotFoundError:
        return []


def _describe_package(name: str, required: str) -> Package:
    requirement = f"{name}{required}"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        problem = f"{name} is not installed: pip install '{requirement}'"
        return Package(name=name, required=required, version="", problem=problem)
    problem = ""
    if _is_too_old(version, required):
        problem = f"{name} {version} is too old: pip install '{requirement}'"
    return Package(name=name, required=required, version=version, problem=problem)


def _is_too_old(version: str, required: str) -> bool:
    """Compare a version with a requirement such as ">=2.8", the only form this package uses."""
    if not required.startswith(">="):
        return False
    return _parse_version(version) < _parse_version(required.removeprefix(">="))


def _parse_version(version: str) -> list[int]:
    """Return the numbers at the start of a version, without zeros at the end: 2.13.0+cpu."""
    release = re.match(r"[\d.]*", version)
    numbers = []
    if release is not None:
        numbers = [int(number) for number in release[0].split(".") if number]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers


def _describe_devices() -> Devices:
    devices = Devices(
        cores=count_cores(), threads=None, cuda_version=None, gpus=[], mps=False, problem=""
    )
    try:
        import torch
    # A damaged torch raises an OSError if a shared library is missing.
    except (ImportError, OSError) as error:
        devices["problem"] = f"torch cannot be imported: {error}"
        return devices
    devices["threads"] = torch.get_num_threads()
    devices["cuda_version"] = torch.version.cuda
    devices["mps"] = torch.backends.mps.is_available()
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            gpu = Gpu(
                device=f"cuda:{index}",
                name=properties.name,
                memory_bytes=properties.total_memory,
            )
            devices["gpus"].append(gpu)
    return devices


def _describe_root_source(data_root: Path | None) -> str:
    """Return where the path of the data root comes from, in the order of `find_data_root`."""
    if data_root is not None:
        return "--data-root"
    if os.environ.get("UNTRAINED_DATA"):
        return "$UNTRAINED_DATA"
    return "the default; set $UNTRAINED_DATA or --data-root to change it"


def _list_datasets(root: Path) -> list[DataFiles]:
    """Return the known data sets that need files under the data root."""
    from untrained.data import SOURCES

    datasets = []
    for kind in SOURCES.values():
        if kind.find_files is None:
            continue
        files = kind.find_files(root)
        problem = ""
        if not files:
            problem = f"`untrained search --data {kind.name}` says which files it needs"
        datasets.append(
            DataFiles(
                name=kind.name,
                about=kind.about,
                found=bool(files),
                files=[str(file) for file in files],
                problem=problem,
            )
        )
    return datasets


def _list_tables(root: Path) -> list[DataFiles]:
    """Return the tables of known results: those of the package and those to import."""
    from untrained.benchmarks import BENCHMARKS, open_table

    tables = []
    for benchmark in BENCHMARKS.values():
        problem = ""
        files = []
        try:
            table = open_table(benchmark.name, root)
            files.append(str(table.path))
        except UsageError as error:
            problem = str(error)
        if not benchmark.is_packaged and not benchmark.get_path(root).exists():
            # The table was never imported. The message of the error would repeat the data root.
            problem = (
                f"`untrained data import {benchmark.name} PATH` makes it from "
                f"{benchmark.import_sources}"
            )
        tables.append(
            DataFiles(
                name=benchmark.name,
                about=benchmark.about,
                found=bool(files),
                files=files,
                problem=problem,
            )
        )
    return tables
