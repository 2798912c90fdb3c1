"""Old names work for one version more, and say what they are called now."""

from __future__ import annotations

import importlib

import pytest

import sottovoce as sv
from sottovoce import deprecated
from sottovoce.privacy.accounting.loss_distribution import LossDistribution


def test_every_old_path_leads_to_a_module_that_is_there():
    for old, new in deprecated.MODULES.items():
        assert importlib.import_module(f"sottovoce.{new}"), old
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = importlib.import_module(f"sottovoce.{old}").nothing


@pytest.mark.parametrize(
    ("old", "name", "new"),
    [
        ("privacy.losses", "Losses", LossDistribution),
        ("privacy.ledger", "Ledger", sv.Ledger),
        ("synthesis", "Synthesizer", sv.Synthesizer),
        ("records", "PrivateRecords", sv.PrivateRecords),
        ("methods.decoding", "Decoder", sv.methods.Decoder if hasattr(sv.methods, "Decoder") else None),
    ],
)
def test_a_name_is_found_where_it_was(old, name, new):
    with pytest.warns(DeprecationWarning, match=rf"sottovoce.{old}.{name} is now sottovoce\."):
        found = getattr(importlib.import_module(f"sottovoce.{old}"), name)
    assert new is None or found is new


def test_an_old_class_takes_its_old_arguments():
    with pytest.warns(DeprecationWarning, match="sottovoce.Order is now sottovoce.SynthesisConfig"):
        order = sv.Order
    with pytest.warns(DeprecationWarning, match="max_private_tokens"):
        assert order(tokens=9, inside_tokens=7) == sv.SynthesisConfig(tokens=9, max_private_tokens=7)


def test_an_attribute_is_found_under_its_old_name():
    class Owner:
        new = 3
        old = deprecated.renamed("old", "new")

    with pytest.warns(DeprecationWarning, match=r"Owner\.old is now Owner\.new"):
        assert Owner().old == 3
