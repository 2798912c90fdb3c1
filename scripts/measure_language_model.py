"""Measures the embedded language model, or another one, on rows that it never met, and prints the tables of its card.

    OMP_NUM_THREADS=1 python scripts/measure_language_model.py [--model PLACE] [--data FOLDER] [--items N] [--out FILE]

Everything natural is drawn from test rows; generated texts from seeds of their own. AG News, TREC, Subj, the sarcasm
headlines and the bundled tickets are sets that training never used; generated news and questions bear the names of the
labels of the first two. Standard errors are over items.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import language_model_episodes as shapes
import language_model_rows as rows
import numpy as np
import torch
from language_model_made_up import KINDS, text, topics, world
from transformers import AutoModelForCausalLM, AutoTokenizer

from sottovoce.data.bundled import ticket_queries
from sottovoce.models.embedded.language_model import embedded_language_folder
from sottovoce.models.gguf.checkpoint import load_gguf
from sottovoce.tasks import load_task

FOREIGN = rows.FOREIGN
UNSEEN = ("agnews", "trec", "subj", "sarcasm_headlines")
SHOWN = (
    ("dbpedia", "Village"),
    ("dbpedia", "Company"),
    ("films", "Western"),
    ("medical", "treatment"),
    ("tickets", "billing"),
    ("tickets", "shipping"),
    ("reviews", "negative"),
    ("mails", "invitation"),
    ("agnews", "World"),
    ("agnews", "Sports"),
    ("agnews", "Business"),
    ("agnews", "Sci/Tech"),
    ("trec", "Number"),
    ("trec", "Location"),
    ("trec", "Person"),
    ("trec", "Description"),
    ("trec", "Entity"),
    ("trec", "Abbreviation"),
)
"""Sources and labels of the samples."""
SHORT = 230
"""Characters of a text, as the prototypes had them."""
Maker = Callable[[random.Random], tuple[str, str, Sequence[str]]]
"""Draws a prompt, its right answer, and the labels to choose from."""


class Model:
    """A model in float32 on one core: a folder as the transformers library loads it, or a GGUF file.

    A text of the embedded model ends with its end token and begins without a blank. A file's model is one that goes on
    with the next text: there a line break ends a text, and a blank stands before it.
    """

    def __init__(self, place: Path) -> None:
        self.lead = ""
        if place.suffix == ".gguf":
            self.tokenizer, self.net = load_gguf(place, torch.float32)
            [self.end], self.lead = self.ids("\n"), " "
        else:
            self.tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True)
            self.net = AutoModelForCausalLM.from_pretrained(place, local_files_only=True, dtype=torch.float32)
            self.end = int(self.tokenizer.eos_token_id)
        self.net.eval()

    def ids(self, prompt: str) -> list[int]:
        """Tokens of a prompt."""
        return list(self.tokenizer(prompt, add_special_tokens=False)["input_ids"])

    @torch.inference_mode()
    def scores(self, prompt: str, answers: Sequence[str]) -> np.ndarray:
        """Log-probability of each answer, ended, after the prompt; a prompt that is too long loses its beginning."""
        ends = [[*self.ids(self.lead + answer), self.end] for answer in answers]
        longest = max(map(len, ends))
        start = self.ids(prompt)[-(self.net.config.max_position_embeddings - longest) :]
        read = self.net(input_ids=torch.tensor([start]), use_cache=True, logits_to_keep=1)
        first, cache = read.logits.expand(len(ends), -1, -1), read.past_key_values
        cache.batch_repeat_interleave(len(ends))
        batch = torch.tensor([own + [0] * (longest - len(own)) for own in ends])[:, :-1]
        rest = [self.net(input_ids=batch, past_key_values=cache, use_cache=True).logits] if longest > 1 else []
        log_p = torch.cat([first, *rest], dim=1).log_softmax(-1)
        return np.array([sum(float(log_p[i, j, t]) for j, t in enumerate(own)) for i, own in enumerate(ends)])

    @torch.inference_mode()
    def write(self, prompt: str, rng: torch.Generator, temperature: float = 0.8, most: int = 70) -> str:
        """Samples a text until it ends."""
        given, cache, out = torch.tensor([self.ids(prompt)]), None, []
        for _ in range(most):
            found = self.net(input_ids=given, past_key_values=cache, use_cache=True)
            cache = found.past_key_values
            token = int(torch.multinomial((found.logits[0, -1] / temperature).softmax(-1), 1, generator=rng))
            if token == self.end:
                break
            out.append(token)
            given = torch.tensor([[token]])
        return str(self.tokenizer.decode(out)).strip()


def mean(values: Sequence[float]) -> dict[str, float]:
    """Mean and its standard error."""
    found = np.asarray(values, dtype=float)
    error = found.std(ddof=1) / len(found) ** 0.5 if len(found) > 1 else float("nan")
    return {"mean": round(float(found.mean()), 3), "error": round(float(error), 3)}


def bits(model: Model, cases: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Bits a byte of texts after their prompts, with the standard error of the ratio over texts."""
    nats = np.array([-model.scores(prompt, [text])[0] for prompt, text in cases])
    size = np.array([len(text.encode()) for _, text in cases])
    ratio = nats.sum() / size.sum() / math.log(2)
    error = np.std(nats / math.log(2) - ratio * size, ddof=1) / size.mean() / len(cases) ** 0.5
    return {"mean": round(float(ratio), 3), "error": round(float(error), 3)}


def writing(label: str, *examples: str) -> str:
    """The prompt that asks for a text."""
    return f"Here are texts of type {label}.\n" + "".join(f"Text: {shown}\n" for shown in examples) + "Text:"


def perplexities(model: Model, data: Path, items: int) -> dict[str, dict[str, float]]:
    """Bits a byte by domain: test rows by label alone, and what a row of the same or another text before it changes."""
    rng, test = random.Random("bits"), rows.load(data, "test", made=40)
    train = rows.load(data, "train", made=1)
    cut = {
        name: [(label, rows.cut(t, SHORT)) for label, texts in bank.items() for t in texts]
        for name, bank in test.texts.items()
    }
    found = {
        name: bits(model, [(writing(a), t) for a, t in rng.sample(cut[name], min(items, len(cut[name])))])
        for name in cut
    }
    for name in ("dbpedia", "films", "medical"):
        seen = [(a, rows.cut(t, SHORT)) for a, texts in train.texts[name].items() for t in texts]
        found[f"{name}, rows it was trained on"] = bits(model, [(writing(a), t) for a, t in rng.sample(seen, items)])
    for name in FOREIGN:
        own = [(label, rows.cut(t, SHORT)) for label, texts in foreign(data, name).items() for t in texts]
        found[f"{name} (rows unseen)"] = bits(model, [(writing(a), t) for a, t in rng.sample(own, items)])
        labels = sorted({label for label, _ in own})
        turned = [(labels[labels.index(a) - 1], t) for a, t in rng.sample(own, items)]
        found[f"{name}, wrong label"] = bits(model, [(writing(a), t) for a, t in turned])
    subj = _rows(data, "subj")[:items]
    found["subj (unseen)"] = bits(model, [("Text:", rows.cut(row["text"], SHORT)) for row in subj])
    tickets = [(row.values["label"], rows.cut(str(row.values["text"]), SHORT)) for row in ticket_queries()]
    found["bundled tickets (unseen)"] = bits(model, [(writing(str(a)), t) for a, t in tickets[:items]])
    wrong = [
        (rng.choice([b for b in test.texts["dbpedia"] if b != a]), t) for a, t in rng.sample(cut["dbpedia"], items)
    ]
    found["dbpedia, wrong label"] = bits(model, [(writing(a), t) for a, t in wrong])
    drawn = [(kind, rng.choice(topics(kind)), world(rng)) for kind in (rng.choice(KINDS) for _ in range(items))]
    pairs = [(topic, text(kind, topic, place, rng), text(kind, topic, place, rng)) for kind, topic, place in drawn]
    other = [text(kind, topic, world(rng), rng) for kind, topic, _ in drawn]
    found["generated, no example"] = bits(model, [(writing(topic), t) for topic, _, t in pairs])
    found["generated, example of its world"] = bits(model, [(writing(topic, e), t) for topic, e, t in pairs])
    found["generated, example of another world"] = bits(
        model, [(writing(topic, e), t) for (topic, _, t), e in zip(pairs, other, strict=True)]
    )
    return found


def accuracy(model: Model, make: Maker, items: int, seed: str) -> dict[str, float]:
    """Share of right answers among the listed labels, its standard error and chance, in percent."""
    rng, right, chance = random.Random(seed), [], []
    for _ in range(items):
        prompt, answer, labels = make(rng)
        right.append(100.0 * (labels[int(model.scores(prompt, labels).argmax())] == answer))
        chance.append(100 / len(labels))
    return {**mean(right), "chance": round(float(np.mean(chance)), 1)}


def _listed(segments: shapes.Episode) -> tuple[str, str, Sequence[str]] | None:
    """Prompt, answer and labels of an episode that lists its labels."""
    prompt, answer = "".join(part.text for part in segments[:-1]), segments[-1].text.strip()
    first = segments[0].text
    labels = first.split(":", 1)[1].strip().rstrip(".").split(", ") if "abels" in first and ":" in first else []
    return (prompt, answer, labels) if answer in labels else None


def _until_listed(make: Callable[[random.Random], shapes.Episode]) -> Maker:
    def drawn(rng: random.Random) -> tuple[str, str, Sequence[str]]:
        while True:
            if (found := _listed(make(rng))) is not None:
                return found

    return drawn


def _known(pool: rows.Pool, made: bool, examples: int, rng: random.Random) -> shapes.Episode:
    return shapes.classify(pool, rng, made, examples)


def _string(pool: rows.Pool, present: bool, examples: int, rng: random.Random) -> shapes.Episode:
    return shapes.lookup(pool, rng, present, examples)


def foreign(data: Path, name: str) -> dict[str, list[str]]:
    """Test rows of a set that is not learnt from, label to texts."""
    names = json.loads((data / name / "card.json").read_text("utf-8"))["label_names"]
    found: dict[str, list[str]] = {label: [] for label in names}
    for row in _rows(data, name):
        found[names[row["label"]]].append(row["text"])
    return found


def _rows(data: Path, name: str) -> list[dict[str, Any]]:
    with gzip.open(data / name / "test.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def unseen(texts: Sequence[tuple[str, int]], names: Sequence[str], pool: rows.Pool, made: bool, examples: int) -> Maker:
    """Label scoring on a set that training never used; half of the questions share their label with an example."""

    def drawn(rng: random.Random) -> tuple[str, str, Sequence[str]]:
        shown = shapes.made_up_labels(len(names), rng, pool) if made else list(names)
        picked = rng.sample(list(texts), examples + 1)
        if examples and rng.random() < 0.5:
            picked[0] = rng.choice([row for row in texts if row[1] == picked[1][1] and row[0] != picked[1][0]])
        pairs = [shapes.Shot(rows.cut(t, 200), shown[label]) for t, label in picked[1:]]
        query, answer = rows.cut(picked[0][0], 200), shown[picked[0][1]]
        while (found := _listed(shapes.shots(pairs, query, answer, shown, rng, 0.0))) is None:
            pass
        return found

    return drawn


def label_scoring(model: Model, data: Path, items: int) -> dict[str, dict[str, float]]:
    """Every gate on labels: known and unseen sets, natural and made-up names, look-ups."""
    pool, found = rows.load(data, "test", made=40), {}
    for examples in (0, 1, 4):
        for made in (False, True) if examples else (False,):
            make = _until_listed(partial(_known, pool, made, examples))
            found[f"known sets, {examples}, {'made up' if made else 'natural'}"] = accuracy(model, make, items, "known")
    sets = {
        name: (
            [(row["text"], row["label"]) for row in _rows(data, name)],
            json.loads((data / name / "card.json").read_text("utf-8"))["label_names"],
        )
        for name in UNSEEN
    }
    task = load_task("tickets")
    bundled = [(str(row.values["text"]), task.labels.index(str(row.values["label"]))) for row in ticket_queries()]
    sets["bundled tickets"] = (bundled, list(task.labels))
    for name, (texts, names) in sets.items():
        for examples in (0, 1, 4):
            for made in (False, True) if examples else (False,):
                make = unseen(texts, names, pool, made, examples)
                key = f"{name}, {examples}, {'made up' if made else 'natural'}"
                found[key] = accuracy(model, make, items, name)
    for examples in (1, 4):
        for present in (True, False):
            make = _until_listed(partial(_string, pool, present, examples))
            found[f"look-up, {examples}, {'present' if present else 'absent'}"] = accuracy(
                model, make, items, "strings"
            )
    return found


def samples(model: Model, data: Path, items: int) -> dict[str, Any]:
    """Texts by label and by example, how many of them end, and in how many the encoder recognises the label."""
    from sottovoce.models.embedded.label_scorer import EmbeddedScorer
    from sottovoce.tasks import Task

    test, rng, chance = rows.load(data, "test", made=40), random.Random("samples"), torch.Generator().manual_seed(1)
    real = {**test.texts, **{name: foreign(data, name) for name in FOREIGN}}
    found: dict[str, Any] = {"by label": [], "by example": []}
    for name, label in SHOWN:
        found["by label"].append({"label": label, "text": model.write(writing(label), chance)})
        shown = rows.cut(rng.choice(real[name][label]), SHORT)
        made = model.write(writing(label, shown), chance)
        found["by example"].append({"label": label, "example": shown, "text": made})
    for name in ("dbpedia", "tickets", *FOREIGN):
        labels = list(real[name])
        scorer, task = EmbeddedScorer(store=False), Task(labels=labels, name=name)
        prepared = scorer.prepare(task, [[]])
        drawn = [rng.randrange(len(labels)) for _ in range(items)]
        written = [model.write(writing(labels[label]), chance, 1.0) for label in drawn]
        rows_of_them = [rows.cut(rng.choice(real[name][labels[label]]), SHORT) for label in drawn]
        for what, texts in (("written", written), ("real", rows_of_them)):
            best = prepared.score([{"text": t or "-"} for t in texts])[:, 0].argmax(axis=-1)
            right = [100.0 * (int(a) == b) for a, b in zip(best, drawn, strict=True)]
            found[f"{name}: label recognised, {what}"] = mean(right)
        found[f"{name}: written texts that end within 70 tokens"] = mean(
            [100.0 * (len(model.ids(t)) < 70) for t in written]
        )
    return found


PARTS = {what.__name__: what for what in (perplexities, samples, label_scoring)}


def main() -> None:
    """Reads the arguments, measures, prints, writes."""
    parser = argparse.ArgumentParser(description="Measures the embedded language model.")
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("--model", type=Path, help="a folder or a GGUF file; the installed model if left out")
    parser.add_argument("--data", type=Path, default=here.parent / "shared" / "data")
    parser.add_argument("--items", type=int, default=150)
    parser.add_argument("--parts", nargs="+", default=[*PARTS], choices=[*PARTS], help="what is measured")
    parser.add_argument(
        "--out", type=Path, help="JSON file to write; parts that it holds already are not measured again"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = Model(arguments.model or embedded_language_folder())
    found: dict[str, Any] = {}
    if arguments.out and arguments.out.exists():
        found = json.loads(arguments.out.read_text("utf-8"))
    for what in (PARTS[name] for name in arguments.parts):
        if what.__name__ in found:
            continue
        found[what.__name__] = what(model, arguments.data, arguments.items)
        for key, value in found[what.__name__].items():
            print(f"{key}: {json.dumps(value, ensure_ascii=False)}", flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
