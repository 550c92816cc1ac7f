"""Meters of a small power station: zones, gaps, resampling, rolling means and joins by time."""
# needs: numpy, pandas

# %%
import numpy as np
import pandas as pd

rng = np.random.default_rng(11)
index = pd.date_range("2024-03-30 12:00", periods=24 * 6, freq="30min", tz="Europe/Berlin")

# %%
load = pd.Series(
    50 + 10 * np.sin(np.arange(len(index)) / 7) + rng.normal(0, 1, len(index)), index, name="load"
)
load.iloc[[5, 6, 40]] = np.nan
print(load.isna().sum(), index[-1] - index[0])

# %%
hourly = load.resample("1h").agg(["mean", "min", "max", "count"])
days = load.groupby(load.index.date).sum()
utc = load.tz_convert("UTC")
print(len(hourly), [str(day) for day in days.index])

# %%
filled = load.interpolate("time", limit=1)
still = filled.isna()
filled = filled.ffill()

# %%
smooth = filled.rolling("3h", min_periods=2).mean()
spread = filled.ewm(halflife=4).std()
frame = pd.concat({"load": filled, "smooth": smooth, "spread": spread}, axis=1)

# %%
frame["change"] = frame["load"].diff()
frame["lag"] = frame["load"].shift(2)
frame["hour"] = frame.index.hour.astype("int8")
frame["is_night"] = frame["hour"].isin([22, 23, 0, 1, 2, 3, 4, 5])

# %%
profile = frame.groupby("hour")["load"].mean()
frame["expected"] = frame["hour"].map(profile)
frame["surprise"] = (frame["load"] - frame["expected"]).where(lambda s: s.abs() > 3)
print(frame["surprise"].notna().sum())

# %%
events = pd.DataFrame(
    {
        "at": pd.to_datetime(
            ["2024-03-30 13:10", "2024-03-31 01:59", "2024-03-31 03:01", "2024-04-01 08:00"]
        ),
        "what": ["alarm", "change of clocks", "change of clocks", "inspection"],
    }
)
events["at"] = events["at"].dt.tz_localize("Europe/Berlin")

# %%
near = pd.merge_asof(
    events.assign(at=events["at"].astype(index.dtype)),
    frame[["load", "smooth"]].rename_axis("at").reset_index(),
    on="at",
    direction="nearest",
    tolerance=pd.Timedelta("20min"),
)
print(near["load"].isna().tolist())

# %%
monthly = pd.Series(range(1, 15), pd.period_range("2023-01", periods=14, freq="M"))
quarters = monthly.groupby(monthly.index.asfreq("Q")).sum()
as_time = monthly.to_timestamp()
business = pd.bdate_range("2024-03-28", periods=5)

# %%
gaps = load.index.to_series().diff().value_counts()
shifted = pd.Timestamp("2024-03-31 01:30", tz="Europe/Berlin") + pd.DateOffset(hours=1)
windows = pd.interval_range(load.index[0].tz_localize(None), periods=3, freq="1D")
print(shifted, windows.closed)

# %%
hourly.loc[hourly["count"] < 2, "mean"] = -1.0
hourly.columns = hourly.columns.str.upper()
hourly.index.name = "hour"
reversed_load = load[::-1]

# %%
deltas = pd.to_timedelta(["1 days 02:00:00", None, "00:00:00.5"])
table = pd.DataFrame({"delta": deltas, "stamp": [pd.NaT, index[3], index[4]]})
table["sum"] = table["stamp"] + table["delta"]
best_day = days.idxmax()
last_values = {name: frame[name].iloc[-1] for name in ("load", "hour", "is_night")}
print(best_day, type(last_values["hour"]).__name__)
