"""Models over HTTP, against a server that speaks both protocols and misbehaves in every way."""

from __future__ import annotations

import json
import logging
import pickle
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import pytest

from otolith import Versioned, events
from otolith.agent import (
    Agent,
    AnthropicModel,
    FunctionModel,
    Model,
    OpenAIModel,
    RecordedReply,
    ReplayModel,
    Reply,
    ScriptedModel,
    TextRestart,
    TokenUsage,
    Tool,
)
from otolith.agent.models.base import as_model, request_hash
from otolith.conversation import Attachment, Message, Reasoning, Role, Text, ToolCall, ToolResult
from otolith.errors import BadReply, Busy, Denied, Invalid, ModelFailed, TimedOut
from tests.patience import HANG_SECONDS
from tests.unit.agent.provider import Provider, serving
from tests.unit.conversation.legality import faults

KEY = "sk-very-secret"
ASKED = [Message(Role.SYSTEM, (Text("Be brief."),)), Message(Role.USER, (Text("Hi"),))]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def made(provider: Provider, protocol: str, **limits):
    limits = {
        "retries": 0,
        "timeout_seconds": HANG_SECONDS,
        "sleep": lambda seconds: None,
        **limits,
    }
    if protocol == "openai":
        return OpenAIModel(f"{provider.url}/v1", "m", api_key=KEY, **limits)
    return AnthropicModel("m", api_key=KEY, base_url=provider.url, **limits)


@pytest.fixture(params=["openai", "anthropic"])
def protocol(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def ask(request):
    """Ask a model, whole or as a stream."""

    def complete(model, messages=ASKED, tools=()):
        heard: list[str] = []
        reply = model.complete(
            messages, tools=list(tools), on_text=heard.append if request.param else None
        )
        if request.param:
            assert "".join(heard).split() == reply.text.split()
        return reply

    return complete


# ---------------------------------------------------------------- what is said


def test_a_text_comes_back_with_what_it_cost(protocol, ask):
    with serving({"text": "Good day to you"}) as provider:
        reply = ask(made(provider, protocol))
    assert reply.text.strip() == "Good day to you"
    assert reply.usage == TokenUsage(11, 7)
    assert reply.message.role is Role.ASSISTANT
    assert reply.message.tokens is None  # what it took is not what it costs to send it again
    assert provider.requests[0]["model"] == "m"


def test_calls_come_back_with_their_arguments(protocol, ask):
    calls = [("c1", "add", {"a": 1, "b": 2}), ("c2", "add", {"a": 3, "b": {"é": [None, "\n"]}})]
    with serving({"text": "Adding", "calls": calls}) as provider:
        reply = ask(made(provider, protocol), tools=[Tool(add)])
    assert [(c.id, c.name, dict(c.arguments)) for c in reply.message.calls] == calls
    offered = provider.requests[0]["tools"][0]
    schema = offered["function"]["parameters"] if protocol == "openai" else offered["input_schema"]
    assert schema["required"] == ["a", "b"]


def test_a_conversation_is_sent_as_the_provider_wants_it(protocol, ask):
    said = [
        *ASKED,
        Message(Role.ASSISTANT, (ToolCall("c1", "add", {"a": 1, "b": 2}),)),
        Message(Role.TOOL, (ToolResult("c1", "3"),)),
    ]
    with serving({"text": "Three"}) as provider:
        ask(made(provider, protocol), said)
    body = provider.requests[0]
    if protocol == "openai":
        roles = [message["role"] for message in body["messages"]]
        assert roles == ["system", "user", "assistant", "tool"]
        assert provider.headers[0]["Authorization"] == f"Bearer {KEY}"
    else:
        assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
        assert "Be brief." in str(body["system"])
        assert provider.headers[0]["x-api-key"] == KEY


def test_thinking_and_its_signature_come_back(ask):
    with serving({"thinking": "hm", "text": "yes"}) as provider:
        reply = ask(made(provider, "anthropic"))
    assert reply.message.parts[0] == Reasoning("hm", "s1g")


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Invalid),
        (401, Denied),
        (403, Denied),
        (404, Invalid),
        (429, Busy),
        (500, ModelFailed),
        (529, ModelFailed),
        (302, Invalid),
    ],
)
def test_a_refusal_is_an_error_of_its_kind_that_tells_no_secret(protocol, ask, status, error):
    body = {"error": {"message": f"you sent {KEY}, and that is wrong"}}
    with serving({"status": status, "body": body}) as provider, pytest.raises(error) as caught:
        ask(made(provider, protocol))
    assert KEY not in str(caught.value)
    assert "you sent ***" in str(caught.value)
    if error is ModelFailed:
        assert caught.value.status == status


def test_what_may_pass_is_tried_again(protocol, ask):
    slept: list[float] = []
    busy = {"status": 429, "headers": {"Retry-After": "3"}}
    with serving(busy, {"status": 503}, {"text": "there"}) as provider:
        reply = ask(made(provider, protocol, retries=2, sleep=slept.append))
    assert reply.text.strip() == "there"
    assert slept[0] == 3
    assert 0 < slept[1] < 2
    assert len(provider.requests) == 3


def test_what_cannot_pass_is_not_tried_again(protocol, ask):
    with serving({"status": 401}) as provider, pytest.raises(Denied):
        ask(made(provider, protocol, retries=5))
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>Bad gateway</html>",
        b"{}",
        b"[]",
        b"null",
        b'{"choices": []}',
        b'{"choices": [{"message": 3}]}',
        b'{"content": 3}',
        b'{"choices": [{"message": {"role": "user", "content": "hi"}}]}',
        b'{"choices": [{"message": {"content": null}, "finish_reason": "length"}]}',
        b'{"content": [{"type": "text", "text": " "}]}',
        b'{"content": [{"type": "tool_use", "id": "", "name": "", "input": {}}]}',
        b"data: nonsense\n\n",
        b"data: 3\n\n",
        b"\xff\xfe\x00",
    ],
)
def test_nonsense_is_a_bad_reply(protocol, ask, raw):
    with serving({"raw": raw}) as provider, pytest.raises(BadReply):
        ask(made(provider, protocol))


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b'data: {"choices": [{"delta": {"content": "half"}}]}\n\n', ModelFailed),
        (b'data: {"error": {"message": "overloaded"}}\n\n', ModelFailed),
        (b'data: {"type": "error", "error": {"type": "overloaded_error"}}\n\n', ModelFailed),
        (b'data: {"type": "error", "error": {"type": "rate_limit_error"}}\n\n', Busy),
        (b'data: {"error": {"type": "invalid_request_error"}}\n\n', BadReply),
    ],
)
def test_a_stream_that_breaks_off_or_ends_with_an_error_may_pass(protocol, raw, error):
    with serving({"raw": raw}) as provider, pytest.raises(error):
        made(provider, protocol).complete(ASKED, on_text=lambda _: None)


@pytest.mark.parametrize(
    ("protocol", "event"),
    [
        ("openai", {"choices": 3}),
        ("anthropic", {"type": "content_block_delta", "index": 4, "delta": {}}),
    ],
)
def test_an_event_that_is_malformed_is_a_bad_reply(protocol, event):
    raw = b"data: " + json.dumps(event).encode() + b"\n\n"
    with serving({"raw": raw}) as provider, pytest.raises(BadReply):
        made(provider, protocol).complete(ASKED, on_text=lambda _: None)


def test_silence_ends_after_its_time(protocol, ask):
    with serving("silence") as provider, pytest.raises(TimedOut):
        ask(made(provider, protocol, timeout_seconds=0.1))


@pytest.mark.parametrize("how", ["endless", "drip"])
def test_an_answer_that_never_ends_is_left(ask, how):
    with serving(how) as provider, pytest.raises(TimedOut):
        ask(made(provider, "openai", total_seconds=0.3))


def test_an_answer_that_breaks_off_is_a_failure(ask):
    with serving("cut") as provider, pytest.raises((ModelFailed, BadReply)):
        ask(made(provider, "openai"))


def test_nobody_at_the_address_is_a_failure(protocol, ask):
    with serving({"text": "x"}) as provider:
        pass
    with pytest.raises(ModelFailed):
        ask(made(provider, protocol))


def test_text_that_was_heard_and_comes_again_is_said_to_begin_anew():
    heard: list[str] = []
    pauses: list[float] = []
    overloaded = streamed(delta(content="word "), {"error": {"type": "overloaded_error"}})
    with serving("cut", overloaded, {"status": 503}, {"text": "again"}) as provider:
        model = made(provider, "openai", retries=3, sleep=pauses.append)
        reply = model.complete(ASKED, on_text=heard.append)
    assert reply.text == "again "
    assert heard == ["word ", "", "word ", "", "again "]
    reasons = [each.reason for each in heard if isinstance(each, TextRestart)]
    assert len(reasons) == 2
    assert "overloaded_error" in reasons[1]
    assert len(pauses) == 3
    assert all(pause > 0 for pause in pauses)


@pytest.mark.parametrize("url", ["ftp://x", "localhost:8000", ""])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(Invalid):
        OpenAIModel(url, "m")


def test_the_key_is_in_no_repr_log_event_or_commit(protocol, caplog):
    caplog.set_level(logging.DEBUG)
    state = Versioned()
    with serving({"text": "Fine"}) as provider:
        model = made(provider, protocol)
        agent = Agent(model=model)
        agent.run("How are you?", state)
        assert KEY not in repr(model) + repr(agent)
    stored = b"".join(map(pickle.dumps, _everything(state)))
    assert KEY.encode() not in stored
    assert KEY not in caplog.text


def _everything(state: Versioned):
    for commit in state.log():
        then = state.at(commit)
        yield commit.message
        yield dict(commit.meta)
        for top in (".loop", ".conversation", ".events", ".memory"):
            cell = then.cell_at((top,))
            yield None if cell is None else then.cells.load(cell)


@pytest.mark.parametrize(
    ("plan", "error"), [("silence", TimedOut), ({"status": 500}, ModelFailed), ("drip", TimedOut)]
)
def test_an_agent_whose_model_fails_goes_on_when_it_is_back(protocol, plan, error):
    state = Versioned()
    with serving(plan) as provider:
        agent = Agent(model=made(provider, protocol, timeout_seconds=0.1, total_seconds=0.2))
        with pytest.raises(error):
            agent.run("Hi", state)
    assert error.__name__ in events(state, kind="error")[0].data["error"]
    with serving({"raw": b"nonsense"}, {"text": "Hello"}) as provider:
        outcome = Agent(model=made(provider, protocol)).run("Hi", state)
    assert outcome.answer == "Hello"
    assert "not JSON" in events(state, kind="error")[-1].data["error"]


# ---------------------------------------------------------------- other models


def test_a_function_is_a_model():
    model = as_model(lambda messages: f"{len(messages)} messages")
    assert isinstance(model, Model)
    assert isinstance(model, FunctionModel)
    assert model.complete(ASKED).text == "2 messages"
    with_tools = as_model(lambda messages, tools: tools[0].name)
    assert with_tools.complete(ASKED, tools=[Tool(add)]).text == "add"
    with pytest.raises(Invalid):
        as_model(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [None, 3, Message(Role.USER, (Text("x"),)), b"x"])
def test_a_function_that_answers_nonsense_is_a_bad_reply(answer):
    with pytest.raises(BadReply):
        as_model(lambda messages: answer).complete(ASKED)


def test_a_script_goes_by_what_was_said_and_not_by_what_was_asked():
    model = ScriptedModel(["one", ["two", {"call": "add", "a": 1, "b": 2}], OSError("down")])
    assert model.complete(ASKED).text == model.complete(ASKED).text == "one"
    said = [*ASKED, model.complete(ASKED).message]
    second = model.complete(said)
    assert second.text == "two"
    assert dict(second.message.calls[0].arguments) == {"a": 1, "b": 2}
    with pytest.raises(OSError, match="down"):
        model.complete([*said, second.message])
    with pytest.raises(BadReply, match="3 lines"):
        model.complete([*said, second.message, second.message])


def test_a_record_answers_what_was_asked_and_nothing_else():
    reply = Reply(Message(Role.ASSISTANT, (Text("yes"),)), TokenUsage(1, 2), "stop")
    recorded = RecordedReply(0, 0, request_hash(ASKED, ()), "m", reply)
    assert RecordedReply.from_data(recorded.to_data()) == recorded
    model = ReplayModel([recorded])
    assert model.complete(ASKED) == reply
    with pytest.raises(BadReply, match="not on record"):
        model.complete(ASKED)
    other = ReplayModel([recorded], then=as_model(lambda messages: "no"))
    assert other.complete(ASKED[1:]).text == "no"
    assert (other.replayed, other.asked) == (0, 1)


def test_a_question_is_the_same_whenever_it_is_asked():
    later = [Message(each.role, each.parts, id="x", time=9) for each in ASKED]
    assert request_hash(later, ()) == request_hash(ASKED, ())
    assert request_hash(ASKED, [Tool(add)]) != request_hash(ASKED, ())
    assert request_hash(ASKED[::-1], ()) != request_hash(ASKED, ())


# ---------------------------------------------------------------- what endpoints do differently


def streamed(*events):
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return {"raw": "".join([*lines, "data: [DONE]\n\n"]).encode()}


def delta(**said):
    return {"choices": [{"delta": said, "finish_reason": said.pop("why", None)}]}


def test_thinking_comes_back_from_a_stream_too():
    plan = streamed(
        delta(reasoning_content="let "),
        delta(reasoning_content="me"),
        delta(content="Hi", why="stop"),
    )
    with serving(plan) as provider:
        reply = made(provider, "openai").complete(ASKED, on_text=lambda _: None)
        made(provider, "openai").complete([*ASKED, reply.message], on_text=lambda _: None)
    assert isinstance(reply.message.parts[0], Reasoning)
    assert reply.message.parts[0].text == "let me"
    assert provider.requests[1]["messages"][-1]["reasoning_content"] == "let me"


def test_calls_in_a_stream_need_no_index():
    first = {"id": "a", "function": {"name": "add", "arguments": '{"a"'}}
    rest = {"function": {"arguments": ": 1}"}}
    second = {"id": "b", "function": {"name": "add", "arguments": "{}"}}
    plan = streamed(
        delta(tool_calls=[first]), delta(tool_calls=[rest]), delta(tool_calls=[second], why="stop")
    )
    with serving(plan) as provider:
        reply = made(provider, "openai").complete(ASKED, on_text=lambda _: None)
    assert [(call.id, call.arguments) for call in reply.message.calls] == [
        ("a", {"a": 1}),
        ("b", {}),
    ]


def test_arguments_that_are_parsed_already_are_taken():
    call = {"id": "a", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    message = {"content": None, "tool_calls": [call]}
    answer = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
    with serving({"raw": answer}) as provider:
        assert made(provider, "openai").complete(ASKED).message.calls[0].arguments == {"a": 1}


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_refusal_is_what_the_model_says(is_streamed):
    whole = {"choices": [{"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}]}
    plan = streamed(delta(refusal="No."), delta(why="stop"))
    with serving(plan if is_streamed else {"raw": json.dumps(whole).encode()}) as provider:
        told = (lambda _: None) if is_streamed else None
        assert made(provider, "openai").complete(ASKED, on_text=told).text == "No."


def test_results_of_parallel_calls_are_sent_to_anthropic_in_one_message():
    calls = [("a", "add", {"a": 1, "b": 1}), ("b", "add", {"a": 2, "b": 2})]
    with serving({"text": "", "calls": calls}, {"text": "done"}) as provider:
        agent = Agent(made(provider, "anthropic"), tools=[add])
        assert agent.run("x", Versioned()).answer == "done"
    last = provider.requests[1]["messages"][-1]
    assert [each["tool_use_id"] for each in last["content"]] == ["a", "b"]
    assert provider.requests[1]["messages"][-2]["role"] == "assistant"


UNTIDY = [
    Message(Role.USER, (Text("hi"), Attachment("application/zip", b"PK", name="a.zip"))),
    Message(
        Role.ASSISTANT, (ToolCall("functions.f:0", "read.file"), ToolCall("c" * 50, "g", {"n": 1}))
    ),
    Message(Role.TOOL, (ToolResult("functions.f:0", "ok"),)),
    Message(Role.USER, (Text("go on"),)),
]


def test_what_is_sent_is_legal_whatever_was_said(protocol):
    with serving({"text": "ok"}) as provider:
        made(provider, protocol).complete(UNTIDY)

    assert faults(provider.requests[0]["messages"], protocol) == []
    assert "interrupted" in str(provider.requests[0])
    assert "[application/zip: a.zip]" in str(provider.requests[0])


def test_reasoning_that_is_hidden_does_not_fill_the_next_context():
    state = Versioned()
    whole = {
        "choices": [{"message": {"content": "42"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 6002},
    }
    with serving({"raw": json.dumps(whole).encode()}) as provider:
        reply = made(provider, "openai").complete(ASKED)
    state.conversation.user("6*7?")
    state.conversation.append(reply.message)

    assert reply.usage.output_tokens == 6002
    assert state.conversation.context(4_000, "openai").tokens < 50


def test_what_no_request_can_say_is_refused_or_replaced(protocol):
    with serving({"text": "ok"}) as provider:
        model = made(provider, protocol, options={"temperature": float("nan")})
        with pytest.raises(Invalid, match="not JSON"):
            model.complete(ASKED)
        half = Message(Role.USER, (Text("half \ud83d"),))
        assert made(provider, protocol).complete([half]).text == "ok"


# ---------------------------------------------------------------- what real servers do


@pytest.mark.parametrize("make", [partial(OpenAIModel, "http://127.0.0.1:9/v1"), AnthropicModel])
def test_a_key_that_no_header_can_carry_is_refused_unseen(make):
    with pytest.raises(Invalid) as caught:
        make("m", api_key=f"{KEY}\r\nX-Other: 1")
    assert KEY not in str(caught.value)


def test_the_line_break_at_the_end_of_a_key_is_no_part_of_it():
    with serving({"text": "hi"}) as provider:
        model = OpenAIModel(f"{provider.url}/v1", "m", api_key=f"{KEY}\n")
        assert model.complete(ASKED).text == "hi"
    assert provider.headers[0]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("url", ["http://h:99999/v1", "http://h:abc/v1", "ftp://h/v1", "h:80"])
def test_an_address_that_is_none_is_refused_at_once(url):
    with pytest.raises(Invalid, match="not an HTTP address"):
        OpenAIModel(url, "m")


def test_the_query_of_an_address_is_part_of_every_request():
    with serving({"text": "hi"}) as provider:
        OpenAIModel(f"{provider.url}/v1?api-version=2026", "m").complete(ASKED)
    assert provider.paths == ["/v1/chat/completions?api-version=2026"]


@contextmanager
def dripping(head: bytes, piece: bytes) -> Iterator[str]:
    """Serve one answer that never ends, and is never silent for long."""
    gone = threading.Event()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def drip() -> None:
            line, _ = server.accept()
            with line, suppress(OSError):
                line.recv(1 << 16)
                line.sendall(head)
                while not gone.wait(0.05):
                    line.sendall(piece)

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        gone.set()
        thread.join(HANG_SECONDS)


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 99999\r\n\r\n", b"a"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    ],
    ids=["headers", "a refusal", "the size of a chunk"],
)
def test_what_drips_is_cut_off_in_time(head, piece):
    with dripping(head, piece) as url:
        model = OpenAIModel(url, "m", timeout_seconds=HANG_SECONDS, total_seconds=0.5, retries=0)
        with pytest.raises(TimedOut):  # what drips does so until the test is over
            model.complete(ASKED)


def calls_in(*events) -> list[tuple[str, str, dict[str, int]]]:
    """Return the calls of an answer that arrives in these events."""
    with serving(streamed(*events)) as provider:
        model = OpenAIModel(f"{provider.url}/v1", "m", retries=0)
        reply = model.complete(ASKED, on_text=lambda text: None)
    return [(call.id, call.name, dict(call.arguments)) for call in reply.message.calls]


def call_piece(index, id, name, arguments="{}"):
    about = {"name": name, "arguments": arguments}
    piece = {"id": id, "type": "function", "function": about}
    return {
        "choices": [
            {"delta": {"tool_calls": [piece if index == "-" else piece | {"index": index}]}}
        ]
    }


END = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}], "error": None}


@pytest.mark.parametrize("places", [(0, 1), (None, None), ("-", "-"), (0, 0), (None, 1)])
def test_two_calls_stay_two_however_a_server_counts_them(places):
    first, second = places
    found = calls_in(
        call_piece(first, "a", "f", '{"x":'),
        call_piece(first, "", "", "1}"),
        call_piece(second, "b", "g", {"y": 2}),
        END,
        {"choices": None, "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    )
    assert found == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


def test_calls_without_ids_are_told_apart_by_their_index():
    found = calls_in(call_piece(0, "", "f"), call_piece(1, "", "g"), END)
    assert [name for _, name, _ in found] == ["f", "g"]
