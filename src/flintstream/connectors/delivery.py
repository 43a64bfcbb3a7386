"""How often a sink lets a record show, as its user chooses.

Flink: org.apache.flink.connector.base.DeliveryGuarantee.
"""

from __future__ import annotations

from enum import Enum


class DeliveryGuarantee(Enum):
    """EXACTLY_ONCE, AT_LEAST_ONCE (more than once after a failure), or NONE (lost or doubled after one)."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"
