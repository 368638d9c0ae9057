"""Predict a class or a number for each sample: python predict.py picture.png folder/ ...

A network for arrays reads numpy files instead: python predict.py samples.npy. The first axis of an
array is that of the samples. An .npz file must hold a single array, or one called x. A network for
a table reads CSV files: python predict.py rows.csv. The file has the columns of the training data,
which table.py encodes, or plain numbers if the network was exported without column names.

Needs numpy, and ONNX Runtime or else torch and safetensors. Images also need Pillow. Reads
config.json beside this file.
"""

import argparse
import csv
import json
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("predict.py needs numpy: pip install numpy")

HERE = Path(__file__).resolve().parent
BATCH_SIZE = 64
ARRAY_SUFFIXES = {".npy", ".npz"}
# Only formats whose decoders start no program and read no other file, so no PostScript.
IMAGE_FORMATS = (
    "JPEG",
    "MPO",
    "PNG",
    "GIF",
    "BMP",
    "WEBP",
    "TIFF",
    "PPM",
    "AVIF",
    "JPEG2000",
    "ICO",
)
Array = Any


def load_network(runtime: str) -> Callable[[Array], Array]:
    """Return the network as a function from inputs to outputs, both numpy arrays.

    Args:
        runtime: `onnx`, `torch`, or `auto`, which prefers ONNX Runtime.
    """
    if runtime != "torch" and (HERE / "model.onnx").is_file():
        try:
            return _load_onnx_network()
        except ImportError:
            if runtime == "onnx":
                raise
    return _load_torch_network()


def _load_onnx_network() -> Callable[[Array], Array]:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        str(HERE / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    input_name = session.get_inputs()[0].name
    return lambda inputs: session.run(None, {input_name: inputs})[0]


def _load_torch_network() -> Callable[[Array], Array]:
    import torch
    from model import load

    network = load()
    return lambda inputs: network(torch.from_numpy(inputs)).detach().numpy()


def check_pillow() -> None:
    """Raise ModuleNotFoundError if Pillow is missing; else every image would be unreadable."""
    import PIL  # noqa: F401


def describe_missing_package(package: str, runtime: str) -> str:
    """Say which packages to install.

    Args:
        package: The module that was not found.
        runtime: The option --runtime.

    Returns:
        One line; empty if installing packages does not help.
    """
    if package == "PIL":
        return "reading pictures needs Pillow: pip install pillow"
    uses_onnx = runtime != "torch" and (HERE / "model.onnx").is_file()
    uses_torch = (HERE / "model.py").is_file() and (runtime != "onnx" or not uses_onnx)
    choices = []
    if uses_onnx:
        choices.append("onnxruntime (pip install onnxruntime)")
    if uses_torch:
        choices.append("torch and safetensors (pip install torch safetensors)")
    if not choices:
        return ""
    return f"running the network needs {', or '.join(choices)}"


def read_image(path: Path, config: dict[str, Any]) -> Array:
    """Read an image and preprocess it for the network.

    The image is rotated according to its EXIF tag, scaled to cover the input size, cropped to its
    centre, and normalised per channel.
    """
    from PIL import Image, ImageOps

    channels, height, width = config["input_shape"]
    Image.init()
    formats = [name for name in IMAGE_FORMATS if name in Image.OPEN]
    with Image.open(path, formats=formats) as opened:
        image = ImageOps.exif_transpose(opened)
        is_16_bit = image.mode.startswith("I;16") or (
            image.mode == "I" and opened.format in ("PNG", "PPM")
        )
        if is_16_bit:
            # Pillow would clip 16 bits to 8 instead of scaling them.
            scaled = (np.asarray(image).astype(np.uint32) * 255 + 32767) // 65535
            image = Image.fromarray(scaled.astype(np.uint8))
        elif image.mode in ("I", "F"):
            raise ValueError("32-bit pixels have no known scale; save the image with 8 or 16 bits")
        if "A" in image.getbands() or "transparency" in image.info:
            # Transparent pixels are white, as in training.
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        fitted = ImageOps.fit(image.convert("RGB"), (width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(fitted, dtype=np.float32) / 255
    if channels == 1:
        pixels = pixels.mean(2, keepdims=True)
    mean = np.asarray(config["mean"], dtype=np.float32)
    std = np.asarray(config["std"], dtype=np.float32)
    return ((pixels - mean) / std).transpose(2, 0, 1)


def read_arrays(path: Path, config: dict[str, Any]) -> Iterator[tuple[str, Array]]:
    """Yield the samples of a numpy file with their names."""
    loaded = np.load(path, allow_pickle=False)
    if path.suffix.lower() == ".npz":
        names = loaded.files
        if "x" not in names and len(names) != 1:
            raise ValueError(f"it holds the arrays {', '.join(names)}; call the inputs x")
        loaded = loaded["x" if "x" in names else names[0]]
    shape = tuple(config["input_shape"])
    if loaded.ndim == 0 or loaded.shape[1:] != shape or loaded.dtype.kind not in "fiub":
        expected = ", ".join(map(str, ("samples", *shape)))
        raise ValueError(
            f"it holds {loaded.dtype} of the shape {loaded.shape}; expected numbers ({expected})"
        )
    for number, values in enumerate(loaded):
        if not np.isfinite(values).all():
            raise ValueError(f"sample {number} has a NaN or an infinite value")
        yield f"{path}:{number}", normalise(values, config)


def normalise(values: Array, config: dict[str, Any]) -> Array:
    """Subtract the mean of each feature or channel of a sample, and divide by its deviation."""
    shape = (-1,) + (1,) * (values.ndim - 1)
    mean = np.asarray(config["mean"], dtype=np.float64).reshape(shape)
    std = np.asarray(config["std"], dtype=np.float64).reshape(shape)
    return (values - mean) / std


def read_number_rows(path: Path, config: dict[str, Any]) -> Iterator[tuple[str, Array]]:
    """Yield the rows of a CSV file of numbers with their names. A header line is skipped."""
    columns = config["input_shape"][0]
    with path.open(newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            try:
                values = np.asarray(row, dtype=np.float64)
            except ValueError:
                if number == 1:
                    continue
                raise
            if len(values) != columns:
                raise ValueError(f"row {number} has {len(values)} columns, not {columns}")
            yield f"{path}:{number}", normalise(values, config)


def read_samples(
    path: Path, config: dict[str, Any], unreadable: list[Path]
) -> Iterator[tuple[str, Array]]:
    """Yield every sample in a file or folder with its name.

    Args:
        path: A file, or a folder that is searched for images or for numpy files.
        config: The content of config.json.
        unreadable: Files that cannot be read, or not completely, are added to this list.
    """
    if not path.is_dir():
        yield from read_file(path, config, unreadable)
        return
    files = find_files(path, config)
    if not files:
        message = f"{path}: this folder has no files that the network reads"
        if config["table"]:
            message = f"{path}: this is a folder; name CSV files"
        print(make_printable(message), file=sys.stderr)
    for file in files:
        yield from read_file(file, config, unreadable)


def find_files(folder: Path, config: dict[str, Any]) -> list[Path]:
    """Return the images or numpy files in a folder and its subfolders; no files for a table."""
    if config["table"]:
        return []
    suffixes = ARRAY_SUFFIXES if config.get("reads_arrays") else list_image_suffixes()
    files = []
    for file in sorted(folder.rglob("*")):
        if file.suffix.lower() in suffixes and file.is_file():
            files.append(file)
    return files


def list_image_suffixes() -> set[str]:
    """Return the endings of the names of images, such as .png."""
    from PIL import Image

    suffixes = Image.registered_extensions()
    return {suffix for suffix, name in suffixes.items() if name in IMAGE_FORMATS}


def reads_images(config: dict[str, Any]) -> bool:
    """Return whether the inputs of the network are images, not arrays or rows of a table."""
    is_image = len(config["input_shape"]) == 3
    return is_image and not config["table"] and not config.get("reads_arrays")


def read_file(
    path: Path, config: dict[str, Any], unreadable: list[Path]
) -> Iterator[tuple[str, Array]]:
    """Yield the samples of one file; a file that cannot be read is reported and skipped."""
    try:
        if config["table"]:
            from table import read_encoded_rows

            left_out: list[str] = []
            yield from read_encoded_rows(path, left_out)
            if left_out:
                unreadable.append(path)
        elif config.get("reads_arrays") and path.suffix.lower() in ARRAY_SUFFIXES:
            yield from read_arrays(path, config)
        elif len(config["input_shape"]) == 1:
            yield from read_number_rows(path, config)
        elif config.get("reads_arrays"):
            raise ValueError("this network reads arrays; save them with numpy.save as .npy")
        else:
            yield str(path), read_image(path, config)
    except Exception as error:
        # Decoders raise exceptions of any type for damaged files.
        print(make_printable(f"{path}: cannot be read: {error}"), file=sys.stderr)
        unreadable.append(path)


def make_printable(text: str) -> str:
    """Replace characters that control a terminal, such as those that move its cursor."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def compute_probabilities(outputs: Array) -> Array:
    """Return the softmax over the classes; for a single output, the probabilities of no and yes."""
    if outputs.shape[-1] == 1:
        yes = np.exp(-np.logaddexp(0, -outputs))
        return np.concatenate([1 - yes, yes], -1)
    exponentials = np.exp(outputs - outputs.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def format_predictions(outputs: Array, config: dict[str, Any], top: int) -> list[list[str]]:
    """Return the predictions of each sample.

    Depending on the network, these are the most probable classes with their probabilities, the
    probability of a binary label, or a number in the unit of the label.
    """
    target = config.get("target")
    if target:
        numbers = outputs.astype(np.float64) * target["std"] + target["mean"]
        predictions = []
        for row in numbers:
            texts = [f"{number:.6g}" for number in row]
            predictions.append([f"{target['name']} {' '.join(texts)}"])
        return predictions
    rows = compute_probabilities(outputs)
    return [format_probabilities(row, config, top) for row in rows]


def format_probabilities(probabilities: Array, config: dict[str, Any], top: int) -> list[str]:
    """Return the most probable classes with their probabilities, or that of a binary label."""
    if config["table"] and config.get("loss") == "bce":
        return [f"{config['table']['label']} {probabilities[1]:.6f}"]
    best = np.argsort(-probabilities)[:top]
    return [f"{config['classes'][index]} {probabilities[index]:.4f}" for index in best]


def parse_arguments(config: dict[str, Any]) -> argparse.Namespace:
    """Read the command line, whose help suits the network."""
    description = (__doc__ or "").partition("\n")[0]
    files = "images, numpy files, CSV files, or folders"
    if config["table"]:
        label = config["table"]["label"]
        description = f"Predict {label} for each row of a CSV file: python predict.py rows.csv"
        files = "CSV files whose first line names the columns"
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("paths", nargs="+", type=Path, help=files)
    top_help = "how many classes to print per sample"
    if config.get("target") or config.get("loss") == "bce":
        # There are no classes. The option stays, so that one command suits every network.
        top_help = argparse.SUPPRESS
    parser.add_argument("--top", type=int, default=1, help=top_help)
    parser.add_argument("--runtime", choices=("auto", "onnx", "torch"), default="auto")
    return parser.parse_args()


def main() -> int:
    """Print one line per sample and return the exit code."""
    config = json.loads((HERE / "config.json").read_text(encoding="utf-8"))
    arguments = parse_arguments(config)
    # model.py and table.py are beside this file.
    sys.path.insert(0, str(HERE))
    try:
        if reads_images(config):
            check_pillow()
        run_network = load_network(arguments.runtime)
    except ModuleNotFoundError as error:
        message = describe_missing_package(error.name or "", arguments.runtime)
        if not message:
            raise
        print(message, file=sys.stderr)
        return 1
    sample_count = 0
    unreadable: list[Path] = []
    for path in arguments.paths:
        samples = read_samples(path, config, unreadable)
        while batch := list(islice(samples, BATCH_SIZE)):
            inputs = np.stack([values for _, values in batch]).astype(np.float32)
            predictions = format_predictions(run_network(inputs), config, arguments.top)
            for (name, _), prediction in zip(batch, predictions, strict=True):
                columns = [name, *prediction]
                print(*map(make_printable, columns), sep="\t")
            sample_count += len(batch)
    return 1 if unreadable or not sample_count else 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        # End quietly when a reader such as `head` closes the pipe.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
