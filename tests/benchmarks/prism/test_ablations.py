"""One setting at a time: each is really moved, at one price."""

from __future__ import annotations

import pytest

from benchmarks.tiny_rows import reader
from sottovoce.benchmarks.harness import runner
from sottovoce.benchmarks.harness.experiment import Bench, Piece, Result, Settings
from sottovoce.benchmarks.harness.runner import run
from sottovoce.benchmarks.prism import ablations as prism_knobs
from sottovoce.benchmarks.prism import demonstrations as prism_demonstrations
from sottovoce.benchmarks.prism.ablations import COPIED, EXPERIMENT, USUAL, VARIANTS
from sottovoce.models.fake import FakeStepper
from sottovoce.synthesis.synthesizer import Synthesizer

SETTINGS = Settings(
    model="fake", seeds=1, queries=4, tasks=("tickets",), names=("own",), records=(16,), epsilons=(3.0,),
    adjacencies=("add-remove",), shots=(1, 2),
)  # fmt: skip


@pytest.fixture
def asked(monkeypatch):
    """Every writer that an experiment makes, with a model that writes whatever is asked."""
    prism_demonstrations.stepper_of.cache_clear()
    made = FakeStepper(lambda prompt, text: [1.0, 0.5, 0.2, len(text) - 2.0, 0.0], pieces=("late ", "fee ", "lamp "))
    monkeypatch.setattr(prism_demonstrations, "load_stepper", lambda model: made)
    monkeypatch.setattr(runner, "open_model", lambda spec, store: reader())
    monkeypatch.setattr(prism_knobs, "SIZE", prism_demonstrations.Size(per_label=1, tokens=4, draws=2))
    writers = []

    class Watched(Synthesizer):  # type: ignore[misc]
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            writers.append(self)

    monkeypatch.setattr(prism_demonstrations, "Synthesizer", Watched)
    yield writers
    prism_demonstrations.stepper_of.cache_clear()


@pytest.mark.slow
def test_each_variant_differs_from_the_usual_in_its_setting_and_costs_no_more(asked, tmp_path):
    result = Result.read(run(EXPERIMENT, SETTINGS, results=tmp_path / "results", cache=tmp_path / "cache"))
    public, *writers = asked
    assert public.plan.report.epsilon <= prism_demonstrations.NOTHING
    assert len(writers) == len(VARIANTS)
    usual = {v.method: w for v, w in zip(VARIANTS, writers, strict=True) if v.name == USUAL}
    for v, w in zip(VARIANTS, writers, strict=True):
        assert w.plan.report.epsilon <= (v.epsilon or 3.0)
        if v.name != USUAL:
            facts = [(x.plan.parameters, x.order.tokens, x.plan.setting.experts) for x in (usual[v.method], w)]
            assert facts[0] != facts[1], v.name
    copied = result.cell(task="tickets", names="own", method=COPIED, records=16, option="k 2")
    assert copied is not None
    assert str(copied) in EXPERIMENT.section(result).reading[0]
    (table,) = EXPERIMENT.section(result).tables
    assert [row[:2] for row in table.rows] == [(v.method, v.name) for v in VARIANTS]
    assert not any("-" in row[2:] for row in table.rows)


def test_the_control_draws_behind_records_of_its_label_alone(monkeypatch):
    seen = []

    def function(prompt, text):
        seen.append((prompt.prefix, prompt.private_text))
        return [9.0, 0.0, 0.0, 5.0 * len(text), 0.0]

    made = FakeStepper(function, pieces=("late ", "fee ", "lamp "))
    bench = Bench(SETTINGS, reader())
    episode, held = prism_demonstrations.held_of(bench, Piece("tickets", "own", 0), 16)
    texts = prism_knobs.after_real_ones(made, episode, held, Piece("tickets", "own", 0))
    own = {x.fields["text"]: episode.task.labels[x.label] for x in held}
    shown = {(inside.removeprefix("Text: ").strip(), before) for before, inside in seen if inside}
    assert {own[text] for text, _ in shown} == {before.partition("type ")[2].strip(".\n") for _, before in shown}
    assert all(f"of type {own[text]}." in before for text, before in shown)
    assert len(texts) == len(shown)


def test_variants_have_names_of_their_own():
    names = [(v.method, v.name) for v in VARIANTS]
    assert len(set(names)) == len(names)
