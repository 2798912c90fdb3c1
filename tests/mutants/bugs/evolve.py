"""Planted in private evolution: what rounds cost, what the writer is given, and what its failures do."""

from __future__ import annotations

from mutants.mutant import Mutant

_FILE = "tests/methods/test_evolve.py::"
_ROWS = "tests/cli/test_fit_rows.py::"
PRICE = (_FILE + "test_a_pure_price_is_shared_between_all_turns_of_all_rounds",)
FAILS = (_FILE + "test_a_writer_that_fails_between_rounds_leaves_the_texts_and_draws_nothing_again",)
SILENT = (_FILE + "test_a_writer_that_is_silent_and_words_that_cannot_be_embedded_are_no_error",)
LAW = (_FILE + "test_every_branch_of_two_rounds_adds_up_to_their_law",)
METHOD, WRITING = "methods/evolve.py", "methods/fitting/writing.py"

MUTANTS = [
    Mutant(
        "rounds-charged-once",
        "one round is charged, however many there are",
        METHOD,
        "return SelfComposedDpEvent(self._choice.turn(setting.change), self.rounds * self.k)",
        "return SelfComposedDpEvent(self._choice.turn(setting.change), self.k)",
        PRICE,
    ),
    Mutant(
        "rate-of-one-round",
        "the rate that a price allows is that of a single round",
        METHOD,
        "settled = self._choice.settled(self.rounds * self.k, price, setting)",
        "settled = self._choice.settled(self.k, price, setting)",
        PRICE,
    ),
    Mutant(
        "records-given-to-the-writer",
        "the writer is rehearsed on records instead of public texts",
        "fitting/fit.py",
        "self._writer.rehearse(self._pool[:1])",
        "self._writer.rehearse([dict(unit[0].values) for unit in self._records._open()])",
        (_FILE + "test_nothing_private_reaches_the_writer_in_any_prompt",),
    ),
    Mutant(
        "sums-steer-the-writer",
        "the writer is shown the texts that records are like, whatever was drawn",
        METHOD,
        "texts, vectors = self._varied(turn, chosen, texts, vectors, mapped, public)",
        "rule = __import__('sottovoce.experts.unit_sums', fromlist=['']).Likeness(\n"
        "                plan.setting.labels, vectors, self.floor, self.ceiling, mapped\n"
        "            )\n"
        "            best = private.sum_of(rule).reshape(plan.setting.labels, -1).argsort(axis=1)[:, -self.k :]\n"
        "            best = tuple(map(tuple, best.tolist()))\n"
        "            texts, vectors = self._varied(turn, best, texts, vectors, mapped, public)",
        LAW,
    ),
    Mutant(
        "drawn-again-without-variations",
        "a round whose variations are missing is drawn twice, on the charge of one",
        METHOD,
        "            texts, vectors = self._varied(turn, chosen, texts, vectors, mapped, public)\n",
        "            texts, vectors = self._varied(turn, chosen, texts, vectors, mapped, public)\n"
        "            if len(texts) <= plan.setting.labels * self.k:\n"
        "                self._choice.choose(vectors, mapped, plan.setting, private, randomness)\n",
        FAILS,
    ),
    Mutant(
        "writer-failure-loses-what-was-written",
        "a model that fails in one part of its variations loses all of them",
        WRITING,
        "            except BaseException as error:  # behind the draw, where nothing may fail\n"
        "                if not is_models(error):\n"
        "                    raise\n",
        "            except ZeroDivisionError:\n                pass\n",
        (_FILE + "test_what_a_writer_wrote_before_it_failed_is_kept",),
    ),
    Mutant(
        "embedder-failure-loses-the-charge",
        "variations that cannot be embedded fail the fit",
        METHOD,
        "            if not is_models(error):\n                raise\n            return [], none",
        "            raise",
        SILENT,
    ),
    Mutant(
        "writer-not-rehearsed",
        "a writer that cannot write is found out when the fit is charged",
        "fitting/fit.py",
        "        self._writer.rehearse(self._pool[:1])\n",
        "",
        (_FILE + "test_a_writer_that_fails_before_the_charge_is_refused_and_nothing_is_charged",),
    ),
    Mutant(
        "rows-without-their-labels",
        "a certificate of rows is for the texts, whatever labels they have",
        "fitting/rows.py",
        "self._place_of(label)))",
        "0))",
        (_ROWS + "test_rows_their_certificate_and_demonstrations_from_them",),
    ),
    Mutant(
        "rows-with-other-columns",
        "a certificate of rows holds beside columns that it is not for",
        "fitting/rows.py",
        "if set(row) != names or label not in",
        "if label not in",
        (_ROWS + "test_rows_that_are_not_those_of_the_certificate_do_not_pass",),
    ),
]
