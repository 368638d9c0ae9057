"""Every proxy compared with the authors' code on every golden architecture.

The published values are float32, and the last bits of a convolution depend on the machine. Each row
of the table has its tolerance. Artefacts of the authors' code are in `test_artefacts.py`, Dextr is
in `test_dextr.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any

import pytest
import torch

from tests.golden.reference import build_network_a, load_inputs, read_number
from tests.golden.scores import (
    CASES,
    CONNECTED,
    DISCONNECTED,
    MARKS,
    compute_scores,
    for_each,
    get_rounding_factor,
)
from untrained.errors import Unscorable

pytestmark = MARKS
Metrics = dict[str, Any]
# From a published value and all metrics of the architecture to the allowed difference.
Tolerance = Callable[[float, Metrics], float]


def allow_relative(share: float) -> Tolerance:
    """Allow a share of the value."""
    return lambda value, metrics: share * abs(value)


def allow_part_of(key: str, share: float = 1e-4) -> Tolerance:
    """Allow a share of another metric, for sums whose terms cancel."""
    return lambda value, metrics: share * abs(read_metric(metrics, key))


def allow_for_condition(value: float, metrics: Metrics) -> float:
    """Allow more for a large condition number, whose smallest eigenvalue is a small difference."""
    return (2e-3 if value > 1e3 else 1e-3) * value


def allow_for_eigenvalues(value: float, metrics: Metrics) -> float:
    """Allow 1e-6 per hook call, since each adds a smallest eigenvalue near zero in float32."""
    return 1e-4 * value + 1e-6 * float(metrics["F.dextr.script_n_hook_calls"])


FIRST_ORDER = allow_relative(1e-4)
SECOND_ORDER = allow_relative(1e-3)
# A single weight whose gradients differ in their last bit can be 99 % of the sum of its layer.
TWO_BATCHES = allow_relative(2e-2)


@dataclass(frozen=True)
class Row:
    """A published metric and our proxy for it."""

    key: str  # of the golden file, with `/` before the part of a value that has parts
    proxy: str
    tolerance: Tolerance = FIRST_ORDER

    @property
    def net(self) -> str:
        """The network, A or F."""
        return self.key[0]


def make_rows(key: str, proxy: str, *tolerance: Tolerance) -> list[Row]:
    """Return rows for both networks."""
    return [Row(f"{net}.{key}", proxy, *tolerance) for net in "AF"]


TABLE = [
    *make_rows("zerocost.grad_norm", "grad_norm"),
    *make_rows("zerocost.snip", "snip"),
    *make_rows("zerocost.fisher", "fisher"),
    *make_rows("zerocost.jacob_cov", "jacob_cov"),
    *make_rows("zerocost.synflow_bn", "synflow(norms=kept)"),
    *make_rows("hnas.ntk_trace_b64", "trace"),
    *make_rows("hnas.condnum_b64", "ntk_condition", allow_for_condition),
    *make_rows("zerocost.grasp", "grasp", SECOND_ORDER),
    Row("A.zerocost.plain", "plain", allow_part_of("A.zerocost.snip")),
    Row("F.zerocost.plain", "plain", allow_part_of("F.zerocost.snip")),
    Row("A.zerocost.synflow", "synflow"),
    Row("A.naswot_b64", "naswot(variant=published)"),
    Row("A.naswot_b128", "naswot(variant=published,samples=128)"),
    Row(
        "A.tenas_ntk_b16_full_net",
        "te_nas_condition(variant=published,samples=16)",
        allow_for_condition,
    ),
    Row("A.tenas_linear_regions_b64_full_net", "te_nas_regions", allow_relative(0)),
    Row("A.swap_b16", "swap"),
    Row("A.zico_2x64", "zico", TWO_BATCHES),
    Row("A.zico_4x64", "zico(batches=4,samples=256)"),
    Row("A.sigeo_notebook_4x64/zico", "zico(batches=4,samples=256)"),
    Row("A.sigeo_notebook_4x64/zico_plus_logFR", "sigeo(variant=notebook)"),
    Row("A.zen_fixed_b16", "zen"),
    Row("A.aznas_fixed_b16/expressivity", "expressivity"),
    Row(
        "A.aznas_fixed_b16/progressivity",
        "progressivity",
        allow_part_of("A.aznas_fixed_b16/expressivity", 1e-5),
    ),
    Row("A.aznas_fixed_b16/trainability", "trainability"),
    Row("F.meco.meco_script_b1_32", "meco(variant=published)", allow_for_eigenvalues),
    Row("F.meco.meco_script_b64_32", "meco(variant=published,samples=64)", allow_for_eigenvalues),
    Row("F.meco.meco_measure_64", "meco 64", allow_for_eigenvalues),
]
SIZES = [  # they need no data, so a disconnected network has them too
    Row("A.zerocost.l2_norm", "l2_norm"),
    Row("A.params", "params", allow_relative(0)),
    Row("A.zerocost.params_all_registered", "params", allow_relative(0)),
]


def read_metric(metrics: Metrics, key: str) -> float:
    base, _, part = key.partition("/")
    return read_number(metrics[base][part] if part else metrics[base])


def get_row_key(row: Row) -> str:
    return row.key


@for_each(CONNECTED)
@pytest.mark.parametrize("row", TABLE, ids=get_row_key)
def test_our_score_equals_the_published_value(row, text, metrics):
    published = read_metric(metrics, row.key)
    ours = compute_scores(row.net, text).values[row.proxy]
    if not isfinite(published):  # our value is tested in test_artefacts.py
        assert row.key in ARTEFACTS[text]
        return
    assert ours == pytest.approx(
        published, rel=0, abs=get_rounding_factor() * row.tolerance(published, metrics)
    )


@for_each(CASES)
@pytest.mark.parametrize("row", SIZES, ids=get_row_key)
def test_our_size_equals_the_published_one_including_layers_that_do_not_run(row, text, metrics):
    published = read_metric(metrics, row.key)
    assert compute_scores(row.net, text).values[row.proxy] == pytest.approx(
        published, rel=0, abs=row.tolerance(published, metrics)
    )


SKIPS = "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|skip_connect~0|skip_connect~1|skip_connect~2|"
ONE_SKIP = "|none~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|"
# The published values are minus infinity: a negative eigenvalue, a block that is the identity.
ARTEFACTS = {
    SKIPS: ("A.aznas_fixed_b16/expressivity", "A.aznas_fixed_b16/progressivity"),
    ONE_SKIP: ("A.aznas_fixed_b16/trainability",),
}


@for_each([(text, metrics) for text, metrics in CASES if text in DISCONNECTED])
@pytest.mark.parametrize("row", TABLE, ids=get_row_key)
def test_a_disconnected_network_has_no_score_although_the_authors_print_numbers(row, text, metrics):
    """Published are 0, 1, NaN, -inf, 1e5, condition numbers of -6.5e6, and values of other layers."""
    failure = compute_scores(row.net, text).values[row.proxy]
    assert isinstance(failure, Unscorable)
    assert failure.kind == "disconnected"


def test_two_of_the_architectures_are_disconnected():
    assert sorted(DISCONNECTED) == [
        "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|",
        "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|none~0|none~1|none~2|",
    ]


@for_each(CASES)
def test_both_networks_have_the_published_outputs(text, metrics):
    with torch.no_grad():
        eval_logits = build_network_a(text).eval()(load_inputs()["x"][:1])[0]
    outputs = {
        "A.logits_first_sample_train_b64": compute_scores("A", text).logits,
        "A.zerocost.logits_first_sample_train": compute_scores("A", text).logits,
        "F.zerocost.logits_first_sample_train": compute_scores("F", text).logits,
        "A.logits_first_sample_eval": eval_logits,
    }
    for key, logits in outputs.items():
        torch.testing.assert_close(
            logits,
            torch.tensor(metrics[key]),
            rtol=get_rounding_factor() * 1e-4,
            atol=get_rounding_factor() * 1e-5,
        )


@for_each(CONNECTED)
def test_losses_and_gradients_of_four_batches_equal_the_published_ones(text, metrics):
    batches = compute_scores("A", text).batches
    published = metrics["A.sigeo_notebook_4x64"]
    assert batches.losses == pytest.approx(published["losses"], rel=get_rounding_factor() * 1e-5)
    matrices = [name for name, g in batches.gradients[0].items() if g.ndim > 1]
    g = torch.cat(
        [torch.stack([part[name].flatten() for part in batches.gradients]) for name in matrices], 1
    )
    assert float(g.abs().mean(0).sum()) == pytest.approx(
        published["mean_abs_grad_sum"], rel=get_rounding_factor() * 1e-4
    )
    assert float(g.std(0, unbiased=False).sum()) == pytest.approx(
        published["std_grad_sum"], rel=get_rounding_factor() * 1e-4
    )


ELSEWHERE = {
    "test_artefacts.py": {
        "F.zerocost.l2_norm", "F.zerocost.params_all_registered", "F.zerocost.synflow",
        "A.hnas.naswot_b64", "F.hnas.naswot_b64", "F.meco.zico_mecorepo_2x64_cpu_alias",
        "F.meco.zico_mecorepo_2x64_gpu_semantics_accumulating", "A.sigeo_official_4x64_lr0_noclip",
        "A.sigeo_official_4x64_lr0.04_clip5", "F.meco.meco_opt_script_b1_32_seed0",
        "A.zen_official_own_init_b16_repeat4_seed0",
    },
    "test_spaces.py": {"A.flops_params_M_official"},
    "above": {
        "A.logits_first_sample_train_b64", "A.logits_first_sample_eval", "A.zerocost.logits_first_sample_train",
        "F.zerocost.logits_first_sample_train",
    },
}  # fmt: skip


def test_every_golden_metric_is_compared():
    compared = {row.key.partition("/")[0] for row in TABLE + SIZES}
    compared = compared.union(*ELSEWHERE.values())
    for _, metrics in CASES:
        assert {key for key in metrics if not key.startswith("F.dextr.")} == compared
