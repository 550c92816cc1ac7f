"""A frame of mixed columns and ten ways to change one of them, as code that all run alike."""

from __future__ import annotations

FRAME = """
import numpy as np
import pandas as pd

chance = np.random.default_rng(41)
df = pd.DataFrame({{
    "f1": chance.random({rows}),
    "f2": chance.random({rows}),
    "d1": (chance.random({rows}) * 1000).round(2),
    "d2": chance.standard_normal({rows}).round(2),
    "i1": chance.integers(0, 1000, {rows}),
    "i2": np.arange({rows}),
    "flag": chance.random({rows}) < 0.5,
    "at": pd.date_range("2024-01-01", periods={rows}, freq="s"),
    "kind": pd.Categorical.from_codes(
        chance.integers(0, 8, {rows}, dtype="int8"), [f"kind {{n}}" for n in range(8)]
    ),
    "name": pd.Series([f"name-{{n:05}}" for n in range(5000)])
    .take(chance.integers(0, 5000, {rows})).array,
}})
del chance
"""
"""Makes `df`: of 2.5 million rows it is 190 MB. What a change of it holds, shuffled and pressed by
zstd -1, is some 50 MB for all ten: about as much as of the frame that the budget was set on."""

CHANGES = {
    "floats": 'df["f1"] = df["f1"] * 1.1',
    "1 % of rows in a run": 'df.loc[len(df) // 4 : len(df) // 4 + len(df) // 100, "f2"] = 0.0',
    "dates": 'df["at"] = df["at"] + pd.Timedelta(days=1)',
    "1 % of rows at random": (
        'df.loc[np.random.default_rng(42).choice(len(df), len(df) // 100, False), "d2"] += 0.5'
    ),
    "flags": 'df["flag"] = ~df["flag"]',
    "categories renamed": 'df["kind"] = df["kind"].cat.rename_categories(str.upper)',
    "decimals": 'df["d1"] = df["d1"] * 1.1',
    "texts": 'df["name"] = df["name"].str.upper()',
    "1 % of rows in a run, noise": (
        'df.loc[len(df) // 2 : len(df) // 2 + len(df) // 100 - 1, "f1"]'
        " = np.random.default_rng(43).random(len(df) // 100)"
    ),
    "integers": 'df["i1"] += 1',
}
"""Each changes one column of `df`, by what it changes."""

SUM = "int(pd.util.hash_pandas_object(df).sum())"
"""Tells whether two frames are the same."""
