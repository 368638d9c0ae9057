"""Rules for softmax and attention, written in terms of the other rules."""

from typing import Any

import torch
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.jets import rule


@rule("softmax")
def _(input: Any, dim: int = -1, _stacklevel: int = 3, dtype: Any = None) -> Any:
    e = (input - input.detach().amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


@rule("log_softmax")
def _(input: Any, dim: int = -1, _stacklevel: int = 3, dtype: Any = None) -> Any:
    return input - input.logsumexp(dim, keepdim=True)


@rule("logsumexp")
def _(input: Any, dim: int, keepdim: bool = False) -> Any:
    top = input.detach().amax(dim, keepdim=True)
    out = (input - top).exp().sum(dim, keepdim=True).log() + top
    return out if keepdim else out.squeeze(dim)


@rule("glu")
def _(input: Any, dim: int = -1) -> Any:
    value, gate = input.chunk(2, dim)
    return value * gate.sigmoid()


@rule("normalize")
def _(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Any:
    if p != 2.0:
        raise Unscorable("unsupported", f"normalize with the {p}-norm")
    return input / (input * input).sum(dim, keepdim=True).sqrt().clamp_min(eps)


@rule("var")
def _(
    input: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None
) -> Any:
    centred = input - input.mean(dim, keepdim=True)
    count = input.numel() / input.detach().mean(dim).numel()
    freedom = count - (int(unbiased) if correction is None else correction)
    return (centred * centred).sum(dim, keepdim=keepdim) / freedom


@rule("scaled_dot_product_attention")
def _(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if enable_gqa:
        raise Unscorable("unsupported", "no Taylor rule for grouped-query attention")
    if is_causal:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, float("-inf"))
    return _weights(query, key, attn_mask, scale) @ value


def _weights(query: Any, key: Any, mask: Any, scale: float | None = None) -> Any:
    """softmax(q k^T * scale + mask), shape (..., L, S)."""
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    return (scores if mask is None else scores + mask).softmax(-1)


@rule("multi_head_attention_forward")
def attention(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Any:
    """Sequence first, (L, N, E), as `nn.MultiheadAttention` passes its inputs. The signature is torch's."""
    odd = [x for x in (bias_k, bias_v, static_k, static_v) if x is not None]
    if odd or add_zero_attn or query.ndim != 3:
        raise Unscorable("unsupported", "no Taylor rule for attention with bias_k, static keys or unbatched inputs")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    matrices = separate if use_separate_proj_weight else in_proj_weight.chunk(3)
    biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)

    def heads(x: Any, matrix: Any, bias: Any) -> Any:  # (L, N, E) -> (N, heads, L, E / heads)
        x = x.transpose(0, 1)  # whoever listens finds samples on the first axis, as everywhere
        return F.linear(x, matrix, bias).reshape(*x.shape[:2], num_heads, -1).permute(0, 2, 1, 3)

    q, k, v = (heads(*parts) for parts in zip((query, key, value), matrices, biases, strict=True))
    weights = _weights(q, k, _mask(attn_mask, key_padding_mask, num_heads, q.dtype))
    out = F.linear((weights @ v).permute(0, 2, 1, 3).flatten(2), out_proj_weight, out_proj_bias).transpose(0, 1)
    if not need_weights:
        return out, None
    return out, weights.mean(1) if average_attn_weights else weights


def _mask(mask: Any, padding: Any, heads: int, dtype: torch.dtype) -> Any:
    """One additive mask, broadcastable to (N, heads, L, S), from the two of `nn.MultiheadAttention`; there a boolean
    True means 'not allowed', a 3-d mask is (N * heads, L, S) and padding is (N, S)."""
    if mask is not None and mask.ndim == 3:
        mask = mask.reshape(-1, heads, *mask.shape[1:])
    if padding is not None:
        padding = padding[:, None, None, :]
    parts = [_additive(part, dtype) for part in (mask, padding) if part is not None]
    return sum(parts[1:], parts[0]) if parts else None


def _additive(mask: Any, dtype: torch.dtype) -> Any:
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, float("-inf"))
