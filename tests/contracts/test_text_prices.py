"""A text at its longest is compared with its charge by what it draws, and not by what its decoder says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contracts.wrong import decoders
from sottovoce.methods.amin import Amin
from sottovoce.methods.base import Price
from sottovoce.methods.prism import PRISM
from sottovoce.methods.tang import Tang
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.synthesis.config import SynthesisConfig, plan_of
from sottovoce.testing import ContractError
from sottovoce.testing.text_prices import price_of_drawn_texts


def name(value):
    return type(value).__name__ if isinstance(value, decoders.Decoder) else ""


def compared(decoder, tokens=1, texts=1):
    order = SynthesisConfig(per_label=texts, tokens=tokens, experts=2)
    plan = plan_of(decoder, order, Price(2.0, 1e-3), Adjacency.REPLACE_ONE, "record", 2)
    return price_of_drawn_texts(plan, "it", "a plan")


@pytest.mark.cases(2)
@pytest.mark.parametrize("right", [decoders.Own(), PRISM(), Tang(), Amin(), Amin(private_tokens=1)], ids=repr)
@pytest.mark.parametrize(("tokens", "texts"), [(1, 1), (4, 3)])
def test_a_text_draws_what_is_charged(right, tokens, texts):
    # Where threshold tests are drawn, each kind of text is also drawn with all of them answered no, and all yes; and
    # a short one in every other way.
    assert compared(right, tokens, texts) == ((28 if tokens == 1 else 20) if isinstance(right, Amin) else 12)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("right", "texts"),
    [
        (decoders.NoisyRowThenToken(), 12),
        (decoders.NoisyRowBehindATest(), 149),
        (decoders.AsksUntilYes(), 195),
        (decoders.TokenOfASet(), 24),
        (decoders.RowBehindASetAndATest(), 148),
    ],
    ids=name,
)
def test_what_is_chosen_from_a_release_is_free(right, texts):
    # Sets are proposed where there are three tokens and more: in two of the four kinds of text there are two.
    assert compared(right, 3) == texts


class Forgets(decoders.Own):
    """Charges one text, however many a batch writes."""

    def alternatives(self, setting):
        return super().alternatives(replace(setting, texts=1))


class SaysMore(decoders.Own):
    """Says that a text spent more than is charged for it."""

    class sampler(decoders._OwnSampler):
        def _executed(self):
            return [self.length + 1]


class OwnCoins(decoders.Own):
    """Draws from a source of its own."""

    class sampler(decoders._OwnSampler):
        def __init__(self, plan, randomness, *tokens):
            super().__init__(plan, SeededRandomness(5), *tokens)


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("wrong", "tokens", "texts", "contract", "problem"),
    [
        (decoders.OneTokenOfItsOwn(), 4, 1, "price", "4 draws of a text of 4 tokens cost"),
        (decoders.TwoTokensOfItsOwn(), 3, 1, "price", "3 draws of a text of 3 tokens cost"),
        (Forgets(), 2, 3, "price", "2 draws of a text of 2 tokens cost"),
        (decoders.GivesAllBack(), 1, 1, "price", "it says that it spent 0: more is given back"),
        (decoders.ARunForEachToken(), 20, 1, "price", "draws of a text of .* tokens cost"),
        (decoders.EndNotSpent(), 20, 1, "price", "draws of a text of .* tokens cost .* it says that it spent"),
        (decoders.RedrawsEnds(), 1, 1, "price", "[23] draws of a text of 1 tokens cost .* its event"),
        (decoders.UncrossedTestsFree(), 1, 1, "price", "it says that it spent 0: more is given back"),
        (decoders.TooNarrowRowThenToken(), 1, 1, "price", "1 draws of a text of 1 tokens cost"),
        (decoders.TwoNoisyRowsThenToken(), 2, 1, "price", "4 draws of a text of 2 tokens cost"),
        (decoders.NineRowsBehindASet(), 1, 1, "price", "draws of a text of 1 tokens cost .* its event"),
        (decoders.NineRowsBehindASet(), 4, 1, "price", "draws of a text of . tokens cost .* its event"),
        (decoders.TwoRowsBehindASetAndATest(), 1, 1, "price", "3 draws of a text of 1 tokens cost"),
        (decoders.TwoRowsBehindASetAndATest(), 4, 1, "price", "draws of a text of [34] tokens cost"),
        (decoders.NineRowsBehindACoin(), 4, 1, "price", "draws of a text of . tokens cost"),
        (decoders.NineRowsBehindTheOtherSide(), 4, 1, "price", "draws of a text of . tokens cost"),
        (decoders.NineRowsBehindAYesAndACoin(), 4, 1, "price", "draws of a text of . tokens cost"),
        (decoders.NineRowsBehindAYesAndItsOtherSide(), 4, 1, "price", "draws of a text of . tokens cost"),
        (decoders.RowsBehindADifference(), 2, 1, "price", "draws of a text of 2 tokens cost"),
        (decoders.PrefersAgreement(), 1, 1, "price", "2 draws of a text of 1 tokens cost"),
        (SaysMore(), 2, 1, "price", "says that a text spent"),
        (OwnCoins(), 1, 1, "sampler", "another source of noise"),
    ],
    ids=name,
)
def test_a_charge_for_less_than_is_drawn_is_found(wrong, tokens, texts, contract, problem):
    with pytest.raises(ContractError, match=problem) as failed:
        compared(wrong, tokens, texts)
    assert failed.value.contract == contract
    assert "a plan" in str(failed.value) or contract == "sampler"


class Amplified(decoders.Own):
    """Is charged as a whole."""

    refundable = False


def test_a_charge_of_one_point_is_no_sum_of_what_is_drawn():
    assert compared(Amplified()) == 0
