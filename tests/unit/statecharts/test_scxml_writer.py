"""A chart written as SCXML is the same chart when it is read, and near it for other processors."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otolith.errors import BadChart
from otolith.statecharts import AGENT, Chart
from otolith.statecharts.definition import (
    Assign,
    Definition,
    Expression,
    Literal,
    NamedGuard,
    State,
    Transition,
    hash_of,
)
from otolith.statecharts.formats.scxml_reader import read_scxml
from otolith.statecharts.formats.scxml_writer import to_scxml
from otolith.statecharts.formats.xstate_reader import read_xstate
from otolith.statecharts.formats.xstate_writer import to_xstate
from otolith.statecharts.snapshot import ChartSnapshot
from tests.unit.statecharts.drawn_charts import HOSTILE, charts, every_state

SCXML = "{http://www.w3.org/2005/07/scxml}"
OWN = "{https://otolith.dev/scxml}"
MACHINE = read_xstate(
    {
        "id": "m",
        "initial": "a",
        "on": {"back": ".a"},
        "context": {"n": 0},
        "states": {
            "a": {
                "on": {
                    "go": {
                        "target": "b",
                        "actions": [{"type": "@xstate.assign", "context": {"n": 1}}],
                    }
                }
            },
            "b": {
                "type": "parallel",
                "on": {"out": "c"},
                "states": {
                    "one": {
                        "initial": "x",
                        "states": {"x": {"after": {"1000": "y"}, "on": {"go": "y"}}, "y": {}},
                    },
                    "two": {"initial": "p", "states": {"p": {"on": {"turn": "q"}}, "q": {}}},
                },
            },
            "c": {"on": {"in": "#m.b.two.q", "end": "over"}},
            "over": {"type": "final"},
        },
    }
)


def _again(definition: Definition) -> Definition:
    return read_scxml(to_scxml(definition))


@settings(max_examples=settings().max_examples // 2, suppress_health_check=list(HealthCheck))
@given(charts())
def test_whatever_a_chart_does_it_does_when_read_again(definition: Definition) -> None:
    assert hash_of(_again(definition)) == hash_of(definition)


@settings(max_examples=settings().max_examples // 2, suppress_health_check=list(HealthCheck))
@given(charts())
def test_what_is_said_about_states_is_kept(definition: Definition) -> None:
    def said(chart: Definition) -> object:
        states = every_state(chart.root)[1:]
        ways = [way for state in states for way in state.transitions]
        remarks = [(state.description, state.tags, state.meta) for state in states]
        return remarks, [(way.description, way.meta) for way in ways], chart.version

    assert said(_again(definition)) == said(definition)


@settings(max_examples=settings().max_examples // 2, suppress_health_check=list(HealthCheck))
@given(charts())
def test_the_document_is_well_formed_and_its_ids_are_names(definition: Definition) -> None:
    root = ET.fromstring(to_scxml(definition))

    assert root.tag == f"{SCXML}scxml"
    states = [tag for tag in root.iter() if tag.tag in {f"{SCXML}state", f"{SCXML}parallel"}]
    assert all(" " not in tag.attrib["id"] for tag in states)


def test_a_chart_goes_through_both_formats_and_comes_back() -> None:
    assert hash_of(_again(read_xstate(to_xstate(_again(MACHINE))))) == hash_of(MACHINE)
    assert hash_of(_again(AGENT.definition)) == AGENT.hash


def test_plain_scxml_has_no_words_of_ours() -> None:
    text = """<scxml xmlns="http://www.w3.org/2005/07/scxml" name="t" datamodel="ecmascript">
      <datamodel><data id="n" expr="1 &lt; 2"/></datamodel>
      <state id="a" initial="b">
        <onexit><send event="e" delay="1s"><param name="n" expr="n"/></send></onexit>
      <state id="b"><transition event="e" cond="n &amp;&amp; true" target="z"/></state>
      <history id="h" type="deep"><transition target="b"/></history></state>
      <final id="z"><donedata><content>[1]</content></donedata></final></scxml>"""
    definition = read_scxml(text)

    written = to_scxml(definition)

    assert "otolith" not in written
    assert hash_of(read_scxml(written)) == hash_of(definition)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_may_be_anything(name: str) -> None:
    way = Transition((name, "e"), (name,), is_internal=False, guard=NamedGuard(name))
    block = (Assign("n", Literal({name: [name]})), Assign("n", Expression(repr(name))))
    box = State(name, "atomic", transitions=(way,), entry=(block,))
    root = State("#m", "compound", (box,), initial=Transition((), (name,), is_internal=False))

    assert _again(Definition(name, root)).root == root


@pytest.mark.parametrize("char", ["\0", "\x0b", "\ufffe", "\ud800"])
def test_what_xml_cannot_hold_is_kept_in_a_value_and_refused_in_an_expression(char: str) -> None:
    start = Transition((), ("a",), is_internal=False)

    def chart_of(value: Literal | Expression) -> Definition:
        state = State("a", "atomic", entry=((Assign("n", value),),))
        return Definition("m", State("#m", "compound", (state,), initial=start))

    kept = chart_of(Literal(f"<{char}>"))
    assert _again(kept).root == kept.root
    with pytest.raises(BadChart, match="XML cannot contain"):
        to_scxml(chart_of(Expression(f"'{char}'")))


def test_a_value_that_is_not_data_is_refused() -> None:
    start = Transition((), ("a",), is_internal=False)
    entry = ((Assign("n", Literal(float("inf"))),),)
    root = State("#m", "compound", (State("a", "atomic", entry=entry),), initial=start)

    with pytest.raises(BadChart, match="cannot be written"):
        to_scxml(Definition("m", root))


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(st.sampled_from(["go", "turn", "out", "in", "back", "end", "wait"]), max_size=12))
def test_a_processor_that_passes_over_our_words_takes_the_same_way(events: list[str]) -> None:
    ours = Chart(MACHINE, is_strict=False)
    theirs = Chart(read_scxml(_without_ours(to_scxml(MACHINE))))

    one, other = ours.start().snapshot, theirs.start().snapshot
    for number, event in enumerate(events, start=1):
        one = _moved(ours, one, event, number)
        other = _moved(theirs, other, event, number)
        if one.status == "running":
            assert one.configuration == other.configuration
            assert dict(one.data) == dict(other.data)
        assert one.status == other.status


def test_a_function_of_python_holds_for_nobody_else() -> None:
    way = Transition(("go",), ("b",), is_internal=False, guard=NamedGuard("is_ready"))
    children = (State("a", "atomic", transitions=(way,)), State("b", "atomic"))
    start = Transition((), ("a",), is_internal=False)
    definition = Definition("m", State("#m", "compound", children, initial=start))

    chart = Chart(read_scxml(_without_ours(to_scxml(definition))))

    assert chart.step(chart.start().snapshot, "go").snapshot.configuration == ("a",)


def _moved(chart: Chart, snapshot: ChartSnapshot, event: str, number: int) -> ChartSnapshot:
    if snapshot.status != "running":
        return snapshot
    if event == "wait":
        return chart.advance(snapshot, number * 2_000_000).snapshot
    return chart.step(snapshot, event).snapshot


def _without_ours(text: str) -> str:
    """Return a document as somebody sees it who does not know our namespace."""
    root = ET.fromstring(text)
    for element in root.iter():
        for child in [child for child in element if child.tag.startswith(OWN)]:
            element.remove(child)
        for name in [name for name in element.attrib if name.startswith(OWN)]:
            del element.attrib[name]
    return ET.tostring(root, encoding="unicode")


@pytest.mark.parametrize(
    "attribute",
    ['events="5"', 'events="x"', 'meta="[]"', 'guard="g" otolith:guard-params="[1]"', 'delay="{"'],
)
def test_words_of_ours_that_we_would_not_write_are_refused(attribute: str) -> None:
    text = f"""<scxml xmlns="http://www.w3.org/2005/07/scxml"
      xmlns:otolith="https://otolith.dev/scxml">
      <state id="a"><transition event="e" otolith:{attribute}/></state></scxml>"""

    with pytest.raises(BadChart, match="line 3"):
        read_scxml(text)
