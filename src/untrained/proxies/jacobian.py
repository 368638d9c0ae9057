"""Input Jacobians: how differently a network reacts to different samples.

J_i is the gradient of the sum of all outputs with respect to input i. Batch norm uses the
statistics of the batch, so J_i also contains the influence of input i on the other samples. R is
the correlation matrix of the rows J_i.
"""

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies.base import proxy, register_proxy

LOG_OFFSET = 1e-5  # k in the formulas: keeps logarithms finite
MANY_CLASSES = 100  # epe_nas has another formula for more classes than this


def correlate_rows(rows: Tensor) -> Tensor:
    """Return the Pearson correlations of rows, computed in float64.

    Raises:
        Unscorable: A row is constant, so its correlations are undefined.
    """
    centred = rows.double() - rows.double().mean(1, keepdim=True)
    norms = centred.norm(dim=1, keepdim=True)
    if bool((norms == 0).any()):
        raise Unscorable("singular", "the gradient with respect to one of the inputs is constant")
    unit = centred / norms
    R: Tensor = (unit @ unit.mT).cpu()
    return R


@register_proxy
@proxy(
    paper="Jacobian covariance (Mellor et al. 2020), zero-cost-nas form",
    aspects="expressivity",
    needs=("data", "gradients"),
    samples=64,
    cost=2,
)
def jacob_cov(probe: Probe) -> float:
    """How little the gradients with respect to different inputs resemble each other.

        - sum_i [ln(v_i + k) + 1 / (v_i + k)],   v_i the eigenvalues of R, k = 1e-5

    zero-cost-nas uses an eigenvalue solver for general matrices. We use one for symmetric matrices.
    """
    # Rounding may make the smallest eigenvalue of a correlation matrix negative.
    v = torch.linalg.eigvalsh(correlate_rows(probe.jacobian)).clamp_min(0)
    return -float(((v + LOG_OFFSET).log() + 1 / (v + LOG_OFFSET)).sum())


@register_proxy
@proxy(
    paper="EPE-NAS (Lopes et al.)",
    aspects="expressivity",
    needs=("data", "labels", "gradients"),
    samples=64,
    cost=2,
)
def epe_nas(probe: Probe) -> float:
    """How little the gradients with respect to inputs of one class resemble each other.

        sum_c |s_c|,   s_c = sum_ij ln(|R_ij| + k) over the samples i, j of class c, k = 1e-5

    With more than a hundred classes, s_c is divided by the number of samples of c, and the score is
    the mean over classes of sum_c' |s_c - s_c'|.
    """
    targets = probe.batch.targets
    if targets.ndim != 1 or targets.is_floating_point():
        raise Unscorable("unsupported", "epe_nas needs one class per sample")
    groups = [probe.jacobian[targets == c] for c in torch.unique(targets)]
    s = torch.stack([_log_correlation_sum(group) for group in groups])
    if probe.num_outputs <= MANY_CLASSES:
        return float(s.abs().sum())
    s = s / torch.tensor([len(group) for group in groups])
    return float((s[:, None] - s[None]).abs().sum() / len(s))


def _log_correlation_sum(rows: Tensor) -> Tensor:
    """s_c"""
    return (correlate_rows(rows).abs() + LOG_OFFSET).log().sum()
