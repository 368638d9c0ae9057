"""NASI (Shu et al., ICLR 2022, arXiv:2109.00817): the trace norm of the neural tangent kernel at initialisation, in its
three forms, each an approximation of the one before. No official code exists.

theta are all parameters, m samples. Batch statistics are held constant where samples are told apart (`fixed`), which
makes each J_i the gradient of that sample's own output; `reading` offers the other two (see `probe/kernels.py`).
"""

from untrained.probe import Probe
from untrained.probe.kernels import Reading
from untrained.proxies._proxy import proxy, registered

PAPER = "NASI (Shu et al.)"


@registered
@proxy(paper=PAPER, measures="trainability", needs=("data", "gradients"), samples=8, cost=21)
def ntk_trace(probe: Probe, reading: Reading = "fixed") -> float:
    """Trace norm of the tangent kernel, exact over all outputs.

        sum_i ||J_i||_F^2,   J_i = df(x_i)/dtheta                                                            (Eq. 9)

    One backward an output, hence fewer samples.
    """
    return probe.kernel("all", "all", reading).trace()


@registered
@proxy(paper=PAPER, measures="trainability", needs=("data", "labels", "gradients"), samples=64, cost=3)
def nasi_samples(probe: Probe, reading: Reading = "fixed") -> float:
    """Trace norm of the tangent kernel by the loss gradient of each sample.

        sum_i ||g_i||_2^2,   g_i = dL(f(x_i), y_i)/dtheta                                                   (Eq. 11)

    One backward for all samples.
    """
    return probe.kernel("loss", "all", reading).trace()


@registered
@proxy(paper=PAPER, measures="trainability", needs=("data", "labels", "gradients"), samples=64, cost=3)
def nasi_batch(probe: Probe) -> float:
    """Trace norm of the tangent kernel by the loss gradient of one mini-batch.

        ||(1/m) sum_i g_i||_2^2                                                                             (Eq. 12)

    The square of `grad`; what NASI searches by.
    """
    return float(sum(g.double().square().sum() for g in probe.gradients.values()))
