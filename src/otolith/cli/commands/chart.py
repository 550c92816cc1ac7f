"""`chart`: check, simulate, draw and convert statecharts in files.

These commands read files and need no store, except for `ls` and `render --machine`, which read the
machines of the session. A simulation has no effects, and its clock is virtual. Documents run no
code; `FILE.py:NAME` imports the user's own file, so that the guards and actions in it are asked.
Exit codes: `validate` 1 for errors of the chart, `simulate` 1 if the chart refuses an event.
"""

from __future__ import annotations

import json
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
from otolith.cli.location import open_current
from otolith.cli.options import GlobalOptions, at_option, json_option
from otolith.cli.run.user_code import CODE_NAME, load_chart
from otolith.cli.terminal import output, pick
from otolith.errors import Invalid
from otolith.statecharts import ScriptItem, machines_in

_DOCUMENT = click.Path(exists=True, dir_okay=False)


def _check_file(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the argument FILE, a document or FILE.py:NAME; fail if there is no such file."""
    code = CODE_NAME.fullmatch(value)
    _DOCUMENT.convert(code[1] if code else value, param, ctx)
    return value


file_argument = click.argument("file", callback=_check_file)


@click.group("chart")
def chart() -> None:
    """Check, simulate, draw and convert statecharts.

    FILE is XState JSON (or YAML), or SCXML; or FILE.py:NAME, a chart in a Python file of yours,
    which is imported.
    """


@chart.command("validate")
@file_argument
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
@json_option
@click.pass_context
def validate(ctx: click.Context, file: str, *, strict: bool) -> None:
    """Check a chart for errors and likely mistakes. Exits with 1 if there is an error."""
    read = load_chart(file)
    found = read.check()
    bad = {"error", "warning"} if strict else {"error"}
    data = {"chart": read.name, "hash": read.hash, "findings": [*map(finding_json, found)]}
    output(ctx.obj, lambda: data, finding_lines(read, found))
    ctx.exit(int(any(each.severity in bad for each in found)))


@chart.command("simulate")
@file_argument
@click.argument("events", nargs=-1)
@click.option("--data", metavar="JSON", help="The initial data of the chart.")
@json_option
@click.pass_context
def simulate(ctx: click.Context, file: str, events: tuple[str, ...], *, data: str | None) -> None:
    """Send EVENTS to a chart, with a virtual clock and without effects.

    An event is its name, or NAME:JSON with data; +30s lets time pass (us, ms, s, m, h, d). Exits
    with 1 if the chart refuses one of them.
    """
    run = load_chart(file).simulate(map(_item, events), data=_parse_data(data))
    output(ctx.obj, lambda: run_json(run), run_lines(run))
    ctx.exit(int(not run.is_accepted))


@chart.command("paths")
@file_argument
@click.option("--to", metavar="STATE", help="Only paths to this state.")
@click.option("--all", "simple", is_flag=True, help="All simple paths, not only the shortest.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=1000, show_default=True, help="At most so many."
)
@click.option("--event", "events", multiple=True, metavar="EVENT", help="Only these; NAME:JSON.")
@click.option("--tests", is_flag=True, help="Print them as a pytest file.")
@json_option
@click.pass_obj
def paths(
    options: GlobalOptions,
    file: str,
    *,
    to: str | None,
    simple: bool,
    limit: int,
    events: tuple[str, ...],
    tests: bool,
) -> None:
    """List the events that lead to each state of a chart; every path has been replayed.

    Events that failed, and states that were never reached, are listed after them.
    """
    read = load_chart(file)
    script = list(map(_item, events)) or None
    found = read.paths(to, simple=simple, events=script, limit=limit)
    if tests:
        click.echo(read.test_source(found, chart=_importable(file)), nl=False)
        return
    data = {
        "paths": [*map(path_json, found)],
        "limits": found.limits,
        "problems": [pick(each, "phase", "event", "message") for each in found.problems],
        "unreached": found.unreached,
    }
    output(options, lambda: data, path_lines(found))


@chart.command("render")
@file_argument
@click.option(
    "--as", "form", type=click.Choice(["mermaid", "dot"]), default="mermaid", show_default=True
)
@click.option("--machine", metavar="NAME", help="Highlight the current state of this machine.")
@click.pass_obj
def render(options: GlobalOptions, file: str, *, form: str, machine: str | None) -> None:
    """Print a chart as Mermaid or Graphviz text."""
    read = load_chart(file)
    active: tuple[str, ...] = ()
    if machine is not None:
        with open_current(options, read_only=True) as current:
            found = machines_in(current.branch)
            if machine not in found:
                known = ", ".join(found) or "none"
                raise Invalid(f"there is no machine {machine!r}", hint=f"the session has {known}")
            active = found[machine].snapshot.configuration
    text = read.to_mermaid(active) if form == "mermaid" else read.to_dot(active)
    click.echo(text.rstrip("\n"))


@chart.command("export")
@file_argument
@click.option("--to", "form", type=click.Choice(["xstate", "scxml"]), required=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file.")
def export(file: str, *, form: str, output: Path | None) -> None:
    """Convert a chart to another format with the same behaviour."""
    read = load_chart(file)
    text = read.to_scxml() if form == "scxml" else json.dumps(read.to_xstate(), indent=2) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    output.write_text(text, encoding="utf-8")
    click.echo(f"Wrote {output}")


@chart.command("ls")
@at_option
@json_option
@click.pass_obj
def machines(options: GlobalOptions, ref: str) -> None:
    """List the machines of the session: their states, timers and waiting effects."""
    with open_current(options, read_only=True) as current:
        found = machines_in(current.at(ref))
    data = {name: machine_json(each) for name, each in found.items()}
    output(options, lambda: {"machines": data}, machine_lines(found))


def _parse_data(text: str | None) -> dict[str, Any] | None:
    """Return the initial data of a chart; None leaves it to the chart.

    Raises:
        Invalid: the text is not a JSON object.
    """
    if text is None:
        return None
    try:
        data = json.loads(text)
    except ValueError as error:
        raise Invalid(f"--data is not JSON: {error}", hint="""write --data '{"n": 1}'""") from None
    if not isinstance(data, dict):
        raise Invalid("--data is not an object", hint="""write --data '{"n": 1}'""")
    return data


def _importable(file: str) -> str:
    """Return how a generated test finds a chart: by its document, or as `package.module:NAME`."""
    code = CODE_NAME.fullmatch(file)
    if code is None:
        return file
    parts = Path(code[1]).with_suffix("").parts
    return f"{'.'.join(parts)}:{code[2]}"


def _item(text: str) -> ScriptItem:
    """Return the event that NAME or NAME:JSON means; a time such as +30s stays what it is.

    Raises:
        Invalid: the data is not JSON.
    """
    name, colon, data = text.partition(":")
    if not colon:
        return name
    try:
        return name, json.loads(data)
    except ValueError as error:
        raise Invalid(f"{text}: {error}", hint=f"""write {name}:'{{"key": 1}}'""") from None
