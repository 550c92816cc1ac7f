"""The profile that a command works on: whose it is, opened, and how a change is committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import NamedTuple

import click

from otolith.cli.errors import terminal_error, with_terminal_hint
from otolith.cli.format.history import short_id
from otolith.cli.location import OpenBranch, command_line, find, only_state, open_current, open_repo
from otolith.cli.options import GlobalOptions
from otolith.core import Commit
from otolith.errors import KeyNotFound, NoConsent
from otolith.profiles import Profile


class OpenProfile(NamedTuple):
    """A profile, whose it is, and the branch of the user that it is on."""

    current: OpenBranch
    profile: Profile
    user: str

    def commit(self, message: str) -> Commit | None:
        """Commit what was changed; None if that was nothing."""
        branch = self.current.branch
        return None if branch.is_clean else branch.commit(message)

    def check_key(self, key: str) -> None:
        """Refuse a key of which nothing is known.

        Raises:
            KeyNotFound: it is one; the hint suggests the nearest that is known.
        """
        if key in self.profile:
            return
        near = get_close_matches(key, self.profile.keys(), n=1)
        hint = f"`otolith profile show {self.user}` lists what is known"
        hint = f"did you mean {near[0]}? {hint}" if near else hint
        hint = "--user names the user: omit the first word" if key == self.user else hint
        raise terminal_error(KeyNotFound, f"nothing is known of {key!r} of {self.user}", hint)


@contextmanager
def open_profile(
    options: GlobalOptions, ref: str = "@", *, read_only: bool = True, begins: bool = False
) -> Iterator[OpenProfile]:
    """Open the store and the profile of a user, at a commit if one is named.

    Raises:
        RefNotFound: there is no such user, unless the command `begins` one.
        Erased: the user was erased.
        UsageError: something else than a user is named.
    """
    options = with_user(options)
    with open_current(
        options, read_only=read_only, unstash=False, must_exist=not begins
    ) as current:
        found: Profile = current.branch.profile
        if ref != "@":
            found = found.at(current.commit(ref))
        opened = OpenProfile(current, found, current.branch.session)
        try:
            yield opened
        except NoConsent as error:
            allow = command_line(options, "profile", "consent", opened.user, error.purpose, "yes")
            error.hint = f"ask {opened.user}, then `{allow}`"
            raise with_terminal_hint(error) from None


def with_user(options: GlobalOptions) -> GlobalOptions:
    """Return the options with the user that they name, or the only one of the store.

    Raises:
        UsageError: something else is named.
        Invalid: nobody is named, and the store has no user, or several.
    """
    if options.session is None:
        with open_repo(find(options).url, read_only=True) as repo:
            return options.for_scope("user", only_state(repo, "user"))
    if options.scope != "user":
        raise click.UsageError(
            f"this works on a user, not on a {options.scope}\nname one: --user ID"
        )
    return options


def place_of(made: Commit | None) -> str:
    """Return the commit of a change, to stand after it."""
    return "  (nothing new)" if made is None else f"  [{short_id(made)}]"
