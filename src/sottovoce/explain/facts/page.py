"""The privacy facts as one HTML page, and as an entry for the public registry of deployments."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any, Final

from sottovoce.errors import InputError, ParameterError
from sottovoce.explain.facts.facts import ABOUT, Facts
from sottovoce.files.pages import html_page
from sottovoce.files.pages import html_text as _text
from sottovoce.fitting.certificate import FitCertificate
from sottovoce.privacy.unit import Adjacency
from sottovoce.release import figures_of

MARK: Final = "sotto report"
REQUIRED: Final = ("name", "curator", "description", "intended-use", "region", "author")
"""What the registry needs and no file holds."""


def html_of(facts: Facts) -> str:
    """One page, sections in their order."""
    body = [
        f"<header>\n<h1>Privacy facts: {_text(facts.subject)}</h1>",
        *[f"<p>{_text(facts.about[name])}</p>" for name in ("description", "intended-use") if name in facts.about],
        "</header>\n<main>",
    ]
    for number, section in enumerate(facts.sections, 1):
        rows = [f'<tr><th scope="row">{_text(what)}</th><td>{_text(value)}</td></tr>' for what, value in section.rows]
        body += [
            f'<section id="facts-{number}"><h2>{number}. {_text(section.title)}</h2>',
            f"<p>{_text(section.words)}</p>" if section.words else "",
            f'<div class="scroll"><table><tbody>{"".join(rows)}</tbody></table></div></section>',
        ]
    return html_page(f"Privacy facts: {facts.subject}", [*body, "</main>"], mark=MARK)


def registry_entry(facts: Facts) -> dict[str, Any]:
    """An entry for opendp/deployments-registry-data, of tier 2, as a draft.

    Its files are YAML, of which JSON is a part. Written against its schema of July 2026.

    Raises:
        ParameterError: The owner did not say what it needs, or the day is none.
        InputError: The release has no guarantee.
    """
    for name in REQUIRED:
        if name not in facts.about:
            raise ParameterError(f"--about {name}", None, f"given for the registry: {ABOUT[name].lower()}")
    c, said = facts.certificate, facts.about
    if figures_of(FitCertificate(**c))["epsilon"] is None:
        raise InputError(f"The registry lists what is promised, and this release promises nothing. {c['statement']}")
    day = said.get("publication-date", datetime.now(UTC).date().isoformat())
    try:
        date.fromisoformat(day)
    except ValueError:
        raise ParameterError("--about publication-date", day, "a day such as 2026-01-31") from None
    titled = {section.title: section for section in facts.sections}
    adjacency = Adjacency(c["adjacency"])
    parameters = {"epsilon": c["epsilon"], **({"delta": c["delta"]} if c["delta"] else {})}
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", f"{said['name']} {said['curator']} {day[:4]}".lower()).strip("-"),
        "status": "Draft",
        "tier": 2,
        "deployment": {
            "basic": {
                "name": said["name"],
                "data_curators": [said["curator"]],
                "intended_use": said["intended-use"],
                "data_product_type": "Machine learning model",
                "data_product_region": said["region"],
                "description": said["description"],
                "publication_date": day,
            },
            "dp_variant": {
                "variant_name": "Approximate DP" if c["delta"] else "Pure DP",
                "unprotected_quantities": "; ".join(f"{a}: {b}" for a, b in titled["What is not protected"].rows),
            },
            "privacy_loss": {
                "privacy_unit": c["unit"],
                "privacy_unit_details": f"{adjacency.value}: {adjacency.sentence(c['unit'])}",
                "privacy_parameters": parameters,
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": "; ".join(f"{a}: {b}" for a, b in titled["Who must be trusted"].rows),
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {"composition": "; ".join(f"{a}: {b}" for a, b in titled["The guarantee"].rows[:2])},
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": said.get("tuned-on", "not stated"),
                "mechanisms": f"{c['method']} of sottovoce {c['version']}",
            },
            "administrative": {"registry_authors": [said["author"]]},
        },
    }
