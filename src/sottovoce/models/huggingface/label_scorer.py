"""Any causal language model of the transformers library as a label scorer: ``hf:NAME_OR_PATH``.

Isolation    Prefixes (instruction and demonstrations) are always read one expert at a time. Layout ``queries`` also
             scores one expert at a time, its rows being questions, so no number of an expert ever shares a
             computation with another expert's text: isolated by construction (spec 9.6, i). Layout ``experts`` puts
             one expert in each row of a batch. How long its rows are follows from how long the experts' own texts
             are, so its shapes cannot be tried before private texts are read: it has no guarantee (decision 0013).
Invariance   How many rows a batch has follows from their length alone, and a question's length is rounded up by itself.
             Where the kernels of the machine compute rows independently, which the self-test measures, the number of
             questions and their order then change no bit of any value. Where they do not (mixtures of experts, some
             kernels), values may differ in the last digits between batches of *public* questions, which costs no
             privacy.
Assumes      Labels, templates and questions are public. Time and memory use are not protected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, final

from sottovoce.deprecated import renamed
from sottovoce.errors import MissingExtraError, ParameterError
from sottovoce.models.base import Context, Isolation, require_text
from sottovoce.tasks import Query, Task

try:
    import torch as _torch  # noqa: F401
    import transformers as _transformers  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError(error.name or "transformers", "local") from None

from sottovoce.models.huggingface.causal_model import CausalModel, Loaded
from sottovoce.models.huggingface.contexts import HFContexts, prepare
from sottovoce.models.huggingface.engine import Engine
from sottovoce.models.huggingface.files import later_digest, prompts_digest
from sottovoce.models.huggingface.foresight import Foresight, foresee
from sottovoce.models.huggingface.hidden_states import HiddenStates
from sottovoce.models.huggingface.prefix_cache import PrefixStore
from sottovoce.models.huggingface.selftest import SelfTestReport, run_self_test
from sottovoce.models.huggingface.verdicts import Verdicts
from sottovoce.parameters import SIZE, Number, OneOf

LAYOUTS = ("auto", "queries", "experts")
SCORES = ("labels", "vocabulary")
PASS_TOKENS, LENGTH_STEP = 32, 4
"""Shape of a pass on the CPU: a question alone costs one row or two, and many reach half of a plain pass's speed or
more at any length (``docs/results/real-checkpoint.md``)."""


@final
class TransformersScorer:
    """Scores labels with a causal language model.

    Args:
        name_or_path: A folder that holds a model and its tokenizer, a name on the hub, or a GGUF file (its path, or
            ``REPO:FILE.gguf``). Remote code is never run.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:i``.
        dtype: ``auto`` (float32 on the CPU, bfloat16 on CUDA), ``float32``, ``bfloat16``; ``float16`` on CUDA only.
        cache_bytes: Cap for the keys and values of prefixes that are kept between questions. What does not fit is read
            again whenever it is needed.
        reuse_cache: ``False`` reads each prefix again with every question: slow, for comparison only.
        rows: Rows of every forward pass; by default 32 on CUDA, and on the CPU as many as make up 32 tokens: one for
            all but short questions. Rows left over are computed and thrown away.
        score: ``labels`` chooses among the labels only, token by token, and multiplies only their rows of the output
            head; the labels' probabilities sum to 1. ``vocabulary`` gives each label its probability among all texts;
            they sum to less than 1.
        layout: ``queries`` (one expert at a time), which ``auto`` is too, or ``experts`` (one expert in each row): it
            is faster for few questions on CUDA, and has no guarantee.
        chat: Whether questions are turns in the tokenizer's chat template; ``None`` where it has one.
        loaded: A tokenizer and a model that are in memory already, to be used as they are;
            ``name_or_path`` is then its name alone, and ``auto`` its own device and dtype. The model is set to
            evaluation and frozen.

    Raises:
        ParameterError: An argument is out of range.
        ModelError: The model cannot be loaded or run here.
    """

    reads = "texts"

    def __init__(
        self,
        name_or_path: str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        cache_bytes: int = 4 << 30,
        reuse_cache: bool = True,
        rows: int | None = None,
        score: str = "labels",
        layout: str = "auto",
        chat: bool | None = None,
        loaded: Loaded | None = None,
    ) -> None:
        OneOf(SCORES).read("score", score)
        OneOf(LAYOUTS).read("layout", layout)
        if layout == "experts" and not reuse_cache:
            raise ParameterError("reuse_cache", reuse_cache, "True with layout 'experts'")
        rows = rows if rows is None else Number(1, 4096, whole=True, strict=True).read("rows", rows)
        cache_bytes = SIZE.read("cache_bytes", cache_bytes)
        model = CausalModel(name_or_path, device=device, dtype=dtype, loaded=loaded)
        self.on_cuda = model.device.type == "cuda"
        by_length = rows is None and not self.on_cuda
        self.rows = rows or (32 if self.on_cuda else PASS_TOKENS // LENGTH_STEP)
        self.layout = "queries" if layout == "auto" else layout
        store = PrefixStore(cache_bytes)
        self.engine = Engine(
            model, store, reuse_cache, self.rows, score == "labels", self.layout, chat,
            pass_tokens=PASS_TOKENS if by_length else None, length_step=LENGTH_STEP if by_length else 8,
        )  # fmt: skip
        self.model, self.store = self.engine.model, self.engine.store
        self._digest = later_digest(name_or_path, loaded)
        self._name, self._loaded, self._score = f"hf:{name_or_path}", loaded, score
        arguments = {
            "dtype": str(model.dtype), "rows": self.rows, "pass_tokens": self.engine.pass_tokens,
            "layout": self.layout, "score": score, "chat": chat, "reuse_cache": reuse_cache,
        }  # fmt: skip
        self._verdicts = None if loaded else Verdicts(name_or_path, model.device, arguments)
        self._placed = {"device": device, "dtype": dtype}

    def __repr__(self) -> str:
        return f"TransformersScorer({self._name!r})"

    lock = renamed("lock", "engine.lock")
    reuse_cache = renamed("reuse_cache", "engine.reuse_cache")
    restricted = renamed("restricted", "engine.restricted")

    @property
    def name(self) -> str:
        """``hf:`` and the name or path that was given."""
        return self._name

    @cached_property
    def run_settings(self) -> dict[str, Any]:
        """What tells it from another model of its name: a run is resumed with the same alone.

        Raises:
            ModelError: A file of the model cannot be read.
        """
        template = bool(getattr(self.model.tokenizer, "chat_template", None))
        chat = template if self.engine.chat is None else self.engine.chat
        return {
            "weights": self._digest(),
            "dtype": str(self.model.dtype),
            "chat": chat,
            "prompts": prompts_digest(self.model.tokenizer, chat),
            "score": self._score,
        }

    @property
    def isolation(self) -> Isolation:
        """By construction where every expert is computed by itself."""
        return Isolation.BY_CONSTRUCTION if self.layout == "queries" else Isolation.NOT_VERIFIED

    def embedder(
        self, *, layer: int | str | None = None, pooling: str = "mean", tokens: int | str | None = None
    ) -> HiddenStates:
        """The same model as one that embeds texts, too, by its hidden states.

        Args:
            layer: From 1 to the number of layers; by default two thirds of the way up.
            pooling: ``mean`` over a text's tokens, or the ``last`` one.
            tokens: How many tokens of a text are read at most; by default 512, or as many as the model can read.

        Raises:
            ParameterError: There is no such layer or pooling, or the model cannot read so many tokens.
            ModelError: The model gives no hidden states, or its chat template cannot be used.
        """
        path = self._name.removeprefix("hf:")
        placed = None if self._loaded else self._placed
        return HiddenStates(self, self.engine, path, self._digest, placed, layer=layer, pooling=pooling, tokens=tokens)

    def prepare(self, task: Task, contexts: Sequence[Context]) -> HFContexts:
        """Reads the demonstrations of every expert, one expert at a time.

        A context that is too long for the model, or whose text cannot be kept apart from control tokens, is not read;
        its rows will be NaN.

        Raises:
            TaskError: A label has no tokens, or two labels have the same.
            ModelError: The model's chat template cannot be used, or the device ran out of memory.
        """
        require_text(task, self.name)
        return self.prepare_in(task, contexts, self.layout)

    def prepare_in(self, task: Task, contexts: Sequence[Context], layout: str) -> HFContexts:
        """``prepare`` in a given layout."""
        return prepare(self.engine, task, contexts, layout)

    def self_test(self, *, quick: bool = False, told: Callable[[str], None] | None = None) -> SelfTestReport:
        """Checks arithmetic of this model on this machine, and which rows keep apart, on made-up public text.

        (1) Scores equal a plain forward pass over the same tokens; (2) in both layouts an expert's scores are equal in
        every bit whatever the other experts hold, and the number and order of questions change no bit; (3) all numbers
        are finite. In layout ``experts`` (2) is an observation at the lengths that were tried, and no guarantee.

        Args:
            quick: Looks at the layout in use alone.
            told: Is given a line before each check.
        """
        with self.engine.lock:
            return run_self_test(self.engine, quick=quick, told=told)

    def foresight(self) -> Foresight:
        """What running it will take, from one pass over public tokens."""
        with self.engine.lock:
            return foresee(self.engine.model)

    def pass_tokens(self, task: Task, queries: Sequence[Query], batch: int) -> int:
        """Tokens of the passes over questions behind one expert's prompt, so many questions at a time.

        Raises:
            TaskError: As ``prepare``.
            ModelError: As ``prepare``.
        """
        bare = self.prepare(task, [()])
        try:
            return sum(bare.pass_tokens(queries[start : start + batch]) for start in range(0, len(queries), batch))
        finally:
            bare.close()

    @property
    def note(self) -> str:
        """What a kept self-test found wrong; empty where it passed or none was kept."""
        kept = (self._verdicts.find("scoring") if self._verdicts else None) or {"failed": []}
        if not kept["failed"]:
            return ""
        return (
            f"The self-test of {self.name} failed here ({', '.join(kept['failed'])}); repeat it with: "
            f"sotto models check {self.name}"
        )

    def keep_verdict(self, report: SelfTestReport) -> None:
        """Keeps what a self-test found, for runs under the very same conditions; see ``verdicts``.

        Raises:
            OSError: The store cannot be written.
            ModelError: A file of the model cannot be read.
        """
        failed = [check.name for check in report.checks if check.required and not check.passed]
        if self._verdicts is not None:
            self._verdicts.keep("scoring", {"failed": failed})
