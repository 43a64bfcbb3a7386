"""What can be said of an operator after it was declared: its name, uid, parallelism; streams and sinks share it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

from flintstream.api.arguments import refuse
from flintstream.api.no_effect import without_effect
from flintstream.api.program import Program
from flintstream.api.settings import MOST_KEY_GROUPS, check_count
from flintstream.errors import InvalidArgumentError, describe
from flintstream.graph.location import users_line


class Declared(ABC):
    """Stands for one operator of a program; each method changes that operator and returns the same object."""

    _program: Program

    @abstractmethod
    def _operator(self, call: str) -> int:
        """Return the operator's number, or refuse `call` if this stands for none."""

    def get_name(self) -> str:
        """Return the operator's name."""
        return self._program.declarations.node(self._operator("get_name")).name

    def name(self, name: str) -> Self:
        """Set the operator's name, which plans, metrics and errors show."""
        return self._change("name", name=str(name))

    def uid(self, uid: str) -> Self:
        """Set the operator's identity, under which its state is found again; it must be unique in the job.

        >>> from flintstream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> doubled = env.from_collection([1]).map(lambda x: 2 * x).uid("double").name("Double")
        >>> doubled.get_name()
        'Double'
        """
        if not uid:
            line = users_line()
            raise InvalidArgumentError(describe("a uid is empty", line, "give it a name"), location=line)
        return self._change("uid", uid=str(uid))

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Refuse: state is found by uid, never by a hash."""
        refuse("set_uid_hash", "use uid(...)")

    def set_description(self, description: str) -> Self:
        """Set what the execution plan and `explain()` show besides the name."""
        self._program.declarations.descriptions[self._operator("set_description")] = description
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set how many instances of the operator run side by side."""
        number = self._operator("set_parallelism")
        limit = self._program.declarations.node(number).max_parallelism
        check_count("parallelism", parallelism, most=limit)
        return self._change("set_parallelism", parallelism=parallelism)

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set a limit to the operator's parallelism; the number of key groups is the environment's."""
        number = self._operator("set_max_parallelism")
        least = self._program.declarations.node(number).parallelism or 1
        check_count("max parallelism", max_parallelism, least=least, most=MOST_KEY_GROUPS)
        return self._change("set_max_parallelism", max_parallelism=max_parallelism)

    def force_non_parallel(self) -> Self:
        """Run the operator in one instance; it cannot be given more any longer."""
        return self._change("force_non_parallel", parallelism=1, max_parallelism=1)

    def _change(self, call: str, **changes: Any) -> Self:
        self._program.declarations.change(self._operator(call), **changes)
        return self

    set_buffer_timeout = without_effect("set_buffer_timeout")
    start_new_chain = without_effect("start_new_chain")
    disable_chaining = without_effect("disable_chaining")
    slot_sharing_group = without_effect("slot_sharing_group")
