"""Joins each record with the rows that a system outside has for its key.

The keys of a batch that are not in the cache are asked for together: in one call if the function takes many, otherwise
one by one, so many at a time as it was given capacity for: `async def` lookups on an event loop, others in threads.
What was asked for in a batch counts as cached for the rest of it, so hits depend on the cuts only if room is short.

Flink: LookupJoinRunner and AsyncLookupJoinRunner with a caching provider.
Differs from Flink: without a cache each record asks, but records of one batch together; the cache is one per task.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import numpy as np

from flintstream.errors import JobError, describe
from flintstream.model.functions_join import JoinFunction
from flintstream.model.functions_lookup import AsyncLookupFunction, Lookup, LookupCache, answers_many, rows_of
from flintstream.model.joins_reference import JoinDeclaration, Tags
from flintstream.model.tags import OutputTag
from flintstream.ops.batch import Batch, expand
from flintstream.ops.context import OperatorRuntimeContext
from flintstream.ops.lookup_cache import CachedRows, Rows
from flintstream.ops.operator import Operator, OperatorContext, Output
from flintstream.ops.selectors import KeySource
from flintstream.ops.tagging import emit_tagged

T = TypeVar("T")


class LookupJoin(JoinDeclaration):
    """A lookup as it was declared.

    Args:
        how: "inner" or "left".
        lookup: What is asked.
        key: What it is asked for.
        cache: What is remembered, or None.
        retries: How often a lookup that fails is tried again.
        retry_delay_ms: How long to wait before.
        capacity: How many lookups may be under way at once.
    """

    def __init__(
        self,
        how: str,
        lookup: Lookup,
        key: KeySource,
        cache: LookupCache | None,
        retries: int,
        retry_delay_ms: int,
        capacity: int,
        function: JoinFunction,
        unmatched: Tags = (None, None),
    ) -> None:
        super().__init__(how, function, unmatched)
        self.lookup, self.key, self.cache = lookup, key, cache
        self.retries, self.retry_delay_ms, self.capacity = retries, retry_delay_ms, capacity

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.lookup.open(runtime_context)

    def close(self) -> None:
        self.lookup.close()
        super().close()


class LookupOperator(Operator):
    """Asks, remembers, joins; it has no keys and no state."""

    def __init__(self, join: LookupJoin) -> None:
        self._join = join
        self._cache = None if join.cache is None else CachedRows(join.cache)
        self._threads: ThreadPoolExecutor | None = None
        self._loop: asyncio.Runner | None = None
        self._lock = threading.Lock()

    def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        if isinstance(self._join.lookup, AsyncLookupFunction):
            # A thread of its own, because the user's program may have an event loop in this one.
            self._threads, self._loop = ThreadPoolExecutor(1), asyncio.Runner()
        elif self._join.capacity > 1:
            self._threads = ThreadPoolExecutor(self._join.capacity)
        self._join.open(OperatorRuntimeContext(ctx, keyed=False))

    def close(self) -> None:
        self._join.close()
        if self._threads is not None and self._loop is not None:
            self._threads.submit(self._loop.close).result()
        if self._threads is not None:
            self._threads.shutdown()

    def process(self, batch: Batch, port: int, out: Output) -> None:
        join, keeps_all = self._join.combine, self._join.how == "left"
        unmatched = None if self._join.unmatched[0] is None else OutputTag(self._join.unmatched[0])
        keys = self._join.key.keys(batch.values).rows()
        rows: list[Any] = []
        ends: list[int] = []
        for value, found in zip(batch.values.rows(), self._find(keys), strict=True):
            if found:
                rows.extend(join(value, row) for row in found)
            elif keeps_all:
                rows.append(join(value, None))
            elif unmatched is not None:
                rows.append((unmatched, value))
            ends.append(len(rows))
        emit_tagged(expand(batch, rows, np.fromiter(ends, np.int64, len(ends))), out)

    def _find(self, keys: Sequence[Any]) -> list[Rows]:
        """Return the rows of each key; None as a key has none, as in SQL, and is not asked for."""
        cache, now = self._cache, self._ctx.now
        if cache is None:
            asked = [key for key in keys if key is not None]
            answers = iter(self._ask(asked))
            self._ctx.count("lookup_misses", len(asked))
            return [() if key is None else next(answers) for key in keys]
        known: dict[Any, Rows | None] = {None: ()}
        missing: list[Any] = []
        for key in keys:
            if key not in known:
                known[key] = cache.get(key, now)
                if known[key] is None:
                    missing.append(key)
        for key, rows in zip(missing, self._ask(missing), strict=True):
            known[key] = rows
            cache.put(key, rows, now)
        forgotten = {key for key in missing if not known[key] and not cache.keeps_missing}
        misses = len(missing) - len(forgotten) + sum(key in forgotten for key in keys)
        self._ctx.count("lookup_misses", misses)
        self._ctx.count("lookup_hits", sum(key is not None for key in keys) - misses)
        return [known[key] or () for key in keys]

    def _ask(self, keys: Sequence[Any]) -> list[Rows]:
        """Return the rows of keys as the system outside has them now."""
        lookup = self._join.lookup
        if not keys:
            return []
        if isinstance(lookup, AsyncLookupFunction):
            assert self._threads is not None and self._loop is not None
            return self._threads.submit(self._loop.run, self._ask_all(lookup, keys)).result()
        if answers_many(lookup):
            return self._try(partial(self._ask_many, lookup.lookup_many, keys))
        calls = [partial(self._ask_one, lookup.lookup, key) for key in keys]
        if self._threads is None:
            return [self._try(call) for call in calls]
        return list(self._threads.map(self._try, calls))

    @staticmethod
    def _ask_one(lookup: Callable[[Any], Any], key: Any) -> Rows:
        return rows_of(lookup(key))

    def _ask_many(self, lookup_many: Callable[[Sequence[Any]], Any], keys: Sequence[Any]) -> list[Rows]:
        answers = list(lookup_many(list(keys)))
        if len(answers) != len(keys):
            what = f"lookup_many gave {len(answers)} answers to {len(keys)} keys"
            remedy = "return one for each key in their order, None for a key without rows"
            raise JobError(describe(what, f"operator {self._ctx.name!r}", remedy))
        return [rows_of(answer) for answer in answers]

    async def _ask_all(self, lookup: AsyncLookupFunction, keys: Sequence[Any]) -> list[Rows]:
        room = asyncio.Semaphore(self._join.capacity)

        async def ask(key: Any) -> Rows:
            async with room:
                left = self._join.retries
                while True:
                    try:
                        return rows_of(await lookup.lookup(key))
                    except Exception:
                        if not left:
                            raise
                    left -= 1
                    self._ctx.count("lookup_retries")
                    await asyncio.sleep(self._join.retry_delay_ms / 1000)

        calls = [asyncio.create_task(ask(key)) for key in keys]
        try:
            return list(await asyncio.gather(*calls))
        finally:
            # After a failure nothing shall go on behind the job's back.
            for call in calls:
                call.cancel()

    def _try(self, call: Callable[[], T]) -> T:
        """Call, and call again if it fails, as often as declared; the last failure is the user's to see."""
        left = self._join.retries
        while True:
            try:
                return call()
            except JobError:
                raise
            except Exception:
                if not left:
                    raise
            left -= 1
            with self._lock:
                self._ctx.count("lookup_retries")
            time.sleep(self._join.retry_delay_ms / 1000)
