"""Few-shot generation as published: a fresh sample of the records for every token, amplified where that holds."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from sottovoce.errors import ParameterError
from sottovoce.methods.base import Price
from sottovoce.methods.tang import Tang
from sottovoce.privacy.events import ApproximateDP
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SystemRandomness
from sottovoce.synthesis.config import SynthesisConfig, plan_of
from synthesis.test_command import desk
from synthesis.worlds_of_texts import rows

__all__ = ["desk"]

COMMAND = (
    "synthesize", "--private", "notes.jsonl", "--labels", "billing,fraud", "--model", "fake", "--per-label", "2",
    "--tokens", "8", "--method", "tang", "--noise", "em", "--sampling-probability", "0.25", "--experts", "10",
    "--epsilon", "3", "--delta", "1e-6", "--out", "demos.jsonl", "--adjacency", "add-remove",
)  # fmt: skip
LEDGER = ("--ledger", "notes.db", "--budget", "30,1e-5,failure=5e-6")


def test_a_run_is_one_point_of_the_ledger_and_its_certificate_holds(desk):
    code, _, err = desk(*COMMAND, *LEDGER)
    assert (code, "Adding or removing any one record" in err) == (0, True)
    assert desk("verify", "certificate", "demos.jsonl.certificate.json", "--ledger", "notes.db")[0] == 0
    certificate = json.loads((desk.folder / "demos.jsonl.certificate.json").read_text("utf-8"))
    assert 2.99 < certificate["epsilon"] <= 3
    assert len(certificate["ledger"]) == 1


def test_fresh_samples_buy_more_weight_than_a_fixed_batch():
    price, order = Price(3, 1e-6), SynthesisConfig(per_label=2, tokens=8, experts=40)
    fixed, fresh = (
        plan_of(decoder, order, price, Adjacency.ADD_REMOVE, "record", 40)
        for decoder in (Tang(noise="em"), Tang(noise="em", fresh="token", sampling_rate=0.25))
    )
    assert isinstance(fresh.event, ApproximateDP)
    assert fresh.report.epsilon <= 3
    # One record's weight in a token of which it is a part, and hence what its sample can say.
    assert fresh.eta > 1.5 * fixed.eta


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--adjacency", "replace-one"), "add-remove"),
        (("--noise", "gaussian"), "Gaussian"),
        (("--method", "prism", "--noise", "em"), "--method tang"),
        (("--sampling-probability", "1.5"), "sampling"),
    ],
)
def test_where_amplification_does_not_hold_nothing_is_charged(desk, more, told):
    code, _, err = desk(*COMMAND, *LEDGER, *more)
    assert (code, told in err) == (2, True)
    assert not (desk.folder / "notes.db").exists()


def test_a_sample_of_a_whole_batch_is_priced_but_not_written():
    with pytest.raises(ParameterError, match="fixed here"):
        plan_of(
            Tang(noise="em", fresh="batch", sampling_rate=0.1), SynthesisConfig(tokens=4), Price(1, 1e-6),
            Adjacency.ADD_REMOVE, "record", 10,
        )  # fmt: skip


def test_a_dry_run_tells_the_price_where_there_is_one(desk):
    words = [word for word in COMMAND if word not in ("--private", "notes.jsonl", "add-remove", "--adjacency")]
    code, out, _ = desk(*words, "--dry-run", "--json")
    assert (code, [plan["adjacency"] for plan in json.loads(out)["plans"]]) == (0, ["add-remove"])


def test_coins_come_from_the_source_of_noise(desk, monkeypatch):
    # Every expert of both labels tosses at every token: the source is asked for numbers below 4 as often.
    asked = []
    below = SystemRandomness.below
    monkeypatch.setattr(SystemRandomness, "below", lambda self, bound: asked.append(bound) or below(self, bound))
    assert desk(*COMMAND, *LEDGER, "--per-label", "1", "--tokens", "1")[0] == 0
    assert asked.count(Fraction("0.25").denominator) == len(rows())
