"""`OutputTag`: the name of a side output.

Flink: pyflink.datastream.OutputTag. Alone in its file because functions, windows and the graph all need it.
"""

from __future__ import annotations

from typing import Any

from flintstream.errors import InvalidArgumentError
from flintstream.model.location import refused
from flintstream.model.typeinfo import TypeInformation
from flintstream.model.types import to_type_info


class OutputTag:
    """Names a side output; `yield tag, value` sends there. Tags with the same id are the same tag, as in Flink.

    Attributes:
        tag_id: the name of the side output, unique within an operator.
        type_info: the type of its records, or None to look at them.
    """

    __slots__ = ("tag_id", "type_info")

    def __init__(
        self, tag_id: str, type_info: TypeInformation | list[TypeInformation] | type[Any] | None = None
    ) -> None:
        if not tag_id:
            raise refused(InvalidArgumentError, "an OutputTag has no id", "give it a name: OutputTag('late')")
        self.tag_id = tag_id
        self.type_info = to_type_info(type_info)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return (
            f"OutputTag({self.tag_id!r})" if self.type_info is None else f"OutputTag({self.tag_id!r}, {self.type_info})"
        )
