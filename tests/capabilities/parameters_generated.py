"""Parameters of collections, sequences and generated records."""

from __future__ import annotations

from typing import Any

import numpy as np

from flintstream import (
    CollectionSource,
    DataGeneratorSource,
    NumberSequenceSource,
    Types,
    choice,
    constant,
    integers,
    normal,
    sequence,
    timestamps,
    uniform,
)
from flintstream.errors import TypeMismatchError
from tests.capabilities.parameters import Bench, case, epochs_of
from tests.capabilities.parameters_sources import read


def generated(bench: Bench, **arguments: Any) -> list[Any]:
    arguments = {"fields": {"n": sequence()}, "count": 3, "splits": 1, **arguments}
    if arguments.get("generator") is not None:
        arguments.pop("fields")
    return [row if isinstance(row, int) else row.n for row in read(bench, DataGeneratorSource(**arguments))]


def epochs_at(bench: Bench, rate: float | None) -> bool:
    source = DataGeneratorSource(generator=lambda i: i, count=10, rate=rate, splits=1)
    return len(epochs_of(bench.env().from_source(source).map(str))) > 1


def splits_of(bench: Bench, splits: int) -> int:
    source = DataGeneratorSource(generator=lambda i: i, count=9, splits=splits)
    epochs = epochs_of(bench.env().from_source(source).uid("numbers").map(str))
    return len(epochs.manifests[-1].positions["numbers"])


def field_of(field: Any) -> list[Any]:
    return field.column(np.arange(1000), key=7).to_pylist()


def span(field: Any) -> tuple[int, int]:
    """Return the least and the greatest whole number below the values of a field."""
    values = field_of(field)
    return int(np.floor(min(values))), int(np.floor(max(values)))


def about(field: Any) -> tuple[int, int]:
    """Return mean and spread of a field's values, roughly."""
    values = field_of(field)
    return round(float(np.mean(values))), round(float(np.std(values)))


case("CollectionSource.__init__.collection", lambda b, c: read(b, CollectionSource(c)), ([1], [1]), ("ab", ["a", "b"]))
case(
    "CollectionSource.__init__.type_info",
    lambda b, t: read(b, CollectionSource([1], t)),
    (None, [1]),
    (Types.DOUBLE(), [1.0]),
    (Types.STRING(), TypeMismatchError),
)
case(
    "NumberSequenceSource.__init__.start",
    lambda b, n: sorted(read(b, NumberSequenceSource(n, 3))),
    (1, [1, 2, 3]),
    (3, [3]),
)
case(
    "NumberSequenceSource.__init__.end", lambda b, n: sorted(read(b, NumberSequenceSource(1, n))), (1, [1]), (2, [1, 2])
)
case(
    "DataGeneratorSource.__init__.fields",
    lambda b, f: generated(b, fields={"n": f}),
    (sequence(), [0, 1, 2]),
    (constant(4), [4, 4, 4]),
)
case(
    "DataGeneratorSource.__init__.generator",
    lambda b, g: generated(b, generator=g),
    (lambda i: i * i, [0, 1, 4]),
    (lambda i: -i, [0, -1, -2]),
)
case("DataGeneratorSource.__init__.count", lambda b, n: generated(b, count=n), (1, [0]), (2, [0, 1]))
case("DataGeneratorSource.__init__.rate", epochs_at, (None, False), (40.0, True))
case(
    "DataGeneratorSource.__init__.seed",
    lambda b, s: generated(b, fields={"n": uniform()}, seed=s) == generated(b, fields={"n": uniform()}, seed=1),
    (1, True),
    (2, False),
)
case("DataGeneratorSource.__init__.splits", splits_of, (1, 1), (3, 3))
case("sequence.start", lambda b, n: field_of(sequence(n))[:2], (0, [0, 1]), (5, [5, 6]))
case("uniform.low", lambda b, n: span(uniform(n, 10)), (0.0, (0, 9)), (8.0, (8, 9)))
case("uniform.high", lambda b, n: span(uniform(0, n)), (1.0, (0, 0)), (5.0, (0, 4)))
case("integers.low", lambda b, n: span(integers(n, 10)), (0, (0, 9)), (8, (8, 9)))
case("integers.high", lambda b, n: span(integers(0, n)), (1, (0, 0)), (5, (0, 4)))
case("normal.mean", lambda b, n: about(normal(n, 1)), (0, (0, 1)), (50, (50, 1)))
case("normal.std", lambda b, n: about(normal(0, n)), (0, (0, 0)), (1, (0, 1)))
case("choice.values", lambda b, v: sorted(set(field_of(choice(v)))), (["a"], ["a"]), (["a", "b"], ["a", "b"]))
case("choice.weights", lambda b, w: sorted(set(field_of(choice(["a", "b"], w)))), (None, ["a", "b"]), ([0, 1], ["b"]))
case("timestamps.start", lambda b, n: field_of(timestamps(n))[:2], (0, [0, 1]), (7, [7, 8]))
case("timestamps.step_ms", lambda b, n: field_of(timestamps(0, n))[:2], (1, [0, 1]), (10, [0, 10]))
case(
    "timestamps.jitter_ms",
    lambda b, t: sorted(field_of(timestamps(0, 1, t))) == field_of(timestamps(0, 1, t)),
    (0, True),
    ("1s", False),
)
case("constant.value", lambda b, v: field_of(constant(v))[:2], (1, [1, 1]), ("a", ["a", "a"]))
