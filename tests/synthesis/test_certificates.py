"""Certificates: a stranger can check the figures and the rows, the owner the charges, and a forger is found out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sottovoce.certificate import Certificate, rows_hash
from sottovoce.errors import InputError
from sottovoce.privacy.ledger import Ledger
from sottovoce.records import PrivateRecords
from synthesis.worlds_of_texts import rows, writer


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("certificates") / "a.db"
    icl = writer(place)
    kept = icl.fresh()
    written = [dict(row) for one in icl.rounds(kept=kept) for row in one.rows]
    return icl.certificate(kept, written), written, Ledger(str(place))


RECORDS = PrivateRecords(rows(), source="notes")


def wrong(checks) -> list[str]:
    return [check.what for check in checks if check.holds is False]


def test_everything_holds_with_rows_ledger_and_records(made):
    certificate, written, ledger = made
    checks = certificate.checks(written, ledger, RECORDS)
    assert [check.holds for check in checks] == [True] * 6


def test_what_cannot_be_looked_at_is_said(made):
    checks = made[0].checks()
    assert [check.holds for check in checks] == [True, True, True, None, None, None]


@pytest.mark.parametrize(
    ("forged", "problem"),
    [
        ({"epsilon": 10.0}, "follows from the event"),
        ({"adjacency": "add-remove", "epsilon": 10.0}, "follows from the event"),
        ({"seeded": True}, "operating system"),
        ({"isolation": "isolation not verified: no formal guarantee"}, "kept experts apart"),
        ({"rows_sha256": "0" * 64}, "the rows are those"),
        ({"ledger": ["abc-1"]}, "charged before it left"),
        ({"data": "0" * 64}, "the records are those"),
    ],
)
def test_a_forged_certificate_is_found_out(made, forged, problem):
    certificate, written, ledger = made
    found = wrong(replace(certificate, **forged).checks(written, ledger, RECORDS))
    assert problem in found[0]
    assert len(found) == 1 or "ledger" in forged, "with strange charges there is no key for the records either"


def test_another_row_other_records_or_another_ledger_are_found_out(made, tmp_path):
    certificate, written, ledger = made
    assert len(wrong(certificate.checks([*written, written[0]], ledger, RECORDS))) == 1
    assert len(wrong(certificate.checks(written, ledger, PrivateRecords(rows(26), source="notes")))) == 1
    other = writer(tmp_path / "other.db")
    list(other.rounds())
    assert len(wrong(certificate.checks(written, other.ledger, RECORDS))) == 2


def test_it_names_no_hash_that_a_guess_of_the_records_could_be_held_against(made):
    certificate = made[0]
    assert RECORDS.fingerprint not in json.dumps(vars(certificate), default=str)
    assert certificate.data != RECORDS.fingerprint


def test_it_is_read_as_it_was_written(made, tmp_path):
    certificate = made[0]
    certificate.write(tmp_path / "c.json")
    assert Certificate.read(tmp_path / "c.json") == certificate
    for text in ("{}", "[", json.dumps({**vars(certificate), "format": 2}, default=list)):
        (tmp_path / "c.json").write_text(text, "utf-8")
        with pytest.raises(InputError):
            Certificate.read(tmp_path / "c.json")


def test_rows_are_hashed_as_they_are_written():
    assert rows_hash([{"text": "ä", "label": "b"}]) != rows_hash([{"label": "b", "text": "ä"}])


def test_the_statement_names_epsilon_delta_adjacency_and_unit(made):
    statement = made[0].statement
    for part in ("exp(20)", "1e-06", "replace-one", "unit 'record'", "swap", "whole file"):
        assert part in statement
