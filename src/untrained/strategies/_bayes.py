"""Bayesian optimisation on the unit square, as much of it as HNAS needs: a Gaussian process and three acquisitions.

    X   points seen, (n, d); y their values, (n,), standardised; Z points asked about, (m, d)
    k   Matern 5/2 of unit variance and length l; K = k(X, X) + noise I
    mean = k(Z, X) K^-1 y;   variance = s^2 (1 + noise - diag k(Z, X) K^-1 k(X, Z)),   s^2 = y^T K^-1 y / n

l and noise are those of a small grid with the largest likelihood: exact, deterministic, and enough for 25 points.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]
LENGTHS, NOISES = np.geomspace(0.05, 2.0, 12), (1e-6, 1e-4, 1e-2, 1e-1, 0.5)


def matern(A: Array, B: Array, length: float) -> Array:
    """(1 + r + r^2 / 3) exp(-r), r = sqrt(5) |a - b| / l."""
    r = np.sqrt(5) / length * np.linalg.norm(A[:, None] - B[None], axis=2)
    return np.asarray((1 + r + r**2 / 3) * np.exp(-r))


@dataclass(frozen=True)
class Posterior:
    """What is believed after some points."""

    X: Array
    weights: Array  # K^-1 y
    inverse: Array  # K^-1
    length: float
    noise: float
    scale: float  # s
    centre: float
    spread: float

    def __call__(self, Z: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at Z, (m,) each."""
        k = matern(Z, self.X, self.length)
        variance = 1 + self.noise - ((k @ self.inverse) * k).sum(1)
        std = self.scale * np.sqrt(np.maximum(variance, 1e-12))
        return self.centre + self.spread * (k @ self.weights), self.spread * std


def fitted(X: Array, y: Array) -> Posterior:
    """The process of the most likely length and noise."""
    centre, spread = float(y.mean()), float(y.std()) or 1.0
    standard = (y - centre) / spread
    return max((_fit(X, standard, length, noise, centre, spread) for length in LENGTHS for noise in NOISES),
               key=lambda fit: fit[0])[1]  # fmt: skip


def _fit(X: Array, y: Array, length: float, noise: float, centre: float, spread: float) -> tuple[float, Posterior]:
    """Logarithm of the likelihood, up to a constant, and the posterior."""
    n = len(X)
    K = matern(X, X, length) + noise * np.eye(n)
    inverse: Array = np.linalg.inv(K).astype(np.float64)
    weights = inverse @ y
    variance = max(float(y @ weights) / n, 1e-12)
    likelihood = -0.5 * (n * np.log(variance) + np.linalg.slogdet(K).logabsdet)
    return float(likelihood), Posterior(X, weights, inverse, length, noise, variance**0.5, centre, spread)


# ----------------------------------------------------------------------------------------------------- acquisitions


def expected_improvement(mean: Array, std: Array, best: float) -> Array:
    z = (mean - best) / std
    return np.asarray((mean - best) * ndtr(z) + std * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))


def probability_of_improvement(mean: Array, std: Array, best: float) -> Array:
    return np.asarray(ndtr((mean - best) / std))


def upper_confidence_bound(mean: Array, std: Array, best: float, kappa: float = 2.576) -> Array:
    return mean + kappa * std


ACQUISITIONS: dict[str, Callable[[Array, Array, float], Array]] = {
    "ei": expected_improvement,
    "ucb": partial(upper_confidence_bound, kappa=2.576),
    "poi": probability_of_improvement,
}


def suggest(X: Array, y: Array, acquisition: str, rng: np.random.Generator, candidates: int = 4096) -> Array:
    """The most promising of some random points of the unit cube, (d,)."""
    Z = rng.random((candidates, X.shape[1]))
    mean, std = fitted(X, y)(Z)
    return np.asarray(Z[int(np.argmax(ACQUISITIONS[acquisition](mean, std, float(y.max()))))])
