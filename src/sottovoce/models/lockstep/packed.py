"""Matrices in the order that the processor's kernels read them, put in that order once.

torch multiplies a few rows by a matrix through a general routine, which puts the matrix in another order at every call;
for the few rows of a step that is most of the work. oneDNN keeps matrices in its own order: 2.6 to 4.5 times as fast
for a head of 32,000 words and 2 to 132 rows, measured on an AMD EPYC (``docs/log.md``).

Isolation   The shape of a product decides how it is computed, not what other rows hold; passes have one shape, and the
            self-test asks.
Assumes     The model's weights do not change while a stepper is in use: what is multiplied is a copy. A change in place
            is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast, final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from sottovoce.errors import ModelError, ParameterError

Product = Callable[[Tensor], Tensor]
"""A layer's forward pass."""

MOST_BYTES: Final = 1 << 30
"""Of copies, by default. Larger models stay as they are: for them a copy costs more than the time is worth."""


@final
class PackedMatrices:
    """Copies of a model's matrices, which stand in for them within a ``with``.

    Whoever uses the same model at the same time shares them: the last one to leave puts everything back.

    Args:
        model: Any module. It is as before once nobody is within.
        most_bytes: Most bytes of copies; of a model that needs more, nothing is copied.

    Attributes:
        count: Matrices that were copied; 0 where that brings nothing or cannot be done.
        most_bytes: As given.
    """

    def __init__(self, model: torch.nn.Module, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        layers = [
            module
            for module in model.modules()
            # A forward pass of its own, such as a hook puts there, is not ours to replace.
            if type(module) is torch.nn.Linear and "forward" not in vars(module) and _suits(module.weight)
        ]
        size = sum(module.weight.numel() * module.weight.element_size() for module in layers)
        self._layers: list[tuple[torch.nn.Linear, Product, int]] = []
        if layers and size <= most_bytes and _works():
            self._layers = [(module, _product(module), module.weight._version) for module in layers]
        self.count = len(self._layers)
        self._lock, self._within = threading.Lock(), 0

    @staticmethod
    def of(model: torch.nn.Module, most_bytes: int = MOST_BYTES) -> PackedMatrices:
        """Those of this model: the same ones for everybody who asks while they are in use.

        Raises:
            ParameterError: They are in use with another limit.
        """
        with _SHARED_LOCK:
            matrices = _SHARED.get(model)
            if matrices is None:
                matrices = _SHARED[model] = PackedMatrices(model, most_bytes)
            if matrices.most_bytes != most_bytes:
                raise ParameterError(
                    "packed_bytes", most_bytes, f"{matrices.most_bytes}, as this model is in use already"
                )
            return matrices

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Within, the model multiplies by the copies.

        Raises:
            ModelError: Weights were changed since they were copied.
        """
        with self._lock:
            if any(module.weight._version != version for module, _, version in self._layers):
                raise ModelError("The model's weights were changed after it was taken into use. Load it again.")
            self._within += 1
            if self._within == 1:
                for module, product, _ in self._layers:
                    module.__dict__["forward"] = product
        try:
            yield
        finally:
            with self._lock:
                self._within -= 1
                if not self._within:
                    for module, _, _ in self._layers:
                        module.__dict__.pop("forward", None)


_SHARED: WeakKeyDictionary[torch.nn.Module, PackedMatrices] = WeakKeyDictionary()
_SHARED_LOCK: Final = threading.Lock()


def _suits(weight: Tensor) -> bool:
    plain = weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() > 0
    return plain and not weight.is_inference()  # which does not tell when it was changed


def _product(module: torch.nn.Linear) -> Product:
    """The module's forward pass with its matrix packed."""
    packed = torch.ops.mkldnn._reorder_linear_weight(module.weight.detach())
    bias = None if module.bias is None else module.bias.detach().clone()

    def forward(rows: Tensor) -> Tensor:
        flat = rows.reshape(-1, rows.shape[-1])
        return cast(Tensor, torch.ops.mkldnn._linear_pointwise(flat, packed, bias, "none", [], "")).view(
            *rows.shape[:-1], -1
        )

    return forward


def _works() -> bool:
    """Whether this build of torch has these operations, which it keeps for its own compiler, and they are right."""
    tried: Any = torch.nn.Linear(8, 16)
    rows = torch.linspace(-1, 1, 24).reshape(3, 8)
    try:
        with torch.no_grad():
            return bool((_product(tried)(rows) - tried(rows)).abs().max() < 1e-5)
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
