"""A graph of Graphviz has clusters, edges cut at them, and quoted names only."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings

from otolith.statecharts import AGENT
from otolith.statecharts.definition import Definition, State, Transition
from otolith.statecharts.formats.graphviz import quote, to_dot
from otolith.statecharts.formats.xstate_reader import read_xstate
from tests.unit.statecharts.drawn_charts import HOSTILE, charts, every_state

STRING = r'"(?:[^"\\\n]|\\.)*"'
VALUE = rf"(?:{STRING}|[\w.]+)"
ATTRIBUTES = rf"\w+={VALUE}(?:, \w+={VALUE})*"
STATEMENT = re.compile(
    rf"digraph {STRING} \{{|subgraph {STRING} \{{|\}}|{ATTRIBUTES}"
    rf"|(?:node|edge|{STRING}) \[{ATTRIBUTES}\]|{STRING} -> {STRING} \[{ATTRIBUTES}\]"
)
WORK = {
    "id": "m",
    "initial": "idle",
    "states": {
        "idle": {"on": {"GO": {"target": "work", "guard": "ok", "actions": ["count"]}}},
        "work": {
            "type": "parallel",
            "on": {"OUT": "over", "BOTH": {"target": [".a.a2", ".b.b1"]}},
            "states": {
                "a": {"initial": "a1", "states": {"a1": {"on": {"UP": "#m.work"}}, "a2": {}}},
                "b": {"initial": "b1", "states": {"b1": {}}},
            },
        },
        "over": {"type": "final"},
    },
}


@settings(max_examples=settings().max_examples // 2, suppress_health_check=list(HealthCheck))
@given(charts())
def test_every_line_is_a_statement_and_every_edge_joins_nodes(definition: Definition) -> None:
    text = to_dot(definition, [state.id for state in every_state(definition.root)])

    lines = [line.strip() for line in text.strip().split("\n")]
    assert all(STATEMENT.fullmatch(line) for line in lines)
    nodes = {found[1] for line in lines if (found := re.match(rf"({STRING}) \[", line))}
    edges = [found for line in lines if (found := re.match(rf"({STRING}) -> ({STRING}) \[", line))]
    assert {end for edge in edges for end in edge.groups()} <= nodes
    assert sum(line.endswith("{") for line in lines) == lines.count("}")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@settings(max_examples=settings().max_examples // 2, suppress_health_check=list(HealthCheck))
@given(charts())
def test_graphviz_reads_any_chart_without_a_warning(definition: Definition) -> None:
    assert _drawn(to_dot(definition)).startswith("<?xml")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("name", HOSTILE)
def test_graphviz_shows_any_name_as_it_is(name: str) -> None:
    way = Transition((name,), (name,), is_internal=False)
    root = State(
        "#m",
        "compound",
        (State(name, "atomic", transitions=(way,)),),
        initial=Transition((), (name,), is_internal=False),
    )

    picture = _drawn(to_dot(Definition(name, root), [name]))

    assert "<script" not in picture
    if name.isalnum():
        assert f">{name}</text>" in picture


def test_a_string_ends_where_it_should() -> None:
    assert quote('a"b') == '"a\\"b"'
    assert quote("back\\") == '"back\\\\"'
    assert quote("a\nb") == '"a\\nb"'
    assert quote("\0") == '"\ufffd"'


def test_a_label_is_event_guard_and_actions() -> None:
    assert 'label="GO [ok] / count"' in to_dot(read_xstate(WORK))


def test_regions_are_dashed_and_arrows_are_cut_at_clusters() -> None:
    text = to_dot(read_xstate(WORK))

    assert text.count('style="rounded,dashed"\n') == 2
    assert re.search(r'label="GO [^\n]*lhead="cluster \d+"', text)
    assert re.search(r'label="OUT", ltail="cluster \d+"', text)


def test_arrows_that_stay_inside_a_cluster_have_nodes_of_their_own() -> None:
    text = to_dot(read_xstate(WORK))

    assert re.search(r'"any \d+" -> "fork \d+ \d+" \[label="BOTH"\]', text)
    assert re.search(r'-> "again \d+" \[label="UP"\]', text)


def test_active_states_stand_out() -> None:
    line = re.compile(r'\[label="executing", fillcolor="#ffe08a", [^\n]*penwidth=3\]')

    assert line.search(to_dot(AGENT.definition, ["executing"]))
    assert not line.search(to_dot(AGENT.definition, ["idle"]))


def _drawn(text: str) -> str:
    done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout
