"""Functions of many records at once, as columns: for those who want numpy's, pandas' or Arrow's speed.

Flink: PyFlink has vectorised functions in its Table API only (`udf(func_type="pandas")`). Here a function is marked by
`@vectorized("arrow")` and given to `map`, `filter` or `flat_map` like any other; an aggregate is an object of its own,
since it has three steps. How many records come at a time means nothing and is not for a function to see: rows must be
treated independently of each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.functions import Function
from flintstream.model.location import refused
from flintstream.model.typeinfo import TypeInformation
from flintstream.model.types import to_type_info

Format = Literal["arrow", "pandas", "numpy"]
FORMATS: tuple[Format, ...] = ("arrow", "pandas", "numpy")
Columns = Mapping[str, pa.Array]


def vectorized(format: Format, input_type: Any = None) -> Callable[[Any], Vectorized]:
    """Mark a function as one of many records at once, and say in what form it wants them.

    Records with fields come as a `pyarrow.RecordBatch`, a `pandas.DataFrame` (of nullable types) or a dict of numpy
    arrays; the fields of tuples are called `f0`, `f1` and so on. Plain values come as an `Array`, a `Series` or an
    array. Results are of the same forms, and records stay dicts, tuples, rows or dataclasses.

    >>> from flintstream import StreamExecutionEnvironment, vectorized
    >>> @vectorized("numpy")
    ... def celsius(fahrenheit):
    ...     return (fahrenheit - 32) / 1.8
    >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    >>> list(env.from_collection([32.0, 212.0]).map(celsius).execute_and_collect())
    [0.0, 100.0]

    Args:
        format: "arrow", "pandas" or "numpy".
        input_type: the type of the records; needed where fields may be None or numbers of several kinds, so that a
            column has one type whatever else came with it. A type declared for the stream does as well.
    """
    if format not in FORMATS:
        what = f"there is no format {format!r:.100}"
        raise refused(InvalidArgumentError, what, 'use "arrow", "pandas" or "numpy"')
    declared = to_type_info(input_type)
    return lambda function: Vectorized(function, format, declared)


class Vectorized(Function):
    """A function, or an object with `map`, `filter` or `flat_map`, that takes columns; made by `@vectorized(...)`.

    `known` is the type of the stream it stands behind, as far as that is known.
    """

    def __init__(
        self,
        function: Any,
        format: Format,
        input_type: TypeInformation | None = None,
        known: TypeInformation | None = None,
    ) -> None:
        if not callable(function) and not isinstance(function, Function):
            what, remedy = f"{function!r:.200} is no function", "put @vectorized(...) before a `def`"
            raise refused(TypeMismatchError, what, remedy)
        if isinstance(function, type):
            remedy = f"write vectorized(...)({cast('type[Any]', function).__name__}())"
            raise refused(TypeMismatchError, f"{function!r:.200} is a class, not an object", remedy)
        self.function: Any = function
        self.format: Format = format
        self.input_type = input_type
        self.known = known
        if not isinstance(function, Function):
            update_wrapper(self, function, updated=())

    def __call__(self, *arguments: Any) -> Any:
        """Call the function itself, as a test may want to."""
        return self.function(*arguments)

    def open(self, runtime_context: Any) -> None:
        if isinstance(self.function, Function):
            self.function.open(runtime_context)

    def close(self) -> None:
        if isinstance(self.function, Function):
            self.function.close()

    def entry(self, method: str) -> Callable[[Any], Any]:
        """Return what to call with columns in place of a function's `method`."""
        if not isinstance(self.function, Function):
            return self.function
        found = getattr(self.function, method, None)
        if found is None:
            what = f"{type(self.function).__name__} has no method {method!r}"
            raise refused(TypeMismatchError, what, f"write `def {method}(self, ...)`")
        return found

    def __repr__(self) -> str:
        return f"vectorized({self.format!r})({getattr(self.function, '__qualname__', self.function)})"


class Groups:
    """Which rows belong together: row i to group `codes[i]`, of which there are `count`."""

    def __init__(self, codes: npt.NDArray[np.int64], count: int) -> None:
        self.codes = codes
        self.count = count

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return how many rows each group has."""
        return np.bincount(self.codes, minlength=self.count)

    def joined(self, lists: pa.Array) -> pa.Array:
        """Return one list for each group: the lists of its rows one behind the other."""
        rows = pc.call_function("list_parent_indices", [lists]).to_numpy()
        owners, items = self.codes[rows], lists.flatten()
        offsets = np.zeros(self.count + 1, np.int64)
        np.cumsum(np.bincount(owners, minlength=self.count), out=offsets[1:])
        if len(owners) and (owners[1:] < owners[:-1]).any():
            items = items.take(pa.array(np.argsort(owners, kind="stable")))
        return pa.LargeListArray.from_arrays(pa.array(offsets), items)


class VectorizedAggregateFunction(ABC):
    """An aggregate of many groups at once, on Arrow columns; `computed_by(...)` puts it into `agg` or `aggregate`.

    Records become rows of accumulators, rows of one group become one row, and what is left becomes a result. Rows are
    merged as often as need be, in any portions and in any order, before the shuffle already; so `merge` must be
    associative and commutative to the last bit. (A sum of floats is not: that is what `sum_of` is for.)
    """

    @abstractmethod
    def accumulate(self, values: Any) -> Columns:
        """Return accumulators by name, one row for each of the values (an `Array`, or a `RecordBatch` of records)."""

    @abstractmethod
    def merge(self, columns: Columns, groups: Groups) -> Columns:
        """Return the same columns with one row for each group."""

    @abstractmethod
    def get_result(self, columns: Columns) -> Any:
        """Return the results, one for each row, as an Arrow or numpy array."""

    @staticmethod
    def listed(values: pa.Array) -> pa.Array:
        """Return a list of one for each value, and of none for a null: accumulators that keep all values."""
        held = values.is_valid().to_numpy(zero_copy_only=False)
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum(held, out=offsets[1:])
        return pa.LargeListArray.from_arrays(pa.array(offsets), values.drop_null())

    def __repr__(self) -> str:
        return type(self).__name__
