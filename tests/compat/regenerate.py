"""Makes the golden store and the worked examples of the specification anew, in one go.

.venv/bin/python tests/compat/regenerate.py

Only while the format is not released: a released golden store never changes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from otolith.core import Encoding
from tests.compat import make_golden
from tests.compat.golden_values import codecs
from tests.compat.make_golden import GOLDEN
from tests.compat.reader import Reader, permutation
from tests.compat.spec import NAMES, PAGE, table


def main() -> None:
    make_golden.main()
    text = PAGE.read_text()
    for title, rows in {
        "Examples of values": _values(),
        "Chunks of a blob": _permutations(),
        "Examples of objects": _objects(),
    }.items():
        text = _replaced(text, title, "\n".join(f"| {' | '.join(row)} |" for row in rows))
    PAGE.write_text(text)


def _replaced(text: str, title: str, rows: str) -> str:
    pattern = rf"(# {title}\n(?:(?!\n#).)*?\n\| --- [^\n]*\n)(?:\|[^\n]*\n)*"
    found = re.search(pattern, text, re.DOTALL)
    assert found is not None, title
    return text[: found.end(1)] + rows + "\n" + text[found.end() :]


def _values() -> Iterable[list[str]]:
    encoding = Encoding(codecs())
    for expression, _ in table("Examples of values"):
        shown = encoding.encode(eval(expression, {}, NAMES)).hex(" ")
        yield [f"`{expression}`", f"`{shown}`"]


def _permutations() -> Iterable[list[str]]:
    for number in range(2):
        yield [str(number), f"`{bytes(permutation(number)).hex(' ')}`"]


def _objects() -> Iterable[list[str]]:
    reader = Reader(str(GOLDEN / "format-v1.db"))
    id = reader.rows.refs["session/merging/main"]
    while parents := reader.commit(id)["parents"]:
        id = parents[0]
    hashes = {
        "constants": reader.rows.refs[".config"],
        "packed value": reader.commit(id)["cell"][2:34],
        "commit": id,
    }
    for what, hash in hashes.items():
        yield [what, f"`{reader.object(hash).hex(' ')}`", f"`{hash.hex()}`"]


if __name__ == "__main__":
    main()
