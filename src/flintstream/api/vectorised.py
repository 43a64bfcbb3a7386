"""Puts a function marked by `@vectorized(...)` behind a stream, where `map`, `filter` and `flat_map` meet one."""

from __future__ import annotations

from typing import Any, TypeVar

from flintstream.api.arguments import TypeLike, read
from flintstream.api.stream import Streamlike
from flintstream.model.functions_vectorised import Vectorized
from flintstream.model.typeinfo import TypeInformation

S = TypeVar("S")
_NAMES = {"map": "Map", "filter": "Filter", "flat_map": "FlatMap"}


def add_vectorized(stream: Streamlike[S], method: str, func: Vectorized, output_type: TypeLike = None) -> S:
    """Put a vectorised function behind a stream; it has no state, on a stream with keys neither."""
    read(lambda each: each.entry(method), func)
    known: TypeInformation | None = stream.origin.type_info
    function: Any = Vectorized(func.function, func.format, func.input_type, known)
    inferred = known if method == "filter" else None
    return stream.add_function(_NAMES[method], f"vectorised_{method}", function, (method,), output_type, inferred)
