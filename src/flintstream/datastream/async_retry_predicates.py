"""PyFlink's path of the predicates of asynchronous calls that are tried again."""

from __future__ import annotations

from flintstream.model.functions_async import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]
