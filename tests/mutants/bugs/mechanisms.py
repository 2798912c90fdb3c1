"""Planted in mechanisms and their source of noise: scales, floors, thresholds, exactness, prices, control flow."""

from __future__ import annotations

from mutants.mutant import Mutant

CONTRACT = ("tests/contracts/test_entries.py::test_it_keeps_its_contract",)
RANDOM_WORLDS = (
    "tests/contracts/test_every_mechanism.py::test_a_law_by_summation_keeps_its_guarantee_in_random_worlds",
)
PRICED_AS_PURE = (
    "tests/contracts/test_every_mechanism.py"
    "::test_pure_mechanisms_pass_the_width_so_they_may_not_be_charged_as_bounded_range",
)
EXPONENTIAL = ("tests/mechanisms/test_oracles.py", "tests/mechanisms/test_exponential_large.py")
TOP_K = ("tests/mechanisms/test_one_shot_top_k.py",)
JOINT = ("tests/mechanisms/test_joint_top_k.py",)
VECTOR = ("tests/mechanisms/test_gaussian_vector.py",)
ROUNDED = ("tests/mechanisms/test_rounded_gaussian.py",)
LAPLACE = ("tests/mechanisms/test_laplace.py", "tests/mechanisms/test_discrete_laplace.py")
THRESHOLD = ("tests/mechanisms/test_above_threshold.py",)
PTR = ("tests/mechanisms/test_propose_test_release.py",)
HISTOGRAM = ("tests/mechanisms/test_stability_histogram.py",)
HOLES = ("tests/mutants/test_holes.py",)
RANDOMNESS = ("tests/survival/test_randomness.py", "tests/test_session.py")

MUTANTS = [
    Mutant(
        "sensitivity-halved",
        "log-weights move by twice epsilon where one record changes",
        "mechanisms/samplers/integer_weights.py",
        "return (epsilon - ROUNDING) / sensitivity",
        "return 2 * (epsilon - ROUNDING) / sensitivity",
        CONTRACT,
    ),
    Mutant(
        "rounding-not-paid-for",
        "weights are rounded, and nothing is taken off epsilon for it",
        "mechanisms/samplers/integer_weights.py",
        "return (epsilon - ROUNDING) / sensitivity",
        "return epsilon / sensitivity",
        EXPONENTIAL,
    ),
    Mutant(
        "no-floor",
        "a hopeless candidate gets weight zero, which a change can lift",
        "mechanisms/samplers/integer_weights.py",
        "(*blocks, floor_exp(DEEPEST, BLOCK_BITS))",
        "(*blocks, 0)",
        EXPONENTIAL,
    ),
    Mutant(
        "float32-sampler",
        "the choice is drawn from weights in 32-bit floating point",
        "mechanisms/exponential.py",
        "return int(kept[_draw(weight_table(rate), values, randomness)])",
        "weights = np.exp((values - values.max()) * np.float32(rate)).astype(np.float32)\n"
        "        point = np.float32(randomness.below(1 << 24) / (1 << 24)) * weights.sum()\n"
        '        return int(kept[min(len(kept) - 1, int(np.searchsorted(np.cumsum(weights), point, side="right")))])',
        EXPONENTIAL,
    ),
    Mutant(
        "clear-winner-shortcut",
        "a lead that is large enough decides without a draw: true scores in control flow",
        "mechanisms/exponential.py",
        "return int(kept[_draw(weight_table(rate), values, randomness)])",
        "two = np.sort(values)[-2:]\n"
        "        if (two[-1] - two[0]) * rate > 20:\n"
        "            return int(kept[int(values.argmax())])\n"
        "        return int(kept[_draw(weight_table(rate), values, randomness)])",
        EXPONENTIAL,
    ),
    Mutant(
        "prior-taken-off",
        "a public prior counts against what it favours",
        "mechanisms/exponential.py",
        "return scores.values[kept] + steps, kept",
        "return scores.values[kept] - steps, kept",
        EXPONENTIAL,
    ),
    Mutant(
        "flip-without-permute",
        "candidates are visited in the order of the list",
        "mechanisms/permute_and_flip.py",
        "turn = randomness.below(len(waiting))",
        "turn = len(waiting) - 1",
        CONTRACT,
    ),
    Mutant(
        "permute-and-flip-as-bounded-range",
        "a pure mechanism is charged as bounded range, which composes at a quarter of the price",
        "mechanisms/permute_and_flip.py",
        "from sottovoce.privacy.events import PureDP",
        "from sottovoce.privacy.events import BoundedRange as PureDP",
        PRICED_AS_PURE,
    ),
    Mutant(
        "noisy-max-as-if-monotone",
        "noise is halved as if counts could only grow together",
        "mechanisms/noisy_max.py",
        "return scores.sensitivity / exact(self.epsilon)",
        "return scores.sensitivity / (2 * exact(self.epsilon))",
        CONTRACT,
    ),
    Mutant(
        "noisy-max-as-bounded-range",
        "noisy max with Laplace noise is charged as bounded range",
        "mechanisms/noisy_max.py",
        "from sottovoce.privacy.events import PureDP",
        "from sottovoce.privacy.events import BoundedRange as PureDP",
        PRICED_AS_PURE,
    ),
    Mutant(
        "top-k-as-one-step",
        "k choices are charged as one bounded-range step of the whole epsilon",
        "mechanisms/top_k.py",
        "return SelfComposedDpEvent(self.one.event, self.k)",
        "return type(self.one.event)(self.epsilon)",
        TOP_K,
    ),
    Mutant(
        "shares-rounded-to-nearest",
        "k shares of epsilon add up to more than epsilon",
        "mechanisms/top_k.py",
        "math.floor(share * units)",
        "round(share * units)",
        TOP_K,
    ),
    Mutant(
        "joint-factor",
        "the lists' utilities are taken to be monotone: no factor of two",
        "mechanisms/top_k.py",
        "rate_per_step(exact(self.epsilon), 2 * scores.sensitivity)",
        "rate_per_step(exact(self.epsilon), scores.sensitivity)",
        JOINT,
    ),
    Mutant(
        "votes-gaussian-variance-halved",
        "Gaussian noise on votes has half the variance that its rho asks for",
        "mechanisms/noisy_max.py",
        "return scores.squared_l2 / (2 * exact(self.rho))",
        "return scores.squared_l2 / (4 * exact(self.rho))",
        RANDOM_WORLDS,
    ),
    Mutant(
        "gaussian-variance-halved",
        "Gaussian noise on vectors has half the variance that its rho asks for",
        "mechanisms/gaussian.py",
        "return Fraction(vector.squared_l2) / (2 * exact(self.rho))",
        "return Fraction(vector.squared_l2) / (4 * exact(self.rho))",
        VECTOR,
    ),
    Mutant(
        "one-draw-for-all-coordinates",
        "every coordinate gets the same noise, so that differences are exact",
        "mechanisms/gaussian.py",
        "(sample_discrete_gaussian(variance, randomness) for _ in range(vector.values.size))",
        "[sample_discrete_gaussian(variance, randomness)] * vector.values.size",
        VECTOR,
    ),
    Mutant(
        "multiplier-not-squared",
        "the variance is the noise multiplier, not its square, times the squared norm",
        "mechanisms/rounded_gaussian.py",
        "return exact(self.noise_multiplier) ** 2 * vector.squared_l2",
        "return exact(self.noise_multiplier) * vector.squared_l2",
        ROUNDED,
    ),
    Mutant(
        "rounded-in-floating-point",
        "a normal number is rounded by way of a float, which is not its exact rounding",
        "mechanisms/rounded_gaussian.py",
        "return (isqrt(square) + 1) // 2",
        "return round(math.sqrt(square) / 2)",
        ROUNDED,
    ),
    Mutant(
        "undecided-rounding-guessed",
        "one chunk of bits decides the rounding even where it does not",
        "mechanisms/rounded_gaussian.py",
        "if low == high:",
        "if low == high or part.known >= _CHUNK:",
        ROUNDED,
    ),
    Mutant(
        "laplace-for-one-count",
        "noise is scaled for one count where a record that changes moves two",
        "mechanisms/laplace.py",
        "return counts.l1 / exact(self.epsilon)",
        "return max(1, counts.l1 // 2) / exact(self.epsilon)",
        LAPLACE,
    ),
    Mutant(
        "zero-counts-twice",
        "minus zero is a draw of zero, so that noise of zero is twice as likely",
        "mechanisms/samplers/discrete_laplace.py",
        "if not (negative and magnitude == 0):",
        "if magnitude >= 0:",
        LAPLACE,
    ),
    Mutant(
        "coin-of-24-bits",
        "coins are thrown in floating point with 24 bits, so that rare noise never comes",
        "mechanisms/samplers/discrete_laplace.py",
        "return all(_coin(1, 1, randomness) for _ in range(whole)) and _coin(rest, x.denominator, randomness)",
        "return randomness.below(1 << 24) < 2.718281828459045 ** -float(whole + Fraction(rest, x.denominator)) * 2**24",
        LAPLACE,
    ),
    Mutant(
        "noise-on-the-threshold-only",
        "queries are compared without noise of their own",
        "mechanisms/above_threshold.py",
        "noise = sample_discrete_laplace(self._scale, self._randomness)",
        "noise = 0",
        THRESHOLD,
    ),
    Mutant(
        "query-noise-of-one-scale",
        "queries get the threshold's noise, where twice the scale is needed",
        "mechanisms/above_threshold.py",
        "self._scale, self._randomness, self._lock = 2 * scale, randomness, Lock()",
        "self._scale, self._randomness, self._lock = scale, randomness, Lock()",
        THRESHOLD,
    ),
    Mutant(
        "run-goes-on-after-a-yes",
        "a run answers more queries after its first yes, all with one threshold",
        "mechanisms/above_threshold.py",
        "            if self.over:\n",
        "            if self.over and not self.sensitivity:\n",
        THRESHOLD,
    ),
    Mutant(
        "threshold-noise-halved",
        "the threshold's scale is the sensitivity over epsilon, not twice that",
        "mechanisms/above_threshold.py",
        'return 2 * int(COUNT.read("sensitivity", sensitivity)) / exact(self.epsilon)',
        'return int(COUNT.read("sensitivity", sensitivity)) / exact(self.epsilon)',
        THRESHOLD,
    ),
    Mutant(
        "ptr-order-leaked",
        "the set is released in the order of its counts, which the test does not protect",
        "mechanisms/propose_test_release.py",
        "return tuple(sorted(order[: self.k])), max(scores.sensitivity, lead)",
        "return tuple(order[: self.k]), max(scores.sensitivity, lead)",
        PTR,
    ),
    Mutant(
        "ptr-threshold-not-scaled",
        "the threshold is that of a drop where a record moves the gap by more",
        "mechanisms/propose_test_release.py",
        "return sensitivity + least_margin(",
        "return 1 + least_margin(",
        PTR,
    ),
    Mutant(
        "ptr-noise-not-scaled",
        "the noise on the gap is that of a drop",
        "mechanisms/propose_test_release.py",
        "variance = sensitivity**2 / (2 * exact(self.event.event.rho))",
        "variance = 1 / (2 * exact(self.event.event.rho))",
        PTR,
    ),
    Mutant(
        "ptr-continuous-margin",
        "the margin is a quantile of continuous noise, and the noise is whole numbers",
        "mechanisms/propose_test_release.py",
        "return sensitivity + least_margin(self.noise_variance(sensitivity), exact(self.failure_delta))",
        "from statistics import NormalDist\n\n"
        "        deviation = float(self.noise_variance(sensitivity)) ** 0.5\n"
        "        margin = NormalDist(0, deviation).inv_cdf(1 - self.failure_delta)\n"
        "        return sensitivity + int(margin)",
        PTR,
    ),
    Mutant(
        "histogram-without-threshold",
        "every item with a noisy count above zero is shown, so that the items follow from private words",
        "mechanisms/stability_histogram.py",
        "for item, count in noisy if count > threshold)",
        "for item, count in noisy if count > 0)",
        HISTOGRAM,
    ),
    Mutant(
        "threshold-on-true-counts",
        "items are shown if their true count passes the threshold",
        "mechanisms/stability_histogram.py",
        "for item, count in noisy if count > threshold)",
        "for item, count in noisy if items.counts[item] > threshold)",
        HISTOGRAM,
    ),
    Mutant(
        "items-in-the-order-of-true-counts",
        "the order of the release is that of the counts before noise",
        "mechanisms/stability_histogram.py",
        "for item in sorted(items.counts)",
        "for item, _ in items.counts.most_common()",
        HISTOGRAM,
    ),
    Mutant(
        "delta-for-one-new-item",
        "the failure probability is that of one item where a unit brings several",
        "mechanisms/stability_histogram.py",
        "allowed = exact(self.failure_delta) / (most * items.items_per_unit)",
        "allowed = exact(self.failure_delta)",
        HISTOGRAM,
    ),
    Mutant(
        "histogram-cap-missing",
        "a unit counts for all items that it holds",
        "privacy/aggregates.py",
        "list(dict.fromkeys(sorted(texts) if isinstance(items, Set) else texts))[:most]",
        "list(dict.fromkeys(sorted(texts) if isinstance(items, Set) else texts))",
        HISTOGRAM,
    ),
    Mutant(
        "swapped-items-vanish",
        "an exchanged unit takes its items away and brings none",
        "privacy/aggregates.py",
        "self.l1 = items_per_unit * change.widths",
        "self.l1 = items_per_unit * change.rows",
        HISTOGRAM,
    ),
    Mutant(
        "fork-shares-the-stream",
        "noise comes from a generator of the process, which a forked child continues from the same state",
        "randomness.py",
        "return secrets.randbelow(bound)",
        "return random.randrange(bound)",
        RANDOMNESS,
    ),
    Mutant(
        "seed-reused",
        "every draw in production starts from one seed",
        "randomness.py",
        "return secrets.randbelow(bound)",
        "return SeededRandomness(0).below(bound)",
        RANDOMNESS,
    ),
    Mutant(
        "biased-remainder",
        "a draw is the remainder of random bits, which favours small numbers",
        "randomness.py",
        "return secrets.randbelow(bound)",
        "return secrets.randbits(bound.bit_length()) % bound",
        HOLES,
    ),
    Mutant(
        "seeded-calls-itself-secure",
        "a seeded stream says that it is the operating system's",
        "randomness.py",
        "    secure = False",
        "    secure = True",
        RANDOMNESS,
    ),
]
