"""Finds ways through a map of islands: dicts of sets, heaps, memo tables and networkx."""
# needs: networkx

# %%
import heapq
from collections import defaultdict, deque
from functools import cache

ferries = [
    ("Alva", "Brim", 4),
    ("Alva", "Cove", 2),
    ("Cove", "Brim", 1),
    ("Brim", "Dune", 5),
    ("Cove", "Dune", 8),
    ("Dune", "Eyre", 3),
    ("Fosse", "Gull", 1),
    ("Eyre", "Cove", 9),
]

# %%
graph = defaultdict(dict)
for one, other, hours in ferries:
    graph[one][other] = graph[other][one] = hours
islands = frozenset(graph)
print(len(islands))


# %%
def reachable(start):
    seen, ahead = {start}, deque([start])
    while ahead:
        for other in sorted(graph[ahead.popleft()]):
            if other not in seen:
                seen.add(other)
                ahead.append(other)
    return frozenset(seen)


groups = {reachable(island) for island in islands}
print(sorted(map(sorted, groups)))


# %%
def shortest(start):
    best, previous, heap = {start: 0}, {}, [(0, start)]
    while heap:
        far, at = heapq.heappop(heap)
        for other, hours in graph[at].items():
            if far + hours < best.get(other, float("inf")):
                best[other] = far + hours
                previous[other] = at
                heapq.heappush(heap, (far + hours, other))
    return best, previous


best, previous = shortest("Alva")
print(best)


# %%
def path(to):
    return [*path(previous[to]), to] if to in previous else [to]


routes = {island: path(island) for island in sorted(best)}
longest = max(routes.values(), key=len)

# %%
visited_by = defaultdict(set)
for island, route in routes.items():
    for stop in route:
        visited_by[stop].add(island)
hubs = {stop for stop, users in visited_by.items() if len(users) > 2}
print(sorted(hubs), longest is routes["Eyre"])

# %%
import networkx as nx

net = nx.Graph()
net.add_weighted_edges_from(ferries, weight="hours")
net.graph["name"] = "ferries"
nx.set_node_attributes(net, {island: len(island) for island in islands}, "letters")
print(net.number_of_edges(), nx.shortest_path_length(net, "Alva", "Eyre", weight="hours"))

# %%
tree = nx.minimum_spanning_tree(net, weight="hours")
central = nx.betweenness_centrality(net, weight="hours")
parts = [set(part) for part in nx.connected_components(net)]
net.nodes["Alva"]["visited"] = [1]
shared = net.nodes["Alva"]["visited"]
shared.append(2)


# %%
class Island:
    """A node with links both ways: a web of circles."""

    def __init__(self, name):
        self.name = name
        self.links = {}

    def connect(self, other, hours):
        self.links[other.name] = (hours, other)
        other.links[self.name] = (hours, self)


web = {name: Island(name) for name in sorted(islands)}
for one, other, hours in ferries:
    web[one].connect(web[other], hours)
home = web["Alva"]
print(home.links["Cove"][1].links["Dune"][1] is web["Dune"])


# %%
@cache
def trips(at, budget):
    return 1 + sum(
        trips(other, budget - hours)
        for other, hours in sorted(graph[at].items())
        if hours <= budget
    )


possible = {budget: trips("Alva", budget) for budget in (0, 4, 8, 12)}
print(possible)


# %%
def prune(net, limit):
    heavy = [(a, b) for a, b, h in net.edges(data="hours") if h > limit]
    net.remove_edges_from(heavy)
    return {frozenset(edge) for edge in heavy}


cut = prune(net, 5)
graph["Gull"]["Alva"] = graph["Alva"]["Gull"] = 6
joined = reachable("Fosse") == islands
home.links.pop("Brim")
print(sorted(sorted(edge) for edge in cut), joined, "Alva" in web["Brim"].links)
