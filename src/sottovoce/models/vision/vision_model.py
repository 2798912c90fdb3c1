"""One vision-language model on one device: what it computes, without any idea of experts or labels.

Pictures go through the vision encoder one by one, and their features take the places of the prompt's image tokens. The
language model then reads embeddings, with a cache of keys and values. All positions are given; nothing that the model
remembers from an earlier call is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast, final

import torch
import transformers
from torch import Tensor

from sottovoce.errors import ModelError
from sottovoce.models.failures import OwnFailure
from sottovoce.models.huggingface.causal_model import (
    HeadRows,
    device_of,
    dtype_of,
    not_found,
    quiet,
    rows_of_head,
    token_limit,
)
from sottovoce.models.images import UnreadableError, read_picture
from sottovoce.models.vision.families import FAMILIES, Grid, Pixels, places
from sottovoce.models.weights import place_of, require_no_adapter
from sottovoce.records.sealed import Opaque


@final
@dataclass(frozen=True, repr=False)
class Picture(Opaque):
    """One picture after the vision encoder.

    Attributes:
        text: What stands for it in the prompt.
        features: Shape (tokens, width).
        grid: Its sides in tokens, for families that place tokens in three axes.
    """

    text: str
    features: Tensor
    grid: Grid


@final
class VisionModel:
    """A vision-language model with its tokenizer, chat template and image processor.

    Args:
        name_or_path: A folder, or a name on the hub. Code from the hub is never run.
        device: As for ``CausalModel``.
        dtype: As for ``CausalModel``.
        max_pixels: Pictures are shrunk to so many pixels.
        split: Whether families that cut large pictures into tiles do so.

    Attributes:
        limit: Most tokens that the model can read, or ``None``.
        template: The chat template.

    Raises:
        ParameterError: The device or dtype does not exist.
        ModelError: The model cannot be loaded or run, or is of another family.
    """

    def __init__(self, name_or_path: str, *, device: str, dtype: str, max_pixels: int, split: bool) -> None:
        self.device = device_of(device)
        self.dtype = dtype_of(dtype, self.device)
        loaded = _load(name_or_path, self.dtype)
        self.model, self.tokenizer, self.image_processor, self.template = loaded
        self.model.to(self.device).eval().requires_grad_(False)
        self.body = self.model.base_model
        self.family = FAMILIES[self.model.config.model_type]
        self.limit = token_limit(self.model.config.get_text_config(decoder=True))
        self.image_token = int(self.model.config.image_token_id)
        self.placeholder = str(self.tokenizer.convert_ids_to_tokens(self.image_token))
        candidates = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, 0, 1)
        self.pad = next(token for token in candidates if token is not None and token != self.image_token)
        self._max_pixels, self._split = max_pixels, split
        try:
            with quiet(), self.no_gradient():
                self._check()
        except ModelError:
            raise
        except Exception:
            raise ModelError(f"The model {name_or_path!r} was loaded but could not run a short prompt.") from None

    def new_cache(self) -> Any:
        """An empty cache of keys and values that suits the model's layers."""
        return transformers.DynamicCache(config=self.model.config)

    @property
    def words(self) -> int:
        """Number of tokens that can be read."""
        return int(self.model.get_input_embeddings().weight.shape[0])

    def pixels(self, value: object) -> Pixels:
        """One picture from base64, as the image processor cuts it up.

        Raises:
            UnreadableError: It cannot be decoded, or the image processor does not take it.
        """
        picture = read_picture(value, self._max_pixels)
        settings = self.family.settings(self._split)
        with OwnFailure():
            processed = self.image_processor(
                images=picture, return_tensors="pt", input_data_format="channels_last", **settings
            )
            return self.family.pixels(processed)
        raise UnreadableError

    def look(self, pixels: Pixels) -> Picture:
        """Runs the vision encoder on one picture."""
        inputs = {name: tensor.to(self.device) for name, tensor in pixels.inputs.items()}
        output = self.body.get_image_features(**inputs)
        parts = getattr(output, "pooler_output", output)
        whole = torch.cat(list(parts)) if isinstance(parts, list | tuple) else parts
        features = whole.reshape(-1, whole.shape[-1]).to(self.dtype)
        text = self.family.text(self.tokenizer, self.placeholder, len(features), pixels.tiles)
        return Picture(text, features, self._grid(pixels))

    def embeddings(self, ids: Sequence[int], pictures: Sequence[Picture] = ()) -> Tensor:
        """Embeddings of tokens, pictures in their places: shape (1, tokens, width).

        Raises:
            UnreadableError: Image tokens and features do not agree.
        """
        tokens = torch.tensor(list(ids), device=self.device)
        embedded = self.model.get_input_embeddings()(tokens)
        at_images = tokens == self.image_token
        if int(at_images.sum()) != sum(len(picture.features) for picture in pictures):
            raise UnreadableError
        if pictures:
            embedded[at_images] = torch.cat([picture.features for picture in pictures])
        return cast(Tensor, embedded[None])

    def places(self, ids: Sequence[int], pictures: Sequence[Picture], start: int) -> tuple[Tensor, int]:
        """Places of tokens, shape (3, tokens), and the place that follows; ``start`` follows what precedes them."""
        if not self.family.in_three_axes:
            return (torch.arange(start, start + len(ids)).expand(3, -1), start + len(ids))
        return places([token == self.image_token for token in ids], [picture.grid for picture in pictures], start)

    def features(self, embeddings: Tensor, cache: Any, where: Tensor) -> Tensor:
        """Runs the language model behind what the cache holds, and extends the cache.

        Args:
            embeddings: Shape (rows, length, width).
            cache: Keys and values of what precedes them.
            where: Places, shape (3, length), the same in every row.

        Returns:
            Hidden states, shape (rows, length, width).
        """
        inputs: dict[str, Any] = {"inputs_embeds": embeddings, "use_cache": True, "past_key_values": cache}
        if self.family.in_three_axes:
            inputs["position_ids"] = where.to(self.device)[:, None].expand(-1, embeddings.shape[0], -1)
        return cast(Tensor, self.body(**inputs).last_hidden_state)

    def head_rows(self, tokens: Sequence[int]) -> HeadRows:
        """The output head for these tokens alone, in float32."""
        return rows_of_head(self.model.get_output_embeddings(), torch.tensor(list(tokens), device=self.device))

    def no_gradient(self) -> AbstractContextManager[None]:
        """Inference mode."""
        return torch.inference_mode()

    def _grid(self, pixels: Pixels) -> Grid:
        if not self.family.in_three_axes:
            return (1, 1, 1)
        frames, rows, columns = (int(side) for side in pixels.inputs["image_grid_thw"][0])
        merge = int(self.model.config.vision_config.spatial_merge_size)
        return (frames, rows // merge, columns // merge)

    def _check(self) -> None:
        known = {"DynamicLayer", "DynamicSlidingWindowLayer"}
        if unknown := sorted({type(layer).__name__ for layer in self.new_cache().layers} - known):
            raise ModelError(
                f"Models with layers of the kind {unknown[0]} are not supported: their state cannot be shared by "
                "several questions."
            )
        ids = [token for token in range(1, 12) if token != self.image_token][:6]
        truth = self.model(input_ids=torch.tensor([ids], device=self.device), use_cache=False).logits.float()
        features = self.features(self.embeddings(ids), self.new_cache(), self.places(ids, (), 0)[0])
        ours = self.head_rows(range(truth.shape[-1]))(features)
        allowed = 1e-4 + 8 * torch.finfo(self.dtype).eps * float(truth.abs().max())
        if ours.shape != truth.shape or float((ours - truth).abs().max()) > allowed:
            raise ModelError("The model's logits are not its hidden states times its output head; it cannot be used.")


def _load(name: str, dtype: torch.dtype) -> tuple[Any, Any, Any, str]:
    path = place_of(name)
    local = path.is_dir()
    if not local and (path.exists() or name.startswith((".", "/", "~"))):
        raise ModelError(f"The model {name!r} is not a folder. Name the folder that holds config.json.")
    if local:
        require_no_adapter(path)
    source: dict[str, Any] = {"local_files_only": local, "trust_remote_code": False}
    place = str(path) if local else name
    what = "config.json"
    with quiet():
        try:
            config = transformers.AutoConfig.from_pretrained(place, **source)
            if config.model_type not in FAMILIES:
                raise ModelError(
                    f"The model {name!r} is of the kind {config.model_type!r}. Vision-language models of these kinds "
                    f"can be used: {', '.join(FAMILIES)}."
                )
            what = "a tokenizer"
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, **source)
            what = "an image processor"
            # The Pillow one on every machine: the other one gives other pixels where torchvision is installed.
            processor = transformers.AutoImageProcessor.from_pretrained(place, backend="pil", **source)
            what = "a chat template"
            template = _template(place, tokenizer, source)
            what = "the weights of a vision-language model"
            model, report = transformers.AutoModelForImageTextToText.from_pretrained(
                place, dtype=dtype, attn_implementation="sdpa", output_loading_info=True, **source
            )
        except ModelError:
            raise
        except Exception:
            raise ModelError(not_found(name, local, what), retryable=not local) from None
    require_no_adapter(path, model)
    if report.get("missing_keys"):
        raise ModelError(
            f"The model {name!r} lacks {len(report['missing_keys'])} weights of a vision-language model. "
            "Name a complete model."
        )
    return model, tokenizer, processor, template


def _template(place: str, tokenizer: Any, source: dict[str, Any]) -> str:
    """The chat template of the processor, else of the tokenizer; the tokenizer loses its own, so that it only cuts."""
    from transformers.processing_utils import ProcessorMixin

    template = ProcessorMixin.get_processor_dict(place, **source)[0].get("chat_template") or tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    if not isinstance(template, str) or not template:
        raise ModelError(f"The model {place!r} has no chat template, and cannot be shown pictures without one.")
    tokenizer.chat_template = None
    return template
