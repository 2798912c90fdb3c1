"""Planted where private logistic regression bounds a unit's gradient, draws its noise and says its price."""

from __future__ import annotations

from mutants.mutant import Mutant

_FILE = "tests/methods/test_dp_logistic.py::"
SMALL_WORLD = (_FILE + "test_no_unit_of_a_small_world_adds_more_than_one_and_no_swap_moves_more_than_two",)
PRICE = (_FILE + "test_the_price_is_that_of_one_gaussian_release_whatever_the_iterations",)
NOISE = (_FILE + "test_every_iteration_draws_the_noise_that_it_is_charged_for",)
SUMS, METHOD = "experts/gradient_sums.py", "methods/dp_logistic.py"

MUTANTS = [
    Mutant(
        "gradients-unclipped",
        "a gradient is put on the grid without a look at its norm",
        SUMS,
        "total += vectors_in_steps(gradients / self.clip).sum(axis=0)",
        "total += np.nan_to_num(np.trunc(gradients / self.clip * LIMIT)).astype(np.int64).sum(axis=0)",
        SMALL_WORLD,
    ),
    Mutant(
        "gradients-clipped-by-record",
        "a unit's records are clipped one by one, and add up",
        SUMS,
        "            yield summed / count",
        "            yield summed",
        (_FILE + "test_a_unit_adds_the_mean_gradient_of_its_records",),
    ),
    Mutant(
        "gradient-beside-others",
        "the largest logit that is taken off is that of all units of a block, not of the record",
        SUMS,
        "odds = np.exp(logits - logits.max(axis=1, keepdims=True))",
        "odds = np.exp(logits - logits.max())",
        (_FILE + "test_what_a_unit_adds_does_not_depend_on_where_it_stands_or_beside_whom",),
    ),
    Mutant(
        "gradient-swap-for-a-drop",
        "a replaced unit is taken to move the sum as one that vanishes does",
        SUMS,
        "return (LIMIT * change.widths) ** 2",
        "return (LIMIT * change.rows) ** 2",
        SMALL_WORLD,
    ),
    Mutant(
        "logistic-swap-priced-as-drop",
        "under replace-one an iteration is charged as if a unit had vanished",
        METHOD,
        "return float(change.widths)",
        "return float(change.rows)",
        PRICE,
    ),
    Mutant(
        "iterations-charged-as-one",
        "one iteration is charged, whatever number of them is drawn",
        METHOD,
        "descent = SelfComposedDpEvent(self._noise(setting).event, self.iterations)",
        "descent = SelfComposedDpEvent(self._noise(setting).event, 1)",
        PRICE,
    ),
    Mutant(
        "noise-for-one-iteration",
        "the noise of an iteration is that of a single release, and the charge is worked out for it",
        METHOD,
        "each = multiplier * _SLACK * math.sqrt(self.iterations / share) * _SLACK",
        "each = multiplier * _SLACK * math.sqrt(1 / share) * _SLACK",
        PRICE,
    ),
    Mutant(
        "noise-in-the-first-iteration-alone",
        "later iterations take the sum as it is",
        METHOD,
        "            path.append(path[-1] + length * summed.reshape(path[-1].shape))",
        "            summed = summed if len(path) == 1 else private.sum_of(rule) / LIMIT\n"
        "            path.append(path[-1] + length * summed.reshape(path[-1].shape))",
        NOISE,
    ),
    Mutant(
        "logistic-count-uncharged",
        "the noisy number of units is released and not charged",
        METHOD,
        "return ComposedDpEvent([count_noise(self.count_sigma, setting.change).event, descent])",
        "return ComposedDpEvent([descent])",
        PRICE,
    ),
    Mutant(
        "logistic-count-exact",
        "where the number of units is private it is used without noise",
        "methods/fitting/noisy_sums.py",
        "    return max(float(noisy), least)",
        "    return max(float(private.sum_of(UnitCount())[0] / LIMIT), least)",
        (_FILE + "test_the_number_of_units_is_noisy_where_it_is_private",),
    ),
    Mutant(
        "logistic-divides-by-what-speaks",
        "gradients are averaged over the units that say something, whose number is private",
        METHOD,
        "            path.append(path[-1] + length * summed.reshape(path[-1].shape))",
        "            spoke = max(1, int(np.isfinite(private.blocks[0].vectors).all(axis=1).sum()))\n"
        "            path.append(path[-1] + length * units / spoke * summed.reshape(path[-1].shape))",
        (_FILE + "test_nothing_is_divided_by_a_private_number",),
    ),
    Mutant(
        "logistic-trust-by-the-true-count",
        "how much evidence counts beside the names follows from the private number of units",
        METHOD,
        "trust = _trust(noise, units) if self.prior_weight else 1.0",
        "trust = _trust(noise, len(private.blocks[0].vectors)) if self.prior_weight else 1.0",
        (_FILE + "test_how_much_evidence_counts_follows_from_the_noisy_number_of_units",),
    ),
]
