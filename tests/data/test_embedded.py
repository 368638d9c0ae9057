"""Data that need no files: noise is normal, photos are pictures, digits are scikit-learn's."""

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
    inputs = (
        load_data("noise", RGB).batch(64).inputs
    )  # 196,608 numbers: the mean is known to 0.0023, one sigma
    assert abs(float(inputs.mean())) < 0.012
    assert float(inputs.std()) == pytest.approx(1, abs=0.012)
    assert float((inputs.abs() < 1).float().mean()) == pytest.approx(0.6827, abs=0.006)


def test_photos_are_pictures_and_normalised():
    inputs = load_data("photos", RGB).batch(64).inputs
    assert (
        float(inputs.flatten(1).std(1).min()) > 0.01
    )  # no crop is constant, not even one of the sky
    assert (
        inputs.mean((0, 2, 3)).abs().max() < 0.6
    )  # of the photograph: mean 0 and deviation 1, of its crops nearly
    assert 0.5 < float(inputs.std()) < 1.5
    neighbours = torch.corrcoef(
        torch.stack([inputs[..., :-1].flatten(), inputs[..., 1:].flatten()])
    )[0, 1]
    assert neighbours > 0.7  # nature is smooth, noise is not


def test_grey_photos_are_the_average_of_the_colours():
    """With the same seed the same crop: (mean_c x - mean mu) / mean sigma, where x = mu + sigma z in colour."""
    colour, grey = (
        load_data("photos", Task("any", (c, 24, 24), 7)).batch(3, seed=2).inputs for c in (3, 1)
    )
    fit = torch.linalg.lstsq(
        torch.cat([colour[0].flatten(1).T, torch.ones(576, 1)], 1), grey[0].flatten()[:, None]
    )
    weights = fit.solution[:3, 0]  # sigma_c / 3 over the mean of sigma: they sum up to one
    assert float(weights.sum()) == pytest.approx(1, abs=1e-3)
    assert weights.min() > 0


def test_digits_are_those_of_scikit_learn():
    datasets = pytest.importorskip("sklearn.datasets")
    bundle = datasets.load_digits()
    pixels = torch.from_numpy(np.floor(bundle.images * 255 / 16)) / 255
    known = ((pixels - pixels.mean()) / pixels.std()).flatten(1).float()
    batch = load_data("digits", Task("any", (1, 8, 8), 3)).batch(50)
    distance, nearest = torch.cdist(batch.inputs.flatten(1), known).min(1)
    assert float(distance.max()) < 1e-2
    assert batch.targets.tolist() == bundle.target[nearest.numpy()].tolist()
