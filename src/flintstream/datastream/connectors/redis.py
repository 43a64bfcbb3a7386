"""Sink and lookup of Redis."""

from __future__ import annotations

from flintstream.connectors.redis_lookup import RedisLookup
from flintstream.connectors.redis_sink import RedisSink

__all__ = ["RedisLookup", "RedisSink"]
