"""After a prune without expiry, the files of a store have nothing of what was dropped.

Needles are put everywhere: in names of sessions, branches and tags, in messages, keys, values and
notes, short and long, alone and in rows that are stored as differences. Which of them are kept is
asked of the repo itself, by walking everything that can be reached.
"""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

import otolith
from otolith.care import prune, verify
from tests.residue import residue

FEW = settings(max_examples=settings().max_examples // 4)

VERBS = ("write", "write", "write", "edit", "edit", "fork", "tag", "undo", "stash", "rollback",
         "drop branch", "drop tag", "copy", "prune")  # fmt: skip


class Program:
    """A random use of a repo, with needles."""

    def __init__(self, repo: otolith.Repo, seed: int) -> None:
        self.repo = repo
        self.chance = random.Random(seed)
        self.needles: list[str] = []
        self.branches: list[tuple[str, str]] = []
        self.tags: list[str] = []
        self.at = ("", "")

    def needle(self) -> str:
        self.needles.append("".join(self.chance.choices("bcdfghjklmnpqrstvwxz", k=24)))
        return self.needles[-1]

    def value(self) -> object:
        kind = self.chance.randrange(4)
        if kind == 0:
            return self.needle()
        if kind == 1:
            return {self.needle(): 1, "rest": [f"line {number}" for number in range(120)]}
        if kind == 2:
            return self.chance.randbytes(self.chance.randrange(9000)) + self.needle().encode()
        return [self.needle(), *range(self.chance.randrange(4000))]

    def handle(self) -> otolith.Versioned:
        if not self.branches or self.chance.random() < 0.25:
            self.branches.append((self.needle(), "main"))
            state = self.repo.session(self.branches[-1][0])
            state["first"] = self.value()
            state.commit(self.needle())
        self.at = self.chance.choice(self.branches)
        return self.repo.session(self.at[0], branch=self.at[1])

    def do(self, verb: str) -> None:
        {
            "write": self.write, "edit": self.edit, "fork": self.fork, "tag": self.tag,
            "undo": self.undo, "stash": self.stash, "rollback": self.rollback,
            "drop branch": self.drop_branch, "drop tag": self.drop_tag, "copy": self.copy,
            "prune": lambda: prune(self.repo, expire_seconds=0),
        }[verb]()  # fmt: skip

    def write(self) -> None:
        state = self.handle()
        state[self.needle() if self.chance.random() < 0.5 else "same"] = self.value()
        state.commit(self.needle())

    def edit(self) -> None:
        """Change a little of something long, which is then stored as a difference."""
        state = self.handle()
        state["doc"] = {"pin": self.needle(), "rest": [f"line {number}" for number in range(120)]}
        state.commit(self.needle())

    def fork(self) -> None:
        state = self.handle()
        name = self.needle()
        branch = state.fork(name)
        branch["forked"] = self.value()
        branch.commit(self.needle())
        self.branches.append((self.at[0], name))

    def tag(self) -> None:
        self.tags.append(self.needle())
        head = self.handle().head
        assert head is not None
        self.repo.tag(self.tags[-1], head)

    def undo(self) -> None:
        state = self.handle()
        if len(list(state.log())) > 1:
            try:
                state.undo()
            except otolith.NotFound:
                return  # a prune has forgotten what was before

    def stash(self) -> None:
        state = self.handle()
        state["shelved"] = self.value()
        state.stash()

    def rollback(self) -> None:
        state = self.handle()
        if len(list(state.log())) > 1:
            state.rollback(steps=1)

    def drop_branch(self) -> None:
        if self.branches:
            gone = self.branches.pop(self.chance.randrange(len(self.branches)))
            self.repo.delete_branch(*gone)

    def drop_tag(self) -> None:
        if self.tags:
            self.repo.delete_tag(self.tags.pop(self.chance.randrange(len(self.tags))))

    def copy(self) -> None:
        """Rewrite a session without its past, as the documentation tells."""
        state = self.handle()
        name = self.needle()
        fresh = self.repo.session(name)
        for key in state:
            fresh[key] = state[key]
        fresh.commit(self.needle())
        self.branches.append((name, "main"))
        self.branches.remove(self.at)
        self.repo.delete_branch(*self.at)


def everything(repo: otolith.Repo) -> str:
    """Return the text of all that can be reached."""
    parts: list[object] = [repo.tags().keys()]
    tips = list(repo.tags().values())
    for session in repo.sessions():
        parts += [session.id, *repo.branches(session.id)]
        tips += repo.branches(session.id).values()
    tips += [repo.backend.graph.commit(hash) for hash in repo.store.refs("stage/").values()]
    for commit in repo.backend.graph.log(*tips):
        parts += [commit.id, commit.message, dict(repo.at(commit).items())]
    return repr(parts)


@FEW
@given(st.integers(0, 1 << 32), st.lists(st.sampled_from(VERBS), min_size=4, max_size=24))
def test_nothing_of_what_was_dropped_is_left_in_any_file(tmp_path_factory, seed, verbs):
    path = tmp_path_factory.mktemp("erase") / "s.db"
    with otolith.open(path, durability="fast") as repo:
        program = Program(repo, seed)
        for verb in verbs:
            program.do(verb)
        before = everything(repo)
        done = prune(repo, expire_seconds=0)
        assert (done.erased, done.residue) == (True, "")
        assert everything(repo) == before
    dropped = [needle for needle in program.needles if needle not in before]
    assert residue(path, dropped) == set()
    with otolith.open(path) as repo:
        assert verify(repo, level="deep").problems == []
        assert everything(repo) == before
