"""Decoding one image: every kind is converted correctly and scaled to the requested size."""

from functools import partial
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.data.pictures import (
    encode_jpeg,
    is_read_correctly,
    make_flat_image,
    make_pixels,
    save_image,
    write_bad_files,
    write_odd_images,
)
from untrained.data.pictures import decode as _decode
from untrained.data.pictures.decode import DecodedImage, decode_image, open_image_file


@pytest.fixture(scope="module")
def odd(tmp_path_factory) -> tuple[Path, dict[str, np.ndarray]]:
    """The folder of `write_odd_images`, and the expected pixels by name."""
    folder = tmp_path_factory.mktemp("odd") / "photos" / "cats"
    return folder, write_odd_images(folder)


def decode(path: Path, *shape: int) -> DecodedImage:
    """Decode an image file that must be readable."""
    image = decode_image(partial(open_image_file, path), path.name, shape or (3, 32, 32))
    assert isinstance(image, DecodedImage), image
    return image


def decode_bad_file(path: Path) -> str:
    """Decode a file that must not be readable; return the reason."""
    reason = decode_image(partial(open_image_file, path), path.name, (3, 8, 8))
    assert isinstance(reason, str), reason
    return reason


KINDS = """
grey.png grey16.png palette.png palette_clear.png frames.gif cmyk.jpg turned.jpg alpha.png UPPER.PNG deep/er/nested.png
linked.png
""".split()


@pytest.mark.parametrize("name", [*KINDS, "çà 🐱.png"])
def test_an_image_of_any_kind_is_decoded_correctly(odd, name):
    folder, expected = odd
    assert set(expected) == {*KINDS, "çà 🐱.png"}
    assert is_read_correctly(name, decode(folder / name).pixels, expected[name])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("grey.png", {"grey"}),
        ("grey16.png", {"16 bits scaled to 8", "grey"}),
        ("palette.png", {"palette"}),
        ("palette_clear.png", {"palette", "transparency put on white"}),
        ("frames.gif", {"palette", "transparency put on white", "the first picture of several"}),
        ("cmyk.jpg", {"CMYK"}),
        ("turned.jpg", {"rotated as its EXIF data say"}),
        ("alpha.png", {"transparency put on white"}),
        ("UPPER.PNG", set()),
    ],
)
def test_conversions_of_an_image_are_listed(odd, name, changes):
    assert set(decode(odd[0] / name).changes) == changes


def test_a_bad_file_gives_a_reason_instead_of_an_exception(tmp_path, recwarn):
    expected = write_bad_files(tmp_path)
    for name in set(expected) - {".hidden.png", "misnamed.jpg", "misnamed.dat", "whole.png"}:
        assert decode_bad_file(tmp_path / name).startswith(expected[name]), name
    assert decode(tmp_path / "misnamed.jpg").remark == expected["misnamed.jpg"]
    assert decode(tmp_path / "whole.png").remark == ""
    assert decode_bad_file(tmp_path / "none.png") == "there is no such file"


def test_the_shorter_side_is_scaled_and_the_centre_is_cropped(tmp_path):
    """The colour of a column is its number.

    An image that is twice as wide as requested loses a quarter on each side.
    """
    columns = np.arange(64, dtype=np.uint8)[None, :, None].repeat(32, 0).repeat(3, 2)
    wide = save_image(tmp_path / "wide.png", columns)
    tall = save_image(tmp_path / "tall.png", columns.transpose(1, 0, 2))
    assert np.array_equal(decode(wide).pixels, columns[:, 16:48])
    assert np.array_equal(decode(tall).pixels, columns.transpose(1, 0, 2)[16:48])
    # In this shape nothing is cropped, and the image is scaled by a half.
    assert np.abs(decode(wide, 3, 16, 32).pixels[:, :, 0] - np.arange(0.5, 64, 2)).max() <= 1
    assert (decode(tall).width, decode(tall).height) == (32, 64)


def test_scaling_down_averages_pixels(tmp_path):
    """Black and white stripes of one pixel each become grey."""
    stripes = make_flat_image(0, 0, 0, side=256)
    stripes[:, ::2] = 255
    assert (
        np.abs(
            decode(save_image(tmp_path / "stripes.png", stripes)).pixels[:, 1:-1].astype(int)
            - 127.5
        ).max()
        < 6
    )


def test_a_grey_image_is_the_average_of_the_colours(tmp_path):
    grey = decode(save_image(tmp_path / "a.png", make_pixels(0)), 1, 32, 32).pixels
    assert grey.shape == (32, 32, 1)
    assert np.array_equal(grey[..., 0], make_pixels(0).astype(float).mean(2).round())


def test_a_truncated_jpeg_is_noticed_also_if_it_is_decoded_at_a_lower_resolution(tmp_path):
    smooth = np.linspace(0, 255, 1024)[:, None, None].repeat(1024, 1).repeat(3, 2).astype(np.uint8)
    whole = encode_jpeg(smooth)
    (tmp_path / "whole.jpg").write_bytes(whole)
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    rows = decode(tmp_path / "whole.jpg").pixels[:, 16, 0].astype(float)
    assert np.abs(rows - np.linspace(0, 255, 1024).reshape(32, 32).mean(1)).max() < 3
    assert decode(tmp_path / "whole.jpg").width == 1024
    assert str(
        decode_image(partial(open_image_file, tmp_path / "cut.jpg"), "cut.jpg", (3, 32, 32))
    ).startswith("truncated")


@pytest.mark.parametrize("name", [*KINDS, "\u00e7\u00e0 \U0001f431.png"])
def test_conversion_in_strips_gives_the_same_image(odd, name, monkeypatch):
    whole = decode(odd[0] / name, 3, 20, 20)
    monkeypatch.setattr(_decode, "_STRIP_PIXELS", 5 * 32)
    strips = decode(odd[0] / name, 3, 20, 20)
    assert np.array_equal(strips.pixels, whole.pixels)
    assert (strips.digest, strips.changes) == (whole.digest, whole.changes)


def test_the_number_of_pixels_decoded_at_the_same_time_is_limited(tmp_path, monkeypatch):
    """Eight threads, a limit of three images of 64x64 pixels, and some images above the limit."""
    from untrained.data.pictures import cache as _cache
    from untrained.data.pictures.listing import ImageFile

    monkeypatch.setattr(_decode, "_PIXELS_AT_ONCE", 3 * 64 * 64, raising=False)
    monkeypatch.setattr(_cache.os, "cpu_count", lambda: 8)
    in_flight: list[int] = []
    pixel_counts: list[int] = []
    image_counts: list[int] = []
    fit = ImageOps.fit

    def fit_and_count(image, *options):
        in_flight.append(image.width * image.height)
        pixel_counts.append(sum(in_flight))
        image_counts.append(len(in_flight))
        sleep(0.02)  # so that other threads could start
        in_flight.remove(image.width * image.height)
        return fit(image, *options)

    monkeypatch.setattr(_decode.ImageOps, "fit", fit_and_count)
    entries = []
    for k in range(24):
        side = 128 if k % 8 == 0 else 64
        path = save_image(tmp_path / f"{k}.png", make_pixels(k, side=side))
        entries.append(ImageFile(path.name, "cats", "train", "", partial(open_image_file, path)))
    for _, image in _cache._decode_in_threads(entries, (3, 8, 8)):
        assert isinstance(image, DecodedImage)
    assert max(pixel_counts) <= 128 * 128  # a large one alone, or three small ones
    assert max(image_counts) > 1


def test_sixteen_bit_values_are_scaled_and_not_clipped(tmp_path):
    values = np.array([[0, 257, 32768, 65535]], np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    assert decode(tmp_path / "a.png", 3, 1, 4).pixels[0, :, 0].tolist() == [
        0,
        1,
        128,
        255,
    ]  # v / 257


def test_the_digest_depends_on_pixels_and_shape_and_not_on_the_file_format(tmp_path):
    one, two, other = (
        save_image(tmp_path / name, make_pixels(k))
        for name, k in (("a.png", 0), ("b.bmp", 0), ("c.png", 1))
    )
    assert decode(one).digest == decode(two).digest != decode(other).digest
    tall, wide = (
        save_image(tmp_path / f"{h}.png", np.zeros((h, 8 * 8 // h, 3), np.uint8)) for h in (4, 16)
    )
    assert decode(tall).digest != decode(wide).digest
