"""Any causal language model of the transformers library as a writer: ``hf:NAME_OR_PATH``, ``hf:FILE.gguf``.

Isolation   By construction (specification 9.6, i): one request at a time, one row a pass, and nothing kept of it. A
            text is the likeliest token at every step, so it is a function of its request, the model and public numbers.
Failures    A request that does not fit into the model, whose texts cannot be kept from acting as control tokens, or
            whose numbers are not finite has no text. Behind a request on which the model fails, and behind the last
            one, the model must read a public text in the same bits as before: else the failure is everybody's.
Speed       Requests are not put into one pass. Lockstep passes hold prompts that go on by one shared token; answers
            have a prompt and an end each, so that most rows would stand empty. A prompt is read whole, and nothing of
            it is kept for the next: what prompts share are the few tokens of the instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, final

from sottovoce.errors import MissingExtraError, ModelError
from sottovoce.models.base import Isolation, WritingRequest
from sottovoce.models.failures import OwnFailure
from sottovoce.parameters import COUNT

try:
    import torch
    import transformers as _transformers  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError(error.name or "transformers", "local") from None

from sottovoce.models.huggingface.causal_model import CausalModel, Loaded, quiet
from sottovoce.models.huggingface.files import later_digest, prompts_digest
from sottovoce.models.huggingface.foresight import Foresight, foresee
from sottovoce.models.huggingface.prompts import Tokens, control_tokens
from sottovoce.models.lockstep.memory import sealed
from sottovoce.models.writing.prompts import RequestPrompts

_PROBE: Final = 24
"""Made-up tokens by which a model is known to be as it was."""


@final
class TransformersWriter:
    """Writes texts with a causal language model, the likeliest token at every step.

    Args:
        name_or_path: A folder that holds a model and its tokenizer, a name on the hub, or a GGUF file (its path, or
            ``REPO:FILE.gguf``). Remote code is never run.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:i``.
        dtype: ``auto`` (float32 on the CPU, bfloat16 on CUDA), ``float32``, ``bfloat16``; ``float16`` on CUDA only.
        chat: Whether a request is a conversation in the tokenizer's chat template; ``None`` where it has one. Else it
            is a text to be continued.
        loaded: A tokenizer and a model that are in memory already; ``name_or_path`` is then its name alone.
        named: What ``name`` says, where it is not ``hf:`` and the name or path.

    Raises:
        ParameterError: An argument is out of range.
        ModelError: The model cannot be loaded or run here, or its chat template cannot be used.
    """

    isolation = Isolation.BY_CONSTRUCTION

    def __init__(
        self,
        name_or_path: str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        chat: bool | None = None,
        loaded: Loaded | None = None,
        named: str | None = None,
    ) -> None:
        self._model = CausalModel(name_or_path, device=device, dtype=dtype, loaded=loaded)
        self._prompts = RequestPrompts(self._model.tokenizer, chat=chat)
        self.name = named or f"hf:{name_or_path}"
        self._digest = later_digest(name_or_path, loaded)

    def __repr__(self) -> str:
        return f"TransformersWriter({self.name!r})"

    @cached_property
    def run_settings(self) -> dict[str, Any]:
        """What tells it from another model of its name: a run is resumed with the same alone.

        Raises:
            ModelError: A file of the model cannot be read.
        """
        return {
            "weights": self._digest(),
            "dtype": str(self._model.dtype),
            "chat": self._prompts.chat,
            "prompts": prompts_digest(self._model.tokenizer, self._prompts.chat, self._ends),
        }

    @property
    def longest(self) -> int | None:
        """Tokens that the model can read, prompt and text together; ``None`` where it states none."""
        return self._model.limit

    def write(self, requests: Sequence[WritingRequest], *, tokens: int) -> list[str | None]:
        """A text each, one after another; see ``Writer.write``. Every example is in its prompt, whole, or none is.

        Raises:
            ParameterError: ``tokens`` is below 1.
            ModelError: The device ran out of memory, or the model does not read public text as it did before.
        """
        COUNT.read("tokens", tokens)
        with sealed(), quiet(), self._model.no_gradient():
            before = self._public_state
            texts = [self._text(request, tokens) for request in requests]
            self._require_sound(before)
        return texts

    def foresight(self) -> Foresight:
        """What running it will take, from one pass over public tokens."""
        return foresee(self._model)

    def _text(self, request: WritingRequest, tokens: int) -> str | None:
        with OwnFailure():
            ids = self._prompts.tokens(request)
            if ids is None or (self.longest is not None and len(ids) + tokens > self.longest):
                return None
            return self._continued(ids, request, tokens)
        self._require_sound(self._public_state)
        return None

    def _continued(self, ids: Tokens, request: WritingRequest, tokens: int) -> str | None:
        """The likeliest tokens behind a prompt, as text; ``None`` where its numbers are not finite."""
        model, cache, written = self._model, self._model.new_cache(), list[int]()
        read = torch.tensor([list(ids)], device=model.device)
        for _ in range(tokens):
            logits = model.whole_head(model.features(read, cache=cache)[:, -1])[0]
            logits[self._forbidden] = -torch.inf
            token = int(logits.argmax())
            if not torch.isfinite(logits[token]):
                return None
            if token in self._ends:
                break
            written.append(token)
            if (cut := self._prompts.cut(self._decoded(written), request)) is not None:
                return cut.strip()
            read = torch.tensor([[token]], device=model.device)
        return self._decoded(written).strip()

    def _decoded(self, tokens: Sequence[int]) -> str:
        return str(self._model.tokenizer.decode(tokens, clean_up_tokenization_spaces=False))

    @cached_property
    def _controls(self) -> frozenset[int]:
        return frozenset(control_tokens(self._model.tokenizer).values())

    @cached_property
    def _ends(self) -> frozenset[int]:
        """Tokens that end a text: the tokenizer's, those of the model's own settings, and what ends a chat's answer."""
        stated = getattr(getattr(self._model.model, "generation_config", None), "eos_token_id", None)
        ends = [*(stated if isinstance(stated, list | tuple) else [stated]), *self._prompts.eos_tokens]
        return frozenset(int(end) for end in ends if end is not None and int(end) in self._controls)

    @cached_property
    def _forbidden(self) -> torch.Tensor:
        """Control tokens that are no ends, and rows of the head without a token."""
        known, width = len(self._model.tokenizer), int(self._public_state.shape[-1])
        tokens = {token for token in self._controls if token < width} | set(range(known, width))
        return torch.tensor(sorted(tokens - self._ends), dtype=torch.long, device=self._model.device)

    @cached_property
    def _public_state(self) -> torch.Tensor:
        """Logits behind a made-up text, from before any request was read."""
        return self._made_up_logits()

    def _made_up_logits(self) -> torch.Tensor:
        ids = torch.tensor([self._model.made_up(min(_PROBE, self.longest or _PROBE))], device=self._model.device)
        return self._model.whole_head(self._model.features(ids, cache=self._model.new_cache())[:, -1])[0]

    def _require_sound(self, before: torch.Tensor) -> None:
        if not torch.equal(self._made_up_logits(), before):
            raise ModelError(f"The model {self.name} does not read public text as it did before.")
