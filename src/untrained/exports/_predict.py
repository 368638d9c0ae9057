"""Say what pictures show: python predict.py picture.png folder/ ...

For a network that reads a table: python predict.py rows.csv, with the columns that it learned from (table.py encodes
them) or, where it knows none, a row of numbers for each sample. Takes ONNX Runtime where it is installed, otherwise
torch; pictures need Pillow. Reads config.json beside this file.
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

import numpy as np

HERE = Path(__file__).resolve().parent
AT_ONCE = 64
ENDINGS = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm"}
# No PostScript, no drawings, nothing that starts a program or reads another file.
FORMATS = ("JPEG", "MPO", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM", "AVIF", "JPEG2000", "ICO")
Array = Any


def network(runtime: str) -> Callable[[Array], Array]:
    """The network as a function from inputs to outputs, both numpy arrays."""
    if runtime != "torch" and (HERE / "model.onnx").is_file():
        try:
            import onnxruntime

            session = onnxruntime.InferenceSession(str(HERE / "model.onnx"), providers=["CPUExecutionProvider"])
            return lambda inputs: session.run(None, {session.get_inputs()[0].name: inputs})[0]
        except ImportError:
            if runtime == "onnx":
                raise
    import torch
    from model import load

    loaded = load()
    with torch.no_grad():
        return lambda inputs: loaded(torch.from_numpy(inputs)).detach().numpy()


def picture(path: Path, config: dict[str, Any]) -> Array:
    """One picture as the network wants it: turned as its camera says, scaled until it covers the size, cut around its
    centre, normal by channel."""
    from PIL import Image, ImageOps

    channels, height, width = config["input_shape"]
    Image.init()
    formats = [name for name in FORMATS if name in Image.OPEN]
    with Image.open(path, formats=formats) as opened:
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith("I;16") or (image.mode == "I" and opened.format in ("PNG", "PPM")):
            scaled = (np.asarray(image).astype(np.uint32) * 255 + 32767) // 65535  # 16 bits to 8, which PIL would clip
            image = Image.fromarray(scaled.astype(np.uint8))
        elif image.mode in ("I", "F"):
            raise ValueError("pixels of 32 bits, whose scale is not known; save it with 8 or 16")
        if "A" in image.getbands() or "transparency" in image.info:
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        fitted = ImageOps.fit(image.convert("RGB"), (width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(fitted, dtype=np.float32) / 255
    if channels == 1:
        pixels = pixels.mean(2, keepdims=True)
    mean, std = (np.asarray(config[name], dtype=np.float32) for name in ("mean", "std"))
    return ((pixels - mean) / std).transpose(2, 0, 1)


def printable(text: str) -> str:
    """The text without characters that a terminal obeys, such as those that move its cursor."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def rows(path: Path, config: dict[str, Any]) -> Iterator[tuple[str, Array]]:
    """The rows of a CSV file; a first row of words is a heading."""
    columns = config["input_shape"][0]
    with path.open(newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            try:
                values = np.asarray(row, dtype=np.float32)
            except ValueError:
                if number == 1:
                    continue
                raise
            if len(values) != columns:
                raise ValueError(f"row {number} has {len(values)} columns, not {columns}")
            yield f"{path}:{number}", values


def samples(path: Path, config: dict[str, Any], refused: list[Path]) -> Iterator[tuple[str, Array]]:
    """Everything to predict in a file or folder, each with its name."""
    if path.is_dir():
        for below in sorted(p for p in path.rglob("*") if p.suffix.lower() in ENDINGS and p.is_file()):
            yield from attempt(below, config, refused)
    else:
        yield from attempt(path, config, refused)


def attempt(path: Path, config: dict[str, Any], refused: list[Path]) -> Iterator[tuple[str, Array]]:
    """The samples of one file; a file that cannot be read is told and passed over."""
    try:
        if config["table"]:
            from table import samples as encoded

            yield from encoded(path)
        elif len(config["input_shape"]) == 1:
            yield from rows(path, config)
        else:
            yield str(path), picture(path, config)
    except Exception as error:  # decoders raise anything on damaged files
        print(printable(f"{path}: cannot be read: {error}"), file=sys.stderr)
        refused.append(path)


def probabilities(outputs: Array) -> Array:
    """Softmax over the classes; for one output, the chance of no and of yes."""
    if outputs.shape[-1] == 1:
        yes = 1 / (1 + np.exp(-outputs))
        return np.concatenate([1 - yes, yes], -1)
    shifted = np.exp(outputs - outputs.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def told(chances: Array, config: dict[str, Any], top: int) -> list[str]:
    """The most likely classes; of a table, how likely its label is."""
    if config["table"]:
        return [f"{config['table']['label']} {chances[1]:.6f}"]
    return [f"{config['classes'][place]} {chances[place]:.4f}" for place in np.argsort(-chances)[:top]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, help="pictures, folders of pictures, or CSV files of rows")
    parser.add_argument("--top", type=int, default=1, help="how many classes to name")
    parser.add_argument("--runtime", choices=("auto", "onnx", "torch"), default="auto")
    asked = parser.parse_args()
    config = json.loads((HERE / "config.json").read_text(encoding="utf-8"))
    sys.path.insert(0, str(HERE))
    run, done, refused = network(asked.runtime), 0, list[Path]()
    for path in asked.paths:
        found = samples(path, config, refused)
        while some := list(islice(found, AT_ONCE)):
            outputs = run(np.stack([sample for _, sample in some]).astype(np.float32))
            for (name, _), chances in zip(some, probabilities(outputs), strict=True):
                print(*map(printable, (name, *told(chances, config, asked.top))), sep="\t")
            done += len(some)
    incomplete = config["table"] and refused  # of a table, rows that nobody sees missing
    return 1 if incomplete or not done else 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):  # whoever reads may stop, as `head` does: end like other programs
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
