"""The page of the specification, as tests read it."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from otolith.codecs import Document
from otolith.types import RunKey
from tests.compat.golden_values import Celsius, Pair, Phase, Point, Profile, Rights, Turn

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/format-v1.md"

NAMES: dict[str, Any] = {
    each.__name__: each
    for each in (date, datetime, time, timedelta, timezone, Decimal, UUID, ZoneInfo, PurePosixPath,
                 PureWindowsPath, Phase, Rights, Point, Pair, Turn, Profile, Celsius,
                 Document, RunKey)
} | {"UTC": UTC, "nan": float("nan"), "numpy": np, "pandas": pd}  # fmt: skip


def table(title: str) -> list[list[str]]:
    """Return the rows of the table below a heading, their code without its quotes."""
    section = PAGE.read_text().partition(f"# {title}\n")[2].partition("\n#")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]
