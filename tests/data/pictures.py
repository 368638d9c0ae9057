"""Folders of pictures: good ones that are known pixel by pixel, and whatever else turns up in a folder of one's own."""

import struct
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from tests.conftest import shared

SIDE = 32


def pixels(*seed: int, side: int = SIDE) -> np.ndarray:
    """(side, side, 3) random bytes."""
    return np.random.default_rng(seed).integers(256, size=(side, side, 3), dtype=np.uint8)


def save(path: Path, array: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)
    return path


def write_good(root: Path, counts: dict[str, int]) -> dict[str, np.ndarray]:
    """So many PNG files in each class, `cats/0.png` up; by name, their pixels."""
    known = {
        f"{kind}/{k}.png": pixels(place, k)
        for place, (kind, n) in enumerate(counts.items())
        for k in range(n)
    }
    for name, array in known.items():
        save(root / name, array)
    return known


def flat(*colour: int, side: int = SIDE) -> np.ndarray:
    return np.broadcast_to(np.array(colour, np.uint8), (side, side, len(colour))).copy()


def jpeg(array: np.ndarray, **options: object) -> bytes:
    file = BytesIO()
    Image.fromarray(array).save(file, "JPEG", quality=95, **options)
    return file.getvalue()


def bomb() -> bytes:
    """A few bytes that call themselves a PNG of 20,000 by 20,000 pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", 20000, 20000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(99)))
        + chunk(b"IEND", b"")
    )


def write_bad(folder: Path) -> dict[str, str]:
    """Files that cannot be used, and those that can but ought to be looked at; by name, what the card must say."""
    big, png = jpeg(pixels(9, side=64)), save(folder / "whole.png", pixels(8)).read_bytes()
    damaged = bytearray(png)
    damaged[len(png) // 2] ^= 255
    contents = {
        "zero.png": b"",
        "zero.jpg": b"",
        "cut.jpg": big[: len(big) // 2],
        "cut.png": png[: len(png) // 2],
        "damaged.png": bytes(damaged),
        "text.jpg": b"this is no picture",
        "notes.txt": b"remember the milk",
        "Thumbs.db": bytes(range(256)),
        "bomb.png": bomb(),
        ".hidden.png": png,
        "misnamed.jpg": save(folder / "other.png", pixels(7)).read_bytes(),
        "misnamed.dat": jpeg(pixels(6)),
        "twin.png": png,
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "other.png").unlink()
    (folder / "gone.png").symlink_to(folder / "nowhere.png")
    Image.fromarray(np.linspace(0, 1, 1024, dtype=np.float32).reshape(32, 32)).save(
        folder / "float.tiff"
    )
    return {
        "zero.png": "zero bytes",
        "zero.jpg": "zero bytes",
        "cut.jpg": "truncated",
        "cut.png": "truncated",
        "damaged.png": "unreadable: ",
        "text.jpg": "not an image",
        "notes.txt": "not an image",
        "Thumbs.db": "not an image",
        "bomb.png": "too large, perhaps a decompression bomb: more than 178,956,970 pixels",
        ".hidden.png": "hidden, so not used",
        "misnamed.jpg": "used, but it is a PNG file, and its name ends in .jpg",
        "misnamed.dat": "used, but it is a JPEG file, and its name ends in .dat",
        "whole.png": "used, but it is the same picture as ",
        "gone.png": "a link that leads nowhere",
        "float.tiff": "pixels of 32 bits, whose scale is not known",
    }


def write_odd(folder: Path) -> dict[str, np.ndarray]:
    """Pictures of every kind that networks can look at; by name, the pixels that they must see (as far as JPEG can)."""
    folder.mkdir(parents=True, exist_ok=True)
    red, blue, white = (255, 0, 0), (0, 0, 255), (255, 255, 255)
    left_red = np.concatenate(
        [flat(*red)[:, :16], flat(*blue)[:, :16]], 1
    )  # red on the left, blue on the right
    steep = np.arange(1024, dtype=np.uint32).reshape(32, 32) * 64  # 16 bits, up to 65,472

    save(folder / "grey.png", pixels(1)[..., 0])
    Image.fromarray(steep.astype(np.uint16)).save(folder / "grey16.png")
    Image.fromarray(left_red).quantize(8).save(folder / "palette.png")
    clear = Image.fromarray(np.repeat(np.eye(2, dtype=np.uint8), (16, 16), 0).repeat((16, 16), 1))
    clear.putpalette([*red, *blue])
    clear.save(folder / "palette_clear.png", transparency=0)  # red is where nothing is
    clear.save(
        folder / "frames.gif",
        save_all=True,
        append_images=[Image.new("RGB", (32, 32), "green")],
        transparency=0,
    )
    Image.new("CMYK", (32, 32), (0, 255, 255, 0)).save(folder / "cmyk.jpg", quality=95)
    exif = Image.Exif()
    exif[0x0112] = (
        6  # to be turned clockwise by a quarter: what is on the left was taken at the top
    )
    (folder / "turned.jpg").write_bytes(jpeg(left_red, exif=exif))
    half = np.concatenate(
        [pixels(2), np.full((32, 32, 1), 51, np.uint8)], 2
    )  # a fifth of the colour is left
    save(folder / "alpha.png", half)
    save(folder / "UPPER.PNG", pixels(3))
    save(folder / "çà 🐱.png", pixels(4))
    save(folder / "deep" / "er" / "nested.png", pixels(5))
    save(folder.parent.parent / "elsewhere.png", pixels(10))
    (folder / "linked.png").symlink_to(folder.parent.parent / "elsewhere.png")
    (folder / "deep" / "loop").symlink_to(folder / "deep")
    turned = np.concatenate([flat(*red)[:16], flat(*blue)[:16]])
    see_through = np.where(
        np.eye(2).repeat(16, 0).repeat(16, 1)[..., None] == 1, blue, white
    ).astype(np.uint8)
    return {
        "grey.png": pixels(1)[..., :1].repeat(3, 2),
        "grey16.png": (steep[..., None] / 257).round().repeat(3, 2).astype(np.uint8),
        "palette.png": left_red,
        "palette_clear.png": see_through,
        "frames.gif": see_through,
        "cmyk.jpg": flat(*red),
        "turned.jpg": turned,
        "alpha.png": (0.2 * half[..., :3] + 0.8 * 255).round().astype(np.uint8),
        "UPPER.PNG": pixels(3),
        "çà 🐱.png": pixels(4),
        "deep/er/nested.png": pixels(5),
        "linked.png": pixels(10),
    }


def write_fashion(root: Path, each: int) -> int:
    """So many pictures of each class of Fashion-MNIST, grey and 28 pixels a side; how many in all."""
    with np.load(shared("data", "fashion_mnist", "fashion_mnist_10k_2k.npz")) as archive:
        x, y = archive["x_train"], archive["y_train"]
    for label in range(10):
        for k, image in enumerate(x[y == label][:each]):
            save(root / f"class {label}" / f"{k}.png", image)
    return 10 * each


def alike(name: str, seen: np.ndarray, expected: np.ndarray) -> bool:
    """Whether a picture of `write_odd` was read rightly: JPEG blurs edges between colours, and alpha is rounded."""
    off = np.abs(seen.astype(int) - expected)
    return bool(
        (off > 8).mean() < 0.1
        if name.endswith(".jpg")
        else off.max() <= (1 if name == "alpha.png" else 0)
    )
