"""The benchmark of size: it runs at few rows, and its report says what was measured."""

import json

import pytest

from sottovoce.benchmarks.speed import fit_size
from sottovoce.errors import ModelError, ParameterError


@pytest.mark.slow
def test_memory_is_measured_in_every_way(tmp_path, capsys):
    out = tmp_path / "size.json"
    assert fit_size.main(["--rows", "300", "--speed-rows", "0", "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    assert [row["way"] for row in report["memory"]] == list(fit_size.WAYS)
    assert all(row["rows"] == 300 and row["peak_mib"] > 20 for row in report["memory"])
    assert report["speed"] == []
    assert "vectors kept" in capsys.readouterr().out


def test_rows_are_the_same_each_time(tmp_path):
    for name in "ab":
        fit_size.write(str(tmp_path / name), 150)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_engines_whose_sums_differ_make_no_report(monkeypatch):
    monkeypatch.setattr(fit_size, "_speeds", lambda rows: [{"sums": "a"}, {"sums": "b"}])
    with pytest.raises(ModelError, match="differ"):
        fit_size.main(["--rows"])


@pytest.mark.parametrize("words", [["--rows", "10"], ["--speed-rows", "-1"]])
def test_too_few_rows_are_refused(words):
    with pytest.raises(ParameterError, match="rows"):
        fit_size.main(words)
