"""How part files are named, into which directory they go, when they end, and how a record becomes text.

Flink: the settings of org.apache.flink.connector.file.sink.FileSink, as pyflink.datastream.connectors.file_system and
pyflink.common.serialization spell them.
Differs from Flink: a part file always ends when its epoch commits, so the intervals of a rolling policy say nothing.
"""

from __future__ import annotations

import codecs
import datetime as dt
import re
import zoneinfo
from dataclasses import dataclass
from typing import Any

from flintstream.connectors.text import as_text
from flintstream.errors import InvalidArgumentError, SinkError, describe


class Encoder:
    """Turns a record into the bytes of a text file, its end of line included. Subclass it for other forms."""

    def __init__(self, charset_name: str = "UTF-8") -> None:
        try:
            codecs.lookup(charset_name)
        except LookupError:
            what = f"there is no charset {charset_name!r}"
            raise InvalidArgumentError(describe(what, remedy='use a name that Python knows, such as "UTF-8"')) from None
        self.charset_name = charset_name

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Return an encoder that writes each record's text on a line of its own."""
        return Encoder(charset_name)

    def encode(self, value: Any) -> bytes:
        """Called for each record."""
        try:
            return f"{as_text(value)}\n".encode(self.charset_name)
        except UnicodeEncodeError as error:
            what = f"record {value!r} has characters that {self.charset_name} does not have"
            raise SinkError(describe(what, remedy="use UTF-8")) from error


@dataclass(frozen=True)
class OutputFileConfig:
    """The beginning and the end of every part file's name.

    Example:
        >>> config = OutputFileConfig.builder().with_part_prefix("reading").with_part_suffix(".txt").build()
        >>> config.get_part_prefix(), config.get_part_suffix()
        ('reading', '.txt')
    """

    part_prefix: str
    part_suffix: str

    def __post_init__(self) -> None:
        for part in (self.part_prefix, self.part_suffix):
            if "/" in part or "\0" in part:
                what = f"{part!r} cannot be part of a file's name"
                raise InvalidArgumentError(describe(what, remedy="name directories with a bucket assigner"))
        if not self.part_prefix or self.part_prefix[0] in "._":
            what = f"readers take files that begin with {self.part_prefix[:1]!r} for hidden"
            raise InvalidArgumentError(describe(what, remedy="begin the prefix with a letter"))

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Return a builder that begins with prefix "part" and no suffix."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the beginning of the name."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """Return the end of the name, with its dot."""
        return self.part_suffix

    class OutputFileConfigBuilder:
        def __init__(self) -> None:
            self.part_prefix = "part"
            self.part_suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the beginning of the name."""
            self.part_prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the end of the name; with a dot, if one is wanted."""
            self.part_suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Return the settings."""
            return OutputFileConfig(self.part_prefix, self.part_suffix)


@dataclass(frozen=True)
class RollingPolicy:
    """When a part file ends before its epoch does.

    Attributes:
        part_size: Bytes after which it ends; None if only the epoch ends it.
    """

    part_size: int | None = None

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128, rollover_interval: int = 60 * 1000, inactivity_interval: int = 60 * 1000
    ) -> DefaultRollingPolicy:
        """Return a policy by size and by time in ms; the sink warns that time has no effect here."""
        sizes = {"part_size": part_size, "rollover_interval": rollover_interval}
        for name, value in {**sizes, "inactivity_interval": inactivity_interval}.items():
            if value <= 0:
                raise InvalidArgumentError(describe(f"{name} is {value}", remedy="give a number above 0"))
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Return a policy under which a part file ends when its epoch commits, and only then."""
        return OnCheckpointRollingPolicy()


@dataclass(frozen=True)
class DefaultRollingPolicy(RollingPolicy):
    """By size and by time; of the two only size has an effect, since every epoch ends its files anyway."""

    rollover_interval: int = 60 * 1000
    inactivity_interval: int = 60 * 1000


@dataclass(frozen=True)
class OnCheckpointRollingPolicy(RollingPolicy):
    """A part file for each epoch and subtask."""


@dataclass(frozen=True)
class BucketAssigner:
    """Names the directory, below the sink's, of the files that an epoch writes.

    Example:
        >>> hourly = BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd--HH", "UTC")
        >>> hourly.bucket(now_ms=0)
        '1970-01-01--00'
    """

    format: str = ""
    timezone_id: str | None = None

    def __post_init__(self) -> None:
        self.bucket(0)

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Return an assigner that puts all files into the sink's own directory."""
        return BucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Return an assigner by the clock at the time of writing, with a pattern of Java's letters (y M d H m s S).

        Without `timezone_id` it is the time zone of the machine.
        """
        if not format_str:
            raise InvalidArgumentError(describe("the bucket format is empty", remedy='give one such as "yyyy-MM-dd"'))
        return BucketAssigner(format_str, timezone_id)

    def bucket(self, now_ms: int) -> str:
        """Return the directory's name for a moment, "" for the sink's own."""
        if not self.format:
            return ""
        moment = dt.datetime.fromtimestamp(now_ms / 1000, dt.UTC).astimezone(_zone(self.timezone_id))
        parts = _PATTERN.findall(self.format)
        if "".join(parts) != self.format or any(part[0].isalpha() and part not in _LETTERS for part in parts):
            what = f"the bucket format {self.format!r} has letters without a meaning here"
            raise InvalidArgumentError(describe(what, remedy=f"use {', '.join(_LETTERS)} and text in single quotes"))
        name = "".join(_format(moment, part) for part in parts)
        if any(folder in ("", "..") or folder[0] in "._" for folder in name.split("/")):
            what = f"the bucket format {self.format!r} gives {name!r}, which readers would not find"
            raise InvalidArgumentError(describe(what, remedy="begin each directory with a letter or a digit"))
        return name


_PATTERN = re.compile(r"y+|M+|d+|H+|m+|s+|S+|'[^']*'|[A-Za-z]|[^A-Za-z']")
_LETTERS = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": ""}
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def _format(moment: dt.datetime, part: str) -> str:
    if part == "SSS":
        return f"{moment.microsecond // 1000:03d}"
    if part in _LETTERS:
        return moment.strftime(_LETTERS[part])
    return part[1:-1] or "'" if part[0] == "'" else part


def _zone(timezone_id: str | None) -> dt.tzinfo | None:
    if timezone_id is None:
        return None
    if offset := _OFFSET.fullmatch(timezone_id):
        sign, hours, minutes = offset.groups()
        return dt.timezone((1 if sign == "+" else -1) * dt.timedelta(hours=int(hours), minutes=int(minutes or 0)))
    try:
        return zoneinfo.ZoneInfo(timezone_id)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        what = f"there is no time zone {timezone_id!r}"
        raise InvalidArgumentError(describe(what, remedy='use "Europe/Berlin", "UTC" or "GMT-08:00"')) from None
