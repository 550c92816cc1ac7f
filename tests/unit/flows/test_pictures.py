"""Pictures of a run: right about it, readable without colour, safe whatever tasks are called."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from random import Random
from xml.etree import ElementTree as ET

import pytest

from otolith.flows.bottlenecks import Bottleneck
from otolith.flows.graph import TaskGraph
from otolith.flows.graph_layout import layered_layout
from otolith.flows.lifecycle import STATUSES
from otolith.flows.pictures import (
    MOST_DRAWN,
    FlowPicture,
    TaskTimes,
    gantt_svg,
    graph_svg,
    mermaid,
    report_html,
)
from otolith.flows.schedules import Estimate

SVG = "{http://www.w3.org/2000/svg}"
TRIP = TaskGraph(
    {"plan": [], "flights": ["plan"], "hotels": ["plan"], "book": ["flights", "hotels"]}
)
SECONDS = [4.0, 7.0, 8.0, 1.0]
TIMES = {
    0: TaskTimes(0, 0, 4, worker="ann"),
    1: TaskTimes(4, 5, 10),
    2: TaskTimes(4, 4, 12, retried=3),
    3: TaskTimes(12, 12, 13),
}
HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "'; alert(1) //", "]]>", "-->",
    '"] --> x["', "end", "1. list", "%%{init: {}}%%", "&lt;b&gt;", "&#60;", "javascript:alert(1)",
    "click n0 call alert()", "a\nb\x00\x1b[31m", "\u202egnp.exe", "\ud800", "`code`", "", " ",
    "\u00d7" * 500, "</style></title></svg><b>", "#35;", "\ufb02\u00b0\u00b660\u00b6\u00df",
]  # fmt: skip


@pytest.fixture
def trip():
    statuses = ["done", "done", "running", "pending"]
    return FlowPicture(TRIP, statuses, SECONDS, times=TIMES, now=10.0, title="trip")


@pytest.fixture
def hostile():
    graph = TaskGraph({name: HOSTILE[:1] if number else [] for number, name in enumerate(HOSTILE)})
    statuses = [STATUSES[number % len(STATUSES)] for number in range(len(graph))]
    times = {each: TaskTimes(0, each, each + 2, 1, worker=HOSTILE[each]) for each in range(9)}
    seconds = [1.0] * len(graph)
    return FlowPicture(graph, statuses, seconds, HOSTILE, times, 3.0, "<b>&\"'</b></title>")


def large(count, functions=5):
    """Return a picture of chains of functions, one after the other."""
    graph = TaskGraph()
    for each in range(count):
        before = [f"f{(each - 1) % functions}-{each - 1}"] if each % functions else []
        graph.add({f"f{each % functions}-{each}": before})
    times = {each: TaskTimes(0, each, each + 1) for each in range(count)}
    return FlowPicture(graph, ["done"] * count, [1.0] * count, times=times)


def texts(svg):
    return [each.text or "" for each in ET.fromstring(svg).iter(f"{SVG}text")]


def boxes(svg):
    return [each for each in ET.fromstring(svg).iter(f"{SVG}rect") if " " in each.get("class", "")]


def place(box):
    return tuple(float(box.get(name)) for name in ("x", "y", "width", "height"))


# ------------------------------------------------------------ the graph


def test_a_graph_shows_each_task_with_its_status_in_a_word_and_what_it_took(trip):
    shown = texts(graph_svg(trip))

    assert {"plan", "flights", "hotels", "book"} <= {*shown}
    assert {"done, 4 s", "running, 8 s", "pending, about 1 s"} <= {*shown}


def test_every_status_has_a_sign_and_a_word_of_its_own():
    graph = TaskGraph({status: [] for status in STATUSES})
    drawn = ET.fromstring(graph_svg(FlowPicture(graph, STATUSES, [1.0] * len(STATUSES))))

    signs = {
        (group.findtext(f"{SVG}title", "").partition(":")[0], path.get("d"))
        for group in drawn.iter(f"{SVG}g")
        for path in group.iter(f"{SVG}path")
    }
    assert {name for name, _ in signs} == {*STATUSES}
    assert len({sign for _, sign in signs}) == len(STATUSES)


def test_the_critical_path_is_thick_and_told(trip):
    drawn = ET.fromstring(graph_svg(trip))

    edges = [
        each.get("class") for each in drawn.iter(f"{SVG}path") if "edge" in each.get("class", "")
    ]
    assert edges.count("edge heavy") == 2 + 1  # and the key
    assert edges.count("edge") == 2 + 1
    assert "Critical path: plan, hotels, book" in drawn.get("aria-label", "")


@pytest.mark.parametrize("seed", range(6))
def test_boxes_do_not_overlap_and_are_inside_the_picture(seed):
    random = Random(seed)
    graph = TaskGraph(
        {
            f"t{each}": [f"t{random.randrange(each)}" for _ in range(random.randrange(4))]
            if each
            else []
            for each in range(80)
        }
    )

    svg = graph_svg(FlowPicture(graph))

    drawn = [place(box) for box in boxes(svg) if box.get("class").startswith("box")]
    root = ET.fromstring(svg)
    for at, (x, y, width, height) in enumerate(drawn):
        assert x + width <= float(root.get("width", 0))
        assert y + height <= float(root.get("height", 0))
        for other in drawn[at + 1 :]:
            is_apart = abs(x - other[0]) >= width or abs(y - other[1]) >= height
            assert is_apart


@pytest.mark.parametrize("seed", range(6))
def test_an_edge_leads_from_left_to_right_through_every_column_between(seed):
    random = Random(seed)
    graph = TaskGraph({"a": [], **{f"t{each}": ["a"] for each in range(3)}})
    for each in range(30):
        graph.add({f"n{each}": random.sample(graph.names, 2)})

    layout = layered_layout(graph)

    for (one, two), route in layout.routes.items():
        assert route[0] == (layout.columns[one], layout.rows[one])
        assert route[-1] == (layout.columns[two], layout.rows[two])
        assert all(there[0] == here[0] + 1 for here, there in pairwise(route))


def test_a_heavy_path_is_straight():
    graph = TaskGraph(
        {"a": [], "b": ["a"], "x": ["a"], "y": ["a"], "c": ["b"], "d": ["c", "x", "y"]}
    )
    path = [graph.number[name] for name in "abcd"]

    layout = layered_layout(graph, frozenset(pairwise(path)))

    assert max(layout.rows[each] for each in path) - min(layout.rows[each] for each in path) < 0.2


# ------------------------------------------------------------ folding


def test_many_tasks_are_folded_by_function_with_their_counts():
    picture = large(5 * MOST_DRAWN)

    shown = texts(graph_svg(picture))

    assert [each for each in shown if "\u00d7" in each] == [
        f"f{each} \u00d7{MOST_DRAWN}" for each in range(5)
    ]
    assert f"{MOST_DRAWN} done" in shown
    assert len(report_html(large(20 * MOST_DRAWN))) < 2 * len(report_html(picture))


def test_what_is_folded_needs_attention_if_one_of_it_does():
    picture = large(5 * MOST_DRAWN)
    statuses = ["done"] * len(picture.graph)
    statuses[7] = "failed"

    svg = graph_svg(FlowPicture(picture.graph, statuses, picture.seconds))

    assert [box.get("class").split()[1] for box in boxes(svg)[1:]] == [
        "fine", "fine", "bad", "fine", "fine",
    ]  # fmt: skip


def test_functions_that_take_turns_are_not_folded_into_a_cycle():
    count = 2 * MOST_DRAWN
    graph = TaskGraph({f"t{each}": [f"t{each - 1}"] if each else [] for each in range(count)})
    functions = ["ask" if each % 4 < 2 else "answer" for each in range(count)]

    picture = FlowPicture(graph, ["done"] * count, [1.0] * count, functions)

    assert len(picture.nodes.graph) == MOST_DRAWN
    assert len(boxes(graph_svg(picture))) == MOST_DRAWN + 1


@pytest.mark.parametrize("seed", range(4))
def test_functions_in_any_order_are_not_folded_into_a_cycle(seed):
    random, count = Random(seed), 10 * MOST_DRAWN
    graph = TaskGraph({"t0": []})
    for each in range(1, count):
        graph.add({f"t{each}": [f"t{random.randrange(each)}" for _ in range(2)]})
    functions = [random.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(count)]

    picture = FlowPicture(graph, ["done"] * count, [1.0] * count, functions)

    assert len(picture.nodes.graph) == MOST_DRAWN
    assert any("all others" in each for each in picture.nodes.graph.names)


def test_functions_that_are_called_like_a_folded_one_are_drawn_as_well():
    count = 3 * MOST_DRAWN
    graph = TaskGraph({f"t{each}": [] for each in range(count)})
    functions = ["a", *["a"] * (count - 4), f"a \u00d7{count - 3}", "all others", "b"]

    picture = FlowPicture(graph, ["done"] * count, [1.0] * count, functions)

    assert len(picture.nodes.graph) == 4
    assert len(boxes(graph_svg(picture))) == 4 + 1


def test_up_to_the_limit_every_task_is_drawn():
    assert len(large(MOST_DRAWN).nodes.graph) == MOST_DRAWN


# ------------------------------------------------------------ time


def test_a_bar_shows_waiting_failed_attempts_and_what_is_still_expected(trip):
    drawn = boxes(gantt_svg(trip))
    bars: dict[str, list[float]] = {}
    for bar in drawn[6:]:  # after the key
        kind = bar.get("class").split()[1]
        bars.setdefault(kind, []).append(float(bar.get("width")))
    second = bars["idle"][0]

    assert {kind: [round(each / second) for each in many] for kind, many in bars.items()} == {
        "ran": [4, 3, 5],  # hotels run until now, which is 10
        "idle": [1],
        "failed": [3],
        "expected": [2, 1],
    }
    assert "ann" in texts(gantt_svg(trip))


def test_rows_are_in_the_order_in_which_tasks_began(trip):
    names = [each for each in texts(gantt_svg(trip)) if each in TRIP.names]

    assert names == ["plan", "hotels", "flights", "book"]


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 60.0, 3600.0, 1e6, 1e9])
def test_the_axis_has_a_few_times_at_any_scale(scale):
    picture = FlowPicture(TaskGraph({"a": []}), ["done"], times={0: TaskTimes(0, 0, 3.7 * scale)})

    assert (
        2 <= sum("line" in each for each in re.findall(r'class="(\w+)"', gantt_svg(picture))) <= 9
    )


# ------------------------------------------------------------ all that is drawn


@pytest.mark.parametrize("draw", [graph_svg, gantt_svg])
@pytest.mark.parametrize("names", [[], ["only"]])
def test_the_smallest_flows_have_pictures_too(draw, names):
    ET.fromstring(draw(FlowPicture(TaskGraph({name: [] for name in names}))))


def test_a_report_says_what_it_hangs_on_and_when_it_ends(trip):
    page = report_html(
        trip,
        estimate=Estimate(3, 5, 70),
        bottlenecks=[Bottleneck("hotels", "retries", 3.0, 2.5)],
    )

    assert "Ends in about <b>5 s</b>; in 8 of 10 cases between 3 s and 70 s." in page
    assert "<td>hotels</td><td>retries</td><td>3 s</td><td>2.5 s</td>" in page
    assert "2 done" in page


class Elements(HTMLParser):
    """What a browser would see."""

    def __init__(self):
        super().__init__()
        self.seen = set()
        self.attributes = []
        self.shown = ""

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.shown += data


def test_a_report_is_one_file_without_scripts_and_addresses(trip):
    page = report_html(trip)
    elements = Elements()
    elements.feed(page)

    assert not {"script", "link", "img", "iframe", "object", "a"} & elements.seen
    assert "default-src 'none'" in page
    assert re.findall(r"https?://[^\s\"']+", page) == ["http://www.w3.org/2000/svg"] * 2
    assert "prefers-color-scheme:dark" in page


def test_hostile_names_are_shown_and_do_nothing(hostile):
    trouble = [Bottleneck(name, "runs", 1.0, 1.0) for name in HOSTILE]
    page = report_html(hostile, bottlenecks=trouble)
    plain = report_html(FlowPicture(TRIP, times=TIMES), bottlenecks=trouble[:0])
    seen, usual = Elements(), Elements()
    seen.feed(page)
    usual.feed(plain)

    assert seen.seen == usual.seen | {"p"}
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert not any(
        "javascript" in (value or "") for name, value in seen.attributes if name == "href"
    )
    assert "<script>alert(1)</script>" in seen.shown
    assert "\\u202egnp.exe" in seen.shown
    assert page.encode().isascii() or "\u202e" not in page
    assert {*"\x00\x1b\u202e"}.isdisjoint(page)


@pytest.mark.parametrize("draw", [graph_svg, gantt_svg])
def test_pictures_with_hostile_names_are_well_formed(hostile, draw):
    root = ET.fromstring(draw(hostile).encode())

    assert not [*root.iter(f"{SVG}script")]
    assert root.get("aria-label", "").startswith("<b>&\"'</b></title>: 23 tasks")


# ------------------------------------------------------------ Mermaid


def test_a_mermaid_chart_has_nodes_edges_and_the_critical_path(trip):
    lines = mermaid(trip).splitlines()

    assert lines[0] == "flowchart LR"
    assert '  n0["plan<br/>done, 4 s"]' in lines
    assert [line.strip() for line in lines if "=>" in line or "->" in line] == [
        "n0 --> n1", "n0 ==> n2", "n1 --> n3", "n2 ==> n3",
    ]  # fmt: skip
    assert "  class n0,n2,n3 critical" in lines
    assert "  linkStyle 1,3 stroke:#161a18,stroke-width:3px" in lines


def test_a_mermaid_chart_has_a_class_for_each_status(trip):
    lines = mermaid(trip).splitlines()

    assert {"  class n0,n1 fine", "  class n2 live", "  class n3 todo"} <= {*lines}


def test_a_mermaid_label_has_nothing_that_means_something_to_mermaid(hostile):
    labels = [re.fullmatch(r'  n\d+\["(.*)<br/>(.*)"\]', line) for line in nodes_of(hostile)]

    assert len(labels) == len(HOSTILE)
    for label in labels:
        assert label is not None
        rest = re.sub(r"#\d+;", "", label[1])
        assert re.fullmatch(r"[A-Za-z0-9 _.,()/-]*", rest)
        assert not re.match(r"(\d+[.)]|[-+*])\s", rest)
        assert len(rest) <= 60


def nodes_of(picture):
    return [line for line in mermaid(picture).splitlines() if re.match(r"  n\d+\[", line)]


def test_a_mermaid_chart_of_many_tasks_is_folded_as_well():
    assert len(nodes_of(large(5 * MOST_DRAWN))) == 5
