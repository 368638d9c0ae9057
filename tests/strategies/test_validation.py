"""Which table validates proposals: the default table of a space, or a named one."""

import gzip

import pytest

from untrained.benchmarks import import_benchmark
from untrained.errors import UsageError
from untrained.spaces import load_space
from untrained.workflows.validation import Validation

CELL = (
    "[('sep_conv_3x3', 0), ('skip_connect', 1)"
    + ", ('max_pool_3x3', 0), ('max_pool_3x3', 1)" * 3
    + "]"
)
GENOTYPE = (
    f"Genotype(normal={CELL}, normal_concat=range(2, 6), reduce={CELL}, reduce_concat=range(2, 6))"
)
EDGES = [(0, 3), (1, 2), *[(0, 0), (1, 0)] * 3]  # the same cell as (source, operation)


@pytest.fixture
def root(tmp_path):
    """Two tables of DARTS cells: accuracy 94 % by a surrogate, 97 % by training."""
    files = {
        "nb301_zc12_acc.csv.gz": f'run,arch,val_accuracy\na,"{(EDGES, EDGES)}",94.0\n',
        "darts1000_cifar10.csv.gz": f'genotype,val_acc\n"{GENOTYPE}",97.0\n',
    }
    for file, text in files.items():
        (tmp_path / file).write_bytes(gzip.compress(text.encode()))
    for name in ("nasbench301", "darts1000"):
        import_benchmark(name, tmp_path, tmp_path)
    return tmp_path


def validate_cell(text: str, root):
    """Return the measure of a validation, and the value of a cell."""
    space = load_space("darts")
    validation = Validation.parse(text, "darts", root)
    evaluate = validation.extend_evaluator(lambda archs: ([] for _ in archs), space.task, 0, None)  # type: ignore[arg-type]
    ((record,),) = evaluate([space.parse(GENOTYPE)])
    assert record.measure == validation.measure
    return record.measure, record.value


def test_a_table_is_named_or_the_first_of_the_space_is_used(root):
    assert validate_cell("table:cifar10_val", root) == ("table:cifar10_val@1", 94.0)
    assert validate_cell("table:darts1000:cifar10_val_200", root) == (
        "table:darts1000:cifar10_val_200@1",
        97.0,
    )


def test_the_default_table_has_the_same_measure_with_and_without_its_name(root):
    assert validate_cell("table:nasbench301:cifar10_val", root) == validate_cell(
        "table:cifar10_val", root
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "table:darts100:cifar10_val",
            "darts has no table 'darts100'; it has nasbench301, darts1000; type table:",
        ),
        (
            "table:nasbench201:cifar10_val_12",
            "darts has no table 'nasbench201'; it has nasbench301, darts1000",
        ),
        (
            "table:cifar10_val_200",
            "no metric of nasbench301 .* darts also has table:darts1000:METRIC",
        ),
        (
            "table:darts1000:nothing",
            "no metric of darts1000 .* darts also has table:nasbench301:METRIC",
        ),
    ],
)
def test_an_unknown_table_or_metric_lists_the_known_ones(root, text, message):
    with pytest.raises(UsageError, match=message) as caught:
        Validation.parse(text, "darts", root)
    assert "\n" not in str(caught.value)


def test_a_missing_table_points_to_an_imported_one(root):
    (root / "benchmarks" / "nasbench301.parquet").unlink()
    with pytest.raises(
        UsageError, match=r"data import nasbench301 PATH.*darts also has table:darts1000:METRIC"
    ):
        Validation.parse("table:cifar10_val", "darts", root)
    assert validate_cell("table:darts1000:cifar10_val_200", root)[1] == 97.0
