"""The interval of an accuracy, and the warning about a network that may only guess."""

from math import sqrt

import pytest

from untrained.training.accuracy import (
    compute_accuracy_interval,
    format_accuracy,
    make_chance_warning,
)


@pytest.mark.parametrize(("correct", "samples"), [(25, 120), (1, 2), (900, 1000)])
def test_at_its_ends_the_accuracy_is_1_96_standard_errors_away(correct, samples):
    accuracy = correct / samples
    low, high = compute_accuracy_interval(accuracy, samples)
    assert low < accuracy < high
    for end in (low, high):
        standard_error = sqrt(end * (1 - end) / samples)
        assert abs(accuracy - end) == pytest.approx(1.96 * standard_error)


def test_the_interval_has_a_width_at_both_ends_of_the_range():
    """At 0 and 100 % the equation has the solution z^2 / (n + z^2)."""
    distance = 1.96**2 / (39 + 1.96**2)
    assert compute_accuracy_interval(0.0, 39) == pytest.approx((0.0, distance))
    assert compute_accuracy_interval(1.0, 39) == pytest.approx((1 - distance, 1.0))


@pytest.mark.parametrize(
    ("accuracy", "samples"), [(1.1, 9), (-0.1, 9), (float("nan"), 9), (0.5, 0)]
)
def test_an_impossible_accuracy_is_refused(accuracy, samples):
    with pytest.raises(ValueError, match="impossible"):
        compute_accuracy_interval(accuracy, samples)


def test_an_accuracy_is_written_with_interval_and_samples():
    """The ends solve (25/120 - p)^2 = 1.96^2 p (1 - p) / 120."""
    assert format_accuracy(25 / 120, 120) == "20.8 % (95 % interval 14.5 to 28.9 %, 120 samples)"
    assert format_accuracy(0.0, 1).endswith(", 1 sample)")


def make_confusion(correct: int, first: int, second: int) -> list[list[int]]:
    """Return the matrix of a test part with two classes; all mistakes are in the larger first one."""
    mistakes = first + second - correct
    return [[first - mistakes, mistakes], [0, second]]


@pytest.mark.parametrize(
    ("correct", "is_warned"),
    [
        (50, True),  # below the share
        (60, True),  # at the share
        (69, True),  # the interval, 59.4 to 77.2 %, contains the share
        (71, False),  # the interval begins at 61.5 %
    ],
)
def test_a_network_is_warned_about_unless_its_interval_is_above_the_largest_class(
    correct, is_warned
):
    """Of 100 samples, 60 are of the first class, so its share is 60 %."""
    text = make_chance_warning(correct / 100, make_confusion(correct, 60, 40))
    assert bool(text) == is_warned
    if is_warned:
        assert "60.0 %" in text
        assert "--time 15m" in text
        assert "more pictures" in text


def test_without_a_confusion_matrix_there_is_no_warning():
    assert make_chance_warning(0.1, []) == ""
