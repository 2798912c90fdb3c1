"""Scores against values that the libraries publish, or that are worked out by hand."""

import sys
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import InputError, MissingExtraError, ParameterError
from sottovoce.metrics.bleu import Bleu
from sottovoce.metrics.embedding import EmbeddingCosine
from sottovoce.metrics.evaluate import evaluate
from sottovoce.metrics.meteor import Meteor
from sottovoce.metrics.rouge import Rouge, rouge_l_recall
from sottovoce.metrics.synonyms import FOLDER, PARTS, WordNet
from sottovoce.models.fake import FakeScorer

# The example of sacreBLEU's README, whose score it gives as 48.53.
DOG = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
DOG_REFERENCES = [
    ("The dog bit the man.", "The dog had bit the man."),
    ("It was not unexpected.", "No one was surprised."),
    ("The man bit him first.", "The man had bitten the dog."),
]
# The example of rouge-score's README.
FOX = "The quick brown fox jumps over the lazy dog"
DOG_ON_LOG = "The quick brown dog jumps on the log."
# The example of NLTK's meteor_score, whose score it gives as 0.6944.
GUIDE = "It is a guide to action which ensures that the military always obeys the commands of the party"
GUIDE_REFERENCES = (
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
)


def value(metric, answers, references):
    (statistics,) = metric.measure(answers, references, None).values()
    return statistics.score(np.ones(len(answers)))


def test_bleu_is_what_sacrebleu_publishes():
    assert round(value(Bleu(), DOG, DOG_REFERENCES), 2) == 48.53


def test_bleu_of_a_draw_is_bleu_of_what_was_drawn():
    statistics = Bleu().measure(DOG, DOG_REFERENCES)["bleu"]
    assert "tok:13a" in statistics.notes[0]
    for weights in ([2, 0, 1], [0, 1, 3]):
        drawn = [place for place, count in enumerate(weights) for _ in range(count)]
        again = value(Bleu(), [DOG[place] for place in drawn], [DOG_REFERENCES[place] for place in drawn])
        assert statistics.score(np.array(weights, dtype=float)) == pytest.approx(again)


@pytest.mark.parametrize(
    ("kind", "f1"),
    [
        # By hand: 9 and 8 words; the, quick, brown, dog, jumps, the are shared.
        ("rouge-1", 2 * 6 / 17),
        # the-quick and quick-brown, of 8 and 7.
        ("rouge-2", 2 * 2 / 15),
        # the quick brown jumps the, of 9 and 8.
        ("rouge-l", 2 * 5 / 17),
    ],
)
def test_rouge_is_what_counting_gives(kind, f1):
    assert value(Rouge(kind), [DOG_ON_LOG], [(FOX,)]) == pytest.approx(f1)


def test_of_several_references_the_best_counts():
    assert value(Rouge("rouge-1"), ["a b"], [("c", "a b", "a")]) == 1.0
    assert value(Meteor(synonyms=False), ["a b"], [("c d", "a b")]) == value(Meteor(False), ["a b"], [("a b",)])
    assert value(Bleu(), ["a b c d e"], [("x", "a b c d e")]) == pytest.approx(100)


def test_recall_asks_how_much_of_a_text_came_back():
    assert rouge_l_recall("well, the cat sat there", "the cat sat") == 1.0
    assert rouge_l_recall("nothing of it", "the cat sat") == 0.0


def test_meteor_is_what_nltk_publishes():
    assert round(value(Meteor(synonyms=False), [GUIDE], [GUIDE_REFERENCES]), 4) == 0.6944


def wordnet_of(folder: Path) -> Path:
    """Two nouns of one meaning, and three other parts without a word, in WordNet's format."""
    meaning = "06 n 02 car 0 auto(p) 0 000 | a vehicle\n"
    for part in PARTS:
        (folder / f"data.{part}").write_text("  a licence\n" + (f"00000012 {meaning}" if part == "noun" else ""))
        lines = [f"{word} n 1 0 1 0 00000012  \n" for word in ("car", "auto")] if part == "noun" else []
        (folder / f"index.{part}").write_text("".join(["  a licence\n", *lines]))
    return folder


def test_synonyms_match_where_wordnet_has_them(tmp_path):
    folder = wordnet_of(tmp_path)
    assert [synset.words for synset in WordNet(folder).synsets("car")] == [("car", "auto")]
    assert WordNet(folder).synsets("bus") == []
    # By hand: all three words match in one chunk, so the score is 1 - .5 * (1/3)^3; without synonyms two in two chunks.
    answer, references = ["the car stops"], [("the auto stops",)]
    assert value(Meteor(folder=folder), answer, references) == pytest.approx(1 - 0.5 / 27)
    assert value(Meteor(synonyms=False), answer, references) == pytest.approx(2 / 3 * (1 - 0.5))


def test_meteor_without_wordnet_says_what_is_missing(tmp_path):
    with pytest.raises(InputError, match=r"apt-get install wordnet-base\. Or take 'meteor-exact-stem'"):
        Meteor(folder=tmp_path).measure(["a"], [("a",)])
    found = evaluate(["a b", "c"], ["a b", "c"], metrics=["meteor-exact-stem"])
    assert found.notes["meteor-exact-stem"] == ("without synonyms: exact words and stems alone",)


@pytest.mark.skipif(not (FOLDER / "index.noun").is_file(), reason="wordnet-base is not installed")
def test_debians_wordnet_is_read():
    assert ("car", "auto", "automobile", "machine", "motorcar") in [s.words for s in WordNet().synsets("car")]
    assert round(value(Meteor(), [GUIDE], [GUIDE_REFERENCES]), 4) == 0.6944


def test_a_cosine_is_that_of_the_embedder():
    vectors = {"east": [1.0, 0.0], "north": [0.0, 1.0], "north-east": [0.6, 0.8], "a": [1.0, 0.0]}
    metric = EmbeddingCosine(FakeScorer(vectors=lambda text: vectors[text], name="compass"))
    answers, references = ["north-east", "north", " "], [("east", "north"), ("east",), ("east",)]
    found = metric.measure(answers, references)
    assert list(found) == ["cosine by compass"]
    assert found["cosine by compass"].rows[:, 0].tolist() == pytest.approx([0.8, 0.0, 0.0])
    assert found["cosine by compass"].score(np.ones(3)) == pytest.approx(0.8 / 3)


def test_what_cannot_be_embedded_does_not_count_and_is_said():
    metric = EmbeddingCosine(FakeScorer(vectors=lambda text: [np.nan] * 2 if "?" in text else [0.6, 0.8]))
    statistics = metric.measure(["one", "what?"], [("one",), ("two",)])["cosine by fake"]
    assert statistics.score(np.ones(2)) == pytest.approx(1.0)
    assert statistics.notes == ("1 of 2 answers could not be embedded and do not count",)
    assert np.isnan(statistics.score(np.array([0.0, 1.0])))


@pytest.mark.parametrize(
    ("module", "metric", "package"),
    [
        ("sacrebleu.metrics", Bleu(), "sacrebleu"),
        ("nltk.translate.meteor_score", Meteor(synonyms=False), "nltk"),
    ],
)
def test_a_missing_library_names_the_line_that_installs_it(monkeypatch, module, metric, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"'{package}'. Install it with: pip install 'sottovoce\[eval\]'"):
        metric.measure(["a"], [("a",)])


def test_an_unknown_kind_of_rouge_is_refused():
    with pytest.raises(ParameterError, match="kind is 'rouge-9'; it must be one of rouge-1, rouge-2, rouge-l"):
        Rouge("rouge-9")
