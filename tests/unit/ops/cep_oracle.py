"""What patterns mean, by trying everything: all ways to choose records for stages, and which of them are allowed.

Nothing here waits, shares or steps from record to record: a match is a list of (stage, index of a record), and each
pair of neighbours in it is judged by looking at the records between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flintstream.cep import AfterMatchSkipStrategy, Pattern, WithinType
from flintstream.model.cep_skip import SkipKind

Path = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Step:
    """A stage: takes the records in `letters`; `kind` is how it follows, `inner` how its own records do."""

    kind: str
    letters: str
    least: int = 1
    most: int | None = 1
    optional: bool = False
    inner: str = "followed_by"
    greedy: bool = False
    until: str = ""
    gap: int | None = None

    @property
    def negated(self) -> bool:
        return self.kind.startswith("not")

    @property
    def insatiable(self) -> bool:
        return self.greedy and self.least != self.most


def pattern_of(steps: Sequence[Step], skip: AfterMatchSkipStrategy | None = None, within: int | None = None) -> Pattern:
    """Return the pattern of these stages, named by their numbers."""
    pattern: Pattern | None = None
    for number, step in enumerate(steps):
        name = str(number)
        pattern = Pattern.begin(name, skip) if pattern is None else getattr(pattern, step.kind)(name)
        pattern = pattern.where(lambda value, letters=step.letters: value in letters)
        if (step.least, step.most) != (1, 1):
            pattern = pattern.times_or_more(step.least) if step.most is None else pattern.times(step.least, step.most)
            pattern = {"next": pattern.consecutive, "followed_by_any": pattern.allow_combinations}.get(
                step.inner, lambda chosen=pattern: chosen
            )()
        pattern = pattern.until(lambda value, letters=step.until: value in letters) if step.until else pattern
        pattern = pattern.greedy() if step.greedy else pattern
        pattern = pattern.optional() if step.optional else pattern
        pattern = pattern if step.gap is None else pattern.within(step.gap, WithinType.PREVIOUS_AND_CURRENT)
    assert pattern is not None
    return pattern if within is None else pattern.within(within)


class Oracle:
    """All partial and complete matches of a pattern in a sequence; the time of a record is its index."""

    def __init__(self, steps: Sequence[Step], text: str, within: int | None = None) -> None:
        self.steps, self.text = steps, text
        self.within = 10**9 if within is None else within
        self.paths: list[Path] = []
        for stage, index in self._beginnings():
            self._extend(((stage, index),))

    def _is(self, index: int, letters: str) -> bool:
        return self.text[index] in letters

    def _beginnings(self) -> Iterator[tuple[int, int]]:
        for index in range(len(self.text)):
            for stage, step in enumerate(self.steps):
                skipped = self.steps[:stage]
                guarded = stage > 0 and self._is_guarded(stage - 1, index, [index])
                if all(each.optional for each in skipped) and self._takes(step, index) and not guarded:
                    yield stage, index

    def _takes(self, step: Step, index: int) -> bool:
        return not step.negated and self._is(index, step.letters) and not self._is(index, step.until)

    def _is_guarded(self, before: int, first: int, seen: Sequence[int]) -> bool:
        """Whether a greedy stage wants one of the records seen since it was left at the record `first`."""
        step = self.steps[before]
        if not step.insatiable or (step.until and self._is(first, step.until)):
            return False
        return any(self._is(index, step.letters) for index in seen)

    def _extend(self, path: Path) -> None:
        self.paths.append(path)
        if self._is_cut(path):
            return
        stage = path[-1][0]
        for index in range(path[-1][1] + 1, len(self.text)):
            if index - path[0][1] >= self.within:
                return
            for target in range(stage, len(self.steps)):
                if self._may_follow(path, target, index):
                    self._extend((*path, (target, index)))

    def _is_cut(self, path: Path) -> bool:
        """Whether the last record, though taken, is forbidden: it may complete a match, and no more."""
        if len(path) == 1:
            return False
        (stage, _), (target, index) = path[-2:]
        return any(self._is(index, step.letters) for step in self._forbidden(stage, target))

    def _forbidden(self, stage: int, target: int) -> list[Step]:
        """Return what must not come on the way from a record of one stage to one of another."""
        if stage == target:
            following = self.steps[stage + 1 : stage + 2]
            return [step for step in following if step.kind == "not_followed_by"]
        return [step for step in self.steps[stage + 1 : target] if step.kind == "not_followed_by"]

    @property
    def _ends_with_absence(self) -> bool:
        return self.steps[-1].kind == "not_followed_by"

    def _is_absent(self, path: Path, until: int) -> bool:
        """Whether a partial match only waits for its time to be over, and nothing forbidden came up to `until`."""
        final, last = len(self.steps) - 1, path[-1][1]
        if not self._ends_with_absence or not self._can_leave(path, final):
            return False
        gap = range(last + 1, min(until + 1, len(self.text)))
        return not any(self._is(index, self.steps[final].letters) for index in gap)

    def _count(self, path: Path) -> int:
        return sum(stage == path[-1][0] for stage, _ in path)

    def _can_leave(self, path: Path, target: int) -> bool:
        stage = path[-1][0]
        between = self.steps[stage + 1 : target]
        return self._count(path) >= self.steps[stage].least and all(s.optional or s.negated for s in between)

    def _may_wait(self, path: Path, target: int, until: int) -> bool:
        """Whether a partial match may wait for `target` and leave out all records after its last up to `until`."""
        stage, last = path[-1]
        step, same = self.steps[target], stage == target
        gap = range(last + 1, min(until + 1, len(self.text)))
        if same:
            if step.most is not None and self._count(path) >= step.most:
                return False
        elif not self._can_leave(path, target):
            return False
        if step.gap is not None and until - last >= step.gap:
            return False
        if any(self._is(index, each.letters) for index in gap for each in self._forbidden(stage, target)):
            return False
        if gap and not self._next_allowed(path, last + 1):
            return False
        kind = step.inner if same else step.kind
        if kind == "next" and gap:
            return False
        if kind == "followed_by" and any(self._is(index, step.letters) for index in gap):
            return False
        if same:
            return not any(self._is(index, step.until) for index in gap)
        return not self._is_guarded(target - 1, last + 1, gap) if gap else True

    def _next_allowed(self, path: Path, index: int) -> bool:
        """Whether a record may come right after the last one."""
        stage = path[-1][0]
        for step in self.steps[stage + 1 :]:
            if step.kind == "not_next" and self._count(path) >= self.steps[stage].least:
                return not self._is(index, step.letters)
            if step.kind != "not_followed_by":
                break
        return True

    def _may_follow(self, path: Path, target: int, index: int) -> bool:
        stage, last = path[-1]
        gap = self.steps[target].gap
        if gap is not None and index - last >= gap:
            return False
        if not self._takes(self.steps[target], index) or not self._may_wait(path, target, index - 1):
            return False
        if index == last + 1 and not self._next_allowed(path, index):
            return False
        if self._is_cut((*path, (target, index))) and not self._completes((*path, (target, index))):
            return False
        return stage == target or not self._is_guarded(target - 1, last + 1, [index])

    def _completes(self, path: Path) -> bool:
        stage = path[-1][0]
        rest = self.steps[stage + 1 :]
        if rest and self._ends_with_absence:
            return False
        # A stage that is forbidden before others which may be left out does not keep a match waiting, as in Flink.
        enough = all(step.optional or step.kind == "not_followed_by" for step in rest)
        return self._count(path) >= self.steps[stage].least and enough

    def matches(self) -> list[tuple[int, Path]]:
        """Return all matches as (index of the record that completes it, path)."""
        found = [(path[-1][1], path) for path in self.paths if self._completes(path)]
        if self.steps[-1].kind == "not_next":
            final = len(self.steps) - 1
            for path in self.paths:
                index = path[-1][1] + 1
                in_time = index < len(self.text) and index - path[0][1] < self.within
                if in_time and self._can_leave(path, final) and self._next_allowed(path, index):
                    found.append((index, path))
        for path in self.paths:
            over = path[0][1] + self.within
            if self._is_absent(path, over - 1) and not self._is_cut(path):
                found.append((over, path))
        return found

    def is_alive(self, path: Path, index: int) -> bool:
        """Whether a partial match still waits for something after a record."""
        if path[-1][1] > index or self._is_cut(path) or index - path[0][1] >= self.within:
            return False
        if self._is_absent(path, index):
            return True
        targets = range(path[-1][0], len(self.steps))
        return any(
            self._may_wait(path, target, index)
            for target in targets
            if not self.steps[target].negated or index == path[-1][1]
        )


def check_skips(oracle: Oracle, skip: AfterMatchSkipStrategy, given: Sequence[tuple[int, Path]]) -> None:
    """Assert that `given`, in its order, is what a strategy leaves of all matches.

    Where several matches begin and end with the same records, any of them may come first.
    """
    dead: set[int] = set()
    waiting: list[Path] = []
    rest = list(given)
    for index in range(len(oracle.text) + max(0, min(oracle.within, 20))):
        waiting += [path for end, path in oracle.matches() if end == index and path[0][1] not in dead]
        while waiting:
            alive = {p[0][1] for p in oracle.paths if oracle.is_alive(p, index)} - dead
            first = min(path[0][1] for path in waiting)
            if any(start < first for start in alive):
                break
            assert rest, f"missing: one of {waiting} at {index}"
            end, path = rest.pop(0)
            assert end == index and path in waiting and path[0][1] == first, (index, path, waiting)
            waiting.remove(path)
            dead |= set(range(resume(path, skip)))
            waiting = [each for each in waiting if each[0][1] not in dead]
    assert rest == []


def resume(path: Path, skip: AfterMatchSkipStrategy) -> int:
    """Return the index of the first record with which a match may begin after this one."""
    of_stage = [index for stage, index in path if str(stage) == skip.pattern_name]
    match skip.kind:
        case SkipKind.TO_NEXT:
            return path[0][1] + 1
        case SkipKind.PAST_LAST_EVENT:
            return path[-1][1] + 1
        case SkipKind.TO_FIRST:
            return min(of_stage, default=0)
        case _:
            return max(of_stage, default=0)
