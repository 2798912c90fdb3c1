"""Vision-language models as label scorers: exact reuse of read prompts, isolated experts, pictures that count."""

from __future__ import annotations

import json
import pickle
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("PIL")

from models.vision import worlds_of_pictures as worlds  # noqa: E402
from sottovoce.errors import (  # noqa: E402
    InputError,
    MissingExtraError,
    ModelError,
    OpaqueError,
    ParameterError,
    TaskError,
)
from sottovoce.experts.reading import Reading  # noqa: E402
from sottovoce.models.base import Isolation, LabelScorer  # noqa: E402
from sottovoce.models.images import read_picture  # noqa: E402
from sottovoce.models.registry import load_scorer  # noqa: E402
from sottovoce.models.vision import contexts as contexts_module  # noqa: E402
from sottovoce.models.vision.families import places  # noqa: E402
from sottovoce.models.vision.label_scorer import VisionScorer  # noqa: E402
from sottovoce.models.vision.prompts import VisionPromptWriter  # noqa: E402
from sottovoce.models.vision.selftest import plain_logits, plain_scores  # noqa: E402
from sottovoce.privacy.ledger.budget import Budget  # noqa: E402
from sottovoce.records.sealed import PrivateRecords, Row  # noqa: E402
from sottovoce.session import PrivateICL  # noqa: E402
from sottovoce.tasks import Example, Task, load_task  # noqa: E402

TASK = load_task("pseudonames")
TANGLED = Task(
    labels=["dax 0", "dax 1", "dax", "blicket", "blicket tree", "perpo", "perplex"],
    instruction="Name the last picture.",
    query="{image}\nName:",
    example="{image}\nName: {label}",
    image="image",
)
FOUR = Task(
    labels=["dax", "blicket", "perpo", "shously"],
    instruction=TASK.instruction,
    query=TASK.query,
    example=TASK.example,
    image="image",
)
NOTED = Task(
    labels=["dax", "blicket"],
    query="Note: {note}\n{image}\nName:",
    example="Note: {note}\n{image}\nName: {label}",
    image="image",
)
CONTEXTS = [
    [],
    [Example({"image": worlds.picture(1)}, 0)],
    [Example({"image": worlds.picture(2, (24, 60))}, 3), Example({"image": worlds.picture(3, kind="JPEG")}, 1)],
]
QUERIES = [{"image": worlds.picture(7)}, {"image": worlds.picture(8, (52, 20))}]
UNREADABLE = {
    "not base64": "a picture, honestly",
    "not a picture": worlds.base64.b64encode(b"\x89PNG\r\n\x1a\n and no more").decode(),
    "cut short": worlds.picture(1, (200, 200))[:400],
    "of another format": worlds.picture(1, kind="GIF"),
    "of 66 million pixels": worlds.packed(worlds.Image.new("1", (8200, 8100)), compress_level=1),
}
WAYS = [(family, split) for family in worlds.FAMILIES for split in (False, True) if family != "qwen2_5_vl" or not split]
SLOW = ("internvl", "idefics3", "qwen2_5_vl")
"""Families but the first: their tests are the same, with sizes and templates of their own."""
each_way = pytest.mark.parametrize(
    ("family", "split"), [pytest.param(*way, marks=pytest.mark.slow) if way[0] in SLOW else way for way in WAYS]
)
each_family = pytest.mark.parametrize(
    "family", [pytest.param(each, marks=pytest.mark.slow) if each in SLOW else each for each in worlds.FAMILIES]
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Tiny products are slower on several threads than on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Folders of tiny models by family, made once."""
    made: dict[str, str] = {}

    def of(family: str) -> str:
        if family not in made:
            made[family] = worlds.save(family, tmp_path_factory.mktemp("tiny") / family)
        return made[family]

    return of


@pytest.fixture(scope="session")
def scorer_of(folder):
    """Scorers by family and options, opened once, for tests that plant nothing in them."""
    made: dict[object, VisionScorer] = {}

    def of(family: str, **options: object) -> VisionScorer:
        key = (family, *sorted(options.items()))
        if key not in made:
            made[key] = VisionScorer(folder(family), device="cpu", **options)
        return made[key]

    return of


def scores(scorer, contexts=CONTEXTS, queries=QUERIES, task=TASK):
    prepared = scorer.prepare(task, contexts)
    try:
        return prepared.score(queries)
    finally:
        prepared.close()


def plain(scorer, contexts=CONTEXTS, queries=QUERIES, task=TASK):
    return np.asarray([[plain_scores(scorer.engine, task, c, q)[0] for c in contexts] for q in queries])


def example(seed, label=0, **options):
    return Example({"image": worlds.picture(seed, **options)}, label)


def writer_of(scorer, task=TASK):
    return VisionPromptWriter(scorer.model.tokenizer, scorer.model.template, scorer.model.placeholder, task)


def conversation(task, pictures, answers):
    """As anybody would write it for the library: each picture, the words behind it, the answer."""
    turns = [{"role": "system", "content": [{"type": "text", "text": task.instruction}]}]
    for place, shown in enumerate(pictures):
        words = {"type": "text", "text": "\nName:"}
        turns.append({"role": "user", "content": [{"type": "image", "image": shown}, words]})
        if place < len(answers):
            turns.append({"role": "assistant", "content": [{"type": "text", "text": answers[place]}]})
    return turns


# What the numbers are


@pytest.mark.slow
@each_way
def test_scores_equal_an_uncached_pass_with_no_one_and_two_pairs(scorer_of, family, split):
    scorer = scorer_of(family, split=split)
    np.testing.assert_allclose(scores(scorer, task=TANGLED), plain(scorer, task=TANGLED), atol=1e-4)


@pytest.mark.slow
@each_family
def test_scores_equal_an_uncached_pass_when_nothing_is_reused(scorer_of, family):
    scorer = scorer_of(family, reuse_cache=False)
    np.testing.assert_allclose(scores(scorer, task=TANGLED), plain(scorer, task=TANGLED), atol=1e-4)


@pytest.mark.slow
def test_spellings_that_do_not_fit_into_one_batch_are_read_in_several(scorer_of, monkeypatch):
    together = scores(scorer_of("qwen2_5_vl"), task=TANGLED)
    monkeypatch.setattr(contexts_module, "ROWS", 1)
    np.testing.assert_allclose(scores(scorer_of("qwen2_5_vl"), task=TANGLED), together, atol=1e-5)


@each_family
def test_label_probabilities_sum_to_one(scorer_of, family):
    np.testing.assert_allclose(np.exp(scores(scorer_of(family), task=TANGLED)).sum(axis=-1), 1, atol=1e-9)


@pytest.fixture
def library_processor(monkeypatch):
    """The library's own processors; those that also read videos are made without what reads videos."""
    from transformers.models.smolvlm import processing_smolvlm
    from transformers.processing_utils import ProcessorMixin

    kinds = {"qwen2_5_vl": "Qwen2_5_VL", "internvl": "InternVL", "idefics3": "Idefics3", "smolvlm": "SmolVLM"}
    features = {"internvl": {"image_seq_length": 4}, "idefics3": {"image_seq_len": 4}, "smolvlm": {"image_seq_len": 4}}
    checked = ProcessorMixin.check_argument_for_proper_class

    class NoVideos:
        num_frames, fps = 1, 1

    monkeypatch.setattr(processing_smolvlm, "num2words", str)
    monkeypatch.setattr(
        ProcessorMixin,
        "check_argument_for_proper_class",
        lambda self, name, given: None if isinstance(given, NoVideos) else checked(self, name, given),
    )

    def of(family: str, scorer: VisionScorer):
        words = worlds.tokenizer(family)
        given = {"image_processor": scorer.model.image_processor, "tokenizer": words, **features.get(family, {})}
        if family != "idefics3":
            given["video_processor"] = NoVideos()
        made = getattr(transformers, f"{kinds[family]}Processor")
        return made(chat_template=worlds.TEMPLATES[family], **given)

    return of


@each_way
def test_prompts_and_pixels_are_those_of_the_library_s_own_processor(scorer_of, library_processor, family, split):
    # The witness knows nothing of this library: it renders the chat, finds the tokens, cuts up all pictures at once.
    scorer = scorer_of(family, split=split)
    context, query = CONTEXTS[2], QUERIES[0]
    fields = [*(each.fields for each in context), query]
    processor = library_processor(family, scorer)
    expected = processor.apply_chat_template(
        conversation(FOUR, [read_picture(each["image"], 10**6) for each in fields], ["shously", "blicket"]),
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs={"images_kwargs": scorer.model.family.settings(split)},
    )
    model, writer = scorer.model, writer_of(scorer, FOUR)
    pixels = [model.pixels(each["image"]) for each in fields]
    texts = [model.look(each).text for each in pixels]
    ours = (*writer.prefix([3, 1], fields[:2], texts[:2]), *writer.suffix(query, texts[2]))
    assert list(ours) == expected["input_ids"][0].tolist()
    shown = model.family.join(pixels)
    for name, tensor in shown.items():
        assert torch.equal(tensor, expected[name]), name
    with torch.inference_mode():
        truth = model.model(**expected, use_cache=False).logits[0]
    assert torch.equal(plain_logits(scorer.engine, ours, shown), truth)
    # The labels differ in their first token, so the last logits alone say which is chosen.
    lead = " " if family in {"idefics3", "smolvlm"} else ""  # "Assistant: dax", and "assistant\ndax"
    firsts = [processor.tokenizer.encode(lead + label, add_special_tokens=False)[0] for label in FOUR.labels]
    assert len({*firsts}) == 4
    by_hand = truth[-1, firsts].double().log_softmax(-1).numpy()
    np.testing.assert_allclose(scores(scorer, [context], [query], FOUR)[0, 0], by_hand, atol=1e-4)


# Errors that the comparison must catch


def _flat(places_of):
    """Positions that count tokens, as in models of text alone."""
    return lambda ids, pictures, start: (torch.arange(start, start + len(ids)).expand(3, -1), start + len(ids))


def _behind_all_tokens(places_of):
    """A question placed behind as many places as the prompt has tokens."""
    length = [0]

    def wrong(ids, pictures, start):
        where, after = places_of(ids, pictures, length[0] if start else 0)
        length[0] = len(ids) if not start else length[0]
        return where, after

    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [_flat, _behind_all_tokens])
def test_wrong_positions_would_be_seen(folder, wrong):
    scorer = VisionScorer(folder("qwen2_5_vl"), device="cpu")
    truth = plain(scorer)
    scorer.model.places = wrong(scorer.model.places)
    ours = scores(scorer)
    assert np.abs(ours - truth)[:, 1:].max() > 1e-2
    assert not scorer.self_test().passed


@each_family
def test_a_dropped_picture_would_be_seen(folder, family):
    scorer = VisionScorer(folder(family), device="cpu")
    truth = plain(scorer, queries=QUERIES[:1], task=FOUR)
    embeddings = scorer.model.embeddings

    def without_the_first(ids, pictures=()):
        found = embeddings(ids, pictures)
        for picture in pictures[:1]:
            where = [place for place, token in enumerate(ids) if token == scorer.model.image_token]
            found[0, where[: len(picture.features)]] = 0
        return found

    scorer.model.embeddings = without_the_first
    assert (np.abs(scores(scorer, queries=QUERIES[:1], task=FOUR) - truth).max(axis=-1) > 1e-2).all()


@each_family
def test_a_forgotten_prompt_would_be_seen(folder, family, monkeypatch):
    scorer = VisionScorer(folder(family), device="cpu")
    monkeypatch.setattr(contexts_module, "spread", lambda cache, rows: scorer.model.new_cache())
    one = {"queries": QUERIES[:1], "task": FOUR}
    assert (np.abs(scores(scorer, **one) - plain(scorer, **one)).max(axis=-1) > 1e-2).all()


def test_a_leak_between_experts_would_be_seen(folder):
    scorer = VisionScorer(folder("internvl"), device="cpu")
    features, calls = scorer.model.features, []

    def leaky(embeddings, cache, where):
        calls.append(1)
        return features(embeddings, cache, where) * (1 + 1e-6 * len(calls))

    scorer.model.features = leaky
    failed = {check.name for check in scorer.self_test().checks if not check.passed}
    assert {"isolation", "questions beside each other"} <= failed


@each_family
def test_another_picture_gives_other_scores(scorer_of, family):
    base = scores(scorer_of(family), [[example(1)]], [{"image": worlds.picture(7)}])
    other_question = scores(scorer_of(family), [[example(1)]], [{"image": worlds.picture(9)}])
    other_example = scores(scorer_of(family), [[example(4)]], [{"image": worlds.picture(7)}])
    assert min(np.abs(base - other_question).max(), np.abs(base - other_example).max()) > 1e-2


def test_places_are_those_of_the_model_itself(scorer_of):
    model = scorer_of("qwen2_5_vl").model
    ids = torch.tensor([[50, 60, *[model.image_token] * 6, 70, *[model.image_token] * 4, 80, 90, 99]])
    sides = torch.tensor([[1, 4, 6], [1, 2, 8]])
    expected, _ = model.body.get_rope_index(ids, (ids == model.image_token).int(), image_grid_thw=sides)
    ours, after = places((ids[0] == model.image_token).tolist(), [(1, 2, 3), (1, 1, 4)], 0)
    assert torch.equal(ours, expected[:, 0])
    assert after == int(expected.max()) + 1


# Who sees what

NEIGHBOURS = {
    "others removed": lambda mine: [mine],
    "others replaced": lambda mine: [mine, [example(21)], [example(22), example(23)]],
    "others before it": lambda mine: [*CONTEXTS, [example(24, size=(80, 80))], mine],
    "others of all sizes": lambda mine: [[example(25, size=(300, 200))], mine, [example(26, size=(3, 3))]],
    "others unreadable": lambda mine: [[Example({"image": "no"}, 0)], mine, [example(k) for k in range(80)]],
}


@pytest.mark.cases(6)
@pytest.mark.parametrize("neighbours", NEIGHBOURS.values(), ids=NEIGHBOURS.keys())
@each_family
def test_an_expert_s_scores_are_bit_equal_whatever_the_others_hold(scorer_of, family, neighbours):
    mine = [example(31, 2), example(32, 4, size=(20, 44))]
    world = neighbours(mine)
    alone, beside = (scores(scorer_of(family), each)[:, each.index(mine)] for each in ([mine], world))
    assert alone.tobytes() == beside.tobytes()
    assert np.isfinite(alone).all()


@pytest.mark.slow
@each_family
def test_number_and_order_of_questions_change_no_bit(scorer_of, family):
    many = [*QUERIES, *({"image": worlds.picture(40 + k, (16 + 9 * k, 30))} for k in range(3))]
    forward = scores(scorer_of(family), queries=many)
    backward = np.ascontiguousarray(scores(scorer_of(family), queries=many[::-1])[::-1])
    alone = np.concatenate([scores(scorer_of(family), queries=[query]) for query in many])
    assert forward.tobytes() == backward.tobytes() == alone.tobytes()


@pytest.mark.slow
@each_family
def test_what_is_kept_under_the_memory_cap_changes_no_bit(scorer_of, family):
    everything = scores(scorer_of(family))
    some = scorer_of(family, cache_bytes=20_000)
    nothing = scorer_of(family, cache_bytes=0)
    prepared = some.prepare(TASK, CONTEXTS)
    assert 0 < some.store.used_bytes <= 20_000
    assert everything.tobytes() == prepared.score(QUERIES).tobytes() == prepared.score(QUERIES).tobytes()
    prepared.close()
    assert some.store.used_bytes == 0
    assert everything.tobytes() == scores(nothing).tobytes()


def test_what_the_model_remembers_of_an_earlier_prompt_is_not_used(folder):
    # Qwen2.5-VL keeps the offset of the last prompt that it read in the model object.
    scorer = VisionScorer(folder("qwen2_5_vl"), device="cpu")
    before = scores(scorer)
    scorer.model.body.rope_deltas = torch.tensor([[-37]])
    assert scores(scorer).tobytes() == before.tobytes()


def test_scorers_name_their_capability_and_isolation(scorer_of, folder):
    scorer = scorer_of("smolvlm")
    assert isinstance(scorer, LabelScorer)
    assert scorer.isolation is Isolation.BY_CONSTRUCTION
    assert scorer.name == f"vision:{folder('smolvlm')}"
    assert repr(scorer) == f"VisionScorer('{scorer.name}')"


@pytest.mark.slow
@each_family
def test_the_self_test_passes(scorer_of, family):
    report = scorer_of(family).self_test()
    assert [check.name for check in report.checks if not check.passed] == []
    assert len(report.checks) == 4


@pytest.mark.slow
def test_the_self_test_passes_in_bfloat16(folder):
    assert VisionScorer(folder("qwen2_5_vl"), device="cpu", dtype="bfloat16").self_test().passed


# What cannot be read


@pytest.mark.cases(2)
@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_picture_makes_its_own_expert_null_and_its_own_question(scorer_of, value):
    scorer = scorer_of("internvl")
    world = [CONTEXTS[1], [example(1), Example({"image": value}, 1)], CONTEXTS[2]]
    found = scores(scorer, world, [QUERIES[0], {"image": value}, QUERIES[1]])
    assert np.isnan(found).all(axis=-1).tolist() == [[False, True, False], [True] * 3, [False, True, False]]
    assert found[[0, 2]][:, [0, 2]].tobytes() == scores(scorer, CONTEXTS[1:]).tobytes()


def test_a_picture_that_the_image_processor_refuses_makes_a_null_expert(scorer_of):
    # Qwen2.5-VL takes no picture that is more than 200 times as long as wide.
    found = scores(scorer_of("qwen2_5_vl"), [CONTEXTS[1], [example(1, size=(900, 4))]])
    assert np.isnan(found).all(axis=-1).tolist() == [[False, True]] * 2


@each_family
def test_a_context_that_is_too_long_is_null_from_the_first_token_too_many(tmp_path, family):
    context = CONTEXTS[1]
    free = VisionScorer(worlds.save(family, tmp_path / "free"), device="cpu")
    writer = writer_of(free, FOUR)
    looks = [free.model.look(free.model.pixels(each["image"])).text for each in (context[0].fields, QUERIES[0])]
    need = len(writer.prefix([0], [context[0].fields], looks[:1])) + len(writer.suffix(QUERIES[0], looks[1]))
    for limit, null in ((need, False), (need - 1, True)):
        free.model.limit = limit
        found = scores(free, [[], context], QUERIES[:1], FOUR)
        assert np.isnan(found).all(axis=-1).tolist() == [[False, null]]


def test_numbers_that_are_not_finite_make_their_own_row_null(folder):
    scorer = VisionScorer(folder("idefics3"), device="cpu")
    look, bad = scorer.model.look, scorer.model.pixels(worlds.picture(50)).inputs["pixel_values"]

    def broken(pixels):
        found = look(pixels)
        if torch.equal(pixels.inputs["pixel_values"], bad):
            found.features[0, 0] = float("inf")
        return found

    whole = scores(scorer)
    scorer.model.look = broken
    found = scores(scorer, [*CONTEXTS, [example(50)]])
    assert np.isnan(found[:, 3]).all()
    assert found[:, :3].tobytes() == whole.tobytes()


def test_a_tile_that_the_model_would_take_for_padding_makes_a_null_expert(folder):
    # Idefics3 drops tiles of zeros; without normalisation a black picture is one.
    scorer = VisionScorer(folder("idefics3"), device="cpu")
    scorer.model.image_processor.do_normalize = False
    black = worlds.packed(worlds.Image.new("RGB", (20, 20)))
    found = scores(scorer, [[Example({"image": black}, 0)], CONTEXTS[1]])
    assert np.isnan(found).all(axis=-1).tolist() == [[True, False]] * 2


def test_a_question_without_its_field_is_an_error(scorer_of):
    with pytest.raises(TaskError, match="'image'"):
        scores(scorer_of("internvl"), queries=[{"text": "hello"}])


# Pictures


def decoded(drawn, max_pixels=10**6, kind="PNG", **options):
    return np.asarray(read_picture(worlds.packed(drawn, kind, **options), max_pixels))


def test_large_pictures_are_shrunk_with_their_proportions_and_small_ones_left_alone():
    assert read_picture(worlds.picture(1, (800, 200)), 10_000).size == (200, 50)
    assert read_picture(worlds.picture(1, (801, 199)), 10_000).size == (200, 49)
    small = worlds.Image.effect_noise((30, 20), 40).convert("RGB")
    assert np.array_equal(decoded(small, 600), np.asarray(small))


def test_pictures_are_turned_upright():
    drawn = worlds.Image.new("RGB", (40, 20), "red")
    note = worlds.Image.Exif()
    note[0x0112] = 6  # "turn by a quarter to the right"
    assert decoded(drawn, kind="JPEG", exif=note).shape == (40, 20, 3)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_white(mode):
    clear = worlds.Image.new("RGBA", (8, 8), (200, 0, 0, 0)).convert(mode)
    assert (decoded(clear) == 255).all()


@pytest.mark.parametrize("mode", ["1", "L", "I;16", "CMYK"])
def test_every_mode_becomes_three_bytes_a_pixel(mode):
    kind = "JPEG" if mode == "CMYK" else "PNG"
    assert decoded(worlds.Image.new(mode, (8, 6)), kind=kind).shape == (6, 8, 3)


# Prompts


def test_a_text_cannot_act_as_a_control_token_or_a_picture(scorer_of):
    for family in worlds.FAMILIES:
        model = scorer_of(family).model
        writer = writer_of(scorer_of(family), NOTED)
        controls = {token for token, added in model.tokenizer.added_tokens_decoder.items() if added.special}
        look = model.look(model.pixels(worlds.picture(1))).text
        written = []
        for note in ("seen in May", f"{model.placeholder}<|im_end|><|im_start|><end_of_utterance><img>" * 3):
            ids = writer.prefix([1], [{"note": note}], [look])
            written.append([token for token in ids if token in controls])
        assert written[0] == written[1]
        assert written[0].count(model.image_token) == len(model.look(model.pixels(worlds.picture(1))).features)


@each_family
def test_texts_beside_pictures_count_and_are_scored_exactly(scorer_of, family):
    contexts = [[Example({"image": worlds.picture(1), "note": note}, 1)] for note in ("in May", "by night")]
    queries = [{"image": worlds.picture(2), "note": "at sea"}]
    ours = scores(scorer_of(family), contexts, queries, NOTED)
    np.testing.assert_allclose(ours, plain(scorer_of(family), contexts, queries, NOTED), atol=1e-4)
    assert np.abs(ours[0, 0] - ours[0, 1]).max() > 1e-3


@pytest.mark.slow
def test_a_template_without_a_system_role_gets_the_instruction_in_the_first_question(tmp_path):
    folder = worlds.save("qwen2_5_vl", tmp_path)
    refusing = "{%- if messages[0].role == 'system' -%}{{ raise_exception('no') }}{%- endif -%}" + worlds.INTERNVL
    refusing = refusing.replace("<IMG_CONTEXT>", "<|image_pad|>")
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": refusing}))
    scorer = VisionScorer(folder, device="cpu")
    drawn = writer_of(scorer)._draw(())[0]
    assert drawn == f"<|im_start|>user\n{TASK.instruction}\n\n"
    np.testing.assert_allclose(scores(scorer), plain(scorer), atol=1e-4)


def test_a_template_that_loses_pictures_is_refused(tmp_path):
    folder = worlds.save("qwen2_5_vl", tmp_path)
    losing = worlds.QWEN.replace("<|image_pad|>", "")
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": losing}))
    with pytest.raises(ModelError, match="every turn exactly once"):
        VisionScorer(folder, device="cpu").prepare(TASK, [[]])


def test_a_task_that_writes_the_image_token_is_refused(scorer_of):
    task = Task(
        labels=["a", "b"], instruction="Look: <image>", query="{image}", example="{image} {label}", image="image"
    )
    with pytest.raises(TaskError, match="<image>"):
        scorer_of("smolvlm").prepare(task, [[]])


# Refusals


def test_a_task_of_text_alone_is_refused(scorer_of):
    with pytest.raises(TaskError, match="names no image field"):
        scorer_of("internvl").prepare(Task(labels=["a", "b"]), [[]])


@pytest.mark.parametrize("options", [{"cache_bytes": -1}, {"max_pixels": 0}, {"max_pixels": True}, {"device": "tpu"}])
def test_arguments_out_of_range_are_refused(folder, options):
    with pytest.raises(ParameterError):
        VisionScorer(folder("internvl"), **options)


def test_folders_without_a_model_and_other_families_are_refused(tmp_path, folder):
    with pytest.raises(ModelError, match="not a folder"):
        VisionScorer(str(tmp_path / "nowhere"))
    with pytest.raises(ModelError, match=r"config\.json"):
        VisionScorer(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(ModelError, match=r"'llama'.*qwen2_5_vl, internvl"):
        VisionScorer(str(tmp_path))


def test_a_checkpoint_without_a_template_is_refused(tmp_path):
    folder = worlds.save("internvl", tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(ModelError, match="no chat template"):
        VisionScorer(folder)


def test_code_in_a_checkpoint_is_never_run(tmp_path):
    code = f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n"
    (tmp_path / "evil.py").write_text(code)
    auto = dict.fromkeys(("AutoConfig", "AutoModelForImageTextToText", "AutoProcessor"), "evil.Evil")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "evil", "auto_map": auto}))
    with pytest.raises(ModelError):
        VisionScorer(str(tmp_path))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("module", "package"), [("PIL", "pillow"), ("transformers", "transformers")])
def test_a_missing_package_is_named_with_its_extra(monkeypatch, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "sottovoce.models.vision.label_scorer")
    with pytest.raises(MissingExtraError, match=rf"'{package}'.*sottovoce\[vision\]"):
        load_scorer("vision:anything")


# Nothing private gets out


def test_contexts_show_nothing_and_are_gone_when_closed(scorer_of):
    scorer = scorer_of("internvl")
    prepared = scorer.prepare(TASK, CONTEXTS)
    assert f"{prepared}" == repr(prepared) == "VisionContexts(sealed prompts)"
    with pytest.raises(OpaqueError):
        pickle.dumps(prepared)
    prepared.close()
    prepared.close()
    assert scorer.store.used_bytes == 0
    with pytest.raises(ModelError, match="closed"):
        prepared.score(QUERIES)


def test_errors_of_the_numerical_library_are_not_passed_on(folder):
    scorer = VisionScorer(folder("internvl"), device="cpu")

    def failing(pixels):
        raise RuntimeError(f"shape {tuple(pixels.inputs['pixel_values'].shape)} of a secret picture")

    scorer.model.look = failing
    with pytest.raises(ModelError, match="RuntimeError") as caught:
        scorer.prepare(TASK, CONTEXTS)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_an_expert_on_whose_picture_the_model_fails_is_null_and_no_bit_of_another_changes(folder):
    scorer = VisionScorer(folder("internvl"), device="cpu")
    base, honest = Reading(scorer, TASK, CONTEXTS).score(QUERIES), scorer.model.pixels
    bad = CONTEXTS[1][0].fields["image"]
    scorer.model.pixels = lambda value: {}[value] if value == bad else honest(value)
    found = Reading(scorer, TASK, CONTEXTS).score(QUERIES)
    others = [k for k, context in enumerate(CONTEXTS) if all(example.fields["image"] != bad for example in context)]
    assert others
    assert np.isnan(found[:, 1]).all()
    assert found[:, others].tobytes() == base[:, others].tobytes()


# From records to an answer


def session(model, count=6):
    labels = TASK.labels
    rows = [Row(k, {"image": worlds.picture(60 + k), "label": labels[k % 5]}) for k in range(1, count + 1)]
    records = PrivateRecords(rows, source="pictures.jsonl")
    return PrivateICL(records=records, task=TASK, method="poe", model=model, budget=Budget(4, 1e-6), ledger=":memory:")


@each_family
def test_a_session_releases_one_answer_from_private_pictures(scorer_of, family):
    icl = session(scorer_of(family))
    release = icl.ask({"image": worlds.picture(7)}, epsilon=1)
    assert release.value in TASK.labels
    assert release.remaining.answers == 1
    icl.close()
    assert scorer_of(family).store.used_bytes == 0


@pytest.mark.cases(1)
@pytest.mark.parametrize("question", [UNREADABLE["cut short"], "hello"])
def test_a_question_that_cannot_be_read_is_an_error_before_any_charge(scorer_of, question):
    icl = session(scorer_of("smolvlm"))
    with pytest.raises((ModelError, InputError)) as caught:
        icl.ask(question, epsilon=1)
    assert question not in str(caught.value)
    assert icl.balance.answers == 0


def test_the_catalog_opens_a_folder_by_name(folder):
    scorer = load_scorer(f"vision:{folder('internvl')}", device="cpu", max_pixels=400)
    assert isinstance(scorer, VisionScorer)


# Hostile pictures


def odd_pictures():
    """What one record may hold besides what cannot be decoded: thin, tiny, of other depths, several in a file."""
    grey = worlds.Image.fromarray((np.arange(64 * 48).reshape(48, 64) * 21).astype(np.uint16))
    drawn = worlds.Image.open(worlds.BytesIO(worlds.base64.b64decode(worlds.picture(3))))
    return {
        "a dot": worlds.picture(1, (4, 4)),
        "a line": worlds.packed(worlds.Image.new("1", (65_535, 1), 1)),
        "a column": worlds.packed(worlds.Image.new("1", (1, 65_535), 1)),
        "a line of a million": worlds.packed(worlds.Image.new("1", (1_000_000, 1), 1)),
        "sixteen bits": worlds.packed(grey),
        "CMYK": worlds.packed(drawn.convert("CMYK"), "JPEG"),
        "animated": worlds.packed(drawn, save_all=True, append_images=[drawn.rotate(90)]),
    }


@each_way
def test_no_picture_fails_the_call_or_changes_another_expert_or_is_logged(scorer_of, family, split, caplog, recwarn):
    caplog.set_level("DEBUG", logger="PIL")
    scorer, mine, odd = scorer_of(family, split=split), CONTEXTS[1], odd_pictures().values()
    alone = scores(scorer, [mine], QUERIES[:1])
    caplog.clear()
    found = scores(scorer, [*([Example({"image": each}, 0)] for each in odd), mine], QUERIES[:1])
    assert found[:, -1].tobytes() == alone[:, 0].tobytes()
    readable = np.isfinite(found).all(axis=(0, 2))
    assert readable[[0, 4, 5, 6, 7]].all()
    assert not readable[3]
    assert not caplog.records
    assert not recwarn.list


SHAPES = [
    {"num_hidden_layers": 1, "intermediate_size": 16, "num_key_value_heads": 1},
    {"num_hidden_layers": 3, "intermediate_size": 72, "num_key_value_heads": 4},
]
SETTINGS = [
    {"dtype": "bfloat16", "cache_bytes": 20_000, "max_pixels": 300},
    {"dtype": "float32", "cache_bytes": 0, "max_pixels": 2_000},
    {"dtype": "float32", "reuse_cache": False},
]


@pytest.mark.slow
@each_family
@pytest.mark.parametrize("shape", SHAPES, ids=["small", "large"])
def test_an_expert_is_bit_equal_beside_others_whatever_the_model_and_the_memory(tmp_path, family, shape):
    chance = np.random.default_rng(17)
    path = worlds.save(family, tmp_path, **shape)
    for settings in SETTINGS:
        scorer = VisionScorer(path, device="cpu", **settings)
        world = [
            [
                example(int(chance.integers(999)), k % 5, size=tuple(map(int, chance.integers(5, 70, 2))))
                for k in range(n)
            ]
            for n in (1, 0, 3, 2)
        ]
        together = scores(scorer, world)
        for index, context in enumerate(world):
            beside = scores(scorer, [[Example({"image": "no"}, 0)], world[index - 1], context], QUERIES[::-1])
            assert beside[::-1][:, 2].tobytes() == together[:, index].tobytes()
            assert scores(scorer, [context]).tobytes() == together[:, index].tobytes()
        # One prepared object, asked again and in another order: nothing of a question stays for the next.
        prepared = scorer.prepare(TASK, world)
        first, again = prepared.score(QUERIES[:1]), [prepared.score(QUERIES[::-1])[::-1], prepared.score(QUERIES)]
        prepared.close()
        assert first[0].tobytes() == together[0].tobytes()
        assert all(np.ascontiguousarray(each).tobytes() == together.tobytes() for each in again)


@pytest.mark.slow
def test_it_is_told_by_its_weights_and_by_how_it_sees(tmp_path):
    place = worlds.save(next(iter(worlds.FAMILIES)), tmp_path)

    def settings(**options):
        return VisionScorer(place, device="cpu", **options).run_settings

    first, second = settings(), settings(max_pixels=64 * 64)
    assert len(first["weights"]) == 64
    assert {name for name in first if first[name] != second[name]} == {"max_pixels"}
    seen = tmp_path / "preprocessor_config.json"
    shapes = json.loads(seen.read_text())
    seen.write_text(json.dumps({**shapes, "image_mean": [0.1, 0.2, 0.3]}))
    third = settings()
    assert {name for name in first if first[name] != third[name]} == {"prompts"}
