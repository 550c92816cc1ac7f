"""Objects of a session unpickled in the process of the user, only ever because the user says so."""

from __future__ import annotations

from collections.abc import Sequence

from otolith.agent.workspace.conversation import Answers
from otolith.agent.workspace.worker.shadow import Shadow
from otolith.agent.workspace.worker.variables import Variables
from otolith.agent.workspace.worker.world import use
from otolith.codecs import Codecs
from otolith.types import Hash


class Beside:
    """What a worker would ask a host for, asked in the same process."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there."""
        found = zip(hashes, self._answers.read(list(hashes)), strict=True)
        return {hash: data for hash, data in found if data is not None}

    def map(self, cell: bytes) -> None:
        """Map nothing: what is loaded here belongs to the user's process."""

    def hand(self, objects: Sequence[bytes]) -> bool:
        """Hand nothing over: nothing is kept of what is done here."""
        return False

    def vouches(self, place: str, cell: bytes, signature: bytes) -> bool:
        """Tell whether a pickle was signed by this repo."""
        return self._answers.vouches(place, cell, signature)


def load(answers: Answers, config: bytes, roots: dict[str, bytes], name: str) -> object:
    """Return a variable, unpickled after its signature was checked."""
    host, codecs = Beside(answers), Codecs()
    shadow = Shadow(host, config, codecs)
    shadow.start(roots)
    variables = Variables(shadow, host, codecs, {})
    variables.namespace["__name__"] = "__main__"
    variables.namespace["__builtins__"] = __builtins__
    with use(variables.world):
        return variables.namespace[name]
