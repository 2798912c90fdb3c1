"""Structured generation: what counts as a record, against what, and which rows may be private."""

from __future__ import annotations

import json

import pytest

from benchmarks.tiny_rows import write_rows
from benchmarks.tiny_writer import MACHINE, measured, writer
from sottovoce.benchmarks.harness.experiment import Bench, Cell, Key, Piece, Result, Settings
from sottovoce.benchmarks.prism import structured as p
from sottovoce.benchmarks.prism import writing as w
from sottovoce.benchmarks.prism.demonstrations import METHODS, PUBLIC
from sottovoce.errors import InputError, ParameterError

FILM = {"title": "Lost", "year": 1950, "genres": ["Drama"], "cast": ["Ann Lee", "Bo Ray"]}
FILMS = p.Films(frozenset({"drama", "silent"}), (1900, 2020))
NOT_VALID = [
    {**FILM, "year": "1950"},
    {**FILM, "year": 1950.5},
    {**FILM, "title": ""},
    {**FILM, "cast": "Ann Lee"},
    {**FILM, "genres": [1]},
    {**FILM, "rating": 3},
    {name: FILM[name] for name in ("title", "year", "genres")},
    {},
]
SETTINGS = Settings(
    model="fake", seeds=2, queries=2, tasks=("wikimovies",), names=("own",), records=(4,), epsilons=(2.0,),
)  # fmt: skip


def text_of(film):
    return " " + json.dumps(film)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Six films, the first four of them reserved, and one test film."""
    for module in (p, w):
        monkeypatch.setattr(module, "RESERVED", 4)
    rows = [{**FILM, "title": f"Film {n}", "cast": ["A", "B", "C"], "href": "x"} for n in range(6)]
    rows[0] |= {"genres": ["Secret"], "year": 1850}
    write_rows(tmp_path, "wikimovies", "train", rows)
    write_rows(tmp_path, "wikimovies", "test", [{**FILM, "year": 2020}])
    p.public_films.cache_clear()
    return tmp_path


@pytest.mark.parametrize("row", NOT_VALID)
def test_a_record_that_breaks_the_schema_is_json_and_not_valid(row):
    assert p.shares([row], FILMS, 1) == {"json": 100, "schema": 0, "genres": 0, "year": 0}
    # The check can fail: looking at the names of the fields alone takes some of these for records.
    by_name = [set(one) == set(FILM) for one in NOT_VALID]
    assert sum(by_name) == 5


def test_shares_are_of_all_texts_that_were_paid_for():
    rows = [
        FILM,
        {**FILM, "genres": ["silent", " DRAMA"]},
        {**FILM, "genres": ["Drama", "Nonsense"], "year": 1899},
        {**FILM, "genres": [], "year": 2021},
        NOT_VALID[0],
    ]
    assert p.shares(rows, FILMS, 10) == {"json": 50, "schema": 40, "genres": 20, "year": 20}


def test_private_films_are_reserved_ones_and_the_vocabulary_is_of_the_others(data):
    films = p.public_films(data)
    assert films == p.Films(frozenset({"drama"}), (1950, 2020))
    titles = {row["title"] for seed in range(20) for row in w.draw(data, "wikimovies", seed, 3, 0).records}
    assert titles == {f"Film {n}" for n in range(4)}
    record = p.record_of(w.draw(data, "wikimovies", 0, 1, 0).records[0])
    assert set(record) == set(FILM)
    assert record["cast"] == ["A", "B"]


@pytest.mark.slow
def test_every_arm_is_measured_free_and_with_grammar(data, monkeypatch):
    # Freely it writes its year as a text, which the grammar does not allow; a letter that it is kept from is skipped.
    odd = text_of({**FILM, "cast": []}).replace("1950", '"950')
    model = writer(lambda prompt: odd)
    monkeypatch.setattr(p, "stepper_of", lambda name: model)
    monkeypatch.setattr(p, "TOKENS", len(odd) + 8)
    result = measured(p.EXPERIMENT, Settings(**{**vars(SETTINGS), "seeds": 1}), data)
    at = {"task": "wikimovies", "names": "own"}
    assert result.cell(**at, method=PUBLIC, option=w.FREE, quantity="json").values == (0,)
    assert result.cell(**at, method=PUBLIC, option=w.GRAMMAR, quantity="schema").values == (100,)
    for option in p.OPTIONS:
        assert len(result.cell(**at, method=p.REAL, records=4, option=option, quantity="schema").values) == 1
        for name in METHODS:
            for adjacency in SETTINGS.adjacencies:
                price = {"records": 4, "adjacency": adjacency, "epsilon": 2.0, "option": option}
                for quantity in (*p.SHARES, "tokens"):
                    assert len(result.cell(**at, method=name, **price, quantity=quantity).values) == 1
    shown = p.section(result)
    assert len(shown.tables) == len(shown.figures) == 4
    assert all(len(row) == len(table.columns) and "-" not in row[2:] for table in shown.tables for row in table.rows)
    assert any("with grammar" in table.title for table in shown.tables)


@pytest.mark.slow
def test_a_model_that_writes_the_record_is_told_from_one_that_does_not(data, monkeypatch):
    settings = Settings(**{**vars(SETTINGS), "seeds": 1, "adjacencies": ("replace-one",)})
    monkeypatch.setattr(p, "OPTIONS", (w.FREE,))
    monkeypatch.setattr(p, "METHODS", {"invisible-ink": METHODS["invisible-ink"]})
    found = {}
    for name, film in (("valid", FILM), ("not", NOT_VALID[1])):
        model = writer(
            lambda prompt, film=film: text_of(film) if prompt.prefix.startswith("Here are records") else "no"
        )
        monkeypatch.setattr(p, "stepper_of", lambda name, model=model: model)
        monkeypatch.setattr(p, "TOKENS", 90)
        result = measured(p.EXPERIMENT, settings, data)
        found[name] = [cell.mean for cell in result.cells if cell.key.quantity == "schema"]
        assert [cell.mean for cell in result.cells if cell.key.quantity == "json"] == [100, 100, 100]
    assert found == {"valid": [100, 100, 100], "not": [0, 0, 0]}


def made_up(method_share):
    """A result in which the public prompt alone gives half valid records."""
    settings = Settings(**{**vars(SETTINGS), "queries": 50, "adjacencies": ("replace-one",)})
    key = {"task": "wikimovies", "names": "own", "quantity": "schema", "option": w.FREE}
    cells = [
        Cell(Key(method=PUBLIC, **key), (50, 50)),
        Cell(Key(method=p.REAL, records=4, **key), (90, 80)),
        *(
            Cell(Key(method=name, records=4, adjacency="replace-one", epsilon=2.0, **key), (share, share))
            for name, share in method_share.items()
        ),
    ]
    return Result("prism-structured", settings, cells, MACHINE, 1.0, {"asked": 0, "found": 0})


def test_the_reading_names_only_what_intervals_tell_from_the_public_prompt():
    # Clopper-Pearson, 95 %: 50 of 100 is 40 to 60 %; 62 of 100 is 52 to 72 %; 76 of 100 is 66 to 84 %.
    shares = dict.fromkeys(METHODS, 62)
    assert "none, so nothing shows that the records helped" in p.section(made_up(shares)).reading[-1]
    told = p.section(made_up(shares | {"tang": 76, "amin": 10})).reading[-1]
    assert "above the public prompt alone, intervals apart: tang at 2; below it: amin at 2." in told


def test_missing_rows_and_several_sizes_are_refused(tmp_path, data):
    bench = Bench(SETTINGS, scorer=None, data=tmp_path / "nowhere")
    with pytest.raises(InputError, match="wikimovies"):
        list(p.measure(bench, Piece("wikimovies", "own", 0)))
    bench = Bench(Settings(**{**vars(SETTINGS), "records": (2, 4)}), scorer=None, data=data)
    with pytest.raises(ParameterError, match="records"):
        list(p.measure(bench, Piece("wikimovies", "own", 0)))
