"""The source archive and the wheel contain everything that an installed package needs."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILD_FILES = "pyproject.toml MANIFEST.in README.md CHANGELOG.md LICENSE".split()


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    """The folder that `make dist` writes, here from a copy, so that nothing is written to the checkout."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, copy)
    shutil.copytree(
        ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__")
    )
    # Test files of a checkout must not get into the source archive.
    (copy / "tests").mkdir()
    shutil.copy(__file__, copy / "tests")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation"], cwd=copy, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "dist"


@pytest.fixture(scope="module")
def wheel(dist) -> Path:
    (file,) = dist.glob("*.whl")
    assert file.name == f"untrained-{PROJECT['version']}-py3-none-any.whl"
    return file


@pytest.fixture(scope="module")
def metadata(wheel) -> Message:
    name = f"untrained-{PROJECT['version']}.dist-info/METADATA"
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(name).decode())


def list_package_files() -> set[str]:
    """Return every file of the package in the checkout, such as "untrained/cli/app.py"."""
    files = set()
    for path in (ROOT / "src" / "untrained").rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            files.add(path.relative_to(ROOT / "src").as_posix())
    return files


def test_the_wheel_contains_every_file_of_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    packed = {name for name in names if ".dist-info/" not in name}
    assert packed == list_package_files()
    assert {
        "untrained/py.typed",
        "untrained/drawings/style.css",
        "untrained/reports/style.css",
        "untrained/benchmarks/data/convnet.parquet",
        "untrained/benchmarks/data/vit.parquet",
        "untrained/cli/app.py",
    } <= packed
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_metadata_name_extras_versions_and_the_readme(metadata):
    assert metadata.get_all("Provides-Extra") == list(PROJECT["optional-dependencies"])
    requirements = metadata.get_all("Requires-Dist") or []
    for extra in ("ray", "datasets", "train", "export"):
        for requirement in PROJECT["optional-dependencies"][extra]:
            assert f'{requirement}; extra == "{extra}"' in requirements
    assert set(PROJECT["dependencies"]) <= set(requirements)
    assert metadata["Version"] == PROJECT["version"]
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text()


def test_the_classifiers_end_with_the_newest_python_of_torch(metadata):
    from importlib.metadata import metadata as read_metadata

    def list_versions(classifiers: list[str]) -> list[str]:
        prefix = "Programming Language :: Python :: 3."
        return [text.removeprefix(prefix) for text in classifiers if text.startswith(prefix)]

    ours = list_versions(metadata.get_all("Classifier") or [])
    of_torch = list_versions(read_metadata("torch").get_all("Classifier") or [])
    assert ours == [version for version in of_torch if int(version) >= 11]


def test_the_wheel_has_the_command(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "untrained = untrained.cli.app:main" in archive.read(name).decode()


def test_the_source_archive_has_the_package_and_no_tests(dist):
    (file,) = dist.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert {f"src/{name}" for name in list_package_files()} <= names
    assert set(BUILD_FILES) <= names
    assert not any(name.startswith("tests/") for name in names)


# ---------------------------------------------------------------- the installed wheel


def list_needed(names: list[str]) -> set[str]:
    """Return distributions and all that they depend on, as declared, of those that are here."""
    found: set[str] = set()
    waiting = [Requirement(name) for name in names]
    while waiting:
        requirement = waiting.pop()
        key = f"{requirement.name}{sorted(requirement.extras)}"
        if key in found:
            continue
        found.add(key)
        for text in distribution(requirement.name).requires or []:
            needed = Requirement(text)
            extras = requirement.extras or {""}
            marker = needed.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)
    return {key.partition("[")[0] for key in found}


def link_distributions(names: set[str], folder: Path) -> None:
    """Fill a folder with links to the top-level files and packages of some distributions."""
    for name in names:
        package = distribution(name)
        for file in package.files or []:
            top = file.parts[0]
            if top in ("..", "__pycache__") or top.endswith(".pth"):
                continue
            link = folder / top
            if not link.exists():
                link.symlink_to(Path(str(package.locate_file(top))))


@dataclass(frozen=True)
class Installation:
    """An environment that contains the wheel and, linked, some distributions of this one."""

    folder: Path
    work: Path

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run the installed command and check its exit code; returns its output and errors."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.work)}
        environment["UNTRAINED_DATA"] = str(self.work / "data")
        environment["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "2")
        done = subprocess.run(
            [str(self.folder / "bin" / "untrained"), *arguments],
            cwd=self.work,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    @property
    def site_packages(self) -> Path:
        (folder,) = (self.folder / "lib").glob("python*/site-packages")
        return folder


@pytest.fixture(scope="module")
def installation(wheel, tmp_path_factory) -> Installation:
    """The wheel installed by pip into a new environment, beside its declared dependencies only.

    The dependencies are links to those of this environment, since installing torch takes minutes.
    """
    root = tmp_path_factory.mktemp("installation")
    (root / "work").mkdir()
    installation = Installation(root / "environment", root / "work")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(installation.folder)], check=True
    )
    python = str(installation.folder / "bin" / "python")
    options = ["install", "--no-deps", "--no-index", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, *options, str(wheel)], check=True
    )
    link_distributions(list_needed(PROJECT["dependencies"]), installation.site_packages)
    return installation


def test_the_installed_command_uses_the_files_of_the_wheel(installation):
    document = json.loads(installation.run("doctor", "--json"))
    assert document["folder"] == str(installation.site_packages / "untrained")
    assert document["problems"] == []
    tables = {table["name"] for table in document["tables"] if table["found"]}
    assert tables == {"convnet", "vit"}
    for name in ("optuna", "onnx", "ray", "pytest", "ruff"):
        assert not (installation.site_packages / name).exists()


def test_the_installed_command_searches_and_scores_with_the_declared_dependencies(installation):
    installation.run("search", "--budget", "3", "--run", "run")
    report = (installation.work / "run" / "report.html").read_text()
    style = (ROOT / "src" / "untrained" / "reports" / "style.css").read_text()
    assert style.strip().splitlines()[-1] in report
    (installation.work / "mine.py").write_text(
        "from torch import nn\n"
        "def make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, 5))\n"
    )
    shape = ("--input-shape", "3x8x8", "--json")
    rows = json.loads(installation.run("score", "./mine.py:make", "--proxy", "params", *shape))
    values = {row["proxy"]: row["value"] for row in rows}
    # 192 inputs and a bias for each of 5 outputs.
    assert values["params"] == 5 * (192 + 1)


def test_the_extra_completes_the_export(installation):
    """Without the extra, the command says what to install."""
    (installation.work / "other.py").write_text(
        "from torch import nn\n"
        "def make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, 5))\n"
    )
    export = ("export", "./other.py:make", "--out", "out", "--input-shape", "3x8x8")
    output = installation.run(*export, code=2)
    assert output.startswith("error: onnx is not installed: pip install ")
    assert output.endswith("(or '.[export]' in a clone of untrained)\n")
    assert not (installation.work / "out").exists()
    requirements = PROJECT["optional-dependencies"]["export"]
    link_distributions(list_needed(requirements), installation.site_packages)
    output = installation.run(*export)
    assert "was not written" not in output
    assert (installation.work / "out" / "model.onnx").stat().st_size > 0
