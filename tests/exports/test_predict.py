"""The program that goes with a model reads pictures as the training did."""

from tests.data.pictures import alike, write_odd
from untrained.exports import _predict

PLAIN = {"input_shape": [3, 32, 32], "mean": [0.0] * 3, "std": [1.0] * 3}


def test_a_picture_of_any_kind_is_seen_as_it_is_meant(tmp_path):
    expected = write_odd(tmp_path / "photos" / "cats")
    for name, pixels in expected.items():
        seen = _predict.picture(tmp_path / "photos" / "cats" / name, PLAIN)
        assert alike(name, (255 * seen).round().transpose(1, 2, 0), pixels), name
