"""Matrices in the processor's order: the same products, a model that is as before afterwards."""

from __future__ import annotations

import pytest
import torch

from sottovoce.errors import ModelError, ParameterError
from sottovoce.models.lockstep import packed as _hf_lockstep_packed
from sottovoce.models.lockstep.packed import PackedMatrices


class Twice(torch.nn.Linear):
    """Not a plain linear layer: whoever takes it for one is wrong by half."""

    def forward(self, rows):
        return 2 * super().forward(rows)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(24, 40), torch.nn.GELU(), Twice(40, 8), torch.nn.Linear(8, 500, bias=False)
    )


@pytest.mark.parametrize("shape", [(1, 24), (9, 24), (2, 5, 24), (3, 1, 24)])
def test_products_are_the_same_up_to_rounding(model, shape):
    packed, rows = PackedMatrices(model), torch.randn(shape)
    with torch.no_grad():
        truth = model(rows)
        with packed():
            found = model(rows)
    assert packed.count == 2
    assert found.shape == truth.shape
    assert float((found - truth).abs().max()) < 1e-5


def test_the_copies_are_what_is_multiplied_and_only_within(model):
    packed, rows = PackedMatrices(model), torch.randn(4, 24)
    with torch.no_grad():
        before = model(rows)
        with packed():
            assert "forward" in vars(model[0])
            assert torch.allclose(model(rows), before, atol=1e-5)
        assert torch.equal(model(rows), before)
    assert not any("forward" in vars(module) for module in model.modules())


def test_weights_that_were_changed_are_refused(model):
    packed = PackedMatrices(model)
    with torch.no_grad():
        model[3].weight.mul_(-1)
    with pytest.raises(ModelError, match="Load it again"), packed():
        pass


def test_two_users_of_a_model_share_the_copies_and_the_last_puts_the_model_back(model):
    one, other = PackedMatrices.of(model), PackedMatrices.of(model)
    assert one is other
    with one():
        with other():
            pass
        assert "forward" in vars(model[0])
    assert "forward" not in vars(model[0])


def test_a_layer_with_a_forward_pass_of_its_own_keeps_it(model):
    own = model[0].forward
    model[0].forward = lambda rows: own(rows) + 5
    packed, rows = PackedMatrices.of(model), torch.randn(4, 24)
    with torch.no_grad():
        before = model(rows)
        with packed():
            assert torch.allclose(model(rows), before, atol=1e-5)
        assert torch.equal(model(rows), before)
    assert packed.count == 1


def test_a_failure_within_leaves_the_model_as_it_was(model):
    packed = PackedMatrices(model)
    with pytest.raises(RuntimeError), packed():
        model(torch.randn(4, 23))
    assert not any("forward" in vars(module) for module in model.modules())


def test_a_row_is_the_same_to_the_bit_whatever_the_others_hold(model):
    packed, rows = PackedMatrices(model), torch.randn(9, 24)
    others = torch.cat([rows[:1], torch.randn(8, 24)])
    with torch.no_grad(), packed():
        assert torch.equal(model(rows)[0], model(others)[0])


def test_half_precision_and_large_models_stay_as_they_are(model):
    assert PackedMatrices(model.bfloat16()).count == 0
    assert PackedMatrices(model.float(), most_bytes=1_000).count == 0


def test_two_users_cannot_have_two_limits(model):
    kept = PackedMatrices.of(model, 0)
    with pytest.raises(ParameterError, match="packed_bytes"):
        PackedMatrices.of(model)
    assert kept.count == 0


def test_a_torch_without_the_operations_or_with_wrong_ones_is_left_alone(model, monkeypatch):
    right = _hf_lockstep_packed._product

    def missing(module):
        raise AttributeError("no such operation")

    def wrong(module):
        return lambda rows: right(module)(rows) + 0.01

    for broken in (missing, wrong):
        monkeypatch.setattr(_hf_lockstep_packed, "_product", broken)
        assert PackedMatrices(model).count == 0
