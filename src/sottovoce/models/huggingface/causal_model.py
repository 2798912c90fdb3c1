"""One causal language model on one device: what it computes, without any idea of experts or labels.

The body (everything below the output head) turns tokens into hidden states; of the head only the rows that a task
names are multiplied. That this gives the model's own logits is checked when the model is loaded, on made-up tokens;
where it does not (a head of an unknown kind), the whole head is used instead and ``head_note`` says so.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any, cast, final

import torch
import transformers
from torch import Tensor, nn

from sottovoce.errors import ModelError, ParameterError
from sottovoce.models.gguf.checkpoint import gguf_path, load_gguf
from sottovoce.models.huggingface.prompts import control_tokens
from sottovoce.models.huggingface.rounding import allowed_on
from sottovoce.models.weights import place_of, require_no_adapter

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
Loaded = tuple[Any, Any]
"""A tokenizer and a causal language model of the transformers library, already in memory."""

TRIED = 6
"""Tokens on which a model's head is recognised."""

HeadRows = Callable[[Tensor], Tensor]
"""Features of shape (..., width) to float32 logits of shape (..., tokens)."""

_DEVICE = re.compile(r"cpu|cuda(?::(0|[1-9][0-9]{0,3}))?")
HEAD_FILL = 16
"""Rows that a head has at least. Some processors multiply by one to three rows in another way at every second place of
a batch, so that the order of questions moved last digits (``docs/log.md``)."""


@final
class CausalModel:
    """A causal language model and its tokenizer.

    Args:
        name_or_path: A folder, a name on the hub, or a GGUF file: its path, or ``REPO:FILE.gguf``. Code from the hub is
            never run.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:i``.
        dtype: ``auto`` (float32 on the CPU, bfloat16 on CUDA), ``float32``, ``bfloat16`` or, on CUDA, ``float16``.
        loaded: A tokenizer and a model to be used as they are, in place of loading; ``auto`` is then the model's own
            device and dtype. The model is set to evaluation and frozen.

    Attributes:
        limit: Most tokens that the model can read, or ``None``. Frequencies that change with the longest text read
            so far (dynamic and long rotary embeddings) would let one expert change another; there the limit is the
            length up to which they stay as they are.
        head_note: Why the whole output head is multiplied, or an empty text where only a task's rows are.

    Raises:
        ParameterError: The device or dtype does not exist, or is not a loaded model's dtype.
        ModelError: The model cannot be loaded or run.
    """

    def __init__(
        self, name_or_path: str, *, device: str = "auto", dtype: str = "auto", loaded: Loaded | None = None
    ) -> None:
        if loaded is not None:
            device, dtype = _as_loaded(loaded[1], device, dtype)
        self.device = device_of(device)
        self.dtype = dtype_of(dtype, self.device)
        self.tokenizer, self.model = loaded or _load(name_or_path, self.dtype)
        self.model.to(self.device).eval().requires_grad_(False)
        self.body = self.model.base_model
        config = self.model.config.get_text_config(decoder=True)
        self.limit = token_limit(config)
        self._scale, self._cap = _final_rule(config)
        self._takes_positions = "position_ids" in inspect.signature(self.body.forward).parameters
        self.pad = self.tokenizer.pad_token_id or self.tokenizer.eos_token_id or 0
        try:
            self.head_note = self._check_head()
            self._check_cache()
        except ModelError:
            raise
        except Exception:
            raise ModelError(f"The model {name_or_path!r} was loaded but could not run a short text.") from None

    def new_cache(self) -> Any:
        """An empty cache of keys and values that suits the model's layers."""
        return transformers.DynamicCache(config=self.model.config)

    @property
    def words(self) -> int:
        """Number of tokens that can be read; an id beyond it would break the device for everybody."""
        return int(self.model.get_input_embeddings().weight.shape[0])

    @cached_property
    def ordinary(self) -> Sequence[int]:
        """Tokens that texts are made of: all that can be read but control tokens, at which some models shout."""
        controls = set(control_tokens(self.tokenizer).values())
        return [token for token in range(self.words) if token not in controls] or [0]

    def made_up(self, count: int, start: int = 0) -> list[int]:
        """So many ordinary tokens, from all over the vocabulary."""
        return [self.ordinary[(31 + 317 * (start + place)) % len(self.ordinary)] for place in range(count)]

    def allowed(self, ids: Tensor, difference: float, largest: float) -> float:
        """How far logits behind these tokens may be off a plain pass: by as much as a plain pass itself rounds."""
        with self.no_gradient():
            return allowed_on(self.model, ids, difference, largest)

    def features(
        self, ids: Tensor, *, cache: Any = None, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Runs the model.

        Args:
            ids: Tokens, shape (rows, length).
            cache: Keys and values of what precedes them, extended in place; ``None`` if nothing does.
            positions: Positions, shape (rows, length); the default counts on from the cache.
            mask: 1 for real tokens, 0 for padding, shape (rows, cached + length); the default is all real.

        Returns:
            Hidden states of shape (rows, length, width), or whole logits where ``head_note`` is set.
        """
        inputs: dict[str, Any] = {"input_ids": ids, "use_cache": cache is not None, "past_key_values": cache}
        if positions is not None and self._takes_positions:
            inputs["position_ids"] = positions
        if mask is not None:
            inputs["attention_mask"] = mask
        if self.head_note:
            return cast(Tensor, self.model(**inputs).logits)
        return cast(Tensor, self.body(**inputs).last_hidden_state)

    def head_rows(self, tokens: Sequence[int]) -> HeadRows:
        """The output head for these tokens alone, in float32; no product with the whole vocabulary is made."""
        chosen = torch.tensor(list(tokens), device=self.device)
        if self.head_note:
            return lambda features: features[..., chosen].float()
        rows = rows_of_head(self.model.get_output_embeddings(), chosen)
        return lambda features: self._finish(rows(features))

    def whole_head(self, features: Tensor) -> Tensor:
        """Logits of the whole vocabulary, float32."""
        if self.head_note:
            return features.float()
        return self._finish(self.model.get_output_embeddings()(features).float())

    def plain_logits(self, ids: Tensor) -> Tensor:
        """The model's own forward pass, without cache, mask or short cuts; float32, shape (rows, length, words)."""
        return cast(Tensor, self.model(input_ids=ids, use_cache=False).logits.float())

    def no_gradient(self) -> AbstractContextManager[None]:
        """Inference mode."""
        return torch.inference_mode()

    def _finish(self, logits: Tensor) -> Tensor:
        logits = logits * self._scale
        return logits if self._cap is None else self._cap * torch.tanh(logits / self._cap)

    def _check_head(self) -> str:
        self.head_note = ""
        head = self.model.get_output_embeddings()
        if head is None or getattr(head, "weight", None) is None or head.weight.dim() != 2:
            return "the model's output head is not a matrix"
        with self.no_gradient():
            ids = torch.tensor([self.made_up(TRIED)], device=self.device)
            truth = self.plain_logits(ids)[0]
            ours = self.head_rows(range(truth.shape[-1]))(self.features(ids)[0])
        if ours.shape == truth.shape:
            difference = float((ours - truth).abs().max())
            if difference <= self.allowed(ids, difference, float(truth.abs().max())):
                return ""
        return "the model's logits are not its hidden states times its output head"

    def _check_cache(self) -> None:
        known = {"DynamicLayer", "DynamicSlidingWindowLayer"}
        if unknown := sorted({type(layer).__name__ for layer in self.new_cache().layers} - known):
            raise ModelError(
                f"Models with layers of the kind {unknown[0]} are not supported: their state cannot be shared by "
                "several questions. Use a model with attention layers only."
            )


def rows_of_head(head: nn.Linear, tokens: Tensor) -> HeadRows:
    """The rows of an output head for these tokens, in float32, filled up to ``HEAD_FILL`` rows that are thrown away."""
    empty = max(0, HEAD_FILL - len(tokens))
    weight = nn.functional.pad(head.weight[tokens].float(), (0, 0, 0, empty))
    bias = getattr(head, "bias", None)
    added = None if bias is None else nn.functional.pad(bias[tokens].float(), (0, empty))
    return lambda features: nn.functional.linear(features.float(), weight, added)[..., : len(tokens)]


def device_of(device: str) -> torch.device:
    """The device of this name; errors as for ``CausalModel``."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found = _DEVICE.fullmatch(device) if isinstance(device, str) else None
    if not found:
        raise ParameterError("device", device, "auto, cpu, cuda or cuda:i")
    if device != "cpu" and int(found[1] or 0) >= torch.cuda.device_count():
        raise ModelError(f"There is no device {device!r} here: {torch.cuda.device_count()} CUDA devices found.")
    return torch.device(device)


def dtype_of(dtype: str, device: torch.device) -> torch.dtype:
    """The dtype of this name, where the device is fit for it; errors as for ``CausalModel``."""
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ParameterError("dtype", dtype, f"auto, {', '.join(DTYPES)}")
    if dtype == "float16" and device.type == "cpu":
        raise ParameterError(
            "dtype", dtype, "float32 or bfloat16 on the CPU, where float16 is hundreds of times slower"
        )
    return DTYPES[dtype]


def _as_loaded(model: Any, device: str, dtype: str) -> tuple[str, str]:
    """Device and dtype of a model in memory. It is never cast: that would round its rotary frequencies too."""
    own = str(model.dtype).removeprefix("torch.")
    if dtype not in ("auto", own):
        raise ParameterError("dtype", dtype, f"auto or {own}, in which the model was loaded")
    return (str(model.device) if device == "auto" else device), own


def _load(name: str, dtype: torch.dtype) -> tuple[Any, Any]:
    if (file := gguf_path(name)) is not None:
        with quiet():
            return load_gguf(file, dtype)
    path = place_of(name)
    local = path.is_dir()
    if not local and (path.exists() or name.startswith((".", "/", "~"))):
        raise ModelError(
            f"The model {name!r} is not a folder. Name the folder that holds config.json, or a .gguf file."
        )
    if local:
        require_no_adapter(path)
    source: dict[str, Any] = {"local_files_only": local, "trust_remote_code": False}
    place = str(path) if local else name
    with quiet():
        try:
            config = transformers.AutoConfig.from_pretrained(place, **source)
        except Exception:
            raise ModelError(not_found(name, local, "config.json"), retryable=not local) from None
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, **source)
            float(tokenizer.model_max_length)
        except Exception:
            raise ModelError(not_found(name, local, "a tokenizer"), retryable=not local) from None
        softcap = getattr(config.get_text_config(decoder=True), "attn_logit_softcapping", None)
        attention = "sdpa" if softcap is None else "eager"
        try:
            model, report = transformers.AutoModelForCausalLM.from_pretrained(
                place, dtype=dtype, attn_implementation=attention, output_loading_info=True, **source
            )
        except Exception:
            what = "the weights of a causal language model"
            raise ModelError(not_found(name, local, what), retryable=not local) from None
    require_no_adapter(path, model)
    if report.get("missing_keys"):
        raise ModelError(
            f"The model {name!r} lacks {len(report['missing_keys'])} weights of a causal language model. "
            "Name a complete model that writes text (not an encoder)."
        )
    return tokenizer, model


def not_found(name: str, local: bool, what: str) -> str:
    """What to say where part of a model is missing, and what to do."""
    if local:
        return f"The folder {name!r} does not hold {what} that can be read. Save the model and its tokenizer there."
    return (
        f"The model {name!r} could not be loaded: {what} is neither on this machine nor could it be fetched. "
        f"Check the name and the network, or fetch it first: hf download {name}"
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps the model library from writing to stderr."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(log.CRITICAL)
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def token_limit(config: Any) -> int | None:
    """Most tokens that a model of this configuration can read; see ``CausalModel.limit``."""
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
    stated = [value for name in names if isinstance(value := getattr(config, name, None), int) and value > 0]
    limit = min(stated) if stated else None
    rope = getattr(config, "rope_parameters", None) or {}
    for settings in (rope, *(value for value in rope.values() if isinstance(value, dict))):
        kind = settings.get("rope_type") or ""
        original = settings.get("original_max_position_embeddings")
        if ("dynamic" in kind or kind == "longrope") and isinstance(original, int) and limit is not None:
            limit = min(limit, original)
    return limit


def _final_rule(config: Any) -> tuple[float, float | None]:
    scale = 1.0
    for name, power in (("logits_scaling", -1), ("logit_scale", 1), ("lm_head_multiplier", 1)):
        value = getattr(config, name, None)
        if isinstance(value, int | float) and value:
            scale *= float(value) ** power
    cap = getattr(config, "final_logit_softcapping", None)
    return scale, float(cap) if cap else None
