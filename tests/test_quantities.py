"""Durations and shares as users write them."""

import pytest

from untrained.errors import UsageError
from untrained.quantities import parse_duration, parse_path, parse_share

DURATIONS = {
    "90s": 90, "1.5s": 1.5, "10m": 600, "10 min": 600, "1h30m": 5400, "1h 30m 5s": 5405, "2d": 172800,
    "250ms": 0.25, " 3 H ": 10800, "0.5h": 1800,
}  # fmt: skip
WRONG = {
    "": "invalid duration ''; write 90s, 10m or 1h30m",
    "soon": "invalid duration 'soon'",
    "-5s": "invalid duration '-5s'",
    "5s!": "invalid duration '5s!'",
    "1:30": "invalid duration '1:30'",
    "1,5h": "invalid duration '1,5h'",
    "3 fortnights": "no unit of time is called 'fortnights'; available: ms, s, m, min, h, d",
    "5": "5 in the duration '5' has no unit; write 5m for minutes or 5s for seconds",
    "1m5": "5 in the duration '1m5' has no unit",
    "1e3": "no unit of time is called 'e'",
    "0": "a duration must be more than 0 seconds, not '0'",
    "0h0m": "a duration must be more than 0 seconds, not '0h0m'",
}


@pytest.mark.parametrize("text", DURATIONS)
def test_a_duration_is_parsed(text):
    assert parse_duration(text) == pytest.approx(DURATIONS[text], rel=1e-12)


@pytest.mark.parametrize("text", WRONG)
def test_the_error_for_a_wrong_duration_says_what_to_write(text):
    with pytest.raises(UsageError) as caught:
        parse_duration(text)
    assert str(caught.value).startswith(WRONG[text])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"), [("20%", 0.2), ("0.2", 0.2), (" 7 % ", 0.07), ("100%", 1.0), ("1", 1.0)]
)
def test_a_share_is_parsed(text, value):
    assert parse_share(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("text", ["0", "0%", "-5%", "101%", "20", "nan", "inf"])
def test_a_share_is_more_than_0_and_at_most_100_percent(text):
    with pytest.raises(UsageError, match="a share is more than 0 and at most 100%"):
        parse_share(text)


@pytest.mark.parametrize("text", ["", "%", "half", "1/5"])
def test_the_error_for_a_wrong_share_says_what_to_write(text):
    with pytest.raises(UsageError, match=r"invalid share .*; write 20% or 0\.2"):
        parse_share(text)


@pytest.mark.parametrize("code", [0xDCFF, 0xD800])
def test_the_error_for_a_name_that_is_not_utf8_can_be_printed(code):
    """The first stands for the byte 0xFF of a file name; the second cannot be in a file name."""
    with pytest.raises(UsageError) as caught:
        parse_path(f"a{chr(code)}", "run")
    assert str(caught.value).startswith("run is 'a\N{REPLACEMENT CHARACTER}', which is not a")
