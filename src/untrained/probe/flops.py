"""Count operations.

torch's `FlopCounterMode` also keeps statistics per module, which makes counting a small network ten
times slower than running it. `FlopCounter` leaves them out. It also counts networks on the meta
device.

Convolutions, matrix products and attention are counted by torch's own formulas, two operations per
multiply-add. The formulas below add what torch leaves out, in the same convention. Elementwise
functions, normalisation, pooling, interpolation and functions that only move entries count as 0, as
in torch and in the literature. Every other operation has an unknown count (None), never 0.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from untrained.probe.jets import Args, Kwargs


class Operation(NamedTuple):
    """One call of a torch function."""

    kind: str  # `convolution 3x3`, `convolution 3x3 grouped`, `addmm`, ...
    # Two per multiply-add, as torch counts. None: there is no formula.
    float_operations: int | None
    bytes: int  # memory of new tensors; views and in-place results need none

    def halve(self) -> "Operation":
        """Return the operation for one sample, if it was counted on two."""
        float_operations = self.float_operations
        if float_operations is not None:
            float_operations //= 2
        return self._replace(float_operations=float_operations, bytes=self.bytes // 2)


def _infer_batch_norm(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty(x.shape[1]), x.new_empty(x.shape[1])


# On the meta device torch computes the shapes of these results in Python, which takes three
# quarters of the time of counting. These functions return the same shapes faster.
_META_RESULTS: dict[object, Callable[[Tensor], object]] = {
    torch.ops.aten.relu.default: torch.empty_like,
    torch.ops.aten.native_batch_norm.default: _infer_batch_norm,
}


# Functions without multiply-adds that torch does not tag as pointwise. In-place versions are listed
# without their underscore.
_WITHOUT_PRODUCTS = frozenset(
    """
    _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d avg_pool2d
    avg_pool3d fractional_max_pool2d max_pool2d_with_indices max_pool3d_with_indices max_unpool2d
    max_unpool3d

    _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_lanczos2d_aa _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_bicubic2d upsample_bilinear2d
    upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
    affine_grid_generator grid_sampler_2d grid_sampler_3d

    _batch_norm_no_update _batch_norm_with_update _batch_norm_with_update_functional _fused_rms_norm
    _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _weight_norm_interface batch_norm_stats cudnn_batch_norm
    miopen_batch_norm native_batch_norm native_group_norm native_layer_norm renorm

    _log_softmax _safe_softmax _softmax _prelu_kernel _thnn_fused_gru_cell _thnn_fused_lstm_cell abs
    complex copysign eq floor_divide gcd ge gelu glu gt hardswish heaviside isin lcm le
    log_sigmoid_forward lt masked_fill mish ne polar rrelu_with_noise rrelu_with_noise_functional
    rsub threshold where xlogy

    _embedding_bag _embedding_bag_forward_only embedding embedding_renorm

    all amax amin aminmax any argmax argmin argsort bincount count_nonzero cummax cummin cumprod
    cumsum dist histc kthvalue linalg_vector_norm logcumsumexp logsumexp max mean median min mode
    nanmedian norm prod segment_reduce sort std std_mean sum topk trace var var_mean
    unique_consecutive unique_dim _unique _unique2 bucketize searchsorted

    binary_cross_entropy binary_cross_entropy_with_logits huber_loss mse_loss multi_margin_loss
    nll_loss2d_forward nll_loss_forward smooth_l1_loss soft_margin_loss

    _fused_dropout _standard_gamma bernoulli cauchy exponential geometric log_normal multinomial
    native_dropout normal poisson rand_like randint_like randn_like uniform

    _assert_async _assert_tensor_metadata _chunk_cat _jagged_to_padded_dense_forward
    _local_scalar_dense _nested_tensor_from_tensor_list _pack_padded_sequence
    _padded_dense_to_jagged_forward _pin_memory _resize_output _to_copy _to_dense _unsafe_index
    _unsafe_index_put _unsafe_masked_index _unsafe_view alias_copy as_strided as_strided_copy
    as_strided_scatter block_diag cat channel_shuffle col2im constant_pad_nd copy diag_embed
    diagonal_copy diagonal_scatter empty_like equal expand_copy fill flip full_like gather im2col
    index index_add index_copy index_fill index_put index_reduce index_select is_pinned is_same_size
    item lift lift_fresh lift_fresh_copy masked_scatter masked_select narrow_copy new_empty
    new_empty_strided new_full new_ones new_zeros nonzero nonzero_static ones_like permute_copy
    pixel_shuffle pixel_unshuffle reflection_pad1d reflection_pad2d reflection_pad3d repeat
    repeat_interleave replication_pad1d replication_pad2d replication_pad3d resize resize_as roll
    rot90 scatter scatter_add scatter_reduce select_scatter set slice_scatter split_with_sizes_copy
    squeeze squeeze_copy stack t t_copy take transpose transpose_copy tril triu unbind_copy
    unfold_copy unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_copy view_copy zero
    zeros_like
    """.split()
)


class FlopCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that appends every call of a torch function to `operations`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []

    @property
    def float_operations(self) -> int:
        """Two per multiply-add, summed over all operations that have a formula."""
        return sum(operation.float_operations or 0 for operation in self.operations)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch imports its compiler, which takes more than a second. Nothing is compiled.
        return False

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        kwargs = kwargs or {}
        infer_result = None
        if args and isinstance(args[0], Tensor) and args[0].is_meta:
            infer_result = _META_RESULTS.get(func)
        out = func(*args, **kwargs) if infer_result is None else infer_result(args[0])
        float_operations = _count_float_operations(func, args, kwargs, out)
        memory = 0
        for tensor in _find_new_tensors(func, out):
            memory += tensor.numel() * tensor.element_size()
        self.operations.append(Operation(_describe_call(func, args), float_operations, memory))
        return out


@contextmanager
def count_operations() -> Iterator[FlopCounter]:
    """Count the operations that the body of the `with` statement calls.

    Gradients are off, and so is fused attention, which has no formula on a CPU.
    """
    fused_attention = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounter() as counter:
            yield counter
    finally:
        torch.backends.mha.set_fastpath_enabled(fused_attention)


def find_uncounted(operations: Iterable[Operation]) -> list[str]:
    """Return the kinds of operations that have no formula, each once."""
    kinds: dict[str, None] = {}
    for operation in operations:
        if operation.float_operations is None:
            kinds[operation.kind] = None
    return list(kinds)


# ------------------------------------------------- formulas that torch does not have


def _count_lstm_layer(args: Args, out: object) -> int:
    """Count one layer of an LSTM in one direction on a CPU.

    The call is `mkldnn_rnn_layer(input, W_ih, W_hh, ...)`. Every step of every sequence multiplies
    its input by W_ih and its hidden state by W_hh.
    """
    inputs = args[0]
    return 2 * _count_steps(inputs) * _count_matrix_entries(args[1:5])


def _count_recurrent_network(args: Args, out: object) -> int:
    """Count all layers and directions of an LSTM, GRU or RNN on a GPU.

    The call is `_cudnn_rnn(input, weights, ...)`. Every step multiplies once by every matrix: W_ih
    and W_hh of all gates and, with projections, W_hr.
    """
    inputs, weights = args[:2]
    return 2 * _count_steps(inputs) * _count_matrix_entries(weights)


def _count_steps(inputs: Tensor) -> int:
    """Count the steps of all sequences.

    Packed sequences are (steps, features), others (steps, sequences, features).
    """
    return inputs.numel() // max(1, inputs.shape[-1])


def _count_matrix_entries(weights: Iterable[Tensor]) -> int:
    """Return the number of entries of all matrices; biases are vectors and do not count."""
    return sum(weight.numel() for weight in weights if weight.ndim == 2)


def _count_bilinear(args: Args, out: object) -> int:
    """Count x A y of every output of `_trilinear(x, A, y, ...)`: first A y, then x times A y."""
    x, weight, _ = args[:3]
    outputs, left, right = weight.shape
    return int(2 * x.shape[0] * outputs * (left * right + left))


def _count_matrix_vector(args: Args, out: object) -> int:
    matrix = args[-2]  # mv(matrix, vector), addmv(bias, matrix, vector)
    return int(2 * matrix.numel())


def _count_dot(args: Args, out: object) -> int:
    return int(2 * args[0].numel())


def _count_product_sum(args: Args, out: object) -> int:
    """Count addbmm(bias, a, b), addmm(bias, a, b) and baddbmm(bias, a, b), also in place."""
    left, right = args[1:3]
    return int(2 * left.numel() * right.shape[-1])


def _count_convolution_over_time(args: Args, out: object) -> int:
    """Count conv_tbc(input, weight, ...).

    The weight is (kernel, inputs, outputs) and out is (time, batch, outputs).
    """
    weight = args[1]
    assert isinstance(out, Tensor)
    return int(2 * out.shape[0] * out.shape[1] * weight.numel())


_FORMULAS: dict[str, Callable[[Args, object], int]] = {
    "_cudnn_rnn": _count_recurrent_network,
    "_trilinear": _count_bilinear,
    "addbmm": _count_product_sum,
    "addbmm_": _count_product_sum,
    "addmm_": _count_product_sum,
    "addmv": _count_matrix_vector,
    "addmv_": _count_matrix_vector,
    "baddbmm_": _count_product_sum,
    "conv_tbc": _count_convolution_over_time,
    "dot": _count_dot,
    "miopen_rnn": _count_recurrent_network,
    "mkldnn_rnn_layer": _count_lstm_layer,
    "mv": _count_matrix_vector,
    "vdot": _count_dot,
}


def _count_float_operations(
    func: OpOverload,
    args: Args,
    kwargs: Kwargs,
    out: object,
) -> int | None:
    """Count the operations of one call, two per multiply-add; None if there is no formula."""
    formula = flop_registry.get(func._overloadpacket)
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=out))
    if func.namespace == "aten":
        own_formula = _FORMULAS.get(_get_function_name(func))
        if own_formula is not None:
            return own_formula(args, out)
    if _has_no_products(func):
        return 0
    return None


@cache
def _has_no_products(func: OpOverload) -> bool:
    """Whether a function has no multiply-adds.

    Such functions create tensors, return views, or compute entry by entry.
    """
    if func.namespace not in ("aten", "prims"):
        return False
    # In-place versions end with an underscore.
    name = _get_function_name(func).rstrip("_")
    if torch.Tag.pointwise in func.tags or name in _WITHOUT_PRODUCTS:
        return True
    if not any("Tensor" in str(argument.type) for argument in func._schema.arguments):
        return True
    aliases = [value.alias_info for value in func._schema.returns]
    return bool(aliases) and all(alias is not None and not alias.is_write for alias in aliases)


def _get_function_name(func: OpOverload) -> str:
    return str(func._schema.name).partition("::")[2]


def _describe_call(func: OpOverload, args: Args) -> str:
    name = str(func._schema.name).removeprefix("aten::")
    if name != "convolution":
        return name
    weight = args[1]
    groups = args[8]
    kernel = "x".join(map(str, weight.shape[2:]))
    if groups > 1:
        return f"{name} {kernel} grouped"
    return f"{name} {kernel}"


def _find_new_tensors(func: OpOverload, out: object) -> Iterator[Tensor]:
    """Yield the results that are not aliases of arguments, by the schema of the function."""
    results = out if isinstance(out, tuple | list) else (out,)
    declared = func._schema.returns
    for index, result in enumerate(results):
        alias = None
        if declared:
            # A function that returns a list declares a single result.
            alias = declared[min(index, len(declared) - 1)].alias_info
        if isinstance(result, Tensor) and alias is None:
            yield result
