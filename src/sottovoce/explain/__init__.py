"""What a method costs and why: over the registries of methods, decoding methods and cost models."""

from sottovoce.explain.cost_model import CostModel, register_cost_model, registered_cost_models
from sottovoce.explain.explain import explain, explain_events
from sottovoce.explain.report import Explanation, Side
from sottovoce.explain.subject import SIDES, Setting
from sottovoce.explain.subjects import make_subject, options_of_kind, registered_subjects

__all__ = [
    "SIDES",
    "CostModel",
    "Explanation",
    "Setting",
    "Side",
    "explain",
    "explain_events",
    "make_subject",
    "options_of_kind",
    "register_cost_model",
    "registered_cost_models",
    "registered_subjects",
]
