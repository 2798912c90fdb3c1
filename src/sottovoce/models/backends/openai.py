"""Models behind servers that speak the OpenAI API: ``openai:MODEL@BASE_URL``."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from sottovoce.models.registry import Backend, register_model

if TYPE_CHECKING:
    from sottovoce.models.http.label_scorer import ServerScorer
    from sottovoce.models.http.writer import ServerWriter


@final
@register_model(
    "openai:MODEL@BASE_URL", extra="http", summary="A model behind a server; whoever hosts it sees the prompts."
)
class OpenAI(Backend):
    """What follows the address, such as ``,api=completions,isolation=asserted``, says how it is asked."""

    def scorer(self) -> type[ServerScorer]:
        from sottovoce.models.http.label_scorer import ServerScorer

        return ServerScorer

    def writer(self) -> type[ServerWriter]:
        from sottovoce.models.http.writer import ServerWriter

        return ServerWriter
