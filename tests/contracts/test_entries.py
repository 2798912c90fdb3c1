"""Everything that is registered keeps its contract. No name stands here: the registries are read."""

from __future__ import annotations

import pytest

from sottovoce.testing import Effort, entries, examine, unknown_registries
from sottovoce.testing.options import settings_of

ENTRIES = list(entries())
SLOW = (
    "evolve", "dp-logistic", "tang", "poe-decoding", "amin", "sga", "pbs",
    "label-public", "ksa", "invisible-ink", "prior-poe", "rnm", "augment", "private_clustering",
    "gaussian", "one_shot_top_k", "choice", "esa", "exponential", "laplace_noisy_max",
    "joint_top_k", "stability_histogram", "permute_and_flip", "rounded_gaussian", "gaussian_vector",
    "propose_test_release",
)  # fmt: skip
"""Entries that draw as another one does, with tests of laws and prices of their own beside this one."""
AT_DEFAULTS = ("poe", "poe-decoding")
"""Entries of many settings. The first one is examined by itself: of `poe` by default, of the other with slow tests."""
every_entry = pytest.mark.parametrize(
    ("registry", "name", "entry"),
    [pytest.param(*each, marks=pytest.mark.slow) if each[1] in (*SLOW, *AT_DEFAULTS) else each for each in ENTRIES],
    ids=[f"{registry.kind} {name}" for registry, name, _ in ENTRIES],
)


def _enough_of_a_method(kept):
    """Exact laws and draws; what is free or has no guarantee is asked in sessions alone."""
    if {"free", "consent"} & kept.keys():
        return min(kept.values()) >= 3
    needed = {"price", "state", "order", "failures", "sampler", "session", "retries"}
    return needed <= kept.keys() and kept.get("neighbours", 0) + kept.get("records", 0) > 100


def _enough_of_a_mechanism(kept):
    clustered = min(kept.get(name, 0) for name in ("post-processing", "sensitivity", "composition")) > 1000
    return "price" in kept and ("neighbours" in kept or clustered)


def _enough_of_a_fitter(kept):
    needed = {"price", "refusals", "post-processing", "sensitivity", "draws", "sampler", "session"}
    return needed <= kept.keys() and kept["sensitivity"] > 100 and kept.get("neighbours", 0) + kept["composition"] > 100


def _enough_of_an_answerer(kept):
    if {"free", "consent"} & kept.keys():
        return kept["candidates"] >= 2 and min(kept.get(name, 20) for name in ("free", "consent")) >= 20
    needed = {"candidates", "price", "post-processing", "sensitivity", "order", "state", "draws", "sampler", "road"}
    return needed <= kept.keys() and kept["sensitivity"] > 200 and kept["composition"] > 200


NEEDED = {
    "answerer": _enough_of_an_answerer,
    "method": _enough_of_a_method,
    "decoder": _enough_of_a_method,
    "mechanism": _enough_of_a_mechanism,
    "fitter": _enough_of_a_fitter,
}
"""What must have been checked: a suite that skipped everything would pass as well."""


@every_entry
def test_it_keeps_its_contract(registry, name, entry):
    report = examine(registry, name, entry)
    assert report.passed, str(report)
    assert NEEDED[registry.kind](kept={check.contract: check.cases for check in report.checks})


@pytest.mark.parametrize("name", ["poe", pytest.param("poe-decoding", marks=pytest.mark.slow)])
def test_it_keeps_its_contract_at_its_defaults(name):
    ((registry, _, entry),) = entries([name])
    report = examine(registry, name, next(settings_of(entry, Effort.QUICK)))
    assert report.passed, str(report)
    assert NEEDED[registry.kind](kept={check.contract: check.cases for check in report.checks})


@pytest.mark.slow
@every_entry
def test_it_keeps_its_contract_in_many_worlds(registry, name, entry):
    report = examine(registry, name, entry, Effort.FULL)
    assert report.passed, str(report)


def test_every_registry_has_a_contract():
    assert unknown_registries() == []
