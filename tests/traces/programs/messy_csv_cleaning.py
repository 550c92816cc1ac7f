"""Cleans a messy export of a bicycle workshop, one complaint of the data at a time."""
# needs: numpy, pandas

# %%
import re
from pathlib import Path

import numpy as np
import pandas as pd

RAW = Path("workshop.csv")

# %%
RAW.write_text(
    """Ticket , Customer Name,Bike type,  Arrived,Price (EUR),Paid?,notes
 0017,anna  BERG,city,2023-03-01,"1.250,00",yes,"bell; brake"
0018,Jon Aas ,CITY,01/03/2023,85,YES,
0019,mila ostrova,Race,2023-03-02,n/a,no,"wheel"
0020,,cargo ,2023-03-02,"2.310,50",y,"brake; chain; bell"
0018,Jon Aas ,CITY,01/03/2023,85,YES,
0021,pia q.,race,soon,95.5,,"???"
0022,Tom Lind,tandem,2023-03-05,-40,no,"saddle;"
0023,eva STORM,cargo,05/03/2023,"310,00",yes,"chain;  brake"
,,,,,,
0024,Anna Berg,City,2023-03-06,120,y,"bell"
"""
)

# %%
raw = pd.read_csv(RAW, dtype=str, skipinitialspace=True)
before = raw
print(raw.shape)


# %%
def tidy_name(text):
    text = re.sub(r"[()?]", "", text).strip().lower()
    return re.sub(r"\W+", "_", text)


raw.columns = [tidy_name(column) for column in raw.columns]
print(list(before.columns))

# %%
df = raw.dropna(how="all").drop_duplicates().reset_index(drop=True)
dropped = len(raw) - len(df)

# %%
df["customer_name"] = df["customer_name"].str.split().str.join(" ").str.title()
df["bike_type"] = df["bike_type"].str.strip().str.lower().astype("category")

# %%
problems = {}


def parse_price(text):
    if not isinstance(text, str):
        return np.nan
    if re.fullmatch(r"-?[\d.]+,\d\d", text):
        text = text.replace(".", "").replace(",", ".")
    try:
        return float(text)
    except ValueError:
        problems.setdefault("price", []).append(text)
        return np.nan


df["price"] = df.pop("price_eur").map(parse_price)


# %%
def parse_day(text):
    for pattern in ("%Y-%m-%d", "%d/%m/%Y"):
        day = pd.to_datetime(text, format=pattern, errors="coerce")
        if day is not pd.NaT:
            return day
    problems.setdefault("arrived", []).append(text)
    return pd.NaT


df["arrived"] = df["arrived"].map(parse_day)

# %%
paid_words = {"yes": True, "y": True, "no": False}
df["paid"] = df["paid"].str.lower().map(paid_words).astype("boolean")

# %%
df["ticket"] = df["ticket"].astype(int).astype("Int32")
df["parts"] = [
    sorted({part.strip() for part in note.split(";") if part.strip().isalpha()})
    if isinstance(note, str)
    else []
    for note in df.pop("notes")
]

# %%
odd = df["price"] < 0
df.loc[odd, "price"] = df.loc[odd, "price"].abs()
df["was_negative"] = odd
df.attrs["source"] = RAW.name

# %%
medians = df.groupby("bike_type", observed=True)["price"].median()
df["price"] = df["price"].fillna(df["bike_type"].map(medians).astype(float))

# %%
exploded = df.explode("parts")[["ticket", "parts"]].dropna().reset_index(drop=True)
part_counts = exploded["parts"].value_counts().sort_index()

# %%
report = {
    "rows": len(df),
    "dropped": dropped,
    "problems": problems,
    "missing": df.isna().sum().to_dict(),
    "by_type": df.groupby("bike_type", observed=False)["price"].agg(["count", "sum"]),
}
print(report["problems"], report["missing"])

# %%
df.drop(columns="parts").to_csv("clean.csv", index=False)
again = pd.read_csv("clean.csv", parse_dates=["arrived"])
same_prices = np.allclose(again["price"], df["price"], equal_nan=True)
print(same_prices, again.dtypes.astype(str).to_dict())
