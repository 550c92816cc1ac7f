"""Samples frames and splits data without a seed argument: the global numpy state decides."""
# needs: numpy, pandas, sklearn

# %%
import numpy as np
import pandas as pd
from sklearn.datasets import load_iris
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split

np.random.seed(0)

# %%
iris = load_iris(as_frame=True)
flowers = iris.frame.rename(columns=lambda name: name.replace(" (cm)", "").replace(" ", "_"))
shuffled = flowers.sample(frac=1)
print(shuffled.index[:5].tolist())

# %%
few = flowers.groupby("target").sample(4)
few_again = flowers.groupby("target").sample(4)
overlap = few.index.intersection(few_again.index).tolist()
print(overlap)

# %%
train, test = train_test_split(flowers, test_size=0.3)
features = [name for name in flowers if name != "target"]

# %%
model = SGDClassifier(max_iter=40, tol=None)
model.fit(train[features], train["target"])
score = model.score(test[features], test["target"])
print(round(score, 3))


# %%
def bag(times):
    votes = np.zeros((len(test), 3), int)
    members = []
    for _ in range(times):
        rows = np.random.randint(0, len(train), len(train))
        member = SGDClassifier(max_iter=15, tol=None)
        member.fit(train[features].iloc[rows], train["target"].iloc[rows])
        votes[np.arange(len(test)), member.predict(test[features])] += 1
        members.append(member)
    return members, votes


members, votes = bag(4)

# %%
agreement = votes.max(axis=1) / votes.sum(axis=1)
test = test.assign(agreement=agreement, guess=votes.argmax(axis=1))
unsure = test[test["agreement"] < 1]
print(len(unsure))

# %%
treated = np.random.rand(500) < 0.5
outcome = np.random.normal(10, 2, 500) + np.where(treated, 0.4, 0.0)
observed = outcome[treated].mean() - outcome[~treated].mean()

# %%
shuffles = np.empty(300)
labels = treated.copy()
for n in range(len(shuffles)):
    np.random.shuffle(labels)
    shuffles[n] = outcome[labels].mean() - outcome[~labels].mean()
p_value = float((np.abs(shuffles) >= abs(observed)).mean())
print(round(p_value, 3))

# %%
members += bag(2)[0]
model.partial_fit(test[features], test["target"])
jitter = flowers[features] + np.random.normal(0, 0.01, (len(flowers), len(features)))
print(round(float(jitter.to_numpy().sum()), 4), len(members))
