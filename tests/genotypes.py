"""The spaces of DARTS and NASI and some genotypes, for tests."""

from untrained.spaces import load_space
from untrained.types import Task

darts = load_space("darts")
nasi = load_space("darts_nasi")
small = darts.with_options(channels=4, cells=3)  # normal, reduction, reduction
TASK = Task("noise", (3, 8, 8), 5)


def format_genotype(
    normal: list[tuple[str, int]],
    reduce: list[tuple[str, int]] | None = None,
    concat: str = "range(2, 6)",
) -> str:
    return f"Genotype(normal={normal}, normal_concat={concat}, reduce={reduce or normal}, reduce_concat={concat})"


def repeat_operation(op: str) -> list[tuple[str, int]]:
    return [(op, source) for _ in range(4) for source in (0, 1)]


SKIPS = format_genotype(repeat_operation("skip_connect"))
CONVS = format_genotype(repeat_operation("sep_conv_3x3"))
ENAS_LIKE = format_genotype([("sep_conv_7x7", 0), ("avg_pool_3x3", 0)] * 5, concat="[2, 4, 6]")
