"""Metrics of click predictions, compared with values computed by hand and with scikit-learn."""

from math import log

import numpy as np
import pytest
from sklearn.metrics import log_loss as their_log_loss
from sklearn.metrics import roc_auc_score

from untrained.training.ctr_metrics import (
    CalibrationBin,
    compute_auc,
    compute_calibration,
    compute_calibration_error,
    compute_click_metrics,
    compute_log_loss,
    compute_normalised_entropy,
)


def compute_logits(*probabilities: float) -> np.ndarray:
    p = np.array(probabilities)
    return np.log(p / (1 - p))


LABELS = np.array([1.0, 0.0, 1.0, 0.0])


def test_log_loss_equals_the_value_computed_by_hand():
    assert compute_log_loss(compute_logits(0.8, 0.4, 0.5, 0.5), LABELS) == pytest.approx(
        -(log(0.8) + log(0.6) + 2 * log(0.5)) / 4
    )


def test_log_loss_of_a_confident_mistake_is_large_and_finite():
    assert compute_log_loss(np.array([-1000.0, 1000.0]), np.array([1.0, 1.0])) == pytest.approx(500)


def test_auc_equals_the_value_computed_by_hand():
    """Of the four pairs of a click and a row without one, three are in order and one is tied."""
    assert compute_auc(np.array([3.0, 1.0, 2.0, 2.0]), LABELS) == pytest.approx(3.5 / 4)
    assert compute_auc(np.zeros(4), LABELS) == 0.5
    assert compute_auc(np.array([1.0, 0.0, 1.0, 0.0]), LABELS) == 1.0
    assert compute_auc(np.array([0.0, 1.0, 0.0, 1.0]), LABELS) == 0.0


@pytest.mark.parametrize("levels", [3, 50, None])
def test_auc_and_log_loss_equal_those_of_scikit_learn(levels):
    draw = np.random.default_rng(0)
    z = draw.normal(size=500) * 2
    z = z if levels is None else np.round(z * levels / 6)  # few levels, many ties
    y = (draw.random(500) < 1 / (1 + np.exp(-z / 3))).astype(float)
    assert compute_auc(z, y) == pytest.approx(roc_auc_score(y, z), abs=1e-12)
    assert compute_log_loss(z, y) == pytest.approx(
        their_log_loss(y, 1 / (1 + np.exp(-z))), rel=1e-9
    )


def test_one_class_has_no_auc_and_no_normalised_entropy():
    metrics = compute_click_metrics(np.array([0.0, 1.0]), np.ones(2))
    assert (metrics.auc, metrics.normalised_entropy) == (None, None)
    assert (metrics.rows, metrics.clicks) == (2, 2)


def test_predicting_the_mean_has_normalised_entropy_one():
    labels = np.array([1.0, 0, 0, 0])
    assert compute_normalised_entropy(np.repeat(compute_logits(0.25), 4), labels) == pytest.approx(
        1
    )
    assert compute_normalised_entropy(compute_logits(0.9, 0.1, 0.1, 0.1), labels) == pytest.approx(
        -log(0.9) / -(0.25 * log(0.25) + 0.75 * log(0.75))
    )


def test_calibration_equals_the_bins_computed_by_hand():
    """Two bins of two rows: 0.1 and 0.3 of which none clicked, 0.6 and 0.8 of which both did."""
    bins = compute_calibration(compute_logits(0.8, 0.1, 0.6, 0.3), LABELS, bins=2)
    assert [(b.predicted, b.observed, b.rows) for b in bins] == [
        (pytest.approx(0.2), 0.0, 2), (pytest.approx(0.7), 1.0, 2)
    ]  # fmt: skip
    assert compute_calibration_error(bins) == pytest.approx(0.25)
    assert compute_calibration_error(
        (CalibrationBin(0.5, 0.4, 30), CalibrationBin(0.9, 0.6, 10))
    ) == pytest.approx((3 + 3) / 40)


def test_few_rows_make_few_bins():
    assert len(compute_calibration(np.zeros(3), np.zeros(3))) == 3


def test_a_true_prediction_is_calibrated():
    draw = np.random.default_rng(0)
    z = draw.normal(size=50_000)
    y = (draw.random(50_000) < 1 / (1 + np.exp(-z))).astype(float)
    assert compute_click_metrics(z, y).calibration_error < 0.01
    lifted = np.mean(1 / (1 + np.exp(-z - 1)) - 1 / (1 + np.exp(-z)))
    assert compute_click_metrics(z + 1, y).calibration_error == pytest.approx(lifted, abs=0.01)
