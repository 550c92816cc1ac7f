"""Texts that several edit, in a terminal: the text is shown, and what differs in it."""

from __future__ import annotations

import sys

import pytest

from otolith import Disk, Versioned
from tests.unit.cli.terminal import data, run


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Versioned(Disk("a.db"), session="trip") as state:
        report = state.text("report")
        report.append("Dear all. The cat sat on the mat. It was happy.\nRegards")
        state.commit("wrote")
        report.edit("Dear all. The dog sat on the mat. It was happy.\nRegards")
        state.commit("edited")


def test_the_text_is_printed_raw():
    assert (
        run("cat", "report").output == "Dear all. The dog sat on the mat. It was happy.\nRegards\n"
    )
    assert run("cat", "@~1:report").output.startswith("Dear all. The cat")


def test_as_json_it_is_a_document_with_its_text():
    assert data("cat", "report")["value"] == {
        "$type": "document",
        "value": "Dear all. The dog sat on the mat. It was happy.\nRegards",
    }
    assert data("show", "@:report")["value"]["$type"] == "document"


def test_a_difference_is_shown_by_sentences():
    shown = [line.strip() for line in run("show").output.splitlines()]

    assert "-The cat sat on the mat." in shown
    assert "+The dog sat on the mat." in shown
    assert "It was happy." in shown
    assert run("diff", "@~1", "@").output.count("mat") == 2


def test_a_new_text_is_shown_on_one_line():
    assert '+ "Dear all. The cat sat' in run("show", "@~1").output


def test_it_is_listed_with_its_kind():
    assert "document" in run("ls", "-l").output


def test_a_text_cannot_be_written_as_json():
    result = run("set", "report", '{"$type": "document", "value": "x"}')

    assert result.exit_code != 0
    assert "cannot be written from a terminal" in result.stderr


def test_without_the_library_one_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "loro", None)
    from otolith.codecs import documents

    documents._text_of.cache_clear()
    failed = run("cat", "report")

    assert failed.exit_code != 0
    assert "pip install 'otolith[crdt]'" in failed.stderr
    assert "not readable: pip install 'otolith[crdt]'" in run("show").output
    assert "document" in run("ls", "-l").output
