"""Exact leakage of every registered method: values by hand, the search, the proofs, and what has no law."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sottovoce.audits.exact import fits, labels, texts
from sottovoce.audits.exact.coverage import coverage
from sottovoce.audits.exact.fits import (
    Units,
    choice_pair,
    class_means_pair,
    embedding_pair,
    label_public_pair,
    nearest_of_two,
    worst_units_pair,
)
from sottovoce.audits.exact.labels import LabelWorld, label_pair, worst_label_pair
from sottovoce.audits.exact.pair import GaussianPair
from sottovoce.audits.exact.texts import TokenWorld, token_pair, token_plan, worst_token_pair
from sottovoce.errors import ParameterError
from sottovoce.methods.answering.answerer import registered_answerers
from sottovoce.methods.base import Price, make_method, registered_methods
from sottovoce.methods.choice import Choice
from sottovoce.methods.class_means import ClassMeans
from sottovoce.methods.decoding.decoder import make_decoder, registered_decoders
from sottovoce.methods.fitting.fitter import FitSetting, registered_fitters
from sottovoce.methods.label_public import LabelPublic
from sottovoce.methods.poe import PoE
from sottovoce.methods.rnm import NOISES, RNM
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.tasks import Example, Task

AR, RO, ZO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT
PUBLIC = np.log([0.6, 0.3, 0.1])
SHARP = LabelWorld(
    np.array([[0.0, -50.0, -50.0], [-50.0, 0.0, -50.0], [0.0, -1.0, -9.0], [np.nan, np.nan, np.nan]]), PUBLIC
)
TOKENS = TokenWorld(
    np.array([[60.0, 0.0, 0.0, 1.0], [0.0, 60.0, 0.0, 1.0], [0.0, 0.0, 2.0, 1.0]]), np.array([0.5, 0.0, -1.0, 0.2])
)


def test_every_registered_method_has_an_exact_law_or_a_reason():
    rows = coverage()
    registries = (registered_methods(), registered_decoders(), registered_fitters(), registered_answerers())
    assert sorted(row.name for row in rows) == sorted(name for registry in registries for name in registry)
    assert all(row.reason is None or len(row.reason) > 10 for row in rows)
    assert {row.name for row in rows if row.reason is None} >= {
        "poe", "prior-poe", "rnm", "prism", "invisible-ink", "poe-decoding", "amin",
        "choice", "class-means", "label-public", "esa", "ksa",
    }  # fmt: skip


LABEL_METHODS = [row.name for row in coverage() if row.kind == "label" and row.reason is None]
TOKEN_METHODS = [row.name for row in coverage() if row.kind == "token" and row.reason is None]


@pytest.mark.cases(4)
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("name", LABEL_METHODS)
def test_no_single_change_exceeds_the_proof_of_a_label(name, adjacency):
    for epsilon in (1.0, 4.0):
        worst = worst_label_pair(make_method(name), SHARP, Price(epsilon, 1e-6), adjacency)
        assert worst.excess is None
        assert 0 < worst.pair.max_loss <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("noise", NOISES)
def test_no_single_change_exceeds_the_proof_of_any_noise_on_votes(noise):
    worst = worst_label_pair(RNM(noise), SHARP, Price(2.0, 1e-3), RO)
    assert worst.excess is None
    assert worst.tried == 4 * 3


@pytest.mark.cases(5)
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("name", TOKEN_METHODS)
def test_no_single_change_exceeds_the_proof_of_a_token(name, adjacency):
    worst = worst_token_pair(make_decoder(name), TOKENS, Price(2.0, 1e-3), adjacency)
    assert worst.excess is None
    assert worst.pair.max_loss > 0.1


def test_a_method_with_half_of_its_noise_exceeds_its_proof():
    class HalfNoise(PoE):
        def mechanism(self, price):
            return super().mechanism(Price(2 * price.epsilon))

    own = HalfNoise()
    laws = [own.mechanism(Price(1.0)).law(own.scores(world.outputs(AR))) for world in (SHARP, _without(SHARP, 0))]
    excess = labels.Pair.of(*laws).excess_over(BoundedRange(1.0), AR)
    assert excess is not None
    assert "does not hold" in excess


def test_the_worst_pair_is_the_worst_of_all_that_were_tried():
    world = LabelWorld(np.log([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]), np.log([0.5, 0.5]))
    method, price = PoE(), Price(1.0)
    worst = worst_label_pair(method, world, price, RO)
    losses = {words: label_pair(method, world, other, price, RO).max_loss for words, other in world.neighbours(RO)}
    assert (worst.change, worst.pair.max_loss) == max(losses.items(), key=lambda item: item[1])
    assert worst.tried == len(losses) == 6
    pool = np.array([[0.0, -60.0]])
    assert worst_label_pair(method, world, price, RO, pool).pair.max_loss > worst.pair.max_loss


def test_experts_that_say_the_same_are_changed_once():
    world = LabelWorld(np.zeros((5, 2)), np.zeros(2))
    assert len(list(world.neighbours(AR))) == 1
    assert list(world.neighbours(RO)) == []
    with pytest.raises(ParameterError, match="records"):
        worst_label_pair(PoE(), world, Price(1.0), RO)


def test_the_loss_of_votes_by_hand():
    # 2 votes to 1 against 2 to 0 at rate 1 a vote: the second label has chance 1 / (1 + e) and 1 / (1 + e^2).
    world = LabelWorld(np.array([[0.0, -9.0], [0.0, -9.0], [-9.0, 0.0]]), np.zeros(2))
    worst = worst_label_pair(RNM(), world, Price(1.0), AR)
    assert worst.pair.max_loss == pytest.approx(math.log((1 + math.exp(2)) / (1 + math.e)), abs=1e-9)


def test_public_examples_are_read_by_a_model():
    task = Task(labels=["l0", "l1"])
    scorer = FakeScorer(lambda task, context, query: [len(context[0].fields["text"]), 0.0] if context else [0.0, 0.0])
    examples = [Example({"text": "aa"}, 0), Example({"text": "b"}, 1)]
    world = LabelWorld.of_examples(scorer, task, examples, {"text": "?"})
    assert world.rows == pytest.approx(np.log([[1 / (1 + math.exp(-n)), 1 / (1 + math.exp(n))] for n in (2, 1)]))
    assert world.public == pytest.approx(np.log([0.5, 0.5]))
    with pytest.raises(ParameterError, match="public"):
        LabelWorld(world.rows, np.zeros(3))


@pytest.mark.parametrize(
    ("name", "word"), [("pbs", "every sample"), ("soft", "no guarantee"), ("zero-shot", "no private")]
)
def test_a_method_without_a_law_says_why(name, word):
    with pytest.raises(ParameterError, match=word):
        label_pair(make_method(name), SHARP, SHARP, Price(1.0, 1e-6), AR)


def test_a_token_by_hand():
    # PRISM of two sharp experts: a vanished one moves the mean's log-odds by the whole width that is paid for.
    plan = token_plan(make_decoder("prism"), Price(1.0), 2, AR)
    one, none = np.array([[60.0, 0.0]]), np.array([[np.nan, np.nan]])
    other = np.array([[0.0, 60.0]])
    public = np.zeros(2)
    pair = token_pair(
        plan, TokenWorld(np.concatenate([one, other]), public), TokenWorld(np.concatenate([none, other]), public)
    )
    law = np.exp(pair.log_p), np.exp(pair.log_q)
    assert law[0] == pytest.approx([0.5, 0.5])
    assert np.log(law[1][1] / law[1][0]) == pytest.approx(1.0, abs=1e-6)


def setting(adjacency, labels_=2, dimension=3, units=4, candidates=0):
    change = change_type(Assignment.OWN_SLOT, adjacency)
    return FitSetting(labels_, dimension, units if adjacency.size_is_public else None, adjacency, change, candidates)


UNITS = Units(np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]), np.array([0, 0, 1, 1]))


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_class_means_reach_their_event_and_do_not_exceed_it(adjacency):
    plan = ClassMeans().plan(Price(2.0, 1e-6), setting(adjacency))
    worst = worst_units_pair(plan, UNITS, lambda a, b: class_means_pair(plan, a, b))
    assert worst.excess is None
    if adjacency is RO:  # a vector turned round moves the sum by 2
        assert worst.pair.mu * plan.parameters["sigma"] == pytest.approx(2.0, abs=1e-4)
    half = ClassMeans(sigma=plan.parameters["sigma"] / 2, count_sigma=plan.parameters["count_sigma"] / 2)
    broken = replace(plan, fitter=half)
    assert worst_units_pair(broken, UNITS, lambda a, b: class_means_pair(broken, a, b)).excess is not None


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_choice_of_texts_does_not_exceed_its_event(adjacency):
    plan = Choice(k=1).plan(Price(2.0), setting(adjacency, candidates=4))
    candidates = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [-1.0, 0, 0]])
    worst = worst_units_pair(plan, UNITS, lambda a, b: choice_pair(plan, candidates, a, b))
    assert worst.excess is None
    assert worst.pair.max_loss > 0.7
    many = Choice(k=6).plan(Price(2.0), setting(adjacency, candidates=10))
    _, other = next(UNITS.neighbours(adjacency))
    with pytest.raises(ParameterError, match="lists"):
        choice_pair(many, np.eye(10, 3), UNITS, other)


def test_private_labels_of_public_texts_do_not_exceed_their_event():
    plan = LabelPublic(texts=2).plan(Price(2.0), setting(RO, labels_=3, candidates=2))
    other = next(world for _, world in SHARP.neighbours(RO))
    pair = label_public_pair(plan, [SHARP, SHARP], [other, other])
    assert pair.excess_over(plan.event, RO) is None
    assert pair.max_loss > 0.5
    with pytest.raises(ParameterError, match="worlds"):
        label_public_pair(plan, [SHARP], [other])
    with pytest.raises(ParameterError, match="choice"):
        choice_pair(plan, np.eye(3), UNITS, UNITS)


def test_o14_decoding_a_noisy_embedding():
    mean, first, second = np.array([0.6, 0.2]), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert nearest_of_two(mean, first, second, 0.3) == pytest.approx(0.827111, abs=1e-6)
    # By draws: 200,000 of them are within .005 with chance 1 - 1e-8.
    noisy = mean + 0.3 * np.random.default_rng(1).standard_normal((200_000, 2))
    near = ((noisy - first) ** 2).sum(axis=1) < ((noisy - second) ** 2).sum(axis=1)
    assert near.mean() == pytest.approx(0.827111, abs=0.005)
    pair = embedding_pair(mean, np.array([0.2, 0.6]), np.array([first, second]), 0.3)
    assert pair.max_loss == pytest.approx(math.log(0.827111 / 0.172889), abs=1e-4)
    for wrong in (lambda: nearest_of_two(mean, first, first, 0.3), lambda: nearest_of_two(mean, first, second, 0)):
        with pytest.raises(ParameterError, match="sigma"):
            wrong()
    with pytest.raises(ParameterError, match="candidates"):
        embedding_pair(mean, mean, np.eye(3), 0.3)


def test_decoding_gives_away_no_more_than_the_vector():
    one, other, sigma = np.array([1.0, 0.0]), np.array([-1.0, 0.0]), 1.5
    decoded = embedding_pair(one, other, np.array([one, other]), sigma)
    whole = GaussianPair(2 / sigma)
    assert decoded.total_variation == pytest.approx(whole.total_variation)  # the best attack is the nearest of the two
    epsilons = np.array([0.0, 0.5, 1.0, 2.0])
    assert (decoded.delta(epsilons) <= whole.delta(epsilons) + 1e-12).all()


def test_why_no_law_is_found_by_asking():
    assert texts.why_no_law(registered_decoders()["prism"]) is None
    assert fits.why_no_law(registered_fitters()["evolve"]).startswith("a model writes")

    class Unknown:
        name = "new-fit"

    assert "yet" in fits.why_no_law(Unknown)


def _without(world: LabelWorld, expert: int) -> LabelWorld:
    return LabelWorld(np.delete(world.rows, expert, axis=0), world.public)
