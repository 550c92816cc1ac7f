"""Arrays, frames and tables in a terminal: what they are on one line, their content as JSON."""

from __future__ import annotations

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from otolith.cli.format.values import one_line, to_json

SHOWN = [
    (np.zeros((2, 3)), "<ndarray 2 x 3 of float64>", [[0.0] * 3] * 2),
    (np.int64(7), "7", 7),
    (
        pd.DataFrame([[1, "x"]], columns=["a", "a"]),
        "<DataFrame 1 x 2: a, a>",
        [["a", [1]], ["a", ["x"]]],
    ),
    (pd.Series([1, 2], name="n"), "<Series 2 of int64>", [1, 2]),
    (pl.DataFrame({"a": [1, None]}), "<DataFrame 2 x 1: a>", [["a", [1, None]]]),
    (pl.Series("s", ["x"]), "<Series 1 of String>", ["x"]),
    (pa.table({"a": [1, 2]}), "<Table 2 x 1: a>", {"a": [1, 2]}),
    (pa.array([1, None]), None, [1, None]),
]


@pytest.mark.parametrize(("value", "line", "content"), SHOWN, ids=lambda part: type(part).__name__)
def test_data_is_told_on_one_line_and_written_out_as_json(value, line, content):
    assert line is None or one_line(value) == line
    assert "\n" not in one_line(value)
    assert to_json(value)["value"] == content
