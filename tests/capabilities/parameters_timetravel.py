"""Parameters of time travel, experiments and repair."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flintstream import (
    CollectSink,
    DictSink,
    FileSource,
    KeyedProcessFunction,
    Types,
    ValueStateDescriptor,
    compare_outputs,
    experiment,
    output_hash,
    positions_in,
    repair,
    what_if,
)
from flintstream.errors import IncompatibleStateError, InvalidArgumentError, SavepointError, UnknownUidError
from tests.capabilities.parameters import Bench, case
from tests.capabilities.support import Lists, collect
from tests.timetravel.log import FileLog, append, filled
from tests.timetravel.programs import orders, produced, totals

TEN = [(1000 * n, n) for n in range(10)]


def read(bench: Bench, **places: Any) -> list[Any]:
    return collect(bench.env().from_source(FileLog(filled(bench.folder() / "log", a=TEN)), **places))


def files(bench: Bench, start: int | None = None, end: int | None = None) -> list[str]:
    folder = bench.folder()
    for age, name in enumerate("abc"):
        (folder / name).write_text(f"{name}\n")
        os.utime(folder / name, (age, age))
    return collect(bench.env().from_source(FileSource.text(folder).modified_between(start, end)))


case(
    "StreamExecutionEnvironment.from_source.start_from",
    lambda b, t: read(b, until=8000, start_from=t),
    (6000, [6, 7]),
    ({"a": 7}, [7]),
)
case("StreamExecutionEnvironment.from_source.until", lambda b, t: read(b, until=t), (1000, [0]), ({"a": 2}, [0, 1]))
case("FileSource.modified_between.start", lambda b, t: files(b, t), (None, ["a", "b", "c"]), (1000, ["b", "c"]))
case("FileSource.modified_between.end", lambda b, t: files(b, None, t), (None, ["a", "b", "c"]), (1000, ["a"]))


def words(factor: int) -> Callable[[Any], None]:
    """Return a program with one record and two sinks."""

    def declare(env: Any) -> None:
        stream = env.from_source(Lists([("x", 1)])).uid("words").map(lambda row: (row[0], row[1] * factor)).uid("times")
        stream.sink_to(CollectSink()).uid("one")
        stream.map(lambda row: row[1]).uid("numbers").sink_to(CollectSink()).uid("two")

    return declare


X, Y = words(1), words(2)
A_ROWS, B_ROWS = [("x", 1), ("y", 1)], [("x", 1), ("y", 2)]


def counts(found: Any) -> tuple[int, int, int, int]:
    return found.same, len(found.only_a), len(found.only_b), len(found.different)


case(
    "compare_outputs.a",
    lambda b, rows: counts(compare_outputs(rows, B_ROWS, 0)),
    (A_ROWS, (1, 0, 0, 1)),
    ([], (0, 0, 2, 0)),
)
case(
    "compare_outputs.b",
    lambda b, rows: counts(compare_outputs(A_ROWS, rows, 0)),
    (B_ROWS, (1, 0, 0, 1)),
    ([], (0, 2, 0, 0)),
)
case(
    "compare_outputs.key",
    lambda b, key: counts(compare_outputs(A_ROWS, B_ROWS, key)),
    (0, (1, 0, 0, 1)),
    (None, (1, 1, 1, 0)),
)
case(
    "compare_outputs.names",
    lambda b, names: "only in Q" in str(compare_outputs([], [], names=names)),
    (("P", "Q"), True),
    (("P", "R"), False),
)
case(
    "compare_outputs.sink", lambda b, sink: str(compare_outputs([], [], sink=sink))[:3], ("abc", "abc"), ("xyz", "xyz")
)
case("output_hash.records", lambda b, rows: output_hash(rows)[:6], ([], "e3b0c4"), (["x"], output_hash(["x"])[:6]))
case(
    "output_hash.ordered",
    lambda b, o: output_hash("ab", ordered=o) == output_hash("ba", ordered=o),
    (True, False),
    (False, True),
)
case(
    "DictSink.__init__.key",
    lambda b, key: written(b, DictSink(key)),
    ("f0", ["x"]),
    (["f1"], [1]),
    ([], InvalidArgumentError),
)
case(
    "DictSink.__init__.table",
    lambda b, table: written(b, DictSink("f0", table)),
    (None, ["x"]),
    ({"old": {}}, ["old", "x"]),
)


def written(bench: Bench, sink: DictSink) -> list[Any]:
    env = bench.env()
    env.from_source(Lists([("x", 1)])).sink_to(sink)
    env.execute()
    return list(sink.table)


class Past:
    """A log, and a savepoint of a job that had read four orders of it; two more came since, the last a refund."""

    def __init__(self, bench: Bench) -> None:
        folder = bench.folder()
        self.log = filled(folder / "log", a=orders(1, 2, 3, 4))
        self.savepoint = produced(bench.env(), self.program(), folder / "savepoints")
        append(self.log, "a", orders(5, -1, start=4000))

    def program(self, is_right: bool = True, sink: Any = None) -> Callable[[Any], None]:
        return totals(self.log, CollectSink() if sink is None else sink, is_right)

    def other(self, env: Any) -> None:
        """A program without the savepoint's operators."""
        env.from_source(FileLog(self.log)).uid("orders").map(lambda order: order[1]).uid("m").sink_to(
            CollectSink()
        ).uid("out")


def paid(rows: list[Any]) -> list[int]:
    return [row["paid"] for row in rows]


def tried(bench: Bench, b: Any = None, **options: Any) -> list[int]:
    """Return what version B gave."""
    past = Past(bench)
    options = {name: given(past, value) for name, value in options.items()}
    found = experiment(bench.env(), past.program(), given(past, b) or past.program(), **options)
    return paid(found.outputs.of("B"))


def given(past: Past, value: Any) -> Any:
    return value(past) if callable(value) else value


def SAVED(past: Past) -> str:
    return past.savepoint


def alone(bench: Bench, program: Any = None, **options: Any) -> list[int]:
    past = Past(bench)
    options = {name: given(past, value) for name, value in options.items()}
    return paid(what_if(bench.env(), given(past, program) or past.program(), **options)["out"])


def epochs(bench: Bench, run: Callable[[Any], Any]) -> int:
    """Return how many epochs an environment saw."""
    seen: list[Any] = []
    env = bench.env(max_records=1)
    env.add_listener(lambda *_: seen.append(1))
    run(env)
    return len(seen)


def of_two(bench: Bench, env: Any) -> bool:
    return epochs(bench, lambda mine: experiment(mine if env == "it" else bench.env(), X, Y)) > 0


ALL, SINCE = [1, 2, 4, 6, 9, 5], [9, 5]
case("experiment.env", of_two, ("it", True), ("another", False))
case(
    "experiment.a",
    lambda b, p: counts(experiment(b.env(), p, Y).comparisons["one"]),
    (X, (0, 1, 1, 0)),
    (Y, (1, 0, 0, 0)),
)
case(
    "experiment.b",
    lambda b, p: counts(experiment(b.env(), X, p).comparisons["one"]),
    (Y, (0, 1, 1, 0)),
    (X, (1, 0, 0, 0)),
)
case(
    "experiment.key",
    lambda b, key: counts(experiment(b.env(), X, Y, key=key).comparisons["one"]),
    (None, (0, 1, 1, 0)),
    ({"one": 0}, (0, 0, 0, 1)),
)
case("experiment.savepoint", lambda b, path: tried(b, savepoint=path), (None, ALL), (SAVED, SINCE))
case(
    "experiment.start_from",
    lambda b, t: tried(b, start_from=t),
    (None, ALL),
    (4000, [5, -1]),
    ({"orders": {"a": 5}}, [-1]),
)
case("experiment.until", lambda b, t: tried(b, until=t), ("now", ALL), (2000, [1, 2]), ({"a": 1}, [1]))
case(
    "experiment.names",
    lambda b, n: next(iter(experiment(b.env(), X, Y, names=n).outputs.by_sink)),
    (("A", "B"), ("A", "one")),
    (("P", "Q"), ("P", "one")),
)


def into(bench: Bench, place: str) -> Any:
    sink = CollectSink()
    experiment(bench.env(), X, Y, into={place: sink})
    return sink.results


case("experiment.into", into, ("A:one", [("x", 1)]), ("B:two", [2]))


def orphans(bench: Bench, run: Callable[[Any, Past], Any]) -> Any:
    past = Past(bench)
    return run(bench.env(), past)


def without_totals(allowed: bool) -> Callable[[Any, Past], Any]:
    options = {"allow_non_restored_state": allowed}
    return lambda env, past: experiment(env, past.other, past.other, savepoint=past.savepoint, **options).outputs.of(
        "A"
    )


case(
    "experiment.allow_non_restored_state",
    lambda b, allowed: orphans(b, without_totals(allowed)),
    (False, UnknownUidError),
    (True, [5, -1]),
)
case(
    "positions_in.savepoint",
    lambda b, path: positions_in(path(b)),
    (lambda b: Past(b).savepoint, {"orders": {"a": 4}}),
    (lambda b: str(b.folder()), SavepointError),
)
case(
    "what_if.env",
    lambda b, e: epochs(b, lambda mine: what_if(mine if e == "it" else b.env(), X)) > 0,
    ("it", True),
    ("other", False),
)
case("what_if.program", lambda b, p: what_if(b.env(), p)["one"], (X, [("x", 1)]), (Y, [("x", 2)]))
case("what_if.savepoint", lambda b, path: alone(b, savepoint=path), (None, ALL), (SAVED, SINCE))
case("what_if.start_from", lambda b, t: alone(b, start_from=t), (None, ALL), (4000, [5, -1]))
case("what_if.until", lambda b, t: alone(b, until=t), ("now", ALL), ({"orders": 2000}, [1, 2]))


def elsewhere(bench: Bench, uid: str) -> list[Any]:
    sink = CollectSink()
    what_if(bench.env(), X, into={uid: sink})
    return sink.results


case("what_if.into", elsewhere, ("one", [("x", 1)]), ("two", [1]))
case(
    "what_if.allow_non_restored_state",
    lambda b, allowed: orphans(
        b, lambda env, past: what_if(env, past.other, savepoint=past.savepoint, allow_non_restored_state=allowed)["out"]
    ),
    (False, UnknownUidError),
    (True, [5, -1]),
)
HELD = [{"customer": "bob", "paid": 4}, {"customer": "eve", "paid": 1}]


def mended(
    bench: Bench, is_right: bool = True, run: Callable[..., Any] = repair, **options: Any
) -> list[tuple[str, str, Any]]:
    """Return the corrections: what is done to which customer, and what is paid then."""
    past = Past(bench)
    options = {"key": "customer", "holds": HELD, **{name: given(past, value) for name, value in options.items()}}
    found = run(bench.env(), past.program(is_right), **options)
    return [(each.kind, each.key[0], each.now and each.now["paid"]) for each in found.corrections]


FOUND = [("update", "bob", 9), ("insert", "ann", 5)]


def chosen(bench: Bench, sink: str) -> list[Any]:
    return [
        each.now
        for each in repair(bench.env(), X, sink=sink, holds=[], key="f0" if sink == "one" else "value").corrections
    ]


def keyed(bench: Bench, key: Any) -> list[Any]:
    return [each.key for each in repair(bench.env(), X, sink="one", holds=[], key=key).corrections]


def applied(bench: Bench, apply: bool) -> dict[Any, Any]:
    sink = DictSink("customer")
    repair(bench.env(), Past(bench).program(sink=sink), apply=apply)
    return {name: row["paid"] for name, row in sink.table.items()}


def hiding(word: str) -> Callable[[Any], None]:
    def declare(env: Any) -> None:
        rows = env.from_source(Lists([("x", 1), ("z", 1)])).uid("words")
        rows.filter(lambda row: row[0] != word).uid("f").sink_to(CollectSink()).uid("one")

    return declare


def removed(bench: Bench, wrong: Any) -> list[str]:
    found = repair(bench.env(), hiding("z"), wrong=wrong, holds=[("x", 1), ("z", 1)], key="f0")
    return [each.key[0] for each in found.corrections if each.kind == "delete"]


case(
    "repair.env",
    lambda b, e: epochs(b, lambda mine: repair(mine if e == "it" else b.env(), X, sink="one", holds=[], key="f0")) > 0,
    ("it", True),
    ("other", False),
)
case(
    "repair.program",
    lambda b, right: mended(b, right),
    (True, FOUND),
    (False, [("update", "bob", 9), ("insert", "ann", 7)]),
)
case("repair.sink", chosen, ("one", [{"f0": "x", "f1": 1}]), ("two", [{"value": 1}]))
case("repair.key", keyed, ("f0", [("x",)]), (["f0", "f1"], [("x", 1)]), (None, InvalidArgumentError))
case(
    "repair.savepoint",
    lambda b, path: mended(b, savepoint=path, until={"a": 4}),
    (None, [("insert", "ann", 6)]),
    (SAVED, []),
)
case(
    "repair.start_from",
    lambda b, t: mended(b, start_from=t),
    (None, FOUND),
    (4000, [("update", "bob", 5), ("insert", "ann", -1)]),
)
case("repair.until", lambda b, t: mended(b, until=t), ("now", FOUND), ({"a": 4}, [("insert", "ann", 6)]))
case("repair.wrong", removed, (None, []), (hiding(""), ["z"]))
case(
    "repair.holds",
    lambda b, rows: mended(b, holds=rows),
    (HELD, FOUND),
    ([], [("insert", "bob", 9), ("insert", "ann", 5)]),
)
case(
    "repair.covers",
    lambda b, yes: mended(b, covers=lambda past: lambda row: yes),
    (False, FOUND),
    (True, [*FOUND, ("delete", "eve", None)]),
)
case("repair.apply", applied, (False, {}), (True, {"bob": 9, "ann": 5}))
case(
    "repair.allow_non_restored_state",
    lambda b, allowed: orphans(
        b,
        lambda env, past: len(
            repair(
                env, past.other, savepoint=past.savepoint, allow_non_restored_state=allowed, holds=[], key="value"
            ).corrections
        ),
    ),
    (False, UnknownUidError),
    (True, 2),
)


class Keeps(KeyedProcessFunction):
    """Keeps an object whose class is nobody's module, so that state brings its code."""

    def open(self, runtime_context: Any) -> None:
        self._kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        class Odd:
            def __init__(self, n: int) -> None:
                self.n = n

        last = self._kept.value()
        self._kept.update(Odd(value[1]))
        yield {"n": 0 if last is None else last.n}


def keeping(log: Path) -> Callable[[Any], None]:
    def declare(env: Any) -> None:
        kept = env.from_source(FileLog(log)).uid("orders").key_by(lambda order: order[0]).process(Keeps()).uid("kept")
        kept.sink_to(CollectSink()).uid("out")

    return declare


def trusting(bench: Bench, run: Callable[..., list[Any]], trust: bool) -> list[Any]:
    folder = bench.folder()
    log = filled(folder / "log", a=orders(7))
    savepoint = produced(bench.env(), keeping(log), folder / "savepoints")
    append(log, "a", orders(8))
    return run(bench.env(), keeping(log), savepoint=savepoint, trust=trust)


def last_kept(env: Any, program: Any, **options: Any) -> list[Any]:
    return experiment(env, program, program, **options).outputs.of("A")


def last_mended(env: Any, program: Any, **options: Any) -> list[Any]:
    return [each.now for each in repair(env, program, holds=[], key="n", **options).corrections]


TRUSTED = (False, IncompatibleStateError), (True, [{"n": 7}])
case("experiment.trust", lambda b, trust: trusting(b, last_kept, trust), *TRUSTED)
case("what_if.trust", lambda b, trust: trusting(b, lambda *a, **o: what_if(*a, **o)["out"], trust), *TRUSTED)
case("repair.trust", lambda b, trust: trusting(b, last_mended, trust), *TRUSTED)
