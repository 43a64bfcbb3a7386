"""Looks keys up in the queryable state of a job: through a manager, or straight in its checkpoint directory.

Both ways give the same answers, as JSON has them, because the manager does nothing but the second for whoever asks.

Flink: org.apache.flink.queryablestate.client.QueryableStateClient. Differs from Flink: an answer tells its epoch, keys
and values need no declared types, entries can be scanned by prefix and watched.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from flintstream.api.queryable_http import RemoteStates
from flintstream.engine.query import StateAnswer, StatePage, StateView
from flintstream.engine.query_names import KeyText
from flintstream.engine.query_watch import EVERYTHING, Watch
from flintstream.engine.savepoint_format import savepoint_storage
from flintstream.errors import InvalidArgumentError, describe

__all__ = ["KeyText", "QueryableStateClient", "StateAnswer", "StatePage"]
_LOOK_SECONDS = 0.05
"""How often a checkpoint directory is looked at for a newer manifest while someone watches."""


class _States(Protocol):
    """What answers: a view of a directory, or a manager."""

    def states(self) -> list[dict[str, Any]]: ...
    def get(
        self, name: str, keys: Sequence[Any], operator: str | None, window: Any, consistency: str
    ) -> list[StateAnswer]: ...
    def scan(self, name: str, prefix: Any, limit: int, after: str | None, operator: str | None) -> StatePage: ...
    def watch(
        self, name: str, key: Any, prefix: Any, operator: str | None, window: Any, since: int | None
    ) -> Iterator[StateAnswer]: ...


class QueryableStateClient:
    """Looks up state that a job has marked with `set_queryable(name)`.

    >>> from tempfile import TemporaryDirectory
    >>> from flintstream import QueryableStateClient, StreamExecutionEnvironment
    >>> folder = TemporaryDirectory()
    >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_checkpoint_dir(folder.name)
    >>> visits = env.from_collection([("ann", 1), ("bob", 1), ("ann", 2)]).key_by(0)
    >>> _ = visits.as_queryable_state("latest")
    >>> _ = env.execute("visits")
    >>> answer = QueryableStateClient(folder.name).get("latest", "ann")
    >>> answer.value, answer.committed
    (['ann', 2], True)
    >>> folder.cleanup()

    Args:
        address: The URL of a manager, such as "http://localhost:8081", or the checkpoint directory of a job.
        job: The job's id at the manager.
        token: The manager's token, if it demands one.
    """

    def __init__(self, address: str, *, job: str | None = None, token: str | None = None) -> None:
        self._states: _States
        if address.startswith(("http://", "https://")):
            if not job:
                raise InvalidArgumentError(describe("no job is named", address, "pass job=..., its id at the manager"))
            self._states = RemoteStates(address, job, token)
            return
        if job is not None or token is not None:
            what = "a job or a token is named, but a directory is of one job and asks for no token"
            raise InvalidArgumentError(describe(what, address, "leave both out, or pass the URL of a manager"))
        self._states = _StatesHere(StateView(savepoint_storage(address), address))

    def states(self) -> list[dict[str, Any]]:
        """Return which states can be looked up: operator, name, kind, whether keys have windows in it."""
        return self._states.states()

    def get(
        self,
        name: str,
        key: Any,
        *,
        operator: str | None = None,
        window: Any = None,
        consistency: str = "committed",
    ) -> StateAnswer:
        """Return what a key has.

        Args:
            name: The name under which the state is queryable.
            key: The key: a value such as the program's own, what JSON makes of it, or `KeyText` of what someone typed.
            operator: The uid or the name of its operator, if several have a state of that name.
            window: The start of a window in ms, or "start,end"; without it, all windows of the key are told.
            consistency: "committed", or "uncommitted" for what the running epoch has changed already, which may still
                come to nothing, of state that is marked so.
        """
        return self._states.get(name, [key], operator, window, consistency)[0]

    def get_many(
        self,
        name: str,
        keys: Sequence[Any],
        *,
        operator: str | None = None,
        window: Any = None,
        consistency: str = "committed",
    ) -> list[StateAnswer]:
        """Return what some keys have, all as of one epoch, in their order."""
        return self._states.get(name, keys, operator, window, consistency) if keys else []

    def scan(
        self,
        name: str,
        *,
        prefix: Any = None,
        limit: int = 100,
        after: str | None = None,
        operator: str | None = None,
    ) -> StatePage:
        """Return entries in the order of their keys, page by page.

        Args:
            name: The name under which the state is queryable.
            prefix: What keys begin with: text, or the first elements of a tuple.
            limit: How many entries a page has at most.
            after: What the page before says for `after`.
            operator: The uid or the name of its operator, if several have a state of that name.
        """
        return self._states.scan(name, prefix, limit, after, operator)

    def watch(
        self,
        name: str,
        key: Any = EVERYTHING,
        *,
        prefix: Any = None,
        operator: str | None = None,
        window: Any = None,
        since: int | None = None,
    ) -> Iterator[StateAnswer]:
        """Yield what a key has, or all keys with a prefix have, now and whenever an epoch has changed it; has no end.

        Args:
            name: The name under which the state is queryable.
            key: The key; without one, all that begin with `prefix` are watched.
            prefix: What keys begin with.
            operator: The uid or the name of its operator, if several have a state of that name.
            window: A window of the key.
            since: The epoch of the last answer of an earlier watch: what is still as it was then is not told again.
        """
        return self._states.watch(name, key, prefix, operator, window, since)


class _StatesHere:
    """State in a directory that this process reads itself."""

    def __init__(self, view: StateView) -> None:
        self._view = view

    def states(self) -> list[dict[str, Any]]:
        return [state.as_dict() for state in self._view.states()]

    def get(
        self, name: str, keys: Sequence[Any], operator: str | None, window: Any, consistency: str
    ) -> list[StateAnswer]:
        return self._view.get(name, keys, operator, window, consistency)

    def scan(self, name: str, prefix: Any, limit: int, after: str | None, operator: str | None) -> StatePage:
        return self._view.scan(name, prefix, limit, after, operator)

    def watch(
        self, name: str, key: Any, prefix: Any, operator: str | None, window: Any, since: int | None
    ) -> Iterator[StateAnswer]:
        watch = Watch(self._view, name, key, prefix, operator, window, since)
        return self._watched(watch)

    @staticmethod
    def _watched(watch: Watch) -> Iterator[StateAnswer]:
        while True:
            yield from watch.news()
            while not watch.may_have_news:
                time.sleep(_LOOK_SECONDS)
