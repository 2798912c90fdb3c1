"""The experiment on known-broken mechanisms: what it writes, and that the page in docs is that of its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sottovoce.audits.broken import known_mechanisms
from sottovoce.audits.exact.coverage import Coverage
from sottovoce.benchmarks.studies import audit_power
from sottovoce.errors import ParameterError

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_the_page_is_that_of_the_numbers():
    report = json.loads((RESULTS / "audit-power.json").read_text("utf-8"))
    assert (RESULTS / "audit-power.md").read_text("utf-8") == audit_power.page(report)


def test_the_numbers_are_those_that_were_promised():
    report = json.loads((RESULTS / "audit-power.json").read_text("utf-8"))
    assert report["settings"] == {"audits": 100, "alpha": 0.01}
    assert {row["name"] for row in report["flags"]} == set(known_mechanisms())
    assert all(row["flagged"] >= 95 and row["false_alarms"] <= 1 for row in report["flags"])
    assert all(row["excess"] is None for row in report["exact"])


@pytest.mark.slow
def test_a_small_run_writes_both_files(tmp_path, monkeypatch, capsys):
    one = {"no-noise": known_mechanisms()["no-noise"]}
    few = [Coverage("poe", "label", None), Coverage("prism", "token", None), Coverage("pbs", "label", "a mixture")]
    monkeypatch.setattr(audit_power, "known_mechanisms", lambda: one)
    monkeypatch.setattr(audit_power, "coverage", lambda: few)
    for name, value in {"CLAIMS": audit_power.CLAIMS[:1], "EPSILONS": (1.0,), "GUESSES": (100,)}.items():
        monkeypatch.setattr(audit_power, name, value)
    out, page = tmp_path / "power.json", tmp_path / "power.md"
    assert audit_power.main(["--audits", "1", "--out", str(out), "--page", str(page)]) == 0
    report = json.loads(out.read_text("utf-8"))
    assert report["flags"][0]["flagged"] == 1
    assert [round(report["one_run"][0][bound], 3) for bound in ("pair", "curve", "independent")] == [
        0.652,
        0.932,
        1.193,
    ]
    assert page.read_text("utf-8") == audit_power.page(report)
    assert "1 of 1 | 0 of 1" in capsys.readouterr().out
    with pytest.raises(ParameterError, match="--audits"):
        audit_power.main(["--audits", "0"])
