"""Trains pipelines, searches a grid, and keeps models that keep their data."""
# needs: numpy, pandas, sklearn

# %%
import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

# %%
data = load_wine()
X, y = data.data, data.target
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=3, stratify=y)
print(X_train.shape, X is data["data"])

# %%
scaler = StandardScaler().fit(X_train)
Z = scaler.transform(X_train)
knn = KNeighborsClassifier(n_neighbors=5, algorithm="brute").fit(Z, y_train)
print(knn._fit_X is Z, round(knn.score(scaler.transform(X_test), y_test), 3))

# %%
pipe = Pipeline([("scale", StandardScaler()), ("model", LogisticRegression(max_iter=500))])
pipe.fit(X_train, y_train)
model = pipe.named_steps["model"]
print(model is pipe[-1])

# %%
folds = StratifiedKFold(3, shuffle=True, random_state=0)
search = GridSearchCV(pipe, {"model__C": [0.01, 0.1, 1.0]}, cv=folds)
search.fit(X_train, y_train)
best = search.best_estimator_
print(search.best_params_)

# %%
import pandas as pd

results = pd.DataFrame(search.cv_results_).drop(
    columns=["mean_fit_time", "std_fit_time", "mean_score_time", "std_score_time", "params"]
)
chosen = best.named_steps["model"].coef_
importance = pd.Series(np.abs(chosen).mean(axis=0), index=data.feature_names).sort_values()

# %%
# The model keeps the very array that it was fitted on: writing to it changes the model.
prediction = knn.predict(Z[:5])
Z[0] = 0.0
moved = knn.kneighbors(np.zeros((1, Z.shape[1])), 1, return_distance=False)[0, 0]
print(prediction, moved)

# %%
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

models = {
    "tree": DecisionTreeClassifier(max_depth=3, random_state=1),
    "forest": RandomForestClassifier(12, max_depth=4, random_state=1),
    "logistic": clone(pipe).set_params(model__C=0.5),
}
scores = {}
for name, each in models.items():
    scores[name] = cross_val_score(each, X_train, y_train, cv=folds)
    each.fit(X_train, y_train)
print({name: round(score.mean(), 2) for name, score in scores.items()})

# %%
winner = max(scores, key=lambda name: (scores[name].mean(), name))
champion = models[winner]
first_tree = models["forest"].estimators_[0].tree_
depth = first_tree.max_depth

# %%
cancer = load_breast_cancer(as_frame=True)
frame = cancer.frame
train, test = train_test_split(frame, test_size=0.3, random_state=8)
columns = [name for name in frame.columns if name.startswith("mean")]

# %%
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import KBinsDiscretizer

transformer = ColumnTransformer(
    [
        ("scaled", StandardScaler(), columns[:5]),
        (
            "binned",
            KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf"),
            columns[5:],
        ),
    ]
)
clinic = make_pipeline(transformer, LogisticRegression(max_iter=1000))
clinic.fit(train[columns], train["target"])
print(round(clinic.score(test[columns], test["target"]), 2))

# %%
proba = clinic.predict_proba(test[columns])[:, 1]
frame.loc[test.index, "proba"] = proba
worst = frame.dropna(subset="proba").assign(miss=lambda f: (f["proba"] - f["target"]).abs())
worst = worst.nlargest(5, "miss")[["target", "proba"]]

# %%
models["clinic"] = clinic
clinic.set_params(logisticregression__C=0.1).fit(train[columns], train["target"])
history = [(name, type(each).__name__) for name, each in models.items()]
print(history)
