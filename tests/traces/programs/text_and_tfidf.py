"""Searches a handful of weather notes: tokens, counters, an inverted index, tf-idf by hand."""
# needs: numpy, scipy, sklearn

# %%
import math
import re
from collections import Counter, defaultdict

NOTES = """
The morning fog lifted slowly and the harbour was grey.
A cold wind pushed the fog back towards the harbour wall.
Rain fell all night; the river rose and the mill wheel stopped.
Clear sky, no wind, a long shadow on the mill road.
By evening the rain was snow, and snow hid the road.
The river is calm again and the harbour boats are out.
Snow, wind, snow: the road to the mill is closed.
Fog again. Nobody saw the boats leave the harbour.
""".strip().splitlines()

# %%
WORD = re.compile(r"[a-z]+")
stop = frozenset("the and a was is are to of on by all no in it".split())


def tokens(text, *, keep=lambda word: word not in stop):
    return [word for word in WORD.findall(text.lower()) if keep(word)]


documents = [tokens(note) for note in NOTES]
print(sum(map(len, documents)))

# %%
counts = Counter(word for document in documents for word in document)
common = counts.most_common(5)
print(common)

# %%
index = defaultdict(set)
positions = defaultdict(lambda: defaultdict(list))
for number, document in enumerate(documents):
    for place, word in enumerate(document):
        index[word].add(number)
        positions[word][number].append(place)


# %%
def find(query):
    words = tokens(query)
    if not words:
        return frozenset()
    return frozenset.intersection(*(frozenset(index.get(word, ())) for word in words))


hits = {query: find(query) for query in ("fog harbour", "snow", "the mill road", "sun")}
print({query: sorted(found) for query, found in hits.items()})


# %%
def idf(word):
    return math.log((1 + len(documents)) / (1 + len(index[word]))) + 1


vocabulary = sorted(index)
weights = [
    {word: (document.count(word) / len(document)) * idf(word) for word in sorted(set(document))}
    for document in documents
]

# %%
# Asking a defaultdict is enough to change it.
ghost = index["thunder"]
size_before, size_after = len(vocabulary), len(index)
print(size_before, size_after)


# %%
def cosine(left, right):
    top = sum(left[word] * right[word] for word in sorted(left.keys() & right.keys()))
    norm = lambda vector: math.sqrt(sum(value * value for _, value in sorted(vector.items())))
    return top / (norm(left) * norm(right))


nearest = {}
for number, vector in enumerate(weights):
    scores = [(cosine(vector, other), n) for n, other in enumerate(weights) if n != number]
    nearest[number] = max(scores)
print({number: other for number, (_, other) in nearest.items()})

# %%
from sklearn.feature_extraction.text import TfidfVectorizer

vectorizer = TfidfVectorizer(stop_words=sorted(stop))
matrix = vectorizer.fit_transform(NOTES)
similar = (matrix @ matrix.T).toarray()
print(matrix.shape, matrix.nnz)

# %%
import numpy as np

np.fill_diagonal(similar, 0)
agree = [int(row.argmax()) == nearest[n][1] for n, row in enumerate(similar)]

# %%
counts.update(tokens("Thunder in the night, thunder over the mill"))
counts.subtract({"fog": 1})
ghost.add(len(NOTES))
print(counts["thunder"], index["thunder"])

# %%
bigrams = Counter()
for document in documents:
    bigrams.update(zip(document, document[1:]))
pairs = {pair for pair, count in bigrams.items() if count > 1}
by_letter = {letter: sorted(w for w in vocabulary if w[0] == letter) for letter in "fhmrsw"}


# %%
def suffixes(word):
    return {word[n:] for n in range(len(word))}


shared = set.union(*(suffixes(word) for word in by_letter["r"])) & suffixes("load")
index.default_factory = None
try:
    index["hail"]
except KeyError as problem:
    missing = problem.args[0]
