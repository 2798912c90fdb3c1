"""``sotto account`` as it is typed: the specification's numbers in its JSON, and what it says to wrong input."""

from __future__ import annotations

import json
import math

import pytest

from sottovoce.cli import run


def call(capsys, *arguments):
    code = run(["account", *(str(a) for a in arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def figures(capsys, *arguments):
    code, out, err = call(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    (line,) = out.splitlines()
    return json.loads(line)


# Specification 3: eta, T, basic, advanced, zCDP short form, zCDP (by eta^2/8), RDP, optimal; delta 1e-5.
COMPOSITION = [
    (0.1, 100, 10, 5.850, 2.524, 2.166, 2.152, 2.050),
    (0.5, 10, 5, 10.83, 4.106, 3.617, 3.336, 3.350),
    (0.3, 50, 15, 15.43, 5.652, 5.060, 4.976, 4.808),
    (0.05, 400, 20, 5.824, 2.524, 2.166, 2.162, 2.105),
]


@pytest.mark.cases(1)
@pytest.mark.parametrize(("eta", "steps", "basic", "advanced", "short", "zcdp", "renyi", "optimal"), COMPOSITION)
def test_the_composition_table(capsys, eta, steps, basic, advanced, short, zcdp, renyi, optimal):
    told = figures(capsys, "exponential", "--eta", eta, "--steps", steps, "--delta", "1e-5")
    assert (told["delta"], told["steps"], told["paper_epsilon"]) == (1e-5, steps, None)
    for side in (told["add-remove"], told["replace-one"]):
        assert side["eta"] == eta
        assert side["bounds"]["pure"] == pytest.approx(basic)
        assert side["bounds"]["RDP"] == pytest.approx(renyi, abs=1e-3)
        assert side["textbook"]["zCDP by squares"] == pytest.approx(zcdp, abs=1e-3)
        assert zcdp - 0.01 <= side["bounds"]["zCDP"] <= zcdp + 1e-3
        assert side["textbook"]["advanced"] == pytest.approx(advanced, rel=1e-3)
        assert side["textbook"]["zCDP short form"] == pytest.approx(short, abs=1e-3)
        # The table's recursion has a coarser grid; an exact bound is not more than a few percent below it.
        assert 0.95 * optimal <= side["bounds"]["optimal"] <= optimal * (1 + 1e-3)
        assert side["epsilon"] == min(side["bounds"].values())


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("batch", "temperature", "eta", "stated", "ar", "ro"),
    [
        (255, 1.02, 0.0384468, 1.8449, 0.7569, 1.6107),
        (380, 1.02, 0.025800, 1.2380, 0.4916, 1.0417),
        (15, 1.02, 0.653595, 31.363, 19.543, 49.239),
        (255, 0.131, 0.299364, 14.365, 7.4955, 17.475),
        (15, 0.131, 5.08906, 244.2, 336.497, 816.273),
    ],
)
def test_prism(capsys, batch, temperature, eta, stated, ar, ro):
    told = figures(
        capsys, "prism", "--clip", 10, "--batch", batch, "--tokens", 100, "--temperature", temperature,
        "--delta", "1e-5",
    )  # fmt: skip
    assert told["paper_epsilon"] == pytest.approx(stated, rel=1e-4)
    assert told["add-remove"]["eta"] == pytest.approx(eta, rel=1e-4)
    assert told["replace-one"]["eta"] == pytest.approx(2 * eta, rel=1e-4)
    assert told["add-remove"]["bounds"]["RDP"] == pytest.approx(ar, rel=2e-4)
    assert told["replace-one"]["bounds"]["RDP"] == pytest.approx(ro, rel=2e-4)


def test_poe(capsys):
    told = figures(capsys, "poe", "--clip", 3, "--rate", 1 / 3)
    assert (told["add-remove"]["eta"], told["replace-one"]["eta"]) == pytest.approx((1, 2))
    assert told["paper_epsilon"] == pytest.approx(1)
    assert any("NOT a valid bound under replace-one" in line for line in told["explanation"])
    told = figures(capsys, "poe", "--clip", 1, "--rate", 0.28606, "--tokens", 8, "--queries", 4)
    assert (told["steps"], told["add-remove"]["bounds"]["RDP"]) == (32, pytest.approx(4, abs=2e-3))
    grouped = figures(capsys, "poe", "--clip", 1, "--rate", 0.28606, "--tokens", 32, "--units-per-expert", 4)
    assert grouped["add-remove"]["bounds"] == grouped["replace-one"]["bounds"] == told["replace-one"]["bounds"]
    assert grouped["units_per_expert"] == 4


@pytest.mark.cases(5)
@pytest.mark.parametrize(
    ("arguments", "key", "values"),
    [
        (("rnm", "--noise", "gaussian", "--sigma", 2, "--sampler", "continuous"), "mu", (0.5, math.sqrt(0.5))),
        (("rnm", "--noise", "gaussian", "--sigma", 2), "rho", (0.125, 0.25)),
        (("rnm", "--noise", "permute_and_flip", "--rate", 0.5), "pure_epsilon", (0.5, 1)),
        (("rnm", "--noise", "laplace", "--scale", 2), "pure_epsilon", (0.5, 1)),
        (("rnm", "--rate", 0.5), "eta", (0.5, 1)),
        (("pbs", "--sampling-probability", 0.1, "--sigma", 2, "--subsamples", 10), "mu", (math.sqrt(0.5),) * 2),
        (("esa", "--experts", 100, "--sigma", 0.02, "--sampler", "continuous"), "mu", (0.5, 1)),
        (("ksa", "--release", "joint", "--rate", 0.25), "eta", (0.5, 1)),
        (("ksa", "--release", "top-k", "--rate", 0.25, "--keywords", 4), "eta", (0.25, 0.5)),
        (("ksa", "--release", "ptr", "--sigma", 2, "--failure-delta", "1e-7"), "failure_delta", (1e-7, 1e-7)),
        (("ksa", "--release", "histogram", "--sigma", 10, "--words", 50), "rho", (0.25, 0.5)),
        (("dpm", "--kappa", 0.01, "--levels", 2, "--sigma", 9, "--count-sigma", 9), "eta", (0.122, 0.172)),
        (("tang", "--experts", 10, "--sigma", 0.1, "--sampler", "continuous"), "mu", (math.sqrt(0.99), math.sqrt(2))),
        (("tang", "--experts", 10, "--noise", "exponential", "--scale", 0.2), "pure_epsilon", (0.5, 1)),
        (("tang", "--experts", 10, "--noise", "em", "--rate", 5), "eta", (0.5, 1)),
        (("amin", "--batch", 100, "--temperature", 2, "--threshold-scale", 0.2), "eta", (0.1, 0.2)),
        (("invisible-ink", "--clip", 1, "--batch", 8, "--temperature", 1), "eta", (0.25, 0.5)),
    ],
)
def test_every_method_speaks_json(capsys, arguments, key, values):
    told = figures(capsys, *arguments)
    for side, value in zip((told["add-remove"], told["replace-one"]), values, strict=True):
        assert side[key] == pytest.approx(value)
        assert (side["eta"] is None) == (key != "eta")
        assert side["epsilon"] == min(side["bounds"].values()) > 0
        assert all(math.isfinite(value) for value in side["bounds"].values())


def test_prediction_by_subsampling_o15(capsys):
    told = figures(capsys, "pbs", "--sampling-probability", 0.1, "--sigma", 2, "--subsamples", 100, "--delta", "1e-5")
    assert told["add-remove"]["epsilon"] == pytest.approx(3.874, abs=5e-3)
    assert told["replace-one"]["epsilon"] == pytest.approx(4.270, abs=5e-3)
    assert told["paper_epsilon"] == pytest.approx(2.337, abs=5e-3)


def test_a_price_sets_the_noise(capsys):
    told = figures(
        capsys, "esa", "--experts", 100, "--epsilon", 3, "--delta", "1e-5", "--sampler", "continuous",
        "--adjacency", "replace-one",
    )  # fmt: skip
    assert told["parameters"]["sigma"] == pytest.approx(0.02781, abs=1e-5)
    assert told["replace-one"]["epsilon"] == pytest.approx(3)


def test_people_read_it_on_stdout(capsys):
    code, out, err = call(capsys, "prism", "--batch", 255, "--temperature", 1.02, "--tokens", 100, "--delta", "1e-5")
    assert (code, err) == (0, "")
    for words in (
        "softmax((mean of clipped private logits + clipped public logits) / (2 temperature))",
        "bounded range",
        "drop: one unit an expert",
        "swap: one unit an expert",
        "sensitivity: range of the change of the mean of clipped logits <= 0.0784314",
        "100 x BoundedRange(eta=0.0384",
        "The paper's figure: epsilon 1.8449",
        "over-reports under replace-one",
        "add-remove",
        "RDP",
    ):
        assert words in out
    code, out, _ = call(capsys, "poe", "--rate", 0.1, "-g", 3, "--assignment", "chunks")
    assert code == 0
    assert "add-remove: no price. No guarantee" in out


@pytest.fixture
def plan(tmp_path):
    def write(events):
        path = tmp_path / "plan.json"
        path.write_text(events if isinstance(events, str) else json.dumps(events), "utf-8")
        return path

    return write


def test_events_from_a_file(capsys, plan):
    inner = {"event": "BoundedRange", "eta": 0.1}
    path = plan([{**inner, "count": 60}, {"event": "SelfComposedDpEvent", "inner": inner, "count": 40}])
    told = figures(capsys, "events", "--file", path, "--adjacency", "add-remove", "--delta", "1e-5")
    assert told["add-remove"]["bounds"]["RDP"] == pytest.approx(2.152, abs=1e-3)
    assert told["replace-one"]["epsilon"] is None
    assert "add-remove" in told["replace-one"]["refused"]
    code, out, _ = call(capsys, "events", "--file", path)
    assert code == 0
    assert "replace-one: as worked out in the events" in out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "JSON"),
        ("[" * 100_000, "JSON"),
        ("{}", "JSON list"),
        ('[{"event": "BoundedRange", "eta": -1}]', "event 1: eta is -1"),
        ('[{"event": "BoundedRange", "eta": NaN}]', "eta is nan"),
        ('[{"event": {"a": 1}}]', "event 1"),
        ('[{"event": "BoundedRange", "eta": 1, "count": 1e400}]', "count is inf"),
    ],
)
def test_a_file_of_something_else_is_refused(capsys, plan, text, told):
    code, out, err = call(capsys, "events", "--file", plan(text), "--json")
    assert (code, out) == (2, "")
    assert "ParameterError" in err
    assert told in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nope",), "METHOD is 'nope'; it must be one of amin, augment, choice, class-means, coreset"),
        (("prism", "--batch", 0, "--temperature", 1), "--batch is '0'; it must be a whole number from 1"),
        (("prism", "--temperature", 1), "--experts is missing; it must be given"),
        (("prism", "--batch", 5, "--temperature", "inf"), "--temperature is 'inf'"),
        (("prism", "--batch", 5, "--temperature", "warm"), "--temperature is 'warm'"),
        (("prism", "--batch", 5, "--temperature", 1, "--delta", 1), "--delta is '1'; it must be 0, or from 1e-15"),
        (("prism", "--batch", 5, "--temperature", 1, "--experts", 3), "--experts is '3'; it must be absent: prism has"),
        (("prism", "--batch", 5, "--temperature", 1, "--tokens", 2.5), "--tokens is '2.5'"),
        (("prism", "--batch", 5), "--temperature is missing"),
        (("poe", "--rate", 1, "--epsilon", 1), "--epsilon is 1.0; it must be absent"),
        (("poe", "--rate", -1), "--rate is '-1'"),
        (("poe", "--rate", 1, "--units-per-expert", 0), "--units-per-expert is '0'"),
        (("poe", "--rate", 1, "--queries", "many"), "--queries is 'many'"),
        (("poe", "--rate", 1, "--file", "x.json"), "--file is 'x.json'; it must be absent"),
        (("poe", "--rate", 1, "--adjacency", "both"), "--adjacency is 'both'"),
        (("poe", "--rate", 1, "--steps", 3), "--steps is '3'"),
        (("rnm", "--noise", "white", "--rate", 1), "--noise is 'white'"),
        (("dpm", "--kappa", 1, "--levels", 1, "--sigma", 1), "--count-sigma is missing"),
        (("events",), "--file is missing"),
        (("events", "--file", "nowhere.json"), "--file is 'nowhere.json'"),
        (("events", "--file", "x.json", "--clip", 3), "--clip is '3'; it must be absent"),
        (("events", "--file", "x.json", "--queries", 3), "--queries is 3; it must be absent"),
        (("poe", "--rate", 1, "-g", 3, "--assignment", "retrieved-groups"), "No guarantee is known"),
    ],
)
def test_wrong_options_end_with_2_and_one_clear_line(capsys, arguments, told):
    code, out, err = call(capsys, *arguments, "--json")
    assert (code, out) == (2, "")
    assert told in err
    assert "Internal" not in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("method", ["poe", "prism"])
def test_an_option_may_be_called_as_an_argument_of_python_is(capsys, method):
    assert run(["account", method, "-o", "name=x"]) == 2
    assert "ParameterError: -o name is 'x'; it must be absent" in capsys.readouterr().err


def test_an_option_that_nobody_has_is_refused(capsys):
    code, out, err = call(capsys, "poe", "--rate", 1, "--loudness", 3)
    assert (code, out) == (2, "")
    assert "--loudness" in err
