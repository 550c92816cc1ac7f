"""URLs of stores on servers: their options, and how they are shown without secrets.

scheme://user:password@host:port/path?option=value&option=value
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import SplitResult, parse_qsl, urlsplit

from otolith.errors import Invalid

_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(:\d*)?")
_SECRET = re.compile(r"(?i)pass|secret|token|key")
_USERINFO = re.compile(r"(?<=//)([^/?#@]*?)(:[^/?#]*)?@")  # up to the last @ of the host part
_QUERY_SECRET = re.compile(r"(?i)([?&;][^=&;]*(?:pass|secret|token|key)[^=&;]*=)[^&;#\s]*")
# The same in a URL that is an option of another one, and so is quoted.
_INNER_USERINFO = re.compile(r"(?i)(%2F%2F(?:(?!%3A|%40|%2F)[^&#])*%3A)(?:(?!%2F)[^&#])*(%40)")
_INNER_SECRET = re.compile(
    r"(?i)((?:%3F|%26)(?:(?!%3D|%26)[^&#])*(?:pass|secret|token|key)(?:(?!%3D|%26)[^&#])*%3D)"
    r"(?:(?!%26)[^&#])*"
)


def without_secrets(url: str) -> str:
    """Return a URL that can be shown: passwords, tokens and keys in it are replaced by `***`."""
    if is_ambiguous(url):
        user = re.split("[:@]", url.partition("//")[2], maxsplit=1)[0]
        return f"{url.partition('//')[0]}//{user}:***@{url.rpartition('@')[2]}"
    shown = _USERINFO.sub(lambda found: f"{found[1]}{':***' if found[2] else ''}@", url)
    shown = _QUERY_SECRET.sub(r"\1***", shown)
    shown = _INNER_USERINFO.sub(r"\1***\2", shown)
    return _INNER_SECRET.sub(r"\1***", shown)


def is_ambiguous(url: str) -> bool:
    """Tell whether a password has a character in it that ends the host part, or begins it."""
    host = re.match(r"[A-Za-z][\w+.-]*://([^/?#]*)", url)
    if host is None or "@" not in url:
        return False
    if "@" in host[1]:
        return host[1].count("@") > 1
    return not all(_HOST.fullmatch(each) for each in host[1].split(","))


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        Invalid: its host is not one.
    """
    try:
        return urlsplit(url)
    except ValueError:  # which may show the password
        raise Invalid(
            f"{without_secrets(url)}: the host is not one",
            hint="write an IPv6 address as [::1], and other characters of a password as %5B",
        ) from None


def secrets_of(url: str) -> set[str]:
    """Return the passwords, tokens and keys in a URL, to remove them from messages of others."""
    found = split_url(url)
    userinfo = found.netloc.rpartition("@")[0]
    options = parse_qsl(found.query)
    secrets = {value for name, value in options if _SECRET.search(name)}
    return {secret for secret in {userinfo.partition(":")[2], *secrets} if secret}


def split_options(url: str, known: Collection[str]) -> tuple[str, dict[str, str]]:
    """Return a URL without the options in `known`, and those options.

    Raises:
        Invalid: an option is given twice.
    """
    parts = split_url(url)
    options: dict[str, str] = {}
    rest: list[str] = []
    for pair in filter(None, parts.query.split("&")):
        for name, value in parse_qsl(pair, keep_blank_values=True) or [(pair, "")]:
            if name not in known:
                rest.append(pair)
            elif name in options:
                raise Invalid(f"option {name} is given twice in the URL", hint="give it once")
            else:
                options[name] = value
    base = re.split("[?#]", url, maxsplit=1)[0]  # `urlunsplit` would make scheme:///x scheme:/x
    query = "?" + "&".join(rest) if rest else ""
    return base + query + (f"#{parts.fragment}" if parts.fragment else ""), options


def check_options(url: str, known: Collection[str]) -> dict[str, str]:
    """Return the options of a URL.

    Raises:
        Invalid: the URL has an option that is not known, or has one twice.
    """
    rest, options = split_options(url, known)
    unknown = [name for name, _ in parse_qsl(urlsplit(rest).query, keep_blank_values=True)]
    if unknown:
        scheme = split_url(url).scheme
        choices = ", ".join(sorted(known)) or "none"
        raise Invalid(f"{scheme}: has no option {unknown[0]!r}", hint=f"options are: {choices}")
    return options
