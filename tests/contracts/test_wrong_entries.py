"""The contracts notice: methods, decoders and mechanisms with one mistake each, and the reason that is given."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import ClassVar
from unittest.mock import patch

import numpy as np
import pytest

from contracts.wrong import answerers, clusterings, decoders, fitters, mechanisms, methods, typed
from contracts.wrong.clusterings import made
from sottovoce.mechanisms.clustering.price import Level
from sottovoce.mechanisms.clustering.private_clustering import DPM
from sottovoce.mechanisms.clustering.projection import PublicProjection
from sottovoce.mechanisms.gaussian import GaussianVector
from sottovoce.mechanisms.laplace import Laplace
from sottovoce.mechanisms.noisy_max import GaussianNoisyMax, LaplaceNoisyMax
from sottovoce.mechanisms.propose_test_release import ProposeTestRelease
from sottovoce.mechanisms.stability_histogram import StabilityHistogram
from sottovoce.mechanisms.top_k import JointTopK
from sottovoce.methods.base import make_method
from sottovoce.methods.poe import PoE
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing import (
    ContractError,
    asked_alone,
    check_answerer,
    check_decoder,
    check_fitter,
    check_mechanism,
    check_method,
)
from sottovoce.testing.another_process import NoAnswerError
from sottovoce.testing.label_worlds import CHANGES, PUBLIC, ROWS
from sottovoce.testing.mechanisms import _Mechanism, _parts_of
from sottovoce.testing.methods import PRICES, _Method
from sottovoce.testing.report import Effort, Report

NEIGHBOURS = "does not hold"
ALONE = "in a process in which nothing else was asked"

METHODS = [
    (methods.HalvedSensitivity, "neighbours", "log-ratios 2 wide, and 1 is allowed"),
    *(
        pytest.param(each, "neighbours", "log-ratios 2 wide, and 1 is allowed", marks=pytest.mark.slow)
        for each in (
            methods.WrongTogether,
            methods.OfItsConstructor,
            methods.WordBesideASwitch,
            methods.UncomparedSwitch,
            methods.SmallBonus,
            methods.ManyPoints,
        )
    ),
    pytest.param(methods.ForgottenDelta, "composition", "costs epsilon inf at delta 0", marks=pytest.mark.slow),
    (methods.LessNoiseWhereThePublicRowIsSure, "neighbours", r"(?s)log-ratios .* wide.*the public row \(0, -5\)"),
    (methods.TwiceAsMuchWhereThePublicRowIsFlat, "neighbours", r"(?s)log-ratios 2 wide.*the public row \(0, 0\)"),
    (methods.HeardTogetherWhereSure, "isolation", "(?s)depends on the other experts.*beside the public row"),
    (methods.CentredWhereSure, "isolation", "(?s)depends on the other experts.*beside the public row"),
    pytest.param(
        methods.RangeForNorm, "isolation", "(?s)move by more than is stated.*6 times 0", marks=pytest.mark.slow
    ),
    pytest.param(methods.RangeForNormByLaw, "neighbours", "(?s)Renyi .*30 times 0", marks=pytest.mark.slow),
    (methods.PriorOfTwoWhereSure, "neighbours", "(?s)wide, and 1 is allowed.*beside the public row"),
    (methods.DoubleVotesWhereSure, "neighbours", "(?s)Renyi divergence.*beside the public row"),
    (methods.NormOfOneStep, "isolation", "its scores move by more than is stated"),
    (methods.TwiceForTwoRecords, "neighbours", "(?s)log-ratios 2 wide.*beside the public row.*2-swap"),
    (methods.LessNoiseForTheThirdOfFive, "neighbours", r"(?s)log-ratios 2 wide.*row \(-50, -50, 0, -50, -50\)"),
    (methods.RemembersWhereSure, "state", "attributes changed"),
    (methods.QuietWhereSure, "sampler", "(?s)do not follow its law.*beside the public row"),
    (methods.HalvedVariance, "neighbours", "Renyi divergence"),
    (methods.TwiceThePrice, "price", "costs epsilon"),
    (methods.RemembersScores, "state", "keeps state"),
    (methods.RemembersAnswers, "state", "keeps state"),
    (methods.KeepsTheFirstSums, "state", "no difference was found between the answers to opposite records"),
    (methods.KeepsTwoLabels, "state", ALONE),
    pytest.param(methods.KeepsItsRate, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(methods.KeepsALargeRate, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(methods.KeepsARateForSwaps, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(methods.KeepsARateOfAChoice, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(methods.KeepsItsClip, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(methods.KeepsTheFirstMade, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(methods.KeepsItsFirstClip, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(methods.KeepsItsOptionalClip, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(methods.KeepsASmallRate, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(methods.DrawsAtAKeptRate, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(methods.KeepsItsReach, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(methods.KeepsABaseline, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(methods.KeepsItsWidth, "state", ALONE, marks=pytest.mark.slow),
    (methods.CappedVotes, "isolation", "does not prove that the guarantee fails"),
    (methods.Centred, "isolation", "depends on the other experts"),
    (methods.ReadsANeighbour, "isolation", "depends on the other experts"),
    (methods.Averaged, "isolation", "depends on the other experts"),
    (methods.NullVotes, "null expert", "says nothing"),
    (methods.CheapEvent, "neighbours", NEIGHBOURS),
    (methods.CheapEventWithoutLaw, "neighbours", "an event of probability"),
    (methods.OtherThanItsLaw, "sampler", "do not follow its law"),
    (methods.PoorSampler, "sampler", "do not follow its law"),
    pytest.param(methods.ShortcutOnLongLeads, "sampler", "do not follow its law", marks=pytest.mark.slow),
    (methods.QuietFromFourExperts, "sampler", "do not follow its law"),
    pytest.param(
        methods.DropForASwap, "sampler", "(?s)do not follow its law.*add-remove, swap", marks=pytest.mark.slow
    ),
    (methods.QuietAtSmallPrices, "sampler", r"(?s)do not follow its law.*epsilon=0\.1"),
    (methods.QuietUnderZeroOut, "sampler", "(?s)do not follow its law.*zero-out"),
    (methods.KeepsSumsOfAQuestion, "state", "follows what was asked before it"),
    pytest.param(methods.UsualPrice, "sampler", r"likeliest outcome came .* with epsilon 1\.0", marks=pytest.mark.slow),
    (methods.HighPrice, "sampler", r"likeliest outcome came .* with epsilon (16|100)\.0"),
    (methods.ThreeLabelsCrowd, "sampler", r"likeliest outcome came .*lead from (3|10)"),
    (methods.CheapAboveFive, "neighbours", r"(?s)eta=5\.0.*epsilon=16"),
    (methods.ThreeLabelsDear, "neighbours", r"(?s)log-ratios 8 wide, and 4 is allowed.*-50, -50"),
    (methods.FourLabelsDear, "neighbours", r"(?s)log-ratios 2 wide, and 1 is allowed.*-50"),
    (methods.ThreeLabelsDearest, "neighbours", r"(?s)log-ratios 32 wide, and 16 is allowed.*-50, -50"),
    (methods.OptionalStretch, "neighbours", "stretch=2"),
    (methods.LastCountsTwice, "null expert", "says nothing"),
    (methods.FollowsTheOrder, "order", "the order of the experts"),
    pytest.param(methods.RaisesOnTies, "sampler", "raised ValueError", marks=pytest.mark.slow),
    (methods.RaisesOnSomeDraws, "sampler", "raised RuntimeError"),
    (methods.NoiseFollowsData, "isolation", "sensitivity follows the data"),
    (methods.SaysFree, "free", "charges"),
    (methods.ReadsForFree, "neighbours", NEIGHBOURS),
    (methods.SaysPrivate, "price", "is not"),
    (methods.ChargesByChance, "price", "different events"),
    (methods.HalvedNoiseOnSamples, "records", NEIGHBOURS),
    pytest.param(methods.OnlyWhereAgreed, "neighbours", "log-ratios 452", marks=pytest.mark.slow),
    (methods.UnknownWords, "drive", "unknown choice"),
    (methods.NeedsArguments, "drive", "without arguments"),
    (methods.DearWithoutADelta, "neighbours", r"(?s)log-ratios 4 wide, and 2 is allowed.*delta=0\.0"),
    (methods.HalvedWithoutADelta, "neighbours", r"(?s)log-ratios 2 wide, and 1 is allowed.*delta=0\.0"),
    pytest.param(methods.QuietWithoutADelta, "sampler", "do not follow its law", marks=pytest.mark.slow),
    pytest.param(methods.TwoDrawsWithoutADelta, "composition", r"(?s)costs.*delta=0\.0", marks=pytest.mark.slow),
    (methods.AcceptsNothing, "drive", "accepts no adjacency"),
    (methods.ChargesByTheLastAnswer, "state", "its next plan or charge"),
    (methods.LastWhereNobodySpeaks, "state", "where no record says anything"),
    pytest.param(methods.BetterOfASet, "post-processing", "it gives two answers", marks=pytest.mark.slow),
    pytest.param(methods.SecondDrawOfASet, "composition", "costs epsilon 2.3", marks=pytest.mark.slow),
]
DECODERS = [
    (decoders.HalvedSensitivity, "neighbours", NEIGHBOURS),
    pytest.param(decoders.WrongTogether, "neighbours", NEIGHBOURS, marks=pytest.mark.slow),
    pytest.param(decoders.CentredUnderZeroOut, "public rows", "zero-out", marks=pytest.mark.slow),
    pytest.param(decoders.OneTokenAtAChoice, "neighbours", NEIGHBOURS, marks=pytest.mark.slow),
    pytest.param(decoders.HalfDistanceAtAChoice, "sensitivity", "they change by", marks=pytest.mark.slow),
    pytest.param(decoders.OneSampleAText, "sampler", "texts of two tokens do not follow", marks=pytest.mark.slow),
    (decoders.KeepsItsBound, "state", ALONE),
    (decoders.KeepsItsWords, "state", ALONE),
    pytest.param(decoders.KeepsItsClip, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(decoders.KeepsTheFirstMade, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(decoders.KeepsItsEnd, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(
        decoders.CoinsAtTwiceTheRate("exponential", fresh="token", sampling_rate=0.25),
        "public rows",
        "(?s)does not hold.*101 tokens",
        marks=pytest.mark.slow,
    ),
    (decoders.LessNoiseWhereThePublicRowIsSure, "public rows", "its scores move by more than is stated"),
    (decoders.TogetherWhereThePublicRowIsSure, "public rows", "its scores move by more than is stated"),
    (decoders.BoundOfTheHeardWhereThePublicRowIsSure, "public rows", "the stated sensitivity follows the data"),
    (decoders.CountsNullsWhereThePublicRowIsSure, "null expert", "an expert that says nothing changes its law"),
    (decoders.TenfoldSamplesWhereThePublicRowIsSure, "public rows", NEIGHBOURS),
    (decoders.LoudGaussian(), "public rows", "its scores move by more than is stated"),
    (decoders.TwiceAsMuchWhereThePublicRowIsFlat, "public rows", "its scores move by more than is stated"),
    (decoders.LoudWhereThePublicRowIsFlat, "public rows", NEIGHBOURS),
    (decoders.MoreForSeveralTexts, "price", "(?s)4 texts of wrong cost .* and each by itself"),
    (decoders.CheapToken, "price", "draws from mechanisms that cost"),
    (decoders.SquaredDivisor, "price", "draws from mechanisms that cost"),
    pytest.param(decoders.AllOfTheDivisor, "neighbours", "7 experts", marks=pytest.mark.slow),
    (decoders.TwoTextsDear, "neighbours", "(?s)does not hold.*2 texts"),
    (decoders.PersonsDear, "neighbours", "(?s)does not hold.*the unit 'person'"),
    (decoders.KeepsSumsOfAPrompt, "state", "follows what was asked before it"),
    (decoders.HighPriceDear, "neighbours", "(?s)does not hold"),
    (decoders.AddedDivisorDear, "neighbours", "(?s)does not hold.*add-remove.*7 experts"),
    (decoders.FewerTokens, "neighbours", NEIGHBOURS),
    (decoders.TwoTokens, "price", "what it covers costs at least"),
    (decoders.ForgetsTexts, "price", "(?s)what it covers costs at least.*4 texts"),
    (decoders.ReadsTheFirst, "isolation", "depends on the other experts"),
    (decoders.RealisedDivisor, "isolation", "depends on the other experts"),
    (decoders.NullSpeaks, "failures", "is no null expert"),
    (decoders.Remembers, "state", "keeps state"),
    (decoders.KeepsSumsInItself, "state", "attributes changed"),
    (decoders.LoudLaterTexts, "neighbours", "(?s)does not hold.*of two"),
    (decoders.HearsThree, "order", "(?s)the order of the experts changes the scores.*first or last"),
    (decoders.OneTokenOfItsOwn, "neighbours", "(?s)does not hold.*2 tokens"),
    (decoders.TemperatureByTheLastText, "state", "its next plan or charge"),
    (decoders.KeepsSumsInAText, "neighbours", "(?s)does not hold.*2 tokens"),
    (decoders.LessNoiseBehindAgreement, "neighbours", "(?s)does not hold.*2 tokens"),
    (decoders.QuietWhereNothingChanged, "sampler", "with scores those of the token before"),
    pytest.param(decoders.TwoTokensOfItsOwn, "price", "3 draws of a text of 3 tokens cost", marks=pytest.mark.slow),
    pytest.param(decoders.GivesAllBack, "price", "more is given back", marks=pytest.mark.slow),
    pytest.param(decoders.UncrossedTestsFree, "price", "more is given back", marks=pytest.mark.slow),
    (decoders.QuietNoise, "neighbours", NEIGHBOURS),
    (decoders.LoudToken, "neighbours", NEIGHBOURS),
    pytest.param(decoders.WithoutLaw, "neighbours", "an event of probability", marks=pytest.mark.slow),
    (decoders.OtherThanItsLaw, "sampler", "do not follow its law"),
    (decoders.QuietFromTheThird, "sampler", "do not follow its law"),
    (decoders.QuietInCrowds, "sampler", "do not follow its law"),
    (decoders.QuietAdded, "sampler", "likeliest outcome came .* with adjacency add-remove"),
    (decoders.QuietCrowdAdded, "sampler", "likeliest outcome came .* with adjacency add-remove"),
    (decoders.QuietFromFour, "sampler", "likeliest outcome came .* experts 4 or more"),
    (decoders.QuietTexts, "sampler", "likeliest outcome came"),
    (decoders.SureWhereOneLeads, "sampler", "likeliest outcome came .*lead from 3"),
    (decoders.FailsAtTheFifth, "sampler", "(?s)a token raised IndexError.*token 6, "),
    pytest.param(
        decoders.FrequentTokens, "isolation", "its scores move by more than is stated", marks=pytest.mark.slow
    ),
    pytest.param(decoders.FrequentTokensOfItsOwn, "neighbours", NEIGHBOURS, marks=pytest.mark.slow),
    (decoders.FirstBlock, "order", "the order of the records changes its law"),
    pytest.param(decoders.DoublesByAdjacency, "public rows", "(?s)move by more.*swap", marks=pytest.mark.slow),
    pytest.param(decoders.EndsWhereSure, "post-processing", "a text ends after 1 and", marks=pytest.mark.slow),
    (decoders.NotADecoder, "drive", "without arguments"),
]
WHATEVER_DRAWS = [
    (decoders.LaplaceHalved(), "public rows", "its scores move by more than is stated"),
    (decoders.LaplaceReadsTheFirst(), "isolation", "depends on the other experts"),
    (decoders.LaplaceRealisedDivisor(), "isolation", "depends on the other experts"),
    (decoders.LaplaceNullSpeaks(), "failures", "is no null expert"),
    (decoders.LaplaceHearsThree(), "order", "the order of the experts changes the scores"),
    (decoders.WithoutLawOfItsMechanism(), "drive", "Unregistered is no registered mechanism"),
    pytest.param(decoders.NoisyRowForADrop(), "sensitivity", r"1\.414 times the norm", marks=pytest.mark.slow),
    pytest.param(decoders.FinerGridAtLowPrices(), "sensitivity", r"3\.999 times the norm", marks=pytest.mark.slow),
    pytest.param(
        decoders.NoisyRowEndsWhereSure(), "post-processing", "a text ends after 1 and", marks=pytest.mark.slow
    ),
    pytest.param(
        decoders.NormOfOneToken(), "public rows", "(?s)more than is stated.*101 tokens", marks=pytest.mark.slow
    ),
]
"""Mistakes in scores, bounds and public rules that show without a law, or by one that no list names."""
MECHANISMS = [
    (mechanisms.HalvedSensitivity(0.7), "neighbours", NEIGHBOURS),
    (mechanisms.TooLittleNoise(0.7), "neighbours", NEIGHBOURS),
    (
        mechanisms.OneByChanceWithHalf(sigma=1000.0, failure_delta=1e-6, k=1),
        "neighbours",
        r"(?s)does not hold.*\[\d{4,}, .*and one change of it",
    ),
    (mechanisms.OneByChanceDrawnWithHalf(sigma=2.0, failure_delta=1e-6, k=1), "sampler", "do not follow its law"),
    (mechanisms.QuietSampler(0.7), "sampler", "do not follow its law"),
    (mechanisms.KeepsItsTable(0.7), "state", ALONE),
    (mechanisms.KeepsItsLaw(0.7), "state", ALONE),
    (mechanisms.KeepsAPlainTable(0.7), "state", ALONE),
    (mechanisms.KeepsAShare(0.7), "state", ALONE),
    (mechanisms.KeepsAnInnerScale(Laplace(0.7)), "state", ALONE),
    (mechanisms.KeepsAPlainInnerScale(mechanisms.PlainLaplace(0.7)), "state", ALONE),
    (mechanisms.KeepsASum((0.3, 0.4)), "state", ALONE),
    (mechanisms.KeepsWhatIsSetAside(0.7), "state", ALONE),
    pytest.param(mechanisms.KeepsALongList(0.7), "state", ALONE, marks=pytest.mark.slow),
    (mechanisms.FloatSampler(1.0), "neighbours", "log-ratio"),
    (mechanisms.HalvedLaplace(0.7), "neighbours", NEIGHBOURS),
    (mechanisms.FirstOfEqualBest(0.7), "neighbours", NEIGHBOURS),
    (mechanisms.AsBoundedRange(0.7), "neighbours", "wide"),
    (mechanisms.HalvedVariance(0.05), "neighbours", NEIGHBOURS),
    (mechanisms.NarrowLaplace(0.7), "neighbours", NEIGHBOURS),
    (mechanisms.NarrowVector(0.05), "neighbours", NEIGHBOURS),
    (mechanisms.SkewedSampler(0.7), "sampler", "do not follow its law"),
    (mechanisms.SharedNoise(0.7), "sampler", "the same noise twice came"),
    (mechanisms.SharedVectorNoise(0.05), "sampler", "the same noise twice came"),
    (mechanisms.SilentOnNonzero(0.7), "sampler", "no noise came"),
    (mechanisms.SharedItemNoise(0.7, 1e-3), "sampler", r"outcome \(False, "),
    (mechanisms.ShortcutSelect(0.7), "sampler", "outcome (of two draws )?came .* with .*lead in steps (10|30) or more"),
    (mechanisms.QuietWhenAdded(0.7), "sampler", "add-remove"),
    (mechanisms.QuietWhenZeroed(0.7), "neighbours", "zero-out"),
    (mechanisms.QuietWithPrior(0.7), "neighbours", "with a prior"),
    (mechanisms.QuietDrawsWithPrior(0.7), "sampler", "with a prior"),
    (mechanisms.PriorByAnotherName(0.7), "drive", "its select may be given weights besides"),
    (mechanisms.PriorWithoutAnnotations(0.7), "sampler", "with a prior"),
    (mechanisms.PriorByItsNameAlone(0.7), "sampler", "with a prior"),
    (mechanisms.PriorOfItsLawToo(0.7), "drive", "its select may be given weights besides"),
    (mechanisms.LawWithDigits(0.7), "drive", "its select may be given log_prior besides"),
    (mechanisms.WhateverComes(0.7), "drive", r"its select may be given \*given besides"),
    (mechanisms.MaskBesideAPrior(0.7), "drive", "its select may be given log_prior, allowed besides"),
    (mechanisms.PriorWithoutLaw(0.7), "drive", "its select may be given prior besides"),
    (mechanisms.LightWhereAsked(0.7), "drive", "its release may be given light besides"),
    (mechanisms.DrawsInTwoWays(0.7), "drive", "release and release_lightly both draw"),
    (mechanisms.CheapTest(2.0, 1e-6, 1), "neighbours", "a delta of 5"),
    (mechanisms.FloorNorm(0.05), "neighbours", "(?s)Renyi.*2 numbers that move by 1 each"),
    (mechanisms.BoundOfOneBesideAPrior(0.7), "neighbours", "(?s)does not hold.*sensitivity [23].*with a prior"),
    (mechanisms.CappedNoise(0.5), "neighbours", "(?s)does not hold.*a number that moves by 300"),
    (mechanisms.CappedSelection(0.5), "neighbours", "(?s)does not hold.*sensitivity [369]00"),
    (mechanisms.LeaderOrDrawnWithHalf(2.0, 1e-6, 1), "neighbours", "(?s)a delta of.*and one change of it"),
    *((mechanisms.HalfTest(2.0, 1e-6, k), "sampler", "do not follow its law") for k in (1, 2, 3)),
    *((mechanisms.DropTest(2.0, 1e-6, k), "sampler", "(?s)do not follow its law.*replace-one") for k in (1, 2, 3)),
    *((mechanisms.TwiceTest(2.0, 1e-6, k), "sampler", "do not follow its law") for k in (1, 2, 3)),
    (mechanisms.TwiceTestWhenZeroed(2.0, 1e-6, 2), "sampler", "(?s)do not follow its law.*zero-out"),
    (mechanisms.HalfTestAtSomeBounds(2.0, 1e-6, 2), "sampler", "likeliest outcome came .* with .*bound 3 to 14"),
    (mechanisms.QuietTest(1000.0, 1e-6, 2), "neighbours", r"(?s)does not hold.*\[\d{4,}, .*and one change of it"),
    (mechanisms.QuietTestOfThree(20.0, 1e-6, 2), "neighbours", "(?s)does not hold.*sensitivity 3"),
    (mechanisms.SetOfTwice(2.0, 2), "sampler", "do not follow its law"),
    (typed.QuietTyped(0.7), "neighbours", NEIGHBOURS),
    (mechanisms.LongLead(0.7), "sampler", "outcome (of two draws )?came .* with .*lead in bounds from 3"),
    (mechanisms.LongSteps(0.7), "sampler", "outcome (of two draws )?came .* with .*lead in steps 30"),
    (mechanisms.TwoCandidates(0.7), "sampler", "likeliest outcome came"),
    (mechanisms.Ties(0.7), "sampler", "likeliest outcome came"),
    (mechanisms.WideBounds(0.7), "sampler", "likeliest outcome came .* with .*bound above 15"),
    (mechanisms.BoundsBetween(0.7), "sampler", "likeliest outcome came .* with .*bound 3 to 14"),
    (mechanisms.SixCandidates(0.7), "sampler", "likeliest outcome came .* with .*candidates 6"),
    pytest.param(
        mechanisms.AllEqual(0.7),
        "sampler",
        "likeliest outcome came .* with .*lead in bounds all equal",
        marks=pytest.mark.slow,
    ),
    (mechanisms.FourthNoise(0.5), "sampler", "the same noise twice came .* with .*numbers 4 or more"),
    (mechanisms.NoneFromFour(0.5), "sampler", "no noise came"),
    (mechanisms.OtherBounds(0.5), "sampler", "no noise came .* with bound"),
    (mechanisms.EvenNoise(0.05), "sampler", "noise divisible by 2 came"),
    (mechanisms.RangeForNorm(0.05), "neighbours", "(?s)does not hold.*20 times -1"),
    (mechanisms.LaplaceOnNorm(0.5), "neighbours", "(?s)a log-ratio of 2, .*8 numbers that move by 1 each"),
    (mechanisms.NoCapInScale(1.0, 1e-6), "neighbours", "a delta of"),
    (mechanisms.NoCapInThreshold(1.0, 1e-6), "neighbours", "a delta of"),
    (mechanisms.OneNewUnit(1.0, 1e-6), "neighbours", "(?s)a delta of .*2-swap"),
    (mechanisms.OneNewUnitMoreOften(1.0, 3e-4), "neighbours", "(?s)a delta of .*2-swap"),
    (mechanisms.DrawsWithoutCap(0.7, 1e-3), "sampler", "(?s)do not follow its law.*at most 3 items a unit"),
    (mechanisms.ByUnit(0.7, "percent"), "neighbours", "too few values to hide a number that moves by 1"),
    (mechanisms.OwnNoise(0.7), "sampler", "two equal sources give it two releases"),
    (mechanisms.OwnNoiseOfEachSource(0.7), "sampler", "the same outcome of two sources of noise came"),
    (mechanisms.NoiseOfTheNumbers(0.7), "sampler", "the same outcome of two draws came"),
    (mechanisms.OwnItems(0.7, 1e-3), "sampler", "two equal sources give it two releases"),
    (mechanisms.NoiseInTheVectorsUnit(0.05), "neighbours", "(?s)Renyi.*a step of 1/2 over 1"),
    (mechanisms.NoiseOfTheMean(0.05), "neighbours", "(?s)Renyi.*a step of 1 over 3"),
    (mechanisms.DrawsInTheVectorsUnit(0.05), "sampler", "(?s)do not follow its law.*a step of 3 over 1"),
    (mechanisms.NormUnstated(0.05), "neighbours", "(?s)does not hold.*20 times -1.*squared norm None"),
    (mechanisms.BoundOfTwo(0.7), "neighbours", "(?s)does not hold.*bound 5"),
    (mechanisms.HalfWhenAdded(0.7), "sampler", "(?s)do not follow its law.*add-remove"),
    (mechanisms.ItemsByAdjacency(1.0, 1e-6), "sampler", "(?s)do not follow its law.*L1 2, add-remove"),
    (mechanisms.OwnTests(0.7), "sampler", "two equal sources give it two releases"),
    (mechanisms.Endless(0.7), "sampler", "a run goes on after its first yes"),
    (mechanisms.WithoutLaw(), "drive", "it has no law"),
    (mechanisms.TakesWords(), "drive", "no public method"),
    (clusterings.ForgottenDelta(), "composition", "costs epsilon inf at delta 0"),
    (made(clusterings.KeepsItsBound), "state", ALONE),
    pytest.param(made(clusterings.KeepsItsRadius), "state", ALONE, marks=pytest.mark.slow),
    pytest.param(made(clusterings.KeepsItsCountNoise), "state", ALONE, marks=pytest.mark.slow),
    (made(clusterings.SumsOfADrop), "sensitivity", "(?s)2 times the norm.*replace-one"),
    (made(clusterings.SumsOfASwapWhenAdded), "sensitivity", "(?s)2 times the norm.*add-remove"),
    (made(clusterings.CountsOfADrop), "sensitivity", "1.414 times the norm"),
    (made(clusterings.HalvedCuts), "sensitivity", "scores move by"),
    (made(clusterings.KeepsByTrueCounts), "asks", "tells a mechanism something else"),
    (made(clusterings.EmptyLeafAtZero), "post-processing", "two clusterings"),
    (made(clusterings.CountsWithoutNoise), "post-processing", "two clusterings"),
    (made(clusterings.SumsForFree), "composition", "costs epsilon"),
    (made(clusterings.OneLevelForAll), "composition", "costs epsilon"),
    (made(clusterings.OwnSource), "sampler", "another source of noise"),
    (made(clusterings.Remembers), "sensitivity", "its sum moves by"),
    (made(clusterings.NoMechanism), "drive", "draws from no mechanism"),
    (made(clusterings.ThreeDimensions, projection=PublicProjection.raw(3)), "drive", "it refuses .*2 dimensions"),
    (clusterings.StartsAtTheFirst(), "sensitivity", r"(?s)its sum moves by.*points \(-1.0, 0.0\), \(-0.6"),
    (
        clusterings.StartsInTheMiddle(),
        "sensitivity",
        r"(?s)its sum moves by.*32 times \(-0.6, 0.1\), \(1.0, 0.0\), 8 times",
    ),
    (clusterings.StartsAtTheSixtieth(), "order", "depends on the order of points; .* no proof"),
    (clusterings.KeepsPointsOfASize(), "state", "follows what was asked before it"),
    (clusterings.KeepsPointsOfAQuestion(), "state", "(?s)follows what was asked before it.*beside public"),
    (clusterings.PublicAsTheSixtieth(), "order", "(?s)depends on the order of points.*beside public"),
    (clusterings.KeepsAClipOfASize(), "state", "follows what was asked before it"),
    (clusterings.KeepsEveryPoint(), "state", "no difference was found"),
    (clusterings.ChargesByTheLastPoints(), "state", "its next plan or charge"),
    (clusterings.WhereTwelveStand(), "asks", "asks or draws more in a neighbouring world"),
    (mechanisms.NarrowBelowZero(0.7), "drive", "draws where its law is refused: threshold is -20"),
    (clusterings.PublicWeighAsMuch(), "sensitivity", "(?s)its sum moves by.*beside public points"),
    (clusterings.OfRadiusOne(), "sensitivity", "(?s)its sum moves by.*a radius of 2"),
    (clusterings.OfMoreThanTen(), "sensitivity", r"(?s)its sum moves by.*10 times \(-0.6, 0.1\), 14 times \(nan"),
    (clusterings.AtTheMedianLength(), "sensitivity", "its sum moves by"),
    (clusterings.AtALargeLength(Adjacency.ADD_REMOVE), "sensitivity", "its sum moves by"),
    (clusterings.AlongTheWidestAxis(), "sensitivity", "(?s)its sum moves by.*12 times .*12 times .*12 times"),
    (clusterings.MirroredWhereMostAreBelow(), "sensitivity", r"(?s)its sum moves by.*times \(0.04, -0.03\)"),
    (clusterings.SureOfTen(), "post-processing", "two clusterings"),
    (clusterings.MeansOfThePoints(), "post-processing", "two clusterings"),
    (clusterings.MeansOfThePoints(form="fractions"), "post-processing", "two clusterings"),
    (clusterings.MeansOfThePoints(form="function"), "post-processing", "two clusterings"),
    (clusterings.MeansOfThePoints(form="iterator"), "post-processing", "two clusterings"),
    (clusterings.Generates(), "drive", "nothing that it holds can be compared"),
    pytest.param(
        clusterings.RefusesFewWhenAdded(), "neighbours", "(?s)points is .few.*points of nobody", marks=pytest.mark.slow
    ),
]
ANSWERERS = [
    pytest.param(answerers.WrongTogether, "sensitivity", "told a sensitivity of 2, and", marks=pytest.mark.slow),
    (answerers.HalvedSensitivity, "sensitivity", "told a sensitivity of 1, and scores move by 2"),
    (answerers.BlankIsGone, "sensitivity", "(?s)told a sensitivity of 1, and scores move by 2.*zero-out, all, 4"),
    pytest.param(answerers.BlankIsGoneAtAChoice, "sensitivity", "(?s)by 4.*zero-out, all, 4", marks=pytest.mark.slow),
    pytest.param(answerers.WordsWithHalf, "neighbours", "a mechanism of its own, HalfForEach", marks=pytest.mark.slow),
    pytest.param(answerers.WordsInPercent, "neighbours", "own, ByUnit, .* too few values", marks=pytest.mark.slow),
    pytest.param(answerers.WordsWithHalfForADrop, "neighbours", "own, HalfForADrop", marks=pytest.mark.slow),
    pytest.param(answerers.WordsWithHalfWhereSmall, "neighbours", "own, HalfWhereSmall", marks=pytest.mark.slow),
    pytest.param(answerers.WordsWithHalfWhereAdded, "neighbours", "of its own, HalfWhereAdded", marks=pytest.mark.slow),
    pytest.param(
        answerers.WordsWithHalfWhereAddedAlone, "drive", "cannot be checked: it raised Param", marks=pytest.mark.slow
    ),
    pytest.param(
        answerers.WordsWithLightNoise, "composition", "what it draws costs epsilon 16", marks=pytest.mark.slow
    ),
    pytest.param(
        answerers.TwoAtMost, "sensitivity", "(?s)told a sensitivity of 2, and scores move by 4", marks=pytest.mark.slow
    ),
    (answerers.ForgottenDelta, "composition", "costs epsilon inf at delta 0"),
    (answerers.WordsAsOften, "sensitivity", "scores move by 39"),
    (answerers.FortyWordsAtMost, "sensitivity", "they change by 197"),
    (answerers.FourKeywordsAtMost, "sensitivity", "counts change by 8 in all, and they change by 9"),
    (answerers.KeepsItsBound, "sensitivity", "(?s)told a sensitivity of 2, and scores move by 4.*cells"),
    (answerers.KeepsItsWidth, "sensitivity", "(?s)told a sensitivity of 2, and scores move by 4.*cells"),
    pytest.param(answerers.KeepsItsWeight, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(answerers.KeepsTheFirstMade, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(answerers.KeepsItsUniverse, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(answerers.KeepsItsAnswers, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(answerers.KeepsItsWeights, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(answerers.SetInItsOrder, "post-processing", "two outcomes", marks=pytest.mark.slow),
    (answerers.OrderBehindAYes, "post-processing", "two outcomes"),
    (answerers.SecondSetInItsOrder, "post-processing", "two outcomes"),
    (answerers.CompanionsOfEverySet, "composition", "costs epsilon 1[0-9]"),
    (answerers.CompanionsOfEveryPair, "composition", "costs epsilon 1[39]"),
    pytest.param(answerers.CompanionsBehindAGate, "composition", "costs epsilon 1[03]", marks=pytest.mark.slow),
    pytest.param(answerers.TwoCompanionsOfAList, "composition", "costs epsilon 13.8", marks=pytest.mark.slow),
    (answerers.QuotesTheFirst, "order", "depends on the order of experts, or on a null one more"),
    (answerers.InTheUsualForm, "post-processing", "(?s)two outcomes.*13 times .*12 times"),
    (answerers.LastWordWhereNobodyWrites, "state", "where no record says anything"),
    (answerers.KeepsAnAnswer, "post-processing", "finished in two ways"),
    (answerers.LongTextsCountMore, "sensitivity", "told a sensitivity of 2"),
    (answerers.PrivateUniverse, "asks", "tells a mechanism something else"),
    (answerers.SameSizePrivateUniverse, "post-processing", "two outcomes"),
    (answerers.PrivateRepresentative, "post-processing", "something private reaches them without noise"),
    (answerers.CheapEvent, "composition", "costs epsilon"),
    (answerers.CheapForASwap, "composition", "(?s)costs epsilon 16.*replace-one"),
    (answerers.SaysFree, "price", "costs nothing"),
    (answerers.TwiceThePrice, "composition", "costs epsilon 16"),
    (answerers.RepeatsItself, "state", "keeps state"),
    (answerers.KeepsCounts, "state", "follows what was asked before it"),
    (answerers.KeepsCountsOfSamples, "state", "(?s)follows what was asked before it.*without-replacement"),
    (answerers.UniverseOfAFewUnsaid, "candidates", "compares no public answers"),
    pytest.param(
        answerers.SilentWhereFewOfAHundred, "post-processing", "(?s)two outcomes.*120 times", marks=pytest.mark.slow
    ),
    (answerers.TooLargeAnOptionOfAHundred, "draws", "raised ParameterError: top is 64"),
    (answerers.AtLeastAHundredth, "composition", r"(?s)costs epsilon 0\.01 .*without-replacement"),
    pytest.param(answerers.EveryCommonOfSixty, "composition", r"costs epsilon \d\d", marks=pytest.mark.slow),
    (answerers.TellsBehindACoin, "post-processing", "two outcomes"),
    (answerers.TellsBehindAYesAndACoin, "post-processing", "two outcomes"),
    (answerers.CoinForALongText, "asks", "throws other coins"),
    (answerers.AddsEarlierQuestions, "order", "what it adds up"),
    (answerers.ReadsTheFirst, "order", "depends on the order"),
    (answerers.NullsVote, "sensitivity", "(?s)scores move by 2.*add-remove"),
    (answerers.OwnNoise, "sampler", "another source of noise"),
    (answerers.WithoutNoise, "drive", "draws from no mechanism"),
    (answerers.AsksWhileDrawing, "draws", "asks a model while it draws"),
    (answerers.FailsOnSomeDraws, "draws", "raised ValueError"),
    pytest.param(answerers.TooLargeAnOption, "draws", "raised ParameterError: top is 64", marks=pytest.mark.slow),
    (answerers.TellsHowMany, "post-processing", "two outcomes"),
    (answerers.NoTextWhenSilent, "finish", "is no text"),
    (answerers.NoiseOfTheMean, "composition", "costs epsilon"),
    (answerers.BySquaredNorm, "sensitivity", "its sum moves by"),
    (answerers.AtTheMedian, "sensitivity", "(?s)its sum moves by.*12 times 'a lost card'"),
    (answerers.WhereMostAgree, "sensitivity", "(?s)its sum moves by.*19 times 'the card', 5 times 'the fee'"),
    (answerers.AtTheMean, "sensitivity", "(?s)its sum moves by.*47 experts, and"),
    (answerers.SureWhereOneLeads, "post-processing", "(?s)two outcomes.*10 times 'the card', 14 times 'the fee'"),
    (answerers.SureOfARareWord, "post-processing", "(?s)two outcomes.*16 times 'the card'.*add-remove"),
    (answerers.NoiseOfADrop, "sensitivity", "2 times the norm"),
    (answerers.DividesByThoseWhoWrote, "asks", "tells a mechanism something else"),
    (answerers.Unclipped, "sensitivity", "its sum moves by"),
    (answerers.QuietNoise, "composition", "costs epsilon"),
    (answerers.NeedsArguments, "drive", "without arguments"),
    (answerers.DoubleQuery, "sensitivity", "told that counts change by"),
    (answerers.PrivateThreshold, "asks", "tells a mechanism something else"),
    (answerers.TwoRuns, "composition", "costs epsilon 1"),
    (answerers.TestedForLess, "composition", "costs epsilon 8"),
    (answerers.EveryCommon, "composition", "costs epsilon"),
    (answerers.EachWordTwice, "sensitivity", "told that counts of items change by"),
    pytest.param(answerers.RareWordsOut, "sensitivity", "scores move by 10", marks=pytest.mark.slow),
    pytest.param(answerers.SilentWhereFew, "post-processing", "two outcomes", marks=pytest.mark.slow),
    pytest.param(answerers.AtLeastTwo, "composition", "costs epsilon 2 at", marks=pytest.mark.slow),
    pytest.param(
        answerers.CoarseCounts, "sensitivity", "told a sensitivity of 2, and scores move by 8", marks=pytest.mark.slow
    ),
    pytest.param(
        answerers.QuietUnderRho, "composition", "costs epsilon 16.*BoundedRange.eta=8", marks=pytest.mark.slow
    ),
    pytest.param(
        answerers.QuietWithoutADelta, "composition", r"(?s)costs epsilon 4.*delta=0\.0", marks=pytest.mark.slow
    ),
    (answerers.DearWithoutADelta, "composition", r"(?s)costs epsilon 16.*delta=0\.0"),
    (answerers.DearInCrowds, "sensitivity", "(?s)told a sensitivity of 2, and scores move by 4.*143 experts"),
    (answerers.RefusesEverything, "drive", "it refuses every price"),
    (answerers.ComparesUnsaid, "candidates", "they change its answer"),
    (answerers.UniverseUnsaid, "candidates", "they change its answer"),
    (answerers.QuotesAnExpert, "post-processing", "one outcome is finished in two ways"),
    pytest.param(answerers.RateByTheLastAnswer, "state", "its next plan or charge", marks=pytest.mark.slow),
]
FITTERS = [
    pytest.param(fitters.WrongTogether, "sensitivity", "2 times the norm", marks=pytest.mark.slow),
    pytest.param(fitters.BlanksAreOneUnit, "sensitivity", "2 times the norm", marks=pytest.mark.slow),
    pytest.param(fitters.SharesWithHalf, "neighbours", "a mechanism of its own, HalfForEach", marks=pytest.mark.slow),
    pytest.param(
        fitters.HalfOfVotes, "sensitivity", "told a sensitivity of 1, and scores move by 2", marks=pytest.mark.slow
    ),
    (fitters.AsksUnsaid, "asks", "asks experts and does not say so"),
    (fitters.AsksUnnamed, "asks", "asks experts and does not say so"),
    (fitters.WritesIntoRecords, "draws", "read-only"),
    (fitters.SumsOfOneDigest, "isolation", "two rules of its sums have one digest"),
    (fitters.HalvedSensitivity, "sensitivity", "2 times the norm"),
    (fitters.KeepsItsNorm, "state", ALONE),
    pytest.param(fitters.KeepsNoiseOfTwo, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(fitters.KeepsItsWeight, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(fitters.KeepsTheFirstMade, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(fitters.KeepsItsDimension, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(fitters.KeepsItsTexts, "state", ALONE, marks=pytest.mark.slow),
    pytest.param(fitters.KeepsItsLengths, "state", ALONE, marks=pytest.mark.slow),
    (fitters.ForgottenDelta, "composition", "costs epsilon inf at delta 0"),
    (fitters.LikestWithoutADelta, "post-processing", "two supports"),
    pytest.param(fitters.QuietWithoutADelta, "composition", r"(?s)costs epsilon.*delta=0\.0", marks=pytest.mark.slow),
    (fitters.TwiceFromTwelveUnits, "composition", "(?s)costs epsilon 5.5.*14 times slant"),
    pytest.param(fitters.TwiceFromFiveHundred, "composition", "1000 times slant", marks=pytest.mark.slow),
    (fitters.FromAMillion, "drive", "it refuses every price"),
    (fitters.FactorOneForASwap, "sensitivity", "(?s)its sum moves by.*replace-one"),
    (fitters.NoiseInTheVectorsUnit, "composition", "costs epsilon"),
    (fitters.BySquaredNorm, "sensitivity", "(?s)its sum moves by.*short:1"),
    (fitters.ByNorm, "sensitivity", "(?s)its sum moves by.*zero:0"),
    (fitters.AtTheMedian, "isolation", "(?s)depends on the other units.*short:1"),
    (fitters.OneUnitForTwo, "sensitivity", "(?s)its sum moves by.*2-swap"),
    (fitters.KeepsSumsUnderAddRemove, "state", "(?s)follows what was asked before it.*add-remove"),
    (fitters.WithoutNoise, "post-processing", "something private reaches them without noise"),
    (fitters.BareCount, "post-processing", "(?s)two supports.*add-remove"),
    (fitters.BareClassCounts, "post-processing", "two supports"),
    (fitters.Unclipped, "sensitivity", "its sum moves by"),
    (fitters.EachRecordByItself, "sensitivity", "its sum moves by"),
    (fitters.TenRecordsAtMost, "sensitivity", "its sum moves by"),
    (fitters.Centred, "isolation", "depends on the other units"),
    (fitters.NoiseInEachShard, "composition", "costs epsilon"),
    (fitters.TheBetterOfTwo, "composition", "costs epsilon"),
    (fitters.TheLargerOfTwo, "composition", "costs epsilon"),
    (fitters.UntilItSuits, "draws", "how often it draws"),
    (fitters.AgainInAWindow, "draws", "how often it draws"),
    (fitters.AgainUnderRho, "draws", "how often it draws"),
    (fitters.QuietUnderRho, "composition", "(?s)costs epsilon.*a ledger that adds rho"),
    (fitters.QuietForPersons, "composition", "(?s)costs epsilon.*the unit 'person'"),
    (fitters.QuietWithThreeLabels, "composition", "(?s)costs epsilon.*3 labels"),
    (fitters.QuietInFourDimensions, "composition", "(?s)costs epsilon.*4 dimensions"),
    (fitters.QuietAtAnotherPrice, "composition", r"(?s)costs epsilon.*epsilon=1\.0"),
    pytest.param(fitters.QuietAtTheEdge, "composition", r"(?s)costs epsilon.*epsilon=1000\.0", marks=pytest.mark.slow),
    (fitters.CountsUnderRho, "post-processing", "(?s)two supports.*add-remove"),
    (fitters.ChosenForHalfUnderRho, "neighbours", "(?s)does not hold.*a ledger that adds rho"),
    (fitters.RaisesOnNegatives, "draws", "raised ValueError"),
    (fitters.OccupiedLabels, "asks", "tells a mechanism something else"),
    (fitters.NoiseFollowsData, "asks", "tells a mechanism something else"),
    (fitters.MoreTextsThanItSays, "size", "it leaves 2 texts, and its most_texts says 1"),
    (fitters.TextsWithoutABound, "size", "it lacks 'most_texts'"),
    (fitters.MoreCoordinatesThanVectors, "size", "its map has 6 coordinates"),
    (fitters.OwnSource, "sampler", "another source of noise"),
    (fitters.CheapEvent, "composition", "costs epsilon"),
    (fitters.CountForFree, "composition", "(?s)costs epsilon.*add-remove"),
    (fitters.QuietDraw, "post-processing", "two supports"),
    (fitters.AbovePrice, "price", "it costs epsilon"),
    (fitters.LeftOpen, "price", "left open"),
    (fitters.Remembers, "post-processing", "two supports"),
    (fitters.KeepsSums, "state", "follows what was asked before it"),
    (fitters.Shapely, "draws", "the shape of its support"),
    (fitters.ChosenWithHalf, "sensitivity", "(?s)scores move by.*replace-one"),
    (fitters.ChosenForHalf, "neighbours", "does not hold"),
    (fitters.ChosenTwice, "neighbours", "does not hold"),
    (fitters.TheLikest, "post-processing", "two supports"),
    (fitters.LikestWhereItLeads, "post-processing", "(?s)two supports.*7 times east:0"),
    (fitters.OccupiedAlone, "post-processing", "two supports"),
    (fitters.NoiseOutOfRange, "draws", "its fit raised ParameterError: noise_multiplier"),
    (fitters.TestsTwiceTheUnits, "sensitivity", "told that counts change by"),
    (fitters.TestForFree, "composition", "costs epsilon"),
    pytest.param(fitters.RareLabelsOut, "post-processing", "two supports", marks=pytest.mark.slow),
    pytest.param(fitters.RareLabelsZeroed, "sensitivity", "its sum moves by", marks=pytest.mark.slow),
    (fitters.NeedsWords, "drive", "unknown choice"),
    (fitters.NoiseByTheLastFit, "state", "its next plan or charge"),
]


RIGHT = [
    Laplace(epsilon=0.002),
    Laplace(epsilon=60.0),
    LaplaceNoisyMax(epsilon=20.0),
    GaussianNoisyMax(rho=4.0),
    GaussianNoisyMax(rho=20.0),
    StabilityHistogram(epsilon=0.05, failure_delta=0.01),
    pytest.param(StabilityHistogram(epsilon=0.001, failure_delta=1e-6), marks=pytest.mark.slow),
    mechanisms.HoldsAnArray(),
    mechanisms.OneByChance(sigma=2.0, failure_delta=1e-6, k=2),
    mechanisms.EachCountItsShare(),
    made(DPM, levels=(Level(kappa=0.4, count_rho=2.0),) * 2, sum_rho=4.0),
    made(DPM, adjacency=Adjacency.ADD_REMOVE, centres="projected", axes="in turn"),
    made(DPM, adjacency=Adjacency.ZERO_OUT, max_gap=None, min_size=1),
]
"""Right mechanisms at parameters at which laws are wide, or underflow in floating point."""


@pytest.mark.slow
@pytest.mark.parametrize("right", RIGHT, ids=repr)
def test_no_right_mechanism_is_refused_for_its_parameters(right):
    assert check_mechanism(right).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    "right",
    [
        StabilityHistogram(20.0, 1e-9),
        ProposeTestRelease(1.0, 0.01, k=3),
        pytest.param(JointTopK(1.0, k=5), marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_sharp_histograms_and_several_choices_are_compared(right):
    assert check_mechanism(right).passed


def test_a_right_choice_with_wide_noise_is_asked_with_the_norm_that_it_needs():
    wide = _Mechanism(GaussianNoisyMax(rho=1e-3), Effort.QUICK, Report("mechanism", "wide"))
    assert wide._tests_leads, "a vote says so little that it passes for a test of leads"
    assert all(scores.squared_l2 for pair in wide._random_scores(40, large=False) for scores in pair)


def test_noise_that_floats_cannot_compare_is_no_proof():
    with pytest.raises(ContractError, match="too narrow") as failed:
        check_mechanism(Laplace(epsilon=1_000.0))
    assert failed.value.contract == "drive"


@pytest.mark.parametrize("wide", [Laplace(epsilon=1e-6), GaussianVector(rho=1e-11)], ids=repr)
def test_noise_that_is_too_wide_is_refused_before_anything_is_compared(wide, monkeypatch):
    monkeypatch.setattr(_Mechanism, "_compare", lambda *given: pytest.fail("compared"))
    with pytest.raises(ContractError, match="too wide to be compared") as failed:
        check_mechanism(wide)
    assert failed.value.contract == "drive"


def test_what_lies_beyond_the_reach_leaves_the_same_remainders():
    masses = np.zeros(2_001)
    masses[1_000 % 4 :: 4] = 0.4 / 501
    _, chances = _parts_of(masses)
    assert chances["noise divisible by 2"] == pytest.approx(1)
    assert chances["noise divisible by 3"] == pytest.approx(1 / 3, abs=1e-3)
    assert chances["noise divisible by 16"] == pytest.approx(1 / 4, abs=1e-3)


def test_what_lies_beyond_the_reach_counts_as_much_noise():
    middle, chances = _parts_of(np.full(2_001, 0.0002))
    assert (middle, chances["little noise"], chances["more"]) == (833, pytest.approx(0.3334), pytest.approx(0.3333))


def name(value: object) -> str:
    return getattr(value, "__name__", type(value).__name__) if not isinstance(value, str) else ""


@pytest.mark.cases(3)
@pytest.mark.parametrize(("wrong", "contract", "reason"), METHODS, ids=name)
def test_a_wrong_method_is_noticed(wrong, contract, reason):
    notice(check_method, wrong, contract, reason)


@pytest.mark.slow
@pytest.mark.parametrize("right", [methods.NarrowerWhereSure, methods.ClipOfTheLead, methods.HeavyApprovals], ids=name)
def test_a_bound_may_follow_the_public_row(right):
    assert check_method(right).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    "right",
    [
        methods.LessTheBest,
        methods.CappedVotesByLaw,
        methods.AddsUpInFloats,
        methods.WithoutADelta,
        methods.UpToTen,
        methods.ApprovesTwoLabels,
        methods.HoldsAnArray,
        methods.TopOfMany,
    ],
    ids=name,
)
def test_what_the_guarantee_does_not_ask_is_not_asked(right):
    assert check_method(right).passed


def test_a_shift_of_all_scores_and_the_last_bits_of_a_law_are_no_fault():
    less = methods.LessTheBest()
    shifted = _Method(less, Effort.QUICK, Report("method", ""), first=True)
    shifted._summands(less, CHANGES[0], ROWS[2], PUBLIC[2])
    assert [check.contract for check in shifted.report.checks] == ["isolation"]
    floats = _Method(methods.AddsUpInFloats(), Effort.QUICK, Report("method", ""), first=True)
    floats._order_of_experts(floats._claims(PRICES[:1]))
    assert {check.contract for check in floats.report.checks} == {"price", "order"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "right",
    [
        decoders.Own,
        decoders.LessTheBest,
        decoders.CappedSums,
        decoders.CommonTokens,
        decoders.LaplaceMax,
        decoders.NoisyVotes,
        decoders.ApprovesTwo,
    ],
    ids=name,
)
def test_a_decoder_may_have_a_sampler_and_scores_of_its_own(right):
    assert check_decoder(right).passed


@pytest.mark.cases(3)
@pytest.mark.parametrize(("wrong", "contract", "reason"), DECODERS, ids=name)
def test_a_wrong_decoder_is_noticed(wrong, contract, reason):
    notice(check_decoder, wrong, contract, reason)


@pytest.mark.cases(3)
@pytest.mark.parametrize(("wrong", "contract", "reason"), WHATEVER_DRAWS, ids=name)
def test_a_wrong_decoder_is_noticed_by_whatever_it_draws(wrong, contract, reason):
    notice(check_decoder, wrong, contract, reason)


@pytest.mark.slow
def test_a_method_without_a_law_that_draws_too_often_is_noticed():
    notice(check_method, methods.UntilTwice, "neighbours", r"at least 2\.\d+ apart: 2.0 is allowed")


@pytest.mark.cases(3)
@pytest.mark.parametrize(("wrong", "contract", "reason"), MECHANISMS, ids=name)
def test_a_wrong_mechanism_is_noticed(wrong, contract, reason):
    notice(check_mechanism, wrong, contract, reason)


@pytest.mark.parametrize(
    ("wrong", "example"),
    [
        (mechanisms.KeepsTheFirstMade, {"epsilon": 0.7}),
        pytest.param(clusterings.KeepsTheFirstMade, clusterings.MADE_WITH, marks=pytest.mark.slow),
    ],
    ids=["noise", "clustering"],
)
def test_what_a_class_keeps_of_the_first_one_that_is_made_is_noticed(wrong, example):
    notice(partial(check_mechanism, example=example), wrong, "state", ALONE)


def test_what_a_factory_makes_is_asked_alone():
    class Wrong(mechanisms.KeepsAPlainTable):
        kept: ClassVar[dict] = {}

    class Factory:
        def __new__(cls, epsilon, exact=True):
            return Wrong(epsilon)

    notice(partial(check_mechanism, example={"epsilon": 0.7}), Factory, "state", ALONE)


def test_a_mechanism_whose_arguments_are_used_up_keeps_the_contract():
    class Added(mechanisms.PlainLaplace):
        def __init__(self, shares):
            super().__init__(sum(shares))

    told = check_mechanism(Added, example={"shares": iter([0.25, 0.5])})
    assert told.passed
    assert told.uncompared == [
        "Added with another shares, which an instance does not keep by this name, or a class does not take by it"
    ]


def test_of_an_instance_that_keeps_no_argument_that_is_said():
    class Hidden(mechanisms.KeepsAPlainTable):
        kept: ClassVar[dict] = {}

        def __init__(self, rate):
            super().__init__(2 * rate)

    told = check_mechanism(Hidden(0.35)).uncompared
    assert told[0] == (
        "Hidden with another rate, which an instance does not keep by this name, or a class does not take by it"
    )
    Hidden.kept.clear()
    with pytest.raises(ContractError, match=ALONE):
        check_mechanism(Hidden, example={"rate": 0.35})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "refused"),
    [
        (clusterings.OfAUnitBall(), 3),
        (clusterings.Means(), 0),
        (clusterings.BesidePublic(), 0),
        (clusterings.BesidePublic(radius=0.5), 0),
        (clusterings.Released(), 0),
        (clusterings.Released(form="fractions"), 0),
        (clusterings.Released(form="function"), 0),
        (clusterings.Released(form="iterator"), 0),
        (clusterings.OfAnyAdjacency(), 0),
    ],
    ids=name,
)
def test_a_clustering_of_ones_own_keeps_the_contract(right, refused):
    told = check_mechanism(right)
    assert {"order", "state"} <= {check.contract for check in told.checks}
    assert all("in units of a radius of 2: radius of the points" in words for words in told.refused)
    assert len(told.refused) == refused


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "refused", "left_out"),
    [
        (clusterings.OfOneAdjacency(), [], ["add-remove", "zero-out"]),
        (clusterings.MadeForASwap(), [], ["add-remove", "zero-out"]),
        (clusterings.NeedsANumber(), ["add-remove"], []),
    ],
    ids=name,
)
def test_adjacencies_of_which_no_clustering_is_made_are_listed(right, refused, left_out):
    told = check_mechanism(right)
    assert [words.split(":")[0] for words in told.refused] == refused
    assert [words.split(" under ")[1].split(",")[0] for words in told.uncompared] == left_out


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("right", "refused"),
    [
        (mechanisms.UndividedSums(0.5), 3),
        (mechanisms.SmallThresholds(0.7), 3),
        (mechanisms.SmallCounts(0.7), 1),
    ],
    ids=name,
)
def test_what_a_mechanism_refuses_of_what_is_public_is_listed(right, refused):
    assert len(check_mechanism(right).refused) == refused


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "wrong", [mechanisms.HalfWhereFine, mechanisms.HalfInAForm, mechanisms.HalfOfAnAdjacency], ids=name
)
def test_a_mechanism_that_is_wrong_at_another_choice_than_its_example_makes_is_noticed(wrong):
    with pytest.raises(ContractError) as caught:
        check_mechanism(wrong, example={"epsilon": 0.7})
    assert caught.value.contract == "neighbours"
    assert check_mechanism(wrong(0.7)).passed, "an instance is checked as it is"


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("right", "refused"), [(mechanisms.OfEitherNoise, 1), (mechanisms.NamedForCheckers, 0)], ids=name
)
def test_a_choice_that_needs_another_number_too_is_listed(right, refused):
    assert len(check_mechanism(right, example={"epsilon": 0.7}).refused) == refused


@pytest.mark.cases(3)
@pytest.mark.parametrize(("wrong", "contract", "reason"), FITTERS, ids=name)
def test_a_wrong_fitter_is_noticed(wrong, contract, reason):
    notice(check_fitter, wrong, contract, reason)


@pytest.mark.slow
@pytest.mark.parametrize(
    "right",
    [
        fitters.Means,
        fitters.WholeBudget,
        pytest.param(fitters.FirstRecords, marks=pytest.mark.slow),
        pytest.param(fitters.NoiseInSteps, marks=pytest.mark.slow),
        fitters.Chosen,
        pytest.param(fitters.Likest, marks=pytest.mark.slow),
        fitters.WithoutADelta,
        fitters.FromTwelveUnits,
        fitters.EachShareByItself,
        pytest.param(fitters.ThrowsACoin, marks=pytest.mark.slow),
        pytest.param(fitters.CoinBetween, marks=pytest.mark.slow),
        pytest.param(fitters.TestedMeans, marks=pytest.mark.slow),
    ],
    ids=name,
)
def test_the_fitters_that_the_wrong_ones_are_made_of_keep_the_contract(right):
    assert check_fitter(right).passed


@pytest.mark.cases(3)
@pytest.mark.parametrize(("wrong", "contract", "reason"), ANSWERERS, ids=name)
def test_a_wrong_answerer_is_noticed(wrong, contract, reason):
    notice(check_answerer, wrong, contract, reason)


@pytest.mark.slow
@pytest.mark.parametrize(
    "right",
    [
        answerers.OneKeyword,
        answerers.HowLong,
        answerers.FortyWordsCounted,
        answerers.EachWordByItself,
        answerers.TwoSets,
        answerers.CompanionsOfSets,
        answerers.TwoOfEachList,
        pytest.param(answerers.ThrowsACoin, marks=pytest.mark.slow),
        pytest.param(answerers.CoinBetween, marks=pytest.mark.slow),
        answerers.Mean,
        pytest.param(answerers.MeanInSteps, marks=pytest.mark.slow),
        answerers.AnyOfForty,
        answerers.OpenWords,
        answerers.WithoutADelta,
        pytest.param(answerers.FirstCommon, marks=pytest.mark.slow),
    ],
    ids=name,
)
def test_a_right_answerer_keeps_the_contract(right):
    assert check_answerer(right).passed


def notice(check, wrong, contract: str, reason: str) -> None:
    with ExitStack() as at_the_end:
        if reason != ALONE:  # what is asked alone is compared last, so that these fail before: they need no copies
            at_the_end.enter_context(
                patch.object(asked_alone, "of_a_copy", side_effect=NoAnswerError("none is needed"))
            )
        with pytest.raises(ContractError, match=reason) as failed:
            check(wrong)
    assert failed.value.contract == contract
    if contract in (
        "neighbours",
        "records",
        "isolation",
        "sensitivity",
        "post-processing",
        "composition",
        "asks",
        "null expert",
        "order",
        "failures",
    ):
        assert failed.value.world in str(failed.value)
        assert failed.value.world


@pytest.mark.slow
def test_the_decoder_that_the_wrong_ones_are_made_of_keeps_the_contract():
    assert check_decoder(decoders.Clipped).passed


@pytest.mark.slow
def test_an_instance_is_checked_at_its_own_options():
    report = check_method(PoE(clip=0.5, normalization="max"))
    assert next(check.cases for check in report.checks if check.contract == "price") == 18


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "right"),
    [
        (check_answerer, answerers.HoldsALock),
        (check_fitter, fitters.HoldsALock),
        (check_decoder, decoders.HoldsALock),
        (check_method, methods.HoldsALock),
    ],
    ids=name,
)
def test_an_entry_may_hold_what_it_is_not_made_from(check, right):
    assert check(right).passed


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [mechanisms.Bare, mechanisms.FewCandidates], ids=name)
def test_a_right_entry_may_draw_by_a_plain_subclass_of_a_mechanism(mechanism, monkeypatch):
    monkeypatch.setattr(answerers.OneKeywordBy, "mechanism", mechanism)
    assert check_answerer(answerers.OneKeywordBy).passed


@pytest.mark.slow
def test_a_right_fitter_may_use_the_bound_that_answers_of_experts_carry():
    assert check_fitter(fitters.Votes).passed


@pytest.mark.slow
def test_a_right_decoder_that_samples_for_each_token_keeps_the_contract():
    assert check_decoder(decoders.SampledTokens).passed


@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 4])
def test_a_right_mechanism_may_call_the_number_that_it_chooses_as_it_likes(length):
    assert check_mechanism(mechanisms.InOrder(2.0, length)).passed


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_right_test_of_a_lead_may_call_the_number_that_it_chooses_as_it_likes(size):
    assert check_mechanism(mechanisms.SetOfASize(2.0, size)).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    "right", [mechanisms.PriorBesideAnother(0.7), mechanisms.LeaderOrDrawn(2.0, 1e-6, 1)], ids=name
)
def test_a_right_mechanism_may_take_a_prior_or_fall_back_to_a_draw(right):
    told = check_mechanism(right)
    assert told.passed
    assert told.uncompared == []


@pytest.mark.parametrize(
    "right", [typed.Typed, typed.ByAnotherName, pytest.param(typed.Weighted, marks=pytest.mark.slow)], ids=name
)
def test_a_right_mechanism_may_import_its_types_for_a_type_checker_alone(right):
    assert check_mechanism(right(0.7)).passed


@pytest.mark.slow
def test_a_session_of_a_fitter_has_two_labels_where_it_takes_no_more(monkeypatch):
    registered = {"means": fitters.TwoLabelsAlone}
    monkeypatch.setattr("sottovoce.testing.fit_sessions.registered_fitters", lambda: registered)
    monkeypatch.setattr(
        "sottovoce.fitting.certificate.make_fitter", lambda name, **options: registered[name](**options)
    )
    report = check_fitter(fitters.TwoLabelsAlone)
    assert next(check.cases for check in report.checks if check.contract == "session") == 6
    assert any("session" in words for words in check_fitter(fitters.Means).uncompared)


def test_what_an_entry_refuses_of_all_that_the_suite_has_is_said():
    with pytest.raises(ContractError, match=r"refuses every price .*; first it said: .*dimension .* 8 or more"):
        check_fitter(fitters.EightDimensions)


def test_what_has_no_guarantee_must_say_so():
    class Quiet(methods.SaysFree):
        private = False

    with pytest.raises(ContractError, match="not private and charges"):
        check_method(Quiet)
    assert check_method(make_method("soft")).passed


def test_something_else_is_refused_with_what_to_do():
    with pytest.raises(ContractError, match="subclass sottovoce"):
        check_method(object())
    with pytest.raises(ContractError, match="subclass sottovoce"):
        check_decoder(object())


@pytest.mark.slow
def test_what_an_entry_leaves_nothing_to_compare_of_is_said():
    told = str(check_fitter(fitters.EachShareByItself()))
    assert "not compared: sampler, for want of any case" in told
    assert "not compared: state" not in told
    assert "for want of any case" not in str(check_answerer(answerers.OneKeyword()))
    told = check_fitter(fitters.OfRecordsAlone())
    assert any("does not take units of any name" in line for line in told.uncompared)
    (state,) = [check for check in told.checks if check.contract == "state"]
    assert state.note == "questions answered as they are alone"
