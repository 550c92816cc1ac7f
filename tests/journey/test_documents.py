"""Every page of the documentation does what it says; and the player of pages notices if not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journey.documents import Block, blocks, commands, matches
from tests.journey.warm_program import WarmProgram
from tests.patience import HANG_SECONDS

ROOT = Path(__file__).resolve().parents[2]
PLAYER = Path(__file__).with_name("documents.py")
SITE = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [page for page in [ROOT / "README.md", *SITE] if page.exists()]

PYTHON = "```python\n{}\n```\n"
CONSOLE = "```console\n{}\n```\n"


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _play(page: Path, place: Path, program: WarmProgram) -> subprocess.CompletedProcess[str]:
    """Play a page in an empty directory, as a reader with nothing set up would."""
    places = [str(program.folder), str(Path(sys.executable).parent)]
    environment = {
        "PATH": os.pathsep.join([*places, os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": str(place),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }
    return subprocess.run(
        [sys.executable, "-W", "error", PLAYER, page],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_a_page_does_what_it_says(page, tmp_path, program):
    done = _play(page, tmp_path, program)

    assert done.returncode == 0, f"{_name(page)}\n{done.stderr}"


@pytest.mark.parametrize("page", SITE, ids=_name)
def test_the_site_can_render_every_fence(page):
    odd = [block for block in blocks(page.read_text()) if not _is_rendered(block)]

    assert odd == [], "put `<!-- no-run -->` on the line above instead"


def _is_rendered(block: Block) -> bool:
    words = block.options.replace(f'title="{block.title}"', "").removesuffix("no-run")
    return not words.strip()


# ---------------------------------------------------------------- the player itself


@pytest.fixture
def played(tmp_path, program):
    def play(text: str) -> subprocess.CompletedProcess[str]:
        place = tmp_path / "place"
        place.mkdir()
        page = tmp_path / "page.md"
        page.write_text(text)
        return _play(page, place, program)

    return play


def test_blocks_of_a_page_share_a_namespace(played):
    assert played(PYTHON.format("x = 1") + PYTHON.format("assert x == 1")).returncode == 0


def test_a_failing_block_fails_the_page_and_names_its_line(played):
    done = played("# Title\n\n" + PYTHON.format("x = 1\nassert x == 2"))

    assert done.returncode != 0
    assert 'page.md", line 5' in done.stderr


@pytest.mark.parametrize("skip", ["```python no-run\n", "<!-- no-run -->\n```python\n"])
def test_a_block_that_is_not_to_be_run_is_not(played, skip):
    assert played(f"{skip}assert False\n```\n").returncode == 0


def test_only_the_block_below_the_comment_is_skipped(played):
    page = "<!-- no-run -->\n" + PYTHON.format("x") + PYTHON.format("assert False")

    assert played(page).returncode != 0


def test_a_block_in_a_list_is_a_block(played):
    assert played("1. One\n\n    ```python\n    assert False\n    ```\n").returncode != 0


def test_a_warning_fails_the_page(played):
    assert played(PYTHON.format("import warnings\nwarnings.warn('old')")).returncode != 0


def test_a_titled_block_is_a_file_for_later(played):
    script = '```python title="hello.py"\nprint("hello")\n```\n'

    assert played(script + CONSOLE.format("$ python3 hello.py\nhello")).returncode == 0


def test_commands_and_python_blocks_share_a_directory(played):
    write = PYTHON.format("import pathlib\n_ = pathlib.Path('note').write_text('kept')")
    read = CONSOLE.format("$ python3 -c \"print(open('note').read())\"\nkept")

    assert played(write + read).returncode == 0


def test_output_that_differs_fails_the_page(played):
    done = played(CONSOLE.format("$ python3 -c 'print(1)'\n2"))

    assert done.returncode != 0
    assert "page.md, line 2" in done.stderr


def test_a_command_that_fails_may_if_its_output_is_shown(played):
    shown = "$ python3 -c 'print(1); exit(3)'\n1"

    assert played(CONSOLE.format(shown)).returncode == 0


def test_a_command_that_fails_silently_fails_the_page(played):
    assert played(CONSOLE.format("$ python3 -c 'exit(3)'")).returncode != 0


def test_commands_of_other_programs_are_left_alone(played):
    assert played(CONSOLE.format("$ false\n$ python3 dev.py test\n$ pip install x")).returncode == 0


def test_a_conversation_is_held_as_written(played):
    assert played("```pycon\n>>> 1 + 1\n2\n```\n").returncode == 0


def test_a_conversation_that_goes_another_way_fails_the_page(played):
    assert played("```pycon\n>>> 1 + 1\n3\n```\n").returncode != 0


def test_a_command_may_be_continued_on_the_next_line():
    (block,) = blocks(CONSOLE.format("$ otolith log \\\n    --graph\n* a"))

    (command,) = commands(block)
    assert (command.text, command.shown) == ("otolith log \\\n    --graph", "* a")


@pytest.mark.parametrize(
    ("shown", "printed", "alike"),
    [
        ("commit …", "commit 3fa9\n", True),
        ("commit … by me", "commit 3fa9 by you\n", False),
        ("a\n…\nz", "a\nb\nc\nz\n", True),
        ("a\n…\nz", "a\nz\n", True),
        ("a\n…", "b\nc\n", False),
        ("a", "a\nb\n", False),
        ("a", "a   \n\n", True),
        ("a.b", "axb\n", False),
    ],
)
def test_three_dots_stand_for_anything(shown, printed, alike):
    assert matches(shown, printed) is alike
