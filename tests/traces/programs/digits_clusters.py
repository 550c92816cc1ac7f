"""Groups handwritten digits without their labels; many arrays look into one."""
# needs: numpy, sklearn

# %%
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_linnerud
from sklearn.decomposition import PCA

digits = load_digits()
images, labels = digits.images, digits.target
flat = images.reshape(len(images), -1)
print(flat.shape, np.shares_memory(flat, images))

# %%
rows = flat[:600]
answers = labels[:600]
pixels = rows.astype("float32") / 16

# %%
pca = PCA(8, random_state=0, svd_solver="full").fit(pixels)
low = pca.transform(pixels)
signs = np.sign(low[0])
explained = pca.explained_variance_ratio_.cumsum()
print(round(float(explained[-1]), 3))

# %%
kmeans = KMeans(10, n_init=2, random_state=4).fit(low)
found = kmeans.labels_
centres = kmeans.cluster_centers_
print(np.bincount(found, minlength=10).max() < 200)


# %%
def majority(cluster):
    members = answers[found == cluster]
    return int(np.bincount(members, minlength=10).argmax()) if members.size else -1


names = {cluster: majority(cluster) for cluster in range(10)}
guess = np.vectorize(names.get)(found)
accuracy = float((guess == answers).mean())
print(round(accuracy, 2))

# %%
table = np.zeros((10, 10), int)
np.add.at(table, (answers, guess), 1)
diagonal = np.einsum("ii->i", table)  # a view that may be written to
right = int(diagonal.sum())
diagonal[:] = 0
confused = np.unravel_index(table.argmax(), table.shape)
print(right, tuple(map(int, confused)))

# %%
strange = np.linalg.norm(low - centres[found], axis=1)
worst = np.argsort(strange)[-5:]
gallery = {int(n): images[n] for n in worst}
frame = images[worst[0]]
frame[0, :] = 16.0
print(rows[worst[0], :3])

# %%
padded = np.pad(frame, 1)
windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
blurred = windows.mean(axis=(2, 3))
edges = np.abs(np.diff(blurred, axis=1))

# %%
memory = np.lib.format.open_memmap("low.npy", mode="w+", dtype="float32", shape=low.shape)
memory[:] = low
memory.flush()
del memory
back = np.load("low.npy")
print(bool(np.array_equal(back, low)))

# %%
body = load_linnerud()
exercise, shape = body.data, body.target
design = np.column_stack([np.ones(len(shape)), shape])
coefficients, *_rest = np.linalg.lstsq(design, exercise, rcond=None)
kmeans.remark = {"accuracy": accuracy, "names": names}
names[0] = "renamed"
print(coefficients.shape, kmeans.remark["names"][0])
