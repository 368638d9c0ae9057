"""Prepare a data root for the experiments of the four papers, from files that are not in this repository.

    python benchmarks/papers_data.py SOURCE ROOT                  # tables, and images that stand in for missing ones
    python benchmarks/papers_data.py SOURCE ROOT --images 18400   # also the first 18,400 images of CIFAR-10, in one file

SOURCE holds the extracts of the benchmark tables (docs/how-to/benchmarks.md) and the folders cifar100_partial,
tiny_imagenet16, mnist and ctr. Folders that are missing are left out, and the experiments say so.

Of CIFAR-100 only 1,117 training images are available here, and none of ImageNet16-120. The first 120 of the
200 classes of Tiny-ImageNet at 16 pixels stand in for it: as many classes and pixels, but other images. CIFAR-10
is expected in the publisher's format in ROOT. With --images, its first images are written to one compressed
file instead, for a machine to which only a limited number of bytes can be copied; MNIST and the tables of clicks
are then left out.
"""

import argparse
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from untrained.benchmarks import import_benchmark
from untrained.errors import UsageError

TABLES = (
    "nasbench201",
    "nasbench101",
    "nasbench1shot1_s1",
    "nasbench1shot1_s2",
    "nasbench301",
    "transnas",
)
IMAGENET16_CLASSES = 120
BINARY_FOLDER = "cifar-10-batches-bin"
PIXEL_BYTES = 3 * 32 * 32
COPIED = (
    "mnist/mnist.npz",
    "ctr/criteo_10k.csv.gz",
    "ctr/avazu_10k.csv.gz",
    "ctr/frappe_val_test.csv.gz",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("root", type=Path)
    parser.add_argument("--images", type=int, help="images of CIFAR-10 in one file")
    parser.add_argument("--cifar10", type=Path, help=f"folder that contains {BINARY_FOLDER}")
    options = parser.parse_args()
    options.root.mkdir(parents=True, exist_ok=True)
    import_tables(options.source, options.root)
    write_cifar100(options.source, options.root)
    write_imagenet16(options.source, options.root)
    if options.images:
        write_cifar10(options.cifar10 or options.root, options.root, options.images)
    else:
        copy_files(options.source, options.root)


def import_tables(source: Path, root: Path) -> None:
    for name in TABLES:
        if (root / "benchmarks" / f"{name}.parquet").is_file():
            continue
        try:
            import_benchmark(name, source, root)
        except UsageError as error:
            print(f"{name}: {error}")
            continue
        print(f"{name}: imported")


def write_cifar100(source: Path, root: Path) -> None:
    """Write the available images of CIFAR-100."""
    path = source / "cifar100_partial" / "cifar100_first_images.npz"
    if path.is_file():
        with np.load(path, allow_pickle=False) as arrays:
            write_images(root / "cifar100.npz", arrays["x_train"], arrays["y_train"])


def write_imagenet16(source: Path, root: Path) -> None:
    """Write the images that stand in for ImageNet16-120."""
    path = source / "tiny_imagenet16" / "subset_2000_1000.npz"
    if path.is_file():
        with np.load(path, allow_pickle=False) as arrays:
            is_used = arrays["y_train"] < IMAGENET16_CLASSES
            images = arrays["x_train"][is_used]
            labels = arrays["y_train"][is_used]
        write_images(root / "ImageNet16-120.npz", images, labels)


def write_cifar10(folder: Path, root: Path, count: int) -> None:
    """Write the first training images of CIFAR-10 to one file."""
    rows = []
    for path in sorted((folder / BINARY_FOLDER).glob("data_batch_*.bin")):
        rows.append(np.fromfile(path, np.uint8).reshape(-1, 1 + PIXEL_BYTES))
    # A row is a label, then the planes of the three colours.
    table = np.concatenate(rows)[:count]
    images = table[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    write_images(root / "cifar10.npz", images, table[:, 0])


def write_images(path: Path, images: NDArray[np.uint8], labels: NDArray[np.integer]) -> None:
    np.savez_compressed(path, x_train=images, y_train=labels.astype(np.int64))
    print(f"{path}: {len(images):,} images, {path.stat().st_size / 2**20:.1f} MiB")


def copy_files(source: Path, root: Path) -> None:
    """Copy the images of MNIST and the tables of clicks."""
    for name in COPIED:
        if (source / name).is_file() and not (root / name).is_file():
            (root / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, root / name)
            print(f"{root / name}: copied")


if __name__ == "__main__":
    main()
