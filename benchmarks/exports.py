"""Export one architecture of every space as plain source and as ONNX, and compare their outputs with the original.

    python benchmarks/exports.py            the scoring networks of all spaces, at the size of their own task
    python benchmarks/exports.py nasbench201 "darts(channels=36,cells=20,auxiliary=True)"

Outputs of the source must be equal to the last bit (otherwise `write_source` refuses it), those of ONNX within 1e-4.
If an architecture fails, the exit code is 1.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from untrained.data import load_data
from untrained.errors import UsageError
from untrained.exports.source import build_from_source, write_source
from untrained.onnx_files import TOLERANCE, measure_disagreement, open_onnx, write_onnx
from untrained.seeds import derive_seed, make_generator
from untrained.spaces import SPACES, load_space


def export_space(name: str) -> tuple[int, bool, float]:
    """Return the lines of source, whether it trains like the original, and the difference of ONNX from torch."""
    space = load_space(name)
    arch = space.sample(make_generator("export", name))
    torch.manual_seed(derive_seed("weights", name, arch, 0))
    network = space.build(arch).eval()
    noise = load_data("noise", space.task)
    source = write_source(
        network, lambda samples: noise.batch(samples).inputs, f"A network of {name}."
    )
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        write_onnx(build_from_source(source), noise.batch(2).inputs, path, dynamic_batch=True)
        onnx_model = open_onnx(path, 1)
        differences = []
        for samples in (1, 3):
            inputs = noise.batch(samples).inputs
            differences.append(measure_disagreement(network, onnx_model, inputs))
    return len(source.text.splitlines()), source.is_trainable, max(differences)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("space", nargs="*", default=list(SPACES))
    names = parser.parse_args().space
    failures = 0
    print(f"{'space':45} {'lines':>5}  {'trains':6}  ONNX differs by")
    for name in names:
        try:
            lines, trainable, difference = export_space(name)
            print(
                f"{name:45} {lines:5}  {'yes' if trainable else 'no':6}  {difference:.1e}",
                flush=True,
            )
            failures += difference > TOLERANCE
        except UsageError as error:
            print(f"{name:45} {error}", flush=True)
            failures += 1
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
