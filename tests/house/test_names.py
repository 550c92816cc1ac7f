"""Names of files and classes say what a thing is, and each is used once."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

import pytest

from tests.house.source import PACKAGE, exceptions, modules

# Nouns and adjectives of the field that happen to end like a gerund or a participle.
FINE_FILES = {"encoding", "opening", "ranking", "testing"}
FINE_CLASSES = {
    "Encoding",  # the noun
    "Finding",  # what a check reports
    "Mapping",  # as in collections.abc, and a mapping of memory
    "Reasoning",  # what providers call a model's thoughts
    "Setting",  # the noun
    "Tagged",  # data with a tag: a form of value, as in "tagged union"
    "Versioned",  # the name the seeds give it
}
PARTICIPLE = re.compile(r"(?:ing|ed)$")
ONE_WORD = re.compile(r"_*[A-Z][a-z]+")  # `Started` is a riddle, `WorkerStarted` names an event


def test_no_file_is_named_by_a_gerund_or_participle():
    found = {m.name for m in modules() if PARTICIPLE.search(m.name.rpartition(".")[2])}

    assert {name for name in found if name.rpartition(".")[2] not in FINE_FILES} == set()


def test_no_class_is_named_by_a_bare_gerund_or_participle():
    found = {
        f"{module.name}.{node.name}"
        for module in modules()
        if module.name != "otolith.errors"  # an error is named for what happened: Closed, Fenced
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
        if PARTICIPLE.search(node.name) and ONE_WORD.fullmatch(node.name)
    }

    assert {name for name in found if name.rpartition(".")[2].strip("_") not in FINE_CLASSES} == (
        set(exceptions("participle"))
    )


def test_a_public_class_name_is_used_once():
    homes = defaultdict(list)
    public = [
        (node.name, module.name)
        for module in modules()
        if not module.name.startswith("otolith.aio")  # mirrors the names on purpose
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    for name, home in public:
        homes[name].append(home)

    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_files_of_two_rooms_share_a_name_only_for_the_same_kind_of_thing():
    rooms = defaultdict(set)
    for module in modules():
        parts = module.path.relative_to(PACKAGE).parts
        if len(parts) > 1 and not module.is_door and module.path.stem != "__main__":
            rooms[module.path.stem].add(parts[0])

    shared = {stem for stem, found in rooms.items() if len(found) > 1}
    assert shared == set(exceptions("shared_file_name"))


@pytest.mark.parametrize("kind", ["participle", "shared_file_name"])
def test_every_listed_name_says_why(kind):
    assert [name for name, entry in exceptions(kind).items() if not entry["reason"]] == []
