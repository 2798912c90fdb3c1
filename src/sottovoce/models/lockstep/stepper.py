"""Any causal language model of the transformers library, one shared token a step for many prompts: ``hf:NAME_OR_PATH``.

Isolation    Prompts are read one at a time. Public prompts are computed apart from experts'. Writing, layout ``rows``
             puts each prompt of each text into a row of a pass that always has as many rows, filled up where experts
             are fewer; a self-test at the very shapes that are used decides whether rows keep apart (specification
             9.6, ii). Layout ``single`` runs one row at a time (9.6, i). ``auto`` takes ``rows`` where the self-test
             passes. A mixture of experts counts as not passing, whatever its bits are. See decision 0013.
Exactness    The first use compares logits with the model's own plain forward pass, and refuses a model whose layers
             this engine does not understand.
Assumes      ``before`` and ``after`` of a prompt are public, the same for all experts of a group. Time and memory use
             are not protected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Final, final

from sottovoce.deprecated import renamed
from sottovoce.errors import MissingExtraError, ModelError
from sottovoce.models.base import Isolation
from sottovoce.models.stepper import Group

try:
    import torch as _torch  # noqa: F401
    import transformers as _transformers  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError(error.name or "transformers", "local") from None

from sottovoce.models.huggingface.causal_model import CausalModel, Loaded, quiet
from sottovoce.models.huggingface.files import later_digest, prompts_digest
from sottovoce.models.huggingface.foresight import Foresight, foresee
from sottovoce.models.huggingface.token_bytes import token_bytes
from sottovoce.models.huggingface.verdicts import Verdicts
from sottovoce.models.lockstep.decoding import GroupRead
from sottovoce.models.lockstep.memory import sealed
from sottovoce.models.lockstep.model import LockstepModel
from sottovoce.models.lockstep.packed import MOST_BYTES
from sottovoce.models.lockstep.prefill import LockstepPrompts
from sottovoce.models.lockstep.prompts import PromptParts
from sottovoce.models.lockstep.selftest import (
    LockstepReport,
    Shape,
    prefix_digest,
    rows_keep_apart,
    run_self_test,
    shape_of,
)
from sottovoce.models.lockstep.workspace import Workspace
from sottovoce.parameters import COUNT, SIZE, Number, OneOf

LAYOUTS: Final = ("auto", "rows", "single")
LOGIT_BYTES: Final = {"cpu": 64 << 20, "cuda": 512 << 20}
"""Most bytes of logits that are held at once."""
ROWS: Final = {"cpu": 64, "cuda": 256}
"""Rows of a pass: enough to use the processor, few enough that filling up costs little."""
PANEL_ROWS: Final = {"cpu": 16, "cuda": 64}
"""Rows of a panel; a power of two."""


@final
class TransformersStepper:
    """Writes with a causal language model, many prompts in lockstep.

    Args:
        name_or_path: A folder that holds a model and its tokenizer, a name on the hub, or a GGUF file (its path, or
            ``REPO:FILE.gguf``). Remote code is never run.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:i``.
        dtype: ``auto`` (float32 on the CPU, bfloat16 on CUDA), ``float32``, ``bfloat16``; ``float16`` on CUDA only.
        cache_bytes: Cap for the keys and values of prompts and texts. What needs more is refused before it is read.
        rows: Rows of every forward pass over experts: prompts times texts side by side. By default 64, and 256 on CUDA.
        layout: ``rows``, ``single`` or ``auto``, as said above.
        chat: Whether a prompt is a user's turn in the tokenizer's chat template; ``None`` where it has one. By
            default a prompt is a text to be continued: put as a question, an assistant answers it instead.
        loaded: A tokenizer and a model that are in memory already, to be used as they are; ``name_or_path`` is then its
            name alone, and ``auto`` its own device and dtype. The model is set to evaluation and frozen.
        named: What ``name`` says, where it is not ``hf:`` and the name or path.
        packed_bytes: Most bytes of matrices that are copied into the processor's own order; larger models, other dtypes
            than float32 and CUDA are multiplied as they are.

    Attributes:
        engine: The model.
        workspace: What prompts, texts and self-tests share: the model, memory, rows of passes.
        parts: What turns prompts into tokens.

    Raises:
        ParameterError: An argument is out of range.
        ModelError: The model cannot be loaded or run here.
    """

    def __init__(
        self,
        name_or_path: str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        cache_bytes: int = 4 << 30,
        rows: int | None = None,
        layout: str = "auto",
        chat: bool | None = False,
        loaded: Loaded | None = None,
        named: str | None = None,
        packed_bytes: int = MOST_BYTES,
    ) -> None:
        OneOf(LAYOUTS).read("layout", layout)
        rows = rows if rows is None else Number(1, 1 << 16, whole=True, strict=True).read("rows", rows)
        cache_bytes, packed_bytes = SIZE.read("cache_bytes", cache_bytes), SIZE.read("packed_bytes", packed_bytes)
        model = CausalModel(name_or_path, device=device, dtype=dtype, loaded=loaded)
        engine = LockstepModel(model, packed_bytes)
        self.parts = PromptParts(model.tokenizer, chat=chat, more_ends=_stated_ends(model))
        self._name, self._layout = named or f"hf:{name_or_path}", layout
        self._tokenizer = model.tokenizer
        self._digest, self._dtype = later_digest(name_or_path, loaded), str(model.dtype)
        kind = model.device.type
        rows = rows or ROWS[kind]
        head_rows = min(rows, max(1, LOGIT_BYTES[kind] // (4 * engine.vocabulary)))
        panel_rows = 1 << min(rows, PANEL_ROWS[kind]).bit_length() - 1
        self.workspace, self.engine = Workspace(engine, cache_bytes, rows, head_rows, panel_rows), engine
        self._report: LockstepReport | None = None
        self._tried: dict[Shape, bool] = {}
        self._found: dict[str, bool] = {}
        self._told: Callable[[str], None] = lambda _: None
        arguments = {"dtype": str(model.dtype), "rows": rows, "packed": engine.packed, "layout": layout}
        self._verdicts = None if loaded else Verdicts(name_or_path, model.device, arguments)
        self._kept: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"TransformersStepper({self._name!r})"

    memory = renamed("memory", "workspace.memory")
    lock = renamed("lock", "workspace.lock")

    @property
    def name(self) -> str:
        """``hf:`` and the name or path that was given, or what it was to be named."""
        return self._name

    @cached_property
    def run_settings(self) -> dict[str, Any]:
        """What tells it from another model of its name: a run is resumed with the same alone.

        Raises:
            ModelError: A file of the model cannot be read.
        """
        return {
            "weights": self._digest(),
            "dtype": self._dtype,
            "chat": self.parts.chat,
            "prompts": prompts_digest(self._tokenizer, self.parts.chat, self.eos_tokens),
        }

    @property
    def layout(self) -> str:
        """The layout in use: ``rows`` or ``single``."""
        self._settle()
        return self.workspace.layout or "single"

    @property
    def isolation(self) -> Isolation:
        """By construction where every row is run by itself; else what the self-test found here, so far.

        Prompts and texts of a shape that was not tried yet are tried before they are written, and this is then what it
        says of them too. A rehearsal with public prompts alone has the shapes of the run.
        """
        if self.layout == "single":
            return Isolation.BY_CONSTRUCTION
        return Isolation.TESTED if self._rows_hold() and all(self._tried.values()) else Isolation.NOT_VERIFIED

    @property
    def shapes(self) -> Sequence[Shape]:
        """The shapes at which rows were compared so far; none in the layout ``single``."""
        return sorted({*self.self_test().shapes, *self._tried}) if self.layout == "rows" else ()

    @property
    def vocabulary(self) -> int:
        """Number of tokens, which is the width of the model's logits."""
        return self.engine.vocabulary

    @property
    def eos_tokens(self) -> Sequence[int]:
        """Tokens that end a text: the tokenizer's, the model's own list, and what ends an answer in a chat."""
        return self.parts.eos_tokens

    @property
    def forbidden_tokens(self) -> Sequence[int]:
        """Control tokens other than ``eos_tokens``, and rows of the head without a token that can be written."""
        known = min(len(self.engine.model.tokenizer), self.engine.model.words)
        controls = {token for token in self.parts.controls if token < self.vocabulary} | set(
            range(known, self.vocabulary)
        )
        return sorted(controls - set(self.eos_tokens))

    @property
    def rows(self) -> int:
        """Rows of every forward pass over experts in the layout in use."""
        self._settle()
        return self.workspace.rows

    @property
    def head_rows(self) -> int:
        """Rows of every product of experts' states with the output head."""
        self._settle()
        return self.workspace.head_rows

    @property
    def panel_rows(self) -> int:
        """Most rows of a panel, a power of two."""
        self._settle()
        return self.workspace.panel_rows

    def encode(self, text: str) -> Sequence[int]:
        """Tokens of a public text, none of them a control token.

        Raises:
            ModelError: It cannot be kept apart from control tokens.
        """
        return self.parts.public(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of released tokens, without the end."""
        kept = [token for token in tokens if token not in self.parts.controls]
        return str(self.engine.model.tokenizer.decode(kept, clean_up_tokenization_spaces=False))

    def token_bytes(self) -> Sequence[bytes]:
        """What each token adds to a text; see ``Stepper.token_bytes``.

        Raises:
            MissingExtraError: llguidance is not installed.
            ModelError: The tokenizer does not decode token by token.
        """
        silent = {*self.parts.controls, *self.forbidden_tokens}
        return token_bytes(self.engine.model.tokenizer, self.vocabulary, silent)

    def read(self, groups: Sequence[Group], *, max_private_tokens: int, tokens: int) -> LockstepPrompts:
        """Reads all prompts, one at a time.

        A private text that cannot be kept apart from control tokens is not read; its rows are NaN.

        Raises:
            ModelError: They do not fit into the model's positions, or into ``cache_bytes``; the model cannot be run.
            ParameterError: A number is below 1, or experts of one group have different public text.
        """
        max_private_tokens = COUNT.read("max_private_tokens", max_private_tokens)
        tokens = COUNT.read("tokens", tokens)
        with self.workspace.lock:
            self._settle()
            prompts = LockstepPrompts(
                self.workspace, groups, max_private_tokens, tokens, self.parts.tokens, self.try_shapes
            )
            try:
                self.try_shapes(((group, 1) for group in prompts.groups), tokens)
            except BaseException:
                prompts.close()
                raise
            return prompts

    def try_shapes(self, groups: Iterable[tuple[GroupRead, int]], tokens: int) -> None:
        """Compares rows at the shapes of these groups, each with so many texts in a panel, where that was not done yet.

        Where they differ, ``auto`` runs one row at a time from now on, and ``rows`` is not verified.
        """
        for group, texts in groups:
            if self.layout == "single":
                return
            shape = shape_of(self.workspace, group, texts, tokens)
            if shape in self._tried:
                continue
            # Kept verdicts go by all that the comparison is computed from: of the group that is the prefix alone.
            key = f"{shape} {prefix_digest(group)}"
            kept = self._kept_verdict().get("shapes", {}).get(key)
            if kept is None:
                self._told(f"comparing rows at {shape}")
                with self.workspace.unlimited(), sealed(), quiet():
                    kept = rows_keep_apart(self.workspace, group, shape)
            self._tried[shape] = self._found[key] = kept
            if self._layout == "auto" and not self._tried[shape]:
                self.workspace.layout = "single"

    def self_test(self) -> LockstepReport:
        """Checks exactness and isolation of this model on this machine, on made-up public text; run once."""
        with self.workspace.lock:
            if self._report is None and (kept := self._kept_verdict().get("report")):
                self._report = LockstepReport(**{**kept, "shapes": tuple(Shape(**shape) for shape in kept["shapes"])})
            if self._report is None:
                self._told("comparing logits in lockstep with a plain pass, and rows at two small shapes")
                chosen, self.workspace.layout = self.workspace.layout, "rows"
                try:
                    with self.workspace.unlimited(), quiet():
                        self._report = run_self_test(self.workspace)
                finally:
                    self.workspace.layout = chosen
            return self._report

    def foresight(self) -> Foresight:
        """What running it will take, from one pass over public tokens."""
        with self.workspace.lock:
            return foresee(self.engine.model)

    def check(self, told: Callable[[str], None]) -> None:
        """From now on nothing kept is used, and what is tried is told of; ``keep_verdict`` keeps what was found."""
        self._told, self._kept, self._report = told, {}, None

    def keep_verdict(self) -> None:
        """Keeps what the self-tests found so far, for runs under the very same conditions; see ``verdicts``.

        Raises:
            OSError: The store cannot be written.
            ModelError: A file of the model cannot be read.
        """
        if self._verdicts is not None:
            self._verdicts.keep("writing", {"report": asdict(self.self_test()), "shapes": self._found})

    def _kept_verdict(self) -> Mapping[str, Any]:
        if self._kept is None:
            self._kept = (self._verdicts.find("writing") if self._verdicts else None) or {}
        return self._kept

    def _rows_hold(self) -> bool:
        return not self.engine.mixes and self.self_test().isolated

    def _settle(self) -> None:
        """Chooses the layout and refuses a model that is not understood, once."""
        with self.workspace.lock:
            if self.workspace.layout is not None:
                return
            if not self.self_test().exact:
                raise ModelError(
                    f"The model {self._name!r} does not give its own logits when prompts go in lockstep, so it is not "
                    "used. Its attention is of a kind that is not supported; use another model."
                )
            rows = self._layout == "rows" or (self._layout == "auto" and self._rows_hold())
            self.workspace.layout = "rows" if rows else "single"


def _stated_ends(model: CausalModel) -> list[int]:
    """Ends that the model's settings for writing name."""
    stated = getattr(getattr(model.model, "generation_config", None), "eos_token_id", None)
    return list(stated) if isinstance(stated, list | tuple) else [] if stated is None else [int(stated)]
