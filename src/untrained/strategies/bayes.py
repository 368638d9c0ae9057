"""Bayesian optimisation on the unit cube: a Gaussian process and acquisition functions.

It has only what HNAS needs. Equations are those of Rasmussen & Williams, Gaussian Processes
for Machine Learning (GPML), and of Jones et al., Journal of Global Optimization 13, 1998 (EGO).

    X       evaluated points, (n, d)
    y       their values, (n,), standardised to mean 0 and standard deviation 1
    Z       points to predict, (m, d)
    l       length scale of the kernel
    k       Matern 5/2 kernel of unit variance                                       (GPML Eq. 4.17)
    noise   variance of the noise, relative to s^2
    K       k(X, X) + noise I, (n, n)
    s^2     y^T K^-1 y / n, the most likely variance of the process                     (EGO Eq. 6)
    mean    k(Z, X) K^-1 y                                                           (GPML Eq. 2.25)
    var     s^2 (1 + noise - diag(k(Z, X) K^-1 k(X, Z)))                             (GPML Eq. 2.26)
    L       -1/2 (n log s^2 + log det K), the log-likelihood up to a constant        (GPML Eq. 2.30)

l and noise are chosen from a small grid such that L is largest. This is deterministic, and fast
enough for the 25 points of HNAS.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]

LENGTHS = np.geomspace(0.05, 2.0, 12)
NOISES = (1e-6, 1e-4, 1e-2, 1e-1, 0.5)
# Smallest variance, so that its square root and its logarithm are finite.
_MIN_VARIANCE = 1e-12


def compute_matern(A: Array, B: Array, length: float) -> Array:
    """Return k(A, B) = (1 + r + r^2 / 3) exp(-r) with r = sqrt(5) |a - b| / l.

    Args:
        A: Points, (n, d).
        B: Points, (m, d).
        length: The length scale l.

    Returns:
        The kernel, (n, m).
    """
    r = np.sqrt(5) / length * np.linalg.norm(A[:, None] - B[None], axis=2)
    return np.asarray((1 + r + r**2 / 3) * np.exp(-r))


@dataclass(frozen=True)
class GaussianProcess:
    """A Gaussian process that is fitted to some points. Symbols as above.

    Attributes:
        X: The points, (n, d).
        weights: K^-1 y, (n,).
        inverse: K^-1, (n, n).
        length: l.
        noise: Variance of the noise, relative to s^2.
        scale: s.
        centre: Mean of the values before they were standardised.
        spread: Standard deviation of the values before they were standardised.
        log_likelihood: L.
    """

    X: Array
    weights: Array
    inverse: Array
    length: float
    noise: float
    scale: float
    centre: float
    spread: float
    log_likelihood: float

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation at Z, (m,) each, in the units of the values."""
        k = compute_matern(Z, self.X, self.length)
        variance = 1 + self.noise - ((k @ self.inverse) * k).sum(1)
        std = self.scale * np.sqrt(np.maximum(variance, _MIN_VARIANCE))
        mean = k @ self.weights
        return self.centre + self.spread * mean, self.spread * std


def fit_gaussian_process(X: Array, y: Array) -> GaussianProcess:
    """Fit a Gaussian process with the most likely length scale and noise.

    Args:
        X: Points, (n, d).
        y: Their values in any units, (n,).
    """
    centre = float(y.mean())
    spread = float(y.std()) or 1.0  # all values may be equal
    standardised = (y - centre) / spread
    processes = []
    for length, noise in product(LENGTHS, NOISES):
        processes.append(_fit_weights(X, standardised, length, noise, centre, spread))
    return max(processes, key=lambda process: process.log_likelihood)


def _fit_weights(
    X: Array, y: Array, length: float, noise: float, centre: float, spread: float
) -> GaussianProcess:
    """Fit a Gaussian process with this length scale and this noise."""
    n = len(X)
    K = compute_matern(X, X, length) + noise * np.eye(n)
    inverse: Array = np.linalg.inv(K).astype(np.float64)
    weights = inverse @ y
    variance = max(float(y @ weights) / n, _MIN_VARIANCE)
    log_likelihood = -0.5 * (n * np.log(variance) + np.linalg.slogdet(K).logabsdet)
    return GaussianProcess(
        X=X,
        weights=weights,
        inverse=inverse,
        length=length,
        noise=noise,
        scale=variance**0.5,
        centre=centre,
        spread=spread,
        log_likelihood=float(log_likelihood),
    )


# ---------------------------------------------------------------------------------- acquisitions
#
#     mean, std   predicted mean and standard deviation at the candidates, (m,) each
#     best        largest value so far
#     z           (mean - best) / std
#     Phi, phi    distribution and density of the standard normal


def expected_improvement(mean: Array, std: Array, best: float) -> Array:
    """Return (mean - best) Phi(z) + std phi(z)  (EGO Eq. 15, for maximisation)."""
    z = (mean - best) / std
    return np.asarray((mean - best) * ndtr(z) + std * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))


def probability_of_improvement(mean: Array, std: Array, best: float) -> Array:
    """Return Phi(z)."""
    return np.asarray(ndtr((mean - best) / std))


def upper_confidence_bound(mean: Array, std: Array, best: float, kappa: float = 2.576) -> Array:
    """Return mean + kappa std; with the default, the upper end of a 99 % interval."""
    return mean + kappa * std


ACQUISITIONS: dict[str, Callable[[Array, Array, float], Array]] = {
    "ei": expected_improvement,
    "ucb": partial(upper_confidence_bound, kappa=2.576),
    "poi": probability_of_improvement,
}


def suggest_point(
    X: Array, y: Array, acquisition: str, rng: np.random.Generator, candidates: int = 4096
) -> Array:
    """Suggest the next point to evaluate.

    Args:
        X: Evaluated points, (n, d).
        y: Their values, (n,); higher is better.
        acquisition: A name of `ACQUISITIONS`.
        rng: Random generator.
        candidates: Number of random points of the unit cube to choose from.

    Returns:
        The candidate with the largest acquisition, (d,).
    """
    Z = rng.random((candidates, X.shape[1]))
    mean, std = fit_gaussian_process(X, y).predict(Z)
    acquisitions = ACQUISITIONS[acquisition](mean, std, float(y.max()))
    return np.asarray(Z[int(np.argmax(acquisitions))])
