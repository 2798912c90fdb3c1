"""Writers: what a request shows, what the light one writes, and what is opened by name."""

from __future__ import annotations

import pickle

import pytest

from sottovoce.errors import ModelError, OpaqueError, ParameterError
from sottovoce.models.base import Writer, WritingRequest
from sottovoce.models.fake import FakeWriter
from sottovoce.models.registry import load_writer

SHOTS = [("a lost card", "Block it today."), ("a late fee", "Ask for it back.")]
REQUEST = WritingRequest("Advise.", SHOTS, "my card is lost")


def test_a_request_shows_and_stores_nothing_that_it_holds():
    assert repr(REQUEST) == str(REQUEST) == f"{REQUEST}" == "WritingRequest(sealed)"
    with pytest.raises(OpaqueError):
        pickle.dumps(REQUEST)


def test_requests_are_equal_where_all_that_they_hold_is():
    assert WritingRequest("Advise.", tuple(SHOTS), "my card is lost") == REQUEST
    others = [
        WritingRequest("Advise!", SHOTS, "my card is lost"),
        WritingRequest("Advise.", SHOTS[::-1], "my card is lost"),
        WritingRequest("Advise.", SHOTS, "my card"),
        WritingRequest("Advise.", SHOTS, "my card is lost", ("Question", "Answer")),
    ]
    assert not any(other == REQUEST for other in others)
    assert len({REQUEST, *others}) == 5


def test_the_light_writer_is_opened_by_name_and_cuts_to_its_tokens():
    writer = load_writer("fake")
    assert isinstance(writer, Writer)
    assert writer.write([REQUEST], tokens=2) == ["Block it"]
    with pytest.raises(ParameterError, match="one that writes texts"):
        load_writer("vectors:a")


def test_what_fails_on_its_own_has_no_text_and_what_is_shared_is_raised():
    def function(request: WritingRequest) -> str | None:
        if request.question == "none":
            return None
        if request.question == "own":
            raise ValueError("a private word")
        if request.question == "shared":
            raise ModelError("the server is gone", retryable=True)
        return request.question

    asked = [WritingRequest("", [], question) for question in ("a", "none", "own", "b")]
    assert FakeWriter(function).write(asked, tokens=9) == ["a", None, None, "b"]
    with pytest.raises(ModelError, match="gone"):
        FakeWriter(function).write([WritingRequest("", [], "shared")], tokens=9)


def test_a_request_that_does_not_fit_has_no_text():
    writer = FakeWriter(longest=20)
    assert writer.write([REQUEST, WritingRequest("", [], "short")], tokens=4) == [None, "short"]
    assert (writer.calls, writer.shots_read) == (2, 2)
