"""The speed comparison runs, measures both sides in turn on one core, and writes what it printed."""

from __future__ import annotations

import json
import os

import pytest

from sottovoce.benchmarks.speed import noise
from sottovoce.errors import InputError, ParameterError

pytest.importorskip("opendp", reason="opendp is a development requirement")


@pytest.mark.slow
def test_it_prints_a_table_and_writes_every_row(tmp_path, capsys):
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    out = tmp_path / "noise.json"
    assert noise.main(["--repeats", "2", "--candidates", "4", "100", "--out", str(out)]) == 0
    report, printed = json.loads(out.read_text()), capsys.readouterr().out
    assert report["machine"]["cores_used"] == 1
    assert {"processor", "opendp"} <= report["machine"].keys()
    compared = [row for row in report["rows"] if "opendp" in row]
    assert len(compared) == 2 * 2 * 2 + 4
    for row in compared:
        for side in ("ours", "opendp"):
            assert 0 < row[side]["least"] <= row[side]["median"] <= row[side]["most"]
    assert printed.count("\n") == len(report["rows"]) + 2
    assert before is None or os.sched_getaffinity(0) == before


@pytest.mark.parametrize("bad", [["--repeats", "1"], ["--candidates", "0"]])
def test_a_run_without_a_spread_or_candidates_is_refused(bad):
    with pytest.raises(ParameterError, match="2 or more"):
        noise.main(bad)


@pytest.mark.parametrize("place", ["there", "there/", "new/", "missing/noise.json"])
def test_a_folder_for_its_file_is_refused_before_anything_is_measured(tmp_path, monkeypatch, place):
    monkeypatch.setattr(noise, "_OpenDP", None)
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        noise.main(["--out", f"{tmp_path}/{place}"])
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
