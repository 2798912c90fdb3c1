"""The privacy facts: a fixed order, every figure from the certificate, and an entry that the registry takes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import sottovoce
from fits import promising_nothing
from sottovoce.audits.report import could_not_run
from sottovoce.cli import run
from sottovoce.errors import InputError, ModelError, ParameterError
from sottovoce.explain.facts.facts import ABOUT, facts_of, read_about, read_audit
from sottovoce.explain.facts.hazards import HAZARDS
from sottovoce.explain.facts.page import REQUIRED, html_of, registry_entry
from sottovoce.fitting.fit import fit
from sottovoce.fitting.fitted import Fitted
from sottovoce.intervals import proportion
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Task

ORDER = [
    "The guarantee", "What delta means", "Odds", "Who is protected", "What is not protected", "Who must be trusted",
    "Other releases of the same data", "What was tuned on what", "What the answers are worth", "Audit",
    "Model and hashes", "Hazards",
]  # fmt: skip
SAID = {name: f"the {name}" for name in REQUIRED}

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def closed(required=(), **properties):
    return {
        "type": "object", "additionalProperties": False, "required": list(required), "properties": properties,
    }  # fmt: skip


def one_of(*words):
    return {"type": "string", "enum": list(words)}


REGISTRY = closed(
    ["url_slug", "status", "tier", "deployment"],
    url_slug=TEXT,
    status=one_of("Converted", "Draft", "Pending", "Changes Required", "Approved"),
    tier={"enum": [1, 2, 3]},
    deployment=closed(
        ["basic"],
        basic=closed(
            ["name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region",
             "publication_date"],
            name=TEXT, description=TEXT, intended_use=TEXT, data_product_region=TEXT,
            data_curators={"type": "array", "items": TEXT, "minItems": 1},
            data_product_type=one_of("Summary statistics", "Machine learning model", "Dataset", "Synthetic data",
                                     "Interactive API", "SQL queries"),
            publication_date={"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
            data_product_sector=TEXT,
        ),
        dp_variant=closed(
            variant_name=one_of("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
            data_domain=TEXT, unprotected_quantities=TEXT,
        ),
        privacy_loss=closed(
            privacy_unit=TEXT, privacy_unit_details=TEXT, privacy_parameters_details=TEXT,
            privacy_parameters=closed(epsilon=NUMBER, delta={"type": ["number", "string"]}, rho=NUMBER),
        ),
        deployment_model=closed(
            model_name=one_of("Local", "Central", "Shuffle", "Federated", "Varies"),
            model_name_details=TEXT, actors=TEXT, release_type=one_of("One release", "Many releases"),
            release_type_details=TEXT, data_source_type=one_of("Static", "Dynamic"), data_source_type_details=TEXT,
            access_type=one_of("Interactive", "Non-interactive"), access_type_details=TEXT,
        ),
        accounting=closed(post_processing=TEXT, composition=TEXT),
        implementation=closed(
            preprocessing_and_hyperparameter_tuning=TEXT, mechanisms=TEXT, justification=TEXT
        ),
        administrative=closed(
            ["registry_authors"], sources=TEXT, notes=TEXT,
            registry_authors={"type": "array", "items": TEXT, "minItems": 1},
        ),
    ),
)  # fmt: skip
"""Names and words that opendp/deployments-registry-data took at 3e9c812 (July 2026), restated."""


def fitted_to(file: str, **options):
    rows = [Row(i, {"text": f"note {i}", "label": "ab"[i % 2]}) for i in range(40)]
    records = PrivateRecords(rows, source="notes", synthetic=True)
    task, budget = Task(labels=["a", "b"]), Budget(8, 1e-6)
    return fit(records, task, epsilon=4, delta=1e-6, method="class-means", model=FakeScorer(), ledger=file,
               budget=budget, **options)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A fitted support and the ledger that it was charged to."""
    file = str(tmp_path_factory.mktemp("facts") / "t.db")
    return fitted_to(file), Ledger(file)


def raising(error: Exception):
    def fails(*given):
        raise error

    return fails


def rows_of(facts, title):
    return dict(next(section for section in facts.sections if section.title == title).rows)


@pytest.mark.slow
def test_the_order_is_fixed_whatever_is_known(made):
    fitted, ledger = made
    full = facts_of(fitted, ledger=ledger, utility={"a": proportion(3, 4)}, about={"operator": "us"})
    for facts in (facts_of(fitted), full):
        assert [section.title for section in facts.sections] == ORDER
    assert rows_of(full, "What the answers are worth")["a"].startswith("75 % (")
    assert rows_of(full, "Who must be trusted")[ABOUT["operator"]] == "us"
    assert rows_of(full, "Who must be trusted")[ABOUT["askers"]] == "not stated"


def test_figures_are_those_of_the_certificate_and_the_ledger(made):
    fitted, ledger = made
    facts = facts_of(fitted, ledger=ledger)
    assert rows_of(facts, "The guarantee")["delta"] == "1e-06"
    assert rows_of(facts, "Odds")["no probability changes by more than a factor of"] == "54.6, up to 1e-06"
    # One half becomes e^4 / (1 + e^4) = .98201.
    assert rows_of(facts, "Odds")["who thinks it 50 % likely beforehand"] == "at most 98.21 %"
    assert rows_of(facts, "Other releases of the same data")["charged releases, this one among them"] == "1"
    assert rows_of(facts, "Model and hashes")["hash of what was released"] == fitted.certificate.content_sha256


def test_no_bound_stands_where_nothing_is_promised(made):
    c = promising_nothing(made[0]).certificate
    unsure = replace(made[0], certificate=replace(c, asked={**c.asked, "isolation": c.isolation}))
    facts = facts_of(unsure, about=SAID)
    assert [section.title for section in facts.sections] == ORDER
    guarantee, delta, odds = (rows_of(facts, title) for title in ORDER[:3])
    epsilon = guarantee["epsilon, for the whole release and every answer from it"]
    assert {epsilon, guarantee["delta"], *delta.values(), *odds.values()} == {"none: no guarantee"}
    with pytest.raises(InputError, match="promises nothing"):
        registry_entry(facts)
    told = {"kind": "fitted", "subject": "class-means, as fitted", "verdict": "no violation found",
            "setting": {"parameters": dict(c.parameters)},
            "claim": {"epsilon": c.epsilon, "delta": c.delta, "adjacency": c.adjacency}}  # fmt: skip
    with pytest.raises(InputError, match="claims nothing: it has no privacy guarantee"):
        facts_of(unsure, audit=told)


def test_a_budget_does_not_bound_what_promises_nothing_on_any_page_of_its_ledger(made, tmp_path, capsys):
    fitted, ledger = made
    kept = {part.title: part.words for part in facts_of(fitted, ledger=ledger).sections}
    words = "The budget bounds everything that this ledger was charged. Another ledger of these records adds its own."
    assert kept["Other releases of the same data"] == words
    file = str(tmp_path / "t.db")
    both = fitted_to(file), fitted_to(file, randomness=SeededRandomness(1))
    for one in both:
        facts = facts_of(one, ledger=Ledger(file))
        told = {part.title: part.words for part in facts.sections}
        assert told["Other releases of the same data"] == "The budget does NOT bound everything: see above."
        others = rows_of(facts, "Other releases of the same data")
        assert (others["releases with seeded noise"], others["releases of methods without a guarantee"]) == ("1", "0")
    assert run(["ledger", "show", file]) == 0
    shown = capsys.readouterr().out
    assert "0 allowed by name, 0 with isolation not verified, 1 with seeded noise" in shown
    assert "The budget does NOT cover the releases without a guarantee" in shown


def test_nobody_is_protected_where_nothing_is_promised_and_no_audit_is_advised(made):
    c = promising_nothing(made[0]).certificate
    unsure = facts_of(replace(made[0], certificate=replace(c, asked={**c.asked, "isolation": c.isolation})))
    sections = {part.title: part for part in unsure.sections}
    assert rows_of(unsure, "Who is protected")["who"] == "none: no guarantee"
    assert (
        sections["Who is protected"].words
        == "Nobody: nothing is promised. One change would be replacing any one record."
    )
    assert sections["Audit"].words == "An audit tests a claim, and this release claims nothing."
    assert {part.title: part.words for part in facts_of(made[0]).sections}["Audit"].startswith("Write one with")


def test_another_ledger_is_refused(made, tmp_path):
    with pytest.raises(InputError, match=r"does not confirm this file .*no such charge"):
        facts_of(made[0], ledger=Ledger(str(tmp_path / "other.db")))


@pytest.mark.slow
def test_a_file_that_names_a_charge_that_was_not_its_own_is_refused(made):
    fitted, ledger = made
    told = rows_of(facts_of(fitted), "Other releases of the same data")
    assert told == {"ledger": "none was given: this file was not held against a ledger"}
    records = PrivateRecords(
        [Row(i, {"text": f"other {i}", "label": "ab"[i % 2]}) for i in range(40)], source="x", synthetic=True
    )
    cheap = fit(
        records, Task(labels=["a", "b"]), epsilon=0.5, delta=1e-6, method="class-means", model=FakeScorer(),
        ledger=":memory:",
    ).certificate  # fmt: skip
    own = fitted.certificate
    forged = replace(cheap, ledger=own.ledger, content_sha256=own.content_sha256)
    with pytest.raises(InputError, match="something else was asked for when it was charged"):
        facts_of(replace(fitted, certificate=forged), ledger=ledger)
    with pytest.raises(InputError, match="the support is that of the certificate"):
        facts_of(replace(fitted, certificate=replace(own, content_sha256="0" * 64)), ledger=ledger)


def test_the_hazards_are_those_of_the_page():
    page = (Path(sottovoce.__file__).parents[2] / "docs" / "nist-sp-800-226.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| (yes|partly|no) \|", page, re.MULTILINE)
    assert [(hazard, handled) for _, hazard, handled in HAZARDS] == rows
    assert len(rows) > 30


def test_the_registry_takes_the_entry(made):
    jsonschema = pytest.importorskip("jsonschema")
    entry = registry_entry(facts_of(made[0], about=SAID))
    jsonschema.validate(json.loads(json.dumps(entry)), REGISTRY)
    assert entry["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 4.0, "delta": 1e-6}


@pytest.mark.parametrize("lacking", REQUIRED)
def test_an_entry_needs_what_no_file_holds(made, lacking):
    said = {name: value for name, value in SAID.items() if name != lacking}
    with pytest.raises(ParameterError, match=f"--about {lacking} is missing"):
        registry_entry(facts_of(made[0], about=said))
    with pytest.raises(ParameterError, match="a day such as"):
        registry_entry(facts_of(made[0], about={**SAID, "publication-date": "soon"}))


@pytest.mark.parametrize("pair", ["curator", "curator=", "owner=us"])
def test_what_the_owner_says_has_known_names(pair):
    with pytest.raises(ParameterError, match="--about is"):
        read_about([pair])
    with pytest.raises(ParameterError, match="given once"):
        read_about(["curator=a", "curator=b"])


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"format": "other"}', "[]", "[" * 100_000],
    ids=["empty", "nothing", "another", "a list", "deep"],
)
def test_a_file_that_is_no_audit_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match="holds no audit"):
        read_audit(tmp_path / "a.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_audit(tmp_path / "b.json")


def test_an_audit_is_read_by_its_schema(tmp_path):
    told = could_not_run("canary", "poe", "The model is gone.").as_dict()
    file = tmp_path / "a.json"
    file.write_text(json.dumps(told))
    assert read_audit(file)["verdict"] == "could not run"
    for measured in ("abc", {"powers": {"twice": "x"}}, [1], {"bound": float("nan")}):
        file.write_text(json.dumps({**told, "measured": measured}))
        with pytest.raises(InputError, match="holds no audit"):
            read_audit(file)


def test_an_audit_stands_on_the_page_of_what_it_tested_alone(made):
    c = made[0].certificate
    told = {
        "kind": "fitted", "subject": "class-means, as fitted", "verdict": "no violation found", "reason": "r",
        "date": "", "measured": None, "setting": {"parameters": dict(c.parameters)},
        "claim": {"epsilon": c.epsilon, "delta": c.delta, "adjacency": c.adjacency, "own_curve": True},
    }  # fmt: skip
    shown = rows_of(facts_of(made[0], audit=told), "Audit")
    assert shown["claim that was tested"] == "epsilon 4 at delta 1e-06, replace-one"
    assert shown["sottovoce, when it ran"] == "not stated"
    dated = {**told, "setting": {**told["setting"], "version": "1.2.3"}}
    assert rows_of(facts_of(made[0], audit=dated), "Audit")["sottovoce, when it ran"] == "1.2.3"
    claim = told["claim"]
    for other, words in (
        ({"subject": "another method"}, "it tested another method"),
        ({"claim": {**claim, "adjacency": "add-remove"}}, "epsilon 4 at delta 1e-06, add-remove, and the file is"),
        ({"claim": {**claim, "epsilon": 0.0001}}, "it tested epsilon 0.0001 at"),
        ({"claim": {**claim, "delta": 0.5}}, "at delta 0.5"),
        ({"setting": {"parameters": {}}}, "other parameters"),
        ({"claim": None}, "it tested no claim, and the file is epsilon 4"),
        ({"kind": "extract", "claim": None, "subject": "a writer"}, "it tested a writer by extract"),
        ({"kind": "canary", "claim": None, "verdict": "could not run"}, "by canary"),
        ({"subject": "dp-logistic, as fitted", "claim": None, "verdict": "could not run"}, "it tested dp-logistic"),
    ):
        with pytest.raises(InputError, match=f"not of this release: .*{words}"):
            facts_of(made[0], audit={**told, **other})
    broken = {**told, "verdict": "could not run", "claim": None}
    assert rows_of(facts_of(made[0], audit=broken), "Audit")["verdict"] == "could not run"


@pytest.mark.parametrize(
    "changed",
    [{"charge": {"event": "BoundedRange", "eta": 1e-9}},
     {"charge": {"event": "SelfComposedDpEvent", "inner": 7, "count": 1}},
     {"event": {"event": "GaussianDpEvent", "noise_multiplier": 9.0}}, {"content_sha256": "0" * 64}, {"units": 9}],
    ids=["another charge", "no event", "another event", "another support", "another request"],
)  # fmt: skip
def test_a_forged_file_is_refused_without_a_ledger_too(made, changed):
    forged = replace(made[0], certificate=replace(made[0].certificate, **changed))
    with pytest.raises(InputError, match="The fitted file cannot be used: its certificate does not hold"):
        facts_of(forged)


def test_what_the_owner_says_is_escaped(made):
    page = html_of(facts_of(made[0], about={"name": "<b>x</b>", "operator": "<i>us</i>"}))
    assert "&lt;b&gt;x" in page
    assert "<b>x" not in page
    assert "<i>us" not in page


@pytest.mark.slow
def test_the_command_writes_page_entry_and_json(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"note {i}", "label": "ab"[i % 2]} for i in range(40)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("asked.jsonl").write_text("".join(json.dumps({"text": f"q {x}", "label": x}) + "\n" for x in "ab"))
    words = "fit --private rows.jsonl --labels a,b --model fake --method class-means --epsilon 4 --delta 1e-6"
    assert run([*words.split(), "--ledger", "t.db", "--out", "s.sotto"]) == 0
    capfd.readouterr()
    assert run(["audit", "s.sotto", "--runs", "4", "--json"]) == 0
    Path("audit.json").write_text(capfd.readouterr().out)
    with monkeypatch.context() as gone:
        gone.setattr("sottovoce.audits.kinds.fitted.audit_support", raising(ModelError("The model is gone.")))
        assert run(["audit", "s.sotto", "--json"]) == 2
    Path("broken.json").write_text(capfd.readouterr().out)
    shown = facts_of(Fitted.load("s.sotto"), audit=read_audit(Path("broken.json")))
    assert rows_of(shown, "Audit")["of"] == "class-means, as fitted, by fitted"
    said = [word for name, value in SAID.items() for word in ("--about", f"{name}={value}")]
    words = (
        "report s.sotto --ledger t.db --audit audit.json --queries asked.jsonl --out f.html --registry e.yaml --json"
    )
    assert run([*words.split(), *said]) == 0
    told = json.loads(capfd.readouterr().out)
    assert [section["title"] for section in told["sections"]] == ORDER
    assert json.loads(Path("e.yaml").read_text())["tier"] == 2
    assert "class-means, as fitted, by fitted" in Path("f.html").read_text()
    capfd.readouterr()
    assert run(["report", "s.sotto", "--ledger", "gone/t.db", "--out", "g.html"]) == 3
    assert "There is no ledger 'gone/t.db'" in capfd.readouterr().err
    assert not [file for file in ("gone", "g.html") if Path(file).exists()]
    assert run(["report", "s.sotto", "--registry", "e2.yaml"]) == 2
    assert not Path("e2.yaml").exists()
