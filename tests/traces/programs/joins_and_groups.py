"""Joins orders, customers and price lists of a tea shop; frames live in a dict and in names."""
# needs: numpy, pandas

# %%
import numpy as np
import pandas as pd

rng = np.random.default_rng(41)

# %%
customers = pd.DataFrame(
    {
        "customer": [f"c{n:02d}" for n in range(12)],
        "region": pd.Categorical(list("NSEWNSEWNSEW"), categories=list("NESW"), ordered=True),
        "since": pd.date_range("2021-01-04", periods=12, freq="3W"),
    }
)

# %%
n_orders = 400
orders = pd.DataFrame(
    {
        "order": np.arange(n_orders),
        "customer": rng.choice([f"c{n:02d}" for n in range(14)], n_orders),
        "tea": rng.choice(["assam", "sencha", "rooibos", "mate"], n_orders, p=[0.4, 0.3, 0.2, 0.1]),
        "grams": rng.integers(1, 20, n_orders) * 50,
        "at": pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 300, n_orders), "D"),
    }
)
tables = {"customers": customers, "orders": orders}

# %%
prices = pd.DataFrame(
    [
        ("assam", "2022-01-01", 3.2),
        ("assam", "2022-06-01", 3.5),
        ("mate", "2022-01-01", 2.4),
        ("rooibos", "2022-01-01", 2.8),
        ("rooibos", "2022-08-15", 2.6),
        ("sencha", "2022-01-01", 4.4),
    ],
    columns=["tea", "valid_from", "per_100g"],
).astype({"valid_from": "datetime64[ns]"})
tables["prices"] = prices

# %%
tables["orders"].sort_values("at", inplace=True, kind="stable")
orders["at"] = orders["at"].astype("datetime64[ns]")
priced = pd.merge_asof(
    orders, prices.sort_values("valid_from"), left_on="at", right_on="valid_from", by="tea"
)
print(orders is tables["orders"], len(priced))

# %%
priced["amount"] = (priced["grams"] / 100 * priced["per_100g"]).round(2)
joined = priced.merge(customers, on="customer", how="left", indicator=True, validate="m:1")
unknown = joined.loc[joined["_merge"] == "left_only", "customer"].unique().tolist()
print(sorted(unknown))

# %%
by_tea = joined.groupby("tea")["amount"]
joined["share_of_tea"] = joined["amount"] / by_tea.transform("sum")
summary = by_tea.agg(total="sum", mean="mean", largest="max")

# %%
pivot = joined.pivot_table(
    index="region", columns="tea", values="amount", aggfunc="sum", observed=False, margins=True
)
print(pivot.round(1).loc["All"].to_dict())

# %%
monthly = (
    joined.assign(month=joined["at"].dt.to_period("M"))
    .groupby(["region", "month"], observed=True)["amount"]
    .sum()
)
wide = monthly.unstack("region", fill_value=0.0)

# %%
frames_by_region = {region: part for region, part in joined.groupby("region", observed=True)}
best = {
    region: part.nlargest(1, "amount")["order"].item() for region, part in frames_by_region.items()
}

# %%
top = frames_by_region["N"]
top["flag"] = top["amount"] > top["amount"].median()
print("flag" in frames_by_region["N"].columns, "flag" in joined.columns)

# %%
first_last = joined.groupby("customer").agg(
    first=("at", "min"), last=("at", "max"), n=("order", "size")
)
first_last["gap"] = first_last["last"] - first_last["first"]
loyal = first_last.query("n > 30").index

# %%
wide.loc["total"] = wide.sum()
tables |= {"wide": wide, "summary": summary}
del first_last

# %%
quantiles = joined.groupby("tea")["amount"].quantile([0.1, 0.5, 0.9]).rename("q")
stacked = quantiles.reset_index().set_index(["level_1", "tea"]).sort_index()
crossed = pd.crosstab(joined["tea"], joined["at"].dt.quarter.rename("quarter"), normalize="index")
checks = [bool(np.isclose(pivot.loc["All", "All"], joined.dropna(subset="region")["amount"].sum()))]
print(checks)
