"""Export and import as one readable file."""

from __future__ import annotations

import json

import pytest

from otolith.errors import BadValue, Invalid, NoConsent


@pytest.fixture
def exported(ann, tmp_path):
    ann.set("seat", "aisle")
    ann.set("seat", "window", context="holidays")
    ann.observe("drink", "tea", source="m1", weight=2)
    ann.feedback("tone", "shorter", liked=True)
    ann.consent("ads", granted=False)
    ann.export(tmp_path / "ann.json")
    return tmp_path / "ann.json"


def test_an_export_can_be_read_by_a_person(exported):
    data = json.loads(exported.read_text())

    assert data["format"] == "otolith profile 1"
    assert {"key": "seat", "value": "aisle", "basis": "set", "confidence": 1.0} in (
        data["preferences"]
    )
    assert data["evidence"]["drink"][0]["source"] == "m1"
    assert data["evidence"]["drink"][0]["time"].startswith("2023-11-14T")


def test_an_import_believes_what_was_exported(repo, ann, exported):
    bob = repo.user("bob").profile

    assert bob.load(exported) == 4
    assert bob.preferences() == ann.preferences()
    assert bob.history("drink") == ann.history("drink")
    assert not bob.purposes["ads"].allowed


def test_importing_twice_adds_nothing(repo, exported):
    bob = repo.user("bob").profile
    bob.load(exported)

    assert bob.load(exported) == 0


def test_an_import_gives_no_consent_and_needs_it(repo, exported):
    bob = repo.user("bob").profile
    bob.consent("learning", granted=False)

    with pytest.raises(NoConsent):
        bob.load(exported)
    assert bob.keys() == []


def test_an_import_brings_nothing_back_that_was_forgotten(ann, exported):
    ann.forget("drink")
    ann.load(exported)

    assert "drink" not in ann


def one_entry(**entry):
    """Return an export with one piece of evidence, as text."""
    return json.dumps({"format": "otolith profile 1", "evidence": {"seat": [entry]}})


STAMP = f"{0:014x}.{0:016x}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "5",
        "{}",
        "nonsense",
        "[" * 100_000,
        '{"format": "otolith profile 2"}',
        '{"format": "otolith profile 1"}',
        '{"format": "otolith profile 1", "evidence": {"seat": [5]}}',
        '{"format": "otolith profile 1", "evidence": {"": []}}',
        one_entry(stamp="x"),
        one_entry(kind="choice", value="a", stamp=f"{'f' * 16}.{0:016x}"),
        one_entry(kind="choice", value="a", stamp=STAMP, weight=1e300),
        one_entry(kind="hack", value="a", stamp=STAMP),
        one_entry(kind="set", value="a", stamp="00000000000000.../../../../etc/"),
    ],
)
def test_rubbish_is_refused_and_nothing_is_added(ann, tmp_path, text):
    place = tmp_path / "rubbish.json"
    place.write_text(text)

    with pytest.raises(BadValue):
        ann.load(place)

    assert ann.state.is_clean


def test_a_file_that_is_not_there_is_named(ann, tmp_path):
    with pytest.raises(BadValue, match="cannot be read"):
        ann.load(tmp_path / "none.json")


def test_a_place_that_cannot_be_written_is_named(ann, tmp_path):
    with pytest.raises(Invalid, match="cannot be written"):
        ann.export(tmp_path / "no" / "ann.json")
