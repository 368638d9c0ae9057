"""An exported folder in an environment of its own: torch, ONNX Runtime, safetensors, Pillow and numpy, nothing of ours.

    python benchmarks/fresh_export.py /tmp/fresh        makes the environment there unless it is there already

Exports an architecture for digits, writes ten digits as pictures, predicts them there by both runtimes, and compares
with what the network says here. The exit code is 1 where they differ.
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
NEEDED = ("torch", "onnxruntime", "safetensors", "pillow", "numpy")


def environment(folder: Path) -> Path:
    """The Python of an environment that has what the folder's README asks for."""
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
            *NEEDED,
        ]
        subprocess.run([python, *install], check=True)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "home", type=Path, help="folder of the environment, of the export and of the pictures"
    )
    home = parser.parse_args().home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    python = environment(home / "venv")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    absent = subprocess.run(
        [python, "-c", "import untrained"], cwd=home, env=clean, capture_output=True
    )
    assert absent.returncode == 1, "untrained can be imported there"

    made = export(ARCH, home / "exported", data="digits")
    subject = resolve_export_subject(ARCH, "nasbench201", data="digits")
    test = load_data("digits", subject.task).parts[TEST]
    assert isinstance(test, ImagePart)
    pictures = home / "pictures"
    pictures.mkdir(exist_ok=True)
    for place in range(10):
        Image.fromarray(test.images[place].numpy()).save(pictures / f"{place}.png")
    with torch.no_grad():
        expected = subject.network(test.normalise(test.images[:10])).softmax(1)
    worst = 0.0
    for runtime in ("onnx", "torch"):
        asked = [made.folder / "predict.py", pictures, "--runtime", runtime]
        done = subprocess.run(
            [python, *asked], cwd=home, env=clean, capture_output=True, text=True, check=True
        )
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        assert len(lines) == 10, done.stdout
        for place, (_, said) in enumerate(lines):
            kind, chance = said.split(" ")
            worst = max(worst, abs(float(chance) - float(expected[place, int(kind)])))
            assert int(kind) == int(expected[place].argmax()), (place, said)
    print(
        json.dumps(
            {
                "pictures": 20,
                "largest difference of a probability": round(worst, 6),
                "missing": made.missing,
            }
        )
    )
    return int(worst > 1e-3)


if __name__ == "__main__":
    sys.exit(main())
