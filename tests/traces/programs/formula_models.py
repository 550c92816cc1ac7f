"""Fits models from formulas: the results remember the formula, the frame and names of the session."""
# lost: curved
# needs: numpy, pandas, statsmodels

# %%
import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

rng = np.random.default_rng(17)

# %%
plants = pd.DataFrame(
    {"light": rng.uniform(1, 9, 80).round(2), "soil": rng.choice(["clay", "sand", "peat"], 80)}
)
plants["growth"] = (
    2
    + 0.7 * plants["light"]
    + plants["soil"].map({"clay": 0.0, "sand": -1.0, "peat": 1.5})
    + rng.normal(0, 0.3, 80)
).round(3)

# %%
simple = smf.ols("growth ~ light", plants).fit()
print(simple.params.round(2).to_dict())

# %%
full = smf.ols("growth ~ light * C(soil)", data=plants).fit()
better = full.aic < simple.aic
print(better, len(full.params))


# %%
def squash(values):
    return np.log1p(values)


# This one needs `squash` to be made again: its formula is evaluated in the frame of the caller.
curved = smf.ols("growth ~ squash(light) + soil", data=plants).fit()
curved_params, curved_aic = curved.params, float(curved.aic)
print(curved_params.round(2).to_dict())

# %%
new = pd.DataFrame({"light": [1.0, 5.0, 9.0], "soil": ["peat", "clay", "sand"]})
predictions = pd.DataFrame({"simple": simple.predict(new), "full": full.predict(new)})
print(predictions.round(2).values.tolist())

# %%
plants["tall"] = (plants["growth"] > plants["growth"].median()).astype(int)
chance = smf.logit("tall ~ light", plants).fit(disp=0)
odds = np.exp(chance.params)

# %%
table = full.summary2().tables[1]
names = list(full.model.exog_names)
formula = full.model.formula
print(formula, names)

# %%
fits = {fit.model.formula: fit for fit in (simple, full)}
order = sorted(fits, key=lambda text: fits[text].bic)
again = smf.ols(order[0], data=plants.iloc[::2]).fit()
drift = float((again.params - fits[order[0]].params).abs().max())
print(order[0], round(drift, 3))
