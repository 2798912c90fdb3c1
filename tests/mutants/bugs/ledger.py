"""Planted in filter, budget and ledger: comparisons, rounding, locks, caps, names of answers, the chain."""

from __future__ import annotations

from mutants.mutant import Mutant

FILTER = ("tests/privacy/ledger/test_filter.py",)
LAST_UNIT = ("tests/privacy/ledger/test_filter.py::test_a_cap_is_filled_to_its_last_unit_and_no_further",)
ARITHMETIC = ("tests/survival/test_arithmetic.py",)
_LEDGER = "tests/privacy/ledger/test_ledger.py::"
ADDS_UP = (
    _LEDGER + "test_ten_answers_at_a_tenth_fit_into_one_and_the_eleventh_does_not",
    _LEDGER + "test_against_a_rational_oracle_the_sum_of_true_charges_stays_under_the_cap",
)
NAMES = (
    _LEDGER + "test_repeating_a_reservation_charges_once_and_a_released_id_is_dead",
    _LEDGER + "test_an_answer_leaves_once_and_a_batch_with_one_that_left_does_not_leave",
)
OWNER = (
    _LEDGER + "test_other_records_another_adjacency_or_another_budget_are_refused",
    _LEDGER + "test_the_owner_may_raise_a_budget_and_let_a_new_version_share_it",
)
CHAIN = (
    _LEDGER + "test_another_text_or_number_in_any_cell_is_found",
    _LEDGER + "test_no_single_cell_can_be_changed_unseen",
    _LEDGER + "test_no_row_can_be_lost_or_told_twice",
)
HEAD = (
    "tests/survival/test_tampering.py::test_a_forged_tail_is_found_by_its_head",
    _LEDGER + "test_tampering_is_found",
)
CAPS = (
    "tests/privacy/ledger/test_caps.py::test_a_charge_counts_against_caller_group_and_data_set",
    "tests/privacy/ledger/test_caps.py::test_a_refusal_names_the_cap_that_was_short_and_charges_none",
    "tests/privacy/ledger/test_caps.py::test_the_owner_changes_a_cap_but_never_below_what_is_spent",
)
CURRENCIES = (
    "tests/privacy/ledger/test_caps.py::test_a_cap_that_counts_in_another_currency_is_refused",
    "tests/privacy/ledger/test_caps.py::test_a_cap_on_record_in_another_currency_is_noted_and_admits_nothing",
)
RACES = ("tests/survival/test_races.py::test_sixteen_processes_fill_a_cap_exactly",)
_SEEDED = (
    "tests/cli/test_ledger_commands.py::"
    "test_releases_with_noise_from_a_seed_are_counted_and_nothing_is_promised_of_them"
)

MUTANTS = [
    Mutant(
        "cap-reached-counts-as-passed",
        "a charge that fills the cap to its last unit is refused",
        "privacy/ledger/filter.py",
        "return self.loss <= cap.loss and self.failure <= cap.failure",
        "return self.loss < cap.loss and self.failure <= cap.failure",
        LAST_UNIT,
    ),
    Mutant(
        "failure-sum-not-enforced",
        "failures are added up and never held against their share",
        "privacy/ledger/filter.py",
        "return self.loss <= cap.loss and self.failure <= cap.failure",
        "return self.loss <= cap.loss",
        LAST_UNIT,
    ),
    Mutant(
        "asked-before-it-is-added",
        "a charge is admitted while something is left, however large it is",
        "privacy/ledger/filter.py",
        "return (self.spent + cost).fits_in(self.cap)",
        "return cost.fits_in(self.cap) and self.spent.fits_in(self.cap)",
        LAST_UNIT,
    ),
    Mutant(
        "float-sum",
        "charges are added up as floats",
        "privacy/ledger/filter.py",
        "return Cost(self.loss + other.loss, self.failure + other.failure)",
        "return Cost(int(float(self.loss) + float(other.loss)), self.failure + other.failure)",
        ARITHMETIC,
    ),
    Mutant(
        "charges-rounded-down",
        "a charge of a fraction of a unit is lost, and thousands of them add up",
        "privacy/ledger/filter.py",
        "return math.ceil(charge * SCALE)",
        "return math.floor(charge * SCALE)",
        FILTER,
    ),
    Mutant(
        "only-the-narrowest-cap",
        "of the caps on a charge's way only the first is looked at",
        "privacy/ledger/filter.py",
        "return next((level for level in levels if not level.admits(cost)), None)",
        "return next((level for level in list(levels)[:1] if not level.admits(cost)), None)",
        CAPS,
    ),
    Mutant(
        "gaussian-rho-without-square",
        "the filter charges Gaussian noise one over twice its multiplier",
        "privacy/ledger/filter.py",
        "return _concentrated(1 / (2 * noise_multiplier**2), currency)",
        "return _concentrated(1 / (2 * noise_multiplier), currency)",
        FILTER,
    ),
    Mutant(
        "pure-as-bounded-range",
        "the filter charges a pure release what a bounded-range one costs",
        "privacy/ledger/filter.py",
        "return Cost(_units(_pure, float(event.epsilon), currency))\n        case ZCDpEvent()",
        "return Cost(_units(_selection, float(event.epsilon), currency))\n        case ZCDpEvent()",
        FILTER,
    ),
    Mutant(
        "failures-of-nested-releases-lost",
        "a release with a failure is charged its loss alone",
        "privacy/ledger/filter.py",
        "return _price(event.event, currency, depth - 1) + Cost(0, _failure(event))",
        "return _price(event.event, currency, depth - 1)",
        FILTER,
    ),
    Mutant(
        "count-off-by-one",
        "a composition of T equal releases is charged T - 1 times",
        "privacy/ledger/filter.py",
        "return _price(event.event, currency, depth - 1) * int(event.count)",
        "return _price(event.event, currency, depth - 1) * max(0, int(event.count) - 1)",
        FILTER,
    ),
    Mutant(
        "delta-spent-twice",
        "the cap is worked out from all of delta although a share of it is set aside for failures",
        "privacy/ledger/budget.py",
        "rho_of_budget(self.epsilon, _at_most(self._delta_of_loss))",
        "rho_of_budget(self.epsilon, self.delta)",
        FILTER,
    ),
    Mutant(
        "decimals-read-as-binary",
        "a parameter is the binary fraction beside the decimal that was agreed",
        "privacy/numbers.py",
        "return Fraction(repr(value))",
        "return Fraction(value)",
        ADDS_UP,
    ),
    Mutant(
        "no-lock",
        "the balance is looked at before the write lock is taken",
        "privacy/ledger/account.py",
        "            self._admit(connection, reservations, amounts)\n"
        "        with self.database.writing() as connection:\n"
        "            fresh, levels = self._admit(connection, reservations, amounts)\n",
        "            fresh, levels = self._admit(connection, reservations, amounts)\n"
        "        with self.database.writing() as connection:\n",
        RACES,
    ),
    Mutant(
        "refund-by-a-grant",
        "what was spent is forgotten when the owner raises the budget",
        "privacy/ledger/ledger.py",
        'values = {"epsilon": repr(budget.epsilon), "cap": budget.cap}',
        'values = {"epsilon": repr(budget.epsilon), "cap": budget.cap, "spent": 0}',
        OWNER,
    ),
    Mutant(
        "refund-by-a-new-cap",
        "what a caller spent is forgotten when the caller's cap is changed",
        "privacy/ledger/caps.py",
        "where(_key(data_set.id, kind, name)).values(**values))",
        "where(_key(data_set.id, kind, name)).values(**values, spent=0))",
        CAPS,
    ),
    Mutant(
        "epsilons-of-two-relations-add-up",
        "a ledger kept for one adjacency is charged under another",
        "privacy/ledger/ledger.py",
        "if row.adjacency != identity.adjacency.value or row.unit != identity.unit:",
        "if row.unit != identity.unit:",
        OWNER,
    ),
    Mutant(
        "idempotence-lost",
        "an answer that is asked for again after a crash is charged again",
        "privacy/ledger/account.py",
        "if not self._is_open(past.get(reservation.release_id), reservation)\n",
        "if not (before := past.get(reservation.release_id)) or self._is_open(before, reservation)\n",
        NAMES,
    ),
    Mutant(
        "released-id-is-free",
        "an answer that left can be drawn again under its id without a charge",
        "privacy/ledger/account.py",
        'first = entries[0]\n        if len(entries) > 1 or first.kind != "reserve"',
        'first = next((one for one in entries if one.kind == "reserve"), entries[0])\n'
        '        if first.kind != "reserve"',
        NAMES,
    ),
    Mutant(
        "cheap-id-pays-for-a-dear-answer",
        "an id that was charged for one event pays for any other",
        "privacy/ledger/account.py",
        'same = detail.get("event") in (event_to_json(reservation.event), describe(reservation.event))',
        'same = "event" in detail',
        NAMES,
    ),
    Mutant(
        "answer-leaves-twice",
        "a second process may release an answer that left already",
        "privacy/ledger/account.py",
        'if any(entry.kind == "release" for entry in entries):',
        'if len([entry for entry in entries if entry.kind == "release"]) > 1:',
        NAMES,
    ),
    Mutant(
        "callers-cap-ignored",
        "a caller is charged to the data set alone",
        "privacy/ledger/caps.py",
        "return [_same_currency(data_set, row), *levels]",
        "return levels",
        CAPS,
    ),
    Mutant(
        "groups-cap-ignored",
        "a caller is not charged to the group",
        "privacy/ledger/caps.py",
        "if row.member_of is not None:",
        "if row.member_of is not None and len(levels) > 1:",
        CAPS,
    ),
    Mutant(
        "head-not-checked",
        "entries that are gone from the end are not missed",
        "privacy/ledger/verify.py",
        "if (seq, digest) != (position, previous):",
        "if seq < position:",
        HEAD,
    ),
    Mutant(
        "hash-without-time",
        "an entry's time is not in its hash",
        "privacy/ledger/history.py",
        "{_quoted(detail)}, {encode_basestring_ascii(at)}, ",
        "{_quoted(detail)}, ",
        CHAIN,
    ),
    Mutant(
        "charges-not-priced-again",
        "a verifier believes the amount that an entry states",
        "privacy/ledger/verify.py",
        " or not price_of(text, self._currency[number]).fits_in(Cost(amount, charge.failure)):",
        ":",
        (_LEDGER + "test_a_chain_that_was_forged_whole_must_still_tell_a_story_that_can_be",),
    ),
    Mutant(
        "a-cap-in-another-currency",
        "a caller's cap of a sum of epsilons is taken within a zCDP budget, where it admits as much rho",
        "privacy/ledger/caps.py",
        "if budget.currency != whole.currency:",
        "if budget.alpha != whole.alpha:",
        CURRENCIES,
    ),
    Mutant(
        "a-cap-on-record-in-another-currency",
        "a cap that an earlier version took in another currency goes on admitting charges",
        "privacy/ledger/caps.py",
        "if own.currency != whole.currency:",
        "if own.alpha != whole.alpha:",
        CURRENCIES,
    ),
    Mutant(
        "caps-currency-not-noted",
        "nobody is told of a cap of an earlier version that admits nothing",
        "privacy/ledger/verify.py",
        "if own != whole:",
        "if whole not in own + whole:",
        CURRENCIES,
    ),
    Mutant(
        "caps-currency-locks-the-ledger",
        "a cap that an earlier version took in another currency is a fault of the whole ledger, which is refused",
        "privacy/ledger/verify.py",
        "        caps = _budget(story, data_set).caps\n",
        "        caps = _budget(story, data_set).caps\n"
        '        if _budget(story, data_set).currency != self._currency[entry["data_set"]]:\n'
        '            self._wrong(entry, "gives a cap in another currency")\n',
        CURRENCIES,
    ),
    Mutant(
        "seeded-answers-are-not-noted",
        "answers with noise from a seed count as covered by the budget",
        "session.py",
        'note += f", {SEEDED_NOTE}" if terms.seeded else ""',
        'note += ""',
        (_SEEDED,),
    ),
    Mutant(
        "seeded-releases-are-not-counted",
        "a balance says that everything stays within the budget where noise came from a seed",
        "privacy/ledger/ledger.py",
        "seeded=seeded[row.id]",
        "seeded=0",
        (_SEEDED,),
    ),
]
