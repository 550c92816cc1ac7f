"""Texts as vectors: with a static model that is on this machine, and nothing is downloaded.

A static model has a vector for each word and takes their mean: no network, no card, some ten
thousand texts a second. What it makes of a text depends on the text alone, so a search with it
gives the same answer every time.

    chat.search("somewhere to sit", embed=embeddings("models/potion-base-8M"))
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from math import hypot
from pathlib import Path
from typing import Any

from otolith.agent.conversation.searching import Embed
from otolith.errors import MissingExtra, NotFound


def embeddings(place: str | os.PathLike[str]) -> Embed:
    """Return a function that gives texts vectors of length 1, with a static model of model2vec's.

    `place` is the folder of the model, or its name (`owner/name`) if it was downloaded before.

    Raises:
        MissingExtra: model2vec is not installed.
        NotFound: the model is not on this machine.
    """
    try:
        model2vec: Any = import_module("model2vec")
    except ImportError:
        hint = "pip install 'otolith[embeddings]'"
        raise MissingExtra("model2vec is not installed", hint=hint) from None
    folder = _folder(place)
    try:
        model = model2vec.StaticModel.from_pretrained(folder, force_download=False)
    except Exception as error:  # its parts are read by three libraries, each with errors of its own
        why = f"{folder} is no folder of a static model: {error}"
        raise NotFound(why, hint="give the folder that StaticModel.save_pretrained made") from error

    def embed(texts: Sequence[str]) -> list[list[float]]:
        made = model.encode(list(texts), use_multiprocessing=False)
        return [_of_length_one(vector.tolist()) for vector in made]

    return embed


def _folder(place: str | os.PathLike[str]) -> Path:
    """Return where a model is: a folder, or what was downloaded of that name last."""
    given = Path(place)
    if given.is_dir():
        return given.resolve()
    owner, _, name = str(place).partition("/")
    kept = _cache() / f"models--{owner}--{name}"
    chosen = kept / "refs" / "main"
    if name and chosen.is_file():
        folder = kept / "snapshots" / chosen.read_text().strip()
        if folder.is_dir():
            return folder
    raise NotFound(
        f"the model {place} is not on this machine, and nothing is downloaded here",
        hint=f"run model2vec.StaticModel.from_pretrained({str(place)!r}) once where there is"
        " a network, or give a folder",
    )


def _cache() -> Path:
    """Return where models are kept that were downloaded from Hugging Face."""
    if "HF_HUB_CACHE" in os.environ:
        return Path(os.environ["HF_HUB_CACHE"])
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    return Path(os.environ.get("HF_HOME", home)) / "hub"


def _of_length_one(vector: list[float]) -> list[float]:
    length = hypot(*vector)
    return [each / length for each in vector] if length else vector
