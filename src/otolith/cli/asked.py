"""What the options before the verb asked for."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Asked(NamedTuple):
    """The global options of one call."""

    store: str | None = None
    session: str | None = None
    branch: str | None = None
    directory: Path = Path()
    is_paged: bool = True
