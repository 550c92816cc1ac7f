"""Endpoints that break, stall and gossip: tried again where that helps, and no key gets out."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from otolith import Disk, Versioned
from otolith.agent import Agent, AnthropicModel, Model, OpenAIModel, TextRestart
from otolith.errors import Busy, Error, ModelFailed
from tests.patience import HANG_SECONDS
from tests.unit.agent.provider import Provider, serving

KEY = "sk-very-secret-0123456789"


def model(provider: Provider, protocol: str = "openai", **limits):
    limits = {
        "retries": 0,
        "timeout_seconds": HANG_SECONDS,
        "sleep": lambda seconds: None,
        **limits,
    }
    if protocol == "openai":
        return OpenAIModel(f"{provider.url}/v1", "m", api_key=KEY, **limits)
    return AnthropicModel("m", api_key=KEY, base_url=provider.url, **limits)


ESCAPED = "".join(f"\\u{ord(sign):04x}" for sign in KEY)
GOSSIP = [
    b'{"error": {"message": "' + ESCAPED.encode() + b'"}}',
    b'data: {"error": {"message": "' + b"x" * 290 + ESCAPED.encode() + b'"}}\n\n',
    f"<html>debug: {KEY}</html>".encode(),
    b"x" * 290 + KEY.encode(),  # what is shown is cut off in the middle of it
    json.dumps({"error": {"message": f"bad key {KEY}"}}).encode(),
    b"data: " + json.dumps({"error": {"message": "x" * 285 + KEY}}).encode() + b"\n\n",
    b"data: " + json.dumps({"type": "error", "error": {"message": KEY}}).encode() + b"\n\n",
    b"data: " + KEY.encode() + b"\n\n",
]


@pytest.mark.parametrize("raw", GOSSIP)
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize("on_text", [None, lambda text: None])
def test_a_key_that_the_answer_tells_is_nowhere(tmp_path: Path, protocol, on_text, raw):
    with serving({"raw": raw}) as provider, Versioned(Disk(tmp_path / "a.db")) as state:
        agent = Agent(model(provider, protocol), on_text=on_text, max_repairs=1)
        with pytest.raises(Error) as caught:
            agent.run("go", state)
        assert KEY[:8] not in str(caught.value)
        assert not [event for event in state.events if KEY[:8] in str(event.data)]
    assert KEY[:8].encode() not in (tmp_path / "a.db").read_bytes()


def test_a_key_is_not_told_by_a_refusal_that_is_cut_off():
    body = {"error": {"message": "x" * 295 + KEY}}
    with serving({"status": 400, "body": body}) as provider, pytest.raises(Error) as caught:
        model(provider).complete([])
    assert KEY[:4] not in str(caught.value)


def test_an_answer_that_breaks_off_is_asked_for_again_if_nothing_was_handed_on():
    with serving("cut", {"text": "whole"}) as provider:
        reply = model(provider, retries=1).complete([])
    assert reply.text == "whole"
    assert len(provider.requests) == 2


def test_an_answer_that_is_too_short_is_a_failure():
    with serving("cut") as provider, pytest.raises(ModelFailed, match=r"connection to .* failed"):
        model(provider).complete([])


def test_an_error_with_the_status_of_an_answer_is_told():
    raw = json.dumps({"error": {"message": "the model is overloaded"}}).encode()
    with serving({"raw": raw}) as provider, pytest.raises(ModelFailed, match="is overloaded"):
        model(provider).complete([])


def test_a_pause_may_be_asked_for_by_a_date():
    slept: list[float] = []
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    busy = {"status": 429, "headers": {"Retry-After": later}}
    with serving(busy, {"text": "there"}) as provider:
        model(provider, retries=1, sleep=slept.append).complete([])
    assert 15 < slept[0] <= 20


def test_a_server_may_say_the_name_of_a_call_in_every_piece():
    def piece(delta: dict[str, object], why: str | None = None) -> bytes:
        event = {"choices": [{"delta": delta, "finish_reason": why}]}
        return b"data: " + json.dumps(event).encode() + b"\n\n"

    parts = [
        piece({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": a}}]})
        for a in ('{"x"', ": 1}")
    ]
    raw = b"".join([*parts, piece({}, "tool_calls")])
    with serving({"raw": raw}) as provider:
        reply = model(provider).complete([], on_text=lambda text: None)
    (call,) = reply.message.calls
    assert (call.name, call.arguments) == ("f", {"x": 1})


def test_when_the_time_is_up_it_is_told_what_the_model_was_waiting_for():
    with serving({"text": "x"}) as provider:
        pass  # nobody is there any more
    state = Versioned()
    asked = model(provider, retries=5, sleep=lambda seconds: provider.never.wait(HANG_SECONDS))
    outcome = Agent(asked).run("go", state, max_seconds=0.5)
    provider.never.set()
    assert outcome.ended == "seconds"
    assert "refused" in outcome.why
    (event,) = [event for event in state.events if event.kind == "error"]
    assert "refused" in str(event.data["error"])


def test_a_stream_that_ends_early_is_asked_for_again_and_told():
    half = b'data: {"choices": [{"delta": {"content": "The price "}}]}\n\n'
    heard: list[str] = []
    with serving({"raw": half}, {"text": "is 5"}) as provider:
        agent = Agent(model(provider, retries=1), on_text=heard.append)
        assert agent.run("go", Versioned()).answer.strip() == "is 5"
    assert heard == ["The price ", "", "is ", "5 "]
    assert isinstance(heard[1], TextRestart)
    assert "middle of an answer" in heard[1].reason


@pytest.mark.parametrize("header", [{"Retry-After": "120"}, {"Retry-After-Ms": "120000"}])
def test_the_pause_that_an_endpoint_asks_for_is_made(header):
    slept: list[float] = []
    with serving({"status": 429, "headers": header}, {"text": "there"}) as provider:
        model(provider, retries=1, sleep=slept.append).complete([])
    assert slept == [120]


def test_an_endpoint_that_asks_for_too_long_a_pause_is_not_asked_again():
    slept: list[float] = []
    with serving({"status": 503, "headers": {"Retry-After": "3600"}}) as provider:
        with pytest.raises(Busy, match=r"503.*asks for a pause of 3,600 s"):
            model(provider, retries=3, sleep=slept.append).complete([])
        patient = model(provider, retries=1, max_pause_seconds=4000, sleep=slept.append)
        with pytest.raises(ModelFailed):
            patient.complete([])
    assert slept == [3600]


@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_key_is_not_told_however_it_is_written(status):
    with serving({"status": status, "body": b'{"error": "' + ESCAPED.encode() + b'"}'}) as provider:
        with pytest.raises(Error) as caught:
            model(provider).complete([])
        with pytest.raises(Error) as slashed:
            OpenAIModel(f"{provider.url}/v1", "m", api_key="sk/x", retries=0).complete([])
    assert KEY[:4] not in str(caught.value)
    assert "sk/x" not in str(slashed.value)


@pytest.mark.parametrize(
    "url", ["http://user:SECRET@host:99999/v1", "host?key=SECRET", "ftp://u:SECRET@h"]
)
def test_what_an_address_hides_is_not_told(url):
    with pytest.raises(Error) as caught:
        OpenAIModel(url, "m")
    assert "SECRET" not in str(caught.value)


def test_the_query_of_an_address_is_not_told():
    with serving({"text": "x"}) as provider, pytest.raises(Error) as caught:
        OpenAIModel(f"{provider.url}/v1?key=SECRET&x=a b", "m", retries=0).complete([])
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_key_that_is_a_word_stays_in_good_answers(protocol, is_streamed):
    calls = [("c1", "run", {"ollama": "ollama\n"})]
    with serving({"text": "ollama run llama3", "calls": calls}) as provider:
        if protocol == "openai":
            made: Model = OpenAIModel(f"{provider.url}/v1", "m", api_key="ollama")
        else:
            made = AnthropicModel("m", api_key="ollama", base_url=provider.url)
        heard: list[str] = []
        reply = made.complete([], on_text=heard.append if is_streamed else None)
    assert reply.text.strip() == "ollama run llama3"
    assert dict(reply.message.calls[0].arguments) == {"ollama": "ollama\n"}
    assert not is_streamed or "".join(heard).strip() == "ollama run llama3"
