"""A key gets out in no clothes: not in an error, not in what it was raised from, not in a trace."""

from __future__ import annotations

import json
import logging
import traceback
from base64 import b64encode, urlsafe_b64encode
from html import escape
from urllib.parse import quote

import pytest

from otolith.agent import AnthropicModel, OpenAIModel
from otolith.agent.models.secrets import Secrets
from otolith.errors import BadReply, Error, Invalid
from tests.patience import HANG_SECONDS
from tests.unit.agent.provider import serving

KEY = "sk-'very\"\\secret/0123+456&789"
BARE = "very-secret"

WAYS = {
    "as it is": KEY,
    "repr": repr(KEY)[1:-1],
    "repr of bytes": repr(KEY.encode())[2:-1],
    "repr of a repr": repr(repr(KEY)),
    "JSON": json.dumps(KEY)[1:-1],
    "JSON in JSON": json.dumps(json.dumps(KEY)),
    "JSON with its slashes escaped": json.dumps(KEY)[1:-1].replace("/", "\\/"),
    "unicode escapes": "".join(f"\\u{ord(sign):04x}" for sign in KEY),
    "unicode escapes, twice": "".join(f"\\\\u{ord(sign):04X}" for sign in KEY),
    "long unicode escapes": "".join(f"\\U{ord(sign):08x}" for sign in KEY),
    "braced unicode escapes": "".join(f"\\u{{{ord(sign):x}}}" for sign in KEY),
    "hex escapes": "".join(f"\\x{ord(sign):02x}" for sign in KEY),
    "octal escapes": "".join(f"\\{ord(sign):03o}" for sign in KEY),
    "mixed": f"{KEY[:5]}\\u{ord(KEY[5]):04x}{KEY[6:]}",
    "a URL": quote(KEY, safe=""),
    "a URL in small letters": quote(KEY, safe="").replace("%2B", "%2b").replace("%2F", "%2f"),
    "every sign in percents": "".join(f"%{ord(sign):02X}" for sign in KEY),
    "percents, twice": quote(quote(KEY, safe=""), safe=""),
    "HTML": escape(KEY),
    "HTML by numbers": "".join(f"&#{ord(sign)};" for sign in KEY),
    "HTML by hex numbers": "".join(f"&#x{ord(sign):x};" for sign in KEY),
    "hex": KEY.encode().hex(),
    "HEX": KEY.encode().hex().upper(),
    "Base64": b64encode(KEY.encode()).decode(),
    "Base64 for URLs": urlsafe_b64encode(KEY.encode()).decode(),
    **{
        f"Basic auth of a user with {len(user)} letters": b64encode(
            f"{user}:{KEY}".encode()
        ).decode()
        for user in ("", "u", "us", "use")
    },
}  # fmt: skip
TOLD = [KEY, "0123", "very", "30313233", b64encode(b"very").decode()[:4], "ZXJ5", "J5Xl", "secret"]


def everything_told(error: BaseException) -> str:
    """Return all that a log shows of an exception, and all that it and what is below it hold."""
    told = [*traceback.format_exception(error)]
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            told += [str(each), repr(each), repr(each.args), repr(vars(each))]
            waiting += [each.__cause__, each.__context__]
    return "\n".join(told)


def with_locals(error: BaseException) -> str:
    """Return what a debugger shows: the variables of each frame but the test's, which has all."""
    trace = error.__traceback__
    assert trace is not None
    shown = traceback.TracebackException(type(error), error, trace.tb_next, capture_locals=True)
    return "".join(shown.format())


@pytest.mark.parametrize("way", WAYS)
def test_a_secret_is_taken_out_however_it_is_written(way):
    told = Secrets([KEY]).redact(f"before {WAYS[way]} after")

    assert told.startswith("before ")
    assert told.endswith(" after")
    assert not [piece for piece in TOLD if piece in told]
    assert "***" in told


@pytest.mark.parametrize("secret", ["schlüssel-ß-long", "k€y-with-signs", "a b c d e f"])
@pytest.mark.parametrize(
    "write", [str, json.dumps, lambda text: quote(text, safe=""), ascii], ids=range(4)
)
def test_signs_beyond_ascii_are_known_too(secret, write):
    assert Secrets([secret]).redact(write(secret)).strip("\"'") == "***"


def test_what_is_no_secret_stays():
    text = 'a "quoted" \\u0041 text with c2s= in it, 100% plain'
    assert Secrets([KEY, "sk/x"]).redact(text) == text
    assert Secrets([""]).redact(text) == text


def test_a_secret_is_looked_for_in_time_that_grows_with_the_text():
    secrets = Secrets([KEY])
    for text in ("\\" * 200_000, "s" * 200_000, "%25" * 60_000, "&#0" * 60_000):
        assert secrets.redact(text) == text


@pytest.fixture(params=["openai", "anthropic"])
def made(request):
    def make(provider, key=BARE):
        limits = {"api_key": key, "retries": 0, "timeout_seconds": HANG_SECONDS}
        if request.param == "openai":
            return OpenAIModel(f"{provider.url}/v1", "m", **limits)
        return AnthropicModel("m", base_url=provider.url, **limits)

    return make


ESCAPED = "".join(f"\\u{ord(sign):04x}" for sign in BARE)
BODIES = {
    "an escaped key of a dict": '{"error": {"' + ESCAPED + '": 1}}',
    "an escaped key below": '{"error": [{"a": {"' + ESCAPED + '": 1}}]}',
    "at the cut": '{"error": {"' + "x" * 286 + ESCAPED + '": 1}}',
    "headers": json.dumps({"error": {"headers": {"Authorization": f"Bearer {BARE}"}}}),
    "escaped twice": json.dumps({"error": {"message": json.dumps(ESCAPED)}}),
    "escaped twice, at the cut": json.dumps({"error": {"message": "x" * 290 + ESCAPED}}),
    "Basic": json.dumps({"error": "Basic " + b64encode(f"u:{BARE}".encode()).decode()}),
    "no JSON": f"<html>{BARE} {ESCAPED}",
    "broken JSON": '{"error": "' + ESCAPED + '", ',
    "another shape": json.dumps({BARE: 1}),
    "another shape, escaped": '{"content": [{"type": "' + ESCAPED + '"}], "choices": [{"'
    + ESCAPED + '": 2}]}',
    "a message of nonsense": '{"content": [{"' + ESCAPED + '": "x"}], "choices": [{"message": {"'
    + ESCAPED + '": {"' + ESCAPED + '": 1}, "tool_calls": [{"' + ESCAPED + '": 1}]}}]}',
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("status", [200, 400, 401, 503])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_no_trace_of_a_failed_call_tells_the_key(made, caplog, body, status, streamed):
    raw = BODIES[body].encode()
    if streamed and status == 200:
        kind = b'"type": "error", '
        raw = b"data: " + raw.replace(b'{"error', b"{" + kind + b'"error', 1) + b"\n\n"
    plan = {"raw": raw} if status == 200 else {"status": status, "body": raw}
    with serving(plan) as provider, caplog.at_level(logging.DEBUG):
        model = made(provider)
        with pytest.raises(Error) as caught:
            model.complete([], on_text=(lambda text: None) if streamed else None)
    told = everything_told(caught.value) + model.retry_reason + repr(model) + caplog.text
    assert BARE not in told
    assert "very-" not in told
    assert ESCAPED[:18] not in told
    assert b64encode(f"u:{BARE}".encode()).decode()[4:12] not in told


@pytest.mark.parametrize(
    "ask", ["?key=SECRET word", "?token=SECRETé", "?key=SECRET", "?a=1&api_key=SECRET&b=2"]
)
def test_an_address_that_no_request_can_carry_is_refused_without_its_secret(ask):
    with serving({"status": 400, "body": {"error": "bad: SECRET, SECRET%20word"}}) as provider:
        model = OpenAIModel(f"{provider.url}/v1{ask}", "m", api_key=BARE, retries=0)
        with pytest.raises(Error) as caught:
            model.complete([])
    told = everything_told(caught.value) + repr(model)
    assert "SECRET" not in told
    assert BARE not in with_locals(caught.value)
    assert BARE not in told


def test_a_host_that_no_name_can_be_is_refused(made):
    model = OpenAIModel(f"http://{'x' * 70}.invalid/v1", "m", api_key=BARE, retries=0)
    with pytest.raises(Error) as caught:
        model.complete([])
    assert BARE not in everything_told(caught.value)


def test_a_connection_that_breaks_says_why_and_keeps_its_cause():
    with serving({"text": "x"}) as provider:
        pass  # nobody is there any more
    model = OpenAIModel(f"{provider.url}/v1", "m", api_key=BARE, retries=0)
    with pytest.raises(Error, match="refused") as caught:
        model.complete([])
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
    assert BARE not in with_locals(caught.value)
    assert BARE not in everything_told(caught.value)


def test_what_a_caller_is_handling_stays_as_it_is():
    with serving({"status": 400, "body": {"error": "no"}}) as provider:
        model = OpenAIModel(f"{provider.url}/v1", "m", api_key=BARE, retries=0)

        def ask_while_handling():
            try:
                raise ValueError(f"mine: {BARE}")
            except ValueError:
                model.complete([])

        with pytest.raises(Invalid) as caught:
            ask_while_handling()
    assert isinstance(caught.value.__context__, ValueError)
    assert caught.value.__context__.__traceback__ is not None


def test_an_error_that_is_raised_from_one_that_tells_keeps_no_hold_of_it():
    inner = BadReply(f"the inner one: {BARE}")
    inner.__cause__ = inner.__context__ = KeyError(BARE)

    def fail():
        with Secrets([BARE]).redacted_errors():
            raise BadReply("the outer one", hint=f"use {BARE}") from inner

    with pytest.raises(BadReply) as caught:
        fail()
    assert caught.value.__cause__ is inner
    assert [inner.__cause__, inner.__context__] == [None, None]
    assert BARE not in everything_told(caught.value)
