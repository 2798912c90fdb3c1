"""Planted in the audits: limits of half the confidence, wrong divisors, choices that see what certifies them."""

from __future__ import annotations

from mutants.mutant import Mutant

BOUNDS = ("tests/audits/test_bounds.py",)
ONE_RUN = ("tests/audits/test_one_run.py",)
SPLIT = ("tests/audits/test_split.py",)
POWER = ("tests/audits/test_power.py",)
TRADEOFF = ("tests/audits/test_tradeoff.py",)
EXACT = ("tests/audits/exact/test_pair.py", "tests/audits/exact/test_worlds.py")

MUTANTS = [
    Mutant(
        "band-of-one-side",
        "the band holds for each side at alpha, for both together at twice that",
        "audits/bounds.py",
        'half = _LEVEL.read("alpha", alpha) / 2\n    thresholds',
        'half = _LEVEL.read("alpha", alpha)\n    thresholds',
        BOUNDS,
    ),
    Mutant(
        "curve-above-its-points",
        "the mirror image of a pair's line is not shrunk, so that large rates promise too much",
        "audits/tradeoff.py",
        "np.maximum(steep, shrink * (left - rates[:, None])).max(axis=1)",
        "np.maximum(steep, left - rates[:, None]).max(axis=1)",
        TRADEOFF,
    ),
    Mutant(
        "curve-of-one-direction",
        "a plan of samples has the curve of the added record alone",
        "privacy/accounting/profiles.py",
        "        inner = np.maximum(inner, losses.delta(at))\n",
        "        inner = losses.delta(at)\n",
        ("tests/privacy/accounting/test_profiles.py", *TRADEOFF),
    ),
    Mutant(
        "guesses-as-the-divisor",
        "right guesses are counted per guess, though which canaries are guessed on depends on what came out",
        "audits/one_run.py",
        "    _counted(canaries, guesses, correct)\n    right = ",
        "    _counted(canaries, guesses, correct)\n    canaries = guesses\n    right = ",
        ONE_RUN,
    ),
    Mutant(
        "mass-at-its-own-level",
        "mass that is added one level down counts as if it were a level higher",
        "audits/one_run.py",
        "right += more * (k - 1) / (guesses - k + 1)",
        "right += more * k / (guesses - k + 1)",
        ONE_RUN,
    ),
    Mutant(
        "the-duller-end",
        "each part of the order statistic counts with its least sure guesses",
        "audits/one_run.py",
        "1 - beta.ppf(QUANTILES[1:], trials - guesses, guesses + 1)",
        "1 - beta.ppf(QUANTILES[:-1] * 0.9, trials - guesses, guesses + 1)",
        ONE_RUN,
    ),
    Mutant(
        "ties-by-name",
        "equal scores stand in the order of names, which may tell the coin",
        "audits/split.py",
        "sorted(scores, key=lambda name: hashlib.sha256(name.encode()).digest())",
        "sorted(scores)",
        SPLIT,
    ),
    Mutant(
        "chosen-on-all-trials",
        "a rule sees the trials that certify its choice",
        "audits/split.py",
        "self._selecting, self._certifying = trials.only(selecting), trials.only(~selecting)",
        "self._selecting, self._certifying = trials, trials.only(~selecting)",
        SPLIT,
    ),
    Mutant(
        "counted-again",
        "the certifying trials can be counted as often as it takes",
        "audits/split.py",
        "        self._counted = True\n",
        "",
        SPLIT,
    ),
    Mutant(
        "joined-by-place",
        "truths are read in their own order",
        "audits/split.py",
        "truths = [present[name] for name in ids]",
        "truths = list(present.values())",
        SPLIT,
    ),
    Mutant(
        "holm-without-order",
        "an adjusted p-value may be below that of a smaller one",
        "audits/several.py",
        "highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[name]))",
        "highest = min(1.0, (len(p_values) - rank) * p_values[name])",
        ("tests/audits/test_several.py",),
    ),
    Mutant(
        "power-of-a-looser-test",
        "the power is that of a test whose limits have the whole level each",
        "audits/power.py",
        '    half = _LEVEL.read("alpha", alpha) / 2\n\n    def chance',
        '    half = _LEVEL.read("alpha", alpha)\n\n    def chance',
        POWER,
    ),
    Mutant(
        "losses-of-one-direction",
        "delta is that of the first law alone",
        "audits/exact/pair.py",
        "return np.asarray(np.maximum(forward, backward))",
        "return np.asarray(forward)",
        EXACT,
    ),
    Mutant(
        "neighbours-of-the-first-expert",
        "the search leaves out every expert but the first",
        "audits/exact/labels.py",
        "for own in _distinct(self.rows):",
        "for own in _distinct(self.rows)[:1]:",
        EXACT,
    ),
    Mutant(
        "underflow-is-impossible",
        "a float that underflowed counts as an outcome that one world cannot have, and refutes a sound method",
        "mechanisms/base.py",
        "        return math.log(max(float(p), LEAST))\n",
        "        return math.log(p) if p > 0 else -math.inf\n",
        EXACT,
    ),
    Mutant(
        "power-of-the-easiest-leak",
        "a leak of unknown form is taken for the one that is easiest to find, and its power is stated",
        "audits/power.py",
        "    if with_less_noise(event, factor) is None:\n        return None\n",
        "    if with_less_noise(event, factor) is None:\n"
        "        return TradeOff.of_points([(factor * _epsilon_of(event, adjacency, delta), delta)])\n",
        POWER,
    ),
    Mutant(
        "power-of-a-curve-that-nothing-has",
        "a leak of Gaussian noise has the curve of its Renyi divergences, and an audit that finds 5 % states 96 %",
        "audits/power.py",
        "    return attained(with_less_noise(event, by), adjacency)\n",
        "    return TradeOff.of_event(with_less_noise(event, by), adjacency)\n",
        POWER,
    ),
    Mutant(
        "power-of-a-larger-leak",
        "composed noise is lessened until it leaks more than the factor says, and the audit looks stronger than it is",
        "audits/power.py",
        "adjacency, delta) <= factor * epsilon)",
        "adjacency, delta) <= factor**2 * epsilon)",
        POWER,
    ),
    Mutant(
        "claim-of-another-ledger",
        "a fitted file is audited for what its event costs by every bound, not for what it promises by its ledger's",
        "audits/kinds/fitted.py",
        'adds = certificate.asked["currency"] == "epsilon"',
        "adds = True",
        ("tests/audits/test_kinds.py",),
    ),
    Mutant(
        "two-looks-at-one-level",
        "whole addresses and parts are tested at 95 % each, and one of them is found by chance in up to 10 %",
        "audits/kinds/extract.py",
        "level = level_of_each(ALPHA, 2)",
        "level = ALPHA",
        ("tests/audits/test_kinds.py",),
    ),
    Mutant(
        "own-addresses-of-the-records",
        "addresses that the records have of their own count as planted, and a common word refutes a silent system",
        "audits/kinds/extract.py",
        "    return planted, Secrets(addresses)\n",
        "    return planted, Secrets(str(row.values[field]) for row in planted)\n",
        ("tests/audits/test_kinds.py",),
    ),
    Mutant(
        "extraction-that-cannot-refute",
        "there are no more addresses in the control than planted ones, and what comes back once is no violation",
        "audits/kinds/extract.py",
        "CONTROLS: Final = 99",
        "CONTROLS: Final = 1",
        ("tests/audits/test_kinds.py",),
    ),
]
