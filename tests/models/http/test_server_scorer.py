"""Labels scored by a server over real sockets: both ways, what is missing, and servers that give no probabilities."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

pytest.importorskip("httpx2")

from tests.models.http.faulty import MODEL, FaultyServer, Seen, body_of, only, packed, status, well

from sottovoce.cli import run
from sottovoce.errors import ModelError, TaskError
from sottovoce.methods.poe import PoE
from sottovoce.models.base import Isolation, LabelScorer
from sottovoce.models.http import asking
from sottovoce.models.http.label_scorer import FLOOR, ServerScorer
from sottovoce.models.registry import load_scorer
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.session import PrivateICL
from sottovoce.tasks import Example, Task

TASK = Task(labels=["billing", "fraud"], instruction="Route the ticket.")
ALIKE = Task(labels=["bank card", "bank account", "parcel"], instruction="Route the ticket.")
CONTEXTS = [(), (Example({"text": "charged twice"}, 0),), (Example({"text": "not me"}, 1),)]
QUERIES = [{"text": "a fee"}, {"text": "a stranger"}]


def pieces(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+\Z", text)


def log_p(before: list[str], token: str) -> float:
    """A toy: what has come before is likelier to come again, the more so the more often."""
    return -1 / (1 + before.count(token)) - 0.01 * len(token)


def scored(seen: Seen, *, heeds: tuple[str, ...] = ("echo", "top", "chat"), most: int = 99) -> list[bytes]:
    """What a server that gives log-probabilities says."""
    fields = seen.fields
    body = body_of(seen, text="x", end="length")
    if fields.get("echo"):
        if "echo" not in heeds:
            return status("400 Bad Request")(seen)
        tokens = pieces(fields["prompt"])
        scores = [None, *(log_p(tokens[:place], tokens[place]) for place in range(1, len(tokens)))]
        more = fields["max_tokens"]
        told = {"tokens": tokens + [" more"] * more, "token_logprobs": scores + [-9.0] * more}
        body["choices"][0]["logprobs"] = told
    elif "logprobs" in fields and "prompt" in fields:
        if "top" not in heeds or fields["logprobs"] > most:
            return status("400 Bad Request")(seen)
        before = pieces(fields["prompt"])
        words = [" billing", " fraud", " other", " b"]
        body["choices"][0]["logprobs"] = {"top_logprobs": [{word: log_p(before, word) for word in words}]}
    elif "logprobs" in fields and "chat" in heeds:
        top = [
            {"token": "fraud", "logprob": -0.1},
            {"token": "bill", "logprob": -3.0},
            {"token": "grass", "logprob": -9},
        ]
        body["choices"][0]["logprobs"] = {"content": [{"token": "fraud", "top_logprobs": top}]}
    return [packed(body)]


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    for name in ("SOTTO_API_KEY", "OPENAI_API_KEY", "SOTTO_API", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(asking, "FIRST_WAIT_S", 0.001)


@pytest.fixture
def server():
    with FaultyServer(scored) as running:
        yield running


def scorer(server: FaultyServer, **options) -> ServerScorer:
    return ServerScorer(server.name, **{"cache": False, "timeout_s": 5, "retries": 1, **options})


def by_hand(task: Task, context, query) -> np.ndarray:
    """The label's tokens after the prompt, one by one."""
    shots = "".join(f"Text: {e.fields['text']}\nLabel: {task.labels[e.label]}\n\n" for e in context)
    before = pieces(f"{task.instruction}\n\n{shots}Text: {query['text']}\nLabel:")
    scores = []
    for label in task.labels:
        tokens = pieces(f" {label}\n\n")
        scores.append(sum(log_p(before + tokens[:n], token) for n, token in enumerate(tokens)))
    return np.array(scores) - np.logaddexp.reduce(scores)


@pytest.mark.parametrize("task", [TASK, ALIKE], ids=["apart", "alike"])
def test_an_echo_gives_the_probability_of_the_whole_label(server, task):
    scores = scorer(server).prepare(task, CONTEXTS).score(QUERIES)
    expected = [[by_hand(task, context, query) for context in CONTEXTS] for query in QUERIES]
    assert np.allclose(scores, expected, atol=1e-9)
    assert np.allclose(np.exp(scores).sum(-1), 1)
    assert isinstance(scorer(server), LabelScorer)


def test_a_server_that_must_write_a_token_is_asked_for_one_which_is_left_out(server):
    def answer(seen):
        return status("400 Bad Request")(seen) if seen.fields["max_tokens"] == 0 else scored(seen)

    whole = scorer(server).prepare(TASK, CONTEXTS).score(QUERIES)
    server.answer = answer
    assert scorer(server).prepare(TASK, CONTEXTS).score(QUERIES).tobytes() == whole.tobytes()
    assert server.seen[-2].fields["max_tokens"] == 1


def test_likeliest_tokens_give_the_probability_of_those_that_one_label_begins_with(server):
    server.answer = lambda seen: scored(seen, heeds=("top",), most=5)
    scores = scorer(server).prepare(TASK, CONTEXTS).score(QUERIES[:1])[0]
    assert server.seen[-2].fields["logprobs"] == 5
    for context, row in zip(CONTEXTS, scores, strict=True):
        before = pieces("".join(f" {TASK.labels[example.label]}\n\n" for example in context))
        told = [
            np.logaddexp(log_p(before, " billing"), log_p(before, " b")),
            log_p(before, " fraud"),
        ]
        assert np.allclose(row, np.array(told) - np.logaddexp.reduce(told))


def test_a_label_that_is_not_among_the_likeliest_is_at_the_floor_and_none_is_a_null_expert(server):
    def answer(seen):
        body = body_of(seen, text="x", end="length")
        words = {" other": -0.1} if "not me" in seen.fields.get("prompt", "") else {" billing": -0.5, " grass": -1}
        body["choices"][0]["logprobs"] = {"top_logprobs": [words]}
        return [packed(body)]

    server.answer = answer
    scores = scorer(server, score="top").prepare(TASK, CONTEXTS).score(QUERIES[:1])[0]
    assert scores[:2].tolist() == [[0.0, FLOOR + 0.5]] * 2
    assert np.isnan(scores[2]).all()


def test_labels_that_begin_alike_need_a_server_that_echoes(server):
    server.answer = lambda seen: scored(seen, heeds=("top",))
    with pytest.raises(TaskError, match=r"begin alike \('bank'\)"):
        scorer(server).prepare(ALIKE, [()])


def test_a_chat_gives_its_likeliest_tokens_too(server):
    server.answer = lambda seen: scored(seen, heeds=("chat",))
    scores = scorer(server, api="chat").prepare(TASK, CONTEXTS[:1]).score(QUERIES[:1])
    told = np.array([-3.0, -0.1])
    assert np.allclose(scores[0, 0], told - np.logaddexp.reduce(told))
    assert np.allclose(scorer(server).prepare(TASK, CONTEXTS[:1]).score(QUERIES[:1]), scores)


def records() -> PrivateRecords:
    rows = [Row(n, {"text": f"note {n}", "label": TASK.labels[n % 2]}) for n in range(8)]
    return PrivateRecords(rows, source="memory")


@pytest.mark.parametrize(
    ("options", "words"),
    [({}, "but isolation not verified: no formal guarantee"),
     ({"isolation": "asserted"}, "asserted by the operator, not tested; whoever hosts the model sees the prompts)")],
)  # fmt: skip
def test_an_answer_says_what_is_known_of_the_server(server, tmp_path, options, words):
    session = PrivateICL(
        records=records(), task=TASK, model=scorer(server, **options), method=PoE(), ledger=str(tmp_path / "ledger.db"),
        budget=Budget(4, 1e-6),
    )  # fmt: skip
    release = session.ask({"text": "which?"}, epsilon=0.5)
    assert words in release.statement
    assert session.balance.epsilon_used > 0


@pytest.mark.parametrize("answer", [well, lambda seen: scored(seen, heeds=())], ids=["does not heed", "refuses"])
def test_a_server_without_log_probabilities_is_refused_before_anything_is_charged(server, tmp_path, answer):
    server.answer = answer
    session = PrivateICL(
        records=records(),
        task=TASK,
        model=scorer(server),
        method=PoE(),
        ledger=str(tmp_path / "ledger.db"),
        budget=Budget(4, 1e-6),
    )
    with pytest.raises(ModelError, match="does not give log-probabilities"):
        session.ask({"text": "which?"}, epsilon=0.5)
    assert session.balance.epsilon_used == 0
    assert not any("note" in json.dumps(seen.fields) for seen in server.seen)


def test_one_experts_own_failure_is_its_own_row(server):
    server.answer = lambda seen: (
        only(status("400 Bad Request"), "not me") if "not me" in str(seen.fields) else scored
    )(seen)
    whole = scorer(server)
    scores = whole.prepare(TASK, CONTEXTS).score(QUERIES)
    assert np.isnan(scores[:, 2]).all()
    assert np.allclose(scores[:, :2], [[by_hand(TASK, c, q) for c in CONTEXTS[:2]] for q in QUERIES])


def test_a_bare_question_is_asked_once_and_keeps_its_bits(server):
    asked = scorer(server)
    first = asked.prepare(TASK, [()]).score(QUERIES)
    count = len(server.seen)
    noise = iter(range(10**6))

    def noisy(seen):
        body = json.loads(scored(seen)[0].partition(b"\r\n\r\n")[2])
        told = body["choices"][0]["logprobs"]["token_logprobs"]
        told[1:] = [score - 1e-7 * next(noise) for score in told[1:]]
        return [packed(body)]

    server.answer = noisy
    assert asked.prepare(TASK, [()]).score(QUERIES).tobytes() == first.tobytes()
    assert len(server.seen) == count


def test_scores_of_another_version_are_not_mixed_in(server):
    def named(version):
        def answer(seen):
            (sent,) = scored(seen)
            return [packed({**json.loads(sent.partition(b"\r\n\r\n")[2]), "model": f"small-{version}"})]

        return answer

    for version in (1, 2):
        server.answer = named(version)
        before = len(server.seen)
        scorer(server, cache=True).prepare(TASK, CONTEXTS).score(QUERIES)
        asked = len(server.seen) - before
        assert asked > 4, "all of it is asked again"


def test_scores_are_kept_as_they_came(server):
    first = scorer(server, cache=True).prepare(TASK, CONTEXTS).score(QUERIES)
    server.answer = lambda seen: scored(seen) if "probe" in str(seen.fields) or "grass" in str(seen.fields) else []
    assert scorer(server, cache=True).prepare(TASK, CONTEXTS).score(QUERIES).tobytes() == first.tobytes()


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "told",
    [None, {}, {"tokens": ["a"], "token_logprobs": []}, {"tokens": ["a"], "token_logprobs": [None]},
     {"tokens": ["a", "b"], "token_logprobs": [None, "x"]}, {"tokens": ["a", "b"], "token_logprobs": [None, 0.5]},
     {"tokens": ["a", "b"], "token_logprobs": [None, None]},
     {"tokens": ["a", "b"], "token_logprobs": [None, 10**400]}],
)  # fmt: skip
def test_log_probabilities_that_are_none_are_an_own_failure(server, told):
    def answer(seen):
        body = json.loads(scored(seen)[0].partition(b"\r\n\r\n")[2])
        if "not me" in seen.fields["prompt"]:
            body["choices"][0]["logprobs"] = told
        return [packed(body)]

    server.answer = answer
    scores = scorer(server).prepare(TASK, CONTEXTS).score(QUERIES)
    assert np.isnan(scores).any(-1).tolist() == [[False, False, True]] * 2


@pytest.mark.parametrize("least", [-math.inf, -(10**400)], ids=["infinite", "an integer that no float holds"])
def test_impossible_tokens_are_at_the_floor(server, least):
    def answer(seen):
        content = json.loads(scored(seen)[0].partition(b"\r\n\r\n")[2])
        told = content["choices"][0]["logprobs"]
        pairs = zip(told["tokens"], told["token_logprobs"], strict=True)
        told["token_logprobs"] = [least if "fraud" in token else score for token, score in pairs]
        return [packed(json.dumps(content).encode())]

    server.answer = answer
    scores = scorer(server).prepare(TASK, [()]).score(QUERIES[:1])[0, 0]
    assert np.isfinite(scores).all()
    assert scores[1] < -900


def test_isolation_and_name_are_the_servers(server):
    asserted = load_scorer(f"openai:{server.name},isolation=asserted,score=echo")
    assert (asserted.isolation, asserted.name) == (Isolation.ASSERTED, f"openai:{MODEL}@{server.url}")
    assert scorer(server).isolation is Isolation.NOT_VERIFIED
    with pytest.raises(ModelError, match="api=completions, or with api=chat and score=top"):
        scorer(server, api="responses")


def test_a_command_says_who_sees_the_prompts_and_reads_the_key_from_the_environment(
    server, tmp_path, monkeypatch, capfd
):
    rows = [{"text": f"note {n}", "label": TASK.labels[n % 2]} for n in range(8)]
    (tmp_path / "private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOTTO_API_KEY", "sk-secret")
    monkeypatch.setenv("SOTTO_API", "completions")
    words = [
        "ask",
        "which?",
        "--private",
        "private.jsonl",
        "--labels",
        "billing,fraud",
        "--method",
        "poe",
        "--epsilon",
        "1",
    ]
    words += ["--budget", "8,1e-6", "--ledger", "ledger.db", "--model", f"openai:{server.name},isolation=asserted"]
    assert run(words) == 0
    said = " ".join("".join(capfd.readouterr()).split())
    assert "whoever hosts the model sees them" in said
    assert "asserted by the operator, not tested" in said
    assert "sk-secret" not in said
    assert {seen.headers["authorization"] for seen in server.seen} == {"Bearer sk-secret"}
