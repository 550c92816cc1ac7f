"""The documents hold together: links lead somewhere, nothing is left out, words mean one thing."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import otolith
from otolith import care, errors
from otolith.agent import Agent, AgentState, Orchestrator
from otolith.conversation import Context, Conversation, Message
from otolith.core import Change, Commit, Merge, PathConflict
from otolith.core.handles import (
    BlobHandle,
    CounterHandle,
    ListHandle,
    MapHandle,
    SetHandle,
)
from otolith.memory import Memory
from otolith.session_snapshot import SessionSnapshot
from otolith.state import EventLog, Frame
from otolith.statecharts import Chart, ChartSnapshot, Machine
from tests.house.source import ROOT

DOCS = ROOT / "docs"
SITE = sorted(DOCS.rglob("*.md"))
ALL = [*sorted(ROOT.glob("*.md")), *SITE]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
API = (DOCS / "reference/api.md").read_text()
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))

# What the page describes, and under which heading.
CLASSES = [
    (otolith.Repo, "Repo"),
    (otolith.Versioned, "Versioned"),
    (SessionSnapshot, "Versioned"),
    (otolith.Event, "Event"),
    (EventLog, "EventLog"),
    (otolith.Live, "Live"),
    (otolith.Workspace, "Workspace"),
    (Chart, "Chart"),
    (Machine, "Machine"),
    (ChartSnapshot, "The snapshot of a chart"),
    (Conversation, "Conversation"),
    (Message, "Message"),
    (Context, "Context"),
    (Memory, "Working memory"),
    (Agent, "Agent"),
    (Orchestrator, "Orchestrator"),
    (AgentState, "AgentState"),
    (Frame, "Frame"),
    (ListHandle, "ListHandle"),
    (MapHandle, "MapHandle"),
    (SetHandle, "SetHandle"),
    (CounterHandle, "CounterHandle"),
    (BlobHandle, "BlobHandle"),
    (Commit, "Commit"),
    (Change, "Change"),
    (PathConflict, "PathConflict"),
    (Merge, "Merge"),
    (otolith.Codecs, "Codecs"),
]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _prose(page: Path) -> str:
    return FENCED.sub("", page.read_text())


# ---------------------------------------------------------------- tables and links


@pytest.mark.parametrize("page", ALL, ids=_name)
def test_every_column_of_a_table_has_a_header(page):
    headers = re.findall(r"^\|(.*)\|\n\|[ :|-]+\|$", _prose(page), re.MULTILINE)

    assert [row for row in headers if not all(cell.strip() for cell in row.split("|"))] == []


@pytest.mark.parametrize("page", ALL, ids=_name)
def test_every_link_leads_somewhere(page):
    assert [link for link in LINK.findall(_prose(page)) if not _leads(page, link)] == []


def _leads(page: Path, link: str) -> bool:
    if link.startswith(("https://", "mailto:")):
        return True
    place, _, anchor = link.partition("#")
    target = (page.parent / place).resolve() if place else page
    if not target.exists():
        return False
    return not anchor or anchor in set(_anchors(target))


def _anchors(page: Path) -> Iterator[str]:
    for heading in re.findall(r"^#+ (.*)$", _prose(page), re.MULTILINE):
        words = re.sub(r"[^\w\s-]", "", heading.lower())
        yield re.sub(r"[\s]+", "-", words.strip())


@pytest.mark.parametrize("page", SITE, ids=_name)
def test_a_page_of_the_site_links_only_into_the_site(page):
    links = [link.partition("#")[0] for link in LINK.findall(_prose(page)) if "://" not in link]
    places = [(page.parent / link).resolve() for link in links if link]

    assert [place for place in places if DOCS not in place.parents] == []


def test_every_page_is_in_the_navigation():
    settings = tomllib.loads((ROOT / "zensical.toml").read_text())
    listed = list(_pages(settings["project"]["nav"]))

    assert sorted(listed) == [str(page.relative_to(DOCS)) for page in SITE]


def _pages(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from _pages(part)


# ---------------------------------------------------------------- decisions and words


def test_decisions_are_numbered_once_and_in_order():
    numbers = [int(page.name[:4]) for page in DECISIONS]

    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("page", DECISIONS, ids=_name)
def test_a_decision_says_why_and_what_follows_on_one_page(page):
    text = page.read_text()

    assert text.startswith(f"# {int(page.name[:4])}. ")
    assert all(f"**{part}" in text for part in ("Context", "Options", "Decision", "Consequences"))
    assert len(text.split()) < 500


def _glossary() -> list[str]:
    rows = re.findall(r"^\| (\*\*.*?) \|", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    return [word for row in rows for word in re.findall(r"\*\*(.*?)\*\*", row)]


def test_the_glossary_is_in_order_and_names_each_word_once():
    words = _glossary()

    assert len(words) == len(set(words)) > 30
    assert words == sorted(words, key=str.lower)


@pytest.mark.parametrize("word", _glossary())
def test_a_word_of_the_glossary_is_used(word):
    elsewhere = " ".join(_prose(page) for page in SITE if page.name != "glossary.md")

    assert re.search(rf"\b{word}", elsewhere, re.IGNORECASE)


# ---------------------------------------------------------------- the reference


def _section(heading: str) -> str:
    return re.split(rf"^#+ {heading}$", API, flags=re.MULTILINE)[1]


def _shown(function: Any) -> str:
    """Return a signature as the page shows it: without types, and without self."""
    given = inspect.signature(function).parameters.values()
    bare = [each.replace(annotation=each.empty) for each in given if each.name != "self"]
    text = str(inspect.Signature(bare)).replace("=Ellipsis", "=...")
    return re.sub(r"<class '(\w+)'>", r"\1", text)


def _members(kind: type) -> Iterator[str]:
    """Yield the public names that are ours, as the page shows them."""
    for name in dir(kind):
        owner = next((each for each in kind.__mro__ if name in vars(each)), object)
        if name.startswith("_") or not owner.__module__.startswith("otolith"):
            continue
        found = inspect.getattr_static(kind, name)
        yield name + _shown(found) if inspect.isfunction(found) else name


PLUMBING = {
    *("adopt_policy", "cell_at", "cells", "extend_cell", "extend_reserved", "lock", "path"),
    *("write_cell", "write_reserved", "draft", "stage_merge", "carry"),
}
"""What handles and rooms use of a state; users do not."""


@pytest.mark.parametrize("name", otolith.__all__)
def test_every_name_of_the_front_door_is_in_the_reference(name):
    assert re.search(rf"`(otolith\.)?{name}[`(]", API) or f"\n## {name}\n" in API


@pytest.mark.parametrize(("kind", "heading"), CLASSES, ids=str)
def test_every_public_method_is_in_the_reference_as_it_is_called(kind, heading):
    section = _section(heading)
    listed = [each for each in _members(kind) if each.partition("(")[0] not in PLUMBING]

    assert [each for each in listed if f"`{each}`" not in section] == []


FUNCTIONS = [otolith.open, otolith.events, otolith.view, care.verify, care.prune]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_public_function_is_in_the_reference_as_it_is_called(function):
    assert f"{function.__name__}{_shown(function)}`" in API


def test_every_kind_of_error_is_in_the_reference():
    page = (DOCS / "reference/errors.md").read_text()
    kinds = [
        (name, found.kind)
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, errors.Error)
    ]

    assert [kind for kind in kinds if f"| `{kind[0]}` | `{kind[1]}` |" not in page] == []


def test_every_argument_of_open_is_in_the_settings():
    page = (DOCS / "reference/settings.md").read_text()

    arguments = inspect.signature(otolith.open).parameters

    assert [name for name in arguments if f"| `{name}` |" not in page] == []


README = (ROOT / "README.md").read_text()


def test_the_front_page_is_short():
    assert README.count("\n") <= 120
    assert len(README.encode()) <= 6000


def test_figures_of_the_front_page_are_those_of_the_page_on_performance():
    table = README.split("## How it compares")[1].split("Printed by")[0]
    figures = re.findall(r"[\d.]+ (?:B|KB|MB|us|ms)\b|[\d.]+x", table)
    performance = (DOCS / "explanation/performance.md").read_text()

    assert len(figures) >= 10
    assert [figure for figure in figures if figure not in performance] == []


def test_measurements_are_on_one_page_only():
    marked = [_name(page) for page in ALL if "<!-- bench:" in page.read_text()]
    assert marked == ["docs/explanation/performance.md"]
