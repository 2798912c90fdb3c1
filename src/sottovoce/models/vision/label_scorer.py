"""Vision-language models of the transformers library as label scorers: ``vision:NAME_OR_PATH``.

Isolation    Every expert is computed by itself, its pictures one by one, and its rows are spellings of labels after one
             public question: no number of an expert ever shares a computation with another expert's records. Isolated
             by construction (spec 9.6, i).
Invariance   One question at a time, so the number and order of questions change no bit of any value.
Scores       Among the labels only, token by token, as ``hf:`` with ``score="labels"``: every node of the tree of the
             labels' tokens is a softmax over its children, and the labels' probabilities sum to 1.
Assumes      Labels, templates, questions and their pictures are public. Time and memory use are not protected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, final

from sottovoce.deprecated import renamed
from sottovoce.errors import MissingExtraError
from sottovoce.models.base import Context, Isolation, require_images
from sottovoce.tasks import Task

try:
    import PIL as _pillow  # noqa: F401
    import torch as _torch  # noqa: F401
    import transformers as _transformers  # noqa: F401
except ModuleNotFoundError as error:
    missing = {"PIL": "pillow"}.get(error.name or "", error.name or "transformers")
    raise MissingExtraError(missing, "vision") from None

from sottovoce.models.huggingface.engine import Engine
from sottovoce.models.huggingface.files import later_digest, prompts_digest
from sottovoce.models.huggingface.prefix_cache import PrefixStore
from sottovoce.models.huggingface.selftest import SelfTestReport
from sottovoce.models.vision.contexts import VisionContexts, prepare
from sottovoce.models.vision.selftest import run_self_test
from sottovoce.models.vision.vision_model import VisionModel
from sottovoce.parameters import SIZE, Number

MAX_PIXELS = 512 * 512


@final
class VisionScorer:
    """Scores labels with a vision-language model: Qwen2.5-VL, InternVL, Idefics3 or SmolVLM.

    Args:
        name_or_path: A folder that holds a model, its tokenizer and its image processor, or a name on the hub. Remote
            code is never run.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:i``.
        dtype: ``auto`` (float32 on the CPU, bfloat16 on CUDA), ``float32``, ``bfloat16``; ``float16`` on CUDA only.
        cache_bytes: Cap for the keys and values of prompts that are kept between questions. What does not fit is read
            again whenever it is needed.
        reuse_cache: ``False`` reads each prompt again with every question: slow, for comparison only.
        max_pixels: Larger pictures are shrunk to so many pixels, proportions kept.
        split: Whether InternVL, Idefics3 and SmolVLM also see a large picture in tiles, as the library lets them by
            default; one picture may then take thousands of tokens. Qwen2.5-VL has no tiles.

    Raises:
        ParameterError: An argument is out of range.
        ModelError: The model cannot be loaded or run here.
    """

    reads = "images"

    def __init__(
        self,
        name_or_path: str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        cache_bytes: int = 4 << 30,
        reuse_cache: bool = True,
        max_pixels: int = MAX_PIXELS,
        split: bool = False,
    ) -> None:
        cache_bytes = SIZE.read("cache_bytes", cache_bytes)
        max_pixels = Number(1, 1 << 26, whole=True, strict=True).read("max_pixels", max_pixels)
        model = VisionModel(name_or_path, device=device, dtype=dtype, max_pixels=max_pixels, split=split)
        self.engine = Engine(model, PrefixStore(cache_bytes), reuse_cache)
        self.model, self.store = self.engine.model, self.engine.store
        self._digest = later_digest(name_or_path)
        self._name, self._pictures = f"vision:{name_or_path}", {"max_pixels": max_pixels, "split": split}

    def __repr__(self) -> str:
        return f"VisionScorer({self._name!r})"

    lock = renamed("lock", "engine.lock")
    reuse_cache = renamed("reuse_cache", "engine.reuse_cache")

    @property
    def name(self) -> str:
        """``vision:`` and the name or path that was given."""
        return self._name

    @cached_property
    def run_settings(self) -> dict[str, Any]:
        """What tells it from another model of its name: a run is resumed with the same alone.

        Raises:
            ModelError: A file of the model cannot be read.
        """
        shapes = [self.model.template, self.model.image_processor.to_json_string()]
        return {
            "weights": self._digest(),
            "dtype": str(self.model.dtype),
            "prompts": prompts_digest(self.model.tokenizer, False, shapes),
            **self._pictures,
        }

    @property
    def isolation(self) -> Isolation:
        """By construction: every expert is computed by itself."""
        return Isolation.BY_CONSTRUCTION

    def prepare(self, task: Task, contexts: Sequence[Context]) -> VisionContexts:
        """Reads the demonstrations of every expert, one expert at a time.

        A context with a picture that cannot be decoded, or that is too long for the model, or whose text cannot be kept
        apart from control tokens, is not read; its rows will be NaN.

        Raises:
            TaskError: The task has no images, a label has no tokens, or two labels have the same.
            ModelError: The model's chat template cannot be used, or the device ran out of memory.
        """
        require_images(task, self.name)
        return prepare(self.engine, task, contexts)

    def self_test(self, *, quick: bool = False, told: Callable[[str], None] | None = None) -> SelfTestReport:
        """Checks arithmetic and isolation of this model on this machine, on made-up public pictures.

        (1) Scores equal the model's own forward pass over the same tokens and pictures at once; (2) an expert's scores
        are equal in every bit whatever the other experts hold, and the number and order of questions change no bit;
        (3) another picture gives other scores, and all numbers are finite.

        Args:
            quick: Changes nothing: all of this takes a few passes.
            told: Is given a line before the checks.
        """
        with self.engine.lock:
            if told is not None:
                told("scoring labels: comparing with a plain forward pass, and with other experts beside")
            return run_self_test(self.engine)
