"""Accuracy by the number of records: fewer are the first of more, and every count is measured."""

from __future__ import annotations

import pytest

from benchmarks.tiny_rows import reader
from sottovoce.benchmarks.harness import runner
from sottovoce.benchmarks.harness.experiment import Result, Settings
from sottovoce.benchmarks.harness.runner import run
from sottovoce.benchmarks.prism import demonstrations as prism_demonstrations
from sottovoce.benchmarks.prism import records as prism_records
from sottovoce.benchmarks.prism.ablations import COPIED
from sottovoce.benchmarks.prism.records import EXPERIMENT, WRITERS
from sottovoce.models.fake import FakeStepper
from sottovoce.synthesis.synthesizer import Synthesizer

SETTINGS = Settings(
    model="fake", seeds=2, queries=4, tasks=("tickets",), names=("own",), records=(8, 24), epsilons=(3.0,), shots=(2,)
)


@pytest.mark.slow
def test_every_count_is_measured_and_more_records_weigh_less(tmp_path, monkeypatch):
    prism_demonstrations.stepper_of.cache_clear()
    made = FakeStepper(lambda prompt, text: [1.0, 0.5, 0.2, len(text) - 2.0, 0.0], pieces=("late ", "fee ", "lamp "))
    monkeypatch.setattr(prism_demonstrations, "load_stepper", lambda model: made)
    monkeypatch.setattr(runner, "open_model", lambda spec, store: reader())
    monkeypatch.setattr(prism_records, "SIZE", prism_demonstrations.Size(per_label=1, tokens=4, draws=2))
    writers = []

    class Watched(Synthesizer):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            writers.append(self)

    monkeypatch.setattr(prism_demonstrations, "Synthesizer", Watched)
    result = Result.read(run(EXPERIMENT, SETTINGS, results=tmp_path / "results", cache=tmp_path / "cache"))
    prism_demonstrations.stepper_of.cache_clear()
    at = {"task": "tickets", "names": "own", "option": "k 2"}
    assert len(result.cell(**at, method=COPIED).values) == 2
    for records in SETTINGS.records:
        for name in WRITERS:
            for adjacency in SETTINGS.adjacencies:
                cell = result.cell(**at, method=name, records=records, adjacency=adjacency, epsilon=3.0)
                assert len(cell.values) == 2
    (few, *_, many) = [w.plan.decoder.clip for w in writers if w.plan.decoder.name == "invisible-ink"][1:5]
    assert many == pytest.approx(3 * few / 2, rel=1e-3)  # thrice the experts, half of it lost to replace-one
    shown = EXPERIMENT.section(result)
    assert all(len(row) == len(table.columns) and "-" not in row[2:] for table in shown.tables for row in table.rows)
    assert len(shown.reading) == 2 * len(WRITERS)
