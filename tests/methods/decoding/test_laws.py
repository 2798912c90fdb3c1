"""Every decoder's next-token law in random small worlds, against its stated loss; and planted mistakes that break it.

The laws are exact: an enumeration of tokens, not a sample of them. Worlds are drawn with fixed seeds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from decoding_worlds import ADJACENCIES, World, excess, law_of, plan_of, random_worlds, renyi, step_of
from sottovoce.experts.clipping import ClippedLogits, Rule
from sottovoce.experts.token_scores import candidates_of, summed
from sottovoce.methods.amin import Amin
from sottovoce.methods.decoding.decoder import TokenSampler
from sottovoce.methods.invisible_ink import InvisibleInk
from sottovoce.methods.poe_decoding import PoEDecoding
from sottovoce.methods.prism import PRISM
from sottovoce.methods.tang import Tang
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.unit import Adjacency

WORLDS = 110
"""Of 18 method and adjacency pairs: about 2,000 worlds."""

BOUNDED = [
    PRISM(clip=2.0, temperature=0.7),
    PRISM(clip=10.0, temperature=5.0, top_k=3),
    Amin(clip=0.3, temperature=0.1, threshold_scale=1.0),
    InvisibleInk(clip=0.5, temperature=0.4, top_k=None, centre="none"),
    InvisibleInk(clip=1.7, temperature=0.9, top_k=2, centre="median"),
    InvisibleInk(clip=0.01, temperature=0.05, top_k=None, centre="midrange"),
    PoEDecoding(clip=3.0, rate=0.4, top_k=None, prior_weight=1.0),
    PoEDecoding(clip=1.1, rate=1.0, top_k=2, normalization="vocabulary"),
    Tang(noise="em", rate=4.0, top_k=3),
]
every_bounded_decoder = pytest.mark.parametrize("decoder", BOUNDED, ids=str)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES, ids=lambda a: a.value)

SHARP = [
    World((0.0, 0.0), [(0.0, 0.0)] * 2, (60.0, 0.0), (0.0, 60.0)),
    World((0.0, 0.0, 0.0), [(0.0, 0.0, 0.0)], (60.0, -60.0, 0.0), (-60.0, 60.0, 0.0)),
    World((-4.0, 1.0, 0.0), [(1.0, 0.0, -3.0)], (0.0, 60.0, 0.0), (60.0, 0.0, 60.0)),
    World((0.0, -6.0), [(-0.5, 0.0)] * 14, (-60.0, 0.0), (60.0, 0.0)),
]


@pytest.mark.cases(2)
@every_bounded_decoder
@every_adjacency
def test_no_token_loses_more_than_its_bounded_range(decoder, adjacency):
    plan = plan_of(decoder, adjacency)
    assert plan.eta > 0.1
    assert excess(plan, [*SHARP, *random_worlds(WORLDS, seed=1)]) <= 1e-9


@pytest.mark.cases(6)
@every_bounded_decoder
@every_adjacency
def test_the_bounded_range_is_nearly_used_so_that_the_bound_is_no_accident(decoder, adjacency):
    plan = plan_of(decoder, adjacency)
    assert excess(plan, SHARP) > -0.35 * plan.eta


@pytest.mark.cases(1)
@every_adjacency
def test_permute_and_flip_keeps_its_pure_loss_and_exceeds_a_range_of_the_same_size(adjacency):
    plan = plan_of(Tang(noise="exponential", scale=0.8, top_k=3), adjacency)
    worlds = [*SHARP, *random_worlds(WORLDS, seed=2)]
    assert excess(plan, worlds, range_too=False) <= 1e-9
    assert excess(plan, worlds) > 0.05


@every_adjacency
def test_gaussian_argmax_keeps_its_rho(monkeypatch, adjacency):
    monkeypatch.setattr("sottovoce.methods.tang.BITS", 6)  # a coarse grid, whose law can be summed up
    plan = plan_of(Tang(noise="gaussian", sigma=0.3, top_k=3), adjacency)
    rho, worst = plan.token_event.rho, 0.0
    for world in [*SHARP, *random_worlds(25, seed=3)]:
        p, q = (law_of(plan, world.public, rows) for rows in world.neighbours(adjacency))
        kept = (p > 1e-12) & (q > 1e-12)
        for alpha in (1.5, 4.0):
            for one, two in ((p, q), (q, p)):
                worst = max(worst, renyi(one[kept], two[kept], alpha) / alpha)
    assert 0.2 * rho < worst <= rho


PLANTED_ON = [PRISM(clip=2.0, temperature=0.7), Amin(clip=2.0, temperature=1.5, threshold_scale=1.0)]
INK = InvisibleInk(clip=0.5, temperature=0.4, top_k=None, centre="none")


def broken(decoder, adjacency) -> float:
    """Excess over the stated loss, in units of it."""
    plan = plan_of(decoder, adjacency)
    return excess(plan, [*SHARP, *random_worlds(60, seed=4)]) / plan.eta


@every_adjacency
def test_a_missing_clip_is_found(monkeypatch, adjacency):
    def unclipped(rule, block, public, **_):
        rows = torch.nan_to_num(block if public.ids is None else block[:, public.ids], nan=0, posinf=0, neginf=-99)
        best = rows.amax(1, keepdim=True)
        return rule.values(rows, best, public).mul(2.0**rule.bits).floor().clamp(-1e6, 1e6)

    monkeypatch.setattr(Rule, "on_grid", unclipped)
    monkeypatch.setattr(ClippedLogits, "low", property(lambda rule: -(10**6)))
    monkeypatch.setattr(ClippedLogits, "width", property(lambda rule: 4 * 2**rule.bits))
    assert broken(PLANTED_ON[0], adjacency) > 1


@pytest.mark.cases(2)
@pytest.mark.parametrize("decoder", [*PLANTED_ON, INK], ids=str)
def test_the_realised_number_of_experts_as_divisor_is_found(monkeypatch, decoder):
    def averaged(blocks, public, rules):
        held = list(blocks)
        heard = sum(int(torch.isfinite(block).any(1).sum()) for block in held)
        return [3 * total // max(heard, 1) for total in real(held, public, rules)]

    real = summed
    monkeypatch.setattr("sottovoce.methods.decoding.selecting.summed", averaged)
    monkeypatch.setattr("sottovoce.methods.amin.summed", averaged)
    assert broken(decoder, Adjacency.ADD_REMOVE) > 0.5


@pytest.mark.cases(2)
@pytest.mark.parametrize("decoder", [*PLANTED_ON, INK], ids=str)
@every_adjacency
def test_half_the_sensitivity_is_found(monkeypatch, decoder, adjacency):
    monkeypatch.setattr(Rule, "width", property(lambda rule: (rule.high - rule.low) // 2))
    assert broken(decoder, adjacency) > 0.5


def test_a_whole_row_that_vanishes_with_its_public_part_is_found(monkeypatch):
    # The mean of public + clipped difference over the experts that are there, in place of public + mean of differences.
    def with_public(blocks, public, rules):
        held = list(blocks)
        heard = sum(int(torch.isfinite(block).any(1).sum()) for block in held)
        rows = (public.logits.double() * 2 ** rules[0].bits).long().numpy()
        return [total + heard * rows for total in real(held, public, rules)]

    real = summed
    monkeypatch.setattr("sottovoce.methods.decoding.selecting.summed", with_public)
    monkeypatch.setattr(InvisibleInk, "log_prior", lambda decoder, public: None)
    assert broken(INK, Adjacency.ADD_REMOVE) > 1


@pytest.mark.parametrize("decoder", PLANTED_ON, ids=str)
def test_a_null_expert_that_speaks_for_the_public_model_is_found(monkeypatch, decoder):
    # Two slots, of which the changed one is null where its record is absent: then a drop is really a swap.
    def voting(rule, block, public, **_):
        rows = torch.where(torch.isfinite(block).any(1, keepdim=True), block, public.logits)
        return real(rule, rows, public)

    real = Rule.on_grid
    monkeypatch.setattr(Rule, "on_grid", voting)
    plan = plan_of(decoder, Adjacency.ADD_REMOVE)
    p, q = (law_of(plan, (60.0, 0.0), [(0.0, 0.0), row]) for row in ((0.0, 60.0), (math.nan, math.nan)))
    assert np.ptp(np.log(p) - np.log(q)) > 1.9 * plan.eta


def test_candidates_from_private_logits_are_found(monkeypatch):
    # The top tokens of the sum itself: a record can make a token impossible, an infinite loss.
    def private(chooser, step, allowed):
        blocks = list(step.blocks)
        step.blocks = iter(blocks)
        mean = torch.nan_to_num(torch.cat(blocks), nan=0, posinf=60, neginf=-60).mean(0) if blocks else step.public
        return candidates_of(step.public, allowed=mean.topk(1).indices)

    monkeypatch.setattr(TokenSampler, "_candidates", private)
    assert broken(PLANTED_ON[0], Adjacency.REPLACE_ONE) == math.inf


def test_zero_for_values_below_the_clip_would_be_found_by_what_it_chooses(monkeypatch):
    # Setting what is outside the interval to zero keeps the width, so no loss shows it. The choice does: eight experts
    # of (.97, .02, .01) at C = 3 and lambda = 1/3 choose the first token with probability .9993, and .3155 with zeros
    # (specification 5.1.2).
    rows = [np.log([0.97, 0.02, 0.01]).tolist()] * 8
    plan = plan_of(PoEDecoding(clip=3.0, rate=1 / 3, top_k=None), Adjacency.ADD_REMOVE, experts=8)
    assert law_of(plan, (0.0, 0.0, 0.0), rows)[0] == pytest.approx(0.9993, abs=1e-4)

    def zeroing(rule, block, public, **_):
        values = rule.values(block.clone(), block.amax(1, keepdim=True), public)
        return torch.where(values < -rule.clip, 0.0, values).mul(2.0**rule.bits).floor()

    monkeypatch.setattr(Rule, "on_grid", zeroing)
    assert law_of(plan, (0.0, 0.0, 0.0), rows)[0] == pytest.approx(0.3155, abs=1e-3)


TREES = [
    PRISM(clip=2.0, temperature=0.8),
    InvisibleInk(clip=0.6, temperature=0.5, top_k=None),
    PoEDecoding(clip=2.0, rate=0.3, top_k=None),
]


@pytest.mark.parametrize("decoder", TREES, ids=str)
@every_adjacency
def test_three_tokens_whose_law_depends_on_the_text_keep_the_plans_total(decoder, adjacency):
    plan = plan_of(decoder, adjacency, tokens=3)
    dice = np.random.default_rng(5)
    p, q = np.ones(1), np.ones(1)
    for _ in range(3):
        trees = []
        for _ in range(len(p)):
            public = dice.normal(0, 1, 2).tolist()
            rest = dice.normal(0, 2, (2, 2)).tolist()
            sharp = (60 * np.eye(2)[dice.integers(2)]).tolist()
            world = World(public, rest, sharp, sharp[::-1])
            trees.append([law_of(plan, public, rows) for rows in world.neighbours(adjacency)])
        p, q = (
            np.concatenate([mass * tree[side] for mass, tree in zip(past, trees, strict=True)])
            for side, past in enumerate((p, q))
        )
    for delta in (0.3, 0.05, 1e-3):
        found = RdpAccountant(adjacency).compose(plan.event).report(delta).epsilon
        for one, two in ((p, q), (q, p)):
            assert np.maximum(one - math.exp(found) * two, 0).sum() <= delta


@pytest.mark.slow
def test_an_excess_is_measured_in_the_law_that_is_drawn_from():
    # ``TokenSampler.law`` is the law of ``next``: a chi-square of 3,000 draws, 3 degrees of freedom. A right sampler
    # is above 24 with probability 2e-5; drawing at half the temperature gives more than 100.
    plan = plan_of(PRISM(clip=2.0, temperature=0.7), Adjacency.ADD_REMOVE)
    public, rows = (0.0, 1.0, 0.5, -1.0), [(0.0, 2.0, 0.0, -2.0), (1.0, 0.0, 0.0, 0.0)]
    law, randomness = law_of(plan, public, rows), decoding_randomness()
    drawn = [plan.decoder.start(plan, randomness, eos_tokens=()).next(step_of(public, rows)) for _ in range(3_000)]
    seen = np.bincount(drawn, minlength=4)
    assert ((seen - 3_000 * law) ** 2 / (3_000 * law)).sum() < 24
    wrong = law**2 / (law**2).sum()
    assert ((seen - 3_000 * wrong) ** 2 / (3_000 * wrong)).sum() > 100


def decoding_randomness():
    from sottovoce.randomness import SeededRandomness

    return SeededRandomness(11)
