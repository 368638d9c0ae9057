"""The Dockerfiles: hadolint finds nothing, and they copy and install what exists."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read_instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """Return the instructions with their arguments, without comments and line breaks."""
    lines = [line for line in dockerfile.read_text().splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    instructions = []
    for line in text.splitlines():
        if line.strip():
            name, _, argument = line.partition(" ")
            instructions.append((name, " ".join(argument.split())))
    return instructions


def list_context() -> set[str]:
    """Return what `.dockerignore` lets through."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    return {line[1:] for line in lines if line.startswith("!")}


def test_there_is_one_file_for_a_cpu_and_one_for_cuda():
    assert [path.name for path in DOCKERFILES] == ["cpu.Dockerfile", "cuda.Dockerfile"]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_hadolint_finds_nothing(dockerfile):
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("hadolint is not installed: it is part of the extra dev, but not on Windows")
    done = subprocess.run([program, dockerfile], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_everything_that_is_copied_exists_and_is_not_ignored(dockerfile):
    copied = set()
    for name, argument in read_instructions(dockerfile):
        if name == "COPY":
            copied.update(argument.split()[:-1])
    assert copied == list_context()
    for name in copied:
        assert (ROOT / name).exists(), name
    # What the build of the package reads.
    assert {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"], "src"} <= copied


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_the_tested_versions_are_installed_for_a_user_without_rights(dockerfile):
    instructions = read_instructions(dockerfile)
    python = PROJECT["requires-python"].removeprefix(">=")
    assert instructions[0] == ("FROM", f"python:{python}-slim")
    installs = [argument for _, argument in instructions if argument.startswith("pip install")]
    assert len(installs) == 2
    for install in installs:
        assert "--constraint constraints.txt" in install
    assert installs[0].endswith(" torch")
    assert ("/whl/cpu" in installs[0]) == (dockerfile.stem == "cpu")
    extras = re.findall(r"'\.\[([\w,]+)\]'", installs[1])[0].split(",")
    assert set(extras) <= set(PROJECT["optional-dependencies"])
    commands = dict(instructions)
    assert commands["USER"] == "1000:1000"
    assert commands["ENTRYPOINT"] == '["untrained"]'
    assert "untrained" in PROJECT["scripts"]


def test_both_files_are_the_same_but_for_cuda():
    cpu, cuda = (dict(read_instructions(path)) for path in DOCKERFILES)
    assert cpu["ENV"] in cuda["ENV"]
    for name in ("FROM", "COPY", "VOLUME", "WORKDIR", "USER", "ENTRYPOINT", "CMD"):
        assert cpu[name] == cuda[name]


def test_the_page_names_the_files_and_options_that_exist():
    page = (ROOT / "docs" / "how-to" / "docker.md").read_text()
    for path in DOCKERFILES:
        assert f"docker build -f docker/{path.name} " in page
