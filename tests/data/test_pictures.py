"""One picture at a time: every kind is seen as it is meant, in the wanted size."""

from functools import partial
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.data.pictures import alike, flat, jpeg, pixels, save, write_bad, write_odd
from untrained.data.pictures import decode as _decode
from untrained.data.pictures.decode import DecodedImage, decode_image, open_image_file


@pytest.fixture(scope="module")
def odd(tmp_path_factory) -> tuple[Path, dict[str, np.ndarray]]:
    folder = tmp_path_factory.mktemp("odd") / "photos" / "cats"
    return folder, write_odd(folder)


def seen(path: Path, *shape: int) -> DecodedImage:
    found = decode_image(partial(open_image_file, path), path.name, shape or (3, 32, 32))
    assert isinstance(found, DecodedImage), found
    return found


KINDS = """
grey.png grey16.png palette.png palette_clear.png frames.gif cmyk.jpg turned.jpg alpha.png UPPER.PNG deep/er/nested.png
linked.png
""".split()


@pytest.mark.parametrize("name", [*KINDS, "çà 🐱.png"])
def test_a_picture_of_any_kind_is_seen_as_it_is_meant(odd, name):
    folder, expected = odd
    assert set(expected) == {*KINDS, "çà 🐱.png"}
    assert alike(name, seen(folder / name).pixels, expected[name])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("grey.png", {"grey"}),
        ("grey16.png", {"16 bits scaled to 8", "grey"}),
        ("palette.png", {"palette"}),
        ("palette_clear.png", {"palette", "transparency laid over white"}),
        ("frames.gif", {"palette", "transparency laid over white", "the first picture of several"}),
        ("cmyk.jpg", {"CMYK"}),
        ("turned.jpg", {"turned as the camera says"}),
        ("alpha.png", {"transparency laid over white"}),
        ("UPPER.PNG", set()),
    ],
)
def test_what_was_done_to_it_is_told(odd, name, changes):
    assert set(seen(odd[0] / name).changes) == changes


def test_bad_files_are_reasons_and_not_errors(tmp_path, recwarn):
    expected = write_bad(tmp_path)
    for name in set(expected) - {".hidden.png", "misnamed.jpg", "misnamed.dat", "whole.png"}:
        assert str(
            decode_image(partial(open_image_file, tmp_path / name), name, (3, 8, 8))
        ).startswith(expected[name]), name
    assert seen(tmp_path / "misnamed.jpg").remark == expected["misnamed.jpg"]
    assert seen(tmp_path / "whole.png").remark == ""
    assert (
        decode_image(partial(open_image_file, tmp_path / "none.png"), "none.png", (3, 8, 8))
        == "there is no such file"
    )


def test_the_shorter_side_fits_and_the_centre_is_kept(tmp_path):
    """Columns of a picture are numbered by their colour; twice as wide as wanted, it loses a quarter on each side."""
    columns = np.arange(64, dtype=np.uint8)[None, :, None].repeat(32, 0).repeat(3, 2)
    wide, tall = (
        save(tmp_path / "wide.png", columns),
        save(tmp_path / "tall.png", columns.transpose(1, 0, 2)),
    )
    assert np.array_equal(seen(wide).pixels, columns[:, 16:48])
    assert np.array_equal(seen(tall).pixels, columns.transpose(1, 0, 2)[16:48])
    assert (
        np.abs(seen(wide, 3, 16, 32).pixels[:, :, 0] - np.arange(0.5, 64, 2)).max() <= 1
    )  # whole, half as large
    assert (seen(tall).width, seen(tall).height) == (32, 64)


def test_scaling_down_averages_and_does_not_skip(tmp_path):
    """Stripes of black and white, one pixel each, are grey from afar."""
    stripes = flat(0, 0, 0, side=256)
    stripes[:, ::2] = 255
    assert (
        np.abs(
            seen(save(tmp_path / "stripes.png", stripes)).pixels[:, 1:-1].astype(int) - 127.5
        ).max()
        < 6
    )


def test_a_network_that_takes_grey_sees_the_average_of_the_colours(tmp_path):
    grey = seen(save(tmp_path / "a.png", pixels(0)), 1, 32, 32).pixels
    assert grey.shape == (32, 32, 1)
    assert np.array_equal(grey[..., 0], pixels(0).astype(float).mean(2).round())


def test_a_large_jpeg_is_truncated_or_whole_also_where_decoding_is_cut_short(tmp_path):
    smooth = np.linspace(0, 255, 1024)[:, None, None].repeat(1024, 1).repeat(3, 2).astype(np.uint8)
    whole = jpeg(smooth)
    (tmp_path / "whole.jpg").write_bytes(whole)
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    rows = seen(tmp_path / "whole.jpg").pixels[:, 16, 0].astype(float)
    assert np.abs(rows - np.linspace(0, 255, 1024).reshape(32, 32).mean(1)).max() < 3
    assert seen(tmp_path / "whole.jpg").width == 1024
    assert str(
        decode_image(partial(open_image_file, tmp_path / "cut.jpg"), "cut.jpg", (3, 32, 32))
    ).startswith("truncated")


@pytest.mark.parametrize("name", [*KINDS, "\u00e7\u00e0 \U0001f431.png"])
def test_a_picture_that_is_converted_strip_by_strip_is_the_same(odd, name, monkeypatch):
    whole = seen(odd[0] / name, 3, 20, 20)
    monkeypatch.setattr(_decode, "_STRIP_PIXELS", 5 * 32)
    strips = seen(odd[0] / name, 3, 20, 20)
    assert np.array_equal(strips.pixels, whole.pixels)
    assert (strips.digest, strips.changes) == (whole.digest, whole.changes)


def test_the_pixels_that_are_decoded_at_the_same_time_are_limited(tmp_path, monkeypatch):
    """Eight threads, a limit of three pictures of 64 pixels a side, and some that are larger than the limit."""
    from untrained.data.pictures import cache as _cache
    from untrained.data.pictures.listing import ImageFile

    monkeypatch.setattr(_decode, "_PIXELS_AT_ONCE", 3 * 64 * 64, raising=False)
    monkeypatch.setattr(_cache.os, "cpu_count", lambda: 8)
    in_flight: list[int] = []
    most: list[int] = []
    together: list[int] = []
    fit = ImageOps.fit

    def watched(image, *options):
        in_flight.append(image.width * image.height)
        most.append(sum(in_flight))
        together.append(len(in_flight))
        sleep(0.02)  # others would begin meanwhile
        in_flight.remove(image.width * image.height)
        return fit(image, *options)

    monkeypatch.setattr(_decode.ImageOps, "fit", watched)
    entries = []
    for k in range(24):
        path = save(tmp_path / f"{k}.png", pixels(k, side=128 if k % 8 == 0 else 64))
        entries.append(ImageFile(path.name, "cats", "train", "", partial(open_image_file, path)))
    found = [what for _, what in _cache._decode_in_threads(entries, (3, 8, 8))]
    assert all(isinstance(what, DecodedImage) for what in found)
    assert max(most) <= 128 * 128  # a large one alone, or three small ones
    assert max(together) > 1


def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path):
    values = np.array([[0, 257, 32768, 65535]], np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    assert seen(tmp_path / "a.png", 3, 1, 4).pixels[0, :, 0].tolist() == [0, 1, 128, 255]  # v / 257


def test_equal_pixels_have_equal_digests_whatever_the_file(tmp_path):
    one, two, other = (
        save(tmp_path / name, pixels(k)) for name, k in (("a.png", 0), ("b.bmp", 0), ("c.png", 1))
    )
    assert seen(one).digest == seen(two).digest != seen(other).digest
    tall, wide = (
        save(tmp_path / f"{h}.png", np.zeros((h, 8 * 8 // h, 3), np.uint8)) for h in (4, 16)
    )
    assert seen(tall).digest != seen(wide).digest
