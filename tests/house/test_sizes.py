"""A file fits in the head and a function on a screen."""

from __future__ import annotations

from tests.house.source import code_lines, exceptions, modules

FILE_LINES = 700
FUNCTION_LINES = 50


def test_no_file_is_longer_than_the_limit():
    sizes = {module.name: module.lines for module in modules()}

    assert _too_long(sizes, FILE_LINES, exceptions("file")) == {}


def test_no_function_is_longer_than_a_screen():
    sizes = {name: code_lines(function) for m in modules() for name, function in m.functions()}

    assert _too_long(sizes, FUNCTION_LINES, exceptions("function")) == {}


def test_every_exception_is_still_needed_and_says_why():
    files = {module.name: module.lines for module in modules()}
    functions = {name: code_lines(node) for m in modules() for name, node in m.functions()}

    for name, entry in exceptions("file").items():
        assert files.get(name, 0) > FILE_LINES, f"{name} is short enough now: remove its entry"
        assert entry["reason"]
    for name, entry in exceptions("function").items():
        assert functions.get(name, 0) > FUNCTION_LINES, f"{name} is short now: remove its entry"
        assert entry["reason"]


def _too_long(sizes, limit, allowed):
    ceiling = {name: entry["lines"] for name, entry in allowed.items()}
    return {name: lines for name, lines in sizes.items() if lines > ceiling.get(name, limit)}
