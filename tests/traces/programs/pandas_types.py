"""One frame for each way that pandas keeps a column."""
# needs: numpy, pandas

# %%
import datetime
from decimal import Decimal

import numpy as np
import pandas as pd

# %%
nullable = pd.DataFrame(
    {
        "count": pd.array([1, None, 3], dtype="Int64"),
        "small": pd.array([1, 2, None], dtype="UInt8"),
        "share": pd.array([0.5, None, float("nan")], dtype="Float64"),
        "flag": pd.array([True, None, False], dtype="boolean"),
        "text": pd.array(["a", None, "c"], dtype="string"),
    }
)
print(nullable.isna().sum().tolist())

# %%
plain = pd.DataFrame(
    {"text": ["x", None, "z"], "number": [1.0, np.nan, -0.0], "mixed": [1, "one", None]}
)
plain["text"] = plain["text"].str.upper()
print(plain.dtypes.astype(str).tolist())

# %%
sizes = pd.CategoricalDtype(["S", "M", "L", "XL"], ordered=True)
shirts = pd.DataFrame({"size": pd.Series(["M", "XL", None, "S"], dtype=sizes), "n": [3, 1, 4, 1]})
shirts["size"] = shirts["size"].cat.remove_unused_categories()
largest = shirts["size"].max()
print(largest, shirts["size"].cat.categories.tolist())

# %%
times = pd.DataFrame(
    {
        "naive": pd.to_datetime(
            ["2024-01-01", None, "2024-06-30 12:00:00.000001"], format="ISO8601"
        ),
        "zoned": pd.date_range("2024-10-27", periods=3, freq="h", tz="Europe/Oslo"),
        "span": pd.to_timedelta([1, None, 90], unit="s"),
        "month": pd.period_range("2024-01", periods=3, freq="M"),
        "day": [datetime.date(2024, 1, n) for n in (1, 2, 3)],
    }
)
times["second"] = times["naive"].astype("datetime64[s]")

# %%
objects = pd.DataFrame(
    {
        "list": [[1], [2, [3]], []],
        "dict": [{"a": 1}, None, {"b": {"c": 2}}],
        "decimal": [Decimal("1.10"), Decimal("NaN"), Decimal(0)],
        "set": [{1, 2}, frozenset(), set()],
    }
)
inner = objects.loc[1, "list"]
inner.append("through a name")
print(objects["list"].tolist())

# %%
index = pd.MultiIndex.from_product(
    [["oslo", "bergen"], [2023, 2024], ["q1", "q2"]], names=["city", "year", None]
)
sales = pd.Series(np.arange(8) * 1.5, index, name="sales")
only = sales.drop("bergen")
print(len(only.index.levels[0]), sales.loc["oslo", 2024].tolist())

# %%
wide = sales.unstack(["year", None])
wide[("total", "")] = wide.sum(axis=1)
wide.columns.names = ["year", "quarter"]
swapped = wide.swaplevel(axis=1).sort_index(axis=1)
print(wide.columns.tolist()[-1])

# %%
intervals = pd.cut(pd.Series([1, 5, 9, 12]), [0, 4, 8, 12])
sparse = pd.Series(pd.arrays.SparseArray([0, 0, 7, 0]))
odd_columns = pd.DataFrame([[1, 2, 3]], columns=["a", "a", 0])
odd_index = pd.Series([1, 2], index=[np.nan, "x"])

# %%
nullable.attrs.update(source="by hand", seen=[1])
copied = nullable.copy()
copied.loc[0, "count"] = pd.NA
shallow = nullable.copy(deep=False)
shallow.loc[1, "text"] = "changed"
print(nullable.loc[1, "text"], copied.attrs)

# %%
scalars = [
    pd.Timestamp("2024-01-01 00:00:00.123456789", tz="UTC"),
    pd.Timedelta("1h"),
    pd.NaT,
    pd.NA,
    pd.Interval(0, 1, closed="both"),
    pd.Period("2024Q1"),
    np.datetime64("2024-01", "M"),
    np.float32(0.1),
    np.str_("s"),
]
dtypes = {name: dtype for name, dtype in nullable.dtypes.items()}

# %%
arrays = {
    "f16": np.array([1, 2], "float16"),
    "big_endian": np.array([1, 2], ">i4"),
    "unicode": np.array(["ab", "c"]),
    "bytes": np.array([b"ab", b"c"]),
    "times": np.array(["2024-01-01", "NaT"], "datetime64[D]"),
    "complex": np.array([1 + 2j, np.nan]),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "scalar": np.array(3.5),
    "empty": np.empty((0, 3)),
    "masked": np.ma.array([1, 2, 3], mask=[0, 1, 0]),
    "readonly": np.broadcast_to(np.arange(3), (2, 3)),
}

# %%
grouped = shirts.groupby("size", observed=False)
by_size = grouped["n"].sum()
rolled = pd.Series([1.0, 2.0, 4.0]).rolling(2).mean()
times.loc[len(times)] = times.iloc[0]
plain = plain.convert_dtypes()
print(by_size.to_dict(), plain.dtypes.astype(str).tolist(), times.shape)
