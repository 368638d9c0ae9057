"""The confidence interval of a test accuracy, and a warning if guessing may be as accurate."""

from collections.abc import Sequence
from math import sqrt

from untrained.formatting import format_count, format_fixed, format_percent

# 97.5 % quantile of the standard normal distribution, for an interval of 95 %.
_NORMAL_QUANTILE = 1.96


def compute_accuracy_interval(accuracy: float, samples: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of an accuracy (Wilson score interval).

    Its ends are the two solutions p of

        |accuracy - p| = 1.96 sqrt(p (1 - p) / samples)

    Unlike `accuracy ± 1.96 standard errors`, the interval never exceeds the range from 0 to 1, and
    its width is not zero if all or none of the samples were classified correctly.

    Args:
        accuracy: Share of the samples that were classified correctly.
        samples: Number of samples.

    Raises:
        ValueError: The accuracy is not between 0 and 1, or there are no samples.
    """
    if not 0 <= accuracy <= 1 or samples < 1:
        raise ValueError(f"an accuracy of {accuracy} on {samples} samples is impossible")
    squared_quantile = _NORMAL_QUANTILE**2
    divisor = 1 + squared_quantile / samples
    centre = (accuracy + squared_quantile / (2 * samples)) / divisor
    variance = accuracy * (1 - accuracy) / samples + squared_quantile / (4 * samples**2)
    half_width = _NORMAL_QUANTILE * sqrt(variance) / divisor
    return max(0.0, centre - half_width), min(1.0, centre + half_width)


def format_accuracy(accuracy: float, samples: int) -> str:
    """Return an accuracy such as "20.8 % (95 % interval 14.5 to 28.9 %, 120 samples)"."""
    low, high = compute_accuracy_interval(accuracy, samples)
    interval = f"{format_fixed(100 * low, 1)} to {format_percent(high)}"
    count = format_count(samples, "sample")
    return f"{format_percent(accuracy)} (95 % interval {interval}, {count})"


def make_chance_warning(accuracy: float, confusion: Sequence[Sequence[int]]) -> str:
    """Return a warning if a network may be no better than guessing; empty if it is better.

    Guessing means predicting the most frequent class of the test part for every sample.

    Args:
        accuracy: Accuracy on the test part.
        confusion: Confusion matrix of the test part; a row is a true class.
    """
    class_samples = [sum(row) for row in confusion]
    samples = sum(class_samples)
    if not samples:
        return ""
    largest_share = max(class_samples) / samples
    low, _ = compute_accuracy_interval(accuracy, samples)
    if low > largest_share:
        return ""
    return (
        "the test accuracy is not clearly above the share of the most frequent class in the test "
        f"part, {format_percent(largest_share)}, so the network may be no better than guessing; "
        "allow more time (search with --time 15m, or train with more --epochs), or add more "
        "pictures or rows"
    )
