"""Requests side by side get the texts that they get by themselves."""

import pytest
from tests.models import tiny

from sottovoce.benchmarks.public_data.batched import BatchedWriter
from sottovoce.benchmarks.public_data.writers import writer_of
from sottovoce.models.base import Isolation, WritingRequest

pytest.importorskip("torch")

SHOTS = [("The parcel came late.", "late parcel"), ("My card was charged twice.", "double charge")]
REQUESTS = [
    WritingRequest("Summarize.", SHOTS[:shots], f"The lamp {'by the river ' * length}does not turn on.")
    for shots in range(3)
    for length in range(7)
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "chat"])
def test_a_text_is_that_of_the_request_by_itself(kind):
    from sottovoce.models.writing.writer import TransformersWriter

    loaded = (tiny.tokenizer(), tiny.llama()) if kind == "plain" else (tiny.tokenizer(tiny.CHAT), tiny.qwen3())
    alone = TransformersWriter(kind, loaded=loaded)
    batched = BatchedWriter(alone)
    assert batched.write(REQUESTS, tokens=8) == alone.write(REQUESTS, tokens=8)
    assert batched.write([], tokens=8) == []
    assert batched.isolation is Isolation.NOT_VERIFIED
    assert batched.name == f"batched:{kind}"


def test_a_request_that_does_not_fit_has_no_text():
    from sottovoce.models.writing.writer import TransformersWriter

    batched = BatchedWriter(TransformersWriter("plain", loaded=(tiny.tokenizer(), tiny.llama())))
    long = WritingRequest("Summarize.", (), "word " * (batched.longest or 0))
    texts = batched.write([REQUESTS[0], long], tokens=4)
    assert texts[0]
    assert texts[1] is None


def test_a_writer_is_opened_by_name():
    writer_of.cache_clear()
    assert writer_of("nearest").name == "nearest"
    assert writer_of("fake").name == "fake"
