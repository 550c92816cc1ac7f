"""Notebooks and scripts as cells."""

from __future__ import annotations

import ast
import json

import click
import pytest

from otolith.cli.run.cells import cells_of, without_magics
from otolith.cli.run.workspace import parse_bytes
from otolith.errors import Invalid


@pytest.fixture
def script(tmp_path):
    def write(text: str):
        path = tmp_path / "a.py"
        path.write_text(text)
        return cells_of(path)

    return write


@pytest.fixture
def notebook(tmp_path):
    def write(*sources, **other):
        cells = [{"cell_type": "code", "source": source} for source in sources]
        path = tmp_path / "a.ipynb"
        path.write_text(json.dumps({"nbformat": 4, "metadata": {}, "cells": cells} | other))
        return cells_of(path)

    return write


# ---------------------------------------------------------------- scripts


def test_a_script_without_marks_is_one_cell(script):
    (cell,) = script("x = 1\n\ny = 2\n")

    assert (cell.number, cell.source, cell.line) == (1, "x = 1\n\ny = 2", 1)


def test_a_cell_knows_the_line_it_begins_at(script):
    cells = script("# %% first\n\nx = 1\n#%%\ny = 2\n# %% [markdown]\n# text\n# %%\n\n\nz = 3\n")

    assert [(cell.number, cell.source, cell.line) for cell in cells] == [
        (1, "x = 1", 3),
        (2, "y = 2", 5),
        (3, "z = 3", 11),
    ]


def test_what_comes_before_the_first_mark_is_a_cell_if_it_is_code(script):
    assert len(script("x = 1\n# %%\ny = 2\n")) == 2
    assert len(script('"""What it does."""\n# %%\ny = 2\n')) == 1
    assert len(script("#!/usr/bin/env python3\n# %%\ny = 2\n")) == 1


def test_a_mark_inside_of_a_text_divides_nothing(script):
    assert len(script('x = """\n# %% no mark\n"""\n')) == 1


def test_a_script_that_is_no_python_is_divided_all_the_same(script):
    assert [cell.source for cell in script("x = (\n# %%\ny = 2\n")] == ["x = (", "y = 2"]


def test_a_script_is_read_in_the_encoding_that_it_names(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes("# -*- coding: latin-1 -*-\nx = 'ä'\n".encode("latin-1"))

    assert "'ä'" in cells_of(path)[0].source


def test_another_source_has_another_key(script):
    first, second, third = script("x = 1\n# %%\nx = 2\n# %% again\nx = 1\n")

    assert first.key != second.key
    assert first.key == third.key


# ---------------------------------------------------------------- notebooks


def test_code_cells_of_a_notebook_are_cells_and_others_are_not(notebook):
    text = {"cell_type": "markdown", "source": ["# Title"]}
    code = {"cell_type": "code", "source": ["x = 1\n", "x"]}

    (cell,) = notebook(cells=[text, code, {"cell_type": "code", "source": ""}])

    assert (cell.number, cell.source) == (1, "x = 1\nx")


@pytest.mark.parametrize(
    "magic", ["%matplotlib inline", "!pip install x", "?str", "str?", "df.head??", "files = !ls"]
)
def test_what_only_ipython_understands_becomes_a_comment_with_a_note(notebook, magic):
    (cell,) = notebook(f"x = 1\n{magic}\ny = 2")

    assert cell.notes == (magic,)
    assert cell.source.splitlines()[1].startswith("#")
    assert [line for line in cell.source.splitlines() if line[0] != "#"] == ["x = 1", "y = 2"]


def test_a_magic_in_a_block_leaves_a_block(notebook):
    (cell,) = notebook("if x:\n    %time f()\ny = 2")

    ast.parse(cell.source)
    assert cell.notes == ("%time f()",)


def test_a_magic_that_goes_on_is_one_magic(notebook):
    (cell,) = notebook("!pip install \\\n    x y\nz = 1")

    ast.parse(cell.source)
    assert cell.source.endswith("z = 1")


@pytest.mark.parametrize(
    "source",
    [
        "x = (10\n% 3)",
        "x = 10 \\\n% 3",
        'x = """\n%magic\n!ls\n"""',
        "a != b",
        "x %= 3",
        'print("%d" % 3)',
    ],
)
def test_python_is_left_as_it_is(source):
    assert without_magics(source) == (source, ())


def test_python_around_a_magic_is_left_as_it_is():
    source = 'x = """\n%no magic\n"""\n%magic\ny = (1\n% 2)'

    tamed, notes = without_magics(source)

    assert notes == ("%magic",)
    assert tamed.splitlines()[:3] + tamed.splitlines()[4:] == (
        source.splitlines()[:3] + source.splitlines()[4:]
    )


def test_of_a_timed_cell_the_code_is_run(notebook):
    (cell,) = notebook("%%time\nx = 1")

    assert cell.source.splitlines()[1] == "x = 1"


def test_a_cell_of_another_language_is_left_out_as_a_whole(notebook):
    (cell,) = notebook("%%bash\nls\necho")

    assert ast.parse(cell.source).body == []
    assert "%%bash" in cell.notes[0]


@pytest.mark.parametrize(
    "other",
    [
        {"nbformat": 3},
        {"metadata": {"language_info": {"name": "R"}}},
        {"cells": 5},
        {"cells": [{"cell_type": "code"}]},
    ],
    ids=str,
)
def test_a_notebook_that_cannot_be_read_is_refused(notebook, other):
    with pytest.raises(Invalid):
        notebook("x = 1", **other)


def test_what_is_no_notebook_is_refused(tmp_path):
    path = tmp_path / "a.ipynb"
    for text in ("", "[]", "{"):
        path.write_text(text)
        with pytest.raises(Invalid, match="not a notebook"):
            cells_of(path)
    with pytest.raises(Invalid, match="no file"):
        cells_of(tmp_path / "missing.py")


# ---------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("text", "count"),
    [("100", 100), ("2k", 2000), ("1.5G", 1_500_000_000), ("2GiB", 2 << 30), ("5MB", 5_000_000)],
)
def test_a_size_is_a_number_and_a_unit(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "much", "-1", "2T", "1 000", "0", "0.4"])
def test_anything_else_is_no_size(text):
    with pytest.raises(click.UsageError):
        parse_bytes(text)
