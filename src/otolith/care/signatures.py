"""Signatures: signs the pickles of current states with the current key, after it was rotated.

A repo reads what any of its keys has signed, and signs with the first. Before an old key is
forgotten, what it signed is signed anew: here, by one commit for each branch, and without loading a
pickle. What no key of this user has signed stays as it is, and is reported. History does not
change: commits from before hold signatures of the old key, and need it to be read.

Two kinds of signatures are stored: in a pickled value itself (`codecs/pickles.py`), and those of
the pickles of a workspace, in a table beside them (`workspace/variables.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from otolith.care.stale_values import (
    MigrationPlan,
    Progress,
    StaleValue,
    StaleValueSearch,
    ValueCounter,
    branch_refs,
    check_repo,
)
from otolith.codecs import Codecs
from otolith.core import WORKSPACE, BareRepo, Branch, Cells, Commit, Path, format_path
from otolith.errors import Denied, StaleRef, Unsupported, Untrusted
from otolith.types import Hash, Tag

_SIGNATURES = "signatures"
_MOST_RACES = 20  # that others win, before signing gives up
Signatures = Callable[[str, bytes], Sequence[bytes]]
"""Returns the signatures, by each key, of a content at a place; the first is the current one."""


class SignatureJudge:
    """Judges pickled values: one is stale that an older key has signed."""

    codes: tuple[Tag, ...] = (Tag.PICKLE,)

    def __init__(self, cells: Cells, codecs: Codecs) -> None:
        self._cells = cells
        self._codecs = codecs

    def stale_at(self, code: int, data: bytes, path: Path) -> StaleValue | None:
        """Return a pickled value with its type if an older key has signed it, or none of ours."""
        if code != Tag.PICKLE:
            return None
        stored = self._cells.load(data)
        name = str(stored[0]) if isinstance(stored, list) and stored else ""
        found = StaleValue(format_path(path), name, 0, name)
        try:
            return None if self._codecs.renewed_signature(stored) is None else found
        except Untrusted as error:
            return found.blocked(error)

    def inside(self, code: int, data: bytes) -> bytes | None:
        """Return None: in a pickle there are no stored values."""
        return None

    def renewed(self, loose: bytes, stale: StaleValue) -> bytes:
        """Return the cell of a pickled value with another signature; its bytes stay."""
        tagged = self._cells.tag(loose)
        assert tagged is not None
        assert isinstance(tagged.data, bytes)
        signature = self._codecs.renewed_signature(self._cells.load(tagged.data))
        assert signature is not None
        signed = self._cells.splice(tagged.data, 1, 2, [self._cells.put(signature)])
        return self._cells.tagged_cell(Tag.PICKLE, signed)

    def renewed_key(self, key: bytes, renew: Callable[[], bytes | None]) -> bytes:
        """Return a key of a map with another signature: its mark, and the encoding of its value."""
        return key[:1] + (renew() or key[1:])


def sign_anew(
    repo: BareRepo,
    *,
    session: str | None = None,
    branch: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> list[MigrationPlan]:
    """Sign with the current key what older ones have signed, by a commit for each branch.

    The plan of a branch has the pickles that were signed anew, or would be, and those that no key
    has signed, with the reason.

    Raises:
        RefNotFound: the session or branch does not exist.
        Denied: the repo was opened without a key.
        StaleRef: others keep committing; branches signed so far stay signed.
    """
    check_repo("sign_anew", repo)
    count = ValueCounter(progress, "signing")
    refs = branch_refs(repo, session, branch)
    return [_sign_branch(repo, ref, count, is_dry=dry_run) for ref in refs]


def _sign_branch(repo: BareRepo, ref: str, count: ValueCounter, *, is_dry: bool) -> MigrationPlan:
    """Sign a branch; again, if others have committed."""
    lost_races = 0
    while True:
        state = _BranchSignatures(repo, ref, count)
        values = tuple(state.stage())
        able = sum(not value.why for value in values)
        if not able or is_dry:
            return MigrationPlan(ref, values)
        try:
            return MigrationPlan(ref, values, state.land(able))
        except StaleRef:
            lost_races += 1
            if lost_races > _MOST_RACES:
                raise


class _BranchSignatures(Branch):
    """A branch whose pickles are signed anew."""

    _if_moved = "refuse"

    def __init__(self, repo: BareRepo, ref: str, count: ValueCounter) -> None:
        super().__init__(repo.backend, ref)
        codecs = repo.encoding.codec
        signatures: Signatures | None = getattr(repo, "signatures", None)
        if not isinstance(codecs, Codecs) or signatures is None:
            raise Unsupported(
                f"{type(repo).__name__} cannot sign pickles", hint="open it with otolith.open"
            )
        if not codecs.can_pickle:
            raise Denied("the repo was opened without a key", hint='use pickle="signed"')
        self._signatures = signatures
        self._search = StaleValueSearch(self.cells, SignatureJudge(self.cells, codecs), count=count)

    def stage(self) -> Iterator[StaleValue]:
        """Stage the state with signatures of the current key; yield what another one has signed."""
        root = self._root()
        yield from self._search.find(root)
        renewed = self._search.renewed(root)
        if renewed is not None:
            self._stage.reset(renewed)
        table = self.cell_at((WORKSPACE, _SIGNATURES))
        for key, cell in [*self.cells.entries(table)] if table is not None else ():
            place = str(self.cells.encoding.unkey(key))
            yield from self._stage_signature(place, self.cells.load(cell))

    def _stage_signature(self, place: str, stored: object) -> Iterator[StaleValue]:
        """Stage the signature of one pickle of the workspace, if it is not the current one."""
        name, _, key = place.partition("/")
        cell = self.cell_at((WORKSPACE, name, key))
        if cell is None:
            return
        made = self._signatures(place, self.cells.settle(cell))
        if stored == made[0]:
            return
        path: Path = (WORKSPACE, _SIGNATURES, place)
        found = StaleValue(format_path(path), "workspace", 0, "workspace")
        if stored in made:
            self._stage.put(path, self.cells.put(made[0]))
            yield found
        else:
            yield found._replace(why="it was signed with another key, or was altered")

    def land(self, count: int) -> Commit:
        """Commit what was signed anew."""
        reads = {} if self.head is None else self.head.reads
        commits = {
            ref: self._backend.graph.commit(Hash(bytes.fromhex(id))) for ref, id in reads.items()
        }
        message = f"sign {count} pickle{'s' if count > 1 else ''} anew"
        return self.commit(message, kind="migrate", reads=commits)
