"""How far a model's own logits are from exact ones: the measure of what may count as rounding.

Trained models have hidden states of many thousands, and what is left when such numbers cancel has few right digits. How
many follows from the weights and the text, so no constant can tell a rounding error from a mistake. The same tokens
are read a second time with weights and products in float64, and the difference is how far off one plain pass is.

Memory      The weights are not copied: each matrix is widened while it is multiplied, a block of rows at a time.
Assumes     Layers keep their weights as parameters of the module that uses them. Where norms or rotations compute in
            float32 whatever they are given, their rounding is in both passes and is not measured.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

ROUNDINGS: Final = 8
"""How many times a plain pass's own rounding another way of computing may differ by."""
DIGITS: Final = 4
"""Roundings of the largest logit that are always allowed."""
BLOCK: Final = 64 << 20
"""Bytes of a matrix that are widened at once."""


def largest_rounding(model: nn.Module, ids: Tensor) -> float | None:
    """Largest difference between a model's logits and those of the same pass in float64.

    Args:
        model: A causal language model of the transformers library. It is not changed, and may be in use elsewhere.
        ids: Tokens, shape (rows, length).

    Returns:
        In logits; ``None`` for a model that cannot be run in float64, such as one with packed integers for weights.
    """
    try:
        plain = cast(Any, model)(input_ids=ids, use_cache=False).logits.double()
        exact = cast(Any, widened(model))(input_ids=ids, use_cache=False).logits.double()
        gap = float((plain - exact).abs().max())
    except (RuntimeError, TypeError, AttributeError, NotImplementedError):
        return None
    return gap if gap < float("inf") else None


def allowed_difference(rounding: float | None, largest: float, dtype: torch.dtype) -> float:
    """Most that logits may differ by and count as the same.

    Args:
        rounding: What ``largest_rounding`` gave; ``None`` allows what four times as many digits of the largest do.
        largest: The largest logit.
        dtype: Of the model.

    Example:
        >>> f"{allowed_difference(1e-4, 20.0, torch.float32):.2e}"
        '8.10e-04'
    """
    digits = torch.finfo(dtype).eps * largest
    return 4 * DIGITS * digits if rounding is None else ROUNDINGS * rounding + DIGITS * digits


def allowed_on(model: nn.Module, ids: Tensor, difference: float, largest: float) -> float:
    """``allowed_difference`` on these tokens. They are read in float64 only where the difference needs to be explained.

    Args:
        model: The model, in one dtype.
        ids: Tokens, shape (rows, length).
        difference: Between two ways of computing their logits.
        largest: The largest logit.
    """
    dtype = cast(torch.dtype, model.dtype)
    digits = DIGITS * torch.finfo(dtype).eps * largest
    return digits if difference <= digits else allowed_difference(largest_rounding(model, ids), largest, dtype)


def widened(module: nn.Module) -> nn.Module:
    """A module that computes as this one does, in float64. Both use the same weights."""
    return _twin(module, {})


def _twin(module: nn.Module, known: dict[int, nn.Module]) -> nn.Module:
    if id(module) in known:
        return known[id(module)]
    twin = known[id(module)] = copy.copy(module)
    for name in ("_parameters", "_buffers", "_modules"):
        twin.__dict__[name] = dict(module.__dict__[name])
    twin.__dict__.pop("forward", None)
    if type(module) is nn.Linear:
        twin.__dict__["forward"] = _product(module)
    elif module._parameters:
        inner = twin.forward
        twin.__dict__["forward"] = (
            _looked_up(inner) if isinstance(module, nn.Embedding) else _with_wide_weights(twin, inner)
        )
    for name, child in module._modules.items():
        twin._modules[name] = None if child is None else _twin(child, known)
    return twin


def _product(module: nn.Linear) -> Callable[[Tensor], Tensor]:
    weight, bias = module.weight, module.bias
    step = max(1, BLOCK // (8 * weight.shape[1]))

    def forward(rows: Tensor) -> Tensor:
        rows = rows.double()
        product = torch.cat([rows @ weight[at : at + step].double().mT for at in range(0, len(weight), step)], dim=-1)
        return product if bias is None else product + bias.double()

    return forward


def _looked_up(inner: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *given, **options: inner(*given, **options).double()


def _with_wide_weights(twin: nn.Module, inner: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*given: Any, **options: Any) -> Any:
        kept = dict(twin._parameters)
        try:
            for name, weight in kept.items():
                if weight is not None and weight.is_floating_point():
                    twin._parameters[name] = nn.Parameter(weight.double(), requires_grad=False)
            return inner(*given, **options)
        finally:
            twin._parameters = kept

    return forward
