"""`chart`: statecharts in files, checked, played, drawn and turned into other formats."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from otolith.cli.format.charts import (
    finding_json,
    finding_lines,
    machine_json,
    machine_lines,
    path_json,
    path_lines,
    run_json,
    run_lines,
)
from otolith.cli.location import at_hand
from otolith.cli.options import GlobalOptions
from otolith.cli.terminal import emit, json_option, page
from otolith.errors import Invalid
from otolith.statecharts import Chart, Item, StoredMachine, machines_in

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_WAITED = re.compile(r"\+(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@click.group("chart")
def chart() -> None:
    """Check, play, draw and convert statecharts.

    FILE is XState JSON (or YAML), or SCXML.
    """


@chart.command("validate")
@click.argument("file", type=_FILE)
@click.option("--strict", is_flag=True, help="Leave with 1 for warnings as well.")
@json_option
@click.pass_context
def validate(ctx: click.Context, file: Path, *, strict: bool, as_json: bool) -> None:
    """Say what is wrong with a chart, or likely not meant; leave with 1 if something is wrong."""
    read = Chart.load(file)
    found = read.check()
    bad = {"error", "warning"} if strict else {"error"}
    if as_json:
        emit({"chart": read.name, "hash": read.hash, "findings": list(map(finding_json, found))})
    else:
        page(finding_lines(read, found), ctx.obj)
    ctx.exit(int(any(each.severity in bad for each in found)))


@chart.command("simulate")
@click.argument("file", type=_FILE)
@click.argument("events", nargs=-1)
@click.option("--data", metavar="JSON", help="What the chart begins with.")
@json_option
@click.pass_context
def simulate(
    ctx: click.Context, file: Path, events: tuple[str, ...], *, data: str | None, as_json: bool
) -> None:
    """Play EVENTS on a chart, with a virtual clock; nothing outside is done.

    An event is its name, or NAME:JSON with data; +30s lets time pass (ms, s, m, h). The exit code
    is 1 if the chart does not take one of them.
    """
    run = Chart.load(file).simulate(map(_item, events), data=_parsed(data))
    if as_json:
        emit(run_json(run))
    else:
        page(run_lines(run), ctx.obj)
    ctx.exit(int(not run.is_accepted))


@chart.command("paths")
@click.argument("file", type=_FILE)
@click.option("--to", metavar="STATE", help="Only to where this state is active.")
@click.option("--all", "simple", is_flag=True, help="All simple paths, not only the shortest.")
@click.option("--limit", default=1000, show_default=True, help="No more than so many.")
@click.option("--event", "events", multiple=True, metavar="EVENT", help="Only these; NAME:JSON.")
@click.option("--tests", is_flag=True, help="Write them as a file of pytest.")
@json_option
@click.pass_obj
def paths(
    asked: GlobalOptions,
    file: Path,
    *,
    to: str | None,
    simple: bool,
    limit: int,
    events: tuple[str, ...],
    tests: bool,
    as_json: bool,
) -> None:
    """List the events that lead to each state of a chart; every path really replays."""
    read = Chart.load(file)
    script = list(map(_item, events)) or None
    found = read.paths(to, simple=simple, events=script, limit=limit)
    if tests:
        click.echo(read.test_source(found, chart=str(file)), nl=False)
    elif as_json:
        emit({"paths": list(map(path_json, found)), "limits": list(found.limits)})
    else:
        page(path_lines(found), asked)


@chart.command("render")
@click.argument("file", type=_FILE)
@click.option(
    "--as", "form", type=click.Choice(["mermaid", "dot"]), default="mermaid", show_default=True
)
@click.option("--machine", metavar="NAME", help="Mark where this machine of the session is.")
@click.pass_obj
def render(asked: GlobalOptions, file: Path, *, form: str, machine: str | None) -> None:
    """Draw a chart, as text for Mermaid or Graphviz."""
    read = Chart.load(file)
    active: tuple[str, ...] = ()
    if machine is not None:
        with at_hand(asked, read_only=True) as desk:
            active = _machine(machines_in(desk.branch), machine).snapshot.configuration
    text = read.to_mermaid(active) if form == "mermaid" else read.to_dot(active)
    click.echo(text.rstrip("\n"))


@chart.command("export")
@click.argument("file", type=_FILE)
@click.option("--to", "form", type=click.Choice(["xstate", "scxml"]), required=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file.")
def export(file: Path, *, form: str, output: Path | None) -> None:
    """Turn a chart into another format; it does the same in both."""
    read = Chart.load(file)
    text = read.to_scxml() if form == "scxml" else json.dumps(read.to_xstate(), indent=2) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    output.write_text(text, encoding="utf-8")
    click.echo(f"Wrote {output}")


@chart.command("ls")
@click.option("--at", "ref", default="@", metavar="REF", help="As of this commit.")
@json_option
@click.pass_obj
def machines(asked: GlobalOptions, ref: str, *, as_json: bool) -> None:
    """List the machines of the session: where each is, and what waits."""
    with at_hand(asked, read_only=True) as desk:
        found = machines_in(desk.repo.at(desk.commit(ref)))
    if as_json:
        emit({"machines": {name: machine_json(each) for name, each in found.items()}})
    else:
        page(machine_lines(found), asked)


def _machine(found: Mapping[str, StoredMachine], name: str) -> StoredMachine:
    if name not in found:
        known = ", ".join(found) or "none"
        raise Invalid(f"there is no machine {name!r}", hint=f"the session has {known}")
    return found[name]


def _parsed(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        data = json.loads(text)
    except ValueError as error:
        raise Invalid(f"--data is not JSON: {error}", hint="""write --data '{"n": 1}'""") from None
    if not isinstance(data, dict):
        raise Invalid("--data is not an object", hint="""write --data '{"n": 1}'""")
    return data


def _item(text: str) -> Item:
    """Return what a word of a script says: NAME, NAME:JSON, or +30s.

    Raises:
        Invalid: it says none of these.
    """
    waited = _WAITED.fullmatch(text)
    if waited:
        return "after", float(waited[1]) * _SECONDS[waited[2]]
    name, colon, data = text.partition(":")
    if not colon:
        return name
    try:
        return name, json.loads(data)
    except ValueError as error:
        raise Invalid(f"{text}: {error}", hint=f"""write {name}:'{{"key": 1}}'""") from None
