"""Settings as a user writes them: how a job runs, how it checkpoints, and free-form configuration.

Flink: RuntimeExecutionMode, CheckpointingMode, ExternalizedCheckpointRetention and Configuration of PyFlink.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from enum import Enum
from typing import Any

from flintstream.errors import InvalidArgumentError, describe
from flintstream.model.location import refused


class RuntimeExecutionMode(Enum):
    """Whether a job runs record by record or on its whole, bounded input at once."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2


class CheckpointingMode(Enum):
    """How often a record may count after a failure: once, or once or more."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointRetention(Enum):
    """What happens to the checkpoints of a job that is cancelled."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


class Configuration:
    """Settings by name; a value is kept as it was set and read as the type that the reader asks for."""

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, Any] = {} if other is None else dict(other._values)

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Configuration:
        """Return a configuration with these settings."""
        configuration = cls()
        configuration._values.update(map)
        return configuration

    def get_string(self, key: str, default_value: str) -> str:
        """Return a setting as text."""
        return _to_text(self._values[key]) if key in self._values else default_value

    def set_string(self, key: str, value: str) -> Configuration:
        """Set a text."""
        return self._set(key, value)

    def get_integer(self, key: str, default_value: int) -> int:
        """Return a setting as an integer."""
        if key not in self._values:
            return default_value
        try:
            return int(self._values[key])
        except ValueError:
            raise self._unreadable(key, "an integer") from None

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set an integer."""
        return self._set(key, int(value))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return a setting as a truth value."""
        if key not in self._values:
            return default_value
        text = _to_text(self._values[key]).strip().lower()
        if text not in ("true", "false"):
            raise self._unreadable(key, "true or false")
        return text == "true"

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set a truth value."""
        return self._set(key, bool(value))

    def get_float(self, key: str, default_value: float) -> float:
        """Return a setting as a float."""
        if key not in self._values:
            return float(default_value)
        try:
            return float(self._values[key])
        except ValueError:
            raise self._unreadable(key, "a number") from None

    def set_float(self, key: str, value: float) -> Configuration:
        """Set a float."""
        return self._set(key, float(value))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Return a setting as bytes."""
        if key not in self._values:
            return bytearray(default_value)
        value = self._values[key]
        if not isinstance(value, bytes):
            raise self._unreadable(key, "bytes")
        return bytearray(value)

    def set_bytearray(self, key: str, value: bytearray | bytes) -> Configuration:
        """Set bytes."""
        return self._set(key, bytes(value))

    def key_set(self) -> set[str]:
        """Return the names of all settings."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """Say whether there is such a setting."""
        return key in self._values

    def remove_config(self, key: str) -> bool:
        """Remove a setting, and say whether there was one."""
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Take over all settings of another configuration, each name with the prefix before it."""
        self._values.update({(prefix or "") + key: value for key, value in other._values.items()})
        return self

    def add_all_to_dict(self, target_dict: dict[str, str]) -> None:
        """Put all settings, as text, into a dict."""
        target_dict.update(self.to_dict())

    def to_dict(self) -> dict[str, str]:
        """Return all settings as text; bytes in base 64."""
        return {key: _to_text(value) for key, value in self._values.items()}

    def _set(self, key: str, value: Any) -> Configuration:
        if not key:
            raise refused(InvalidArgumentError, f"a setting of {value!r} has no name", "give it one")
        self._values[key] = value
        return self

    def _unreadable(self, key: str, wanted: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            describe(f"{key} is {self._values[key]!r}, not {wanted}", remedy=f"set {key} to {wanted}")
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Configuration:
        return Configuration(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Configuration({self.to_dict()})"


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return str(value)
