"""NASI (Shu et al., ICLR 2022, arXiv:2109.00817): trace norm of the neural tangent kernel at
initialisation, in three forms, each an approximation of the one before. There is no official code.

theta are all parameters, m is the number of samples. The option `reading` is how batch
norms are treated. With "fixed", the default, their statistics are constants, so J_i is the gradient
of the output of sample i alone; see `probe/kernels.py` for the other two values.
"""

from untrained.probe import Probe
from untrained.probe.kernels import Reading
from untrained.proxies.base import proxy, register_proxy

PAPER = "NASI (Shu et al.)"


@register_proxy
@proxy(paper=PAPER, aspects="trainability", needs=("data", "gradients"), samples=8, cost=21)
def ntk_trace(probe: Probe, reading: Reading = "fixed") -> float:
    """Trace norm of the tangent kernel, exact over all outputs.

        sum_i ||J_i||_F^2,   J_i = df(x_i)/dtheta                                            (Eq. 9)

    This takes one backward pass per output, so it reads fewer samples than the other forms.
    """
    return probe.kernel("all", "all", reading).trace()


@register_proxy
@proxy(
    paper=PAPER,
    aspects="trainability",
    needs=("data", "labels", "gradients"),
    samples=64,
    cost=3,
)
def nasi_samples(probe: Probe, reading: Reading = "fixed") -> float:
    """Trace norm of the tangent kernel, computed from the loss gradient of each sample.

        sum_i ||g_i||_2^2,   g_i = dL(f(x_i), y_i)/dtheta                                   (Eq. 11)

    This takes one backward pass for all samples.
    """
    return probe.kernel("loss", "all", reading).trace()


@register_proxy
@proxy(
    paper=PAPER,
    aspects="trainability",
    needs=("data", "labels", "gradients"),
    samples=64,
    cost=3,
)
def nasi_batch(probe: Probe) -> float:
    """Trace norm of the tangent kernel, computed from the loss gradient of one mini-batch.

        ||(1/m) sum_i g_i||_2^2                                                             (Eq. 12)

    This is the square of `grad`. NASI searches with this form.
    """
    return float(sum(g.double().square().sum() for g in probe.gradients.values()))
