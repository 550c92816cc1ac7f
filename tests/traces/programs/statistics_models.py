"""Fits statistical models and keeps the results in variables, as an analyst does."""
# needs: numpy, pandas, scipy, statsmodels

# %%
import numpy as np
import pandas as pd
import statsmodels.api as sm

longley = sm.datasets.longley.load_pandas()
data = longley.data
print(data.shape)

# %%
y = data["TOTEMP"]
X = sm.add_constant(data[["GNP", "UNEMP", "ARMED"]])
model = sm.OLS(y, X)
fit = model.fit()
print(round(fit.rsquared, 4))

# %%
table = pd.DataFrame({"coef": fit.params, "se": fit.bse, "p": fit.pvalues})
residuals = fit.resid
print(table.round(3).loc["GNP"].tolist(), model is fit.model)

# %%
robust = fit.get_robustcov_results("HC1")
forecast = fit.get_prediction(X.iloc[-3:]).summary_frame(alpha=0.1)
influence = fit.get_influence().cooks_distance[0]

# %%
from scipy import stats

normality = stats.shapiro(residuals)
ttest = stats.ttest_1samp(residuals, 0.0)
curve = stats.norm(loc=0, scale=residuals.std())
density = curve.pdf(np.linspace(-100, 100, 5))
print(type(normality).__name__, round(float(ttest.pvalue), 3))

# %%
spector = sm.datasets.spector.load_pandas()
design = sm.add_constant(spector.exog)
logit = sm.Logit(spector.endog, design).fit(disp=0)
margins = logit.get_margeff().margeff
print(logit.params.round(3).to_dict())

# %%
design["TUCE2"] = design["TUCE"] ** 2
wider = sm.Logit(spector.endog, design).fit(disp=0)
ratio = 2 * (wider.llf - logit.llf)
p_value = float(stats.chi2.sf(ratio, 1))

# %%
counts = sm.datasets.fair.load_pandas().data.head(600)
poisson = sm.GLM(
    counts["affairs"].round(),
    sm.add_constant(counts[["age", "children"]]),
    family=sm.families.Poisson(),
).fit()
print(poisson.params.round(3).tolist())

# %%
results = {"ols": fit, "logit": logit, "wider": wider, "poisson": poisson}
aic = pd.Series({name: each.aic for name, each in results.items()}).round(3)
print(aic.to_dict())

# %%
rng = np.random.default_rng(8)
steps = pd.Series(
    rng.normal(size=120).cumsum() * 0.1 + rng.normal(size=120),
    index=pd.period_range("2010-01", periods=120, freq="M"),
)
from statsmodels.tsa.ar_model import AutoReg

auto = AutoReg(steps, lags=2).fit()
ahead = auto.forecast(3)
autocorrelation = sm.tsa.acf(steps, nlags=5)

# %%
data["fitted"] = fit.fittedvalues
fit.remark = "kept by hand"
weights = 1 / (1 + influence)
weighted = sm.WLS(y, X, weights=weights).fit()
shift = (weighted.params - fit.params).abs().idxmax()
print(shift, "fitted" in longley.data)

# %%
correlations = data.corr(method="spearman")
groups = pd.qcut(data["YEAR"], 3, labels=["early", "middle", "late"])
anova = stats.f_oneway(*(part["UNEMP"] for _, part in data.groupby(groups, observed=True)))
summary = [line for line in fit.summary().as_text().splitlines() if "GNP" in line]
print(summary, round(float(anova.statistic), 3))
