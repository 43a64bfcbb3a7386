"""Keys of Redis as a sink: each record sets a key, or fields of a hash, or adds to a field of one.

At least once, tasks write while the epoch runs. What they write overwrites what was there, so an epoch that is run
again ends with the right values. A sink keeps the number of its newest epoch in Redis, and every script that writes
compares it first: a task that was thought dead, of an epoch that is over, can no longer overwrite newer values.

Exactly once, tasks stage, and after the commit the driver writes all keys of the epoch and its number in one
transaction: readers see all of an epoch or nothing, and adding to a counter is allowed.

Flink: it has no Redis connector of its own; Bahir's RedisSink is at least once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from flintstream.connectors.changes import kind_of, only_additions, record_of
from flintstream.connectors.fields import fields_of
from flintstream.connectors.redis_client import RedisServer, Template, as_text, failed, library, retrying
from flintstream.connectors.staged import NoCommitter, Shares, StagedBatches
from flintstream.errors import FencedError, InvalidArgumentError, SinkError, describe
from flintstream.model.connect import Committer, Sink, SinkWriter, WriterContext
from flintstream.model.delivery import AT_MOST_ONCE, DIRECT, EXACTLY_ONCE, Delivery, DeliveryGuarantee
from flintstream.model.location import refused
from flintstream.model.row import RowKind
from flintstream.model.time import DurationLike, to_millis

BATCH = 1000
MAX_RETRIES = 3
ADD = "HINCRBY"
SCHEMA = pa.schema([("verb", pa.string()), ("key", pa.binary()), ("arguments", pa.list_(pa.binary()))])
"""What is staged: a command of Redis in each row."""

_WHOLE = re.compile(rb"-?\d+")
# KEYS[1] holds the sink's newest epoch. Behind it come the commands, each with its key.
_FENCED = """
local newest = tonumber(redis.call('GET', KEYS[1]) or '-1')
local epoch = tonumber(ARGV[1])
if epoch < newest then return newest end
if epoch > newest then redis.call('SET', KEYS[1], ARGV[1]) end
local at = 2
for k = 2, #KEYS do
  local verb, count = ARGV[at], tonumber(ARGV[at + 1])
  local words = {verb, KEYS[k]}
  for i = 1, count do words[i + 2] = ARGV[at + 1 + i] end
  redis.call(unpack(words))
  at = at + 2 + count
end
return -1
"""


class Command(NamedTuple):
    """What a record does: a verb of Redis, a key, and what is behind them."""

    verb: str
    key: bytes
    arguments: list[bytes]


class RedisSink(Sink):
    """Writes to a Redis; made by `set`, `hash` or `increment`.

    Example:
        >>> sink = RedisSink.set("redis://localhost:6379/0", key="user:{name}", value="{score}")
        >>> sink, sink.delivery
        (RedisSink(SET at localhost:6379/0), 'at-least-once')
    """

    def __init__(
        self,
        server: RedisServer,
        verb: str,
        commands: Callable[[Any], list[Command]],
        delivery_guarantee: DeliveryGuarantee | None,
        max_retries: int,
    ) -> None:
        adds = verb == ADD
        usual = DeliveryGuarantee.EXACTLY_ONCE if adds else DeliveryGuarantee.AT_LEAST_ONCE
        guarantee = usual if delivery_guarantee is None else delivery_guarantee
        if not isinstance(guarantee, DeliveryGuarantee) or guarantee is DeliveryGuarantee.NONE:  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
            what = f"a sink of Redis cannot be {guarantee!r:.100}"
            remedy = "use EXACTLY_ONCE, AT_LEAST_ONCE or AT_MOST_ONCE of DeliveryGuarantee"
            raise refused(InvalidArgumentError, what, remedy)
        if adds and guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
            what = "what is added more than once does not come right again"
            raise refused(InvalidArgumentError, what, "use EXACTLY_ONCE, or write totals with hash(...)")
        if isinstance(max_retries, bool) or not isinstance(max_retries, int) or max_retries < 0:  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
            raise refused(InvalidArgumentError, f"max_retries is {max_retries!r:.100}", "give a number from 0 on")
        self.delivery, self.is_chosen, self.overwrites = guarantee.value, delivery_guarantee is not None, not adds
        self._server, self._verb, self._commands = server, verb, commands
        self._guarantee, self._retries = guarantee, max_retries

    @staticmethod
    def set(
        url: str,
        key: str | Callable[[Any], Any],
        value: str | Callable[[Any], Any],
        *,
        expire: DurationLike | None = None,
        password: str | None = None,
        delivery_guarantee: DeliveryGuarantee | None = None,
        max_retries: int = MAX_RETRIES,
    ) -> RedisSink:
        """Return a sink that sets a key to a value for each record.

        `key` and `value` are texts with the record's fields in braces, as in "user:{id}", or functions of a record.
        A key is gone `expire` after it was set last, if that is given, and with a `Row` or a `Change` of kind DELETE.
        """
        server, commands = RedisServer.of(url, password), _Set(Template("key", key), Template("value", value), expire)
        return RedisSink(server, "SET", commands, delivery_guarantee, max_retries)

    @staticmethod
    def hash(
        url: str,
        key: str | Callable[[Any], Any],
        fields: Sequence[str] | Callable[[Any], Any] | None = None,
        *,
        expire: DurationLike | None = None,
        password: str | None = None,
        delivery_guarantee: DeliveryGuarantee | None = None,
        max_retries: int = MAX_RETRIES,
    ) -> RedisSink:
        """Return a sink that sets fields of a hash for each record; the hash's other fields stay.

        `fields` names those of the record's that are written, all unless given, or is a function that returns a dict.
        A field that is None is taken out of the hash; a `Row` or a `Change` of kind DELETE removes the whole hash.
        """
        if fields is not None and not callable(fields) and (isinstance(fields, str) or not fields):
            remedy = "give a list of names, or a function"
            raise refused(InvalidArgumentError, f"fields is {fields!r:.100}", remedy)
        server, commands = RedisServer.of(url, password), _Hash(Template("key", key, True), fields, expire)
        return RedisSink(server, "HSET", commands, delivery_guarantee, max_retries)

    @staticmethod
    def increment(
        url: str,
        key: str | Callable[[Any], Any],
        field: str | Callable[[Any], Any],
        by: str | Callable[[Any], Any],
        *,
        password: str | None = None,
        delivery_guarantee: DeliveryGuarantee | None = None,
        max_retries: int = MAX_RETRIES,
    ) -> RedisSink:
        """Return a sink that adds a whole number to a field of a hash for each record; never more than once.

        `by` may be a number as text, "1" to count records.
        """
        is_number = isinstance(by, str) and _WHOLE.fullmatch(by.encode()) is not None
        templates = [Template("key", key, True), Template("field", field, True), Template("by", by, is_number)]
        server = RedisServer.of(url, password)
        return RedisSink(server, ADD, _Increment(*templates), delivery_guarantee, max_retries)

    def deliveries(self) -> tuple[Delivery, ...]:
        possible = (EXACTLY_ONCE, AT_MOST_ONCE, *([] if self._verb == ADD else [DIRECT]))
        return tuple(sorted(possible, key=lambda each: each.guarantee is not self._guarantee))

    def delivering(self, delivery: Delivery) -> RedisSink:
        return RedisSink(self._server, self._verb, self._commands, delivery.guarantee, self._retries)

    @property
    def _is_staged(self) -> bool:
        return self._guarantee is not DeliveryGuarantee.AT_LEAST_ONCE

    def create_writer(self, context: WriterContext) -> SinkWriter:
        if self._is_staged:
            return _StagingWriter(self._commands, context)
        return _DirectWriter(self._server, self._commands, self._retries, context)

    def create_committer(self) -> Committer:
        if self._is_staged:
            return RedisCommitter(self._server, self._retries)
        return NoCommitter()

    def __repr__(self) -> str:
        return f"RedisSink({self._verb} at {self._server.place})"


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _millis(expire: DurationLike | None) -> int | None:
    if expire is None:
        return None
    millis = to_millis(expire)
    if millis <= 0:
        raise refused(InvalidArgumentError, f"expire is {expire!r}", "give a length of time above 0")
    return millis


class _Set:
    def __init__(self, key: Template, value: Template, expire: DurationLike | None) -> None:
        self._key, self._value, self._expire = key, value, _millis(expire)

    def __call__(self, record: Any) -> list[Command]:
        kind, record = kind_of(record), record_of(record)
        if kind is RowKind.UPDATE_BEFORE:
            return []
        if kind is RowKind.DELETE:
            return [Command("DEL", _bytes(self._key(record)), [])]
        more = [] if self._expire is None else [b"PX", b"%d" % self._expire]
        return [Command("SET", _bytes(self._key(record)), [_bytes(self._value(record)), *more])]


class _Hash:
    def __init__(self, key: Template, fields: Any, expire: DurationLike | None) -> None:
        self._key, self._expire = key, _millis(expire)
        self._make: Any = fields if callable(fields) else None
        self._names = None if fields is None or callable(fields) else list(fields)

    def __call__(self, record: Any) -> list[Command]:
        kind, record = kind_of(record), record_of(record)
        if kind is RowKind.UPDATE_BEFORE:
            return []
        if kind is RowKind.DELETE:
            return [Command("DEL", _bytes(self._key(record)), [])]
        found: Mapping[str, Any] = fields_of(record) if self._make is None else self._make(record)
        names = list(found) if self._names is None else self._names
        missing = [name for name in names if name not in found]
        if missing:
            what = f"a record has no field {missing[0]!r}: {record!r:.200}"
            raise SinkError(describe(what, remedy="name fields that every record has"))
        key = _bytes(self._key(record))
        kept = [name for name in names if found[name] is not None]
        gone = [_bytes(as_text("field", name)) for name in names if found[name] is None]
        pairs = [
            _bytes(part) for name in kept for part in (as_text("field", name), as_text(f"field {name!r}", found[name]))
        ]
        commands = [Command("HSET", key, pairs)] if pairs else []
        commands += [Command("HDEL", key, gone)] if gone else []
        return commands if self._expire is None else [*commands, Command("PEXPIRE", key, [b"%d" % self._expire])]


class _Increment:
    def __init__(self, key: Template, field: Template, by: Template) -> None:
        self._key, self._field, self._by = key, field, by

    def __call__(self, record: Any) -> list[Command]:
        (record,) = only_additions([record], "write totals with hash(...) instead, or add a negative number")
        by = _bytes(self._by(record))
        try:
            number = int(by)
        except ValueError:
            number = 1 << 64
        if not -(1 << 63) <= number < 1 << 63:
            # Behind the commit it would be too late to refuse it.
            what = f"{by!r:.100} is not a whole number of 64 bits, and cannot be added"
            raise SinkError(describe(what, remedy="give a field with whole numbers as `by`"))
        return [Command("HINCRBY", _bytes(self._key(record)), [_bytes(self._field(record)), b"%d" % number])]


def epoch_key(incarnation: str, uid: str) -> str:
    """Return the key under which a sink's newest epoch is kept."""
    return f"flintstream:epoch:{incarnation}:{uid}"


class _DirectWriter(SinkWriter):
    def __init__(
        self, server: RedisServer, commands: Callable[[Any], list[Command]], retries: int, context: WriterContext
    ) -> None:
        self._server, self._commands, self._retries, self._context = server, commands, retries, context
        self._held: list[Command] = []

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        for value in values:
            self._held += self._commands(value)
            if len(self._held) >= BATCH:
                self._flush()

    def _flush(self) -> None:
        held, self._held = self._held, []
        if not held:
            return
        keys: list[Any] = [epoch_key(self._context.incarnation, self._context.uid), *(each.key for each in held)]
        words: list[Any] = [self._context.epoch]
        for each in held:
            words += [each.verb, len(each.arguments), *each.arguments]
        what = f"{len(held)} commands of epoch {self._context.epoch} cannot be written"
        try:
            newest = retrying(lambda: self._server.client().eval(_FENCED, len(keys), *keys, *words), self._retries)
        except library().RedisError as error:
            raise failed(what, error, self._server) from None
        if newest >= 0:
            what = f"epoch {self._context.epoch} of sink {self._context.uid!r} is over: Redis has seen epoch {newest}"
            raise FencedError(describe(what, remedy="leave it to the driver that has gone on"))

    def prepare_commit(self) -> Any:
        self._flush()


class _StagingWriter(SinkWriter):
    def __init__(self, commands: Callable[[Any], list[Command]], context: WriterContext) -> None:
        self._commands = commands
        self._staged = StagedBatches(context)

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        commands = [command for value in values for command in self._commands(value)]
        if commands:
            columns = zip(*commands, strict=True)
            arrays = [pa.array(column, each.type) for column, each in zip(columns, SCHEMA, strict=True)]
            self._staged.add(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))

    def prepare_commit(self) -> Any:
        return self._staged.committable()


class RedisCommitter(Committer):
    """Writes the commands of an epoch and its number in one transaction."""

    def __init__(self, server: RedisServer, retries: int) -> None:
        self._server, self._retries = server, retries

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        shares = Shares(committables)
        try:
            retrying(lambda: self._write(uid, epoch, shares), self._retries)
        except library().RedisError as error:
            what = f"epoch {epoch} cannot be written"
            raise failed(what, error, self._server) from None

    def _write(self, uid: str, epoch: int, shares: Shares) -> None:
        fence = epoch_key(shares.incarnation, uid)
        with self._server.client().pipeline(transaction=True) as pipe:
            while True:
                try:
                    # Should anyone else commit this sink before we do, the transaction is refused, and we look again.
                    pipe.watch(fence)
                    if int(pipe.get(fence) or -1) >= epoch:
                        return
                    self._check(pipe, _commands_of(shares))
                    pipe.multi()
                    for verb, key, arguments in _commands_of(shares):
                        pipe.execute_command(verb, key, *arguments)
                    pipe.set(fence, epoch)
                    pipe.execute()
                    return
                except library().WatchError:
                    continue

    def _check(self, pipe: Any, commands: Iterable[Command]) -> None:
        """Raise if a command would fail: Redis takes nothing back of a transaction in which one does.

        What was looked at is watched, so that it is still so when the transaction comes.
        """
        added: dict[tuple[bytes, bytes], int] = {}
        hashes: dict[bytes, None] = {}
        for verb, key, arguments in commands:
            if verb not in ("SET", "DEL"):
                hashes[key] = None
            if verb == "HINCRBY":
                place = (key, arguments[0])
                added[place] = added.get(place, 0) + abs(int(arguments[1]))
        if not hashes:
            return
        pipe.watch(*hashes)
        with self._server.client().pipeline(transaction=False) as ask:
            for key in hashes:
                ask.type(key)
            for key, kind in zip(hashes, ask.execute(), strict=True):
                if kind not in (b"hash", b"none"):
                    raise _unfit(key, f"is a {kind.decode()}, not a hash")
            for key, name in added:
                ask.hget(key, name)
            for ((key, name), most), found in zip(added.items(), ask.execute() if added else (), strict=True):
                if found is not None and (not _WHOLE.fullmatch(found) or abs(int(found)) + most >= 1 << 63):
                    raise _unfit(key, f"has {found!r:.50} in field {name!r:.50}, to which {most} cannot be added")


def _unfit(key: bytes, why: str) -> SinkError:
    what = f"the key {key!r:.100} {why}"
    return SinkError(describe(what, remedy="delete it, or write to another key, then start the job again"))


def _commands_of(shares: Shares) -> Iterator[Command]:
    for batch in shares.batches():
        for verb, key, arguments in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield Command(verb, key, arguments)
