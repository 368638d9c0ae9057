"""How well `consensus` ranks the families of networks whose accuracies are known.

The figures are the output of `python benchmarks/consensus_weights.py` on 2026-11-20;
docs/results/consensus.md says what they are based on. Agreement does not measure quality: of the
nine families, the one with the highest agreement is ranked worst. It only shows how much the
ranking depends on the choice of the members.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from untrained.formatting import join_words


@dataclass(frozen=True)
class BenchmarkFamily:
    """A family of networks with known accuracies, ranked by `consensus`.

    Attributes:
        name: Name of the benchmark.
        agreement: Mean rank correlation between the members of the consensus.
        explained_by_size: Share of the variance of the ranking that size explains.
        spearman: Rank correlation of the consensus with accuracy.
        flops_spearman: Rank correlation of FLOPs with accuracy.
    """

    name: str
    agreement: float
    explained_by_size: float
    spearman: float
    flops_spearman: float


FAMILIES = (
    BenchmarkFamily("NAS-Bench-201", 0.81, 0.80, 0.88, 0.71),
    BenchmarkFamily("NAS-Bench-101", 0.76, 0.85, 0.82, 0.77),
    BenchmarkFamily("NAS-Bench-301", 0.89, 0.93, 0.59, 0.52),
    BenchmarkFamily("DARTS-1000", 0.88, 0.93, 0.80, 0.81),
    BenchmarkFamily("TransNAS-Bench-101", 0.75, 0.67, 0.66, 0.53),
    BenchmarkFamily("Accel-NASBench", 0.41, 0.79, 0.80, 0.64),
    BenchmarkFamily("chains of residual blocks", 0.69, 0.97, 0.61, 0.68),
    BenchmarkFamily("the table convnet", 0.69, 0.82, 0.71, 0.63),
    BenchmarkFamily("the table vit", 0.49, 0.79, 0.63, 0.33),
)
# Largest difference in agreement between a space and a family that counts as similar.
SIMILAR_AGREEMENT = 0.08


def describe_similar_families(agreement: float) -> str:
    """Say in one sentence how well families with a similar agreement are ranked.

    Args:
        agreement: Mean rank correlation between the members on the space of the user.
    """
    similar = []
    for family in FAMILIES:
        if abs(family.agreement - agreement) <= SIMILAR_AGREEMENT:
            similar.append(family)
    if not similar:
        lowest = min(family.agreement for family in FAMILIES)
        highest = max(family.agreement for family in FAMILIES)
        return (
            f"None of the {len(FAMILIES)} benchmarks has a similar agreement; theirs range from "
            f"{lowest:.2f} to {highest:.2f}."
        )
    names = join_words([family.name for family in similar])
    consensus = _format_range([family.spearman for family in similar])
    flops = _format_range([family.flops_spearman for family in similar])
    return (
        f"On benchmarks with a similar agreement ({names}), the consensus has a rank correlation "
        f"with accuracy of {consensus}; FLOPs alone have {flops}."
    )


def _format_range(values: Sequence[float]) -> str:
    low = min(values)
    high = max(values)
    if low == high:
        return f"{low:.2f}"
    return f"{low:.2f} to {high:.2f}"
