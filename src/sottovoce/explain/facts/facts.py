"""The privacy facts of a release, in an order that does not change: from certificate, ledger, audit and its owner.

What the owner alone can know is asked of the owner, and stands as "not stated" where no answer was given.

Guarantee   Figures are those of the certificate, rounded up; nothing private is read. Whatever can be checked without
            records holds, with a ledger or, where the facts say so, without one; or there are no facts.
Sources     specification 6.8 (delta), 8 (what no epsilon covers), 10.1 (odds); NIST SP 800-226 for the hazards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from sottovoce.errors import InputError, ParameterError
from sottovoce.explain.facts.hazards import HAZARDS
from sottovoce.fitting.fitted import Fitted
from sottovoce.intervals import Proportion
from sottovoce.parameters import nearest
from sottovoce.privacy.event_json import event_from_json
from sottovoce.privacy.events import describe
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.numbers import factor_up, rounded_up
from sottovoce.privacy.scope import OF_A_FIT
from sottovoce.privacy.unit import Adjacency
from sottovoce.records import limits
from sottovoce.release import figures_of

NOT_STATED: Final = "not stated"
_NONE: Final = "none: no guarantee"
ABOUT: Final = {
    "name": "Name of what is published",
    "curator": "Who publishes it",
    "description": "What it is",
    "intended-use": "What it is for",
    "region": "Whose data, or under which law",
    "publication-date": "Day of publication, as 2026-01-31",
    "author": "Who filled this in",
    "model-host": "Who runs the model, and sees every private text",
    "operator": "Who runs this package, and sees records and scores",
    "key-holders": "Who can read the trusted store and the ledger",
    "askers": "Who may ask, and sees answers alone",
    "tuned-on": "What settings were chosen on",
}
"""What the owner is asked for, by the name to give it under."""
_PRIORS: Final = (0.01, 0.1, 0.5)
_OF_AN_AUDIT: Final = ("kind", "subject", "verdict", "reason", "date", "measured", "claim", "setting")
_AUDIT_BYTES: Final = 50_000_000


@final
@dataclass(frozen=True)
class Section:
    """A part of the facts.

    Attributes:
        title: Its heading.
        rows: What, and its value.
        words: What it means, in sentences; empty where rows speak for themselves.
    """

    title: str
    rows: Sequence[tuple[str, str]]
    words: str = ""


@final
@dataclass(frozen=True)
class Facts:
    """Everything that is known of a release.

    Attributes:
        subject: What was released.
        sections: In the fixed order.
        about: What the owner said.
        certificate: As JSON.
    """

    subject: str
    sections: Sequence[Section]
    about: Mapping[str, str]
    certificate: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        told = [{"title": part.title, "rows": [list(row) for row in part.rows], "words": part.words}
                for part in self.sections]  # fmt: skip
        return {"format": "sottovoce-facts-1", "subject": self.subject, "sections": told, "about": dict(self.about)}


def read_about(pairs: Sequence[str]) -> dict[str, str]:
    """What the owner said, from texts such as ``curator=Harrow``.

    Raises:
        ParameterError: A text is not NAME=VALUE, or a name is not known or given twice.
    """
    about: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not value.strip():
            raise ParameterError("--about", pair, "NAME=VALUE, such as curator=Harrow")
        if name not in ABOUT or name in about:
            known = f"one of {', '.join(ABOUT)}, given once{nearest(name, [*ABOUT])}"
            raise ParameterError("--about", name, known)
        about[name] = value.strip()
    return about


def read_audit(file: Path) -> dict[str, Any]:
    """What ``sotto audit --json`` printed.

    Raises:
        InputError: The file holds something else than the schema of an audit says.
    """
    from sottovoce.audits.report import schema
    from sottovoce.audits.schema import is_valid

    try:
        told = json.loads(limits.read_text(file, "audit", _AUDIT_BYTES))
        sound = is_valid(told, schema())
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}). Check --audit.") from None
    except (ValueError, RecursionError):
        sound = False
    if not sound:
        raise InputError(f"{file} holds no audit. Write one with: sotto audit ... --json > {file.name}")
    return {name: told[name] for name in _OF_AN_AUDIT}


def facts_of(
    fitted: Fitted,
    *,
    ledger: Ledger | None = None,
    audit: Mapping[str, Any] | None = None,
    utility: Mapping[str, Proportion] | None = None,
    about: Mapping[str, str] | None = None,
) -> Facts:
    """Collects the facts.

    Args:
        fitted: What was released.
        ledger: That was charged: the certificate and the file are held against it, and other releases of the same data
            are in it.
        audit: As ``read_audit`` reads it.
        utility: Share of right answers to public questions, by label.
        about: What the owner said.

    Raises:
        InputError: The certificate does not hold, by itself or against the ledger, or the audit is of another claim.
    """
    c, said = fitted.certificate, dict(about or {})
    if ledger is None:
        c.require_consistent(fitted.content_sha256)
    else:
        c.require_charged(fitted.content_sha256, ledger)
    if audit is not None:
        _require_same_claim(audit, c)
    adjacency = Adjacency(c.adjacency)
    subject = said.get("name") or f"{c.method} for {len(c.labels)} labels"
    return Facts(
        subject,
        (
            _guarantee(c),
            _delta(c),
            _odds(c),
            _protected(c, adjacency),
            _not_protected(c, adjacency),
            _trust(said, c),
            _others(c, ledger),
            _tuned(said, c),
            _utility(utility),
            _audit(audit, c),
            _model(c),
            _hazards(),
        ),
        said,
        c.as_dict,
    )


def _guarantee(c: Any) -> Section:
    epsilon, delta = figures_of(c)["epsilon"], figures_of(c)["delta"]
    rows = [
        ("mechanism", describe(event_from_json(c.event))),
        ("charged to the ledger", describe(event_from_json(c.charge))),
        (
            "epsilon, for the whole release and every answer from it",
            _NONE if epsilon is None else rounded_up(epsilon, 6),
        ),
        ("delta", _NONE if delta is None else rounded_up(delta, 6)),
        ("adjacency", c.adjacency),
        ("privacy unit", c.unit),
        ("change type", c.change),
    ]
    return Section("The guarantee", rows, c.statement)


def _delta(c: Any) -> Section:
    if figures_of(c)["delta"] is None:
        return Section("What delta means", [("delta", _NONE)], "Nothing is promised, so nothing holds up to delta.")
    words = "The guarantee is pure: the factor holds without exception."
    if c.delta:
        words = (
            f"Beyond that factor the probability of any set of outcomes can change by at most {rounded_up(c.delta, 6)} "
            "more. Delta should lie well below one over the number of units."
        )
    return Section("What delta means", [("delta", rounded_up(c.delta, 6))], words)


def _odds(c: Any) -> Section:
    from sottovoce.audits.tradeoff import TradeOff

    if figures_of(c)["epsilon"] is None:
        return Section("Odds", [("no probability changes by more than a factor of", _NONE)], "No odds are bounded.")
    curve = TradeOff.of_event(event_from_json(c.event), Adjacency(c.adjacency))
    factor = factor_up(c.epsilon)
    up_to = f", up to {rounded_up(c.delta, 6)}" if c.delta else ""
    rows = [
        ("no probability changes by more than a factor of", f"{factor}{up_to}"),
        ("best guess whether a unit is there, where chance is 50 %", f"{rounded_up(100 * curve.accuracy, 4)} % right"),
    ]
    for prior in _PRIORS:
        after = _posterior(prior, c.epsilon)
        rows.append((f"who thinks it {_percent(prior)} likely beforehand", f"at most {rounded_up(100 * after, 4)} %"))
    words = "The last rows follow from epsilon alone, up to delta; the best guess follows from the release's own noise."
    return Section("Odds", rows, words)


def _posterior(prior: float, epsilon: float) -> float:
    import math

    return prior / (prior + (1 - prior) * math.exp(-min(epsilon, 700.0)))


def _percent(share: float) -> str:
    return f"{round(100 * share)} %"


def _protected(c: Any, adjacency: Adjacency) -> Section:
    units = str(c.units) if c.units is not None else "not told"
    sentence = adjacency.sentence(c.unit)
    if figures_of(c)["epsilon"] is None:
        words = f"Nobody: nothing is promised. One change would be {sentence}."
        return Section("Who is protected", [("who", _NONE), ("number of units", units)], words)
    rows = [("who", f"every '{c.unit}' of the private records"), ("number of units", units)]
    return Section("Who is protected", rows, f"One change is {sentence}.")


def _not_protected(c: Any, adjacency: Adjacency) -> Section:
    count = "public under this adjacency" if adjacency.size_is_public else "not public; time may tell it"
    rows = [
        ("third persons named in a record", f"only as part of that '{c.unit}'"),
        ("the number of units", count),
        *[(what, "public input") for what in OF_A_FIT],
        ("the question", "public input; whoever runs the model sees it"),
        ("time, memory and traffic", "not hidden"),
        ("what the model learned before", "not covered: it may know the same facts from elsewhere"),
    ]
    return Section("What is not protected", rows)


def _trust(said: Mapping[str, str], c: Any) -> Section:
    names = ("model-host", "operator", "key-holders", "askers")
    rows = [(ABOUT[name], said.get(name, NOT_STATED)) for name in names]
    rows.append(("whether the model keeps records apart", c.isolation))
    rows.append(("source of noise", "seeded: no guarantee" if c.seeded else "the operating system"))
    return Section("Who must be trusted", rows)


def _others(c: Any, ledger: Ledger | None) -> Section:
    title = "Other releases of the same data"
    if ledger is None:
        return Section(
            title,
            [("ledger", "none was given: this file was not held against a ledger")],
            "Whether it was charged, and what else was released of these records, is not known here. Every other "
            "release adds to the epsilon above.",
        )
    with ledger.rows() as history:
        own = next(e for e in history.entries if e["release_id"] == c.ledger and e["kind"] == "reserve")
        name = next(str(row["name"]) for row in history.data_sets if row["id"] == own["data_set"])
    balance = next(one for one in ledger.balances() if one.name == name)
    rows = [
        ("budget of the data set", str(balance.budget)),
        ("epsilon used in all, at the budget's delta", rounded_up(balance.epsilon_used, 6)),
        ("charged releases, this one among them", str(balance.answers)),
        ("releases of methods without a guarantee", str(balance.non_private)),
        ("releases of a model not shown to keep records apart", str(balance.unverified)),
        ("releases with seeded noise", str(balance.seeded)),
        ("adjacency and unit", f"{balance.adjacency.value}, '{balance.unit}'"),
    ]
    words = "The budget does NOT bound everything: see above."
    if balance.is_kept:
        words = (
            "The budget bounds everything that this ledger was charged. Another ledger of these records adds its own."
        )
    return Section(title, rows, words)


def _tuned(said: Mapping[str, str], c: Any) -> Section:
    rows = [(name, str(value)) for name, value in c.parameters.items()]
    rows.append((ABOUT["tuned-on"], said.get("tuned-on", NOT_STATED)))
    return Section("What was tuned on what", rows, "Choosing settings by private accuracy is a release of its own.")


def _utility(utility: Mapping[str, Proportion] | None) -> Section:
    rows = [(label, str(share)) for label, share in (utility or {}).items()] or [("right answers", "not measured")]
    words = "On public questions; 95 % intervals." if utility else "Measure it with --queries, on public questions."
    return Section("What the answers are worth", rows, words)


def _audit(audit: Mapping[str, Any] | None, c: Any) -> Section:
    if audit is None:
        words = "Write one with: sotto audit FILE --json"
        if figures_of(c)["epsilon"] is None:
            words = "An audit tests a claim, and this release claims nothing."
        return Section("Audit", [("audit", "none was given")], words)
    measured = audit["measured"] or {}
    rows = [
        ("date", str(audit["date"])),
        ("of", f"{audit['subject']}, by {audit['kind']}"),
        *([("claim that was tested", _claim_in_words(audit["claim"]))] if audit["claim"] else []),
        ("verdict", audit["verdict"]),
        ("sottovoce, when it ran", str(audit["setting"].get("version", NOT_STATED))),
    ]
    rows += [
        (f"found with an ideal attack if it leaks {leak}", _power(p)) for leak, p in measured.get("powers", {}).items()
    ]
    return Section("Audit", rows, str(audit["reason"]))


def _claim_in_words(claim: Mapping[str, Any]) -> str:
    return f"epsilon {rounded_up(claim['epsilon'], 6)} at delta {rounded_up(claim['delta'], 6)}, {claim['adjacency']}"


def _require_same_claim(audit: Mapping[str, Any], c: Any) -> None:
    """An audit speaks of this release where it is of a fitted file with its method, its parameters and its claim.

    One that broke off may name no claim; its verdict says so.

    Raises:
        InputError: It is of something else.
    """
    from sottovoce.audits.kinds.fitted import as_fitted
    from sottovoce.audits.report import Verdict

    tested, own = audit["claim"], figures_of(c)
    if audit["kind"] != "fitted":
        found, wanted = f"{audit['subject']} by {audit['kind']}", f"audited by fitted: {as_fitted(c.method)}"
    elif own["epsilon"] is None:
        found, wanted = f"a claim of {audit['subject']}", "one that claims nothing: it has no privacy guarantee"
    elif audit["subject"] != as_fitted(c.method):
        found, wanted = str(audit["subject"]), as_fitted(c.method)
    elif tested is None and audit["verdict"] == Verdict.COULD_NOT_RUN.value:
        return
    elif tested is None:
        found, wanted = "no claim", _claim_in_words(own)
    elif any(tested[name] != value for name, value in own.items()):
        found, wanted = _claim_in_words(tested), _claim_in_words(own)
    elif audit["setting"].get("parameters") != dict(c.parameters):
        found, wanted = "other parameters", f"those of {c.method} in the certificate"
    else:
        return
    raise InputError(
        f"The audit is not of this release: it tested {found}, and the file is {wanted}. Audit the file itself: "
        "sotto audit FILE --json."
    )


def _power(power: float) -> str:
    from sottovoce.privacy.numbers import rounded_down

    return f"{rounded_down(100 * power, 3)} % of the time"


def _model(c: Any) -> Section:
    rows = [
        ("model", c.model),
        ("hash of what makes its vectors", c.embedding or "none are used"),
        ("hash of what was released", c.content_sha256),
        ("sottovoce", c.version),
        ("charge", c.ledger),
    ]
    return Section("Model and hashes", rows)


def _hazards() -> Section:
    rows = [(hazard, handled) for _, hazard, handled in HAZARDS]
    words = "Of NIST SP 800-226, in our words. What is done, and the test that shows it: docs/nist-sp-800-226.md."
    return Section("Hazards", rows, words)
