"""Documents are read into charts, or refused with the place where they go wrong."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from otolith.errors import BadChart, MissingExtra, NotFound
from otolith.statecharts import Chart, ChartSnapshot

BOMB = """<?xml version="1.0"?><!DOCTYPE scxml [<!ENTITY a "aaaaaaaaaa">
  <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>
  <scxml><state id="&c;"/></scxml>"""
OUTSIDE = """<!DOCTYPE scxml [<!ENTITY x SYSTEM "file:///etc/passwd">]>
  <scxml><state id="a"><onentry><log expr="&x;"/></onentry></state></scxml>"""
ELSEWHERE = '<!DOCTYPE scxml SYSTEM "http://example.org/scxml.dtd"><scxml><state id="a"/></scxml>'


@pytest.mark.parametrize("text", [BOMB, OUTSIDE, ELSEWHERE])
def test_document_types_and_entities_are_refused_before_anything_is_read(text):
    with pytest.raises(BadChart, match="document type"):
        Chart.from_scxml(text)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "no states"),
        ('<state id="a"/><state id="a"/>', "'a' is already used"),
        ('<state id="a"><transition event="e" target="b"/></state>', "no state 'b'"),
        ('<state id="a" initial="b"><state id="c"/></state><state id="b"/>', "not inside"),
        ('<state id="a" initial="x"><state id="c"/></state>', "no state 'x'"),
        ('<state id="a"><state id="c"/><history id="h"/></state>', "has no default"),
        ('<final id="a"><state id="b"/></final>', "final state has children"),
        ('<parallel id="a"/>', "has no regions"),
        ('<state id="a"><onentry><jump/></onentry></state>', "<jump> is not an action"),
        ('<state id="a"><onentry><raise/></onentry></state>', "has no event"),
        ('<state id="a"><onentry><send event="a" eventexpr="b"/></onentry></state>', "both"),
        ('<state id="a"><transition event="e" target="a b"/></state><state id="b"/>', "at once"),
        ('<datamodel><data expr="1"/></datamodel><state id="a"/>', "has no id"),
        ('<script src="missing.js"/><state id="a"/>', "cannot be found"),
    ],
)
def test_a_document_that_cannot_run_is_refused_with_its_place(body, message):
    with pytest.raises(BadChart, match=message) as caught:
        Chart.from_scxml(f"<scxml>{body}</scxml>")

    assert caught.value.place


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not xml",
        "<scxml>",
        "<scxml><state id='a'></scxml>",
        "<html/>",
        "<scxml datamodel='xpath'><state id='a'/></scxml>",
        "<scxml>&undefined;</scxml>",
        "<scxml>" + "<state>" * 5000,
        "<scxml xmlns='urn:other'><state id='a'/></scxml>",
    ],
)
def test_what_is_no_scxml_is_an_error_that_names_a_line(text):
    with pytest.raises(BadChart, match="line"):
        Chart.from_scxml(text)


@given(st.text(alphabet="<>/=\"' abscxmlt&;!-", max_size=80))
def test_any_text_is_a_chart_or_an_error_of_ours(text):
    try:
        Chart.from_scxml(f"<scxml>{text}</scxml>")
    except BadChart as error:
        note(str(error))


def test_a_hostile_guard_is_false_and_a_hostile_script_does_nothing(tmp_path):
    file = tmp_path / "touched"
    chart = Chart.from_scxml(f"""
      <scxml><state id="a">
        <onentry><script>import os; os.mknod('{file}')</script></onentry>
        <onentry><script>open('{file}', 'w')</script></onentry>
        <transition event="go" cond="__import__('os').mknod('{file}')" target="b"/>
        </state><state id="b"/></scxml>""")

    assert chart.step(chart.start().snapshot, "go").snapshot.phase == "a"
    assert not file.exists()
    assert len(chart.problems) == 3


def test_expressions_that_cannot_be_read_are_errors_when_used_and_listed_before():
    chart = Chart.from_scxml("""
      <scxml><state id="a"><transition event="go" cond="1 = 1" target="b"/>
        <transition event="error.execution" target="c"/></state>
        <state id="b"/><state id="c"/></scxml>""")

    assert "1 = 1" in chart.problems[0]
    assert chart.step(chart.start().snapshot, "go").snapshot.phase == "c"


def test_the_document_says_which_words_it_uses():
    body = "<datamodel><data id='x'>{{}}</data></datamodel><state id='a'>{}</state><state id='b'/>"
    way = "<transition cond='x' target='b'/>"
    ecmascript = Chart.from_scxml(f"<scxml datamodel='ecmascript'>{body.format(way)}</scxml>")
    python = Chart.from_scxml(f"<scxml>{body.format(way)}</scxml>")

    assert (ecmascript.start().snapshot.phase, python.start().snapshot.phase) == ("b", "a")


def test_elements_of_other_makers_are_calls_for_the_host():
    chart = Chart.from_scxml("""
      <scxml xmlns="http://www.w3.org/2005/07/scxml" xmlns:my="urn:mine">
        <state id="a"><onentry><my:beep times="3"/></onentry></state></scxml>""")

    (effect,) = chart.start().effects
    assert (effect.kind, effect.name, effect.params) == ("call", "beep", {"times": "3"})


def test_files_are_read_by_their_suffix(tmp_path):
    data = {"id": "m", "initial": "a", "states": {"a": {"on": {"go": "b"}}, "b": {}}}
    (tmp_path / "m.json").write_text(json.dumps(data))
    (tmp_path / "m.yaml").write_text("id: m\ninitial: a\nstates: {a: {on: {go: b}}, b: {}}\n")
    (tmp_path / "m.scxml").write_text('<scxml><state id="a"/></scxml>')
    pytest.importorskip("yaml")

    assert Chart.load(tmp_path / "m.json").hash == Chart.from_data(data).hash
    assert Chart.load(tmp_path / "m.yaml").hash == Chart.from_data(data).hash
    assert Chart.load(tmp_path / "m.scxml").states == ("a",)


def test_a_file_that_is_not_there_or_no_chart_is_said_so(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "chart.txt").write_text("{}")

    with pytest.raises(NotFound):
        Chart.load(tmp_path / "none.json")
    with pytest.raises(BadChart, match="not JSON"):
        Chart.load(tmp_path / "bad.json")
    with pytest.raises(BadChart, match="charts end in"):
        Chart.load(tmp_path / "chart.txt")


def test_yaml_with_aliases_is_refused(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "m.yaml").write_text("a: &a [1]\nb: [*a, *a]\n")

    with pytest.raises(BadChart, match="aliases"):
        Chart.load(tmp_path / "m.yaml")


def test_yaml_without_its_library_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "m.yaml").write_text("id: m\n")
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)

    with pytest.raises(MissingExtra, match=r"otolith\[yaml\]"):
        Chart.load(tmp_path / "m.yaml")


def test_a_document_reads_files_beside_it_and_none_elsewhere(tmp_path):
    (tmp_path / "secret.txt").write_text("42")
    folder = tmp_path / "charts"
    folder.mkdir()
    (folder / "beside.txt").write_text("[1, 2]")
    text = '<scxml><datamodel><data id="x" src="{}"/></datamodel><state id="a"/></scxml>'
    (folder / "good.scxml").write_text(text.format("file:beside.txt"))

    assert Chart.load(folder / "good.scxml").start().snapshot.data["x"] == [1, 2]
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    for source in ("../secret.txt", str(tmp_path / "secret.txt"), "link.txt", "file:///etc/passwd"):
        (folder / "bad.scxml").write_text(text.format(source))
        with pytest.raises(BadChart, match="cannot be found"):
            Chart.load(folder / "bad.scxml")


# ---------------------------------------------------------------- files beside a document

CHILD = '<scxml initial="end"><final id="end"/></scxml>'
COMPUTED = """
  <scxml datamodel="python"><datamodel><data id="which" expr="'nothing.scxml'"/></datamodel>
    <state id="s"><onentry><assign location="which" expr="'{}'"/></onentry>
      <invoke id="i" srcexpr="which"/>
      <transition event="done.invoke.i" target="found"/>
      <transition event="error" target="missing"/></state>
    <final id="found"/><final id="missing"/></scxml>"""


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("child.scxml", "found"),
        ("file:child.scxml", "found"),
        ("other.scxml", "missing"),
        ("broken.scxml", "missing"),
        ("notes.txt", "missing"),
        ("../child.scxml", "missing"),
        ("link.scxml", "missing"),
    ],
)
def test_a_computed_name_finds_a_chart_beside_the_document_and_nothing_else(tmp_path, name, phase):
    folder = tmp_path / "charts"
    folder.mkdir()
    for at in (tmp_path / "child.scxml", folder / "child.scxml", folder / "notes.txt"):
        at.write_text(CHILD)
    (folder / "broken.scxml").write_text("<scxml>")
    (folder / "link.scxml").symlink_to(tmp_path / "child.scxml")
    (folder / "main.scxml").write_text(COMPUTED.format(name))

    assert Chart.load(folder / "main.scxml").start().snapshot.phase == phase


def test_a_child_of_a_computed_name_survives_a_restart(tmp_path):
    waiting = (
        '<scxml><state id="w"><transition event="go" target="e"/></state><final id="e"/></scxml>'
    )
    text = COMPUTED.format("child.scxml").replace('id="i" ', 'id="i" autoforward="true" ')
    (tmp_path / "child.scxml").write_text(waiting)
    (tmp_path / "main.scxml").write_text(text)
    first = Chart.load(tmp_path / "main.scxml").start(session="x").snapshot
    stored = json.loads(json.dumps(first.to_data()))

    again = Chart.load(tmp_path / "main.scxml").step(ChartSnapshot.from_data(stored), "go")

    assert (first.phase, again.snapshot.phase) == ("s", "found")


def test_a_chart_can_invoke_its_own_file(tmp_path):
    (tmp_path / "self.scxml").write_text(
        """<scxml><state id="s"><invoke id="i" src="self.scxml"/>
             <transition event="error" target="deep"/>
             <transition event="done.invoke.i" target="end"/></state>
           <final id="deep"/><final id="end"/></scxml>"""
    )

    assert Chart.load(tmp_path / "self.scxml").start(session="x").snapshot.phase == "end"


def test_files_that_contain_one_another_twice_are_refused(tmp_path):
    for at in range(30):
        inner = f'<invoke src="f{at + 1}.scxml"/>' * 2
        text = f'<scxml><state id="s">{inner}</state></scxml>'
        (tmp_path / f"f{at}.scxml").write_text(text)
    (tmp_path / "f30.scxml").write_text(CHILD)

    with pytest.raises(BadChart, match="reads more than 100 files"):
        Chart.load(tmp_path / "f0.scxml")
