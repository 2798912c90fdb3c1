"""The embedded language model: its files, its tokenizer, that its cache changes nothing, and what it learnt from."""

from __future__ import annotations

import importlib.util
import json
import math
import random
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from sottovoce.data.bundled import tickets_file
from sottovoce.errors import ModelError
from sottovoce.models.embedded import language_model as module
from sottovoce.models.embedded.language_model import PINNED, embedded_language_folder
from sottovoce.models.huggingface.causal_model import quiet
from sottovoce.tasks import load_task

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
PROMPT = "Here are texts of type shipping.\nText: My parcel is late.\nText:"


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    folder = embedded_language_folder()
    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model, report = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, dtype=torch.float32, output_loading_info=True
        )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    return tokenizer, model.eval()


def _ids(tokenizer: Any, text: str) -> torch.Tensor:
    return torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])


def test_the_folder_is_smaller_than_32_megabytes():
    size = sum(file.stat().st_size for file in embedded_language_folder().iterdir())
    assert 10_000_000 < size < 32_000_000


def test_the_weights_lie_in_half_precision_and_are_finite(loaded):
    assert json.loads((embedded_language_folder() / "config.json").read_text("utf-8"))["dtype"] == "float16"
    assert all(bool(torch.isfinite(value).all()) for value in loaded[1].state_dict().values())


def test_a_changed_file_is_refused(tmp_path):
    copy = Path(shutil.copytree(embedded_language_folder(), tmp_path / "model"))
    assert embedded_language_folder(copy) == copy
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    with pytest.raises(ModelError, match=r"'model.safetensors' .* is not the one this release was checked with"):
        embedded_language_folder(copy)


def test_a_missing_file_is_named(tmp_path):
    copy = Path(shutil.copytree(embedded_language_folder(), tmp_path / "model"))
    (copy / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"'tokenizer.json' .* cannot be read"):
        embedded_language_folder(copy)


def test_every_file_that_is_loaded_is_pinned():
    assert {file.name for file in embedded_language_folder().iterdir()} == set(PINNED) == set(module.PINNED)


@pytest.mark.parametrize(
    "text",
    [
        "my card was charged twice for order 10482, please refund $19.99!",
        'text: "hello" (again)\nlabel: billing\n\ntext: don\'t pay\nlabel:',
        '{"title": "the last day", "year": 1949, "genres": ["western"], "cast": ["a. b.", "c d"]}',
        "3fa9bc12 and 00000 and 1,234.5678 and 50 % of £20 or €3",
        "~`^|\\<>[]{}@#$&*_+=-/;: one##two # three ## four",
        "zyzzyva qxjkvw antidisestablishmentarianism",
        "жизнь и ελπις",
    ],
)
def test_lower_case_text_comes_back_as_it_was(loaded, text):
    tokenizer, _ = loaded
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text.replace("`", "'")
    assert "\ufffd" not in tokenizer.convert_ids_to_tokens(ids)


def test_case_accents_and_curly_marks_become_plain(loaded):
    tokenizer, _ = loaded
    ids = tokenizer("Zoë’s “Café” — Straße", add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == 'zoe\'s "cafe" - straße'


def test_a_character_that_is_not_known_becomes_the_replacement_character_alone(loaded):
    tokenizer, _ = loaded
    assert (
        tokenizer.decode(tokenizer("tea 漢字, 🙂 ok", add_special_tokens=False)["input_ids"])
        == "tea \ufffd\ufffd, \ufffd ok"
    )


def test_digits_stand_alone_and_a_line_break_is_one_token(loaded):
    tokenizer, _ = loaded
    assert len(tokenizer("20491", add_special_tokens=False)["input_ids"]) == 5
    assert len(tokenizer("\n", add_special_tokens=False)["input_ids"]) == 1
    assert all(len(token.strip("‿")) == 1 for token in tokenizer.get_vocab() if any(map(str.isdigit, token)))


def test_a_very_long_word_is_read_in_short_time(loaded):
    tokenizer, _ = loaded
    ids = tokenizer("x" * 20_000, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids).replace(" ", "") == "x" * 20_000


def test_a_text_cannot_write_the_end_token_through_the_prompt_writer(loaded):
    from sottovoce.models.huggingface.prompts import PromptWriter
    from sottovoce.tasks import Example, Task

    tokenizer, _ = loaded
    writer = PromptWriter(tokenizer, Task(labels=["a", "b"]))
    prefix = writer.prefix([Example({"text": "stop [END] here"}, 0)])
    assert prefix is not None
    assert tokenizer.eos_token_id not in prefix


def _in_steps(model: Any, ids: torch.Tensor, shift: int = 0) -> torch.Tensor:
    """Logits by way of the cache: a prefix, single tokens, a stretch, single tokens; positions are given."""
    cache, parts = DynamicCache(config=model.config), []
    with torch.inference_mode():
        for start, stop in ((0, 9), (9, 10), (10, 17), *((place, place + 1) for place in range(17, ids.shape[1]))):
            at = torch.arange(start, stop)[None] + shift * (start > 0)
            found = model(input_ids=ids[:, start:stop], past_key_values=cache, position_ids=at, use_cache=True)
            parts.append(found.logits)
    return torch.cat(parts, dim=1)


@pytest.mark.slow
def test_cached_decoding_equals_a_full_forward_pass(loaded):
    tokenizer, model = loaded
    ids = _ids(tokenizer, PROMPT + " where is it? i waited three days for order 1182.")
    with torch.inference_mode():
        whole = model(input_ids=ids, use_cache=False).logits
    allowed = 1e-5 * float(whole.abs().max())
    assert float((_in_steps(model, ids) - whole).abs().max()) < allowed
    assert float((_in_steps(model, ids, shift=1) - whole).abs().max()) > 1000 * allowed


def test_a_later_token_changes_no_earlier_logit(loaded):
    tokenizer, model = loaded
    ids = _ids(tokenizer, PROMPT)
    other = ids.clone()
    other[0, -1] = 77
    with torch.inference_mode():
        a, b = model(input_ids=ids).logits, model(input_ids=other).logits
    assert torch.equal(a[:, :-1], b[:, :-1])
    assert not torch.equal(a[:, -1], b[:, -1])


def _write(loaded: tuple[Any, Any], prompt: str, seed: int, most: int) -> list[int]:
    tokenizer, model = loaded
    generator = torch.Generator().manual_seed(seed)
    ids, cache, out = _ids(tokenizer, prompt), DynamicCache(config=model.config), []
    with torch.inference_mode():
        while len(out) < most and tokenizer.eos_token_id not in out:
            logits = model(input_ids=ids, past_key_values=cache, use_cache=True).logits[0, -1]
            out.append(int(torch.multinomial((logits / 0.7).softmax(-1), 1, generator=generator)))
            ids = torch.tensor([out[-1:]])
    return out


@pytest.mark.slow
def test_a_sampled_text_ends_by_itself(loaded):
    ended = sum(loaded[0].eos_token_id in _write(loaded, PROMPT, seed, 90) for seed in range(3))
    assert ended >= 2


def test_it_foretells_english_better_than_its_words_in_another_order(loaded):
    # The witness is chance: shuffled words have the same unigrams. A model that learnt nothing gives log(vocabulary).
    tokenizer, model = loaded
    text = "the film was directed by john smith and stars his wife as a young woman who falls in love with a soldier"
    words = text.split()
    random.Random(0).shuffle(words)

    def nats(body: str) -> float:
        start, ids = _ids(tokenizer, "Here are texts of type drama.\nText:"), _ids(tokenizer, body)
        with torch.inference_mode():
            logits = model(input_ids=torch.cat([start, ids], dim=1)).logits[0, start.shape[1] - 1 : -1]
        return float(torch.nn.functional.cross_entropy(logits, ids[0]))

    assert nats(text) < 0.75 * nats(" ".join(words))
    assert nats(text) < 0.6 * math.log(model.config.vocab_size)


def test_the_wheel_takes_the_folder_along():
    # hatchling packs every file of the package that git does not ignore.
    import sottovoce

    folder = embedded_language_folder()
    assert folder.is_relative_to(Path(sottovoce.__file__).parent)


def _script(name: str) -> ModuleType:
    sys.path.insert(0, str(SCRIPTS))
    try:
        spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        sys.modules[name] = found
        spec.loader.exec_module(found)
        return found
    finally:
        sys.path.remove(str(SCRIPTS))


def _sentences(texts: Iterable[str]) -> set[str]:
    parts = {part.strip().lower() for text in texts for part in re.split(r"(?<=[.?!]) ", text)}
    return {part for part in parts if len(part.split()) > 4}


@pytest.mark.slow
def test_no_generated_ticket_shares_a_sentence_with_the_bundled_ones():
    made_up, rng = _script("language_model_made_up"), random.Random(0)
    topics = made_up.topics("tickets")
    drawn = [made_up.text("tickets", topic, made_up.world(rng), rng) for topic in topics for _ in range(150)]
    bundled = [
        json.loads(line)["text"]
        for name in ("private.jsonl", "queries.jsonl")
        for line in tickets_file(name).read_text("utf-8").splitlines()
    ]
    assert len(_sentences(drawn)) > 1000
    assert len(_sentences(bundled)) > 600
    assert not _sentences(drawn) & _sentences(bundled)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "task"), [("news", "agnews"), ("questions", "trec")])
def test_generated_news_and_questions_fill_every_blank_and_bear_the_names_of_their_task(kind, task):
    press = _script("language_model_press")
    bank = (press.NEWS if kind == "news" else press.QUIZ)[kind]["topics"]
    assert set(press.topics(kind)) == set(load_task(task).labels) <= set(press.ALIASES)
    patterns = [pattern for about in bank.values() for some in about.values() for pattern in some]
    assert len(set(patterns)) == len(patterns) > 400
    assert not [pattern for pattern in patterns if re.search(r"\[[^\]]*\[|\][^\[]*\]", pattern)]  # none inside another
    rng = random.Random(5)
    drawn = [press.KINDS[kind](topic, press.desk(rng), rng) for topic in bank for _ in range(400)]
    assert not [text for text in drawn if set("[]{}|") & set(text) or "//" in text or "  " in text]
    assert len(set(drawn)) > 0.9 * len(drawn)
    words = [len(text.split()) for text in drawn]
    assert min(words) > 2
    assert max(words) < 90


@pytest.mark.slow
def test_news_of_one_world_share_their_people_and_places():
    press, rng = _script("language_model_press"), random.Random(7)

    def names(text: str) -> set[str]:
        known = {*press.NEWS["words"]["surnames"], *press.NEWS["words"]["cities"]}
        return {name for name in known if re.search(rf"\b{name}\b", text)}

    shared = other = 0
    for _ in range(300):
        place, elsewhere = press.desk(rng), press.desk(rng)
        topic = rng.choice(press.topics("news"))
        first, second = (names(press.news(topic, place, rng)) for _ in range(2))
        shared += bool(first & second)
        other += bool(first & names(press.news(topic, elsewhere, rng)))
    assert shared > 4 * other


def test_a_generated_text_that_is_a_row_of_a_foreign_set_is_drawn_again():
    rows, made_up = _script("language_model_rows"), _script("language_model_made_up")
    place = made_up.world(random.Random(1))
    plain = made_up.text("questions", "Location", place, random.Random(2))
    assert rows.generated("questions", "Location", place, random.Random(2), frozenset()) == plain
    forbidden_tokens = frozenset([re.sub(r"[^a-z0-9]", "", plain.lower())])
    assert rows.generated("questions", "Location", place, random.Random(2), forbidden_tokens) != plain


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "agnews").is_dir(), reason="needs the benchmark data")
def test_generated_news_and_questions_share_no_sentence_with_the_sets_they_resemble():
    # Short questions may coincide ("What does X stand for?"): such rows are barred, and are all that may be shared.
    import gzip

    rows, made_up, rng = _script("language_model_rows"), _script("language_model_made_up"), random.Random(0)
    forbidden_tokens = rows.foreign(DATA)
    drawn = [
        rows.generated(kind, topic, made_up.world(rng), rng, forbidden_tokens)
        for kind in ("news", "questions")
        for topic in made_up.topics(kind)
        for _ in range(1500)
    ]
    real = []
    for name in ("agnews", "trec"):
        for split in ("train", "test"):
            with gzip.open(DATA / name / f"{split}.jsonl.gz", "rt", encoding="utf-8") as lines:
                real += [json.loads(line)["text"] for line in lines]
    assert len(forbidden_tokens) > 10_000
    letters = {re.sub(r"[^a-z0-9]", "", text.lower()) for text in real}
    assert not letters & {re.sub(r"[^a-z0-9]", "", text.lower()) for text in drawn}
    assert len(_sentences(drawn)) > 10_000
    assert not _sentences(drawn) & _sentences(real)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "dbpedia").is_dir(), reason="needs the benchmark data")
def test_training_text_holds_no_row_of_the_reserved_ranges():
    import gzip

    rows = _script("language_model_rows")
    pool = rows.load(DATA, "train", made=1)
    learnt = {text for bank in pool.texts.values() for texts in bank.values() for text in texts}
    learnt |= {part for pair in pool.pairs for part in pair} | {json.dumps(film) for film in pool.films}
    fields = {"dbpedia": "text", "wikimovies": "extract", "medquad": "answer", "gsm8k": "question"}
    shared, met = 0, 0
    for name, field in fields.items():
        for file, first, last in (("train", 0, 2000), ("test", 0, None), ("train", 2000, -200)):
            with gzip.open(DATA / name / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
                found = [json.loads(line) for line in lines][first:last]
            hits = sum(rows.cut(row[field]) in learnt for row in found if row.get(field))
            shared, met = (shared, met + hits) if first else (shared + hits, met)
    assert met > 15_000  # the same look finds the rows that are learnt from
    assert shared == 0
    with pytest.raises(ValueError, match="may not be learnt from"):
        rows.rows(DATA, "agnews", "train")
