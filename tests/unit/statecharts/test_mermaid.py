"""A Mermaid diagram has every state in its box, every arrow, and nothing a name could break."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings

from otolith.statecharts import AGENT
from otolith.statecharts.definition import Definition, State, Transition
from otolith.statecharts.formats.mermaid import escape, to_mermaid
from otolith.statecharts.formats.xstate_reader import read_xstate
from tests.unit.statecharts.drawn_charts import HOSTILE, charts, every_state

TEXT = r"(?:[\w .,/()\[\]=+*\-'!?|@$]|#\d+;)+"
ID = r"[A-Za-z]\w*"
STATEMENTS = [
    re.compile(form)
    for form in (
        r"stateDiagram-v2",
        rf'state "{TEXT}" as (?P<leaf>{ID})',
        rf'state "{TEXT}" as (?P<box>{ID}) \{{',
        rf"state (?P<shape>{ID}) <<(fork|choice)>>",
        r"(?P<close>\})",
        r"--",
        rf"(?P<start>{ID}|\[\*\]) --> (?P<end>{ID}|\[\*\])( : {TEXT})?",
        rf"{ID} : {TEXT}",
        rf"class {ID} (active|around|ghost|region)",
        r"classDef (active|around|ghost|region) [\w:#,.-]+",
    )
]
WORK = {
    "id": "m",
    "initial": "idle",
    "on": {"RESET": ".idle"},
    "states": {
        "idle": {
            "entry": ["greet"],
            "on": {"GO": {"target": "work", "guard": "ok", "actions": ["count"]}},
        },
        "work": {
            "type": "parallel",
            "on": {"BOTH": {"target": [".a.a2", ".b.b2"]}},
            "states": {
                "a": {"initial": "a1", "states": {"a1": {"after": {"500": "a2"}}, "a2": {}}},
                "b": {"initial": "b1", "states": {"b1": {"on": {"OUT": "#m.over"}}, "b2": {}}},
            },
        },
        "over": {"type": "final"},
        "last": {"type": "history", "history": "deep", "target": "idle"},
    },
}


class Diagram:
    """The statements of a diagram: which box each state is in, and all arrows."""

    def __init__(self, text: str) -> None:
        self.boxes: dict[str, str] = {}
        self.arrows: list[tuple[str, str]] = []
        around = ["root"]
        for line in map(str.strip, text.strip().split("\n")):
            found = next((match for form in STATEMENTS if (match := form.fullmatch(line))), None)
            assert found is not None, f"Mermaid would not read: {line}"
            groups = found.groupdict()
            declared = groups.get("leaf") or groups.get("box") or groups.get("shape")
            if declared:
                assert declared not in self.boxes, f"{declared} is declared twice"
                self.boxes[declared] = around[-1]
            if groups.get("box"):
                around.append(groups["box"])
            elif groups.get("close"):
                around.pop()
            elif groups.get("start"):
                self.arrows.append((groups["start"], groups["end"]))
        assert around == ["root"]


@settings(max_examples=settings().max_examples // 2, suppress_health_check=list(HealthCheck))
@given(charts())
def test_every_line_is_a_statement_and_every_arrow_joins_states(definition: Definition) -> None:
    diagram = Diagram(to_mermaid(definition, [state.id for state in every_state(definition.root)]))

    ends = {end for arrow in diagram.arrows for end in arrow} - {"[*]"}
    assert ends <= diagram.boxes.keys()
    drawn = len(every_state(definition.root)) - (definition.root.kind == "compound")
    assert len([id for id in diagram.boxes if not re.match("ghost_|fork_", id)]) >= drawn


@settings(max_examples=settings().max_examples // 2, suppress_health_check=list(HealthCheck))
@given(charts(is_hostile=False))
def test_a_line_inside_a_box_names_only_what_is_in_the_box(definition: Definition) -> None:
    """Mermaid moves a state into the box where its name is written last."""
    around = ["root"]
    text = to_mermaid(definition)
    boxes = Diagram(text).boxes
    for line in map(str.strip, text.split("\n")):
        if line.endswith("{"):
            around.append(line.split()[-2])
        elif line == "}":
            around.pop()
        elif "-->" in line and around != ["root"]:
            start, _, end = line.split(" : ")[0].split(" ")
            assert all(id == "[*]" or boxes[id] == around[-1] for id in (start, end))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_shown_and_means_nothing(name: str) -> None:
    way = Transition((name,), (name,), is_internal=False)
    inner = State(f"{name}{name}", "atomic", transitions=(way,))
    box = State(name, "compound", (inner,), initial=Transition((), (inner.id,), is_internal=False))
    root = State("#m", "compound", (box,), initial=Transition((), (name,), is_internal=False))

    text = to_mermaid(Definition(name, root), [inner.id])

    Diagram(text)
    shown = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), text)
    assert f'"{" ".join(name.split())}"' in shown


def test_nothing_but_letters_and_harmless_signs_is_written_as_it_is() -> None:
    assert escape('a"b') == "a#34;b"
    assert escape("a --> b; c: d") == "a --#62; b#59; c#58; d"
    assert escape("<script>") == "#60;script#62;"
    assert escape("%%{init}") == "#37;#37;#123;init#125;"
    assert escape("\ufb02\u00b0\u00b6\u00df") == "#64258;#176;#182;\u00df"
    assert escape("a\nb\0") == "a b#65533;"


def test_a_label_is_event_guard_and_actions() -> None:
    text = to_mermaid(read_xstate(WORK))

    assert re.search(r"idle --> \w+ : GO \[ok\] / count", text)
    assert "work_a_a1 --> work_a_a2 : after 500 ms" in text
    assert "idle : entry / greet" in text


def test_boxes_regions_ends_and_history_are_drawn() -> None:
    text = to_mermaid(read_xstate(WORK))
    diagram = Diagram(text)

    assert diagram.boxes["work"] == "root"
    assert diagram.boxes["work_a"] == "work"
    assert diagram.boxes["work_b_b2"] == "work_b"
    assert text.count("--\n") == 1
    assert ("[*]", "idle") in diagram.arrows
    assert ("over", "[*]") in diagram.arrows
    assert 'state "H* last" as last' in text


def test_several_targets_are_a_fork() -> None:
    arrows = Diagram(to_mermaid(read_xstate(WORK))).arrows

    forks = {end for _, end in arrows if end.startswith("fork_")}
    assert len(forks) == 1
    assert {end for start, end in arrows if start in forks} == {"work_a_a2", "work_b_b2"}


def test_an_arrow_across_boxes_is_written_after_them() -> None:
    lines = to_mermaid(read_xstate(WORK)).split("\n")

    assert lines.index("    work_b_b1 --> over : OUT") > max(
        number for number, line in enumerate(lines) if line.strip() == "}"
    )


def test_a_way_from_the_whole_chart_starts_anywhere() -> None:
    text = to_mermaid(AGENT.definition)

    ghost = re.search(r'state "\*" as (\w+)', text)
    assert ghost is not None
    assert f"{ghost[1]} --> error : fail" in text


def test_active_states_and_the_boxes_around_them_stand_out() -> None:
    text = to_mermaid(read_xstate(WORK), ["work.a.a2", "work.b.b1", "nobody"])

    assert "class work_a_a2 active" in text
    assert "class work around" in text
    assert "class work_b around" in text
    assert "class idle" not in text
    assert "nobody" not in text


def test_regions_inside_regions_are_dashed_boxes() -> None:
    leaf = {"initial": "x", "states": {"x": {}}}
    inner = {"type": "parallel", "states": {"c": leaf, "d": leaf}}
    data = {"id": "m", "type": "parallel", "states": {"a": inner, "b": leaf}}

    text = to_mermaid(read_xstate(data))

    assert text.count("--\n") == 1
    assert "class a_c region" in text
    assert "class a_d region" in text
