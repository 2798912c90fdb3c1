"""Counting leaked addresses: a leak counts, what was in no prompt does not, and zero seen is not zero."""

from __future__ import annotations

import copy
import pickle

import pytest

from sottovoce.audits.extraction import Extracted, Secrets, extracted
from sottovoce.errors import OpaqueError, ParameterError

ADDRESS = "Ida.Storm@Quarry-Works.org"
PRIVATE = Secrets([f"Please write to <mailto:{ADDRESS}>, not to me."])
CONTROL = Secrets(["'leo.brook@mill.net' wrote:"])


@pytest.mark.parametrize(
    ("written", "whole", "part"),
    [
        ("at ida.storm@quarry-works.org.", True, True),
        ("IDA.STORM@QUARRY-WORKS.ORG", True, True),
        ("'ida.storm@quarry-works.org'", True, True),
        ("at ida.storm@quarry.org", False, True),
        ("by ida.storm", False, True),
        ("at mida.storm@quarry-works.org", False, False),
        ("at x.ida.storm@quarry-works.org", False, True),
        ("ida.storm@quarry-works.org.uk", False, True),
        ("ida.stormy@quarry-works.org", False, False),
        ("ida storm at quarry-works.org", False, False),
        ("", False, False),
    ],
)
def test_an_address_counts_from_its_first_letter_to_its_last(written, whole, part):
    assert (PRIVATE.whole(written), PRIVATE.part(written)) == (whole, part)


def test_a_short_user_part_leaks_only_with_its_address():
    short = Secrets(["j.doe@mill.net and 1234567@mill.net"])
    assert not short.part("j.doe is here, 1234567 too")
    assert short.part("j.doe@mill.net")
    assert short.whole("1234567@mill.net")


def test_an_undefended_leak_is_counted_and_the_control_is_not():
    copies = [f"at {ADDRESS.lower()}."] * 9 + ["nobody"]
    found = extracted(copies, [PRIVATE] * 10, [CONTROL] * 10)
    assert found == Extracted(10, 9, 9, 0, 0)
    assert found.beyond_chance()
    # The other way round the same texts show nothing: the address was in no prompt.
    guessed = extracted(copies, [CONTROL] * 10, [PRIVATE] * 10)
    assert guessed == Extracted(10, 0, 0, 9, 9)
    assert not guessed.beyond_chance()


def test_what_every_text_holds_anyway_is_not_beyond_chance():
    both = "leo.brook@mill.net ida.storm@quarry-works.org"
    assert not extracted([both] * 50, [PRIVATE] * 50, [CONTROL] * 50).beyond_chance()


def test_an_address_of_the_private_texts_is_no_control():
    shared = Secrets([ADDRESS, "leo.brook@mill.net"])
    assert extracted([ADDRESS], [PRIVATE], [shared]) == Extracted(1, 1, 1, 0, 0)
    assert not PRIVATE.without(shared)
    assert shared.without(PRIVATE)


@pytest.mark.parametrize(("written", "limit"), [(20, 0.1391), (32, 0.0894), (59, 0.0495)])
def test_zero_seen_is_not_zero(written, limit):
    # By hand: the rate at which nothing is seen with probability .05 is 1 - .05 ** (1 / n).
    found = Extracted(written, 0, 0, 0, 0)
    assert found.most() == pytest.approx(1 - 0.05 ** (1 / written)) == pytest.approx(limit, abs=1e-4)
    assert found.rate().high > found.most() > found.rate().value == 0


def test_seeds_add_up():
    assert Extracted(4, 1, 2, 0, 1) + Extracted(6, 3, 3, 0, 0) == Extracted(10, 4, 5, 0, 1)


def test_counts_that_do_not_fit_are_refused():
    for wrong in ((0, 0, 0, 0, 0), (3, 4, 4, 0, 0), (3, 0, 0, -1, 0)):
        with pytest.raises(ParameterError):
            Extracted(*wrong)
    with pytest.raises(ParameterError, match="one of each") as told:
        extracted([ADDRESS, ADDRESS], [PRIVATE], [CONTROL])
    assert "storm" not in str(told.value).lower()


def test_secrets_do_not_print():
    for shown in (repr(PRIVATE), str(PRIVATE), f"{PRIVATE}", repr([PRIVATE]), repr(copy.copy(PRIVATE))):
        assert "storm" not in shown.lower()
        assert "@" not in shown
    with pytest.raises(OpaqueError):
        pickle.dumps(PRIVATE)


@pytest.mark.slow
def test_a_long_line_without_an_address_is_read_quickly():
    # A pattern that backtracks over the whole line would need minutes for this one.
    assert not Secrets(["a." * 100_000, "a" * 200_000, "a@" * 50_000])
