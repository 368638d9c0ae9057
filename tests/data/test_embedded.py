"""Data that need no files: normal noise, crops of photographs, and the digits of scikit-learn."""

import numpy as np
import pytest
import torch

from tests.data.tiny import RGB
from untrained.data import load_data
from untrained.types import Task


@pytest.mark.parametrize("shape", [(16,), (5, 8), (2, 3, 4, 5)])
def test_noise_has_any_shape(shape):
    assert load_data("noise", Task("any", shape, 2)).batch(3).inputs.shape == (3, *shape)


def test_noise_is_standard_normal():
    # 196,608 numbers: the standard error of the mean is 0.0023.
    inputs = load_data("noise", RGB).batch(64).inputs
    assert abs(float(inputs.mean())) < 0.012
    assert float(inputs.std()) == pytest.approx(1, abs=0.012)
    assert float((inputs.abs() < 1).float().mean()) == pytest.approx(0.6827, abs=0.006)


def test_photos_are_smooth_images_and_normalised():
    inputs = load_data("photos", RGB).batch(64).inputs
    # No crop is constant, not even one of the sky.
    assert float(inputs.flatten(1).std(1).min()) > 0.01
    # A whole photograph has mean 0 and deviation 1; crops have nearly.
    assert inputs.mean((0, 2, 3)).abs().max() < 0.6
    assert 0.5 < float(inputs.std()) < 1.5
    neighbours = torch.corrcoef(
        torch.stack([inputs[..., :-1].flatten(), inputs[..., 1:].flatten()])
    )[0, 1]
    assert neighbours > 0.7  # neighbouring pixels are similar in photographs, not in noise


def test_grey_photos_are_the_average_of_the_colours():
    """The same seed gives the same crop.

    With x = mu + sigma z in colour, grey is (mean_c x - mean mu) / mean sigma.
    """
    colour = load_data("photos", Task("any", (3, 24, 24), 7)).batch(3, seed=2).inputs
    grey = load_data("photos", Task("any", (1, 24, 24), 7)).batch(3, seed=2).inputs
    fit = torch.linalg.lstsq(
        torch.cat([colour[0].flatten(1).T, torch.ones(576, 1)], 1), grey[0].flatten()[:, None]
    )
    weights = fit.solution[:3, 0]  # sigma_c / 3 / mean sigma, so they sum up to one
    assert float(weights.sum()) == pytest.approx(1, abs=1e-3)
    assert weights.min() > 0


def test_digits_are_those_of_scikit_learn():
    datasets = pytest.importorskip("sklearn.datasets")
    bundle = datasets.load_digits()
    pixels = torch.from_numpy(np.floor(bundle.images * 255 / 16)) / 255
    digits = ((pixels - pixels.mean()) / pixels.std()).flatten(1).float()
    batch = load_data("digits", Task("any", (1, 8, 8), 3)).batch(50)
    distance, nearest = torch.cdist(batch.inputs.flatten(1), digits).min(1)
    assert float(distance.max()) < 1e-2
    assert batch.targets.tolist() == bundle.target[nearest.numpy()].tolist()
