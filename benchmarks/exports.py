"""One architecture of every space taken out: plain source, ONNX, and how far their answers are from the original's.

    python benchmarks/exports.py            the scoring networks of all spaces, at the size of their own task
    python benchmarks/exports.py nasbench201 "darts(channels=36,cells=20,auxiliary=True)"

Source must answer to the last bit (it is refused otherwise), ONNX within 1e-4. The exit code is 1 where one does not.
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


def row(name: str) -> tuple[int, bool, float]:
    """Lines of source, whether it also trains as the original does, and how far ONNX is from torch."""
    space = load_space(name)
    arch = space.sample(make_generator("export", name))
    torch.manual_seed(derive_seed("weights", name, arch, 0))
    network, noise = space.build(arch).eval(), load_data("noise", space.task)
    made = write_source(
        network, lambda samples: noise.batch(samples).inputs, f"A network of {name}."
    )
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        write_onnx(build_from_source(made), noise.batch(2).inputs, path, dynamic_batch=True)
        opened = open_onnx(path, 1)
        apart = max(
            measure_disagreement(network, opened, noise.batch(samples).inputs) for samples in (1, 3)
        )
    return len(made.text.splitlines()), made.is_trainable, apart


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("space", nargs="*", default=list(SPACES))
    names, bad = parser.parse_args().space, 0
    print(f"{'space':45} {'lines':>5}  {'trains':6}  ONNX differs by")
    for name in names:
        try:
            lines, trainable, apart = row(name)
            print(f"{name:45} {lines:5}  {'yes' if trainable else 'no':6}  {apart:.1e}", flush=True)
            bad += apart > TOLERANCE
        except UsageError as error:
            print(f"{name:45} {error}", flush=True)
            bad += 1
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
