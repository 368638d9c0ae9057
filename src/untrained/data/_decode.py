"""One picture of any kind, made into bytes of one size. A picture that cannot be read is a reason, never an exception.

Pictures are turned as their camera says, laid over white where they are transparent, scaled until they just cover the
wanted size (so the shorter side fits) and cut around their centre. Knows nothing of folders, classes or caches.
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
# No PostScript, no drawings, nothing that starts a program or reads another file.
_FORMATS = "JPEG MPO PNG GIF BMP WEBP TIFF PPM AVIF JPEG2000 ICO".split()
_ORIENTATION = 0x0112
_SEE_THROUGH = ("RGBA", "LA", "PA")
_PIXELS_AT_ONCE = 1 << 27  # in all pictures that are decoded at the same moment; about 1 GB
_STRIP_PIXELS = 1 << 22  # large pictures are converted piece by piece, so that there are never several copies of them


class Unfit(Exception):  # noqa: N818 - it names a state of a picture, not a mistake of a caller
    """This picture cannot be used, for a reason that the card tells."""


@dataclass(frozen=True)
class Seen:
    """A picture that could be read: its pixels as wanted, and what it was before."""

    pixels: Pixels
    width: int
    height: int
    mode: str
    changes: tuple[str, ...]
    digest: bytes  # of all its pixels: equal for pictures that look the same
    remark: str


def open_file(path: Path) -> Image.Image:
    if not path.is_file():
        raise Unfit("a link that leads nowhere" if path.is_symlink() else "there is no such file")
    if path.stat().st_size == 0:
        raise Unfit("zero bytes")
    return Image.open(path, formats=_formats())


def open_bytes(content: bytes) -> Image.Image:
    return Image.open(BytesIO(content), formats=_formats())


class _PixelLimit:
    """Lets threads wait until the pictures that are decoded at the same time are few or small enough."""

    def __init__(self) -> None:
        self._pixels = 0
        self._changed = Condition()

    @contextmanager
    def hold(self, pixels: int) -> Iterator[None]:
        with self._changed:
            # A picture that is larger than the limit is decoded while there is no other.
            self._changed.wait_for(lambda: self._pixels == 0 or self._pixels + pixels <= _PIXELS_AT_ONCE)
            self._pixels += pixels
        try:
            yield
        finally:
            with self._changed:
                self._pixels -= pixels
                self._changed.notify_all()


_limit = _PixelLimit()


def decoded(opened: Callable[[], Image.Image], name: str, shape: tuple[int, ...]) -> Seen | str:
    """The picture in a shape of (channels, height, width), or why there is none."""
    try:
        with opened() as image:
            return _seen(image, name, shape)
    except Exception as error:  # what decoders of a dozen formats raise on damaged files is anything
        return _reason(error)


def _seen(image: Image.Image, name: str, shape: tuple[int, ...]) -> Seen:
    channels, *size = shape
    width, height = image.size
    mode = image.mode
    kind = image.format
    changes = []
    if kind != "MPO" and getattr(image, "is_animated", False):
        changes.append("the first picture of several")
    image.draft(None, (2 * max(size), 2 * max(size)))  # a JPEG decoder can leave out what would be scaled away
    with _limit.hold(image.width * image.height), closing(image):  # its pixels are gone before the next one begins
        if image.getexif().get(_ORIENTATION, 1) != 1:
            image = ImageOps.exif_transpose(image)
            changes.append("turned as the camera says")
        changes += _describe_changes(image, kind)
        colour = _convert_to_rgb(image, kind)
        fitted = np.asarray(ImageOps.fit(colour, (size[1], size[0]), Image.Resampling.BILINEAR))
        digest = _hash_pixels(colour)
    if channels == 1:
        fitted = fitted.mean(2, keepdims=True).round().astype(np.uint8)
    return Seen(fitted, width, height, mode, tuple(changes), digest, _misnamed(kind, name))


def _has_16_bits(image: Image.Image, kind: str | None) -> bool:
    return image.mode.startswith("I;16") or (image.mode == "I" and kind in ("PNG", "PPM"))


def _is_see_through(image: Image.Image) -> bool:
    return image.mode in _SEE_THROUGH or "transparency" in image.info


def _describe_changes(image: Image.Image, kind: str | None) -> list[str]:
    """Return what is done to a picture to make it red, green and blue.

    Raises:
        Unfit: Nobody knows what its numbers mean.
    """
    changes = []
    mode = image.mode
    see_through = _is_see_through(image)
    if _has_16_bits(image, kind):
        changes.append("16 bits scaled to 8")
        mode = "L"
        see_through = False
    elif mode in ("I", "F"):
        raise Unfit("pixels of 32 bits, whose scale is not known; save it with 8 or 16")
    if mode in ("1", "L", "LA"):
        changes.append("grey")
    elif mode in ("P", "PA"):
        changes.append("palette")
    elif mode not in ("RGB", "RGBA"):
        changes.append(mode)
    if see_through:
        changes.append("transparency laid over white")
    return changes


def _convert_to_rgb(image: Image.Image, kind: str | None) -> Image.Image:
    """Convert a picture to red, green and blue, strip by strip."""
    if image.mode == "RGB" and not _is_see_through(image):
        image.load()
        return image
    colour = Image.new("RGB", image.size)
    for box, strip in _cut_strips(image):
        if _has_16_bits(image, kind):
            scaled = (np.asarray(strip).astype(np.uint32) * 255 + 32767) // 65535
            strip = Image.fromarray(scaled.astype(np.uint8))
        if _is_see_through(strip):
            clear = strip.convert("RGBA")
            strip = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
        colour.paste(strip.convert("RGB"), box)
    return colour


def _hash_pixels(image: Image.Image) -> bytes:
    digest = blake2b(digest_size=16, key=str(image.size).encode())
    for _, strip in _cut_strips(image):
        digest.update(strip.tobytes())
    return digest.digest()


def _cut_strips(image: Image.Image) -> Iterator[tuple[tuple[int, int, int, int], Image.Image]]:
    """Cut a picture into strips of whole rows, each with its box (left, top, right, bottom). A small one is one."""
    rows = max(1, _STRIP_PIXELS // image.width)
    for top in range(0, image.height, rows):
        box = (0, top, image.width, min(top + rows, image.height))
        yield box, image if rows >= image.height else image.crop(box)


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _misnamed(kind: str | None, name: str) -> str:
    """What to say of a picture whose name ends as if it were something else."""
    ending = PurePath(name).suffix
    told = "JPEG" if kind == "MPO" else kind
    if not ending or kind is None or Image.registered_extensions().get(ending.lower()) == told:
        return ""
    return f"used, but it is a {told} file, and its name ends in {ending}"


def _reason(error: Exception) -> str:
    said = " ".join(str(error).split())
    if isinstance(error, Unfit):
        return said
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, Image.DecompressionBombError):
        return f"too large, perhaps a decompression bomb: more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels"
    if isinstance(error, PermissionError):
        return "may not be read by you"
    if isinstance(error, EOFError) or "truncated" in said:
        return f"truncated: {said}" if said else "truncated"
    return f"unreadable: {type(error).__name__}: {said}"
