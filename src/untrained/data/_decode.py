"""One picture of any kind, made into bytes of one size. A picture that cannot be read is a reason, never an exception.

Pictures are turned as their camera says, laid over white where they are transparent, scaled until they just cover the
wanted size (so the shorter side fits) and cut around their centre. Knows nothing of folders, classes or caches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

Pixels = NDArray[np.uint8]
# No PostScript, no drawings, nothing that starts a program or reads another file.
_FORMATS = "JPEG MPO PNG GIF BMP WEBP TIFF PPM AVIF JPEG2000 ICO".split()
_ORIENTATION = 0x0112
_SEE_THROUGH = ("RGBA", "LA", "PA")


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


def decoded(opened: Callable[[], Image.Image], name: str, shape: tuple[int, ...]) -> Seen | str:
    """The picture in a shape of (channels, height, width), or why there is none."""
    try:
        with opened() as image:
            return _seen(image, name, shape)
    except Exception as error:  # what decoders of a dozen formats raise on damaged files is anything
        return _reason(error)


def _seen(image: Image.Image, name: str, shape: tuple[int, ...]) -> Seen:
    channels, *size = shape
    (width, height), mode, kind = image.size, image.mode, image.format
    changes = ["the first picture of several"] if kind != "MPO" and getattr(image, "is_animated", False) else []
    image.draft(None, (2 * max(size), 2 * max(size)))  # a JPEG decoder can leave out what would be scaled away
    if image.getexif().get(_ORIENTATION, 1) != 1:
        image = ImageOps.exif_transpose(image)
        changes.append("turned as the camera says")
    colour, more = _in_colour(image, kind)
    fitted = np.asarray(ImageOps.fit(colour, (size[1], size[0]), Image.Resampling.BILINEAR))
    if channels == 1:
        fitted = fitted.mean(2, keepdims=True).round().astype(np.uint8)
    digest = blake2b(colour.tobytes(), digest_size=16, key=str(colour.size).encode()).digest()
    return Seen(fitted, width, height, mode, (*changes, *more), digest, _misnamed(kind, name))


def _in_colour(image: Image.Image, kind: str | None) -> tuple[Image.Image, list[str]]:
    """The picture in red, green and blue, and what was done to it."""
    changes = []
    if image.mode.startswith("I;16") or (image.mode == "I" and kind in ("PNG", "PPM")):
        scaled = (np.asarray(image).astype(np.uint32) * 255 + 32767) // 65535
        image = Image.fromarray(scaled.astype(np.uint8))
        changes.append("16 bits scaled to 8")
    elif image.mode in ("I", "F"):
        raise Unfit("pixels of 32 bits, whose scale is not known; save it with 8 or 16")
    if image.mode in ("1", "L", "LA"):
        changes.append("grey")
    elif image.mode != "RGB" and image.mode != "RGBA":
        changes.append({"P": "palette", "PA": "palette"}.get(image.mode, image.mode))
    if image.mode in _SEE_THROUGH or "transparency" in image.info:
        changes.append("transparency laid over white")
        clear = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
    return image.convert("RGB"), changes


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
