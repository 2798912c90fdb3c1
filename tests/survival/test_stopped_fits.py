"""kill -9 while a fit reads: it goes on under its charge, behind what it had added up, or with what it had embedded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

from sottovoce.cli import run
from sottovoce.experts import encoded
from sottovoce.experts.unit_sums import ClassSums, UnitCount
from sottovoce.fitting import progress
from sottovoce.fitting.progress import KeptSums
from sottovoce.methods.class_means import ClassMeans
from sottovoce.models.embedded.sentence_encoder import SentenceEncoder
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.ledger.ledger import Account, Ledger
from survival.crashes import Fuse, in_a_child

UNITS, TOGETHER = 120, 10
RULES = [UnitCount(), ClassSums(2, 5)]
DONE = (30, [np.array([30 << 16]), np.arange(12) - 7])

POINTS = {
    "charged, nothing read": (lambda: Fuse(Account, "reserve", after=True), 0),
    "before the first sums are kept": (lambda: Fuse(KeptSums, "keep", after=False), 0),
    "the first sums are kept": (lambda: Fuse(KeptSums, "keep", after=True), 10),
    "sums are half written": (lambda: Fuse(progress, "write_anew", after=False, count=4), 30),
    "a block is embedded, not kept": (lambda: Fuse(FakeScorer, "embed_records", after=True, count=6), 50),
    "all is read": (lambda: Fuse(Account, "begin", after=False), 120),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(encoded, "UNITS_TOGETHER", TOGETHER)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    texts = ("a fee was charged twice on invoice number {}", "the courier lost box {} in the rain")
    rows = [{"text": texts[i % 2].format(i), "label": ("billing", "shipping")[i % 2]} for i in range(UNITS)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def command(*more):
    return [
        "fit", "--private", "rows.jsonl", "--labels", "billing,shipping", "--model", "fake", "--ledger", "rows.db",
        "--out", "support.sotto", *more,
    ]  # fmt: skip


def kinds():
    return Counter(entry["kind"] for entry in Ledger("rows.db").history())


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_fit_that_is_killed_goes_on_behind_what_it_added_up(place, monkeypatch, point):
    fuse, kept = POINTS[point]

    def work():
        fuse().arm()
        assert run(command()) == 0

    assert in_a_child(work) == -signal.SIGKILL, "the point was never reached"
    assert kinds() == {"open": 1, "reserve": 1}
    embedded, summed = [], []
    embed, fit = FakeScorer.embed_records, ClassMeans.fit
    monkeypatch.setattr(
        FakeScorer,
        "embed_records",
        lambda model, task, records: embedded.extend(records) or embed(model, task, records),
    )

    def fitted(method, plan, private, *rest):
        summed.append(private.sum_of(private._fitting.plan.fitter.rules(plan, rest[0])[0]).tolist())
        return fit(method, plan, private, *rest)

    monkeypatch.setattr(ClassMeans, "fit", fitted)
    assert run(command("--resume")) == 0
    assert len(embedded) == UNITS - kept
    assert kinds() == {"open": 1, "reserve": 1, "draw": 1, "release": 1}
    assert list((place / "home" / "fits").iterdir()) == []
    monkeypatch.setenv("SOTTOVOCE_HOME", str(place / "another home"))
    assert run(["fit", *command()[1:-4], "--ledger", "again.db", "--out", "again.sotto"]) == 0
    assert summed[0] == summed[1]


@pytest.mark.slow
def test_records_in_another_order_are_read_from_the_first_one(place, monkeypatch):
    def work():
        POINTS["a block is embedded, not kept"][0]().arm()
        run(command())

    assert in_a_child(work) == -signal.SIGKILL
    lines = (place / "rows.jsonl").read_text().splitlines(keepends=True)
    (place / "rows.jsonl").write_text("".join([*lines[60:], *lines[:60]]))
    embedded = []
    embed = FakeScorer.embed_records
    monkeypatch.setattr(
        FakeScorer,
        "embed_records",
        lambda model, task, records: embedded.extend(records) or embed(model, task, records),
    )
    assert run(command("--resume")) == 0
    assert len(embedded) == UNITS
    assert kinds() == {"open": 1, "reserve": 1, "draw": 1, "release": 1}


def test_kept_sums_open_for_the_same_run_alone(place):
    kept = KeptSums("run", ["terms"], RULES)
    assert kept.found("order") is None
    kept.keep("order", DONE)
    units, sums = KeptSums("run", ["terms"], RULES).found("order")
    assert units == DONE[0]
    assert [one.tolist() for one in sums] == [one.tolist() for one in DONE[1]]
    for other, order in (
        (KeptSums("another", ["terms"], RULES), "order"),
        (KeptSums("run", ["others"], RULES), "order"),
        (KeptSums("run", ["terms"], [UnitCount(), ClassSums(2, 5, 4)]), "order"),
        (kept, "another order"),
    ):
        assert other.found(order) is None
    (file,) = (place / "home" / "fits").iterdir()
    sealed = file.read_bytes()
    assert DONE[1][1].astype("<i8").tobytes()[:16] not in sealed
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    for spoilt in (sealed[:-1] + bytes([sealed[-1] ^ 1]), sealed[:20], b""):
        file.write_bytes(spoilt)
        assert kept.found("order") is None
    kept.forget()
    assert not file.exists()
    kept.forget()


def test_sums_are_kept_no_more_often_than_every_few_seconds(place, monkeypatch):
    monkeypatch.setattr(progress, "EVERY_S", 2.0)
    now = [0.0]
    kept = KeptSums("run", [], RULES, clock=lambda: now[0])
    found = []
    for units in range(1, 6):
        kept.keep("order", (units, DONE[1]))
        found.append(kept.found("order")[0])
        now[0] += 0.9
    assert found == [1, 1, 1, 4, 4]


@pytest.mark.slow
def test_a_store_that_cannot_be_written_keeps_nothing_and_stops_nothing(place, monkeypatch):
    def refused(file, content):
        raise PermissionError(13, "no")

    monkeypatch.setattr(progress, "write_anew", refused)
    kept = KeptSums("run", [], RULES)
    kept.keep("order", DONE)
    assert kept.found("order") is None
    assert run(command()) == 0


@pytest.mark.slow
def test_a_fit_that_keeps_vectors_does_not_embed_again_what_the_cache_has(place, monkeypatch):
    texts = [f"public text about subject {i} and the weather of day {i * 7 % 31}" for i in range(40)]
    (place / "pool.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    words = [
        "fit", "--private", "rows.jsonl", "--labels", "billing,shipping", "--adjacency", "add-remove", "--public",
        "pool.jsonl", "--ledger", "rows.db", "--out", "support.sotto",
    ]  # fmt: skip
    child = subprocess.Popen(
        [sys.executable, "-c", "from sottovoce.experts import encoded; encoded.UNITS_TOGETHER = 4\n"
         "from sottovoce.cli import main; main()", *words],
        env=dict(os.environ), stderr=subprocess.DEVNULL,
    )  # fmt: skip
    cache, end = place / "home" / "embeddings" / "embeddings.db", time.monotonic() + 120
    while not (cache.exists() and cache.stat().st_size > 60_000) and time.monotonic() < end:
        time.sleep(0.01)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert kinds() == {"open": 1, "reserve": 1}
    private, encode = [], SentenceEncoder.encode

    def counted(encoder, given):
        private.extend(text for text in given if "invoice" in text or "courier" in text)
        return encode(encoder, given)

    monkeypatch.setattr(SentenceEncoder, "encode", counted)
    assert run([*words, "--resume"]) == 0
    assert 0 < len(private) <= UNITS - 20
    assert kinds() == {"open": 1, "reserve": 1, "draw": 1, "release": 1}
