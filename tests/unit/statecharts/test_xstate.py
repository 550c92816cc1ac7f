"""XState's JSON means here what it means there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otolith.errors import BadChart, IllegalTransition, StepFailed
from otolith.statecharts import Chart


def chart_of(states, **more):
    return Chart.from_data({"id": "m", "initial": next(iter(states)), "states": states, **more})


def after(chart, *events):
    snapshot = chart.start().snapshot
    for event in events:
        snapshot = chart.step(snapshot, event).snapshot
    return snapshot


@pytest.mark.parametrize(
    ("target", "found"),
    [("b", "b"), (".a2", "a.a2"), ("#m.a.a2", "a.a2"), ("#odd", "odd"), ("c.c2", "c.c2")],
)
def test_targets_are_siblings_children_ids_and_paths(target, found):
    chart = chart_of(
        {
            "a": {"initial": "a1", "on": {"go": target}, "states": {"a1": {}, "a2": {}}},
            "b": {},
            "strange": {"id": "odd"},
            "c": {"initial": "c1", "states": {"c1": {}, "c2": {}}},
        }
    )

    assert after(chart, "go").phase == found


def test_a_transition_is_internal_unless_it_says_reenter():
    def moved(**more):
        chart = chart_of(
            {
                "a": {
                    "initial": "a1",
                    "entry": ["entered"],
                    "on": {"go": {"target": "a", **more}},
                    "states": {"a1": {"on": {"next": "a2"}}, "a2": {}},
                }
            }
        )
        snapshot = after(chart, "next")
        assert snapshot.phase == "a.a2"
        step = chart.step(snapshot, "go")
        return step.snapshot.phase, len(step.effects)

    assert moved() == ("a.a1", 0)
    assert moved(reenter=True) == ("a.a1", 1)


def test_an_event_is_meant_by_its_whole_name_or_by_a_star():
    chart = chart_of({"a": {"on": {"x": "b", "y.*": "c", "*": "d"}}, "b": {}, "c": {}, "d": {}})

    assert [after(chart, name).phase for name in ("x", "x.y", "y.z", "w")] == ["b", "d", "c", "d"]


def test_a_root_can_be_parallel_and_its_transitions_reach_everybody():
    chart = Chart.from_data(
        {
            "id": "p",
            "type": "parallel",
            "on": {"reset": {"target": [".l.off", ".r.off"]}},
            "states": {
                side: {"initial": "off", "states": {"off": {"on": {side: "on"}}, "on": {}}}
                for side in ("l", "r")
            },
        }
    )

    assert after(chart, "l", "r").configuration == ("l.on", "r.on")
    assert after(chart, "l", "r", "reset").configuration == ("l.off", "r.off")


def test_history_without_a_target_leads_where_its_parent_begins():
    chart = chart_of(
        {
            "out": {"on": {"back": "in.past"}},
            "in": {
                "initial": "one",
                "on": {"leave": "out"},
                "states": {"one": {"on": {"next": "two"}}, "two": {}, "past": {"type": "history"}},
            },
        }
    )

    assert after(chart, "back").phase == "in.one"
    assert after(chart, "back", "next", "leave", "back").phase == "in.two"


def test_history_of_a_parallel_state_remembers_all_regions():
    def region(name):
        states = {"off": {"on": {name: "on"}}, "on": {}}
        return {"initial": "off", "states": states}

    chart = chart_of(
        {
            "out": {"on": {"back": "p.past"}},
            "p": {
                "type": "parallel",
                "on": {"leave": "out"},
                "states": {
                    "l": region("l"),
                    "r": region("r"),
                    "past": {"type": "history", "history": "deep"},
                },
            },
        }
    )

    assert after(chart, "back").configuration == ("p.l.off", "p.r.off")
    assert after(chart, "back", "r", "leave", "back").configuration == ("p.l.off", "p.r.on")


def test_values_that_a_snapshot_could_not_keep_are_refused_when_the_chart_is_read():
    deep: list[Any] = []
    value = deep
    for _ in range(2_000):
        value.append([])
        value = value[0]
    for bad in ({"x": {1, 2}}, {"x": float("nan")}, {"x": deep}):
        with pytest.raises(BadChart):
            chart_of({"a": {}}, context=bad)


def test_actions_that_are_data_assign_raise_log_emit_and_cancel():
    chart = chart_of(
        {
            "a": {
                "on": {
                    "go": {
                        "actions": [
                            {
                                "type": "@xstate.assign",
                                "context": {"n": {"@expr": "context.n + event.by"}, "k": [1]},
                            },
                            {"type": "@xstate.raise", "event": {"type": "inner", "v": 1}},
                            {
                                "type": "@xstate.raise",
                                "event": {"type": "z"},
                                "delay": 9,
                                "id": "t",
                            },
                            {"type": "@xstate.log", "args": ["said"]},
                            {"type": "@xstate.emit", "event": {"type": "told", "n": 5}},
                            {"type": "@xstate.cancel", "id": "t"},
                            {"type": "paint", "params": {"colour": {"@expr": "n > 2 ? 'r' : 'g'"}}},
                        ]
                    },
                    "inner": "b",
                }
            },
            "b": {},
        },
        context={"n": 1},
    )

    moved = chart.step(chart.start().snapshot, "go", {"by": 2})

    assert (moved.snapshot.phase, moved.snapshot.data) == ("b", {"n": 3, "k": [1]})
    assert moved.snapshot.timers == ()
    assert [(e.kind, e.name, e.params) for e in moved.effects] == [
        ("log", "", {"value": "said"}),
        ("emit", "told", {"data": {"n": 5}}),
        ("call", "paint", {"colour": "r"}),
    ]


def test_guards_are_expressions_or_names_with_params():
    chart = chart_of(
        {
            "a": {
                "on": {
                    "go": [
                        {"target": "b", "guard": {"type": "more", "params": {"than": 5}}},
                        {"target": "c", "guard": {"@expr": "context.n === 3"}},
                    ]
                }
            },
            "b": {},
            "c": {},
        },
        context={"n": 3},
    )

    @chart.guard
    def more(data, event, than):
        return data["n"] > than

    assert after(chart, "go").phase == "c"


def test_done_events_carry_output_upwards():
    chart = chart_of(
        {
            "work": {
                "initial": "do",
                "onDone": {
                    "target": "end",
                    "actions": [
                        {"type": "@xstate.assign", "context": {"r": {"@expr": "event.output"}}}
                    ],
                },
                "states": {
                    "do": {"on": {"go": "ok"}},
                    "ok": {"type": "final", "output": {"sum": 4}},
                },
            },
            "end": {"type": "final"},
        }
    )
    snapshot = after(chart, "go")

    assert (snapshot.status, snapshot.data["r"]) == ("done", {"sum": 4})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "an object"),
        ({"states": {}}, "no states"),
        ({"initial": "a", "states": {"a": {"on": {"e": "nowhere"}}}}, "a on e: there is no state"),
        ({"initial": "z", "states": {"a": {}}}, "no state 'z'"),
        ({"states": {"a": {}}}, "has no initial state"),
        ({"initial": "a", "states": {"a": {"type": "odd"}}}, "'odd' is not a type"),
        ({"initial": "a", "states": {"a": {"id": "x"}, "b": {"id": "x"}}}, "'x' is already used"),
        ({"initial": "a", "states": {"a": {"entry": [{}]}}}, "an action must be"),
        ({"initial": "a", "states": {"a": {"always": {"guard": 3}}}}, "a guard must be"),
        (
            {"initial": "a", "states": {"a": {"always": {"guard": {"@expr": "a ="}}}}},
            "cannot be parsed",
        ),
        (
            {"initial": "a", "states": {"a": {"entry": [{"type": "x", "params": {"@code": "1"}}]}}},
            "code",
        ),
        ({"initial": "a", "states": {"a": {"invoke": {"src": 3}}}}, "must name a chart"),
        ({"initial": "a", "states": {"a": []}}, "a state must be an object"),
    ],
)
def test_a_config_that_cannot_run_is_refused_with_its_place(data, message):
    with pytest.raises(BadChart, match=message):
        Chart.from_data(data)


def test_a_description_a_tag_or_a_layout_does_not_change_the_hash_and_a_target_does():
    def variant(target="b", **more):
        return Chart.from_data(
            {"id": "m", "initial": "a", "states": {"a": {"on": {"go": target}, **more}, "b": {}}}
        )

    plain = variant().hash

    assert variant(description="x", tags=["t"], meta={"layout": {"x": 1}}).hash == plain
    assert variant(target="a").hash != plain


# ---------------------------------------------------------------- where SCXML reads otherwise


@pytest.mark.parametrize(("history", "found"), [("shallow", "in.two.x"), ("deep", "in.two.y")])
def test_a_state_with_a_history_and_no_type_is_a_history_state(history, found):
    inner = {"initial": "x", "states": {"x": {"on": {"deeper": "y"}}, "y": {}}}
    chart = chart_of(
        {
            "out": {"on": {"back": "in.past"}},
            "in": {
                "initial": "one",
                "on": {"leave": "out"},
                "states": {
                    "one": {"on": {"next": "two"}},
                    "two": inner,
                    "past": {"history": history},
                },
            },
        }
    )

    assert after(chart, "back", "next", "deeper", "leave", "back").phase == found


def test_a_history_is_shallow_or_deep():
    with pytest.raises(BadChart, match="history must be shallow or deep, got 'long'"):
        chart_of({"a": {"initial": "b", "states": {"b": {}, "past": {"history": "long"}}}})


def test_a_parallel_root_runs_until_all_of_its_regions_are_final():
    work = {
        "initial": "busy",
        "states": {"busy": {"on": {"finish": "over"}}, "over": {"type": "final"}},
    }
    chart = Chart.from_data(
        {"id": "p", "type": "parallel", "states": {"mark": {"type": "final"}, "work": work}}
    )

    assert after(chart).status == "running"
    assert after(chart, "finish").status == "done"


def test_a_parallel_state_of_final_regions_is_done_inside_another_one():
    marks = {"type": "parallel", "states": {"x": {"type": "final"}, "y": {"type": "final"}}}
    work = {
        "initial": "busy",
        "states": {"busy": {"on": {"finish": "over"}}, "over": {"type": "final"}},
    }
    chart = chart_of(
        {
            "both": {
                "type": "parallel",
                "onDone": "end",
                "states": {"marks": {**marks, "onDone": {"actions": ["marked"]}}, "work": work},
            },
            "end": {"type": "final"},
        }
    )

    assert [effect.name for effect in chart.start().effects] == ["marked"]
    assert after(chart, "finish").phase == "end"


def test_an_eventless_transition_that_changes_nothing_is_taken_once_after_each_event():
    chart = chart_of(
        {"a": {"always": {"actions": ["note"]}, "on": {"go": "b", "stay": {}}}, "b": {}}
    )
    start = chart.start()
    stay = chart.step(start.snapshot, "stay")

    assert [effect.name for effect in start.effects] == ["note"]
    assert [effect.name for effect in stay.effects] == ["note"]
    assert chart.step(stay.snapshot, "go").snapshot.phase == "b"


@pytest.mark.parametrize("always", [{}, {"actions": ["note"]}, {"target": "."}, {"guard": "yes"}])
def test_a_chart_that_rests_in_place_still_refuses_what_it_does_not_know(always):
    chart = chart_of({"a": {"always": always, "on": {"go": "b"}}, "b": {}})
    chart.guard("yes")(lambda data, event: True)
    snapshot = chart.start().snapshot

    for _ in range(2):  # the second time it could be looked up
        with pytest.raises(IllegalTransition):
            chart.step(snapshot, "nonsense")
    assert chart.step(snapshot, "go").snapshot.phase == "b"


def test_an_eventless_transition_that_assigns_never_rests():
    again = {"actions": {"type": "xstate.assign", "context": {"n": 1}}}
    chart = chart_of({"a": {"always": again}}, context={"n": 1})

    with pytest.raises(StepFailed, match="without coming to rest") as caught:
        chart.start()
    assert caught.value.cycle == ("a",)


def test_in_scxml_an_eventless_transition_in_place_never_rests():
    chart = Chart.from_scxml(
        """<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0">
        <state id="a"><transition><log expr="1"/></transition></state></scxml>"""
    )

    with pytest.raises(StepFailed, match="without coming to rest"):
        chart.start()


def test_a_state_is_not_asked_if_one_of_its_regions_takes_the_event():
    regions = {"l": {"on": {"tell": {"actions": ["l"]}}}, "r": {}}
    on = {"tell": {"actions": ["outer"]}, "ask": {"actions": ["outer"]}}
    chart = Chart.from_data({"id": "p", "type": "parallel", "on": on, "states": regions})
    snapshot = chart.start().snapshot

    assert [effect.name for effect in chart.step(snapshot, "tell").effects] == ["l"]
    assert [effect.name for effect in chart.step(snapshot, "ask").effects] == ["outer"]


def test_a_transition_between_regions_does_not_leave_the_parallel_state():
    regions = {"l": {"on": {"go": {"target": "r", "reenter": True}}}, "r": {"entry": ["r"]}}
    chart = chart_of({"p": {"type": "parallel", "entry": ["p"], "states": regions}})
    start = chart.start()

    assert [effect.name for effect in start.effects] == ["p", "r"]
    assert [effect.name for effect in chart.step(start.snapshot, "go").effects] == ["r"]


def test_a_service_starts_again_where_history_enters_a_state_that_was_not_left():
    around = {
        "type": "parallel",
        "invoke": {"id": "w", "src": "work"},
        "states": {"x": {"on": {"back": "#m.past"}}, "y": {}},
    }
    states = {"around": around, "past": {"history": "deep"}}
    chart = chart_of(states, on={"remember": {"target": ".past", "reenter": True}})

    step = chart.step(after(chart, "remember"), "back")

    assert [(each.kind, each.id) for each in step.effects] == [("stop", "w"), ("invoke", "w")]
    assert step.snapshot.configuration == ("around.x", "around.y")


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("foo\\.bar", "foo.bar"),
        ("#m.foo\\.bar", "foo.bar"),
        ("#odd\\.id", "odd.id"),
        ("deep.a\\.b", "deep.a.b"),
        (".", "here"),
    ],
)
def test_dots_of_keys_and_ids_are_escaped_in_targets(target, found):
    inner = {"initial": "a.b", "states": {"c": {}, "a.b": {}}}
    chart = chart_of(
        {
            "here": {"on": {"go": {"target": target, "reenter": True}}, "entry": ["in"]},
            "foo.bar": {},
            "other": {"id": "odd.id"},
            "deep": inner,
        }
    )
    step = chart.step(chart.start().snapshot, "go")

    assert step.snapshot.phase == found
    assert after(chart_of({"start.here": {}})).phase == "start.here"


def test_a_chart_with_dots_in_its_ids_is_written_as_xstate_reads_it():
    table = {("a.b", "go"): "c.d", ("c.d", "go"): "a.b", ("*", "end"): "x\\y"}
    chart = Chart.from_table(table, initial="a.b", name="with.dots")
    states = chart.to_xstate()["states"]

    assert [each.get("on") for each in states.values()] == [
        {"go": {"target": "c_d", "reenter": True}},
        {"go": {"target": "a_b", "reenter": True}},
        None,
    ]
    assert Chart.from_data(chart.to_xstate()).hash == chart.hash


@pytest.mark.parametrize("name", ["always", "regions"])
def test_what_differs_from_scxml_survives_the_way_through_scxml(name):
    states = {
        "always": {"a": {"always": {"actions": ["note"]}, "on": {"go": "b"}}, "b": {}},
        "regions": {"a": {"type": "parallel", "states": {"x": {"type": "final"}, "y": {}}}},
    }[name]
    chart = chart_of(states)

    again = Chart.from_scxml(chart.to_scxml())

    assert again.hash == chart.hash
    assert again.start().snapshot.configuration == chart.start().snapshot.configuration


# ---------------------------------------------------------------- what is misspelt


def config_with(where, key, value):
    """Return a valid config with one more key in one of its objects."""
    transition: dict[str, Any] = {
        "target": "b",
        "guard": {"type": "g"},
        "actions": [{"type": "act"}],
    }
    invoke = {"id": "i", "src": "work", "onDone": "b"}
    state = {"on": {"go": transition}, "invoke": invoke}
    root = {
        "id": "m",
        "initial": {"target": "a"},
        "states": {"a": state, "b": {"type": "final"}},
        "context": {"own": {"anything": 1}},
    }
    objects = {
        "root": root,
        "state": state,
        "transition": transition,
        "invoke": invoke,
        "initial": root["initial"],
        "guard": transition["guard"],
        "action": transition["actions"][0],
        "assign": (assign := {"type": "xstate.assign", "context": {"n": 1}}),
        "extension": (extension := {"type": "@otolith.log", "label": "x"}),
    }
    transition["actions"] += [assign, extension]
    objects[where][key] = value
    return root


@pytest.mark.parametrize(
    ("where", "key", "near"),
    [
        ("root", "inital", "initial"),
        ("root", "contxt", "context"),
        ("state", "onn", "on"),
        ("state", "alway", "always"),
        ("state", "context", "data of your own goes into meta"),
        ("state", "data", "output"),
        ("transition", "gaurd", "guard"),
        ("transition", "action", "actions"),
        ("transition", "internal", "reenter"),
        ("transition", "in", "guard"),
        ("invoke", "onDon", "onDone"),
        ("initial", "targt", "target"),
        ("guard", "parms", "params"),
        ("action", "parms", "params"),
        ("assign", "contex", "context"),
        ("extension", "lable", "label"),
        ("state", "colour", "data of your own goes into meta"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_nearest_one(where, key, near):
    with pytest.raises(BadChart, match=f"'{key}' is not a key of") as caught:
        Chart.from_data(config_with(where, key, "x"))
    assert near in caught.value.hint


@pytest.mark.parametrize(
    ("where", "key"),
    [
        *(("root", key) for key in ("version", "description", "types", "schemas", "$schema")),
        ("root", "predictableActionArguments"),
        *(("state", key) for key in ("description", "order", "key", "output")),
        *(("transition", key) for key in ("description", "eventType")),
        *(("invoke", key) for key in ("systemId", "input", "description")),
    ],
)
def test_keys_that_xstate_has_are_read(where, key):
    assert Chart.from_data(config_with(where, key, "x")).states == ("a", "b")


@pytest.mark.parametrize(
    "delay", ["-5", "-5.5", "5 weeks", "1e3", "1..5", "9" * 16, "9" * 25, "9" * 40, "+5"]
)
def test_a_delay_that_cannot_be_is_refused_when_the_chart_is_read(delay):
    with pytest.raises(BadChart, match="delay"):
        chart_of({"a": {"after": {delay: "b"}}, "b": {}})


def test_a_timeout_that_cannot_be_is_refused_when_the_chart_is_read():
    with pytest.raises(BadChart, match="a delay must be"):
        chart_of({"a": {"timeout": -5, "onTimeout": "b"}, "b": {}})


@pytest.mark.parametrize(
    "delay", [0, 1, 0.5, 0.00012345678901234567, 123456789012345.12, 10**14, "1.5s", "250us"]
)
def test_every_delay_that_is_written_is_read_again(delay):
    chart = chart_of({"a": {"after": {delay: "b"}}, "b": {}})

    again = Chart.from_data(json.loads(json.dumps(chart.to_xstate())))

    assert again.hash == chart.hash
