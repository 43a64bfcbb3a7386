"""A seeded generator of records, for demos, tests and benchmarks.

Every field is a pure function of the seed, the field's name and the record's global index (a counter-based generator),
so any range can be made again, in any cut, in any process, and the records are the same whatever the parallelism.
Record `i` of split `s` has global index `i * splits + s`: all splits advance at the same pace through the sequence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.connectors.datagen_fields import Field
from flintstream.errors import InvalidArgumentError, SourceError, UserFunctionError, describe
from flintstream.model.connect import Split, SplitSource


class DataGeneratorSource(SplitSource):
    """Emits generated records: rows with one column for each of `fields`, or whatever `generator` returns.

    Example:
        >>> from flintstream.connectors.datagen_fields import choice, sequence, uniform
        >>> source = DataGeneratorSource(
        ...     {"id": sequence(), "sensor": choice(["a", "b"]), "celsius": uniform(18.0, 25.0)}, count=1000, seed=7
        ... )
        >>> splits = source.splits(2)
        >>> source.read(1, 0, 2).field("id").to_pylist()
        [1, 3]

    Args:
        fields: What to put into each named column.
        generator: Instead of fields: called with a global index, returns a record. It must be a pure function.
        count: How many records over all splits; None goes on for ever.
        rate: Wanted records per second over all splits; None is as fast as possible.
        seed: Another seed gives other records.
        splits: How many splits there are; None takes the parallelism at the job's first start. Set it for a job whose
            parallelism may change while it keeps its state: positions belong to splits.
    """

    def __init__(
        self,
        fields: Mapping[str, Field] | None = None,
        *,
        generator: Callable[[int], Any] | None = None,
        count: int | None = None,
        rate: float | None = None,
        seed: int = 0,
        splits: int | None = None,
    ) -> None:
        _check(fields, generator, count, rate, splits)
        self.fields = None if fields is None else dict(fields)
        self.generator = generator
        self.count = count
        self.seed = seed
        self._rate = rate
        self._fixed_splits = splits
        self._stride = splits
        self._keys = {name: _key(seed, name) for name in self.fields or ()}

    @property
    def is_bounded(self) -> bool:
        return self.count is not None

    def rate(self) -> float | None:
        return self._rate

    def splits(self, parallelism: int) -> Sequence[Split]:
        # Remembered, because a task that reads is told the split but not how many there are.
        stride = self._stride = self._fixed_splits or parallelism
        if self.count is None:
            return [Split(number) for number in range(stride)]
        return [Split(number, 0, (self.count - number + stride - 1) // stride) for number in range(stride)]

    def read(self, split: int, start: int, end: int) -> Any:
        if self._stride is None:
            what = "a data generator was read before its splits were made"
            raise SourceError(describe(what, remedy="call splits(parallelism) first, or give splits="))
        first, step = start * self._stride + split, self._stride
        if self.generator is not None:
            return self._call(self.generator, range(first, first + (end - start) * step, step))
        assert self.fields is not None
        indices = np.arange(start, end, dtype=np.int64) * step + split
        columns = [field.column(indices, self._keys[name]) for name, field in self.fields.items()]
        return pa.StructArray.from_arrays(columns, list(self.fields))

    def _call(self, generator: Callable[[int], Any], indices: range) -> list[Any]:
        try:
            return [generator(index) for index in indices]
        except Exception as error:
            raise UserFunctionError.from_exception(error, operator="DataGeneratorSource") from None


def _check(
    fields: Mapping[str, Field] | None,
    generator: Callable[[int], Any] | None,
    count: int | None,
    rate: float | None,
    splits: int | None,
) -> None:
    if (fields is None) == (generator is None) or (fields is not None and not fields):
        what = "a data generator takes either fields or a generator function"
        raise InvalidArgumentError(describe(what, remedy='give DataGeneratorSource({"id": sequence()}) or generator=f'))
    for name, field in (fields or {}).items():
        if not isinstance(field, Field):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user may give anything
            what = f"field {name!r} is {field!r}"
            raise InvalidArgumentError(
                describe(what, remedy="use sequence(), uniform(...), choice([...]), constant(...)")
            )
    if count is not None and count < 0:
        raise InvalidArgumentError(describe(f"count is {count}", remedy="give 0 or more, or None for no end"))
    if rate is not None and not rate > 0:
        raise InvalidArgumentError(describe(f"rate is {rate}", remedy="give records per second above 0, or None"))
    if splits is not None and splits < 1:
        raise InvalidArgumentError(describe(f"splits is {splits}", remedy="give 1 or more, or None"))


def _key(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest(), "little")
