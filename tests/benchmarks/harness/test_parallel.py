"""Experiments in several processes: the same numbers, and errors that come through whole."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from sottovoce.benchmarks.harness.experiment import Result
from sottovoce.benchmarks.harness.runner import load_experiment, run
from sottovoce.errors import AssignmentError, InputError, ParameterError, RecordError

EXPERIMENT = load_experiment("poetry-clip")
SETTINGS = replace(
    EXPERIMENT.settings, model="fake", seeds=3, queries=5, tasks=("tickets",), names=("own",), clips=(1.0, 2.0)
)


def measured(tmp_path, jobs, **changed) -> Result:
    settings = replace(SETTINGS, **changed)
    return Result.read(run(EXPERIMENT, settings, results=tmp_path / f"{jobs}", cache=tmp_path / "cache", jobs=jobs))


@pytest.mark.slow
def test_two_processes_find_what_one_finds(tmp_path):
    one, two = (measured(tmp_path, jobs) for jobs in (1, 2))
    assert [(cell.key, cell.values) for cell in one.cells] == [(cell.key, cell.values) for cell in two.cells]
    assert len(one.cells[0].values) == 3


@pytest.mark.slow
def test_an_error_of_a_piece_is_raised_as_it_was(tmp_path):
    experiment = load_experiment("prism-kshot")
    wrong = replace(experiment.settings, model="fake", seeds=2, tasks=("tickets",), names=("own",), records=(2, 4))
    with pytest.raises(ParameterError, match="one number") as raised:
        run(experiment, wrong, results=tmp_path / "results", cache=tmp_path / "cache", jobs=2)
    assert (raised.value.name, raised.value.value) == ("records", (2, 4))


@pytest.mark.parametrize("jobs", [0, 65])
def test_the_number_of_processes_has_limits(tmp_path, jobs):
    with pytest.raises(ParameterError, match="jobs"):
        measured(tmp_path, jobs)


@pytest.mark.parametrize(
    "error",
    [
        InputError("no"),
        ParameterError("clip", 0, "above 0"),
        RecordError("the field is blank", file="a.jsonl", line=3, field="text"),
        AssignmentError("not here"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_come_through_a_process_boundary_whole(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
