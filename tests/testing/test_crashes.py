"""Crashes between any two lines: each is reached once, and what must be left in order is."""

from __future__ import annotations

import threading

from flintstream.testing.crashes import dies_at, home_of, steps_of

HOME = home_of(lambda: None)
LOCK = threading.Lock()


def work(done: list[str]) -> None:
    done.append("begun")
    for _ in range(2):
        with LOCK:
            done.append("held")
            done.append("still held")
    done.append("ended")


def test_every_line_is_a_step():
    assert steps_of(lambda: work([]), HOME) == 1 + 1 + 3 + 2 * 3 + 1


def test_each_step_ends_it_one_step_later_and_leaves_no_lock_behind():
    lengths = []
    for step in range(12):
        done: list[str] = []
        assert dies_at(step, lambda: work(done), HOME)  # noqa: B023 - called at once
        assert not LOCK.locked()
        lengths.append(len(done))
    assert lengths == sorted(lengths)
    assert set(lengths) == set(range(6))
    assert not dies_at(12, lambda: work([]), HOME)


def test_lines_elsewhere_are_no_steps():
    assert steps_of(lambda: work([]), "/elsewhere") == 0
