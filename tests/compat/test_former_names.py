"""Every name that a store of before may hold leads to something that is there today."""

from __future__ import annotations

import importlib
import importlib.util

import pytest

from otolith.former_names import name_tables, today

TABLES = name_tables()


@pytest.mark.parametrize("old", TABLES["modules"])
def test_a_module_that_moved_is_gone_and_its_new_place_is_there(old):
    assert not _is_module(old) or old in TABLES["modules"].values()
    assert _is_module(today(f"{old}:x").partition(":")[0])


NEW_NAMES = sorted({*TABLES["names"].values(), *TABLES["renamed"].values()})


@pytest.mark.parametrize("new", NEW_NAMES)
def test_a_name_that_changed_leads_to_something(new):
    module, _, name = new.partition(":")

    assert hasattr(importlib.import_module(module), name)


def test_parts_of_a_class_follow_it():
    assert (
        today("otolith.agent.loop.working:Working.a.b") == "otolith.agent.state:WorkingMemory.a.b"
    )


def test_names_that_are_not_ours_stay():
    assert today("collections:OrderedDict") == "collections:OrderedDict"


def _is_module(name: str) -> bool:
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return False
    return found is not None and found.origin is not None  # a folder without files is no module
