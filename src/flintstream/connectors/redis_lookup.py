"""Values of Redis, looked up by key, for `lookup_join`: all keys of a batch in one question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import Formatter
from typing import Any

from flintstream.connectors.redis_client import RedisServer, library
from flintstream.errors import InvalidArgumentError, describe
from flintstream.model.functions_lookup import LookupFunction
from flintstream.model.location import refused

KEYS_AT_A_TIME = 10_000


class RedisLookup(LookupFunction):
    """Finds the value that Redis has under a key: a text, or with `is_hash` a dict of texts.

    Failures of the connection are tried again as `with_retries(...)` of the join says.

    Args:
        url: Where the server is: "redis://host:6379/0".
        key: How a key is written in Redis, as in "user:{}"; a key of several fields fills several braces.
        is_hash: Whether values are hashes.
        decode: A function that makes a row of a value, as `json.loads` does; bytes stay bytes with `bytes`.
        password: The password.
    """

    def __init__(
        self,
        url: str,
        key: str = "{}",
        *,
        is_hash: bool = False,
        decode: Callable[[Any], Any] | None = None,
        password: str | None = None,
    ) -> None:
        try:
            places = sum(field is not None for _, field, _, _ in Formatter().parse(key))
        except (ValueError, TypeError):
            places = 0
        if not places:
            raise refused(InvalidArgumentError, f"key is {key!r:.100}", 'write braces for the key, as in "user:{}"')
        if decode is not None and not callable(decode):
            raise refused(InvalidArgumentError, f"decode is {decode!r:.100}", "give a function, as json.loads")
        self._server, self._key, self._is_hash, self._decode = RedisServer.of(url, password), key, is_hash, decode

    def __repr__(self) -> str:
        return f"RedisLookup({self._key} at {self._server.place})"

    def lookup(self, key: Any) -> Any:
        return self.lookup_many([key])[0]

    def lookup_many(self, keys: Sequence[Any]) -> Sequence[Any]:
        names = [self._key.format(*key) if isinstance(key, tuple) else self._key.format(key) for key in keys]
        found: list[Any] = []
        try:
            for begin in range(0, len(names), KEYS_AT_A_TIME):
                found += self._ask(names[begin : begin + KEYS_AT_A_TIME])
        except library().RedisError as error:
            what = f"keys cannot be looked up in Redis at {self._server.place} ({self._server.reason_of(error)})"
            # No error of the job's: those are not tried again.
            raise ConnectionError(describe(what, remedy="see that it runs and lets us in")) from None
        return [None if value is None else [self._row(value)] for value in found]

    def _ask(self, names: Sequence[str]) -> list[Any]:
        client = self._server.client()
        if not self._is_hash:
            return client.mget(names)
        with client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hgetall(name)
            # A hash without fields is none at all.
            return [value or None for value in pipe.execute()]

    def _row(self, value: Any) -> Any:
        if self._decode is not None and not self._is_hash:
            return self._decode(value)
        if not self._is_hash:
            return value.decode()
        row = {name.decode(): each.decode() for name, each in value.items()}
        return row if self._decode is None else self._decode(row)
