"""Charts, snapshots and conversations from elsewhere: read, or refused with an error of ours."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from otolith.conversation import Message, read
from otolith.errors import BadChart, IllegalTransition
from otolith.statecharts import Chart, ChartSnapshot, Effect, PendingEffect
from tests.fault.hostile import NASTY_DATA, mutants, nested, outcome

FEW, MANY = 600, 20_000
CHILD = {"id": "k", "initial": "z", "states": {"z": {"after": {"100": "z"}}}}
CHART: dict[str, Any] = {
    "id": "m",
    "initial": "a",
    "context": {"n": 1},
    "states": {
        "a": {
            "on": {
                "E": {
                    "target": "b",
                    "guard": {"@expr": "n > 0"},
                    "actions": [
                        {"type": "@assign", "context": {"n": {"@expr": "n + 1"}}},
                        {"type": "@otolith.send", "event": "E", "delay": "1s"},
                    ],
                    "meta": {"x": 1},
                }
            },
            "after": {"100": "b"},
            "invoke": [{"src": "svc", "input": {"n": 1}, "onDone": "b"}, {"src": CHILD}],
            "entry": ["hi"],
            "tags": ["t"],
            "meta": {"otolith": {"data": [["d", 1]]}},
        },
        "b": {
            "type": "parallel",
            "states": {
                "p": {
                    "initial": "q",
                    "states": {"q": {"on": {"X": "h"}}, "h": {"type": "history"}},
                },
                "r": {"on": {"E": {"target": "r", "reenter": True}}},
            },
            "on": {"E": {"target": "a", "actions": ["hi"]}},
        },
        "c": {"type": "final", "output": {"x": 1}},
    },
}
WORDS = [
    "id", "initial", "states", "on", "always", "entry", "exit", "type", "target", "guard",
    "actions", "invoke", "src", "after", "onDone", "onError", "context", "history", "a", "b", "E",
    "100", "params", "delay", "meta", "output", "tags", "timeout", "onTimeout", "description",
    "version", "reenter", "event", "otolith", "chart", "script", "events", "order", "invokes",
    "data", "input", "label", "args", "role", "content", "text", "tool_calls", "function", "name",
    "arguments", "tool_call_id", "source", "media_type", "image_url", "url", "tool_use_id",
    "thinking", "signature", "refusal", "call_id", "summary", "annotations", "is_error",
    "cache_control",
]  # fmt: skip
KINDS = [
    "final", "parallel", "history", "compound", "@xstate.raise", "@otolith.send", "@otolith.if",
    "@otolith.foreach", "@otolith.call", "@assign", "@raise", "@sendTo", "@cancel", "@log", "@emit",
    "user", "assistant", "tool", "system", "text", "tool_use", "tool_result", "function", "image",
    "message", "function_call", "reasoning",
]  # fmt: skip


@pytest.fixture
def count(rounds: Callable[[int, int], int]) -> int:
    return rounds(FEW, MANY)


def anything(chance: random.Random, depth: int = 0) -> Any:
    """Return a document made of words that mean something, in places where they do not."""
    what = chance.random()
    if depth > 4 or what < 0.3:
        return chance.choice(NASTY_DATA)
    if what < 0.45:
        return [anything(chance, depth + 1) for _ in range(chance.randrange(3))]
    words = {chance.choice(WORDS): anything(chance, depth + 1) for _ in range(chance.randrange(6))}
    return words | ({"type": chance.choice(KINDS)} if chance.random() < 0.3 else {})


def used(document: Any) -> None:
    """Read a chart, and do with it whatever can be done."""
    chart = Chart.from_data(document)
    assert chart.hash
    for write in (repr, Chart.to_xstate, Chart.to_scxml, Chart.to_mermaid, Chart.to_dot):
        write(chart)
    step = chart.start(now=10**15)
    with suppress(IllegalTransition):
        chart.step(step.snapshot, "E")
    assert ChartSnapshot.from_data(step.snapshot.to_data()) == step.snapshot


def test_any_object_is_a_chart_or_refused(count):
    chance = random.Random(1)
    found = [
        outcome(used, {"id": "m", "initial": "a", "states": {"a": anything(chance), "b": {}}})
        for _ in range(count)
    ]
    assert found.count("ok") > 1
    assert found.count("bad_chart") > count // 3


def test_a_chart_that_somebody_changed_is_one_still_or_refused(count):
    found = [outcome(used, document) for document in mutants(CHART, random.Random(2), count)]
    assert found.count("ok") > count // 20
    assert found.count("bad_chart") > count // 3


@pytest.mark.parametrize("value", NASTY_DATA, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("field", [*CHART["states"]["a"], "states", "always", "id", "type", "exit"])
def test_any_value_in_any_field_of_a_state_is_read_or_refused(field, value):
    outcome(Chart.from_data, {"id": "m", "initial": "a", "states": {"a": {field: value}, "b": {}}})


@pytest.mark.parametrize("document", [None, [1], "x", 5, [["id", "m"]], b"{}"])
def test_what_is_no_object_is_no_chart(document):
    with pytest.raises(BadChart):
        Chart.from_data(document)


@pytest.mark.parametrize("leads", [{"h": "h"}, {"h": "g", "g": "h"}, {"h": ["g"], "g": ["g"]}])
def test_a_history_state_that_leads_back_to_itself_is_refused(leads):
    states = {name: {"type": "history", "target": target} for name, target in leads.items()}
    config = {"id": "m", "initial": "a", "states": {"a": {}, **states}}
    assert outcome(used, config) == "bad_chart"


def test_a_name_that_is_long_beyond_reason_is_refused():
    config = {"id": "." * 50_000, "initial": "a", "states": {"a": {}}}
    assert outcome(used, config, seconds=5) == "bad_chart"
    assert outcome(used, config | {"id": "." * 5_000}, seconds=20) == "ok"


def test_a_chart_may_be_deep_and_wide_within_limits():
    deep: dict[str, Any] = {}
    for _ in range(90):
        deep = {"initial": "a", "states": {"a": deep}}
    assert outcome(Chart.from_data, deep) == "ok"
    for _ in range(90):
        deep = {"initial": "a", "states": {"a": deep}}
    assert outcome(Chart.from_data, deep) == "bad_chart"
    wide = {"id": "m", "initial": "s0", "states": {f"s{at}": {} for at in range(5_000)}}
    assert outcome(Chart.from_data, wide) == "ok"


@pytest.mark.parametrize("target", ["#" * 50_000, "#" + "a." * 50_000, "." * 50_000])
def test_a_target_of_any_length_is_looked_for_in_time(target):
    config = {"id": "m", "initial": "a", "states": {"a": {"on": {"E": target}}}}
    assert outcome(Chart.from_data, config, seconds=5) == "bad_chart"


HEAD = '<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="a">'
SCXML = (
    HEAD + '<datamodel><data id="x" expr="1"/></datamodel><state id="a"><onentry>'
    '<assign location="x" expr="x+1"/><raise event="e"/><if cond="x &gt; 3"><log expr="x"/><else/>'
    '<send event="q" delay="1s"/></if></onentry><transition event="e.*" cond="x == 1" target="b"/>'
    '</state><final id="b"/></scxml>'
)


def test_scxml_of_which_bytes_were_changed_is_read_or_refused(count):
    chance, found = random.Random(3), []
    for _ in range(2 * count):
        data = bytearray(SCXML.encode())
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(data))
            if chance.random() < 0.5:
                data[at] = chance.randrange(256)
            else:
                del data[at : at + chance.randrange(1, 9)]
        found.append(outcome(Chart.from_scxml, data.decode("utf-8", "replace")))
    assert {"ok", "bad_chart"} <= set(found)


def _state(inside: str) -> str:
    return f'{HEAD}<state id="a">{inside}</state></scxml>'


ENTITIES = '<!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
DOCUMENTS = {
    "billion laughs": (ENTITIES + _state("&b;"), "bad_chart"),
    "another file": (
        f'<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]>{_state("&x;")}',
        "bad_chart",
    ),
    "deep": (f"{HEAD}{'<state>' * 5000}{'</state>' * 5000}</scxml>", "bad_chart"),
    "wide": (HEAD + "".join(f'<state id="s{at}"/>' for at in range(5_000)) + "</scxml>", None),
    "a source": (_state('<onentry><script src="file:///etc/passwd"/></onentry>'), "bad_chart"),
    "a script": (_state('<onentry><script>__import__("os")</script></onentry>'), "ok"),
    "a power": (_state('<transition cond="9**9**9**9 > 1" target="a"/>'), "ok"),
    "a long text": (_state('<transition cond="\'a\'*9999999999 == 1" target="a"/>'), "ok"),
    "brackets": (
        _state(f'<transition cond="{"(" * 20000}1{")" * 20000}" target="a"/>'),
        "ok",
    ),
    "a nul": ("\0" + HEAD, "bad_chart"),
    "many attributes": (
        f"{HEAD}<state id='a' {' '.join(f'x{at}=' + repr('1') for at in range(20_000))}/></scxml>",
        None,
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_that_was_made_to_harm_does_none(name):
    text, expected = DOCUMENTS[name]

    def run() -> None:
        chart = Chart.from_scxml(text)
        chart.step(chart.start().snapshot, "e")

    found = outcome(run, seconds=10)
    assert expected in (None, found)


def _snapshots() -> list[tuple[Chart, dict[str, Any]]]:
    chart = Chart.from_data(CHART)
    first = chart.start(now=10**15).snapshot
    second = chart.step(first, "E").snapshot
    third = chart.step(second, "E").snapshot
    return [(chart, each.to_data()) for each in (first, second, third)]


def test_a_snapshot_that_somebody_changed_goes_on_or_is_refused(count):
    chance, found = random.Random(4), []

    def go_on(chart: Chart, data: Any) -> None:
        snapshot = ChartSnapshot.from_data(data)
        assert snapshot.phase or snapshot.status
        _ = snapshot.next_due, snapshot.to_data()
        chart.step(snapshot, "E", now=2 * 10**15)

    for chart, data in _snapshots():
        assert outcome(go_on, chart, data) == "ok"
        found += [outcome(go_on, chart, each) for each in mutants(data, chance, count)]
    assert found.count("ok") > 1
    assert found.count("corrupt") > count


def test_an_effect_that_somebody_changed_is_one_still_or_refused(count):
    chart = Chart.from_data(CHART)
    effect = chart.start().effects[0].to_data()
    waiting = {"effect": effect, "order": [1, 2], "tries": 0, "is_begun": False, "error": ""}
    for read_back, data in ((Effect.from_data, effect), (PendingEffect.from_data, waiting)):
        assert outcome(read_back, data) == "ok"
        found = {outcome(read_back, each) for each in mutants(data, random.Random(5), count)}
        assert found == {"ok", "corrupt"}


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
PICTURE = {"type": "base64", "media_type": "image/png", "data": "aGk="}
CONVERSATIONS: dict[str, Any] = {
    "openai": {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
        ]
    },
    "anthropic": {
        "system": "s",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"},
                                         {"type": "image", "source": PICTURE}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "x", "signature": "y"},
                {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": "ok"}]},
        ],
    },
    "responses": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
    ],
    "plain": "user: hi\nassistant: hello",
}  # fmt: skip


@pytest.mark.parametrize("format", CONVERSATIONS)
def test_a_conversation_from_elsewhere_is_read_or_refused(format, count):
    chance = random.Random(6)
    whole = CONVERSATIONS[format]
    assert outcome(read, whole, format) == "ok"
    found = {outcome(read, anything(chance), format) for _ in range(count)}
    found |= {outcome(read, {"messages": anything(chance)}, format) for _ in range(count)}
    if not isinstance(whole, str):
        found |= {outcome(read, each, format) for each in mutants(whole, chance, count)}
    assert found >= {"ok", "bad_value"}


def test_a_message_that_somebody_changed_is_one_still_or_refused(count):
    chance, found = random.Random(7), set()

    def use(data: Any) -> None:
        message = Message.from_data(data)
        assert Message.from_data(message.to_data()) == message
        _ = message.text, message.calls, message.results, repr(message)

    for format in ("openai", "anthropic", "responses"):
        for message in read(CONVERSATIONS[format], format):
            data = message.to_data() | {"id": "1", "time": 5, "tokens": [1, "x"], "meta": {"a": 1}}
            assert outcome(use, data) == "ok"
            found |= {outcome(use, each) for each in mutants(data, chance, count // 5)}
    assert found == {"ok", "bad_value"}


def test_parts_are_nested_as_deep_as_data_and_no_deeper():
    part: dict[str, Any] = {"kind": "text", "text": "x"}
    for _ in range(2000):
        part = {"kind": "result", "call_id": "c", "content": [part]}
    assert outcome(Message.from_data, {"role": "tool", "parts": [part]}) == "bad_value"
    assert outcome(Message.from_data, {"role": nested(5000), "parts": []}) == "bad_value"
