"""Options of a method as they are typed, on every command that takes a method."""

from __future__ import annotations

import json

import pytest

from sottovoce.cli import run
from sottovoce.cli.options import MethodOptions, Setup
from sottovoce.errors import ParameterError
from sottovoce.methods.base import read_method_options
from sottovoce.methods.decoding.decoder import read_decoder_options


@pytest.fixture
def desk(tmp_path, capsys, monkeypatch):
    """A folder with records and questions, and the commands run in it."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"note {i}", "label": ("billing", "fraud")[i % 2]} for i in range(24)]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (tmp_path / "new.jsonl").write_text('{"text": "charged twice"}\n', "utf-8")

    def call(*words):
        code = run([*words])
        out, err = capsys.readouterr()
        return code, out, err

    return call


READS = ("--private", "notes.jsonl", "--labels", "billing,fraud", "--model", "fake", "--ledger", "notes.db")
COMMANDS = {
    "classify": ("classify", "--queries", "new.jsonl", *READS),
    "ask": ("ask", "charged twice", *READS),
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_and_its_shorthand_are_one(desk, command):
    for words in (["-o", "clip=1.5"], ["--clip", "1.5"], ["--option", "clip=1.5", "-o", "prior-weight=2"]):
        code, out, _ = desk(*COMMANDS[command], *words)
        assert code == 0
        assert out


@pytest.mark.cases(12)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--method", "rnm", "--clip", "2"), "--clip is 2.0; it must be left out: the method 'rnm' has no such"),
        (("--method", "rnm", "-o", "clip=2"), "-o clip is '2'; it must be left out: the method 'rnm' has no such"),
        (("--method", "rnm", "--clip", "2"), "it has noise"),
        (("--method", "rnm", "--clip", "2"), "--method poe, prior-poe"),
        (("-o", "clp=2"), "did you mean 'clip'?"),
        (("-o", "clip=much"), "-o clip is 'much'; it must be a number from 0.001 to 1000"),
        (("-o", "clip=nan"), "-o clip is 'nan'"),
        (("-o", "clip=0"), "-o clip is 0.0; it must be from 0.001"),
        (("--clip", "0"), "--clip is 0.0; it must be from 0.001"),
        (("-o", "clip"), "--option is 'clip'; it must be NAME=VALUE"),
        (("-o", "=2"), "--option is '=2'; it must be NAME=VALUE"),
        (("--clip", "2", "-o", "clip=3"), "-o clip is '3'; it must be given once: --clip sets the same option"),
        (("--method", "pbs", "-o", "subsamples=2.5"), "-o subsamples is '2.5'; it must be a whole number"),
        (("--method", "pos"), "--method is 'pos'; it must be one of"),
        (("--method", "rnm", "-o", "noise=laplace"), "-o noise is 'laplace'; it must be one of exponential"),
        (("--prior-weight", "101"), "--prior-weight is 101.0; it must be from 0 to 100"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named_as_it_was_typed_and_nothing_is_charged(desk, tmp_path, command, words, told):
    code, out, err = desk(*COMMANDS[command], *words)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "notes.db").exists()


DRY = (
    "synthesize", "--labels", "billing,fraud", "--out", "x.jsonl", "--dry-run", "--experts", "40", "--json",
)  # fmt: skip


def test_a_decoder_takes_every_option_of_its_own(desk):
    code, out, _ = desk(*DRY, "--method", "invisible-ink", "-o", "centre=none", "-o", "top_k=none", "-o", "clip=0.1")
    assert code == 0
    parameters = json.loads(out)["plans"][0]["parameters"]
    assert (parameters["centre"], parameters["top_k"], parameters["clip"]) == ("none", None, 0.1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--method", "prism", "-o", "centre=none"), "-o centre is 'none'; it must be left out: the method 'prism'"),
        (
            ("--method", "prism", "--noise", "em"),
            "--noise is 'em'; it must be left out: the method 'prism' has no such",
        ),
        (("--method", "prism", "--sampling-probability", "0.1"), "--sampling-probability is"),
        (("--method", "prism", "-o", "clip=-1"), "-o clip is '-1'; it must be a number from"),
        (("--method", "tang", "--sampling-probability", "0.1", "-o", "fresh=batch"), "given once"),
        (("--method", "poe"), "--method is 'poe'; it must be one of amin"),
    ],
)
def test_a_wrong_option_of_a_decoder_is_named_as_it_was_typed(desk, words, told):
    code, out, err = desk(*DRY, *words)
    assert (code, out) == (2, "")
    assert told in err


def test_the_methods_are_listed_with_their_options(desk):
    code, out, err = desk("methods")
    assert (code, err) == (0, "")
    for words in ("clip=2.3", "prior_weight=0.0", "noise='exponential' (one of", "centre='median'", "release='joint'"):
        assert words in out
    code, out, err = desk("methods", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert {"methods", "decoders", "cost_models", "mechanisms"} <= set(told)
    assert [row["method"] for row in told["decoders"]] == ["amin", "invisible-ink", "poe-decoding", "prism", "tang"]
    poe = next(row for row in told["methods"] if row["method"] == "poe")
    assert poe["limits"]["clip"] == "a number from 0.001 to 1000"


def test_options_are_read_by_the_types_of_the_fields():
    assert read_method_options("pbs", {"subsamples": "5", "sampling_probability": "0.1"}) == {
        "subsamples": 5, "sampling_probability": 0.1,
    }  # fmt: skip
    assert read_method_options("demonstrations", {"calibrate": "true"}) == {"calibrate": True}
    assert read_decoder_options("prism", {"top_k": "None"}) == {"top_k": None}
    with pytest.raises(ParameterError, match="true or false"):
        read_method_options("demonstrations", {"calibrate": "maybe"})


def test_a_setup_is_filled_by_name():
    setup = Setup.of(
        {"private": "a", "adjacency": "add-remove", "clip": 0.0, "noise": None, "calibrate": False, "x": 1}
    )
    assert (setup.private, setup.adjacency, setup.method) == ("a", "add-remove", "auto")
    assert setup.shorthands == {"clip": 0.0}
    with pytest.raises(TypeError):
        Setup("a")
    assert MethodOptions(["top-k=5"]).values == {"top_k": "5"}
