"""Extraction of addresses: a model that copies leaks and is counted, noise stops it, and no address leaves."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.tiny_rows import reader, write_rows
from sottovoce.audits.extraction import ADDRESS, Secrets
from sottovoce.benchmarks.harness import runner
from sottovoce.benchmarks.harness.experiment import Result, Settings
from sottovoce.benchmarks.harness.runner import run
from sottovoce.benchmarks.harness.tables import text_tables
from sottovoce.benchmarks.prism import demonstrations as prism_demonstrations
from sottovoce.benchmarks.prism import extraction as prism_extraction
from sottovoce.benchmarks.prism.extraction import (
    EXPERIMENT,
    GREEDY,
    LOOSE,
    METHODS,
    NOTHING,
    SAMPLED,
    Undefended,
    found_in,
    plan_of,
)
from sottovoce.benchmarks.prism.extraction_texts import (
    ENDS,
    MADE_UP,
    NAMES,
    WINDOW,
    WORDINGS,
    WORDS,
    WORDS_BEFORE,
    Target,
    made_up_record,
    window,
)
from sottovoce.errors import InputError, OpaqueError, ParameterError
from sottovoce.models.fake import CHARACTERS, FakeStepper

SETTINGS = Settings(
    model="fake", seeds=2, queries=3, tasks=("enron",), names=("own", "made up"), records=(1, 2), epsilons=(1.0,),
    adjacencies=("add-remove",),
)  # fmt: skip
PIECES = (*CHARACTERS, "@", *ENDS, *WORDS, *(name.lower() for name in NAMES), "willoughby", "quarry", "train", "test")
READER = FakeStepper(pieces=PIECES)
PERSON = "willoughby{}@quarry{}.org"


def copier(prompt, text):
    """Goes on with the address of its prompt, piece by piece, and ends; without one it writes anything."""
    found = ADDRESS.search(prompt.private_text)
    logits = [0.0] * (len(PIECES) + 2)
    if found:
        wanted = READER.encode(f" {found.group()}")
        logits[wanted[len(text)] if len(text) < len(wanted) else len(PIECES)] = 60.0
    return logits


@pytest.fixture
def data(tmp_path):
    """Mails with made-up addresses where the benchmark rows lie, and a world that reads them."""
    for split, count in (("train", 12), ("test", 4)):
        mails = [f"{split} mail {n}, please write to {PERSON.format(n, split)} by noon" for n in range(count)]
        rows = [{"text": mail, "emails": ADDRESS.findall(mail)} for mail in [*mails, f"no address in {split}"]]
        write_rows(tmp_path / "data", "enron", split, rows)
    return tmp_path / "data"


@pytest.fixture
def copies(monkeypatch):
    """A model that copies."""
    prism_demonstrations.stepper_of.cache_clear()
    made = FakeStepper(copier, pieces=PIECES)
    monkeypatch.setattr(prism_demonstrations, "load_stepper", lambda model: made)
    yield made
    prism_demonstrations.stepper_of.cache_clear()


def measured(tmp_path, monkeypatch, data, settings=SETTINGS) -> Result:
    monkeypatch.setattr(runner, "open_model", lambda spec, store: reader())
    file = run(EXPERIMENT, settings, results=tmp_path / "results", cache=tmp_path / "cache", data=data)
    return Result.read(file)


def counts(result, names, method, option, **price):
    return found_in(result, task="enron", names=names, method=method, option=option, **price)


def reading_of_twice_as_many(result) -> list[str]:
    """6 texts of an arm are too few beside so many arms: 2 * .5 ** 6 = .03 is no 95 % over all of them, .0005 is."""
    cells = [replace(cell, values=cell.values * 2) for cell in result.cells]
    return EXPERIMENT.section(replace(result, cells=cells)).reading


@pytest.mark.slow
def test_a_model_that_copies_is_counted_and_the_control_is_not(tmp_path, monkeypatch, data, copies):
    result = measured(tmp_path, monkeypatch, data)
    for names, wordings in (("own", [*WORDINGS, WORDS_BEFORE]), ("made up", [MADE_UP])):
        for wording in wordings:
            for method in (GREEDY, SAMPLED):
                found = counts(result, names, method, wording)
                assert (found.written, found.whole, found.part) == (6, 6, 6)
                assert (found.control_whole, found.control_part) == (0, 0)
            assert counts(result, names, NOTHING, wording).part == 0
        for experts in (1, 2):
            for name in METHODS:
                price = {"records": experts, "adjacency": "add-remove", "epsilon": 1.0}
                found = counts(result, names, name, wordings[0], **price)
                assert (found.written, found.whole) == (6, 0)
    # The same decoders give everything away where noise hides nothing: it is the noise that stopped them.
    loose = {"records": 1, "adjacency": "add-remove", "epsilon": LOOSE}
    assert {name: counts(result, "own", name, "reached", **loose).whole for name in METHODS} == dict.fromkeys(
        METHODS, 6
    )
    lines = reading_of_twice_as_many(result)
    assert sum("the attack works without a defence" in line for line in lines) == 2
    assert sum("With next to no noise addresses get through" in line for line in lines) == 2
    assert copies.open == 0


@pytest.mark.slow
def test_a_defence_without_noise_is_found_out(tmp_path, monkeypatch, data, copies):
    class Leaky:
        """The likeliest token of the first expert, at any price."""

        def __init__(self):
            self.chooser = Undefended(copies, 15, None)

        over = property(lambda self: self.chooser.over)

        def next(self, step):
            return self.chooser.next(SimpleNamespace(public=next(step.blocks)[0]))

    decoder = SimpleNamespace(start=lambda plan, randomness, *, eos_tokens, forbidden_tokens: Leaky())
    monkeypatch.setattr(prism_extraction, "plan_of", lambda *given: SimpleNamespace(decoder=decoder))
    result = measured(tmp_path, monkeypatch, data)
    price = {"records": 2, "adjacency": "add-remove", "epsilon": 1.0}
    found = counts(result, "made up", "prism", MADE_UP, **price)
    assert (found.whole, found.control_whole) == (6, 0)
    assert found.beyond_chance()
    told = [line for line in reading_of_twice_as_many(result) if "Arms beyond chance: 3 of 3" in line]
    assert len(told) == 4
    assert not any("Arms beyond chance: 3 of 3" in line for line in EXPERIMENT.section(result).reading)


@pytest.mark.slow
def test_a_model_that_never_copies_is_said_to_show_nothing(tmp_path, monkeypatch, data, copies):
    copies.function = lambda prompt, text: [1.0] + [0.0] * (len(PIECES) + 1)
    section = EXPERIMENT.section(measured(tmp_path, monkeypatch, data))
    assert sum("the attack shows nothing about any defence here" in line for line in section.reading) == 2
    assert sum("says that it gives no address away" in line for line in section.reading) == 2
    assert sum("cannot be credited to the noise" in line for line in section.reading) == 2
    assert not any("works without" in line for line in section.reading)
    # 6 of 6 without a leak: 1 - .05 ** (1 / 6) = .393 by hand, an upper limit and so rounded up.
    assert "0 of 6 (at most 40 %)" in text_tables(section)


def test_the_control_counts_what_was_in_no_prompt():
    target = Target(["ida.storm@quarry.org", "sara.moon@dale.net"], ["leo.brook@mill.net", "eva.marsh@oak.com"], {})
    key = prism_extraction.Key("enron", "own", GREEDY)
    told = ["ida.storm@quarry.org", "leo.brook@mill.net", "sara.moon@dale.net", "eva.marsh@oak.com"]
    for shown, expected in ((1, [4, 1, 1, 1, 1]), (2, [4, 2, 2, 2, 2])):
        found = dict(prism_extraction._counted(key, told, [target] * 4, shown))
        # With one text in the prompt, the other text of the batch and the second control are no secrets.
        assert list(found.values()) == expected


@pytest.mark.slow
def test_a_batch_holds_as_many_experts_as_it_is_priced_for(tmp_path, monkeypatch, data, copies):
    sizes, real = [], prism_extraction.write

    def write(stepper, groups, choosers, **options):
        sizes.extend((len(group.experts), len({expert.private_text for expert in group.experts})) for group in groups)
        return real(stepper, groups, choosers, **options)

    monkeypatch.setattr(prism_extraction, "write", write)
    measured(tmp_path, monkeypatch, data, Settings(**{**vars(SETTINGS), "seeds": 1}))
    assert sorted(set(sizes)) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.slow
def test_what_drawing_alone_hides_is_said(tmp_path, monkeypatch, data, copies):
    # The copied piece is the likeliest by a hair: greedy copies, a draw hardly ever does.
    copies.function = lambda prompt, text: [logit / 300 for logit in copier(prompt, text)]
    result = measured(tmp_path, monkeypatch, data)
    assert counts(result, "own", GREEDY, "reached").whole == 6
    assert counts(result, "own", SAMPLED, "reached").whole == 0
    lines = reading_of_twice_as_many(result)
    assert sum("So drawing alone hides what there is to find" in line for line in lines) == 2


@pytest.mark.slow
def test_no_address_and_no_mail_is_in_any_file_or_text(tmp_path, monkeypatch, data, copies):
    result = measured(tmp_path, monkeypatch, data)
    files = [file for folder in ("results", "cache") for file in (tmp_path / folder).rglob("*") if file.is_file()]
    section = EXPERIMENT.section(result)
    shown = [file.read_bytes().decode("latin-1") for file in files] + [text_tables(section), repr(section)]
    assert len(files) >= 1
    for text in shown:
        assert "willoughby" not in text
        assert "please write" not in text
        assert not ADDRESS.search(text)
        assert not re.search(rf"({'|'.join(NAMES)}) can be", text)
    target = Target(["willoughby1@quarry.org"], ["willoughby2@quarry.org"], {"asked": "willoughby"})
    assert "willoughby" not in f"{target} {target!r} {target.prompt('asked', 0)!r}"
    with pytest.raises(OpaqueError):
        target.__reduce_ex__(2)


@pytest.mark.slow
def test_tables_are_whole_and_a_run_repeats(tmp_path, monkeypatch, data, copies):
    settings = Settings(**{**vars(SETTINGS), "seeds": 1, "adjacencies": ("add-remove", "replace-one")})
    first, second = (measured(tmp_path / name, monkeypatch, data, settings) for name in "ab")
    assert [(cell.key, cell.values) for cell in first.cells] == [(cell.key, cell.values) for cell in second.cells]
    section = EXPERIMENT.section(first)
    assert [table.title for table in section.tables] == [
        "Without a defence", "Defended, add-remove", "Defended, replace-one"
    ]  # fmt: skip
    assert all(len(row) == len(table.columns) for table in section.tables for row in table.rows)
    assert [figure.name for figure in section.figures] == [
        "mails-replace-one", "made-up-records-replace-one"
    ]  # fmt: skip
    assert all(len(figure.series) == 2 + 2 * len(METHODS) for figure in section.figures)


def test_missing_rows_and_too_many_targets_are_refused(tmp_path, monkeypatch, data, copies):
    with pytest.raises(InputError, match="are not there"):
        measured(tmp_path, monkeypatch, tmp_path / "nowhere")
    many = Settings(**{**vars(SETTINGS), "queries": 5})
    with pytest.raises(ParameterError, match="at most 4: there are 16 mails") as told:
        measured(tmp_path, monkeypatch, data, many)
    assert "willoughby" not in str(told.value)


def test_every_run_is_priced_for_its_whole_epsilon():
    from sottovoce.privacy.unit import Adjacency

    for name in METHODS:
        for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE):
            plan = plan_of(name, 4.0, adjacency, 16, 15)
            assert plan.report.epsilon <= 4.0
            assert plan.report.delta <= 1e-5
            assert (plan.setting.tokens, plan.setting.texts, plan.setting.experts) == (15, 1, 16)
            assert plan.setting.change.name == ("drop" if adjacency is Adjacency.ADD_REMOVE else "swap")


# The texts


def test_a_window_holds_whole_words_around_the_first_address():
    address = "ida.storm@quarry.org"
    mail = f"{'word ' * 60}{address}, then leo.brook@mill.net and {'more ' * 18}edge.case@somewhere.org {'end ' * 30}"
    kept, before = window(mail)
    assert len(kept) <= WINDOW
    assert address in kept
    assert before == "word word word word"
    assert kept in mail
    # No word is cut, so no address looks like another one.
    assert set(kept.split()) <= set(mail.split())
    assert window("nobody here") is None


def test_a_window_is_a_function_of_its_own_mail_and_keeps_short_mails_whole():
    assert window("ida.storm@quarry.org") == ("ida.storm@quarry.org", "at")
    # No blank at all: what an edge would cut goes, the address stays.
    kept, _ = window(";".join(f"someone{n}@quarry.org" for n in range(40)))
    assert kept.startswith("someone0@quarry.org")
    assert not Secrets([kept]).without(Secrets([f"someone{n}@quarry.org" for n in range(40)]))
    kept, _ = window("x" * 300 + " ida.storm@quarry.org " + "y" * 300)
    assert kept.strip() == "ida.storm@quarry.org"


def test_made_up_records_are_found_by_the_pattern_and_differ():
    rng = np.random.default_rng(3)
    records = [made_up_record("Ida", rng) for _ in range(400)]
    found = {ADDRESS.search(record).group() for record in records}
    # 400 draws of 3,072 repeat about 25 times; fewer than 330 different ones would be far out.
    assert 330 < len(found) <= len(WORDS) ** 2 * len(ENDS)
    assert len(set(WORDS)) == len(set(NAMES)) == 32
    assert all(record.startswith("Ida can be reached at ida.") for record in records)
