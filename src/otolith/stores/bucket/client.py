"""A bucket as this package uses it: calls through obstore, with errors of ours and no secrets.

    s3://bucket/prefix?region=…&endpoint=…      Amazon S3, MinIO and others that speak S3
    gs://bucket/prefix?endpoint=…               Google Cloud Storage
    az://container/prefix?account=…&endpoint=…  Azure Blob Storage

Credentials come from where the tools of each cloud look for them, such as AWS_ACCESS_KEY_ID; they
are not part of a URL. `timeout` (seconds, 10 if not given) bounds how long a call connects and is
repeated; one request that makes progress may take three times as long.

Rules
1. Calls are repeated by obstore with back-off and jitter, except for conditional puts: the second
   try of one that has landed would be refused. Without a reply its outcome is not known, and the
   caller finds out (`RootRegister.swap`).
2. Texts of obstore are cut to their first line and lose all secrets. Its exceptions are never
   chained, since they show requests in full.
3. The threads of obstore do not survive a fork, and a call would wait for ever: it is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotModifiedError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from otolith.errors import Denied, Error, Full, Invalid, StoreNotFound, Unavailable, Unsupported
from otolith.stores.server_url import check_options, secrets_of, split_url, without_secrets

_T = TypeVar("_T")
_U = TypeVar("_U")
_OPTIONS = {
    "s3": {"region": "region", "endpoint": "endpoint"},
    "gs": {"endpoint": "base_url"},
    "az": {"account": "account_name", "endpoint": "endpoint"},
}
"""By scheme: the options of a URL, and what obstore calls them."""

_TIMEOUT_SECONDS = 10.0
_CALLS_AT_ONCE = 16
_MULTIPART_BYTES = 8 << 20
_KEYS_AT_ONCE = 1000
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|specified bucket does not exist")
_NO_CREDENTIALS = re.compile(
    r"169\.254\.169\.254|/latest/(api/token|meta-data)|/computeMetadata/|/metadata/identity/"
    r"|token request"
)
_BAD_CREDENTIALS = re.compile(r"service account|credential error|pem file|Invalid Access Key")
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, the path of a key file",
    "az": "AZURE_STORAGE_ACCOUNT_KEY",
}
"""By scheme: the setting that most people use."""

_FULL = re.compile(r"status code: (507|413)|XMinioStorageFull|QuotaExceeded")


class Version(NamedTuple):
    """What a conditional put compares: one state of one key."""

    e_tag: str | None
    version: str | None


class StoredKey(NamedTuple):
    """A key in a listing. The time is that of the bucket."""

    key: str
    size: int
    modified: datetime


class Range(NamedTuple):
    """Some bytes of a key."""

    key: str
    start: int
    end: int


class _Runtime:
    """What this process knows: whether it is a fork that lacks the threads of obstore.

    `conditional` are buckets whose conditional puts it has tried.
    """

    def __init__(self) -> None:
        self.conditional: set[tuple[str, ...]] = set()
        self._started = False
        self._lost = False
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self._lost = self._started

    def check(self) -> None:
        """Raise Unsupported in a fork of a process that has used a bucket."""
        if self._lost:
            raise Unsupported(
                "this process was forked from one that used a bucket, and has lost its connections",
                hint="start processes with spawn, or open the bucket only after the fork",
            )
        self._started = True


_RUNTIME = _Runtime()


class BucketClient:
    """Gets, puts, lists and deletes the keys below the prefix of a URL.

    Raises:
        Invalid: the URL names no bucket, or has an option that its scheme does not have.
    """

    def __init__(self, url: str) -> None:
        self.name = without_secrets(url)
        self._secrets = secrets_of(url)
        parts = split_url(url)
        self.scheme = parts.scheme.lower()
        self._bucket = unquote(parts.netloc)
        names = _OPTIONS[self.scheme]
        options = check_options(url, {*names, "timeout"})
        if not self._bucket or "@" in self._bucket or ":" in self._bucket:
            raise Invalid(
                f"{self.name} does not name a bucket",
                hint=f"use {self.scheme}://bucket/prefix; credentials come from the environment",
            )
        timeout = _seconds(options.pop("timeout", None))
        self._place = (self.scheme, self._bucket, *sorted(options.values()))
        self._pool = ThreadPoolExecutor(_CALLS_AT_ONCE, thread_name_prefix="otolith-bucket")
        prefix = unquote(parts.path).strip("/")
        config = {names[name]: value for name, value in options.items()}
        self.timeout_seconds = timeout.total_seconds()
        self._store = self._calling(lambda: self._connect(prefix, config, timeout, retries=10))
        self._swapper = self._calling(lambda: self._connect(prefix, config, timeout, retries=0))

    def _connect(
        self, prefix: str, config: dict[str, str], timeout: timedelta, *, retries: int
    ) -> S3Store | GCSStore | AzureStore:
        kinds: dict[str, type[Any]] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
        client: dict[str, Any] = {"connect_timeout": timeout, "timeout": 3 * timeout}
        endpoint = config.get("endpoint") or config.get("base_url") or ""
        if endpoint.lower().startswith("http:"):
            client["allow_http"] = True
        found: S3Store | GCSStore | AzureStore = kinds[self.scheme](
            self._bucket,
            prefix=prefix or None,
            client_options=client,
            retry_config={
                "max_retries": retries,
                "retry_timeout": timeout,
                "backoff": {
                    "init_backoff": timedelta(milliseconds=50),
                    "max_backoff": timedelta(seconds=2),
                },
            },
            **config,
        )
        return found

    @property
    def software(self) -> str:
        """The service, or what imitates it."""
        return {"s3": "S3", "gs": "Google Cloud Storage", "az": "Azure Blob Storage"}[self.scheme]

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def get(
        self, key: str, unless: Version | None = None
    ) -> tuple[bytes, Version] | Version | None:
        """Return the bytes of a key and its version; the version alone if it is `unless`.

        An absent key is None.
        """
        options: Any = {"if_none_match": unless.e_tag} if unless and unless.e_tag else None

        def call() -> tuple[bytes, Version] | Version | None:
            try:
                found = obstore.get(self._store, key, options=options)
                return bytes(found.bytes()), _version(found.meta)
            except NotModifiedError:
                return unless
            except FileNotFoundError as error:
                self._check_bucket(error)
                return None

        return self._calling(call)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the values that are there, read in parallel."""
        found = self.parallel(self.get, keys)
        return {
            key: value[0]
            for key, value in zip(keys, found, strict=True)
            if value is not None and not isinstance(value, Version)
        }

    def get_ranges(self, ranges: Sequence[Range]) -> dict[Range, bytes] | None:
        """Return some bytes of some keys, read in parallel; None if one of the keys is absent."""
        by_key: dict[str, list[Range]] = {}
        for each in ranges:
            by_key.setdefault(each.key, []).append(each)
        found = self.parallel(lambda key: self._ranges_of(key, by_key[key]), list(by_key))
        if any(some is None for some in found):
            return None
        return {each: data for some in found if some is not None for each, data in some.items()}

    def _ranges_of(self, key: str, ranges: list[Range]) -> dict[Range, bytes] | None:
        def call() -> dict[Range, bytes] | None:
            try:
                found = obstore.get_ranges(  # neighbours are read together
                    self._store,
                    key,
                    starts=[each.start for each in ranges],
                    ends=[each.end for each in ranges],
                )
            except FileNotFoundError as error:
                self._check_bucket(error)
                return None
            return {each: bytes(data) for each, data in zip(ranges, found, strict=True)}

        return self._calling(call)

    def put_many(self, values: Mapping[str, bytes]) -> None:
        """Store values under keys that nobody else uses, in parallel."""
        self.parallel(lambda key: self._put(key, values[key]), list(values))

    def _put(self, key: str, value: bytes) -> None:
        def call() -> None:
            try:
                obstore.put(self._store, key, value, chunk_size=_MULTIPART_BYTES)
            except FileNotFoundError as error:
                self._check_bucket(error)
                raise Unavailable(f"{self.name}: {key} could not be stored") from None

        self._calling(call)

    def swap(self, key: str, old: Version | None, new: bytes) -> Version | None:
        """Put a value if the key is as it was (None: is absent); return its new version, or None.

        Raises:
            Unavailable: there was no answer. The put may have landed.
        """
        return self._swap(self._swapper, key, old, new)

    def _swap(
        self,
        store: S3Store | GCSStore | AzureStore,
        key: str,
        old: Version | None,
        new: bytes,
    ) -> Version | None:
        mode: Any = "create"
        if old is not None:
            mode = {name: value for name, value in old._asdict().items() if value is not None}

        def call() -> Version | None:
            try:
                return _version(obstore.put(store, key, new, mode=mode, use_multipart=False))
            except (AlreadyExistsError, PreconditionError):
                return None
            except FileNotFoundError as error:
                self._check_bucket(error)
                return None
            except (NotSupportedError, NotImplementedError):
                raise _unconditional(self.name, "does not have conditional puts") from None

        return self._calling(call)

    def delete_many(self, keys: Iterable[str]) -> None:
        """Remove keys; absent ones are ignored."""
        wanted = list(keys)
        for start in range(0, len(wanted), _KEYS_AT_ONCE):
            some = wanted[start : start + _KEYS_AT_ONCE]

            def call(some: list[str] = some) -> None:
                try:
                    obstore.delete(self._store, some)
                except FileNotFoundError as error:
                    self._check_bucket(error)

            self._calling(call)

    def list_keys(self) -> list[StoredKey]:
        """Return all keys below the prefix."""

        def call() -> list[StoredKey]:
            pages = obstore.list(self._store, chunk_size=_KEYS_AT_ONCE)
            return [
                StoredKey(meta["path"], meta["size"], meta["last_modified"])
                for page in pages
                for meta in page
            ]

        return self._calling(call)

    def modified(self, key: str) -> datetime:
        """Return when a key was put, by the clock of the bucket."""
        found: datetime = self._calling(lambda: obstore.head(self._store, key)["last_modified"])
        return found

    def check_conditional(self, key: str) -> None:
        """Try conditional puts on a key that nobody uses.

        Raises:
            Unsupported: the bucket ignores the conditions, so that writers would lose commits.
        """
        # May be repeated: each put is refused each time, or its value is read back.
        store = self._store
        try:
            first = self._calling(lambda: _version(obstore.put(store, key, b"first")))
            if first.e_tag is None:
                raise _unconditional(self.name, "gave a new key no ETag")
            if self._swap(store, key, None, b"second") is not None:
                raise _unconditional(self.name, "overwrites a key although If-None-Match forbids")
            self._swap(store, key, first, b"second")
            if self.get_many([key]) != {key: b"second"}:
                raise _unconditional(self.name, "does not overwrite a key although If-Match holds")
            if self._swap(store, key, first, b"third") is not None:
                raise _unconditional(self.name, "overwrites a key although If-Match forbids it")
        finally:
            self.delete_many([key])
        _RUNTIME.conditional.add(self._place)

    @property
    def is_proven(self) -> bool:
        """Whether this process has seen that the bucket heeds the conditions of puts."""
        return self._place in _RUNTIME.conditional

    def parallel(self, call: Callable[[_U], _T], arguments: Sequence[_U]) -> list[_T]:
        """Call a function with each argument, at the same time."""
        if len(arguments) == 1:
            return [call(arguments[0])]
        return list(self._pool.map(call, arguments))

    def _calling(self, call: Callable[[], _T]) -> _T:
        """Run a call, with failures of obstore as errors of ours that are not chained to them."""
        _RUNTIME.check()
        try:
            return call()
        except Error:
            raise
        except (BaseError, OSError, ValueError) as error:
            failure = self._translated(error)
        raise failure

    def _translated(self, error: Exception) -> Error:
        text = self._shown(error)
        if _NO_BUCKET.search(str(error)):
            return self._no_bucket()
        if isinstance(error, PermissionDeniedError | UnauthenticatedError):
            return Denied(f"{self.name}: {text}", hint="check the credentials and their rights")
        if _NO_CREDENTIALS.search(text):
            hint = f"set them in the environment, such as {_CREDENTIALS[self.scheme]}"
            return Denied(f"{self.name}: no credentials were found", hint=hint)
        if _BAD_CREDENTIALS.search(text):
            hint = f"check {_CREDENTIALS[self.scheme]}"
            return Denied(f"{self.name}: the credentials cannot be used: {text}", hint=hint)
        if isinstance(error, InvalidPathError) or "Could not parse path" in text:
            return Invalid(f"{self.name} has an invalid prefix: {text}", hint="use plain names")
        if "builder error" in text:
            return Invalid(
                f"{self.name}: the endpoint is not a URL of https",
                hint="an endpoint of http must be in the URL: ?endpoint=http://…",
            )
        if "ccount must be specified" in text:
            return Invalid(f"{self.name} does not name an account", hint="add ?account=NAME")
        if _FULL.search(text):
            return Full(f"{self.name}: {text}", hint="make room in the bucket")
        return Unavailable(f"{self.name}: {text}", hint="try again later")

    def _shown(self, error: Exception) -> str:
        text = str(error).strip().partition("\n")[0]
        text = re.sub(r"\?\S*", "", text)[:300]  # a query can be a signature
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _check_bucket(self, error: FileNotFoundError) -> None:
        """Raise StoreNotFound if what is absent is the whole bucket."""
        if _NO_BUCKET.search(str(error)):
            raise self._no_bucket() from None

    def _no_bucket(self) -> StoreNotFound:
        return StoreNotFound(
            f"{self.name}: there is no such bucket", hint="make it, or check its name"
        )


def _unconditional(name: str, why: str) -> Unsupported:
    return Unsupported(
        f"{name} {why}: two writers would overwrite each other",
        hint="use a bucket with conditional writes (If-None-Match and If-Match)",
    )


def _version(meta: Mapping[str, Any]) -> Version:
    return Version(meta["e_tag"], meta["version"])


def _seconds(text: str | None) -> timedelta:
    try:
        seconds = _TIMEOUT_SECONDS if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        raise Invalid(f"timeout must be a number of seconds, got {text!r}", hint="use timeout=10")
    return timedelta(seconds=seconds)
