"""Planted in step costs and in what explains a method: factors of two, changes, a paper's formula."""

from __future__ import annotations

from mutants.mutant import Mutant

TABLE = ("tests/methods/test_step_costs.py",)
CHANGES = ("tests/privacy/accounting/test_accountant.py::test_table_2_2_is_the_specifications",)
_FILE = "tests/explain/test_explain.py::"
PRISM = (
    _FILE + "test_prism_by_the_specifications_table",
    _FILE + "test_prisms_figure_is_judged_under_each_adjacency",
    _FILE + "test_o18_the_counterexample_is_found",
)
GROUPED = (_FILE + "test_replace_one_never_costs_less_and_grouping_turns_add_remove_into_a_swap",)
SUBSAMPLED = (_FILE + "test_o15_prediction_by_subsampling",)
PRICE = (_FILE + "test_a_price_sets_the_noise_to_the_safe_side",)
DPM = (_FILE + "test_o21_dpm_splits_by_kappa_and_5_6_5_the_total",)

_CHARGES = "tests/explain/test_every_charge.py::"
OWN = (
    _CHARGES + "test_a_method_without_a_step_is_explained_by_its_own_event",
    _CHARGES + "test_a_step_that_is_not_what_is_charged_explains_nothing",
    _CHARGES + "test_a_step_that_parts_from_the_charge_at_some_prices_explains_nothing",
    _CHARGES + "test_what_cannot_be_priced_is_refused_and_is_never_0",
)
FITS = (_CHARGES + "test_a_fit_is_explained_as_it_is_charged",)
LONG = (_CHARGES + "test_a_long_answer_is_explained_as_it_is_charged",)
DECODERS = (_CHARGES + "test_a_decoder_with_an_event_of_its_own_is_priced_by_it",)

PAGES = ("tests/explain/test_facts.py::test_a_budget_does_not_bound_what_promises_nothing_on_any_page_of_its_ledger",)
FACTS = ("tests/explain/test_facts.py::test_a_file_that_names_a_charge_that_was_not_its_own_is_refused",)

MUTANTS = [
    Mutant(
        "no-step-no-price",
        "a method that names no step is explained as free, whatever it is charged",
        "explain/subjects.py",
        "            return self._method.reads is Reads.NOTHING\n",
        "            return True\n",
        OWN,
    ),
    Mutant(
        "any-step-explains",
        "a step is believed without a look at what a ledger is charged",
        "explain/subjects.py",
        "return isinstance(self._method, Selecting | Subsampling) or self._kind is not self._method.step",
        "return True",
        OWN,
    ),
    Mutant(
        "free-though-it-reads",
        "a method that reads records and charges nothing is priced at 0",
        "explain/subjects.py",
        "        if not counted or RdpAccountant(change.adjacency).compose(event).report(0).epsilon == 0:\n",
        "        if False:\n",
        OWN,
    ),
    Mutant(
        "priced-by-the-steps-alone",
        "a decoder with an event of its own is priced by its steps",
        "explain/subjects.py",
        "            events.append(charged)  # a decoder with an event of its own\n",
        "            pass\n",
        DECODERS,
    ),
    Mutant(
        "explained-for-another-ledger",
        "a long answer is explained for a ledger that adds rho, whatever the ledger adds",
        "explain/planned.py",
        'keywords=of.public_keywords,\n            adds_epsilons=of.currency == "epsilon",',
        "keywords=of.public_keywords,\n            adds_epsilons=False,",
        LONG,
    ),
    Mutant(
        "fit-explained-with-public-units",
        "a fit under add-remove is explained with a public number of units",
        "explain/planned.py",
        "            units=of.units if adjacency.size_is_public else None,\n",
        "            units=of.units,\n",
        FITS,
    ),
    Mutant(
        "published-noise-explained",
        "a published release is explained in place of what an answerer draws",
        "explain/subjects.py",
        "if words is None or not Answers.places(setting):",
        "if words is None or own.keys() <= options_of(published).keys():",
        (_CHARGES + "test_what_a_paper_calls_otherwise_is_explained_as_it_is_charged",),
    ),
    Mutant(
        "seeded-noise-within-the-budget",
        "a budget is said to bound everything where a release was charged with seeded noise",
        "privacy/ledger/balance.py",
        "if self.non_private or self.unverified or self.seeded:",
        "if self.non_private or self.unverified:",
        PAGES,
    ),
    Mutant(
        "seeded-charges-uncounted",
        "a charge for seeded noise is counted as any other",
        "privacy/ledger/history.py",
        "NOT_VERIFIED_NOTE in note, SEEDED_NOTE in note)",
        "NOT_VERIFIED_NOTE in note, False)",
        PAGES,
    ),
    Mutant(
        "protected-without-a-guarantee",
        "the page of a fit without a guarantee says who is protected",
        "explain/facts/facts.py",
        '    sentence = adjacency.sentence(c.unit)\n    if figures_of(c)["epsilon"] is None:',
        "    sentence = adjacency.sentence(c.unit)\n    if c.epsilon is None:",
        ("tests/explain/test_facts.py::test_nobody_is_protected_where_nothing_is_promised_and_no_audit_is_advised",),
    ),
    Mutant(
        "lost-charges-from-below",
        "with lost charges any epsilon above their price is certified",
        "synthesis/certificate.py",
        "math.isclose(self.epsilon, report.epsilon, rel_tol=report.rounding)",
        "self.epsilon >= report.epsilon",
        ("tests/synthesis/test_certificates.py::test_with_a_lost_charge_the_price_is_held_from_both_sides",),
    ),
    Mutant(
        "a-named-charge-is-enough",
        "a page confirms a cheap certificate under the number of somebody else's charge",
        "explain/facts/facts.py",
        "c.require_charged(fitted.content_sha256, ledger)",
        'c.require_sound("the fitted file")',
        FACTS,
    ),
    Mutant(
        "prism-factor",
        "PRISM's step is charged half its range",
        "methods/prism.py",
        "return self.clip / (self.experts * self.temperature)",
        "return self.clip / (2 * self.experts * self.temperature)",
        TABLE,
    ),
    Mutant(
        "amin-factor",
        "an expert's clipped logits are taken to have width c, not 2c",
        "methods/amin.py",
        "return 2 * self.clip / (self.experts * self.temperature)",
        "return self.clip / (self.experts * self.temperature)",
        TABLE,
    ),
    Mutant(
        "dclip-factor",
        "clipped differences are taken to have width C, not 2C",
        "methods/invisible_ink.py",
        "return 2 * self.clip / (self.experts * self.temperature)",
        "return self.clip / (self.experts * self.temperature)",
        TABLE,
    ),
    Mutant(
        "sparse-vector-factor",
        "the test's run is charged for its threshold's noise alone",
        "methods/amin.py",
        "return 2 / (self.experts * self.threshold_scale)",
        "return 1 / (self.experts * self.threshold_scale)",
        TABLE,
    ),
    Mutant(
        "moved-point-stays-in-its-node",
        "a level of splits is charged for a point that moves inside a node, never for one that changes nodes",
        "methods/answering/sga.py",
        "ZCDpEvent(max(rho_of_bounded_range(moved), 2 * rho_of_bounded_range(added)) * change.rows**2)",
        "ZCDpEvent(rho_of_bounded_range(moved) * change.rows**2)",
        TABLE,
    ),
    Mutant(
        "joint-row-factor",
        "the row of joint top-k takes its utility for monotone",
        "methods/answering/ksa.py",
        "return 2 * self.rate\n",
        "return self.rate\n",
        TABLE,
    ),
    Mutant(
        "one-step-for-top-k",
        "one-shot top-k is counted as one step",
        "methods/answering/ksa.py",
        "return self.keywords",
        "return 1",
        TABLE,
    ),
    Mutant(
        "gdp-claimed-for-integer-noise",
        "whole-number noise is priced as Gaussian DP, which it is not exactly",
        "privacy/step_costs.py",
        'return ZCDpEvent(mu * mu / 2) if sampler == "discrete" else GaussianDpEvent(1 / mu)',
        "return GaussianDpEvent(1 / mu)",
        TABLE,
    ),
    Mutant(
        "probability-vector-moves-by-one",
        "prediction by subsampling takes a changed probability vector to move by one, not root two",
        "methods/pbs.py",
        'Sensitivity(math.sqrt(2), "Euclidean norm of the change of one probability vector")',
        'Sensitivity(1.0, "Euclidean norm of the change of one probability vector")',
        SUBSAMPLED,
    ),
    Mutant(
        "drop-factor-under-grouped-experts",
        "several units an expert keep the price of a vanished expert",
        "explain/subject.py",
        'default = "own-slot" if self.units_per_expert == 1 else "stable-id"',
        'default = "own-slot"',
        GROUPED,
    ),
    Mutant(
        "grouped-slot-vanishes",
        "the table says that a slot with several units is dropped when one of them goes",
        "privacy/unit.py",
        "(Assignment.STABLE_ID, _AR): SWAP,",
        "(Assignment.STABLE_ID, _AR): DROP,",
        CHANGES,
    ),
    Mutant(
        "chunks-in-the-table",
        "consecutive chunks under add-remove get an entry",
        "privacy/unit.py",
        "(Assignment.CHUNKS, _RO): SWAP,",
        "(Assignment.CHUNKS, _AR): SWAP,\n        (Assignment.CHUNKS, _RO): SWAP,",
        CHANGES,
    ),
    Mutant(
        "prisms-dropped-term",
        "advanced composition without its second term, which PRISM drops",
        "privacy/claims.py",
        "return epsilon * math.sqrt(2 * steps * -math.log(delta)) + steps * epsilon * math.expm1(epsilon)",
        "return epsilon * math.sqrt(2 * steps * -math.log(delta))",
        PRISM,
    ),
    Mutant(
        "a-papers-figure-is-believed",
        "a price takes the sum of widths by the formula with the dropped term where it is less",
        "explain/price.py",
        "    best = min(bounds, key=lambda name: bounds[name])\n",
        "    if len(plans[0]) == 1 and (eta := getattr(plans[0][0][0], 'eta', 0)) and delta:\n"
        "        bounds['stated'] = claims.without_second_term(eta, plans[0][0][1], delta) or math.inf\n"
        "    best = min(bounds, key=lambda name: bounds[name])\n",
        PRISM,
    ),
    Mutant(
        "price-to-the-wrong-side",
        "a calibrated_parameter is turned to just past the price that was asked for",
        "explain/price.py",
        "    while value and cost(value) > target:\n        value *= 1 - 1e-8 if rising else 1 + 1e-8\n",
        "    value *= 1 + 1e-6 if rising else 1 - 1e-6\n",
        PRICE,
    ),
    Mutant(
        "root-count-free-under-add-remove",
        "the number of points is not released like the other counts where it is private",
        "explain/cost_models/clustering.py",
        "counts = self.levels if adjacency.size_is_public else self.levels + 1",
        "counts = self.levels",
        DPM,
    ),
]
