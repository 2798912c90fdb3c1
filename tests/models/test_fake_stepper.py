"""The model that is a Python function keeps the promises of a stepper, so that what is tested with it is tested."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from sottovoce.errors import ModelError, ParameterError  # noqa: E402
from sottovoce.models.fake import FakeStepper  # noqa: E402
from sottovoce.models.stepper import Decoding, Group, Prompt, ReadPrompts, Stepper  # noqa: E402


def prompt(inside):
    return Prompt("Text: ", inside, "\nMore: ")


GROUP = Group(prompt(""), [prompt("abab"), None, prompt("a secret")])


def lengths(prompt, text):
    """The prompt's private length, then the text's length, then the text's last token."""
    return [float(len(prompt.private_text)), float(len(text)), float(text[-1] if text else -1), 0.0]


def read(stepper, groups=(GROUP,), max_private_tokens=100, tokens=4) -> ReadPrompts:
    return stepper.read(list(groups), max_private_tokens=max_private_tokens, tokens=tokens)


def rows(step):
    return torch.cat([block.clone() for block in step.blocks])


def test_it_is_a_stepper():
    assert isinstance(FakeStepper(), Stepper)


def test_every_text_has_its_own_tokens_and_an_empty_slot_is_a_row_of_nan():
    stepper = FakeStepper(lengths, pieces=["x", "y"])
    decoding: Decoding = read(stepper).write([0, 0], tokens=4)
    list(decoding.step({0: None, 1: None}))
    first, second = decoding.step({1: 1, 0: 0})
    assert (first.text, second.text) == (1, 0)
    assert first.public.tolist() == [0, 1, 1, 0]
    assert second.public.tolist() == [0, 1, 0, 0]
    logits = rows(first)
    assert logits[[0, 2]].tolist() == [[4, 1, 1, 0], [8, 1, 1, 0]]
    assert logits[1].isnan().all()


def test_a_block_is_overwritten_by_the_next_as_a_real_models_may_be():
    [step] = read(FakeStepper(lengths, pieces=["x", "y"], rows=2)).write([0], tokens=4).step({0: None})
    first, second = step.blocks
    assert (first.shape[0], second.shape[0]) == (2, 1)
    assert first[0].tolist() != [4, 0, -1, 0]


def test_a_private_text_is_cut_and_what_a_function_cannot_read_is_a_null_expert():
    stepper = FakeStepper(lambda p, t: None if "b" in p.private_text else lengths(p, t), pieces=["x", "a"])
    [step] = read(stepper, [Group(prompt(""), [prompt("aaaaaa")])], max_private_tokens=3).write([0], 4).step({0: None})
    assert rows(step)[0, 0] == 3
    stepper = FakeStepper(lambda p, t: None, pieces=["x"])
    [step] = read(stepper).write([0], 4).step({0: None})
    assert rows(step).isnan().all()


def test_a_text_gets_no_more_tokens_than_it_was_opened_for():
    decoding = read(FakeStepper(lengths, pieces=["x", "y"])).write([0], tokens=2)
    list(decoding.step({0: None}))
    list(decoding.step({0: 1}))
    with pytest.raises(ParameterError, match="below 2"):
        decoding.step({0: 1})


@pytest.mark.parametrize("steps", [[{0: 1}], [{0: None}, {0: None}], [{0: None}, {0: 4}]])
def test_steps_out_of_order_are_refused(steps):
    decoding = read(FakeStepper(lengths, pieces=["x", "y"])).write([0], tokens=4)
    for step in steps[:-1]:
        list(decoding.step(step))
    with pytest.raises(ParameterError):
        decoding.step(steps[-1])


def test_prompts_that_do_not_fit_are_refused_in_public_numbers():
    # 6 + 7 characters around, 100 inside, 4 of the text.
    read(FakeStepper(most_tokens=117))
    with pytest.raises(ModelError, match="need 117 tokens; the model reads 116"):
        read(FakeStepper(most_tokens=116))


def test_it_counts_what_it_was_asked_and_what_is_open():
    stepper = FakeStepper(lengths, pieces=["x", "y"])
    prompts = read(stepper)
    decoding = prompts.write([0], 4)
    for step in decoding.step({0: None}):
        rows(step)
    assert (stepper.prompts_read, stepper.calls, stepper.steps, stepper.open) == (2, 3, 1, 2)
    decoding.close()
    prompts.close()
    prompts.close()
    assert stepper.open == 0
    with pytest.raises(ModelError, match="closed"):
        prompts.write([0], 4)
    with pytest.raises(ModelError, match="closed"):
        decoding.step({0: None})


def test_texts_are_cut_into_the_longest_pieces_and_back():
    stepper = FakeStepper(pieces=["a", "ab", "b", "?"])
    assert stepper.encode("abba#") == (1, 2, 0, 3)
    assert stepper.decode([1, 2, 0, 4, 5]) == "abba"
    assert (stepper.vocabulary, stepper.eos_tokens, stepper.forbidden_tokens) == (6, (4,), (5,))


def test_by_default_it_goes_on_as_its_prompt_does():
    stepper = FakeStepper()
    [step] = read(stepper, [Group(prompt(""), [Prompt("", "the cat", " th")])]).write([0], 4).step({0: None})
    assert stepper.decode([int(rows(step)[0].argmax())]) == "e"


def test_what_it_keeps_shows_nothing():
    prompts = read(FakeStepper())
    assert "secret" not in f"{prompts!r} {prompts.write([0], 4)!r} {GROUP.experts[2]!r}"
