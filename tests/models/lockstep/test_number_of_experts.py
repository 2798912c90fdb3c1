"""How many experts there are may be private: one more or less must not be seen in the last bits of any other row."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from decoding_worlds import plan_of  # noqa: E402
from models import tiny  # noqa: E402
from sottovoce.methods.prism import PRISM  # noqa: E402
from sottovoce.models.base import Isolation  # noqa: E402
from sottovoce.models.lockstep.attention import Panel  # noqa: E402
from sottovoce.models.lockstep.stepper import TransformersStepper  # noqa: E402
from sottovoce.models.stepper import Group, Prompt  # noqa: E402
from sottovoce.privacy.unit import Adjacency  # noqa: E402
from sottovoce.randomness import SeededRandomness  # noqa: E402

TEXTS = ("the card was charged twice", "hello there", "nothing", "a fee of ten on my account again", "login fails")
KINDS = ("packed", "float32", "bfloat16")
"""Small models are packed; the other two are what happens to models above the limit, to other dtypes and on CUDA."""
ROWS = 16


def wide():
    """Wide enough that a product of one row is computed by another kernel than a product of many."""
    import transformers

    sizes = {**tiny.SIZES, "hidden_size": 128, "intermediate_size": 512, "vocab_size": 2048}
    return tiny._random(transformers.LlamaForCausalLM, transformers.LlamaConfig(**sizes, num_key_value_heads=2))


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=KINDS)
def stepper(request):
    model = wide().to(torch.bfloat16) if request.param == "bfloat16" else wide()
    limit = {"packed_bytes": 0} if request.param == "float32" else {}
    made = TransformersStepper("tiny", loaded=(tiny.tokenizer(), model), layout="rows", rows=ROWS, **limit)
    assert (made.engine.packed > 0) == (request.param == "packed")
    return made


def prompt(label, inside):
    return Prompt(f"Here are texts of type {label}.\nText:", inside, "Text:")


def groups_of(counts, skip=()):
    """A group a label, with so many experts; some are left out."""
    return [
        Group(
            prompt("ABC"[label], ""),
            [prompt("ABC"[label], f" {TEXTS[k % 5]} {k}") for k in range(count) if (label, k) not in skip],
        )
        for label, count in enumerate(counts)
    ]


def rows(stepper, groups, texts=None, steps=2):
    """For each text its public row and its experts' rows, step by step."""
    texts = list(range(len(groups))) if texts is None else texts
    read = stepper.read(groups, max_private_tokens=10, tokens=4)
    decoding, found, given = read.write(texts, 4), [], dict.fromkeys(range(len(texts)))
    for step in range(steps):
        found.append([torch.cat([one.public[None], *one.blocks]).clone() for one in decoding.step(given)])
        given = {text: 7 + 3 * text + step for text in range(len(texts))}
    read.close()
    return found


def assert_same(with_one, without, kept):
    """Rows of one world, without those of who is not in the other, equal that one's."""
    for one, other in zip(with_one, without, strict=True):
        for label, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            assert torch.equal(mine[kept[label]], theirs), label


def everybody_but(count, gone=None):
    return [row for row in range(count + 1) if row != gone]


# One record more: for every place that is gone, in passes that end in 1, 2, 3 and 15 rows


@pytest.mark.cases(1)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 15, 16, 17, 18, 31, 33])
def test_an_expert_more_changes_no_bit_of_the_others_nor_of_a_public_row(stepper, count):
    for gone in {0, count - 1}:
        with_one, without = rows(stepper, groups_of([count, 2])), rows(stepper, groups_of([count, 2], {(0, gone)}))
        assert_same(with_one, without, [everybody_but(count, 1 + gone), everybody_but(2)])


@pytest.mark.slow
def test_an_expert_more_of_one_label_changes_no_bit_of_another_without_experts(stepper):
    for count in (14, 15, 16, 17):
        with_one, without = rows(stepper, groups_of([count, 0, 1])), rows(stepper, groups_of([count - 1, 0, 1]))
        kept = [everybody_but(count, count), everybody_but(0), everybody_but(1)]
        assert_same(with_one, without, kept)


@pytest.mark.slow
def test_an_expert_more_changes_no_bit_where_texts_share_panels(stepper):
    texts = [0, 1, 0, 0, 1]
    with_one, without = rows(stepper, groups_of([6, 5]), texts), rows(stepper, groups_of([6, 5], {(0, 2)}), texts)
    assert_same(with_one, without, [everybody_but(5 + (text == 0), 3 if text == 0 else None) for text in texts])


# Why: shapes. What the processor does is not asked here.


def shapes_of(stepper, groups, monkeypatch):
    """Shapes of everything that is computed beside a private row, and of what is computed for public prompts."""
    seen, honest_attend, honest_head = set(), Panel.attend, stepper.engine.head
    publics = []

    def attend(self, layer, query, key, value, rule):
        family = self.family
        shape = (self.slots, self.texts, family.shared, family.room, self.kept[0][0].shape[2:])
        (publics.append if len(family.lengths) == 1 else seen.add)(shape)
        return honest_attend(self, layer, query, key, value, rule)

    def head(states):
        seen.add(("head", len(states)))
        return honest_head(states)

    def body(_, __, given):
        seen.add(("pass", len(given["input_ids"])))

    with monkeypatch.context() as patch:
        patch.setattr(Panel, "attend", attend)
        patch.setattr(stepper.engine, "head", head)
        read = stepper.read(groups, max_private_tokens=10, tokens=4)
        hook = stepper.engine.model.body.register_forward_pre_hook(body, with_kwargs=True)
        decoding = read.write(range(len(groups)), 4)
        for step in range(2):
            for one in decoding.step(dict.fromkeys(range(len(groups)), 7 if step else None)):
                list(one.blocks)
        hook.remove()
        read.close()
    return seen, publics


@pytest.mark.cases(1)
def test_no_shape_follows_from_the_number_of_experts(stepper, monkeypatch):
    rows(stepper, groups_of([1, 1]))  # whatever is tried once is tried before
    worlds = [shapes_of(stepper, groups_of(counts), monkeypatch) for counts in ((1, 1), (2, 3), (15, 16), (17, 40))]
    assert all(world == worlds[0] for world in worlds)
    seen, publics = worlds[0]
    assert {("pass", ROWS), ("head", ROWS), ("pass", 2), ("head", 2)} <= seen  # two public prompts, by themselves
    assert len(seen) == 4 + len({shape for shape in seen if not isinstance(shape[0], str)})
    assert publics


# The self-test notices each of these


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "leak",
    [
        lambda out, rows: out + 1e-6 * out.nan_to_num().mean(dim=0, keepdim=True),  # rows mix
        lambda out, rows: torch.cat([out[:-1], out[-1:] * (1 + 1e-6)]),  # the last place is another
        lambda out, rows: torch.where((rows == rows[0]).all(-1, keepdim=True), out, out * (1 + 1e-6)),  # who leads
    ],
)
def test_the_self_test_notices_a_layer_where_neighbours_or_places_matter(leak):
    stepper = TransformersStepper("tiny", loaded=(tiny.tokenizer(), tiny.llama()), layout="rows", rows=ROWS)
    stepper.engine.model.body.layers[1].register_forward_hook(
        lambda _, given, out: leak(out, given[0]) if out.shape[1] == 1 and len(out) == ROWS else out
    )
    assert stepper.isolation is Isolation.NOT_VERIFIED


def test_the_self_test_notices_a_head_where_places_matter():
    stepper = TransformersStepper("tiny", loaded=(tiny.tokenizer(), tiny.llama()), layout="rows", rows=ROWS)
    honest = stepper.engine.head
    stepper.engine.head = lambda states: honest(states) * (1 + 1e-6 * (torch.arange(len(states)) == 14)[:, None])
    assert stepper.isolation is Isolation.NOT_VERIFIED


def test_the_places_behind_the_last_whole_panel_of_a_pass_are_tried():
    stepper = TransformersStepper("tiny", loaded=(tiny.tokenizer(), tiny.llama()), layout="rows", rows=24)
    stepper.engine.model.body.layers[1].register_forward_hook(
        lambda _, given, out: torch.cat([out[:-1], out[-1:].roll(1, -1)]) if len(out) == 24 else out
    )
    assert stepper.isolation is Isolation.NOT_VERIFIED
    assert stepper.panel_rows == 16


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "found"), [("rows", Isolation.NOT_VERIFIED), ("auto", Isolation.BY_CONSTRUCTION)])
def test_what_fails_at_the_shape_of_a_run_alone_is_found_in_its_rehearsal(monkeypatch, layout, found):
    stepper = TransformersStepper("tiny", loaded=(tiny.tokenizer(), tiny.llama()), layout=layout, rows=ROWS)
    assert stepper.isolation is Isolation.TESTED
    honest = Panel.attend

    def attend(self, layer, query, key, value, rule):
        out = honest(self, layer, query, key, value, rule)
        return out if self.family.room < 77 else out * (1 + 1e-3 * torch.arange(len(out))[:, None, None])

    monkeypatch.setattr(Panel, "attend", attend)
    stepper.read(groups_of([0]), max_private_tokens=20, tokens=4).close()
    assert stepper.isolation is Isolation.TESTED
    stepper.read(groups_of([0]), max_private_tokens=80, tokens=4).close()
    assert stepper.isolation is found


@pytest.mark.cases(1)
def test_the_shapes_that_were_tried_are_told(stepper):
    rows(stepper, groups_of([3, 2]))
    told = [str(shape) for shape in stepper.shapes]
    assert all(f"passes of {ROWS} rows" in one for one in told)
    wanted = {len(stepper.parts.tokens(prompt(label, ""), 10).prefix) for label in "AB"}
    assert wanted <= {shape.prefix for shape in stepper.shapes}
    assert all(one != other for one, other in itertools.pairwise(told))


# What it would do to the law of a token: candidates that only one world has cost more than any epsilon


def laws(stepper, groups):
    plan = plan_of(PRISM(clip=2.0, temperature=0.7, top_k=20), Adjacency.ADD_REMOVE, experts=16)
    read = stepper.read(groups, max_private_tokens=10, tokens=4)
    decoding, found, given = read.write(range(len(groups)), 4), [], dict.fromkeys(range(len(groups)))
    for step in range(2):
        for one in decoding.step(given):
            chooser = plan.decoder.start(
                plan, SeededRandomness(0), eos_tokens=stepper.eos_tokens, forbidden_tokens=stepper.forbidden_tokens
            )
            found.append(chooser.law(one).tolist())
        given = dict.fromkeys(range(len(groups)), 9 + step)
    read.close()
    return found


@pytest.mark.slow
def test_an_expert_more_moves_no_law_of_another_label(stepper):
    one, other = laws(stepper, groups_of([17, 0])), laws(stepper, groups_of([16, 0]))
    assert one[1::2] == other[1::2]
    assert one[::2] != other[::2]


@pytest.mark.cases(1)
def test_a_prompt_on_which_the_model_fails_has_the_law_of_one_that_is_not_there(stepper, monkeypatch):
    honest, groups = stepper.engine.read_behind, groups_of([17, 2])

    def fails(prefix, ids, own, row):
        if row == 4 and len(own[0][0]) > 16:
            raise RuntimeError("no")
        return honest(prefix, ids, own, row)

    absent = laws(stepper, groups_of([17, 2], {(0, 4)}))
    assert laws(stepper, groups) != absent
    monkeypatch.setattr(stepper.engine, "read_behind", fails)
    assert laws(stepper, groups) == absent
