"""A process that commits until it is killed, and says which commits were acknowledged.

python writer.py PATH NAME DURABILITY LIMIT
"""

from __future__ import annotations

import random
import sys

import otolith


def main(path: str, name: str, durability: str, limit: int) -> None:
    """Commit steps; print the number of each once its commit has returned."""
    repo = otolith.open(path, author=name, durability=durability)
    state = repo.session("job")
    chance = random.Random(name)
    done = state.get(f"done/{name}", 0)
    assert isinstance(done, int)
    log = state.list("events")
    for number in range(done + 1, done + limit + 1):
        state[f"done/{name}"] = number
        state[f"cell/{name}/{chance.randrange(300)}"] = [name, number, "x" * chance.randrange(300)]
        state.counter("total").add(1)
        log.append({"who": name, "number": number})
        state.commit(f"{name} {number}")
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
    repo.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
