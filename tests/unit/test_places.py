"""Parts of the package that look for its files find them where they are."""

from __future__ import annotations

import os
from pathlib import Path

import otolith
from otolith.cli import errors
from otolith.workspace.sandbox import base, container

PACKAGE = Path(otolith.__file__).parent


def test_a_sandbox_shows_this_package_and_not_what_is_beside_it():
    assert base.PACKAGE == PACKAGE


def test_a_container_is_started_by_a_file_of_ours():
    assert container._INIT.is_file()


def test_only_frames_of_this_package_are_ours():
    assert str(PACKAGE.resolve()) + os.sep == errors._OURS
