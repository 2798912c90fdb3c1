"""Models made of Python functions, without weights: ``fake``."""

from __future__ import annotations

from typing import final

from sottovoce.models.fake import FakeScorer, FakeStepper, FakeWriter
from sottovoce.models.registry import Backend, register_model


@final
@register_model("fake", summary="Counts the labels of its demonstrations; for tests and first tries.")
class Fake(Backend):
    def scorer(self) -> type[FakeScorer]:
        return FakeScorer

    def stepper(self) -> type[FakeStepper]:
        return FakeStepper

    def writer(self) -> type[FakeWriter]:
        return FakeWriter
