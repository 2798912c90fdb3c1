"""The benchmark of start-up: every command runs, and its report says what was measured."""

import json

import pytest

from sottovoce.benchmarks.speed import startup
from sottovoce.errors import ModelError, ParameterError


@pytest.mark.slow
def test_every_command_and_the_encoder_are_measured(tmp_path, capsys):
    out = tmp_path / "startup.json"
    assert startup.main(["--repeats", "1", "--texts", "8", "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    assert list(report["commands"]) == list(startup.commands("ledger.db"))
    assert all(0.01 < row["processor_seconds"] < 60 for row in report["commands"].values())
    assert report["commands"]["second ask"]["most"] < report["commands"]["first ask"]["least"]
    assert report["encoder"]["texts_a_second"] > 1
    assert "texts a processor second" in capsys.readouterr().out


@pytest.mark.slow
def test_a_command_is_measured_by_the_processor(monkeypatch, tmp_path):
    monkeypatch.setattr(startup, "commands", lambda ledger: {"help": ["--help"]})
    row = startup._commands(tmp_path, 2)["help"]
    assert 0.01 < row["least"] <= row["processor_seconds"] <= row["most"]


@pytest.mark.slow
def test_a_command_that_fails_makes_no_figure(tmp_path):
    with pytest.raises(ModelError, match="'plan' ended with exit code 2"):
        startup._run(tmp_path, ["plan", "--no-such-option"])


@pytest.mark.parametrize("words", [["--repeats", "0"], ["--texts", "0"], ["--texts", "441"]])
def test_numbers_out_of_range_are_refused(words):
    with pytest.raises(ParameterError, match=words[0]):
        startup.main(words)
