"""PyFlink's path of JDBC sinks, with the source and the lookup."""

from __future__ import annotations

from flintstream.connectors.postgres_lookup import JdbcLookup
from flintstream.connectors.postgres_options import JdbcConnectionOptions, JdbcExecutionOptions
from flintstream.connectors.postgres_sink import JdbcSink
from flintstream.connectors.postgres_source import JdbcSource

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcLookup", "JdbcSink", "JdbcSource"]
