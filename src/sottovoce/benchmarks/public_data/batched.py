"""A writer that puts many requests into one pass, for published rows: ``batched:NAME_OR_PATH``, ``batched-bf16:...``.

The product's writer computes every request by itself, so that no expert's text can depend on another's. Rows that
anybody may read need no such care, and side by side they take a third of the time, or less on an accelerator. Prompts,
forbidden tokens and ends are the product's; texts differ from its own where two tokens are about equally likely, since
sums of a wider pass are rounded otherwise; in bfloat16 they differ more often, at half the time on some processors.

Nothing in here may touch private records: it says of itself that its rows are not isolated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

from sottovoce.models.base import Isolation, WritingRequest

if TYPE_CHECKING:
    from sottovoce.models.writing.writer import TransformersWriter

PREFIXES: Final[Mapping[str, str]] = {"batched:": "auto", "batched-bf16:": "bfloat16"}
"""How such a writer is named, and in which numbers it computes."""
EMBEDDED: Final = "embedded-lm"
"""Behind a prefix: the language model that ships."""
ROWS: Final = 16
"""Requests of one pass, those of like length together."""


@final
class BatchedWriter:
    """Writes with a causal language model, several requests a pass, the likeliest token at every step.

    Args:
        writer: The product's writer of the same model.
        prefix: One of ``PREFIXES``.
    """

    isolation = Isolation.NOT_VERIFIED

    def __init__(self, writer: TransformersWriter, prefix: str = "batched:") -> None:
        self._writer = writer
        self.name = prefix + writer.name.removeprefix("hf:")

    @classmethod
    def opened(cls, spec: str) -> BatchedWriter:
        """The writer of a name that begins with one of the prefixes."""
        from sottovoce.models.embedded.language_model import embedded_language_folder
        from sottovoce.models.writing.writer import TransformersWriter

        kind, _, name = spec.partition(":")
        prefix = f"{kind}:"
        place = str(embedded_language_folder()) if name == EMBEDDED else name
        return cls(TransformersWriter(place, dtype=PREFIXES[prefix], named=name), prefix)

    @property
    def longest(self) -> int | None:
        return self._writer.longest

    def write(self, requests: Sequence[WritingRequest], *, tokens: int) -> list[str | None]:
        """A text each; see ``Writer.write``."""
        prompts = {place: self._writer._prompts.tokens(request) for place, request in enumerate(requests)}
        read = {
            place: list(ids)
            for place, ids in prompts.items()
            if ids is not None and (self.longest is None or len(ids) + tokens <= self.longest)
        }
        order = sorted(read, key=lambda place: len(read[place]))
        texts: list[str | None] = [None] * len(requests)
        for start in range(0, len(order), ROWS):
            places = order[start : start + ROWS]
            for place, text in zip(places, self._continued([read[place] for place in places], tokens), strict=True):
                cut = self._writer._prompts.cut(text, requests[place])
                texts[place] = (text if cut is None else cut).strip()
        return texts

    def _continued(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[str]:
        """What the model goes on with behind each prompt, up to its end."""
        import torch

        model, width = self._writer._model, max(map(len, prompts))
        ids = torch.tensor([[model.pad] * (width - len(prompt)) + list(prompt) for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        with model.no_gradient():
            made = model.model.generate(
                ids.to(model.device),
                attention_mask=mask.to(model.device),
                do_sample=False,
                max_new_tokens=tokens,
                suppress_tokens=self._writer._forbidden.tolist(),
                eos_token_id=sorted(self._writer._ends),
                pad_token_id=model.pad,
            )[:, width:].tolist()
        return [self._writer._decoded(self._own(row)) for row in made]

    def _own(self, row: Sequence[int]) -> Sequence[int]:
        """A row's tokens up to its end."""
        ends = [place for place, token in enumerate(row) if token in self._writer._ends]
        return row[: ends[0]] if ends else row
