"""Fits a linear model by stochastic descent; all chance comes from the global numpy generator."""
# needs: numpy, sklearn

# %%
import numpy as np
from sklearn.datasets import load_diabetes

np.random.seed(1234)

# %%
X, y = load_diabetes(return_X_y=True)
order = np.random.permutation(len(y))
X, y = X[order], (y[order] - y.mean()) / y.std()

# %%
cut = 350
X_fit, X_check = X[:cut], X[cut:]
y_fit, y_check = y[:cut], y[cut:]
print(X_fit.base is X, y_check.base is y)


# %%
class Linear:
    rate = 0.5

    def __init__(self, width):
        self.w = np.random.normal(scale=0.01, size=width)
        self.b = 0.0
        self.losses = []

    def predict(self, X):
        return X @ self.w + self.b

    def step(self, X, y):
        error = self.predict(X) - y
        self.w -= self.rate * X.T @ error / len(y)
        self.b -= self.rate * error.mean()
        return float((error**2).mean())


model = Linear(X.shape[1])


# %%
def batches(X, y, size=32):
    picks = np.random.permutation(len(y))
    for start in range(0, len(y), size):
        rows = picks[start : start + size]
        yield X[rows], y[rows]


def epoch(model):
    losses = [model.step(*batch) for batch in batches(X_fit, y_fit)]
    model.losses.append(float(np.mean(losses)))


for _ in range(5):
    epoch(model)
print([round(loss, 4) for loss in model.losses])

# %%
best = {"loss": np.inf, "w": None, "at": -1}


def remember(model, at):
    loss = float(((model.predict(X_check) - y_check) ** 2).mean())
    if loss < best["loss"]:
        best.update(loss=loss, w=model.w.copy(), at=at)
    return loss


curve = [remember(model, at=4)]

# %%
for at in range(5, 20):
    epoch(model)
    curve.append(remember(model, at))
print(best["at"], round(best["loss"], 4))

# %%
Linear.rate = 0.1
weights = model.w
for at in range(20, 30):
    epoch(model)
    curve.append(remember(model, at))
print(weights is model.w, np.shares_memory(weights, best["w"]))

# %%
noise = np.random.uniform(-0.05, 0.05, X_fit.shape)
X_fit += noise
print(bool(np.allclose(X[:cut], X_fit)))

# %%
rivals = [Linear(X.shape[1]) for _ in range(3)]
for rival in rivals:
    for _ in range(8):
        epoch(rival)
rivals.append(model)
ranking = sorted(range(len(rivals)), key=lambda n: rivals[n].losses[-1])

# %%
kept = np.random.get_state(legacy=False)["state"]["pos"]
drop = np.random.choice(X.shape[1], size=2, replace=False)
mask = np.ones(X.shape[1], bool)
mask[drop] = False
pruned = Linear(int(mask.sum()))
pruned.w[:] = model.w[mask]
print(kept, drop)

# %%
for _ in range(4):
    pruned.step(X_fit[:, mask], y_fit)
final = [round(value, 6) for value in np.random.random(3)]
curve = np.asarray(curve)
improving = (np.diff(curve) < 0).sum()
print(final, improving)
