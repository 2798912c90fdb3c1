"""How many experts there are may be private: one more or less must not be seen in the last bits of the others."""

from __future__ import annotations

import pytest
import torch

from sottovoce.models import _hf_lockstep_attention
from sottovoce.models._hf_lockstep_attention import in_blocks
from sottovoce.models.catalog import load_stepper
from sottovoce.models.stepping import Group, Prompt

PUBLIC = Prompt("Here are texts of type x.\nText:", "", "Text:")
TEXTS = ("the card was charged twice", "hello there", "nothing", "a fee of ten on my account again", "login fails") * 7


@pytest.fixture(scope="module")
def stepper():
    return load_stepper("embedded")


def rows(stepper, texts) -> list[torch.Tensor]:
    group = Group(PUBLIC, [Prompt(PUBLIC.before, f" {text}", PUBLIC.after) for text in texts])
    read = stepper.read([group], inside_tokens=16, tokens=3)
    decoding, found, token = read.write([0], 3), [], None
    for _ in range(3):
        (step,) = decoding.step({0: token})
        found.append(torch.cat([block.clone() for block in step.blocks]))
        token = 7
    read.close()
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31])
def test_an_expert_more_changes_no_bit_of_the_others(stepper, count):
    with_one, without = rows(stepper, TEXTS[: count + 1]), rows(stepper, TEXTS[1 : count + 1])
    assert all(torch.equal(one[1:], other) for one, other in zip(with_one, without, strict=True))


def test_products_in_blocks_have_one_shape(monkeypatch):
    shapes, matrices = set(), torch.randn(2, 8, 40)
    plain = torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: shapes.add(tuple(a.shape)) or plain(a, b))
    for count in (1, 3, 16, 17, 40):
        given = torch.randn(2, count, 8)
        assert torch.allclose(in_blocks(given, matrices), plain(given, matrices), atol=1e-5)
    assert shapes == {(2, _hf_lockstep_attention.BLOCK, 8)}
