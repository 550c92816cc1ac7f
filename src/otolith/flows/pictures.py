"""Pictures of a run: its graph as Mermaid text and SVG, its time as a Gantt chart, all in a page.

Every picture is one text that needs nothing else: no script, no font, no address. It follows the
theme of who looks at it. A status is told by a word and a sign, colour only helps; the critical
path is told by thickness. All names are escaped, and signs that cannot be seen are spelled out.

Above `MOST_DRAWN` tasks, those of one function are drawn as one, as long as no other function is
between them: so what is drawn has no cycle either.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import pairwise
from string import Template
from typing import NamedTuple

from otolith.flows.bottlenecks import Bottleneck
from otolith.flows.graph import Edge, TaskGraph
from otolith.flows.graph_layout import layered_layout
from otolith.flows.schedules import Estimate
from otolith.text import clip, printable

MOST_DRAWN = 300
_ID = re.compile(r"[-_.:/# ]*\d+$")
_TIMES = " \u00d7"
_END = 7
_LIST_MARK = re.compile(r"(\d+[.)]|[-+*])\s")


class TaskTimes(NamedTuple):
    """When a task could begin, began and ended, in seconds since the run began, and who ran it.

    `retried` are the seconds after its beginning that went into attempts which failed.
    """

    ready: float
    began: float
    ended: float
    retried: float = 0.0
    worker: str = ""


@dataclass(frozen=True, eq=False)
class FlowPicture:
    """What is drawn: a graph, and by the numbers of its tasks how they are and what they took.

    `seconds` are measured or expected, and decide what is critical. Without `functions`, tasks are
    of one function if their names differ in a number at the end. `times` may be of some tasks
    only. What comes after `now` is drawn as expected.
    """

    graph: TaskGraph
    statuses: Sequence[str] = ()
    seconds: Sequence[float] = ()
    functions: Sequence[str] = ()
    times: Mapping[int, TaskTimes] = field(default_factory=dict)
    now: float | None = None
    title: str = "flow"

    def status(self, number: int) -> str:
        """Return the status of a task; pending if none is known."""
        return self.statuses[number] if self.statuses else "pending"

    @cached_property
    def critical(self) -> frozenset[int]:
        """The tasks of the critical path."""
        path = self.graph.schedule(self.seconds or [1.0] * len(self.graph)).critical_path
        return frozenset(self.graph.number[name] for name in path)

    @cached_property
    def nodes(self) -> _Nodes:
        """What is drawn as one."""
        if len(self.graph) <= MOST_DRAWN:
            return _Nodes([*range(len(self.graph))], self.graph)
        return _folded(self)


class _Nodes(NamedTuple):
    """Nodes of a picture: of which each task is a part, and their graph."""

    of_task: list[int]
    graph: TaskGraph

    def tasks(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in range(len(self.graph))]
        for number, node in enumerate(self.of_task):
            found[node].append(number)
        return found


class _Look(NamedTuple):
    """How a status is drawn: its class, and its sign in a square of 12."""

    style: str
    sign: str


_LOOKS = {
    "failed": _Look("bad", "M2 2 10 10M10 2 2 10"),
    "waiting": _Look("warn", "M3 1h6M3 11h6M3.500 1c0 5 5 5 5 10M8.500 1c0 5-5 5-5 10"),
    "running": _Look("live", "M3 1.500 10 6 3 10.500z"),
    "checking": _Look("live", "M5 1a4 4 0 1 1 0 8a4 4 0 1 1 0-8M8 8l3 3"),
    "leased": _Look("live", "M1 6h9M7 3l3 3-3 3"),
    "ready": _Look("todo", "M6 2a4 4 0 1 1 0 8a4 4 0 1 1 0-8"),
    "pending": _Look("todo", "M2 6h.1M6 6h.1M10 6h.1"),
    "cancelled": _Look("off", "M6 1a5 5 0 1 1 0 10a5 5 0 1 1 0-10M2.500 9.500l7-7"),
    "skipped": _Look("off", "M2 2l4 4-4 4M6 2l4 4-4 4"),
    "done": _Look("fine", "M1.500 6.500 5 10l5.500-8"),
}
"""By what needs a person most: a node of many tasks looks like the first of theirs."""


# ------------------------------------------------------------ Mermaid

_MERMAID_STYLES = {
    "fine": "fill:#ffffff,stroke:#636965,color:#161a18",
    "todo": "fill:#f7f7f4,stroke:#868b86,color:#4b524e,stroke-dasharray:4",
    "live": "fill:#e1f0ee,stroke:#0a6a66,color:#07504d",
    "warn": "fill:#fbf1d6,stroke:#7a5500,color:#161a18",
    "bad": "fill:#fdeaea,stroke:#b0172a,color:#161a18",
    "off": "fill:#f2f2ee,stroke:#d0d0c9,color:#636965",
}

_MERMAID_MARKS = str.maketrans("\ufb02\u00b6", "\ufffd\ufffd")
"""Mermaid writes numbers of characters with these inside."""


def mermaid(picture: FlowPicture) -> str:
    """Return the graph as a Mermaid flowchart."""
    nodes, lines, thick = picture.nodes, ["flowchart LR"], list[str]()
    styles: dict[str, list[str]] = {}
    critical = {nodes.of_task[each] for each in picture.critical}
    for node, tasks in enumerate(nodes.tasks()):
        name, said, look = _described(picture, node, tasks)
        lines.append(f'  n{node}["{_mermaid_text(name)}<br/>{_mermaid_text(said)}"]')
        styles.setdefault(look.style, []).append(f"n{node}")
    edges = _edges(nodes.graph)
    heavy = _heavy(picture)
    for at, (one, two) in enumerate(edges):
        lines.append(f"  n{one} {'==>' if (one, two) in heavy else '-->'} n{two}")
        thick += [str(at)] if (one, two) in heavy else []
    for style, ids in sorted(styles.items()):
        lines += [
            f"  classDef {style} {_MERMAID_STYLES[style]}",
            f"  class {','.join(ids)} {style}",
        ]
    if critical:
        lines.append("  classDef critical stroke-width:3px,stroke:#161a18")
        lines.append(f"  class {','.join(f'n{each}' for each in sorted(critical))} critical")
    if thick:
        lines.append(f"  linkStyle {','.join(thick)} stroke:#161a18,stroke-width:3px")
    return "\n".join(lines) + "\n"


def _mermaid_text(text: str) -> str:
    """Return a text in which everything that could mean something to Mermaid is a number."""
    shown = _visible(text).translate(_MERMAID_MARKS).replace("$$", "$ $")  # else a formula
    shown = clip(shown, 60)
    mark = _LIST_MARK.match(shown)  # Mermaid refuses labels that are lists in Markdown
    start = mark.end() if mark else 0
    return "".join(
        sign
        if (sign.isascii() and (sign.isalnum() or sign in " _.,-()/") and at >= start)
        else f"#{ord(sign)};"
        for at, sign in enumerate(shown)
    )


# ------------------------------------------------------------ the graph

_COLUMN, _NODE, _HEAD = 190, 148, 34


def graph_svg(picture: FlowPicture) -> str:
    """Return the graph from left to right as SVG."""
    nodes, heavy = picture.nodes, _heavy(picture)
    layout = layered_layout(nodes.graph, heavy)
    in_columns = Counter(layout.columns)
    is_dense = max(in_columns.values(), default=0) > 16
    height = 24 if is_dense else 44
    pitch = height + (6 if is_dense else 20)

    def place(column: int, row: float) -> tuple[float, float]:
        return 16 + column * _COLUMN, _HEAD + 10 + row * pitch

    body = []
    for edge, route in layout.routes.items():
        path = _edge_path([place(*each) for each in route], height)
        style = "edge heavy" if edge in heavy else "edge"
        mark = "tip-heavy" if edge in heavy else "tip"
        body.append(
            (edge in heavy, f'<path class="{style}" d="{path}" marker-end="url(#{mark})"/>')
        )
    drawn = [each for _, each in sorted(body, key=lambda each: each[0])]  # heavy ones on top
    critical = {nodes.of_task[each] for each in picture.critical}
    for node, tasks in enumerate(nodes.tasks()):
        at = place(layout.columns[node], layout.rows[node])
        drawn += _node(picture, node, tasks, at, height, is_critical=node in critical)
    width = 32 + max(layout.columns, default=0) * _COLUMN + _NODE
    lowest = max((row for route in layout.routes.values() for _, row in route), default=0.0)
    deepest = _HEAD + 26 + max(lowest, *layout.rows, 0.0) * pitch + height
    names = ", ".join(nodes.graph.names[each] for each in sorted(critical))
    said = f"{_title(picture)}. Critical path: {clip(names, 300)}"
    return _svg(max(width, 420), deepest, said, [*_KEY, *drawn])


def _node(
    picture: FlowPicture,
    node: int,
    tasks: Sequence[int],
    at: tuple[float, float],
    height: int,
    *,
    is_critical: bool,
) -> Iterator[str]:
    """Yield one node: a box with the name, what it took, and the sign of its status."""
    name, said, look = _described(picture, node, tasks)
    x, y = at
    style = f"box {look.style}{' heavy' if is_critical else ''}"
    yield f"<g><title>{_text(name)}: {_text(said)}</title>"
    yield f'<rect class="{style}" x="{x:g}" y="{y:.1f}" width="{_NODE}" height="{height}" rx="5"/>'
    bold, sign = " b" if is_critical else "", (x + _NODE - 18, y + height - 18)
    shown = _text(_short(name, 18 if height > 30 else 16))
    yield f'<text class="mono{bold}" x="{x + 9:g}" y="{y + 17:.1f}">{shown}</text>'
    if height > 30:
        yield f'<text class="meta" x="{x + 9:g}" y="{y + 34:.1f}">{_text(clip(said, 20))}</text>'
    yield (
        f'<path class="sign {look.style}" transform="translate({sign[0]:g} {sign[1]:.1f})" '
        f'd="{look.sign}"/></g>'
    )


def _edge_path(points: Sequence[tuple[float, float]], height: int) -> str:
    """Return the path of an edge: from the right of a box, around those between, to the left."""
    middle = height / 2
    x, y = points[0][0] + _NODE, points[0][1] + middle
    path = f"M{x:g} {y:.1f}"
    for at, (column, row) in enumerate(points[1:], 1):
        end, next_y = column - (2 if at == len(points) - 1 else 0), row + middle
        bend = (end - x) / 2
        path += f"C{x + bend:g} {y:.1f} {end - bend:g} {next_y:.1f} {end:g} {next_y:.1f}"
        x, y = end, next_y
        if at < len(points) - 1:
            x = column + _NODE
            path += f"H{x:g}"
    return path


# ------------------------------------------------------------ time

_LABEL, _AXIS, _ROW = 176, 760, 20


def gantt_svg(picture: FlowPicture) -> str:
    """Return what happened when as SVG: a row for each task, or for each node of many tasks."""
    nodes = picture.nodes
    rows = [[each for each in tasks if each in picture.times] for tasks in nodes.tasks()]
    order = [node for node, tasks in enumerate(rows) if tasks]
    order.sort(key=lambda node: (min(picture.times[each].began for each in rows[node]), node))
    end = max([picture.now or 0.0, *(times.ended for times in picture.times.values())])
    scale = _AXIS / (end or 1.0)
    bottom = _HEAD + 18 + len(order) * _ROW
    drawn = [*_GANTT_KEY, *_axis(end, scale, bottom)]
    critical = {nodes.of_task[each] for each in picture.critical}
    for row, node in enumerate(order):
        y = _HEAD + 16 + row * _ROW
        name = nodes.graph.names[node]
        bold = " b" if node in critical else ""
        drawn.append(
            f'<text class="mono{bold}" x="{_LABEL - 8}" y="{y + 11}" text-anchor="end">'
            f"{_text(_short(name, 21))}</text>"
        )
        drawn += _bars(picture, rows[node], y, scale, is_critical=node in critical)
    if picture.now is not None:
        x = _LABEL + picture.now * scale
        drawn.append(f'<path class="now" d="M{x:.1f} {_HEAD + 10}V{bottom}"/>')
        drawn.append(f'<text class="meta now-text" x="{x + 4:.1f}" y="{bottom + 12}">now</text>')
    said = f"{_title(picture)}, over {_seconds(end)}"
    return _svg(_LABEL + _AXIS + 120, bottom + 20, said, drawn)


def _bars(
    picture: FlowPicture, tasks: Sequence[int], y: float, scale: float, *, is_critical: bool
) -> Iterator[str]:
    """Yield the bars of a row: waited, failed attempts, ran; and what is still expected."""
    now, last, who = picture.now, 0.0, set[str]()
    spans: dict[str, list[tuple[float, float]]] = {}
    for number in tasks:
        times = picture.times[number]
        is_open = picture.status(number) in {"pending", "ready"}
        done = times.began if is_open else min(times.ended, now if now is not None else times.ended)
        failed = min(done, times.began + times.retried)
        ran = "waited" if picture.status(number) == "waiting" else "ran"
        ran = "failed" if picture.status(number) == "failed" else ran
        spans.setdefault("idle", []).append((times.ready, times.began))
        spans.setdefault("failed", []).append((times.began, failed))
        spans.setdefault(ran, []).append((failed, done))
        spans.setdefault("expected", []).append((done, times.ended))
        last = max(last, times.ended)
        who |= {times.worker} if times.worker else set()
    for kind, many in spans.items():
        style = f"bar {kind}{' heavy' if is_critical else ''}"
        for start, end in _union(many, 1 / scale):
            box = f'x="{_LABEL + start * scale:.1f}" width="{max(1.0, (end - start) * scale):.1f}"'
            said = f"<title>{kind} {_seconds(end - start)}</title>"
            box += f' y="{y + 5}" height="2"' if kind == "idle" else f' y="{y + 1}" height="11"'
            yield f'<rect class="{style}" {box} rx="2">{said}</rect>'
    if len(who) == 1:
        x, worker = _LABEL + last * scale + 6, who.pop()
        yield f'<text class="meta" x="{x:.1f}" y="{y + 11}">{_text(clip(worker, 18))}</text>'


def _union(spans: Iterable[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    """Return spans with at most a gap between them as one, without those that take no time."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(each for each in spans if each[1] > each[0]):
        if found and start <= found[-1][1] + gap:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _axis(end: float, scale: float, bottom: float) -> Iterator[str]:
    """Yield lines at round times, some eight of them."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
    small = [base * 10.0**power for power in range(-6, 0) for base in (1, 2, 5)]
    large = [86400.0 * 2**power for power in range(1, 20)]
    step = next((each for each in (*small, *steps, *large) if end / each <= 8), end or 1.0)
    for count in range(int(end / step) + 1):
        x = _LABEL + count * step * scale
        yield f'<path class="line" d="M{x:.1f} {_HEAD + 10}V{bottom}"/>'
        yield (
            f'<text class="meta" x="{x:.1f}" y="{_HEAD + 4}" text-anchor="middle">'
            f"{_clock(count * step, step)}</text>"
        )


# ------------------------------------------------------------ the page

_SAVES = (
    "A task would save what all would be shorter if it took no time; a wait, what one more slot "
    "would save."
)


def report_html(
    picture: FlowPicture,
    *,
    estimate: Estimate | None = None,
    bottlenecks: Sequence[Bottleneck] = (),
) -> str:
    """Return a page that needs nothing else: both pictures, what the end hangs on, all tasks."""
    counts = Counter(map(picture.status, range(len(picture.graph))))
    chips = "".join(
        f'<li class="{_LOOKS[status].style}">{_icon(status)}{counts[status]:,} {status}</li>'
        for status in _LOOKS
        if counts[status]
    )
    parts = [f'<header><h1>{_text(picture.title)}</h1><ul class="chips">{chips}</ul></header>']
    if estimate is not None:
        parts.append(
            f"<p>Ends in about <b>{_seconds(estimate.expected)}</b>; in 8 of 10 cases between "
            f"{_seconds(estimate.low)} and {_seconds(estimate.high)}.</p>"
        )
    if bottlenecks:
        rows = [
            (_text(each.name), each.cause, _seconds(each.seconds), _seconds(each.saves))
            for each in bottlenecks
        ]
        parts.append("<h2>What it hangs on</h2>")
        parts.append(_table(("task", "cause", "takes", "would save"), rows))
        parts.append(f"<p>{_SAVES}</p>")
    parts.append(f'<h2>Graph</h2><div class="wide">{graph_svg(picture)}</div>')
    if picture.times:
        parts.append(f'<h2>Time</h2><div class="wide">{gantt_svg(picture)}</div>')
    parts += ["<h2>Tasks</h2>", _table(("task", "status", "seconds", "worker"), _rows(picture))]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(picture.title)}</title><style>{_PAGE_STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _rows(picture: FlowPicture) -> Iterator[Sequence[str]]:
    """Yield the row of each task, or of each node of many."""
    for node, tasks in enumerate(picture.nodes.tasks()):
        name, said, look = _described(picture, node, tasks)
        who = sorted({picture.times[each].worker for each in tasks if each in picture.times})
        took = sum(picture.seconds[each] for each in tasks) if picture.seconds else 0.0
        status = picture.status(tasks[0]) if len(tasks) == 1 else said
        yield (
            f'<span class="{"b" if picture.critical & {*tasks} else ""}">{_text(name)}</span>',
            f'<span class="{look.style}">{_text(status)}</span>',
            f"{took:.3f}" if picture.seconds else "",
            _text(clip(", ".join(filter(None, who)), 60)),
        )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its cells are HTML already."""
    head = "".join(f"<th>{each}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _icon(status: str) -> str:
    look = _LOOKS[status]
    return (
        f'<svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">'
        f'<path class="sign {look.style}" d="{look.sign}"/></svg>'
    )


# ------------------------------------------------------------ what is drawn


def _folded(picture: FlowPicture) -> _Nodes:
    """Return nodes of all tasks of a function with no other function between them.

    The height of a task is how often the function changes on the way to it. Whatever leads from
    one node to another leads to a greater height, so it never leads back. Nor does what is left
    over if there are too many nodes: those of the greatest heights, as one.
    """
    graph = picture.graph
    functions = picture.functions or [_ID.sub("", name) or name for name in graph.names]
    heights = [0] * len(graph)
    for number in graph.order:
        changes = [heights[a] + (functions[a] != functions[number]) for a in graph.before[number]]
        heights[number] = max(changes, default=0)
    groups = dict.fromkeys((heights[number], functions[number]) for number in graph.order)
    keys = {key: at for at, key in enumerate(sorted(groups, key=lambda key: key[0]))}
    of_task = [min(keys[key], MOST_DRAWN - 1) for key in zip(heights, functions, strict=True)]
    labels = [function for _, function in keys][: MOST_DRAWN - 1]
    labels += ["all others"] if len(keys) >= MOST_DRAWN else []
    names = _unique_names(labels, Counter(of_task))
    before: list[set[int]] = [set() for _ in names]
    for number, many in enumerate(graph.before):
        before[of_task[number]] |= {of_task[each] for each in many} - {of_task[number]}
    waits = [[names[each] for each in sorted(many)] for many in before]
    return _Nodes(of_task, TaskGraph(dict(zip(names, waits, strict=True))))


def _unique_names(labels: Sequence[str], counts: Mapping[int, int]) -> list[str]:
    """Return a name for each node, with the count of its tasks."""
    found: dict[str, None] = {}
    for node, label in enumerate(labels):
        name = f"{clip(label, 100)}{_TIMES}{counts[node]}" if counts[node] > 1 else label
        while name in found:
            name += f" ({node})"
        found[name] = None
    return [*found]


def _described(picture: FlowPicture, node: int, tasks: Sequence[int]) -> tuple[str, str, _Look]:
    """Return the name of a node, what is said of it, and how it looks."""
    counts = Counter(map(picture.status, tasks))
    first = next((status for status in _LOOKS if counts[status]), "pending")
    took = sum(picture.seconds[each] for each in tasks) if picture.seconds else None
    about = "about " if first in {"pending", "ready"} else ""
    if len(tasks) == 1:
        said = first if took is None else f"{first}, {about}{_seconds(took)}"
    else:
        said = ", ".join(f"{counts[each]} {each}" for each in _LOOKS if counts[each])
    return picture.nodes.graph.names[node], said, _LOOKS[first]


def _edges(graph: TaskGraph) -> list[Edge]:
    return [(one, two) for two, many in enumerate(graph.before) for one in many]


def _heavy(picture: FlowPicture) -> frozenset[Edge]:
    """Return the edges of the critical path."""
    nodes = picture.nodes
    path = [nodes.of_task[each] for each in picture.graph.order if each in picture.critical]
    return frozenset(edge for edge in pairwise(path) if edge[0] != edge[1])


def _title(picture: FlowPicture) -> str:
    counts = Counter(map(picture.status, range(len(picture.graph))))
    said = ", ".join(f"{counts[each]} {each}" for each in _LOOKS if counts[each])
    return f"{picture.title}: {len(picture.graph)} tasks, {said}"


# ------------------------------------------------------------ texts and styles


def _visible(text: str) -> str:
    return printable(text).encode("utf-8", "backslashreplace").decode()


def _text(text: str) -> str:
    """Return a text for SVG and HTML."""
    return escape(_visible(text), quote=True)


def _short(name: str, limit: int) -> str:
    """Return a name of at most so many signs, cut in the middle: its end tells it from others."""
    shown = _visible(name)
    return shown if len(shown) <= limit else f"{clip(shown, limit - _END)}{shown[-_END:]}"


def _seconds(seconds: float) -> str:
    """Return a duration in the unit that suits it."""
    if seconds >= 3600:
        return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"
    if seconds >= 100:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    if seconds >= 0.1 or not seconds:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.3g} us"


def _clock(seconds: float, step: float) -> str:
    """Return a time of the axis as a clock shows it, or in small units."""
    if step < 1:
        return _seconds(seconds)
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


_LIGHT = {
    "bg": "#f7f7f4", "surface": "#ffffff", "line": "#e4e4df", "ctl": "#868b86", "off": "#d0d0c9",
    "ink": "#161a18", "ink2": "#4b524e", "ink3": "#636965", "accent": "#0a6a66",
    "accentbg": "#e1f0ee", "warn": "#7a5500", "warnbg": "#fbf1d6", "bad": "#b0172a",
    "badbg": "#fdeaea",
}  # fmt: skip
_DARK = {
    "bg": "#0f1211", "surface": "#161a19", "line": "#262c2a", "ctl": "#6f7975", "off": "#39413e",
    "ink": "#e9edeb", "ink2": "#b0b8b4", "ink3": "#929b97", "accent": "#55c7bb",
    "accentbg": "#11302d", "warn": "#e8c05a", "warnbg": "#2f2609", "bad": "#ff9195",
    "badbg": "#3a1418",
}  # fmt: skip

_COLOURS = Template("""
.ground{fill:$surface}.mono,.meta{fill:$ink}.meta{fill:$ink3}
.edge{stroke:$ctl}.edge.heavy{stroke:$ink}.tip{fill:$ctl}.tip.heavy{fill:$ink}.line{stroke:$line}
.box{fill:$surface;stroke:$ctl}.box.todo,.box.off{fill:$bg}.box.off{stroke:$off}
.box.live{fill:$accentbg;stroke:$accent}.box.warn{fill:$warnbg;stroke:$warn}
.box.bad{fill:$badbg;stroke:$bad}.box.fine.heavy,.box.todo.heavy{stroke:$ink}
.sign{stroke:$ink2}.sign.live{stroke:$accent}.sign.warn{stroke:$warn}.sign.bad{stroke:$bad}
.bar.ran{fill:$ctl}.bar.ran.heavy{fill:$ink}.bar.idle{fill:$off}
.bar.failed{stroke:$bad}.bar.waited{stroke:$warn}.bar.expected{stroke:$ctl}
.bar.expected.heavy{stroke:$ink}.hatch-bad{fill:$bad}.hatch-warn{fill:$warn}
.now{stroke:$accent}.now-text{fill:$accent}
""")
_SHAPES = """
.mono{font:12px ui-monospace,"Geist Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
.meta{font:11px "Geist",system-ui,-apple-system,"Segoe UI","Noto Sans",sans-serif}
.mono.b{font-weight:600}.edge,.line,.now{fill:none}.edge.heavy{stroke-width:2.5}
.box.heavy{stroke-width:2.5}.box.todo{stroke-dasharray:4 3}.box.off{stroke-dasharray:1 3}
.sign{fill:none;stroke-width:1.5;stroke-linecap:round;stroke-linejoin:round}
.bar.failed{fill:url(#hatch-bad)}.bar.waited{fill:url(#hatch-warn)}
.bar.expected{fill:none;stroke-dasharray:3 2}.now{stroke-width:1.5}
"""
_DEFINITIONS = (
    "<defs>"
    + "".join(
        f'<marker id="{id}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="{size}" '
        f'markerHeight="{size}" orient="auto"><path class="{style}" d="M0 0 8 4 0 8z"/></marker>'
        for id, style, size in (("tip", "tip", 7), ("tip-heavy", "tip heavy", 5))
    )
    + "".join(
        f'<pattern id="{id}" width="5" height="5" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect class="{id}" width="2" height="5"/></pattern>'
        for id in ("hatch-bad", "hatch-warn")
    )
    + "</defs>"
)
_KEY = [
    '<path class="edge heavy" d="M16 19h20"/><text class="meta" x="42" y="23">critical path</text>',
    '<path class="edge" d="M126 19h20"/><text class="meta" x="152" y="23">has time to spare</text>',
    '<rect class="box todo" x="262" y="13" width="20" height="12" rx="3"/>',
    '<text class="meta" x="288" y="23">not begun</text>',
]
_GANTT_KEY = [
    f'<rect class="bar {style}" x="{x}" y="{y}" width="20" height="{height}" rx="2"/>'
    f'<text class="meta" x="{x + 26}" y="17">{said}</text>'
    for style, x, y, height, said in (
        ("idle", 16, 12, 2, "waited to begin"),
        ("failed", 142, 8, 11, "failed attempts"),
        ("ran", 262, 8, 11, "ran"),
        ("ran heavy", 322, 8, 11, "ran, critical path"),
        ("waited", 452, 8, 11, "waits for an answer"),
        ("expected", 598, 8, 11, "expected"),
    )
]


def _style(colours: Template, rest: str) -> str:
    """Return a style sheet with the colours of both themes."""
    dark = f"@media (prefers-color-scheme:dark){{{colours.substitute(_DARK)}}}"
    return f"{rest}{colours.substitute(_LIGHT)}{dark}".replace("\n", "")


_SVG_STYLE = _style(_COLOURS, _SHAPES)
_PAGE_STYLE = _style(
    Template("""
:root{color-scheme:light dark}body{background:$bg;color:$ink}.wide{background:$surface;
border-color:$line}th,td{border-color:$line}th{color:$ink3}.chips li{border-color:$ctl}
.live{color:$accent}.warn{color:$warn}.bad{color:$bad}.off,.todo{color:$ink3}
"""),
    """
body{margin:0;font:14px/20px "Geist",system-ui,-apple-system,"Segoe UI","Noto Sans",sans-serif}
main{max-width:1280px;margin:0 auto;padding:24px 16px}h1{font-size:20px;margin:0;
overflow-wrap:anywhere}h2{font-size:15px;margin:24px 0 8px}
.chips{display:flex;flex-wrap:wrap;gap:8px;list-style:none;margin:12px 0 0;padding:0}
.chips li{border:1px solid;border-radius:4px;padding:2px 8px;display:flex;gap:6px;
align-items:center}.wide{overflow:auto;border:1px solid;border-radius:6px}
.wide svg{display:block}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:6px 12px;border-bottom:1px solid;font-weight:400}
tr:last-child td{border-bottom:0}.b{font-weight:600}
""",
)


def _svg(width: float, height: float, said: str, drawn: Iterable[str]) -> str:
    """Return an SVG document; `said` is what it shows, for who cannot see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{_text(said)}">'
        f"<style>{_SVG_STYLE}</style>{_DEFINITIONS}"
        f'<rect class="ground" width="100%" height="100%"/>{"".join(drawn)}</svg>\n'
    )
