"""What changes in queryable state from one manifest to the next, for those who watch a key, or all keys of a prefix.

Every epoch the watched entries are looked up again and compared with what was told before. So nothing depends on how
changes lie in files, an entry that changes back within an epoch is not told, and a watcher who was away is told the
newest state.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from flintstream.engine.query import StateAnswer, StateView
from flintstream.engine.query_names import LONGEST_PAGE
from flintstream.errors import InvalidArgumentError, describe

EVERYTHING = object()
"""Stands for no key: those of a prefix are watched."""


class Watch:
    """One who watches; `since` is the epoch that was told last, before this watch began."""

    def __init__(
        self,
        view: StateView,
        name: str,
        key: Any = EVERYTHING,
        prefix: Any = None,
        operator: str | None = None,
        window: Any = None,
        since: int | None = None,
    ) -> None:
        if key is EVERYTHING and window is not None:
            what = "a window is named, but no key"
            raise InvalidArgumentError(describe(what, remedy="name a key, or leave the window out"))
        self._view = view
        self._name = name
        self._key = key
        self._prefix = prefix
        self._operator = operator
        self._window = window
        self._told: dict[str, StateAnswer] = {}
        self._epoch = since

    @property
    def may_have_news(self) -> bool:
        """Whether there may be something new."""
        return self._epoch != self._view.known_epoch or not self._view.is_current

    def news(self) -> list[StateAnswer]:
        """Return what has changed; what is no longer there has nothing. At first, all there is."""
        answers, epoch = self._look()
        now = {json.dumps(answer.key, sort_keys=True): answer for answer in answers}
        changed = [answer for key, answer in now.items() if not _same(self._told.get(key), answer)]
        for key, answer in self._told.items():
            if key not in now:
                gone = StateAnswer(answer.operator, answer.name, answer.key, False, None, epoch, True)
                changed.append(gone)
        known_before = not self._told and self._epoch == epoch
        self._told = {key: answer for key, answer in now.items() if answer.found or self._key is not EVERYTHING}
        self._epoch = epoch
        return [] if known_before else changed

    def _look(self) -> tuple[Sequence[StateAnswer], int]:
        if self._key is not EVERYTHING:
            answers = self._view.get(self._name, [self._key], self._operator, self._window)
            return answers, answers[0].epoch
        page = self._view.scan(self._name, self._prefix, LONGEST_PAGE, None, self._operator)
        if page.after is not None:
            what = f"more than {LONGEST_PAGE:,} keys of {self._name!r} would be watched"
            raise InvalidArgumentError(describe(what, remedy="give a longer prefix, or a key"))
        return page.entries, page.epoch


def _same(told: StateAnswer | None, answer: StateAnswer) -> bool:
    return told is not None and (told.found, told.value) == (answer.found, answer.value)
