"""What a copy of the process finds is found here, and one that does not answer is listed."""

from __future__ import annotations

import os
import time

import pytest

from sottovoce.testing import another_process
from sottovoce.testing.another_process import in_a_copy
from sottovoce.testing.report import ContractError, Report


def breaks():
    raise ContractError("sensitivity", "an entry", "é moves too far", "{x} and {y}")


def test_a_contract_that_is_broken_in_the_copy_is_broken_here():
    with pytest.raises(ContractError, match="é moves too far") as broken:
        in_a_copy(breaks, Report("method", "an entry"), "an entry")
    assert (broken.value.contract, broken.value.subject, broken.value.world) == (
        "sensitivity",
        "an entry",
        "{x} and {y}",
    )


def raises():
    raise RuntimeError("not a contract")


def test_what_the_copy_keeps_stays_there():
    kept, report = [], Report("method", "an entry")
    in_a_copy(lambda: kept.append(1), report, "an entry")
    assert kept == []
    assert report.uncompared == []


@pytest.mark.parametrize("ends", [lambda: os._exit(3), os.abort, raises, lambda: time.sleep(60)])
def test_a_copy_that_does_not_answer_is_listed(ends, monkeypatch):
    monkeypatch.setattr(another_process, "PATIENCE", 1.0)
    copies, fork = [], os.fork

    def noted():
        copies.append(fork())
        return copies[-1]

    monkeypatch.setattr(os, "fork", noted)
    report = Report("method", "an entry")
    in_a_copy(ends, report, "an entry")
    assert len(report.uncompared) == 1
    with pytest.raises(ChildProcessError):  # it is gone, and was waited for
        os.waitpid(copies[0], os.WNOHANG)


def test_where_no_process_can_be_copied_that_is_listed(monkeypatch):
    monkeypatch.delattr(os, "fork")
    report = Report("method", "an entry")
    in_a_copy(breaks, report, "an entry")
    assert "copies no process" in report.uncompared[0]
