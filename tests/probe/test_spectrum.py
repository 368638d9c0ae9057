"""Extreme eigenvalues by repeated squaring, compared with the full decomposition in float64."""

import pytest
import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.probe.features import (
    Feature,
    compute_inverse_conditions,
    compute_inverse_conditions_or_nan,
)
from untrained.probe.spectrum import (
    TOLERANCE,
    compute_eigenvalue_ratios,
    compute_log_largest_eigenvalues,
    compute_ratios_by_squaring,
)

D = torch.float64


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=D, generator=torch.Generator().manual_seed(shape[-1]))


def make_matrices(values: Tensor) -> Tensor:
    """Make matrices with these eigenvalues, (k, m), in a random basis."""
    basis, _ = torch.linalg.qr(draw(*values.shape, values.shape[-1]))
    matrices = basis @ torch.diag_embed(values) @ basis.mT
    return (matrices + matrices.mT) / 2


def compute_by_decomposition(G: Tensor) -> Tensor:
    eigenvalues = torch.linalg.eigvalsh(G)
    return (eigenvalues[:, 0].clamp_min(0) / eigenvalues[:, -1]).sqrt()


@pytest.mark.parametrize("rows", [2, 16, 64, 100])
def test_random_gram_matrices_agree_within_the_tolerance(rows):
    X = draw(5, rows, 2 * rows)
    for features in (X, X.relu(), X * torch.logspace(0, -3, rows, dtype=D)[:, None]):
        G = features @ features.mT
        torch.testing.assert_close(
            compute_ratios_by_squaring(G).sqrt(),
            compute_by_decomposition(G),
            rtol=TOLERANCE,
            atol=0,
        )


@pytest.mark.parametrize("gap", [0.0, 1e-9, 1e-6, 1e-3])
def test_clustered_extreme_eigenvalues_are_found(gap):
    """Power iteration would take 1 / gap steps here."""
    cluster = 1 - gap * torch.arange(48, dtype=D) / 48
    top = torch.cat([cluster, torch.full((16,), 0.25, dtype=D)])
    bottom = torch.cat([torch.full((16,), 9.0, dtype=D), cluster])
    G = make_matrices(torch.stack([top, bottom]))
    expected = torch.stack([top.min() / top.max(), bottom.min() / bottom.max()])
    torch.testing.assert_close(compute_ratios_by_squaring(G), expected, rtol=3 * TOLERANCE, atol=0)


def test_the_bound_holds_when_all_eigenvalues_are_equal():
    """The worst case: every trace is 1 / m, and only the factor 2^-k converges."""
    (log_eigenvalue,) = compute_log_largest_eigenvalues(7 * torch.eye(64, dtype=D)[None])
    assert float(log_eigenvalue.exp()) == pytest.approx(7, rel=TOLERANCE)


@pytest.mark.parametrize("condition", [1e4, 1e8, 1e11, 1e13, 1e15])
def test_near_singular_matrices_lose_digits_but_stay_within_a_millionth(condition):
    values = torch.logspace(0, -torch.tensor(condition).log10(), 64, dtype=D)
    ratio = compute_ratios_by_squaring(make_matrices(values[None])).sqrt()
    assert float(ratio) == pytest.approx(condition**-0.5, rel=1e-6, abs=1e-6)


def test_rank_deficient_matrices_have_the_ratio_zero():
    X = draw(4, 64, 256)
    X[0, 5] = 0  # a dead channel
    X[1, 7] = X[1, 3]  # a channel that repeats another
    X[2] = 0
    ratios = compute_ratios_by_squaring(X @ X.mT).sqrt()
    full = compute_by_decomposition(X @ X.mT)
    assert float(ratios[:3].max()) < 1e-6
    assert float(ratios[0]) == float(ratios[2]) == 0.0
    # The others do not affect it.
    assert float(ratios[3]) == pytest.approx(float(full[3]), rel=TOLERANCE)


def test_a_matrix_that_is_not_finite_does_not_affect_others():
    G = torch.stack(
        [
            torch.eye(3, dtype=D),
            torch.full((3, 3), torch.nan, dtype=D),
            torch.diag(torch.ones(3, dtype=D)),
        ]
    )
    G[2, 0, 0] = torch.inf
    assert compute_eigenvalue_ratios(G)[0] == 1
    assert compute_eigenvalue_ratios(G).isnan().tolist() == [False, True, True]


def test_a_feature_map_that_is_not_finite_affects_only_its_network():
    good = Feature(draw(1, 3, 8), "")
    bad = Feature(draw(1, 3, 9), "")
    bad.tensor[0, 1, 4] = torch.nan
    assert compute_inverse_conditions_or_nan([good, bad, good]).isnan().tolist() == [
        False,
        True,
        False,
    ]
    with pytest.raises(Unscorable, match="nan: a feature map is not finite"):
        compute_inverse_conditions([good, bad])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("rows", [16, 64])
def test_a_gpu_agrees_with_the_cpu(rows):
    G = draw(9, rows, 2 * rows)
    G = G @ G.mT
    torch.testing.assert_close(
        compute_eigenvalue_ratios(G.cuda()).cpu(), compute_eigenvalue_ratios(G), rtol=1e-7, atol=0
    )
