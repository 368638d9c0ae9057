"""Folders of images: good ones with known pixels, and the odd and broken files that users have."""

import struct
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from tests.conftest import find_shared

SIDE = 32


def make_pixels(*seed: int, side: int = SIDE) -> np.ndarray:
    """Return random bytes of the shape (side, side, 3)."""
    return np.random.default_rng(seed).integers(256, size=(side, side, 3), dtype=np.uint8)


def save_image(path: Path, array: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)
    return path


def write_good_images(root: Path, counts: dict[str, int]) -> dict[str, np.ndarray]:
    """Write that many PNG files per class, such as `cats/0.png`; return the pixels by name."""
    pixels_by_name = {}
    for class_index, (class_name, count) in enumerate(counts.items()):
        for k in range(count):
            name = f"{class_name}/{k}.png"
            pixels_by_name[name] = make_pixels(class_index, k)
            save_image(root / name, pixels_by_name[name])
    return pixels_by_name


def make_flat_image(*colour: int, side: int = SIDE) -> np.ndarray:
    return np.broadcast_to(np.array(colour, np.uint8), (side, side, len(colour))).copy()


def encode_jpeg(array: np.ndarray, **options: object) -> bytes:
    file = BytesIO()
    Image.fromarray(array).save(file, "JPEG", quality=95, **options)
    return file.getvalue()


def make_bomb() -> bytes:
    """Return a small PNG file whose header claims 20,000 by 20,000 pixels."""

    def make_chunk(kind: bytes, content: bytes) -> bytes:
        length = struct.pack(">I", len(content))
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return length + kind + content + checksum

    signature = b"\x89PNG\r\n\x1a\n"
    header = make_chunk(b"IHDR", struct.pack(">IIBBBBB", 20000, 20000, 8, 2, 0, 0, 0))
    data = make_chunk(b"IDAT", zlib.compress(bytes(99)))
    return signature + header + data + make_chunk(b"IEND", b"")


def write_bad_files(folder: Path) -> dict[str, str]:
    """Write files that cannot be used, or that are used with a remark.

    Returns:
        The beginning of the expected reason on the card, by file name.
    """
    big = encode_jpeg(make_pixels(9, side=64))
    png = save_image(folder / "whole.png", make_pixels(8)).read_bytes()
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
        "bomb.png": make_bomb(),
        ".hidden.png": png,
        "misnamed.jpg": save_image(folder / "other.png", make_pixels(7)).read_bytes(),
        "misnamed.dat": encode_jpeg(make_pixels(6)),
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
        "gone.png": "a broken link",
        "float.tiff": "32-bit pixels of unknown scale",
    }


def write_odd_images(folder: Path) -> dict[str, np.ndarray]:
    """Write readable images of every kind.

    Returns:
        The expected RGB pixels by file name; those of JPEG files are approximate.
    """
    folder.mkdir(parents=True, exist_ok=True)
    red = (255, 0, 0)
    blue = (0, 0, 255)
    white = (255, 255, 255)
    # Red on the left, blue on the right.
    left_red = np.concatenate([make_flat_image(*red)[:, :16], make_flat_image(*blue)[:, :16]], 1)
    steep = np.arange(1024, dtype=np.uint32).reshape(32, 32) * 64  # 16 bits, up to 65,472

    save_image(folder / "grey.png", make_pixels(1)[..., 0])
    Image.fromarray(steep.astype(np.uint16)).save(folder / "grey16.png")
    Image.fromarray(left_red).quantize(8).save(folder / "palette.png")
    clear = Image.fromarray(np.repeat(np.eye(2, dtype=np.uint8), (16, 16), 0).repeat((16, 16), 1))
    clear.putpalette([*red, *blue])
    clear.save(folder / "palette_clear.png", transparency=0)  # red is transparent
    clear.save(
        folder / "frames.gif",
        save_all=True,
        append_images=[Image.new("RGB", (32, 32), "green")],
        transparency=0,
    )
    Image.new("CMYK", (32, 32), (0, 255, 255, 0)).save(folder / "cmyk.jpg", quality=95)
    exif = Image.Exif()
    # Orientation 6: the image must be rotated clockwise by 90 degrees, which moves left to top.
    exif[0x0112] = 6
    (folder / "turned.jpg").write_bytes(encode_jpeg(left_red, exif=exif))
    # Alpha is 51 of 255: a fifth of the colour remains.
    half = np.concatenate([make_pixels(2), np.full((32, 32, 1), 51, np.uint8)], 2)
    save_image(folder / "alpha.png", half)
    save_image(folder / "UPPER.PNG", make_pixels(3))
    save_image(folder / "çà 🐱.png", make_pixels(4))
    save_image(folder / "deep" / "er" / "nested.png", make_pixels(5))
    save_image(folder.parent.parent / "elsewhere.png", make_pixels(10))
    (folder / "linked.png").symlink_to(folder.parent.parent / "elsewhere.png")
    (folder / "deep" / "loop").symlink_to(folder / "deep")
    turned = np.concatenate([make_flat_image(*red)[:16], make_flat_image(*blue)[:16]])
    see_through = np.where(
        np.eye(2).repeat(16, 0).repeat(16, 1)[..., None] == 1, blue, white
    ).astype(np.uint8)
    return {
        "grey.png": make_pixels(1)[..., :1].repeat(3, 2),
        "grey16.png": (steep[..., None] / 257).round().repeat(3, 2).astype(np.uint8),
        "palette.png": left_red,
        "palette_clear.png": see_through,
        "frames.gif": see_through,
        "cmyk.jpg": make_flat_image(*red),
        "turned.jpg": turned,
        "alpha.png": (0.2 * half[..., :3] + 0.8 * 255).round().astype(np.uint8),
        "UPPER.PNG": make_pixels(3),
        "çà 🐱.png": make_pixels(4),
        "deep/er/nested.png": make_pixels(5),
        "linked.png": make_pixels(10),
    }


def write_fashion(root: Path, each: int) -> int:
    """Write `each` grey images of 28x28 pixels per class of Fashion-MNIST; return the total."""
    with np.load(find_shared("data", "fashion_mnist", "fashion_mnist_10k_2k.npz")) as archive:
        x = archive["x_train"]
        y = archive["y_train"]
    for label in range(10):
        for k, image in enumerate(x[y == label][:each]):
            save_image(root / f"class {label}" / f"{k}.png", image)
    return 10 * each


def is_read_correctly(name: str, image: np.ndarray, expected: np.ndarray) -> bool:
    """Return whether an image of `write_odd_images` has the expected pixels.

    JPEG blurs edges between colours, and alpha blending rounds.
    """
    difference = np.abs(image.astype(int) - expected)
    if name.endswith(".jpg"):
        return bool((difference > 8).mean() < 0.1)
    tolerance = 1 if name == "alpha.png" else 0
    return bool(difference.max() <= tolerance)
