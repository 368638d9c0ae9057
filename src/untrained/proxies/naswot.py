"""Activation codes: which linear region each sample is in (Mellor et al., ICML 2021,
arXiv:2006.04647; SWAP, Peng et al., ICLR 2024, arXiv:2403.04161).

z_l is the code of layer l: 1 where the input of its nonlinearity is positive, (samples, neurons).
Every pointwise nonlinearity is read in this way, not only ReLU, if its input has the samples on the
first axis.
"""

from math import exp
from typing import Literal

import torch
from torch import Tensor

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies.base import proxy, register_proxy

LAYERS = "pointwise nonlinearities"
# Since version 2, only nonlinearities whose input has the samples on its first axis are read. A
# learned gate, such as the sigmoid of a parameter, is left out.
VERSION = 2
MAX_PATTERN_SAMPLES = 62  # the bits of a pattern are packed into one int64
MAX_TABLE_SAMPLES = 20  # a table of 2^20 patterns takes 1 MiB
EXACT_BITS = 16  # a float32 holds integers of this many bits exactly


@register_proxy
@proxy(
    paper="NASWOT (Mellor et al.)",
    aspects="expressivity",
    samples=64,
    layers=LAYERS,
    version=VERSION,
)
def naswot(probe: Probe, variant: Literal["default", "published"] = "default") -> float:
    """How different the codes of different samples are.

        ln det K,   K = sum_l z_l z_l^T + (1 - z_l)(1 - z_l)^T

    K counts the neurons on which two samples agree. The authors' code hooks every module with ReLU
    in its class name, so the ReLU of a ReLUConvBN counts twice (which adds about m ln 2 on
    NAS-Bench-201, for m samples). The paper counts each ReLU once, and so do we;
    `variant=published` counts like their code. Their code reads 128 samples, we read 64 by default;
    `naswot(samples=128)` reads as many.
    """
    agreements = []
    for code in probe.codes:
        count = 1
        if variant == "published":
            count = max(1, code.relu_module_count)
        agreements.append(count * code.agreement)
    K = torch.stack(agreements).sum(0)
    # The determinant itself would overflow.
    logdet = torch.linalg.slogdet(K).logabsdet
    if not torch.isfinite(logdet):
        raise Unscorable("singular", "two samples have the same code")
    return float(logdet)


@register_proxy
@proxy(
    paper="SWAP (Peng et al.)", aspects="expressivity", samples=16, layers=LAYERS, version=VERSION
)
def swap(probe: Probe) -> float:
    """Number of different patterns of neurons across the samples.

        |{ (z_1k, ..., z_mk) : k a neuron }|

    The authors' code reads a thin network with N(0, 1) weights and averages over 32 draws of the
    weights. We read the network as it is given.
    """
    return float(_count_patterns(probe))


@register_proxy
@proxy(
    paper="SWAP (Peng et al.)",
    aspects="expressivity, size",
    samples=16,
    layers=LAYERS,
    version=VERSION,
)
def swap_reg(probe: Probe, mu: float = 1000.0, sigma: float = 1e6) -> float:
    """SWAP with a preference for networks of a given size.

        swap exp(-(P - mu)^2 / sigma),   P the number of parameters in thousands

    The user chooses mu, the preferred size in thousands of parameters, and sigma, which sets how
    fast the score falls away from it.
    """
    thousands = probe.params / 1e3
    factor = exp(-((thousands - mu) ** 2) / sigma)
    if factor == 0:
        detail = f"{thousands:.0f} thousand parameters are too far from mu={mu} for sigma={sigma}"
        raise Unscorable("unsupported", detail)
    return _count_patterns(probe) * factor


def _count_patterns(probe: Probe) -> int:
    """Count the distinct columns of the codes of feature maps.

    For a network without feature maps, the codes of all layers are used.
    """
    codes = [code for code in probe.codes if code.is_feature_map] or list(probe.codes)
    signs = codes[0].signs
    if len(signs) > MAX_PATTERN_SAMPLES:
        detail = f"patterns are counted over at most {MAX_PATTERN_SAMPLES} samples"
        raise Unscorable("unsupported", detail)
    patterns = torch.cat([_pack_signs(code.signs) for code in codes])
    if len(signs) > MAX_TABLE_SAMPLES:
        return len(torch.unique(patterns))
    # A table of all patterns is faster than sorting the neurons.
    occurs = torch.zeros(2 ** len(signs), dtype=torch.bool, device=signs.device)
    occurs[patterns] = True
    return int(occurs.sum())


def _pack_signs(signs: Tensor) -> Tensor:
    """Turn the signs of each neuron, (samples, neurons), into one integer."""
    packed = torch.zeros(signs.shape[1], dtype=torch.int64, device=signs.device)
    # A matrix product of float32 is faster than operations on bits.
    for start in range(0, len(signs), EXACT_BITS):
        rows = signs[start : start + EXACT_BITS].float()
        bits = 2.0 ** torch.arange(len(rows), device=signs.device)
        packed += (bits @ rows).long() << start
    return packed
