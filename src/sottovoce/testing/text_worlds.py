"""Small worlds for methods that write texts: two tokens and an end, what experts may say of them, and the road.

A record's text names what its expert says of the next token, and its label the batch that it is in.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.experts.batches import Batches
from sottovoce.experts.clipping import Candidates, require_torch
from sottovoce.generation import GenerationTemplate
from sottovoce.methods.decoding.decoder import DecodingPlan, TokenSampler
from sottovoce.methods.decoding.selecting import SelectingDecoder, exponential
from sottovoce.models.fake import FakeStepper
from sottovoce.models.stepper import Step
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.unit import SWAP, Adjacency
from sottovoce.randomness import Randomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Task
from sottovoce.testing.draw_tape import Draw, Tape, needs_noise, running
from sottovoce.testing.draws import mixture
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.ladders import ladders

if TYPE_CHECKING:
    from torch import Tensor

FloatArray = NDArray[np.float64]
INF: Final = math.inf
NAN: Final = math.nan

PIECES: Final = ("x ", "y ")
TOKENS: Final = len(PIECES) + 1
"""Two pieces and the end; the control token behind them is never a candidate."""
LABELS: Final = ("one", "two")
WRITING: Final = GenerationTemplate.of(Task(labels=LABELS))

SAYINGS: Final[Mapping[str, tuple[float, ...]]] = {
    "X": (60.0, 0.0, 0.0),
    "Y": (0.0, 60.0, 0.0),
    "E": (0.0, 0.0, 2.0),
    "I": (-INF, 1.0, 0.5),
    "U": (-9.0, 0.0, -1.0),
    "N": (NAN, NAN, NAN),
}
"""What an expert says of the first token: sharp, mild, an impossible token, the public row itself, nothing."""
ENDS: Final = "END"
"""An expert that is sure of the end; it speaks in single steps alone."""
FAILURES: Final = {"?": "that cannot be read", "!": "on which the model raises"}
"""Ways in which a model can fail on one prompt."""
PUBLIC: Final = (-9.0, 0.0, -1.0)

PUBLIC_ROWS: Final[Sequence[tuple[float, ...]]] = (
    (0.0,) * TOKENS,
    (0.0, *(-50.0,) * (TOKENS - 1)),
    (*(-9.0,) * (TOKENS - 1), 0.0),
)
"""What else the model may say without records: flat, sure of the first token, sure of the end."""

LATER_TEXTS: Final = (1, 6)
"""Numbers of texts beyond the first one. A number is as public as the model's own row."""

BACKGROUNDS: Final[Sequence[tuple[str, ...]]] = ((), ("X",), ("Y", "U"), ("N",))
"""What other experts say, beside the one that changes."""
CROWD: Final = ("X",) * 5 + ("Y",) * 4
"""Other experts in a crowd, beside which scores alone are compared."""

WIDE: Final = 100
"""Pieces of a wide step. Behind them are an end and a control token."""
WIDE_SAYINGS: Final[Mapping[str, Callable[[int], float]]] = {
    "low half": lambda token: 30.0 * (token < WIDE // 2),
    "high half": lambda token: 30.0 * (token >= WIDE // 2),
    "one token": lambda token: 30.0 * (token == 0),
    "flat": lambda token: 0.0,
    "N": lambda token: NAN,
}
"""What an expert says of a wide step: half of all tokens move at once, so that a norm is far more than a range."""
WIDE_RESTS: Final[Sequence[tuple[str, ...]]] = ((), ("low half", "one token"))
"""What other experts say there."""

Unit = tuple[str, str]
"""A saying, and a label."""
DataSet = tuple[Unit, ...]


def logits(prompt: Any, text: Sequence[int]) -> Sequence[float] | None:
    """Logits of the tokens, the control token the likeliest. What an expert says turns with the text."""
    names = [name for name in SAYINGS if f"<{name}>" in prompt.private_text]
    if "<!>" in prompt.private_text:
        raise RuntimeError("the model cannot read this prompt")
    if "<?>" in prompt.private_text:
        return None
    if not names:
        return [*PUBLIC, 9.0]
    speaking = [name for name in SAYINGS if name != "N"]
    if names[0] == "N":
        return [*SAYINGS["N"], 9.0]
    turn = speaking.index(names[0]) + sum(1 + token for token in text)
    return [*SAYINGS[speaking[turn % len(speaking)]], 9.0]


def data_sets(adjacency: Adjacency, most: int, home: int = 0) -> Iterator[tuple[list[DataSet], list[tuple[int, int]]]]:
    """Data sets with the pairs among them that are neighbours, small ones first; labels are private and may change.

    Args:
        adjacency: The relation.
        most: Most units that stay as they are.
        home: Number of the label that units have, but for those that move to the other one.
    """
    units: list[Unit] = [(name, LABELS[home]) for name in SAYINGS]
    moved: list[Unit] = [("X", LABELS[1 - home]), ("Y", LABELS[1 - home])]
    rests: list[DataSet] = [(), (units[0],), (units[1],), (units[0],) * 3, (units[0], units[1])]
    for rest in rests[: most + 1]:
        worlds: list[DataSet] = [(*rest, unit) for unit in units]
        if adjacency is Adjacency.REPLACE_ONE:
            worlds += [(*rest, unit) for unit in moved]
            yield worlds, [(i, j) for i in range(len(worlds)) for j in range(i)]
        elif adjacency is Adjacency.ZERO_OUT:
            yield [*worlds, (*rest, ("", ""))], [(i, len(worlds)) for i in range(len(worlds))]
        elif rest:
            yield [*worlds, rest], [(i, len(worlds)) for i in range(len(worlds))]


def alike(adjacency: Adjacency) -> list[tuple[str, str, DataSet, DataSet]]:
    """Pairs of data sets that must have one law: each with the contract that says so, and what a difference shows.

    They differ by the order of their records, by a prompt that failed, and where that is private by a null expert.
    """
    x, y, null = ("X", LABELS[0]), ("Y", LABELS[0]), ("N", LABELS[0])
    pairs: list[tuple[str, str, DataSet, DataSet]] = [
        ("order", "the order of the records changes its law", (x, y, y), (y, x, y))
    ]
    for name, how in FAILURES.items():
        pairs.append(("failures", f"a prompt {how} is no null expert", (x, null), (x, (name, LABELS[0]))))
    if adjacency is Adjacency.ADD_REMOVE:
        pairs.append(("null expert", "an expert that says nothing changes its law", (x, y), (x, y, null)))
    return pairs


def records_of(data: DataSet) -> PrivateRecords:
    """Sealed records; an empty unit is a blank."""
    rows = [
        Row(number, {"id": f"r{number}", **({"text": f"<{name}>", "label": label} if label else {})})
        for number, (name, label) in enumerate(data, 1)
    ]
    return PrivateRecords(rows, source="a world", synthetic=True)


class Scene:
    """A data set as its batches' prompts, read by a model made of a function, by the package's own road.

    Args:
        data: The units.
        adjacency: The relation.
        tokens: Most tokens of a text.
        model: The model.
    """

    def __init__(self, data: DataSet, adjacency: Adjacency, tokens: int, model: FakeStepper | None = None) -> None:
        records = records_of(data)
        records = records.with_public_size() if adjacency.size_is_public else records
        batches = Batches(records, WRITING, per_label=1, adjacency=adjacency, randomness=seeded(1))
        self.model = model or FakeStepper(logits, pieces=PIECES)
        self._read = self.model.read(batches.groups(), max_private_tokens=40, tokens=tokens)
        self._tokens = tokens
        self._kept: dict[tuple[int, tuple[int, ...]], tuple[Tensor, Tensor]] = {}

    def step(self, batch: int, text: tuple[int, ...], *, whole: bool = False) -> Step:
        """A batch's scores of the token behind a text; a text has the number of its batch, as in a round of a run.

        Args:
            batch: Its number.
            text: Tokens so far.
            whole: Whether the experts come in one block, which is quicker.
        """
        if (batch, text) not in self._kept:
            decoding = self._read.write([batch], self._tokens)
            try:
                [step] = decoding.step({0: None})
                for token in text:
                    list(step.blocks)
                    [step] = decoding.step({0: token})
                rows = [step.public.new_empty(0, len(step.public)), *(block.clone() for block in step.blocks)]
                self._kept[batch, text] = (step.public.clone(), require_torch().cat(rows))
            finally:
                decoding.close()
        public, experts = self._kept[batch, text]
        return Step(batch, public, in_blocks(experts, len(experts) if whole else 1))


def in_blocks(rows: Tensor, first: int = 1) -> Iterator[Tensor]:
    """Rows of experts as a model hands them out: in blocks, each twice as large as the last, which it overwrites.

    Args:
        rows: Shape (experts, vocabulary). They stay as they are.
        first: Rows of the first block.
    """
    room, start, size = rows.clone(), 0, max(1, first)
    while start < len(rows):
        block = room[: min(size, len(rows) - start)]
        if start:
            block.copy_(rows[start : start + size])
        yield block
        start, size = start + size, 2 * size


def step_beside(public: Sequence[float], sayings: Sequence[str], text: int = 0) -> Step:
    """Scores of a text's first token by experts that say these, beside a public row; the control token is likeliest."""
    tensor = require_torch().tensor
    spoken = {**SAYINGS, ENDS: (0.0, 0.0, 60.0)}
    rows = tensor([[*spoken[name], 9.0] for name in sayings]).reshape(len(sayings), len(public) + 1)
    return Step(text, tensor([*public, 9.0]), in_blocks(rows))


def wide_step(sayings: Sequence[str]) -> Step:
    """Scores of a first token among many, beside a flat public row; the control token is likeliest."""
    tensor = require_torch().tensor
    rows = [[*map(WIDE_SAYINGS[name], range(WIDE + 1)), 9.0] for name in sayings]
    return Step(0, tensor([0.0] * (WIDE + 1) + [9.0]), in_blocks(tensor(rows).reshape(len(rows), WIDE + 2)))


WORDS: Final = 6
"""Tokens of a random step: four pieces, an end, and a control token."""


def climbed(plan: DecodingPlan) -> Iterator[list[tuple[str, ...]]]:
    """Crowds in which fewer and fewer experts are sure of the first token; neighbours in the list differ by one."""
    comes = plan.setting.adjacency is Adjacency.ADD_REMOVE
    yield from ladders("X", "Y", "N", swaps=plan.setting.change is SWAP, comes=comes)


def random_step(dice: Randomness, most: int, text: int = 0) -> Callable[[], Step]:
    """The scores of a token by up to ``most`` experts, which can be read more than once: ties and crowds among them."""
    tensor = require_torch().tensor

    scale = (60.0, 9.0, 2.0, 0.3)[dice.below(4)]

    def row(scale: float) -> list[float]:
        return [*(scale * dice.below(1001) / 1000 for _ in range(WORDS - 1)), 9.0]

    distinct, public = [row(scale) for _ in range(1 + dice.below(3))], row(3.0)
    distinct += [[*values[-2::-1], 9.0] for values in distinct if dice.below(2)]
    distinct += [[-INF, *row(2.0)[1:]], [NAN] * WORDS, public]
    if dice.below(4) == 0:  # all are for one token, whose lead is long
        favourite = dice.below(WORDS - 1)
        distinct = [[*(scale * (token == favourite) for token in range(WORDS - 1)), 9.0]]
    rows = [distinct[dice.below(len(distinct))] for _ in range(dice.below(most + 1))]
    return lambda: Step(text, tensor(public), in_blocks(tensor(rows).reshape(len(rows), WORDS)))


@final
class _Told:
    """Tells every selection among the candidates of a token which one is chosen.

    Attributes:
        draws: Numbers of the draws that were told.
    """

    def __init__(self) -> None:
        self._index, self._among, self.draws = -1, 0, set[int]()

    def choose(self, candidates: Candidates, token: int) -> bool:
        """Whether the token is a candidate, which is chosen from now on."""
        tokens = [candidates.token(place) for place in range(len(candidates))]
        self._among = len(tokens)
        self._index = tokens.index(token) if token in tokens else -1
        return self._index >= 0

    def __call__(self, number: int, draw: Draw) -> Any:
        if not isinstance(draw.aggregate, Scores) or len(draw.aggregate.values) != self._among:
            return NotImplemented
        self.draws.add(number)
        return self._index


def behind(
    start: Callable[[], TokenSampler], steps: Sequence[Callable[[], Step]], tokens: Sequence[int], source: Randomness
) -> tuple[TokenSampler | None, bool]:
    """A chooser that has these tokens behind it, and whether it drew anything but them.

    The selection of a token is told which one it is, among all candidates: what the chooser keeps of their scores is
    what it keeps in a run. Where a token comes from elsewhere it is the only one that is allowed.

    Args:
        start: Makes a chooser that draws from ``source``.
        steps: Scores of each token; they can be read more than once.
        tokens: What is chosen.
        source: Of noise.

    Returns:
        No chooser where it leaves a token out, or ends its text before the last one.
    """
    for tells in (True, False):
        chooser, told = start(), _Told()
        tape = Tape(source, told if tells else None)
        with running(tape):
            for step, token in zip(steps, tokens, strict=False):
                if chooser.over:
                    return None, True
                candidates = chooser._candidates(step(), None) if tells else None
                if tells and (candidates is None or not told.choose(candidates, token)):
                    break
                before = len(told.draws)
                chosen = chooser.next(step(), None if tells else [token])
                if chosen is None:
                    return None, True
                if chosen != token or (tells and len(told.draws) == before):
                    break
            else:
                others = (draw for number, draw in enumerate(tape.draws) if number not in told.draws)
                return chooser, bool(tape.others) or any(needs_noise(draw.aggregate) for draw in others)
    return None, True


def random_text(
    plan: DecodingPlan, steps: Sequence[Callable[[], Step]], tokens: Sequence[int], source: Randomness
) -> TokenSampler | None:
    """A chooser that has these tokens behind it; ``None`` where it leaves one of them out, or ends its text before."""

    def start() -> TokenSampler:
        return plan.decoder.start(plan, source, eos_tokens=(WORDS - 2,), forbidden_tokens=(WORDS - 1,))

    chooser, _ = behind(start, steps, tokens, source)
    return None if chooser is None or chooser.over else chooser


def chooser_of(plan: DecodingPlan, source: Randomness, tokens: int = TOKENS) -> TokenSampler:
    """A chooser for one text, among so many tokens with the end; a control token is behind them."""
    return plan.decoder.start(plan, source, eos_tokens=(tokens - 1,), forbidden_tokens=(tokens,))


def law_of_token(plan: DecodingPlan, chooser: TokenSampler, make: Callable[[], Step]) -> FloatArray:
    """Probability of each token, an average over the coins where experts are drawn; all 0 where the text ends here."""
    decoder = plan.decoder
    if not isinstance(decoder, SelectingDecoder):
        stated = chooser.law_of_first(make()) if chooser.length == 0 else chooser.law(make())
        if stated is None:
            raise AssertionError("the law of a token is known where it is one selection, or the first")
        return stated
    step = make()
    public, mechanism = chooser._candidates(step, None), decoder.mechanism(plan)
    if public is None:
        return np.zeros(step.public.shape[0])
    prior = decoder.log_prior(public)

    def conditional(source: Randomness) -> FloatArray:
        scores = decoder.scores(plan, decoder.subsample(plan, make(), source), public)
        law = mechanism.law(scores) if prior is None else exponential(mechanism).law(scores, prior)
        return np.array([float(p) for p in law])

    probabilities = mixture(conditional)
    if probabilities is None:
        raise AssertionError("there are too many coins to be added up")
    law = np.zeros(step.public.shape[0])
    law[list(range(len(public)) if public.ids is None else public.ids.tolist())] = probabilities
    return law


def law_of_text(plan: DecodingPlan, scene: Scene, batch: int) -> dict[tuple[int, ...], float] | None:
    """Probability of every text of one batch, token after token. A text ends where its chooser says so.

    ``None`` where something is drawn though a token is given, such as a test of whether the text ends.
    """
    law, waiting = dict[tuple[int, ...], float](), dict[tuple[int, ...], float]({(): 1.0})
    while waiting:
        following: dict[tuple[int, ...], float] = {}
        for text, mass in waiting.items():
            source = seeded(0)
            steps = [partial(scene.step, batch, text[:length]) for length in range(len(text))]
            chooser, draws_more = behind(partial(chooser_of, plan, source), steps, text, source)
            if chooser is None or draws_more:
                return None
            if chooser.over:
                law[text] = mass
                continue
            token_law = law_of_token(plan, chooser, lambda text=text: scene.step(batch, text))  # type: ignore[misc]
            if not token_law.any():
                law[text] = mass
            for token, p in enumerate(token_law.tolist()):
                if p == 0:
                    continue
                whole = (*text, token)
                over = token == TOKENS - 1 or len(whole) == plan.setting.tokens
                (law if over else following)[whole] = mass * p
        waiting = following
    return law


def drawn_text(plan: DecodingPlan, scene: Scene, batch: int, source: Randomness) -> tuple[int, ...]:
    """One text of a batch, drawn from experts in one block."""
    chooser, text = chooser_of(plan, source), tuple[int, ...]()
    while not chooser.over:
        token = chooser.next(scene.step(batch, text, whole=True))
        if token is not None:
            text = (*text, token)
    return text


def every_text(tokens: int) -> list[tuple[int, ...]]:
    """Every text of at most so many tokens: with the end, without one, and such as end before their length."""
    inner = [t for n in range(tokens) for t in itertools.product(range(TOKENS - 1), repeat=n)]
    return [(*t, TOKENS - 1) for t in inner] + inner[1:] + list(itertools.product(range(TOKENS - 1), repeat=tokens))


def shown(data: DataSet) -> str:
    """A data set in words."""
    return "{" + ", ".join(f"{name} of {label}" if label else "blank" for name, label in data) + "}"
