"""Numbers of a report and their axes: units, digits, ticks."""

import pytest

from untrained import formatting
from untrained.reports.svg.axis import choose_log_ticks, choose_ticks, make_axis

# Numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12, "12"),
        (732, "732"),
        (73_306, "73.3 k"),
        (999_900, "1.00 M"),
        (1_073_466, "1.07 M"),
        (153.6e6, "154 M"),
    ],
)
def test_quantities_have_three_digits_and_a_unit(value: float, text: str) -> None:
    assert formatting.format_quantity(value) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (999.4, 3, "999"),
        (999.9, 3, "1000"),
        (99.96, 2, "100"),
        (9.996, 3, "10.0"),
        (-999.9, 3, "\u22121000"),
        (0.0012345, 3, "0.00123"),
        (1234567.0, 3, "1.23e6"),
    ],
)
def test_rounding_up_does_not_lead_to_an_exponent(value: float, digits: int, text: str) -> None:
    assert formatting.format_significant(value, digits) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1032352.0, "1,032,352"), (6_636_000.0, "6,636,000"), (1.2373612, "1.23736"), (-3.0, "-3"), (1e20, "1e+20"),
     (12345.678, "12,345.7"), (None, "")],
)  # fmt: skip
def test_counts_are_written_in_full_and_scores_with_six_digits(
    value: float | None, text: str
) -> None:
    assert formatting.format_number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.0042, "4.2 ms"), (0.12, "0.12 s"), (48.7, "49 s"), (59.7, "1 min"), (72, "1 min 12 s"),
        (7530, "2 h 5 min"), (97_200, "1 d 3 h"),
    ],
)  # fmt: skip
def test_durations_are_written_in_two_units(seconds: float, text: str) -> None:
    assert formatting.format_duration(seconds) == text


def test_scores_of_a_column_have_equal_decimals() -> None:
    text = formatting.choose_column_format([3.9124, 2.5, -0.25])
    assert [text(value) for value in (3.9124, 2.5, -0.25)] == ["3.912", "2.500", "\u22120.250"]
    assert formatting.choose_column_format([4e12, 3e9])(4e12) == "4.000e12"
    assert formatting.choose_column_format([])(0.0) == "0.000"


@pytest.mark.parametrize(
    ("values", "units", "labels"),
    [
        ((0, 500_000, 1e6, 1.5e6), True, ["0", "0.5M", "1M", "1.5M"]),
        ((1e5, 2e5, 5e5, 1e6), True, ["0.1M", "0.2M", "0.5M", "1M"]),
        ((5e7, 1e8), True, ["50M", "100M"]),
        ((1e2, 1e4, 1e6), True, ["100", "10k", "1M"]),
        ((3, 3.5, 4), False, ["3.0", "3.5", "4.0"]),
        ((-2, 0, 2), False, ["\u22122", "0", "2"]),
        ((0, 2e7), False, ["0", "2e7"]),
    ],
)
def test_tick_labels_share_unit_and_decimals(
    values: tuple[float, ...], units: bool, labels: list[str]
) -> None:
    assert formatting.format_ticks(values, units=units) == labels


def test_one_is_singular() -> None:
    assert [formatting.format_count(n, "epoch") for n in (0, 1, 2)] == [
        "0 epochs",
        "1 epoch",
        "2 epochs",
    ]
    assert [formatting.format_count(n, "forward pass") for n in (0.5, 1.0, 12.6)] == [
        "0.5 forward passes",
        "1 forward pass",
        "12.6 forward passes",
    ]
    assert formatting.format_count(15_625, "architecture") == "15,625 architectures"


# Axes


def test_ticks_are_round_and_inside() -> None:
    assert choose_ticks(0.0, 1.0, 5) == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert choose_ticks(1.7, 3.52, 5) == (2.0, 2.5, 3.0, 3.5)
    assert choose_log_ticks(0.07e6, 1.5e6) == pytest.approx((1e5, 2e5, 5e5, 1e6))
    assert len(choose_log_ticks(1e-20, 1e20)) <= 7


def test_an_axis_is_logarithmic_beyond_a_decade() -> None:
    assert not make_axis([1.0, 9.0]).log
    assert make_axis([1.0, 11.0]).log
    assert not make_axis([0.0, 1e6]).log, "zero has no place on a log scale"
    scale = make_axis([10.0, 1000.0])
    assert scale.position(100.0) == pytest.approx(0.5)


@pytest.mark.parametrize("values", [[0.0], [5.0, 5.0], [-3.0], [1e-12, 1e-12], [1e30]])
def test_an_axis_of_equal_values_has_an_extent_and_ticks(values: list[float]) -> None:
    scale = make_axis(values)
    assert scale.low < values[0] < scale.high
    assert scale.ticks
    assert 0 < scale.position(values[0]) < 1
