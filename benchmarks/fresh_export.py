"""Check that an exported folder works in an environment without untrained.

    python benchmarks/fresh_export.py FOLDER        makes the environment in FOLDER unless it exists

The environment has torch, ONNX Runtime, safetensors, Pillow and numpy.

Exports an architecture for digits, writes ten digits as images, predicts them in the environment with both runtimes,
and compares with the network here. The exit code is 1 if they differ.
"""

import argparse
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import torch
from PIL import Image

from untrained.data import TEST, load_data
from untrained.data.parts import ImagePart
from untrained.workflows.export import export
from untrained.workflows.export_subject import resolve_export_subject

ARCH = "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|skip_connect~0|avg_pool_3x3~1|nor_conv_3x3~2|"
PACKAGES = ("torch", "onnxruntime", "safetensors", "pillow", "numpy")


def make_environment(folder: Path) -> Path:
    """Return the Python of an environment with the packages that the exported README lists."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        constraints = Path(__file__).parents[1] / "constraints.txt"
        install = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-c",
            str(constraints),
            *PACKAGES,
        ]
        subprocess.run([python, *install], check=True)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "home", type=Path, help="folder for the environment, the export and the images"
    )
    home = parser.parse_args().home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    python = make_environment(home / "venv")
    clean_environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    attempt = subprocess.run(
        [python, "-c", "import untrained"], cwd=home, env=clean_environment, capture_output=True
    )
    assert attempt.returncode == 1, "untrained can be imported there"

    exported = export(ARCH, home / "exported", data="digits")
    subject = resolve_export_subject(ARCH, "nasbench201", data="digits")
    test = load_data("digits", subject.task).parts[TEST]
    assert isinstance(test, ImagePart)
    pictures = home / "pictures"
    pictures.mkdir(exist_ok=True)
    for index in range(10):
        Image.fromarray(test.images[index].numpy()).save(pictures / f"{index}.png")
    with torch.no_grad():
        expected = subject.network(test.normalise(test.images[:10])).softmax(1)
    worst = 0.0
    for runtime in ("onnx", "torch"):
        arguments = [exported.folder / "predict.py", pictures, "--runtime", runtime]
        process = subprocess.run(
            [python, *arguments],
            cwd=home,
            env=clean_environment,
            capture_output=True,
            text=True,
            check=True,
        )
        lines = [line.split("\t") for line in process.stdout.splitlines()]
        assert len(lines) == 10, process.stdout
        for index, (_, prediction) in enumerate(lines):
            label, probability = prediction.split(" ")
            worst = max(worst, abs(float(probability) - float(expected[index, int(label)])))
            assert int(label) == int(expected[index].argmax()), (index, prediction)
    print(
        json.dumps(
            {
                "pictures": 20,
                "largest difference of a probability": round(worst, 6),
                "missing": exported.missing,
            }
        )
    )
    return int(worst > 1e-3)


if __name__ == "__main__":
    sys.exit(main())
