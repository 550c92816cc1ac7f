"""The door of testing: every name is behind it, and an installation without the extra is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from otolith import testing
from tests.patience import HANG_SECONDS


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_is_behind_the_door(name):
    assert getattr(testing, name) is not None
    assert name in dir(testing)


def test_all_is_the_table():
    assert set(testing.__all__) == set(testing._HOME)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        testing.nonsense  # noqa: B018 - asking is the test


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("StoreContract", "pytest"),
        ("CodecContract", "hypothesis"),
    ],
)
def test_without_the_extra_a_suite_says_what_to_install(name, missing):
    failure = _failure(missing, f"testing.{name}")
    assert f"MissingExtra: otolith.testing.{_file(name)} needs {missing}" in failure
    assert "otolith[testing]" in failure


@pytest.mark.parametrize("name", ["FaultyStore", "PowerLossVFS"])
def test_without_the_extra_the_rest_works(name):
    assert _failure("pytest", f"testing.{name}") == ""


def _file(name: str) -> str:
    return testing._HOME[name].rpartition(".")[2]


def _failure(missing: str, expression: str) -> str:
    program = (
        f"import sys; sys.modules[{missing!r}] = None\nfrom otolith import testing\n{expression}"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    return done.stderr
