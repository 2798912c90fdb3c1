"""The audit of a fitted file: its method, parameters and price, on made-up records.

Guarantee   A violation is reported of a sound fit with probability ``ALPHA`` at most. It is about the method as it
            is installed here; the draw that made the file is over.
Sources     specification 10.5; ``audits.one_run`` for the test against the fit's own curve.
"""

from __future__ import annotations

from typing import Final

from sottovoce.audits.bounds import ALPHA
from sottovoce.audits.fits import Attack, LabelAttack, TextAttack, VectorAttack, audit_fit
from sottovoce.audits.game.play import Claim
from sottovoce.audits.kinds.membership import seeded
from sottovoce.audits.one_run import curve_p_value
from sottovoce.audits.power import ceiling_of_one_run, power_of_one_run
from sottovoce.audits.report import Measured, Report, Verdict, curve_points, reason_of
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.errors import InputError, ParameterError
from sottovoce.fitting.certificate import FitCertificate
from sottovoce.fitting.fitted import Fitted
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import Fitter, make_fitter
from sottovoce.methods.fitting.support import LinearSupport
from sottovoce.privacy.event_json import event_from_json
from sottovoce.privacy.events import describe
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.release import figures_of

SHARE: Final = 0.02
"""Of all canaries that are guessed on: the surest ones."""


def audit_support(fitted: Fitted, runs: int, seed: int) -> Report:
    """Fits made-up records as a file's records were fitted, and guesses which were there.

    Args:
        fitted: The file.
        runs: How many fits.
        seed: Of coins and noise.

    Raises:
        ParameterError: There is no attack on fits of this method.
        InputError: The certificate does not hold by itself, promises nothing, or its event is not that of its
            parameters.
    """
    certificate = fitted.certificate
    certificate.require_sound("the fitted file")
    if figures_of(certificate)["epsilon"] is None:
        why = "its noise was seeded" if certificate.seeded else "its model was not shown to keep records apart"
        raise InputError(
            f"The fitted file claims no epsilon that an audit could test: {why}, so that it has no privacy guarantee. "
            "Fit again without that, and audit the new file."
        )
    attack = attack_of(certificate)
    adjacency = Adjacency.parse(certificate.adjacency)
    guesses = max(1, round(SHARE * runs * attack.canaries))
    found = audit_fit(attack, runs, seeded(seed), SeededRandomness(seed), guesses=guesses)
    epsilon, delta, event = certificate.epsilon, certificate.delta, event_from_json(certificate.event)
    if attack.plan.event != event:
        raise InputError(
            f"The certificate names {describe(event)}, and {certificate.method} with its parameters draws "
            f"{describe(attack.plan.event)}. The file was changed after it was fitted: restore it from a copy, "
            "or fit again."
        )
    curve = TradeOff.of_event(event, adjacency)
    promised = Claim.of(epsilon, delta, adjacency, event)
    ceiling = ceiling_of_one_run(found.canaries, guesses, promised.attained, delta, ALPHA)
    powers = {
        leak: power_of_one_run(found.canaries, guesses, curve, truth, ALPHA).power
        for leak, truth in promised.leaks().items()
    }
    measured = Measured(
        found.lower_bound, 1 - ALPHA, ceiling=ceiling.perfect, ceiling_on_curve=ceiling.on_curve, powers=powers
    )
    p_value = curve_p_value(found.canaries, guesses, found.correct, curve)
    verdict = Verdict.VIOLATION if p_value <= ALPHA else Verdict.NONE_FOUND
    claim = {
        "epsilon": epsilon,
        "delta": delta,
        "adjacency": adjacency.value,
        "own_curve": True,
        "curve": curve_points(curve),
    }
    setting = {
        "method": certificate.method,
        "parameters": dict(certificate.parameters),
        "fits": runs,
        "canaries": found.canaries,
        "guesses": guesses,
        "right guesses": found.correct,
        "seed": seed,
    }
    told = {
        "id": "surest canaries",
        "violation": p_value <= ALPHA,
        "accuracy": found.correct / guesses,
        "p_value": p_value,
    }
    return Report(
        "fitted",
        as_fitted(certificate.method),
        verdict,
        reason_of(verdict, measured, epsilon),
        claim,
        measured,
        setting,
        attacks=[told],
        notes=["The audit is of the method as it is installed here. The file's own records were not read."],
    )


def as_fitted(method: str) -> str:
    """The subject of an audit of a fitted file."""
    return f"{method}, as fitted"


def attack_of(certificate: FitCertificate) -> Attack:
    """The attack on fits of a certificate's method, at its parameters and price, by the accounting of its ledger.

    Raises:
        ParameterError: There is none.
    """
    fitter: Fitter = make_fitter(certificate.method, **dict(certificate.parameters))
    price = Price(certificate.epsilon, certificate.delta)
    adds = certificate.asked["currency"] == "epsilon"
    adjacency = Adjacency.parse(certificate.adjacency)
    if fitter.gives is LinearSupport:
        return VectorAttack.on(fitter, price, adjacency, margin=certificate.method == "dp-logistic", adds_epsilons=adds)
    if "k" in fitter.options:
        return TextAttack.on(fitter, price, adjacency, adds_epsilons=adds)
    if fitter.asks_experts:
        return LabelAttack.on(fitter, price, adjacency, adds_epsilons=adds)
    raise ParameterError("method", certificate.method, "one with an attack on its fits")
