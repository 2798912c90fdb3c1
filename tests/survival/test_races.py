"""Many processes, one cap: exactly as many reservations are admitted as fit, never one more and never one less."""

from __future__ import annotations

import pytest

from privacy.ledger.postgres import address, postgres_server, postgres_url  # noqa: F401  (fixtures)
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Account, Ledger
from survival.races import PRICE, WHO, race

CALLERS = ("alice", "bob", "carol", "dora")


def assert_exactly(where: str, admits: int, processes: int, tries: int) -> None:
    ledger = Ledger(where)
    ledger.open(WHO, Budget(round(admits * PRICE, 6)))
    ledger.close()
    crowd = race(where, processes, tries)
    assert crowd.errors == []
    assert sum(crowd.admitted) == admits
    (balance,) = ledger.balances()
    assert (balance.answers, balance.left) == (admits, 0)
    assert ledger.verify() == []
    ledger.close()


def assert_nested_caps_hold(where: str, unit: int, processes: int, tries: int) -> None:
    """Data set 10 units, a group of alice and bob 6, each of them 4; carol 3 alone, dora 9: the data set binds."""
    ledger = Ledger(where)
    ledger.open(WHO, Budget(round(10 * unit * PRICE, 6)))
    caps = {"alice": 4, "bob": 4, "carol": 3, "dora": 9}
    ledger.allot(WHO, group="support", budget=Budget(round(6 * unit * PRICE, 6)))
    for caller, cap in caps.items():
        group = "support" if caller in ("alice", "bob") else None
        ledger.allot(WHO, caller=caller, group=group, budget=Budget(round(cap * unit * PRICE, 6)))
    ledger.close()
    crowd = race(where, processes, tries, CALLERS)
    assert crowd.errors == []
    by_caller = {name: sum(crowd.admitted[i :: len(CALLERS)]) for i, name in enumerate(CALLERS)}
    assert sum(by_caller.values()) == 10 * unit, "the data set's cap is filled exactly"
    assert all(by_caller[name] <= caps[name] * unit for name in CALLERS)
    assert by_caller["alice"] + by_caller["bob"] <= 6 * unit
    (balance,) = ledger.balances()
    assert (balance.answers, balance.left) == (10 * unit, 0)
    assert ledger.verify() == []
    ledger.close()


@pytest.mark.parametrize(("admits", "tries"), [(40, 8), pytest.param(300, 50, marks=pytest.mark.slow)])
def test_sixteen_processes_fill_a_cap_exactly(address, admits, tries):  # noqa: F811
    assert_exactly(address, admits, processes=16, tries=tries)


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "tries"), [(7, 20), (20, 60)])
def test_nested_caps_hold_while_processes_race(address, unit, tries):  # noqa: F811
    assert_nested_caps_hold(address, unit, processes=8, tries=tries)


@pytest.mark.slow
@pytest.mark.parametrize("time", range(100))
def test_sixty_four_processes_fill_a_cap_of_ten_thousand_exactly(address, time):  # noqa: F811
    assert_exactly(address, admits=10_000, processes=64, tries=1_000)


@pytest.mark.slow
def test_sixty_four_processes_under_nested_caps(address):  # noqa: F811
    assert_nested_caps_hold(address, unit=1_000, processes=64, tries=1_000)


@pytest.mark.slow
def test_a_look_at_the_balance_without_the_lock_is_caught(tmp_path, monkeypatch):
    # The planted mistake: the balance is read in one transaction and written in another.
    where = str(tmp_path / "race.db")

    def two_steps(account: Account, asked, again: bool = True) -> None:
        account.check(asked)
        admitted.append(len(asked))

    admitted: list[int] = []
    monkeypatch.setattr(Account, "reserve", two_steps)
    with pytest.raises(AssertionError):
        assert_exactly(where, admits=20, processes=4, tries=10)
