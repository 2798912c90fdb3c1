"""The private side of decoding: experts' rows come in blocks, and one integer sum over public candidates goes out.

Guarantee   The sum is exact and does not depend on the order or the blocks in which rows come, nor is it divided by
            their number: that number is private under add-remove. What one change moves it by follows from the rule's
            width, and stands in ``Scores``.
Assumes     Isolation of the rows (``Stepper.isolation``). The candidates come from public logits alone.
Sources     specification 1.2, 2.4 (denominators), 5.11 (Top-k+), 9.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.experts.clipping import MOST_STEPS, Candidates, Rule, require_torch
from sottovoce.experts.label_scores import FloatArray
from sottovoce.privacy.aggregates import IntArray, Scores
from sottovoce.privacy.unit import Adjacency, ChangeType

if TYPE_CHECKING:
    from torch import Tensor

_IN_CACHE, _ROWS = 1 << 18, 64
"""Numbers worked on at once on a processor, where they stay in its cache; and rows, which fewer are filled up to."""
_ON_DEVICE, _ROWS_ON_DEVICE = 1 << 27, 256
"""The same on an accelerator."""


def candidates_of(
    public: Tensor,
    *,
    top_k: int | None = None,
    margin: float | None = None,
    forbidden_tokens: Tensor | None = None,
    allowed: Tensor | None = None,
) -> Candidates | None:
    """The public candidate set of one token; ``None`` where the public prompt leaves no token to choose from.

    That is no error: which tokens were chosen before decides it, and a failure would tell of them. It ends the text.

    With a margin of 2C this is Top-k+: every token whose public logit is at least l_k - 2C, l_k the k-th largest, which
    holds the top k of every sum of differences clipped to [-C, C] (specification 5.11).

    Args:
        public: Logits of the public prompt, shape (vocabulary,).
        top_k: k; ``None`` for every token with a finite public logit.
        margin: Nats below the k-th largest logit that are let in as well; ``None`` for exactly the first k.
        forbidden_tokens: Tokens that no text may hold.
        allowed: The only tokens that may be chosen, by a public rule such as a grammar; ``None`` for no such rule.
    """
    torch = require_torch()
    logits = torch.nan_to_num(public.float(), nan=-torch.inf, posinf=-torch.inf, neginf=-torch.inf)
    if forbidden_tokens is not None:
        logits = logits.index_fill(0, forbidden_tokens, -torch.inf)
    if allowed is not None:
        logits = torch.full_like(logits, -torch.inf).index_copy(0, allowed, logits.index_select(0, allowed))
    kept = torch.isfinite(logits)
    if top_k is not None and top_k < len(logits):
        best = logits.topk(top_k)
        if margin is None:
            kept &= torch.zeros_like(kept).index_fill_(0, best.indices, True)
        else:
            kept &= logits.double() >= best.values[-1].double() - margin
    ids = kept.nonzero().squeeze(1)
    if not len(ids):
        return None
    return Candidates(None, logits) if len(ids) == len(logits) else Candidates(ids, logits.index_select(0, ids))


def summed(blocks: Iterable[Tensor], public: Candidates, rules: Sequence[Rule]) -> list[IntArray]:
    """Reads every block once and sums it by each rule.

    Args:
        blocks: Logits of experts, each of shape (rows, vocabulary); a row of NaN is a null expert.
        public: The candidates.
        rules: One or more.

    Returns:
        For each rule the sum in grid steps, shape (candidates,), int64. Private.
    """
    torch = require_torch()
    with torch.inference_mode():
        totals: list[Tensor] = [torch.zeros_like(public.logits, dtype=torch.int64) for _ in rules]
        outside = torch.zeros_like(public.logits[0], dtype=torch.bool)
        for block in blocks:
            for at, rule in enumerate(rules):
                filled = _rows_at_once(block, public, rule)
                for part in torch.split(block, filled):
                    steps = rule.on_grid(part, public, filled=filled)
                    least, most = torch.aminmax(steps)
                    outside |= ~((least >= rule.low) & (most <= rule.high))
                    if rule.most_in_total is not None:
                        outside |= steps.sum(1).amax() > rule.most_in_total
                    # Entries and partial sums are whole and at most 2**24: float32 adds them exactly in any order.
                    totals[at] += steps.sum(0).to(torch.int64)
        if bool(outside):
            raise AssertionError("an expert left its interval")
        return [np.asarray(total.cpu().numpy()) for total in totals]


def thinned(block: Tensor, drawn: Sequence[bool]) -> Tensor:
    """A copy of a block in which the experts that were not drawn are null experts.

    Args:
        block: Shape (rows, vocabulary).
        drawn: One a row.
    """
    lost = block.new_tensor([not kept for kept in drawn]).bool()
    return block.masked_fill(lost[:, None], float("nan"))


def scores_of(
    sums: IntArray, rule: Rule, change: ChangeType, adjacency: Adjacency, squared_l2: int | None = None
) -> Scores:
    """A sum with the bound on its change."""
    return Scores(sums, sensitivity=rule.width * change.widths, adjacency=adjacency, squared_l2=squared_l2)


def log_prior_of(public: Candidates, temperature: float) -> FloatArray:
    """The public logits over the temperature as log-weights of the candidates, shape (candidates,), float64.

    The best is 0, so that some candidate stays in play at every temperature. Minus infinity takes one out.
    """
    logits = public.logits.double().cpu().numpy()
    with np.errstate(over="ignore"):
        return np.asarray((logits - logits.max()) / temperature)


def tensor_of(tokens: Sequence[int] | Tensor, like: Tensor) -> Tensor:
    """Tokens as indices on the device of ``like``. A tensor is taken as it is.

    Raises:
        ParameterError: One of them does not exist.
    """
    torch = require_torch()
    if isinstance(tokens, torch.Tensor):
        converted: Tensor = tokens.to(device=like.device, dtype=torch.int64)
        return converted
    if any(not 0 <= token < like.shape[0] for token in tokens):
        raise ParameterError("tokens", "a number out of range", f"from 0 to {like.shape[0] - 1}")
    indices: Tensor = torch.tensor(sorted(set(tokens)), dtype=torch.int64, device=like.device)
    return indices


def _rows_at_once(block: Tensor, public: Candidates, rule: Rule) -> int:
    """A function of public numbers: how many experts there are is none."""
    wide = block.shape[1] if rule.whole_rows else len(public)
    numbers, rows = (_IN_CACHE, _ROWS) if block.device.type == "cpu" else (_ON_DEVICE, _ROWS_ON_DEVICE)
    return max(1, min(numbers // wide, rows, MOST_STEPS // max(rule.high, -rule.low)))
