"""Kept verdicts of self-tests: used for the very same conditions, and for no others."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from models import tiny  # noqa: E402
from sottovoce.cli import run  # noqa: E402
from sottovoce.models.base import Isolation  # noqa: E402
from sottovoce.models.huggingface import verdicts  # noqa: E402
from sottovoce.models.huggingface.label_scorer import TransformersScorer  # noqa: E402
from sottovoce.models.huggingface.selftest import SelfTestCheck, SelfTestReport  # noqa: E402
from sottovoce.models.lockstep import stepper as stepper_module  # noqa: E402
from sottovoce.models.lockstep.stepper import TransformersStepper  # noqa: E402
from sottovoce.models.stepper import Group, Prompt  # noqa: E402

GROUP = Group(Prompt("Read the text: ", "", " More:"), ())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    return tiny.save(tiny.llama(), tmp_path / "model")


@pytest.fixture
def tested(monkeypatch):
    """What self-tests of writing are run."""
    done = []
    for name in ("run_self_test", "rows_keep_apart"):
        honest = getattr(stepper_module, name)
        monkeypatch.setattr(
            stepper_module, name, lambda *given, name=name, honest=honest: done.append(name) or honest(*given)
        )
    return done


def written(folder, group=GROUP, **given):
    stepper = TransformersStepper(folder, **given)
    stepper.read([group], max_private_tokens=8, tokens=2).close()
    return stepper


def kept(folder):
    stepper = written(folder)
    stepper.keep_verdict()
    return stepper


@pytest.mark.slow
def test_a_kept_verdict_takes_the_place_of_the_same_test(folder, tested):
    before = kept(folder)
    assert tested == ["run_self_test", "rows_keep_apart"]
    tested.clear()
    after = written(folder)
    assert tested == []
    assert after.isolation is before.isolation is Isolation.TESTED
    assert after.self_test() == before.self_test()
    assert list(after.shapes) == list(before.shapes)


@pytest.mark.slow
def test_another_shape_or_another_prefix_is_tested(folder, tested):
    kept(folder)
    tested.clear()
    written(folder, Group(Prompt("Read the note: ", "", " More:"), ()))
    stepper = TransformersStepper(folder)
    stepper.read([GROUP], max_private_tokens=9, tokens=2).close()
    assert tested == ["rows_keep_apart", "rows_keep_apart"]


def _other_weights(folder, monkeypatch):
    model = tiny.llama()
    with torch.no_grad():
        model.lm_head.weight[0, 0] += 1
    tiny.save(model, folder)


def _other_threads(folder, monkeypatch):
    torch.set_num_threads(torch.get_num_threads() + 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        _other_weights,
        pytest.param(_other_threads, marks=pytest.mark.slow),
        lambda _, monkeypatch: monkeypatch.setattr(verdicts, "_source", lambda: "another"),
        pytest.param(
            lambda _, monkeypatch: monkeypatch.setattr(verdicts, "_processor", lambda: ["another"]),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda _, monkeypatch: monkeypatch.setattr(torch.version, "git_version", "0"), marks=pytest.mark.slow
        ),
        pytest.param(
            lambda _, monkeypatch: monkeypatch.setattr(verdicts.transformers, "__version__", "0"),
            marks=pytest.mark.slow,
        ),
        pytest.param(lambda _, monkeypatch: monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2"), marks=pytest.mark.slow),
    ],
)
def test_other_conditions_are_tested_anew(folder, tested, change, monkeypatch):
    kept(folder)
    tested.clear()
    threads = torch.get_num_threads()
    try:
        change(folder, monkeypatch)
        written(folder)
    finally:
        torch.set_num_threads(threads)
    assert tested == ["run_self_test", "rows_keep_apart"]


@pytest.mark.slow
def test_other_arguments_are_tested_anew(folder, tested):
    kept(folder)
    tested.clear()
    written(folder, rows=32)
    assert tested == ["run_self_test", "rows_keep_apart"]


@pytest.mark.slow
def test_a_verdict_that_rows_do_not_keep_apart_is_kept_as_well(folder, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(stepper_module, "rows_keep_apart", lambda *_: False)
        kept(folder)
    stepper = written(folder)
    assert (stepper.layout, stepper.isolation) == ("single", Isolation.BY_CONSTRUCTION)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "damage", [pytest.param("not json", marks=pytest.mark.slow), "{}", '{"conditions": {}, "verdict": {"report": 1}}']
)
def test_a_damaged_verdict_is_none(folder, tested, tmp_path, damage):
    kept(folder)
    [file] = (tmp_path / "home" / "verdicts").iterdir()
    file.write_text(damage)
    tested.clear()
    written(folder)
    assert tested == ["run_self_test", "rows_keep_apart"]


def test_a_folder_that_others_can_write_is_not_read(folder, tested, tmp_path):
    kept(folder)
    (tmp_path / "home" / "verdicts").chmod(0o777)
    tested.clear()
    written(folder)
    assert tested == ["run_self_test", "rows_keep_apart"]


@pytest.mark.slow
def test_files_are_hashed_only_where_something_was_kept(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(verdicts, "model_digest", None)
    assert TransformersScorer(folder).note == ""
    written(folder)


def test_a_scorer_says_that_a_kept_self_test_failed(folder):
    scorer = TransformersScorer(folder)
    passed, failed = (SelfTestCheck("isolation", ok, 0.0, ok, "words") for ok in (True, False))
    scorer.keep_verdict(SelfTestReport((passed,)))
    assert TransformersScorer(folder).note == ""
    scorer.keep_verdict(SelfTestReport((failed,)))
    assert TransformersScorer(folder).note.endswith(f"(isolation); repeat it with: sotto models check hf:{folder}")
    assert TransformersScorer(folder, rows=8).note == ""


@pytest.mark.slow
def test_the_command_says_what_it_does_and_keeps_what_it_finds(folder, capsys, tested):
    words = ["--labels", "a,b", "--tokens", "3", "--inside-tokens", "8"]
    assert run(["models", "check", f"hf:{folder}", *words, "--json"]) == 0
    out = capsys.readouterr()
    told = json.loads(out.out)
    assert told["passed"]
    assert [check["check"] for check in told["checks"]][:2] == [
        "plain forward pass, layout queries", "isolation, layout queries",
    ]  # fmt: skip
    shapes = told["writing"]["shapes"]
    assert all(any(f"{most} of a text" in shape for shape in shapes) for most in (1, 3))
    for line in (
        "comparing with a plain forward pass",
        "putting other experts beside",
        "comparing rows at passes of 64",
    ):
        assert line in out.err
    tested.clear()
    stepper = TransformersStepper(folder)
    groups = [Group(Prompt(f"Here are texts of type {label}.\n", "", "Text:"), ()) for label in "ab"]
    read = stepper.read(groups, max_private_tokens=8, tokens=3)
    for most in (1, 3):
        read.write([0, 1], most).close()
    assert tested == []
    assert stepper.isolation is Isolation.TESTED
