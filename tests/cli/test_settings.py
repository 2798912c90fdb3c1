"""Options from the environment and from ``sotto.toml``: precedence, refusals, and ``sotto init``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sottovoce.cli import run

LABELS = "billing,fraud"
FILE = """
private = "private.jsonl"
labels = ["billing", "fraud"]
model = "fake"
ledger = "t.db"
method = "poe"
epsilon = 0.25
[classify]
option = ["clip=2.0"]
epsilon = 0.5
limit = 1
[ledger-show]
json = true
"""


@pytest.fixture
def desk(tmp_path, capfd, monkeypatch):
    """Types a command in a folder with records and questions; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"note {i}", "label": LABELS.split(",")[i % 2]} for i in range(12)]
    (tmp_path / "private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "new.jsonl").write_text('{"text": "late?"}\n{"text": "lost?"}\n')
    (tmp_path / "sotto.toml").write_text(FILE)

    def typed(*words):
        capfd.readouterr()
        code = run([str(word) for word in words])
        out, err = capfd.readouterr()
        return code, out, err

    typed.folder = tmp_path
    return typed


def price(desk, *words):
    code, out, err = desk("ask", "late?", "--json", *words)
    assert code == 0, err
    return json.loads(out)["epsilon"]


def test_what_is_typed_wins_then_the_environment_then_the_file_then_the_default(desk, monkeypatch):
    assert price(desk) == 0.25
    monkeypatch.setenv("SOTTO_EPSILON", "0.3")
    assert price(desk) == 0.3
    monkeypatch.setenv("SOTTO_ASK_EPSILON", "0.4")
    assert price(desk) == 0.4
    assert price(desk, "--epsilon", "0.5") == price(desk, "--epsilon=0.5") == 0.5
    monkeypatch.delenv("SOTTO_EPSILON")
    monkeypatch.delenv("SOTTO_ASK_EPSILON")
    text = FILE.replace("epsilon = 0.25", "")
    (desk.folder / "sotto.toml").write_text(text)
    assert price(desk) == 1


def test_a_table_is_for_one_command_and_what_was_taken_is_said(desk):
    code, out, err = desk("classify", "--queries", "new.jsonl")
    (row,) = [json.loads(line) for line in out.splitlines()]
    assert (code, row["epsilon"], row["method"]) == (0, 0.5, "poe")
    assert "Settings: " in err
    assert "--epsilon" in err.split(" from sotto.toml")[0]
    code, out, _ = desk("ledger", "show")
    assert (code, len(json.loads(out)["data_sets"])) == (0, 1)
    assert "Settings" not in desk("methods")[2]


def test_another_file_is_named_and_must_be_there(desk, monkeypatch):
    (desk.folder / "other.toml").write_text(FILE.replace("0.25", "0.125"))
    code, out, _ = desk("--config", "other.toml", "ask", "late?", "--json")
    assert (code, json.loads(out)["epsilon"]) == (0, 0.125)
    monkeypatch.setenv("SOTTO_CONFIG", "other.toml")
    assert price(desk) == 0.125
    code, _, err = desk("--config", "absent.toml", "ask", "late?")
    assert (code, "absent.toml cannot be read" in err) == (2, True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            'legder = "t.db"',
            "sotto.toml, key legder: no command has such an option, and none has that name; did you mean",
        ),
        ("[clasify]\nepsilon = 1", "key clasify"),
        ("[clasify]\nepsilon = 1", "did you mean 'classify'?"),
        ("[classify]\nper_exprt = 1", "did you mean 'per-expert'?"),
        ("[classify]\nrelease-id = 'x'", "the command has no such option"),
        (
            "epsilon = -2",
            "--epsilon is '-2'; it must be a number from 1e-06 to 1000. It is set in sotto.toml, key epsilon.",
        ),
        ("[classify]\nlimit = 'x'", "It is set in sotto.toml, key [classify] limit."),
        ("truncate = 'yes'", "sotto.toml, key truncate: the value is 'yes'; it must be true or false."),
        ("private = ['a', 'b']", "sotto.toml, key private: the value is ['a', 'b']; it must be a text or a number."),
        ("private = 2026-01-01", "key private"),
        ('out = "a\\u0000.jsonl"', "sotto.toml, key out: the value holds a NUL character"),
        ('[classify]\noption = ["a\\u0000=1"]', "sotto.toml, key [classify] option: the value holds a NUL character"),
        ("task = 'agnew'", "--task is set in sotto.toml, key task."),
        ("epsilon = ", "sotto.toml is not valid TOML"),
        ("a." * 5000 + "b = 1", "sotto.toml is not valid TOML (more than 200 full stops in a line; break the line)"),
        ("epsilon = " + "[" * 5000, "sotto.toml is not valid TOML (lists or tables inside each other, too deep)"),
        ("private = 'gone.jsonl'", "--private is set in sotto.toml, key private."),
    ],
)
def test_a_bad_key_or_value_names_the_file_and_the_key_and_charges_nothing(desk, text, told):
    known = "" if text.startswith(("private", "task")) else "private = 'private.jsonl'\n"
    labels = "" if text.startswith("task") else "labels = 'billing,fraud'\n"
    (desk.folder / "sotto.toml").write_text(f"model = 'fake'\nledger = 't.db'\n{known or ''}{labels}{text}\n")
    more = ("--private", "private.jsonl") if text.startswith("task") else ()
    code, out, err = desk("classify", "--queries", "new.jsonl", *more)
    assert (code, out) == (2, "")
    assert told in err
    assert not (desk.folder / "t.db").exists()


@pytest.mark.slow
@pytest.mark.parametrize("colours", ["", "1"])
def test_help_shows_values_of_the_file_and_obeys_none(desk, monkeypatch, colours):
    monkeypatch.setenv("FORCE_COLOR", colours)
    hostile = "a\\u001b]0;owned\\u0007\\u001b[2J\\u001b[8m\\u202ee"
    (desk.folder / "sotto.toml").write_text(f'private = "{hostile}"\n[classify]\noption = ["{hostile}", "clip=2.0"]\n')
    for command in ("classify", "ask"):
        words = [sys.executable, "-m", "sottovoce", command, "--help"]
        shown = subprocess.run(words, capture_output=True, text=True, cwd=desk.folder, check=True).stdout
        plain = re.sub("\x1b\\[[0-9;]*m", "", shown)
        assert "\x1b[8m" not in shown
        assert all(letter.isprintable() or letter == "\n" for letter in plain)
        assert r"a\x1b]0;owned" in plain
    code, _, err = desk("ask", "late?", "--labels", LABELS, "--model", "fake")
    assert (code, "there is no such file" in err) == (2, True)


def test_help_shows_no_password_of_a_ledger(desk, monkeypatch):
    address = "postgresql://ann:hunter2@db.example/tickets?password=hunter2"
    (desk.folder / "sotto.toml").write_text(f'ledger = "{address}"\n')
    for command in (["classify"], ["ledger", "show"]):
        code, out, _ = desk(*command, "--help")
        assert (code, "hunter2" in out, "postgresql://ann@db.example" in "".join(out.split())) == (0, False, True)
    (desk.folder / "sotto.toml").write_text(f'ledger = ["{address}"]\n')
    code, _, err = desk("ledger", "show")
    assert (code, "hunter2" in err, "key ledger: the value is a list" in err) == (2, False, True)
    (desk.folder / "sotto.toml").write_text("")
    monkeypatch.setenv("SOTTO_LEDGER", "postgresql://ann:p@hunter2@db.example/tickets")
    code, out, _ = desk("ledger", "show", "--help")
    assert (code, "hunter2" in out, "postgresql://..." in out) == (0, False, True)


def test_a_bad_variable_is_named(desk, monkeypatch):
    monkeypatch.setenv("SOTTO_METHOD", "peo")
    code, _, err = desk("ask", "late?")
    assert (code, "It is set by the environment variable SOTTO_METHOD." in err) == (2, True)
    monkeypatch.delenv("SOTTO_METHOD")
    monkeypatch.setenv("SOTTO_LEGDER", "x.db")
    code, _, err = desk("ask", "late?")
    assert (code, "SOTTO_LEGDER; did you mean 'SOTTO_LEDGER'?" in err) == (2, True)


def test_what_is_typed_leaves_out_what_it_excludes(desk):
    code, _, err = desk("ask", "late?", "--task", "tickets")
    assert (code, "--labels" in err) == (0, False), err
    assert desk("fit", "--method", "class-means", "--epsilon", "4", "--ledger", "f.db", "--out", "f.sotto")[0] == 3
    (desk.folder / "rows.jsonl").write_text('{"text": "a", "label": "fraud"}\n{"text": "b", "label": "billing"}\n')
    code, out, err = desk("classify", "--demonstrations", "rows.jsonl", "--queries", "new.jsonl", "-o", "calibrate=no")
    assert (code, json.loads(out)["method"]) == (0, "demonstrations"), err


@pytest.mark.slow
def test_a_fitted_file_is_answered_from_beside_settings_for_records(desk):
    assert desk("fit", "--method", "class-means", "--epsilon", "4", "--out", "f.sotto")[0] == 0
    code, out, err = desk("ask", "late?", "--fitted", "f.sotto")
    assert (code, out.strip() in LABELS.split(",")) == (0, True), err


def granted(desk, *words):
    code, out, err = desk("ledger", "grant", "t.db", "--private", "private.jsonl", *words, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("table", ["", "[ledger-grant]\n"])
def test_an_owner_types_a_grant_and_no_setting_changes_it(desk, monkeypatch, table):
    settings = desk.folder / "sotto.toml"
    settings.unlink()
    granted(desk, "--budget", "4,1e-6")
    granted(desk, "--caller", "ann", "--budget", "1,1e-6")
    settings.write_text(f'{table}caller = "ann"\nbudget = "8,1e-6"\n')
    if table:
        code, _, err = desk("ledger", "grant", "t.db", "--private", "private.jsonl", "--require-caller")
        assert (code, "the command has no such option" in err) == (2, True)
        return
    monkeypatch.setenv("SOTTO_CALLER", "bob")
    assert granted(desk, "--require-caller")["caller_required"]
    raised = granted(desk, "--budget", "6,1e-6")["data_set"]
    assert (
        [cap["epsilon"] for cap in json.loads(desk("ledger", "show", "t.db", "--json")[1])["data_sets"][0]["callers"]],
        raised["budget"]["epsilon"],
    ) == ([1.0], 6.0)
    (desk.folder / "more.jsonl").write_text(
        (desk.folder / "private.jsonl").read_text() + '{"text": "n", "label": "fraud"}\n'
    )
    code, out, err = desk("ledger", "grant", "t.db", "--private", "more.jsonl", "--continues", "data", "--json")
    assert (code, json.loads(out or "{}").get("data_set", {}).get("budget", {}).get("epsilon")) == (0, 6.0), err


def test_a_ledger_of_settings_is_not_the_one_that_an_owner_raises(desk, monkeypatch):
    settings = desk.folder / "sotto.toml"
    settings.unlink()
    granted(desk, "--budget", "2")
    settings.write_text('ledger = "fresh.db"\n')
    monkeypatch.setenv("SOTTO_LEDGER", "other.db")
    code, out, err = desk("ledger", "grant", "--private", "private.jsonl", "--budget", "3", "--json")
    assert (code, Path(json.loads(out)["ledger"]).name) == (0, "t.db"), err
    assert [file.name for file in desk.folder.glob("*.db")] == ["t.db"]
    for table in ("ledger-grant", "verify-certificate", "report"):
        settings.write_text(f'[{table}]\nledger = "fresh.db"\n')
        code, _, err = desk("methods")
        assert (code, f"[{table}] ledger: the command has no such option" in err) == (2, True)


def test_records_that_are_typed_name_the_ledger_that_is_looked_at(desk):
    other = [{"text": f"other {i}", "label": "billing"} for i in range(12)]
    (desk.folder / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in other))
    granted(desk, "--budget", "4,1e-6")
    code, _, err = desk("ledger", "grant", "o.db", "--private", "other.jsonl", "--budget", "2,1e-6")
    assert code == 0, err
    for command in ("show", "verify"):
        code, out, err = desk("ledger", command, "--private", "other.jsonl", "--json")
        assert (code, Path(json.loads(out)["ledger"]).name) == (0, "o.db"), err
        assert Path(json.loads(desk("ledger", command, "--json")[1])["ledger"]).name == "t.db"
    assert desk("ledger", "export", "--private", "other.jsonl", "--out", "e.jsonl")[0] == 0
    assert '"2.0"' in (text := (desk.folder / "e.jsonl").read_text()) or "2.0" in text


def test_a_label_with_a_comma_and_an_open_quotation_mark_are_refused(desk, monkeypatch):
    (desk.folder / "sotto.toml").write_text('labels = ["cards, lost", "fraud"]\nmodel = "fake"\n')
    code, out, err = desk("ask", "late?", "--method", "zero-shot")
    assert (code, out, "sotto.toml, key labels: a label holds a comma" in err) == (2, "", True)
    (desk.folder / "sotto.toml").unlink()
    monkeypatch.setenv("SOTTO_OPTION", "it's")
    code, _, err = desk("ask", "late?", "--labels", LABELS, "--method", "zero-shot", "--model", "fake")
    assert (code, "The environment variable SOTTO_OPTION cannot be divided" in err) == (2, True)


def test_init_writes_any_file_name_that_settings_can_hold(desk):
    for number, name in enumerate(("mails \N{GRINNING FACE}.csv", 'a"b\\c.csv', "a\x7fb.csv", "a\tb.csv")):
        (desk.folder / name).write_text("body,team\nhello,a\n")
        code, _, err = desk("init", name, "--out", f"{number}.toml")
        assert code == 0, err
        assert tomllib.loads((desk.folder / f"{number}.toml").read_text("utf-8"))["private"] == name


def test_a_switch_and_a_repeated_option_come_from_the_environment(desk, monkeypatch):
    monkeypatch.setenv("SOTTO_JSON", "1")
    monkeypatch.setenv("SOTTO_ASK_OPTION", "clip=1.5 prior_weight=0")
    code, out, err = desk("ask", "late?")
    assert (code, json.loads(out)["method"]) == (0, "poe"), err
    monkeypatch.setenv("SOTTO_ASK_OPTION", "clip=nothing")
    code, _, err = desk("ask", "late?")
    assert (code, "-o clip is 'nothing'" in err) == (2, True)


def test_init_writes_columns_and_no_rows_values(desk):
    (desk.folder / "mails.csv").write_text("body,team,customer\nI was charged twice,secret_label,C1\n")
    (desk.folder / "sotto.toml").unlink()
    code, out, err = desk("init", "mails.csv")
    assert (code, out) == (0, "")
    text = (desk.folder / "sotto.toml").read_text()
    assert not [cell for cell in ("charged", "secret_label", "C1") if cell in text + err]
    found = tomllib.loads(text)
    assert {key: found[key] for key in ("private", "text-column", "label-column", "unit")} == {
        "private": "mails.csv", "text-column": "body", "label-column": "team", "unit": "customer",
    }  # fmt: skip
    code, _, err = desk("init", "mails.csv")
    assert (code, "is not overwritten" in err) == (2, True)
    # Every key that it names, commented out or not, is an option.
    live = "".join(
        line.removeprefix("# ") + "\n" for line in text.splitlines() if " = " in line or line.startswith("[")
    )
    (desk.folder / "sotto.toml").write_text(live)
    assert "key" not in desk("methods")[2]


def test_init_does_not_write_a_first_line_that_is_no_header(desk):
    (desk.folder / "mails.csv").write_text("I was charged twice,fraud\nmore,billing\n")
    code, out, _ = desk("init", "mails.csv", "--out", "new.toml", "--json")
    assert (code, json.loads(out)) == (0, {"out": "new.toml", "columns": []})
    assert "charged" not in (desk.folder / "new.toml").read_text()


def test_the_example_of_the_documentation_names_options_that_exist(desk):
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")
    example = page.split("```toml\n")[1].split("```")[0]
    (desk.folder / "sotto.toml").write_text(example)
    assert desk("methods")[0] == 0
    (desk.folder / "sotto.toml").write_text(example.replace("text-column", "txt-column"))
    assert desk("methods")[0] == 2
