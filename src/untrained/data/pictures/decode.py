"""Decode one picture of any format to bytes of one size.

Pictures are rotated by their EXIF orientation, put on a white background if they are transparent,
scaled to cover the target size, and cropped around their centre. For a picture that cannot be
decoded, the reason is returned; no exception is raised.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from io import BytesIO
from pathlib import Path, PurePath
from threading import Condition

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

Pixels = NDArray[np.uint8]
# No PostScript and no vector graphics: nothing that starts a program or reads another file.
_FORMATS = "JPEG MPO PNG GIF BMP WEBP TIFF PPM AVIF JPEG2000 ICO".split()
_ORIENTATION_TAG = 0x0112  # of EXIF
_TRANSPARENT_MODES = ("RGBA", "LA", "PA")
# Largest number of pixels that are decoded at the same time; they take about 1 GB.
_PIXELS_AT_ONCE = 1 << 27
# Large pictures are converted in strips, to avoid several copies of a whole picture.
_STRIP_PIXELS = 1 << 22


class UnusablePictureError(Exception):
    """A picture cannot be used; the message is the reason that the card shows."""


@dataclass(frozen=True)
class DecodedImage:
    """A picture that could be decoded.

    Attributes:
        pixels: Pixels of the target size (H, W, C).
        width: Width of the original picture in pixels.
        height: Height of the original picture in pixels.
        mode: Colour mode of the file.
        changes: How the picture was changed.
        digest: Digest of the decoded pixels; equal for pictures with identical pixels.
        remark: A remark about the file for the user; usually empty.
    """

    pixels: Pixels
    width: int
    height: int
    mode: str
    changes: tuple[str, ...]
    digest: bytes
    remark: str


def open_image_file(path: Path) -> Image.Image:
    """Open a picture file without decoding it.

    Raises:
        UnusablePictureError: There is no such file, or it is empty.
    """
    if path.is_symlink() and not path.is_file():
        raise UnusablePictureError("a broken link")
    if not path.is_file():
        raise UnusablePictureError("there is no such file")
    if path.stat().st_size == 0:
        raise UnusablePictureError("zero bytes")
    return Image.open(path, formats=_list_formats())


def open_image_bytes(content: bytes) -> Image.Image:
    """Open a picture in memory without decoding it."""
    return Image.open(BytesIO(content), formats=_list_formats())


class _PixelLimit:
    """Makes threads wait while the pictures that are being decoded take too much memory."""

    def __init__(self) -> None:
        self._pixels = 0
        self._condition = Condition()

    @contextmanager
    def hold(self, pixels: int) -> Iterator[None]:
        """Wait until a picture of this size may be decoded; count its pixels during the block."""
        with self._condition:
            # A picture that is larger than the limit is decoded alone.
            self._condition.wait_for(
                lambda: self._pixels == 0 or self._pixels + pixels <= _PIXELS_AT_ONCE
            )
            self._pixels += pixels
        try:
            yield
        finally:
            with self._condition:
                self._pixels -= pixels
                self._condition.notify_all()


_limit = _PixelLimit()


def decode_image(
    open_image: Callable[[], Image.Image], name: str, shape: tuple[int, ...]
) -> DecodedImage | str:
    """Decode a picture.

    Args:
        open_image: Function that opens it.
        name: Name of the file; its ending is compared with the format.
        shape: Target channels, height and width.

    Returns:
        The picture, or the reason why it cannot be used.
    """
    try:
        with open_image() as image:
            return _decode_opened(image, name, shape)
    except Exception as error:
        # The decoders of a dozen formats raise many types of errors on damaged files.
        return _explain_error(error)


def _decode_opened(image: Image.Image, name: str, shape: tuple[int, ...]) -> DecodedImage:
    channels, target_height, target_width = shape
    width, height = image.size
    mode = image.mode
    file_format = image.format
    changes = []
    if file_format != "MPO" and getattr(image, "is_animated", False):
        changes.append("the first picture of several")
    # A JPEG decoder can skip details that would be scaled away anyway.
    draft_side = 2 * max(target_height, target_width)
    image.draft(None, (draft_side, draft_side))
    # `closing` frees the pixels before the next picture is decoded.
    with _limit.hold(image.width * image.height), closing(image):
        if image.getexif().get(_ORIENTATION_TAG, 1) != 1:
            image = ImageOps.exif_transpose(image)
            changes.append("rotated as its EXIF data say")
        changes += _describe_changes(image, file_format)
        rgb_image = _convert_to_rgb(image, file_format)
        size = (target_width, target_height)
        pixels = np.asarray(ImageOps.fit(rgb_image, size, Image.Resampling.BILINEAR))
        digest = _hash_pixels(rgb_image)
    if channels == 1:
        pixels = pixels.mean(2, keepdims=True).round().astype(np.uint8)
    remark = _check_ending(file_format, name)
    return DecodedImage(pixels, width, height, mode, tuple(changes), digest, remark)


def _has_16_bits(image: Image.Image, file_format: str | None) -> bool:
    return image.mode.startswith("I;16") or (image.mode == "I" and file_format in ("PNG", "PPM"))


def _is_transparent(image: Image.Image) -> bool:
    return image.mode in _TRANSPARENT_MODES or "transparency" in image.info


def _describe_changes(image: Image.Image, file_format: str | None) -> list[str]:
    """Return how a picture must be changed to become an RGB picture of 8 bits per channel.

    Raises:
        UnusablePictureError: The scale of its numbers is unknown.
    """
    changes = []
    mode = image.mode
    is_transparent = _is_transparent(image)
    if _has_16_bits(image, file_format):
        changes.append("16 bits scaled to 8")
        mode = "L"
        is_transparent = False
    elif mode in ("I", "F"):
        raise UnusablePictureError("32-bit pixels of unknown scale; save it with 8 or 16 bits")
    if mode in ("1", "L", "LA"):
        changes.append("grey")
    elif mode in ("P", "PA"):
        changes.append("palette")
    elif mode not in ("RGB", "RGBA"):
        changes.append(mode)
    if is_transparent:
        changes.append("transparency put on white")
    return changes


def _convert_to_rgb(image: Image.Image, file_format: str | None) -> Image.Image:
    """Convert a picture to RGB, strip by strip."""
    if image.mode == "RGB" and not _is_transparent(image):
        image.load()
        return image
    rgb_image = Image.new("RGB", image.size)
    for box, strip in _cut_strips(image):
        if _has_16_bits(image, file_format):
            scaled = (np.asarray(strip).astype(np.uint32) * 255 + 32767) // 65535
            strip = Image.fromarray(scaled.astype(np.uint8))
        if _is_transparent(strip):
            transparent_strip = strip.convert("RGBA")
            white_strip = Image.new("RGBA", transparent_strip.size, "white")
            strip = Image.alpha_composite(white_strip, transparent_strip)
        rgb_image.paste(strip.convert("RGB"), box)
    return rgb_image


def _hash_pixels(image: Image.Image) -> bytes:
    digest = blake2b(digest_size=16, key=str(image.size).encode())
    for _, strip in _cut_strips(image):
        digest.update(strip.tobytes())
    return digest.digest()


def _cut_strips(image: Image.Image) -> Iterator[tuple[tuple[int, int, int, int], Image.Image]]:
    """Cut a picture into strips of whole rows; a small picture is one strip.

    Yields:
        The box of each strip (left, top, right, bottom) and the strip.
    """
    rows = max(1, _STRIP_PIXELS // image.width)
    for top in range(0, image.height, rows):
        box = (0, top, image.width, min(top + rows, image.height))
        if rows >= image.height:
            yield box, image
        else:
            yield box, image.crop(box)


@cache
def _list_formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _check_ending(file_format: str | None, name: str) -> str:
    """Return a remark if the name of a picture ends like that of another format."""
    ending = PurePath(name).suffix
    # MPO is JPEG with a second picture after the first one.
    shown_format = "JPEG" if file_format == "MPO" else file_format
    if not ending or shown_format is None:
        return ""
    if Image.registered_extensions().get(ending.lower()) == shown_format:
        return ""
    return f"used, but it is a {shown_format} file, and its name ends in {ending}"


def _explain_error(error: Exception) -> str:
    """Explain in a few words why a picture cannot be decoded."""
    message = " ".join(str(error).split())
    if isinstance(error, UnusablePictureError):
        return message
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, Image.DecompressionBombError):
        max_pixels = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        return f"too large, perhaps a decompression bomb: more than {max_pixels:,} pixels"
    if isinstance(error, PermissionError):
        return "you have no permission to read it"
    if isinstance(error, EOFError) or "truncated" in message:
        return f"truncated: {message}" if message else "truncated"
    return f"unreadable: {type(error).__name__}: {message}"
