"""What may count as rounding: measured by a pass in float64, which leaves the model as it is."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from models import tiny  # noqa: E402
from sottovoce.models.huggingface.rounding import allowed_on, largest_rounding, widened  # noqa: E402

IDS = torch.tensor([[31, 348, 7, 60, 112, 5]])


@pytest.fixture(autouse=True)
def _no_gradient():
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2", "gemma2", "loud"])
def test_the_wide_pass_is_that_of_a_model_whose_weights_are_all_float64(name):
    model = getattr(tiny, name)().eval()
    found = widened(model)(input_ids=IDS).logits
    truth = getattr(tiny, name)().eval().double()(input_ids=IDS).logits
    plain = model(input_ids=IDS).logits
    assert found.dtype == torch.float64
    assert (found - truth).abs().max() < 0.5 * (plain - truth).abs().max()


def test_the_model_and_its_weights_stay_as_they_are():
    model = tiny.llama().eval()
    before = {name: (weight, weight.clone()) for name, weight in model.named_parameters()}
    largest_rounding(model, IDS)
    assert all(weight is before[name][0] for name, weight in model.named_parameters())
    assert all(torch.equal(weight, copy) for weight, copy in before.values())
    assert not any("forward" in vars(module) for module in model.modules())


def test_large_states_round_more_and_a_shorter_dtype_more_still():
    quiet, loud = (largest_rounding(make().eval(), IDS) for make in (tiny.llama, tiny.loud))
    short = largest_rounding(tiny.llama().eval().bfloat16(), IDS)
    assert quiet < 5e-5 < loud < 5e-3 < short


def test_a_model_that_cannot_be_widened_is_allowed_what_its_digits_are():
    def only_float32(_, __, out):
        if out.dtype != torch.float32:
            raise NotImplementedError
        return out

    model = tiny.llama().eval()
    model.model.layers[0].register_forward_hook(only_float32)
    assert largest_rounding(model, IDS) is None
    assert allowed_on(model, IDS, 1.0, 10.0) == pytest.approx(16 * 10 * 2**-23)


def test_what_needs_no_explanation_costs_no_second_pass():
    model = tiny.llama()
    model.forward = None
    assert allowed_on(model, IDS, 1e-7, 10.0) == pytest.approx(4 * 10 * 2**-23)
