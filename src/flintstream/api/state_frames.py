"""The door from state as tables to Spark: opened when the first DataFrame is asked for, and by nobody who wants Arrow.

One module, so that the import contract has one line for it.
"""

from __future__ import annotations

from typing import Any


def spark_tables() -> Any:
    """Return `flintstream.spark.state_tables`; importing it loads Spark, but starts no session."""
    from flintstream.spark import state_tables  # noqa: PLC0415  # see the module's docstring

    return state_tables
