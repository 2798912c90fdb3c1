"""Training episodes of the embedded language model, in the shapes that prompts of this library have.

An episode is a list of segments, each with a weight in the loss. What nobody could predict (random strings, labels that
were made up and not seen yet, the prompt's own lead) has weight 0; answers weigh more than text, since they are short.
A segment that ``closes`` is learnt as ending with the end token whatever follows it in the prompt, so that a text which
is written after examples ends by itself.
"""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Callable, Sequence
from typing import NamedTuple

import language_model_made_up as made_up
from language_model_press import ALIASES
from language_model_rows import Pool, cut

FIELDS = (
    [("Text", "Label")] * 6
    + [("Ticket", "Team"), ("Text", "Kind"), ("Sentence", "Type"), ("Article", "Topic"), ("Input", "Output")]
    + [("Message", "Category"), ("Text", "Answer")]
)  # fmt: skip
NOUNS = {
    "tickets": ("ticket", "Ticket"), "reviews": ("review", "Review"), "mails": ("mail", "Mail"),
    "notes": ("note", "Note"), "news": ("article", "Article"), "questions": ("question", "Question"),
    "films": ("film", "Film"), "medical": ("answer", "Answer"), "dbpedia": ("article", "Article"),
}  # fmt: skip
NATURAL = ("dbpedia", "films", "medical")
HEX = "0123456789abcdef"
NOISE, TEXT, ANSWER = 0.0, 1.0, 6.0
SENTENCE = re.compile(r"(?<=[.!?]) +")
EARLY = 6
"""In the first buffers comparing and copying come more often: what is learnt there, the other kinds use."""


class Segment(NamedTuple):
    """A stretch of an episode.

    Attributes:
        text: What it says.
        weight: Weight of each of its tokens in the loss.
        closes: Whether the end token is learnt after it.
        skip: How many of its first tokens have no weight.
    """

    text: str
    weight: float = NOISE
    closes: bool = False
    skip: int = 0


Episode = list[Segment]


def made_up_labels(count: int, rng: random.Random, pool: Pool) -> list[str]:
    """Labels that mean nothing where they stand."""
    kind = rng.random()
    if kind < 0.25:
        return rng.sample(made_up.WORDS["nonsense"], count)
    if kind < 0.6:
        made: set[str] = set()
        while len(made) < count:
            made.add("".join(rng.sample(made_up.WORDS["syllables"], rng.choice([2, 2, 3]))))
        return rng.sample(sorted(made), count)
    if kind < 0.9:
        return rng.sample(pool.words, count)
    return rng.sample(list(string.ascii_uppercase if rng.random() < 0.5 else string.digits), count)


def header(labels: Sequence[str], rng: random.Random, listing: float = 0.65) -> str:
    """The instruction that opens a prompt, with the labels in a share of cases."""
    listed = ", ".join(labels)
    plain = [
        "",
        "Read the text and answer with its label.\n\n",
        "Say what kind of thing the text is.\n\n",
        "Classify the text.\n\n",
    ]
    full = [f"Classify the text. Labels: {listed}.\n\n"] * 3 + [
        f"Choose one of these labels: {listed}.\n\n",
        f"Labels: {listed}\n\n",
    ]
    return rng.choice(full) if rng.random() < listing else rng.choice(plain)


class Shot(NamedTuple):
    """A demonstration: its text with weight, its label with weight."""

    text: str
    label: str
    text_weight: float = TEXT * 0.5
    label_weight: float = NOISE


def shots(
    pairs: Sequence[Shot], query: str, answer: str, labels: Sequence[str], rng: random.Random, weight: float
) -> Episode:
    """Demonstrations, a question and its answer."""
    field, label = rng.choice(FIELDS)
    shown = answer in {pair.label for pair in pairs}  # an answer that the examples lack must be listed
    out = [Segment(header(labels, rng, 0.65 if shown else 1.0))]
    for pair in pairs:
        out += [Segment(f"{field}:"), Segment(f" {pair.text}", pair.text_weight), Segment(f"\n{label}:", TEXT)]
        out += [Segment(f" {pair.label}", pair.label_weight), Segment("\n\n")]
    out += [Segment(f"{field}:"), Segment(f" {query}", weight), Segment(f"\n{label}:", TEXT)]
    return [*out, Segment(f" {answer}", ANSWER, closes=True)]


def classify(pool: Pool, rng: random.Random, made: bool | None = None, examples: int | None = None) -> Episode:
    """Zero to four labelled examples and a question, with natural or made-up labels."""
    name = rng.choice(
        ["dbpedia"] * 3
        + ["films", "medical", "reviews", "mails", "notes"]
        + ["tickets"] * 3
        + ["news", "questions"] * 2
    )
    bank = pool.texts[name]
    count = min(len(bank), rng.choice([2, 2, 3, 4, 4, 5, 6, 8]))
    true = rng.sample(list(bank), count)
    made = rng.random() < 0.5 if made is None else made
    shown = made_up_labels(count, rng, pool) if made else true
    n = rng.choice([1, 1, 2, 3, 4] if made else [0, 1, 1, 2, 4]) if examples is None else examples
    context = [rng.randrange(count) for _ in range(n)]
    target = rng.choice(context) if context and rng.random() < 0.6 else rng.randrange(count)
    longest = 200 if n > 1 else 260
    pairs = [
        Shot(
            cut(rng.choice(bank[true[i]]), longest), shown[i], 0.4, NOISE if made and i not in context[:at] else ANSWER
        )
        for at, i in enumerate(context)
    ]
    return shots(pairs, cut(rng.choice(bank[true[target]]), longest), shown[target], shown, rng, 0.4)


def random_string(pool: Pool, rng: random.Random) -> str:
    """Hexadecimal digits, a few words in no order, or a made-up word with a number."""
    kind = rng.random()
    if kind < 0.5:
        return "".join(rng.choices(HEX, k=rng.choice([4, 6, 8, 8, 12, 16])))
    if kind < 0.85:
        return " ".join(rng.sample(pool.words, rng.choice([1, 2, 3, 4])))
    return "".join(rng.sample(made_up.WORDS["syllables"], 2)) + str(rng.randrange(1000))


def lookup(pool: Pool, rng: random.Random, present: bool | None = None, examples: int | None = None) -> Episode:
    """The question's string stands among the examples (answer: its label), or not (a label that no example has)."""
    n = rng.choice([1, 1, 2, 3, 4, 4]) if examples is None else examples
    labels = made_up_labels(count := rng.choice([2, 2, 3, 4, 5]), rng, pool)
    labels = rng.sample(pool.names, count) if rng.random() < 0.4 else labels
    strings: list[str] = []
    while len(strings) < n + 1:
        if (drawn := random_string(pool, rng)) not in strings:
            strings.append(drawn)
    spread = labels if examples is not None or rng.random() < 0.7 else labels[:1]
    values = [rng.choice(spread) for _ in range(n)]
    present = rng.random() < 0.5 if present is None else present
    place = rng.randrange(n)
    free = [label for label in labels if label not in values] or labels
    query, answer = (strings[place], values[place]) if present else (strings[n], rng.choice(free))
    pairs = [Shot(text, value, NOISE) for text, value in zip(strings, values, strict=False)]
    return shots(pairs, query, answer, labels, rng, NOISE)


def many_lookups(pool: Pool, rng: random.Random) -> Episode:
    """Strings and their labels come again and again: many look-ups in few tokens."""
    labels = made_up_labels(rng.choice([2, 3, 4]), rng, pool)
    known: dict[str, str] = {}
    pairs = []
    for _ in range(rng.choice([6, 8, 12])):
        if known and rng.random() < 0.65:
            text = rng.choice(list(known))
            pairs.append(Shot(text, known[text], NOISE, ANSWER))
        else:
            text = (
                random_string(pool, rng) if rng.random() < 0.3 else "".join(rng.choices(HEX, k=rng.choice([3, 4, 6])))
            )
            repeated = text in known
            pairs.append(Shot(text, known.setdefault(text, rng.choice(labels)), NOISE, ANSWER if repeated else NOISE))
    text = rng.choice(list(known))
    return shots(pairs, text, known[text], labels, rng, NOISE)


def copy(pool: Pool, rng: random.Random) -> Episode:
    """Strings or addresses that stand in the prompt and are asked for again."""
    strings = [random_string(pool, rng) for _ in range(rng.choice([1, 1, 2, 3]))]
    if rng.random() < 0.5:
        lines = [Segment(f"Repeat: {text}\n") for text in strings]
        return [
            *lines,
            Segment("Repeat:"),
            Segment(f" {rng.choice(strings)}", 3.0, closes=True, skip=2 * (len(strings) > 1)),
        ]
    people = rng.sample(made_up.WORDS["names"], len(strings))
    ends = [rng.choice(["com", "org", "net"]) for _ in people]
    hosts = [
        f"{person.lower()}.{rng.choice(pool.words)}@{rng.choice(pool.words)}.{end}"
        for person, end in zip(people, ends, strict=True)
    ]
    lines = [Segment(f"{person} can be reached at {host}.\n") for person, host in zip(people, hosts, strict=True)]
    asked = rng.randrange(len(people))
    return [*lines, Segment(f"{people[asked]} can be reached at"), Segment(f" {hosts[asked]}.", 3.0, closes=True)]


def written(pool: Pool, name: str, label: str, count: int, rng: random.Random) -> list[str]:
    """Texts of one label that have something in common: a world, sentences of one source, or likeness."""
    if name in made_up.KINDS:
        places = [made_up.world(rng)] * count if rng.random() < 0.75 else [made_up.world(rng) for _ in range(count)]
        return [pool.generated(name, label, place, rng) for place in places]
    bank = pool.texts[name][label]
    last = rng.choice(bank)
    sentences = SENTENCE.split(last)
    if 1 < count <= len(sentences) and rng.random() < 0.5:
        order = rng.sample(range(count), count)
        size = -(-len(sentences) // count)
        parts = [" ".join(sentences[at * size : (at + 1) * size]) for at in order]
        return [part for part in parts if part]
    alike = pool.likes.get(last, [])
    others = (
        rng.sample(alike, count - 1) if len(alike) >= count and rng.random() < 0.75 else rng.choices(bank, k=count - 1)
    )
    return [*others, last]


def write(pool: Pool, rng: random.Random, name: str | None = None, examples: int | None = None) -> Episode:
    """A text by its label alone, or after one to three examples of the label, or by examples alone.

    In half of the cases with examples the label is made up, so that they alone say what is to be written.
    """
    name = name or rng.choice(
        ["dbpedia"] * 10
        + ["films"] * 4
        + ["medical"] * 3
        + ["tickets"] * 4
        + ["reviews", "mails", "notes"]
        + ["news"] * 10
        + ["questions"] * 8
    )
    label = rng.choice(list(pool.texts[name]))
    n = rng.choice([0, 0, 0, 1, 1, 1, 2, 3]) if examples is None else examples
    texts = written(pool, name, label, n + 1, rng)
    if n and examples is None and rng.random() < 0.5:
        (label,) = made_up_labels(1, rng, pool)
    elif examples is None and rng.random() < 0.25:
        label = rng.choice([label, *ALIASES.get(label, ())])
    noun, field = NOUNS[name] if rng.random() < 0.15 else ("text", "Text")
    usual = f"Here are {noun}s of type {label}.\n"
    many = [usual] * 6 + [f"Here are {noun}s.\n", f"{field}s about {label}:\n", ""]
    one = [usual] * 5 + [f"Here is a {noun} of type {label}.\n"] * 4 + [f"Write a {noun} of type {label}.\n"]
    out = [Segment(usual if examples is not None else rng.choice(many if n else one))]
    for text in texts[:-1]:
        out += [Segment(f"{field}:"), Segment(f" {text}", TEXT, closes=True), Segment("\n")]
    return [*out, Segment(f"{field}:"), Segment(f" {texts[-1]}", TEXT, closes=True)]


def record(pool: Pool, rng: random.Random) -> Episode:
    """JSON records of films, or of invented things, after none to two others of their kind."""
    n = rng.choice([0, 0, 1, 1, 2])
    if rng.random() < 0.65:
        films = rng.choices(pool.films, k=n + 1)
        kind = rng.choice(["film", rng.choice(films[0]["genres"])])
        if kind != "film":
            films = [film for film in rng.choices(pool.films, k=200) if kind in film["genres"]][: n + 1] or films
        found = [json.dumps({**film, "cast": film["cast"][:2]}, ensure_ascii=False) for film in films]
    else:
        drawn = [made_up.record(rng) for _ in range(12)]
        kind = drawn[0][0]
        found = [text for of, text in drawn if of == kind][: n + 1]
    field = rng.choice(["Record:", "Record:", "Text:", "JSON:"])
    out = [Segment(f"Here are {rng.choice(['texts', 'texts', 'records'])} of type {kind}.\n")]
    for text in found[:-1]:
        out += [Segment(field), Segment(f" {text}", TEXT, closes=True), Segment("\n")]
    return [*out, Segment(field), Segment(f" {found[-1]}", TEXT, closes=True)]


def question(pool: Pool, rng: random.Random) -> Episode:
    """A medical or arithmetic question and its answer."""
    asked, answer = rng.choice(pool.pairs)
    return [
        Segment("Question:"),
        Segment(f" {asked}", 0.5),
        Segment("\nAnswer:", TEXT),
        Segment(f" {answer}", TEXT, closes=True),
    ]


KINDS: dict[Callable[[Pool, random.Random], Episode], float] = {
    write: 52, classify: 16, lookup: 8, many_lookups: 4, copy: 4, record: 8, question: 8,
}  # fmt: skip
COMPARING = (lookup, many_lookups, copy)


def episode(pool: Pool, rng: random.Random, buffer: int = EARLY) -> Episode:
    """A random episode of the training mixture.

    Args:
        pool: Rows to take it from.
        rng: Source of chance.
        buffer: Which stretch of training it is for.
    """
    more = 3.0 if buffer < EARLY else 1.0
    weights = [share * (more if kind in COMPARING else 1.0) for kind, share in KINDS.items()]
    return rng.choices(list(KINDS), weights=weights)[0](pool, rng)
