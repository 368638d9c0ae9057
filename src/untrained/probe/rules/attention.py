"""Taylor rules of softmax and attention, written in terms of other rules.

Arguments are jets or tensors: each function below uses operations that have rules of their own.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.jets import taylor_rule


@taylor_rule("softmax")
def _softmax(input: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: object = None) -> Tensor:
    # The maximum is a constant that only avoids overflow.
    e = (input - input.detach().amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


@taylor_rule("log_softmax")
def _log_softmax(
    input: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: object = None
) -> Tensor:
    return input - input.logsumexp(dim, keepdim=True)


@taylor_rule("logsumexp")
def _logsumexp(input: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    # As in `_softmax`, the maximum is a constant.
    maximum = input.detach().amax(dim, keepdim=True)
    out = (input - maximum).exp().sum(dim, keepdim=True).log() + maximum
    if keepdim:
        return out
    return out.squeeze(dim)


@taylor_rule("glu")
def _glu(input: Tensor, dim: int = -1) -> Tensor:
    value, gate = input.chunk(2, dim)
    return value * gate.sigmoid()


@taylor_rule("normalize")
def _normalize(
    input: Tensor,
    p: float = 2.0,
    dim: int = 1,
    eps: float = 1e-12,
    out: Tensor | None = None,
) -> Tensor:
    if p != 2.0:
        raise Unscorable("unsupported", f"normalize with the {p}-norm")
    return input / (input * input).sum(dim, keepdim=True).sqrt().clamp_min(eps)


@taylor_rule("var")
def _variance(
    input: Tensor,
    dim: int | tuple[int, ...] | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: int | None = None,
) -> Tensor:
    centred = input - input.mean(dim, keepdim=True)
    count = input.numel() / input.detach().mean(dim).numel()
    if correction is None:
        correction = int(unbiased)
    return (centred * centred).sum(dim, keepdim=keepdim) / (count - correction)


@taylor_rule("scaled_dot_product_attention")
def _scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if enable_gqa:
        raise Unscorable("unsupported", "no Taylor rule for grouped-query attention")
    if is_causal:
        shape = (query.shape[-2], key.shape[-2])
        attn_mask = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        # Here a boolean True means "allowed".
        zeros = torch.zeros_like(attn_mask, dtype=query.dtype)
        attn_mask = zeros.masked_fill(~attn_mask, float("-inf"))
    return _attention_weights(query, key, attn_mask, scale) @ value


def _attention_weights(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    scale: float | None = None,
) -> Tensor:
    """softmax(q k^T * scale + mask), shape (..., L, S)"""
    if scale is None:
        scale = query.shape[-1] ** -0.5
    scores = query @ key.transpose(-2, -1) * scale
    if mask is not None:
        scores = scores + mask
    return scores.softmax(-1)


# The signature is torch's.
@taylor_rule("multi_head_attention_forward")
def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Compute attention from plain linear layers.

    Inputs have the sequence first, (L, N, E), as `nn.MultiheadAttention` passes them.
    """
    unsupported = (bias_k, bias_v, static_k, static_v)
    if add_zero_attn or query.ndim != 3 or any(x is not None for x in unsupported):
        detail = "no Taylor rule for attention with bias_k, static keys or unbatched inputs"
        raise Unscorable("unsupported", detail)
    matrices: tuple[Any, ...] = (q_proj_weight, k_proj_weight, v_proj_weight)
    if not use_separate_proj_weight:
        assert in_proj_weight is not None
        matrices = in_proj_weight.chunk(3)
    biases: tuple[Tensor | None, ...] = (None, None, None)
    if in_proj_bias is not None:
        biases = in_proj_bias.chunk(3)

    def project(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        """(L, N, E) -> (N, heads, L, E / heads)"""
        x = x.transpose(0, 1)  # samples on the first axis, as per-sample gradients expect
        heads = F.linear(x, matrix, bias).reshape(*x.shape[:2], num_heads, -1)
        return heads.permute(0, 2, 1, 3)

    q = project(query, matrices[0], biases[0])
    k = project(key, matrices[1], biases[1])
    v = project(value, matrices[2], biases[2])
    mask = _combine_masks(attn_mask, key_padding_mask, num_heads, q.dtype)
    weights = _attention_weights(q, k, mask)
    joined = (weights @ v).permute(0, 2, 1, 3).flatten(2)
    out = F.linear(joined, out_proj_weight, out_proj_bias).transpose(0, 1)
    if not need_weights:
        return out, None
    if average_attn_weights:
        weights = weights.mean(1)
    return out, weights


def _combine_masks(
    mask: Tensor | None,
    padding: Tensor | None,
    heads: int,
    dtype: torch.dtype,
) -> Tensor | None:
    """Combine the two masks of `nn.MultiheadAttention` into one additive mask.

    In these masks a boolean True means "not allowed". A mask with three axes is (N * heads, L, S),
    padding is (N, S); the result broadcasts to (N, heads, L, S).
    """
    if mask is not None:
        if mask.ndim == 3:
            mask = mask.reshape(-1, heads, *mask.shape[1:])
        mask = _make_additive(mask, dtype)
    if padding is not None:
        padding = _make_additive(padding[:, None, None, :], dtype)
    if mask is None:
        return padding
    if padding is None:
        return mask
    return mask + padding


def _make_additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, float("-inf"))
