"""Changes a larger frame column by column, in place, the way a feature notebook does."""
# needs: numpy, pandas

# %%
import numpy as np
import pandas as pd

rng = np.random.default_rng(99)
N = 120_000

# %%
df = pd.DataFrame(rng.normal(size=(N, 6)), columns=[f"f{n}" for n in range(6)])
df["city"] = pd.Categorical.from_codes(
    rng.integers(0, 5, N), ["Aaby", "Brno", "Cork", "Dole", "Espoo"]
)
df["user"] = rng.integers(0, 900, N)
view_of = df
print(df.shape)

# %%
df["f1"] = df["f1"].abs()

# %%
df.loc[df["f2"] > 2, "f2"] = np.nan

# %%
df["f2"] = df["f2"].fillna(df["f2"].mean())

# %%
df["ratio"] = df["f1"] / (1 + df["f2"] ** 2)

# %%
df["city_mean"] = df.groupby("city", observed=True)["ratio"].transform("mean")

# %%
df["bucket"] = pd.qcut(df["ratio"], 8, labels=False).astype("int8")

# %%
# A copy on write: nothing happens to the frame.
column = df["f3"]
column.iloc[0] = 123.0
print(bool(df["f3"].iloc[0] == 123.0))

# %%
df["label"] = np.where(df["f4"] > 0, "up", "down")
df["label"] = df["label"].astype("string")

# %%
df.iloc[::1000, df.columns.get_loc("f5")] = 0.0

# %%
df.drop(columns=["f0"], inplace=True)
df.rename(columns={"f1": "size"}, inplace=True)
print(view_of is df, list(view_of.columns)[:3])

# %%
subset = df[df["bucket"] == 7]
head = df.head(50)
df["f3"] *= 2

# %%
per_user = df.groupby("user").agg(n=("size", "count"), top=("ratio", "max"), city=("city", "first"))
df = df.join(per_user["n"].rename("user_n"), on="user")
print(view_of is df, "user_n" in view_of)

# %%
df.sort_values(["city", "ratio"], inplace=True, ignore_index=True)
numeric = df.select_dtypes("number").to_numpy(dtype="float32")
numeric[:, 0] = 0

# %%
df["city"] = df["city"].cat.rename_categories(str.upper)
df["size"] = df["size"].astype("float32")
df.insert(0, "row", np.arange(len(df), dtype="uint32"))

# %%
checks = {
    "memory": int(df.memory_usage(index=False).sum()) > 0,
    "nan": int(df.isna().sum().sum()),
    "first": df.iloc[0][["row", "city", "bucket"]].tolist(),
    "total": round(float(df["ratio"].sum()), 6),
}
print(checks)

# %%
del view_of, column
totals = df.groupby(["city", "bucket"], observed=True)["size"].sum().unstack()
df = df.iloc[: N // 2].copy()
print(totals.shape, len(df))
