"""Language models in lockstep: their own logits, rows that keep apart, memory that is capped and given back."""

from __future__ import annotations

import gc
import weakref

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from models import tiny  # noqa: E402
from sottovoce.errors import ModelError, ParameterError  # noqa: E402
from sottovoce.models.base import Isolation  # noqa: E402
from sottovoce.models.lockstep import attention  # noqa: E402
from sottovoce.models.lockstep import model as model_module  # noqa: E402
from sottovoce.models.lockstep import packed as packed_module  # noqa: E402
from sottovoce.models.lockstep import prefill as read_module  # noqa: E402
from sottovoce.models.lockstep.attention import Panel  # noqa: E402
from sottovoce.models.lockstep.stepper import TransformersStepper  # noqa: E402
from sottovoce.models.stepper import Group, Prompt, Stepper  # noqa: E402


def bert():
    """A decoder of the other school: learned absolute positions, a head that is more than a matrix."""
    sizes = {**tiny.SIZES, "intermediate_size": 96, "max_position_embeddings": 512}
    config = transformers.BertConfig(**sizes, is_decoder=True, pad_token_id=0, initializer_range=0.3)
    return tiny._random(transformers.BertLMHeadModel, config)


MODELS = {name: getattr(tiny, name) for name in ("llama", "qwen3", "gpt2", "gemma2", "mixtral", "loud")} | {
    "bert": bert
}
BEFORE, AFTER = "Read the text and answer with its label.\n\nText: ", "\nMore:"
SECRET = "My card was charged twice for one order."
TEXTS = (SECRET, "ok", "", "The parcel came late and the box was wet. " * 3, "Close it.")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Tiny products are slower on several threads than on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def stepper_of():
    """Steppers by model, for tests that plant nothing in them."""
    made = {}

    def of(name, **given):
        key = name, tuple(sorted(given.items()))
        if key not in made:
            made[key] = fresh(name, **given)
        return made[key]

    return of


@pytest.fixture
def llama(stepper_of):
    return stepper_of("llama")


def fresh(name="llama", *, template=None, **given):
    return TransformersStepper(f"tiny {name}", loaded=(tiny.tokenizer(template), MODELS[name]()), **given)


def prompt(inside, before=BEFORE, after=AFTER):
    return Prompt(before, inside, after)


def group(texts=TEXTS, **given):
    experts = [None if text is None else prompt(text, **given) for text in texts]
    return Group(prompt("a text", **given), experts)


def token(text, step):
    return (11 + 37 * text + 5 * step) % 390 + 4


def written(stepper, groups, texts=(0,), steps=3, *, max_private_tokens=40, moves=None):
    """Rows by (text, step): the public prompt's, then the experts'. Each step, the texts that ``moves`` names."""
    prompts = stepper.read(groups, max_private_tokens=max_private_tokens, tokens=steps)
    decoding = prompts.write(texts, steps)
    found, had = {}, [0] * len(texts)
    for step in range(steps):
        moving = range(len(texts)) if moves is None else moves[step]
        given = {text: token(text, had[text]) if had[text] else None for text in moving}
        for one in decoding.step(given):
            found[one.text, had[one.text]] = torch.cat([one.public[None], *one.blocks]).clone()
            had[one.text] += 1
    prompts.close()
    decoding.close()
    return found


def plain(stepper, one, text, step, *, max_private_tokens=40):
    """A forward pass of its own over the same tokens, by the unmodified model: the slow, obvious version."""
    read = stepper.parts.tokens(one, max_private_tokens)
    ids = [*read.prefix, *read.private, *read.suffix, *(token(text, k) for k in range(1, step + 1))]
    with torch.no_grad():
        return stepper.engine.model.model(torch.tensor([ids]), use_cache=False).logits[0, -1]


def assert_plain(stepper, groups, texts, found, **given):
    for (text, step), rows in found.items():
        one = groups[texts[text]]
        for row, each in zip(rows, (one.public, *one.experts), strict=True):
            if each is None:
                assert row.isnan().all()
            else:
                torch.testing.assert_close(row, plain(stepper, each, text, step, **given), atol=1e-4, rtol=0)


# What the numbers are


@pytest.mark.cases(1)
@pytest.mark.parametrize("layout", ["rows", "single"])
@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2", "bert", "gemma2"])
def test_rows_equal_separate_uncached_forward_passes(stepper_of, name, layout):
    stepper = stepper_of(name, layout=layout)
    groups = [group(), group((None, "fraud", None), before="Other text: "), group(("a", "b" * 30))]
    texts = [0, 2, 0, 1, 0]
    found = written(stepper, groups, texts, steps=4)
    assert len(found) == 20
    assert_plain(stepper, groups, texts, found)


@pytest.mark.slow
def test_texts_of_uneven_lengths_equal_separate_passes(llama):
    groups, texts = [group(TEXTS[:3])], [0, 0, 0]
    moves = [[0], [0, 2], [2], [2, 1, 0], [1], [1]]
    found = written(llama, groups, texts, steps=6, moves=moves)
    assert sorted(found) == [(text, step) for text in range(3) for step in range(3)]
    assert_plain(llama, groups, texts, found)


@pytest.mark.slow
def test_a_public_prompt_with_an_opening_of_its_own_equals_a_separate_pass(llama):
    experts = group().experts
    for public in (Prompt("Anything goes. ", "", "\n\nWrite:"), Prompt("", "", "")):
        groups = [Group(public, experts), Group(public, [None])]
        assert_plain(llama, groups, [0, 0, 1], written(llama, groups, [0, 0, 1]))


@pytest.mark.slow
def test_many_small_passes_and_blocks_equal_separate_passes():
    stepper = fresh("qwen3", rows=3, layout="rows")
    stepper.workspace._head_rows = 4
    groups, texts = [group(), group(("x",))], [0, 1, 0, 1, 1]
    assert_plain(stepper, groups, texts, written(stepper, groups, texts))


@pytest.mark.slow
def test_a_chat_template_frames_every_prompt():
    stepper = fresh(template=tiny.CHAT, chat=True)
    read = stepper.parts.tokens(prompt("ok"), 40)
    text = stepper.engine.model.tokenizer.decode([*read.prefix, *read.private, *read.suffix])
    expected = f"<|im_start|>user\n{BEFORE}ok{AFTER}<|im_end|>\n<|im_start|>assistant\n"
    assert text == expected
    assert_plain(stepper, [group()], [0], written(stepper, [group()]))
    assert [stepper.engine.model.tokenizer.decode([end]) for end in stepper.eos_tokens] == [
        "<|endoftext|>",
        "<|im_end|>",
    ]


def test_a_text_is_continued_by_a_chat_model_too_unless_a_template_is_asked_for():
    stepper = fresh(template=tiny.CHAT)
    read = stepper.parts.tokens(prompt("ok"), 40)
    assert stepper.engine.model.tokenizer.decode([*read.prefix, *read.private, *read.suffix]) == f"{BEFORE}ok{AFTER}"
    with pytest.raises(ModelError, match="no chat template"):
        fresh(chat=True)


@pytest.mark.slow
def test_steps_may_be_gathered_before_their_blocks_are_read(llama):
    decoding = llama.read([group()], max_private_tokens=40, tokens=3).write([0, 0], 3)
    list(decoding.step({0: None, 1: None}))
    given = {1: 9, 0: 8}
    late = list(decoding.step(given))
    assert [step.text for step in late] == [1, 0]
    rows = [torch.cat([*step.blocks]).clone() for step in late]
    assert not torch.equal(rows[0], rows[1])
    decoding = llama.read([group()], max_private_tokens=40, tokens=3).write([0], 3)
    [stale] = decoding.step({0: None})
    list(decoding.step({0: 7}))
    with pytest.raises(ModelError, match="a step that is over"):
        list(stale.blocks)


# Isolation


WORLDS = {
    "others replaced": [SECRET, "x", "y " * 30, "z", ""],
    "others permuted": [SECRET, *TEXTS[:0:-1]],
    "others gone": [SECRET, None, None, None, None],
    "others unreadable": [SECRET, "y " * 400, "x" * 300, "", "ok"],
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", ["llama", "bert"])
def test_a_row_is_equal_in_every_bit_whatever_the_others_hold(stepper_of, name, world):
    stepper = stepper_of(name)
    other = group(("never mind", "it"))
    base = written(stepper, [group(), other], [0, 1, 0])
    found = written(stepper, [group(WORLDS[world]), other], [0, 1, 0])
    for at, rows in base.items():
        kept = slice(0, 2) if at[0] != 1 else slice(None)
        assert torch.equal(rows[kept], found[at][kept])


@pytest.mark.slow
def test_a_row_is_equal_in_every_bit_however_many_texts_are_under_way(llama):
    groups, texts = [group(), group(("a", "b"))], [0, 1, 0, 0]
    together = written(llama, groups, texts)
    for alone in range(4):
        found = written(llama, groups, texts, moves=[[alone]] * 3)
        assert all(torch.equal(rows, together[at]) for at, rows in found.items())


def test_shapes_do_not_depend_on_what_prompts_hold(llama, monkeypatch):
    def shapes(texts):
        seen = []
        honest = Panel.attend

        def spied(self, layer, query, key, value, rule):
            column, mask = self.mask(rule.window)
            seen.append((query.shape, self.family.own[layer][0].shape, self.kept[layer][0].shape, column, mask.shape))
            return honest(self, layer, query, key, value, rule)

        with monkeypatch.context() as patch:
            patch.setattr(Panel, "attend", spied)
            written(llama, [group(texts)], [0, 0])
        return seen

    written(llama, [group()], [0, 0])  # whatever is tried once is tried before
    assert len(shapes(TEXTS)) == 8  # two steps, two layers, the public prompt and the experts
    assert shapes(TEXTS) == shapes([None] * 5) == shapes(["y " * 400] * 5) == shapes([""] * 5)


def test_padding_to_the_longest_private_text_is_caught(monkeypatch):
    # The mistake: rooms follow what prompts hold. Then a long text among the others changes everybody's shapes.
    honest = read_module.LockstepPrompts._group

    def padded(self, plan, room, read):
        longest = max(len(one.own) for one in (plan.public, *plan.experts))
        return honest(self, plan, longest, read)

    assert_same_rooms(fresh(layout="rows"))
    monkeypatch.setattr(read_module.LockstepPrompts, "_group", padded)
    with pytest.raises(AssertionError):
        assert_same_rooms(fresh(layout="rows"))


def assert_same_rooms(stepper):
    rooms = []
    for texts in (TEXTS, ["ok"] * 5):
        prompts = stepper.read([group(texts)], max_private_tokens=40, tokens=2)
        rooms.append(prompts.groups[0].experts.room)
        prompts.close()
    assert rooms[0] == rooms[1]


def _shifted_positions(self, places):
    """Everybody's new tokens stand behind the longest prompt."""
    honest = Panel.move.honest(self, places)
    return honest.max().expand(len(honest))


def _mask_too_far(self, window):
    """A text may look at one place more than it has."""
    self.places = [place + 1 for place in self.places]
    return Panel._mask.honest(self, window)


def _mask_too_short(self, window):
    self.places = [max(place - 1, 0) for place in self.places]
    return Panel._mask.honest(self, window)


@pytest.mark.cases(1)
@pytest.mark.parametrize("model", ["llama", "loud"])
@pytest.mark.parametrize(
    ("name", "mistake"), [("move", _shifted_positions), ("_mask", _mask_too_far), ("_mask", _mask_too_short)]
)
def test_wrong_positions_or_masks_fail_the_self_test_and_nothing_is_read(monkeypatch, name, mistake, model):
    mistake.honest = getattr(Panel, name)
    monkeypatch.setattr(Panel, name, mistake)
    stepper = fresh(model)
    assert not stepper.self_test().exact
    with pytest.raises(ModelError, match="does not give its own logits"):
        stepper.read([group()], max_private_tokens=40, tokens=3)


@pytest.mark.cases(1)
@pytest.mark.parametrize(("layout", "found"), [("rows", Isolation.NOT_VERIFIED), ("auto", Isolation.BY_CONSTRUCTION)])
def test_a_model_that_mixes_the_rows_of_a_batch_is_labelled_or_run_a_row_at_a_time(layout, found):
    stepper = fresh(layout=layout)
    stepper.engine.model.body.layers[0].register_forward_hook(
        lambda _, __, out: out + 1e-6 * out.mean(dim=0, keepdim=True) if out.shape[1] == 1 else out
    )
    assert stepper.isolation is found


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "found"), [("rows", Isolation.NOT_VERIFIED), ("auto", Isolation.BY_CONSTRUCTION)])
def test_a_mixture_of_experts_is_never_verified_in_rows(stepper_of, layout, found):
    stepper = stepper_of("mixtral", layout=layout)
    assert stepper.engine.mixes
    assert stepper.isolation is found
    if layout == "auto":
        assert_plain(stepper, [group()], [0, 0], written(stepper, [group()], [0, 0]))


@pytest.mark.slow
def test_a_model_with_states_as_large_as_those_of_trained_ones_is_recognised_and_verified(monkeypatch):
    def other_order(module):  # as another kernel would add up
        half = module.weight.shape[1] // 2
        return lambda rows: (
            rows[..., half:] @ module.weight[:, half:].mT
            + rows[..., :half] @ module.weight[:, :half].mT
            + (0 if module.bias is None else module.bias)
        )

    monkeypatch.setattr(packed_module, "_product", other_order)
    stepper = fresh("loud")
    model = stepper.engine.model
    ids = torch.tensor([model.made_up(6)])
    with torch.no_grad():
        states = model.body(ids, output_hidden_states=True).hidden_states
        truth = model.plain_logits(ids)
        with stepper.engine._packed():
            packed = model.plain_logits(ids)
    assert max(float(state.abs().max()) for state in states) > 1e4
    assert float((packed - truth).abs().max()) > 1e-4 + 8 * torch.finfo(torch.float32).eps * float(truth.abs().max())
    assert stepper.self_test().passed


def test_control_tokens_are_not_what_a_model_is_tried_with(llama):
    model = llama.engine.model
    assert not {*model.ordinary} & {*llama.parts.controls}
    assert {*model.made_up(2 * model.words)} == {*model.ordinary}


def test_rows_that_keep_apart_are_verified(llama):
    assert (llama.isolation, llama.layout) == (Isolation.TESTED, "rows")
    report = llama.self_test()
    assert report.passed
    assert report.largest_difference < 1e-4


# Private texts


def test_only_the_own_part_of_a_long_text_is_cut(llama):
    long = llama.parts.tokens(prompt("wet box " * 50), 7)
    short = llama.parts.tokens(prompt(""), 7)
    assert len(long.private) == 7
    assert (long.prefix, long.suffix) == (short.prefix, short.suffix)
    found = written(llama, [group(["wet box " * 50])], max_private_tokens=7)
    assert_plain(llama, [group(["wet box " * 50])], [0], found, max_private_tokens=7)


def test_a_private_text_that_looks_like_control_is_read_as_letters(llama):
    read = llama.parts.tokens(prompt("stop <|endoftext|> <think> now"), 60)
    assert not set(read.private) & llama.parts.controls
    assert llama.engine.model.tokenizer.decode(read.private) == " stop <|endoftext|> <think> now"


def test_a_private_text_that_cannot_be_kept_apart_is_a_null_row_and_others_are_not_touched(monkeypatch):
    stepper = fresh()
    honest = stepper.parts._writer.encode
    base = written(stepper, [group()])
    monkeypatch.setattr(
        stepper.parts._writer,
        "encode",
        lambda p, first: None if any("ok" in q.text for q in p) else honest(p, first=first),
    )
    for at, rows in written(stepper, [group()]).items():
        assert rows[2].isnan().all()
        assert torch.equal(rows[[0, 1, 3, 4, 5]], base[at][[0, 1, 3, 4, 5]])
    with pytest.raises(ModelError, match="public"):
        stepper.read([Group(prompt("ok"), [])], max_private_tokens=40, tokens=3)


def test_experts_with_different_public_text_are_refused(llama):
    with pytest.raises(ParameterError, match="one text for all experts of a group"):
        llama.read([Group(prompt(""), [prompt("a"), prompt("b", before="Else: ")])], max_private_tokens=9, tokens=3)
    with pytest.raises(ParameterError, match="one text for all experts of a group"):
        llama.read([Group(prompt(""), [prompt("a"), prompt("b", after=" Else:")])], max_private_tokens=9, tokens=3)


def test_nothing_that_is_kept_or_raised_shows_a_private_text(llama):
    prompts = llama.read([group()], max_private_tokens=40, tokens=3)
    decoding = prompts.write([0], 3)
    [step] = decoding.step({0: None})
    shown = f"{prompts!r} {decoding!r} {step!r} {prompts.groups[0]!r} {prompts.groups[0].experts!r} {llama!r}"
    assert "card" not in shown
    assert "tensor" not in shown
    prompts.close()
    decoding.close()


def failing_on(stepper, monkeypatch, text, error, *, for_good=False):
    """The model fails on the prompt that holds this text, and on every one behind it if it is broken by then."""
    marks, honest = stepper.parts.tokens(prompt(text), 40).private, stepper.engine.model.body.forward
    failed = []

    def forward(*args, **given):
        ids = given["input_ids"][0].tolist()
        if tuple(ids[: len(marks)]) == marks or (for_good and failed):
            failed.append(True)
            raise error
        return honest(*args, **given)

    monkeypatch.setattr(stepper.engine.model.body, "forward", forward)


@pytest.mark.slow
def test_a_prompt_on_which_the_model_fails_is_a_null_row_and_others_are_not_touched(monkeypatch):
    stepper = fresh()
    base = written(stepper, [group()])
    failing_on(stepper, monkeypatch, TEXTS[3], RuntimeError("no"))
    for at, rows in written(stepper, [group()]).items():
        assert rows[4].isnan().all()
        assert torch.equal(rows[[0, 1, 2, 3, 5]], base[at][[0, 1, 2, 3, 5]])


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("error", "for_good"),
    [
        (MemoryError(), False),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"), False),
        (RuntimeError("can't start new thread"), False),
        (RuntimeError("no"), True),
    ],
)
def test_a_failure_that_prompts_share_fails_everybody_and_makes_nobody_null(monkeypatch, error, for_good):
    stepper = fresh()
    stepper.read([group()], max_private_tokens=40, tokens=3).close()
    failing_on(stepper, monkeypatch, TEXTS[3], error, for_good=for_good)
    with pytest.raises(ModelError):
        stepper.read([group()], max_private_tokens=40, tokens=3)
    assert stepper.workspace.memory.used == 0


@pytest.mark.slow
def test_a_model_that_recovers_before_the_last_prompt_fails_everybody_too(monkeypatch):
    stepper = fresh()
    stepper.read([group()], max_private_tokens=40, tokens=3).close()
    behind, public, broken = stepper.engine.read_behind, stepper.engine.read, []

    def read_behind(prefix, ids, own, row):
        broken[:] = [row] if row == 3 and len(own[0][0]) > 1 else []
        if broken:
            raise RuntimeError("no")
        return behind(prefix, ids, own, row)

    def read(prefix):
        pairs, end = public(prefix)
        return pairs, end * torch.nan if broken else end

    monkeypatch.setattr(stepper.engine, "read_behind", read_behind)
    monkeypatch.setattr(stepper.engine, "read", read)
    with pytest.raises(ModelError, match="any more as it did before it failed"):
        stepper.read([group()], max_private_tokens=40, tokens=3)


@pytest.mark.slow
@pytest.mark.parametrize("failing", [True, False])
def test_a_model_that_never_repeats_itself_is_found_out_whether_or_not_a_prompt_failed(monkeypatch, failing):
    # Else "does any prompt fail?" would be told by whether an answer comes. The rehearsal, which reads too, finds it.
    stepper = fresh()
    stepper.read([group()], max_private_tokens=40, tokens=3).close()
    honest, times = stepper.engine.read, []

    def read(prefix):
        pairs, end = honest(prefix)
        times.append(prefix)
        return pairs, end + 1e-3 * len(times)

    monkeypatch.setattr(stepper.engine, "read", read)
    if failing:
        failing_on(stepper, monkeypatch, TEXTS[3], RuntimeError("no"), for_good=False)
    for groups in ([group()], [group(())]):
        with pytest.raises(ModelError, match="does not read public text as it did before"):
            stepper.read(groups, max_private_tokens=40, tokens=3)
    assert stepper.workspace.memory.used == 0


def test_a_prompt_whose_numbers_are_not_finite_adds_nothing_and_others_are_not_touched(monkeypatch):
    stepper = fresh()
    base, honest = written(stepper, [group()]), stepper.engine.read_behind

    def read_behind(prefix, ids, own, row):
        last = honest(prefix, ids, own, row)
        if row == 3 and len(own[0][0]) > 1:
            own[0][0][row], last = torch.nan, last * torch.inf
        return last

    monkeypatch.setattr(stepper.engine, "read_behind", read_behind)
    for at, rows in written(stepper, [group()]).items():
        assert not rows[4].isfinite().any()
        assert torch.equal(rows[[0, 1, 2, 3, 5]], base[at][[0, 1, 2, 3, 5]])


def test_a_failure_inside_the_model_tells_no_sizes(monkeypatch):
    stepper = fresh()
    assert stepper.layout == "rows"

    def failing(*_, **__):
        raise RuntimeError("The size of tensor a (317) must match " + SECRET)

    monkeypatch.setattr(stepper.engine.model.body, "forward", failing)
    with pytest.raises(ModelError, match="stopped with RuntimeError") as caught:
        stepper.read([group()], max_private_tokens=40, tokens=3)
    assert "317" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert stepper.workspace.memory.used == 0


# Memory, positions and order


@pytest.mark.slow
def test_what_does_not_fit_is_refused_before_it_is_read_in_public_numbers(monkeypatch):
    # 2 layers, 2 key heads of 12 numbers, keys and values, 4 bytes: 384 bytes a position.
    stepper = fresh(cache_bytes=200_000)
    assert (stepper.layout, stepper.engine.bytes_of(1)) == ("rows", 384)
    monkeypatch.setattr(model_module.LockstepModel, "read", lambda *_: pytest.fail("a prompt was read"))
    prefix, tail = (len(part) for part in (stepper.parts.prefix(BEFORE.rstrip()), stepper.parts.public(AFTER)))
    need = 384 * (prefix + 17 * (100 + tail) + 17 * 3)  # the public prompt, and a panel for the five experts
    for texts in (TEXTS, [None] * 5):
        with pytest.raises(ModelError, match=f"would need {need:,} bytes, and 200,000 may be used"):
            stepper.read([group(texts)], max_private_tokens=100, tokens=3)
    assert stepper.workspace.memory.used == 0


@pytest.mark.slow
def test_texts_that_do_not_fit_beside_the_prompts_are_refused():
    stepper = fresh(cache_bytes=400_000)
    prompts = stepper.read([group()], max_private_tokens=40, tokens=3)
    with pytest.raises(ModelError, match="of them in use"):
        prompts.write([0] * 20, 3)
    prompts.write([0], 3)


def test_prompts_longer_than_the_model_can_read_are_refused_whatever_they_hold(llama):
    for texts in (TEXTS, [None] * 5):
        with pytest.raises(ModelError, match="positions and the model has 512"):
            llama.read([group(texts)], max_private_tokens=480, tokens=64)


@pytest.mark.slow
def test_closed_prompts_and_texts_give_back_everything_they_kept():
    stepper = fresh()
    prompts = stepper.read([group()], max_private_tokens=40, tokens=3)
    decoding = prompts.write([0, 0], 3)
    list(decoding.step({0: None}))
    watched = [weakref.ref(pair[0]) for pair in prompts.groups[0].experts.own]
    watched += [weakref.ref(panel.kept[0][0]) for one in decoding._passes for panel in one.panels]
    assert stepper.workspace.memory.used > 0
    prompts.close()
    prompts.close()
    decoding.close()
    decoding.close()
    gc.collect()
    assert stepper.workspace.memory.used == 0
    assert [ref() for ref in watched] == [None] * len(watched)
    with pytest.raises(ModelError, match="closed"):
        prompts.write([0], 3)
    with pytest.raises(ModelError, match="closed"):
        decoding.step({0: 4})


def test_a_prefix_is_read_once_and_each_own_part_once(llama):
    written(llama, [group(), group(TEXTS[:2])], [0, 1, 0], steps=3)  # whatever is tried once is tried before
    read = []
    handle = llama.engine.model.body.register_forward_pre_hook(
        lambda _, __, given: read.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    try:
        written(llama, [group(), group(TEXTS[:2])], [0, 1, 0], steps=3)
    finally:
        handle.remove()
    parts = [llama.parts.tokens(prompt(text), 40) for text in ("a text", *TEXTS, "a text", *TEXTS[:2])]
    prefills = [(1, len(parts[0].prefix)), *((1, len(part.private) + len(part.suffix)) for part in parts)]
    # The prefix once more, to see that it is still read as before. Two steps with a token, each one pass for three
    # public rows and one, always as long, for 2 x 5 + 2 of experts.
    assert read == [*prefills, prefills[0], *[(3, 1), (llama.rows, 1)] * 2]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([{0: 5}], "None at the first step"),
        ([{0: None}, {0: None}], "a token at every later one"),
        ([{0: None}, {0: 5}, {0: 5}, {0: 5}], "at most 3"),
        ([{0: None}, {0: 4000}], "between 0 and 399"),
        ([{1: None}], "between 0 and 0"),
    ],
)
def test_steps_out_of_order_are_refused_and_change_nothing(llama, steps, words):
    decoding = llama.read([group()], max_private_tokens=40, tokens=3).write([0], 3)
    for step in steps[:-1]:
        list(decoding.step(step))
    with pytest.raises(ParameterError, match=words):
        decoding.step(steps[-1])
    decoding.close()


# Tokens


def test_it_is_a_stepper_whose_tokens_are_the_tokenizers(llama):
    assert isinstance(llama, Stepper)
    assert llama.name == "hf:tiny llama"
    ids = llama.encode("The lamp <|im_end|> by the river")
    assert llama.decode([*ids, *llama.eos_tokens]) == "The lamp <|im_end|> by the river"
    assert not set(ids) & llama.parts.controls


@pytest.mark.slow
def test_a_tokenizer_that_glues_blanks_to_words_reads_parts_as_it_reads_the_whole():
    tokenizer, model = tiny.metaspace_tokenizer(), tiny.llama()
    stepper = TransformersStepper("tiny", loaded=(tokenizer, model))
    assert stepper.isolation is Isolation.TESTED
    read = stepper.parts.tokens(Prompt("Read the text. Text: ", "The parcel came late", "\nLabel:"), 50)
    whole = tokenizer.encode("Read the text. Text: The parcel came late\nLabel:")
    assert [*read.prefix, *read.own] == whole


def test_what_no_text_may_hold_is_every_control_token_but_the_end_and_every_row_without_a_token(llama):
    tokenizer = llama.engine.model.tokenizer
    forbidden_tokens = set(llama.forbidden_tokens)
    assert set(llama.eos_tokens) == {tokenizer.eos_token_id}
    assert {
        tokenizer.convert_tokens_to_ids(text) for text in ("<|im_start|>", "<|im_end|>", "<think>")
    } <= forbidden_tokens
    assert set(range(len(tokenizer), 400)) <= forbidden_tokens
    assert not forbidden_tokens & {*llama.eos_tokens, *llama.encode("The lamp by the river")}
    assert llama.vocabulary == 400


@pytest.mark.parametrize("given", [{"layout": "tall"}, {"rows": 0}, {"cache_bytes": -1}, {"rows": True}])
def test_arguments_out_of_range_are_refused(given):
    with pytest.raises(ParameterError):
        fresh(**given)


@pytest.mark.slow
def test_it_loads_a_saved_model_by_its_folder(tmp_path, llama):
    folder = tiny.save(tiny.llama(), tmp_path / "llama")
    loaded = TransformersStepper(folder)
    assert loaded.name == f"hf:{folder}"
    torch.testing.assert_close(written(loaded, [group()])[0, 2], written(llama, [group()])[0, 2])


@pytest.mark.slow
def test_bfloat16_rows_stay_near_the_plain_pass():
    model = tiny.llama().to(torch.bfloat16)
    stepper = TransformersStepper("tiny", loaded=(tiny.tokenizer(), model))
    found = written(stepper, [group()], [0, 0])
    for (text, step), rows in found.items():
        assert rows.dtype == torch.float32
        expected = plain(stepper, prompt(SECRET), text, step).float()
        torch.testing.assert_close(rows[1], expected, atol=0.4, rtol=0)


def test_attention_of_an_unknown_kind_is_refused_before_anything_is_read(monkeypatch):
    # Llama's layers hand "dropout" on: as if it were something that the engine does not know.
    monkeypatch.setattr(attention, "_UNKNOWN", ("dropout",))
    stepper = fresh()
    with pytest.raises(ModelError, match="Its attention is of a kind that is not supported"):
        stepper.read([group()], max_private_tokens=8, tokens=2)
    assert stepper.workspace.memory.used == 0
