"""What a job promises, as a value to be printed or looked into: `env.guarantee()` and a job's client return it.

Flink: it has none; there a user works it out from documentation.
"""

from __future__ import annotations

from dataclasses import dataclass

from flintstream.model.delivery import Delivery, DeliveryGuarantee


@dataclass(frozen=True, slots=True)
class SinkGuarantee:
    """How often a record shows in one sink.

    Attributes:
        name: The sink's name.
        uid: Its uid.
        location: The line that declared it.
        delivery: How the sink itself works.
        guarantee: What is left of that from end to end.
        reason: The weakest link on the way to it, or why there is none.
    """

    name: str
    uid: str
    location: str
    delivery: Delivery
    guarantee: DeliveryGuarantee
    reason: str

    def __str__(self) -> str:
        return f"{self.guarantee.value}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a job promises: as much as it does for the sink that it promises least.

    Attributes:
        guarantee: How often a record may show.
        reason: The weakest link, or why there is none.
        sinks: The same for every sink.
    """

    guarantee: DeliveryGuarantee
    reason: str
    sinks: tuple[SinkGuarantee, ...]

    def __str__(self) -> str:
        return f"{self.guarantee.value}: {self.reason}"
