"""Old names work for one version more, and say what they are called now."""

from __future__ import annotations

import importlib
import warnings
from operator import attrgetter

import pytest

import sottovoce as sv
from sottovoce import deprecated
from sottovoce.models.fake import FakeScorer
from sottovoce.models.huggingface.engine import Engine
from sottovoce.models.huggingface.prefix_cache import PrefixStore
from sottovoce.models.lockstep.workspace import Workspace
from sottovoce.privacy.accounting.loss_distribution import LossDistribution
from sottovoce.privacy.ledger.identity import Identity
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import PrivateRecords, Row


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


def session(ledger):
    rows = [Row(1, {"text": "a fee", "label": "a"}), Row(2, {"text": "a parcel", "label": "b"})]
    records = PrivateRecords(rows, source="notes", synthetic=True)
    task, budget = sv.Task(labels=["a", "b"]), sv.Budget(5, 1e-6)
    return sv.PrivateICL(records=records, task=task, model=FakeScorer(), budget=budget, ledger=ledger)


def test_a_session_says_the_very_ledger_that_it_was_given():
    ledger = sv.Ledger(":memory:")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        icl = session(ledger)
        assert icl.ledger is ledger
        opened = session(":memory:")
        assert opened.ledger is opened.ledger


def test_an_account_knows_its_ledger_under_the_old_name():
    ledger = sv.Ledger(":memory:")
    account = ledger.open(Identity("ab" * 32, Adjacency.REPLACE_ONE, "record"), sv.Budget(1))
    with pytest.warns(DeprecationWarning, match=r"Account\.ledger is now Account\.opened_by"):
        assert account.ledger is ledger is Ledger.of(account)


@pytest.mark.parametrize(
    ("module", "owner", "old", "new"),
    [
        ("lockstep.stepper", "TransformersStepper", "memory", "workspace.memory"),
        ("lockstep.stepper", "TransformersStepper", "lock", "workspace.lock"),
        ("huggingface.label_scorer", "TransformersScorer", "lock", "engine.lock"),
        ("huggingface.label_scorer", "TransformersScorer", "reuse_cache", "engine.reuse_cache"),
        ("huggingface.label_scorer", "TransformersScorer", "restricted", "engine.restricted"),
        ("vision.label_scorer", "VisionScorer", "lock", "engine.lock"),
        ("vision.label_scorer", "VisionScorer", "reuse_cache", "engine.reuse_cache"),
    ],
)
def test_what_a_model_shares_is_found_under_its_old_name(module, owner, old, new):
    pytest.importorskip("transformers")
    kind = getattr(importlib.import_module(f"sottovoce.models.{module}"), owner)
    shared = Engine(None, PrefixStore(1)) if new.startswith("engine") else Workspace(None, 1, 1, 1, 1)
    model = object.__new__(kind)
    setattr(model, new.partition(".")[0], shared)
    with pytest.warns(DeprecationWarning, match=rf"{owner}\.{old} is now {owner}\.{new}"):
        assert getattr(model, old) is attrgetter(new)(model)
