"""Fits by a real Ray of two workers on this machine: the sums of one process bit for bit, also where workers die."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec

import pytest

from sottovoce.errors import ModelError
from sottovoce.experts import encoded
from sottovoce.experts.blocks import BlockReader
from sottovoce.experts.encoded import EncodedRecords
from sottovoce.experts.ray_engine import RayEngine
from sottovoce.experts.unit_sums import ClassSums, UnitCount
from sottovoce.fitting.fit import Fitting
from sottovoce.models.embedded.label_scorer import EmbeddedScorer
from sottovoce.models.fake import FakeScorer, words_hashed
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.records.readers import read_private
from sottovoce.tasks import Task

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is an extra: pip install 'sottovoce[ray]'"),
]

TASK = Task(labels=["billing", "shipping"])
PUBLIC = [{"text": "Is this still the same?"}]
UNITS = 300


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(encoded, "UNITS_TOGETHER", 20)
    texts = ("a fee was charged twice on invoice number {}", "the courier lost box {} in the rain")
    rows = [{"text": texts[i % 2].format(i), "label": TASK.labels[i % 2]} for i in range(UNITS)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "rows.jsonl"


def test_two_workers_give_the_sums_of_one_process_also_where_one_is_killed(file):
    engine, told, killed = RayEngine(2), [], []
    model = EmbeddedScorer(store=False)
    rules = [UnitCount(), ClassSums(2, model.dimension)]

    def sums(engine, on_units=None):
        records = EncodedRecords(read_private(file, stream=True), TASK, model, Adjacency.REPLACE_ONE)
        records.read(records.reader(PUBLIC), on_units, rules, engine)
        return [records.sum_of(rule).tolist() for rule in rules]

    engine.start(BlockReader(model, TASK, PUBLIC), rules)
    try:
        import ray

        pids = [ray.get(actor.__ray_call__.remote(lambda worker: os.getpid())) for actor in engine._actors]
        heard = listening(pids)

        def on_units(units):
            told.append(units)
            if len(told) == 4:
                os.kill(pids[0], signal.SIGKILL)
                killed.append(pids[0])

        found = sums(engine, on_units)
    finally:
        engine.close()
    assert found == sums(None)
    assert (sum(told), len(killed)) == (UNITS, 1)
    assert heard
    assert all(address.startswith(("127.0.0.1", "[::ffff:127.0.0.1]", "[::1]")) for address in heard)


def listening(pids):
    """Addresses that the workers and the other services of Ray listen on."""
    try:
        lines = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout.splitlines()
    except FileNotFoundError:
        pytest.skip("needs ss")
    assert any(f"pid={pid}," in line for pid in pids for line in lines)
    return [
        line.split()[3] for line in lines if any(name in line for name in ("ray", "gcs_server", f"pid={os.getpid()},"))
    ]


def fitted(file, engine, home, monkeypatch, model=None):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(home))
    return Fitting(
        read_private(file, stream=True, synthetic=True), TASK, epsilon=4, model=model or FakeScorer(),
        ledger=str(home) + ".db", randomness=SeededRandomness(5), engine=engine,
    )  # fmt: skip


def test_a_fit_by_ray_is_the_fit_of_one_process_and_draws_once(file, tmp_path, monkeypatch):
    here, there = (
        fitted(file, engine, tmp_path / name, monkeypatch).run()
        for engine, name in (("local", "here"), (RayEngine(2), "there"))
    )
    assert there.content_sha256 == here.content_sha256
    kinds = [
        Counter(entry["kind"] for entry in Ledger(str(tmp_path / f"{name}.db")).history()) for name in ("here", "there")
    ]
    assert kinds[0] == kinds[1] == {"open": 1, "reserve": 1, "draw": 1, "release": 1}


def test_where_workers_die_of_a_record_each_time_nothing_is_drawn(file, tmp_path, monkeypatch):
    head = os.getpid()

    def vectors(text):
        if "number 44" in text and os.getpid() != head:
            os.kill(os.getpid(), signal.SIGKILL)
        return words_hashed(text)

    fitting = fitted(file, RayEngine(2), tmp_path / "home", monkeypatch, FakeScorer(vectors=vectors))
    with pytest.raises(ModelError, match="lost 3 times") as caught:
        fitting.run()
    assert "invoice" not in str(caught.value)
    kinds = Counter(entry["kind"] for entry in Ledger(str(tmp_path / "home") + ".db").history())
    assert kinds == {"open": 1, "reserve": 1}


def test_the_command_fits_by_ray(file, tmp_path):
    words = [
        "fit", "--private", str(file), "--labels", "billing,shipping", "--model", "fake", "--out",
        str(tmp_path / "support.sotto"), "--engine", "ray", "--workers", "2", "--json",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", "from sottovoce.cli import main; main()", *words],
        env={**os.environ, "SOTTOVOCE_HOME": str(tmp_path / "home")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["method"] == "class-means"
    assert (tmp_path / "support.sotto").exists()
