"""PyFlink's path of asynchronous calls."""

from __future__ import annotations

from flintstream.api.async_data_stream import AsyncDataStream

__all__ = ["AsyncDataStream"]
