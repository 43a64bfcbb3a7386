"""Runs versions of a program side by side over one read of their input, and brings back what each would have written.

Apart from the comparison, which needs no job, and from the environment, which knows one program. A program is a
function that declares sources, operators and sinks on the environment that it is given, as it does for production; here
its sinks are replaced, so nothing that they write to is touched, and its sources are read up to a point at which
everything is left as it stands: windows that are open there give no results that production never gave.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeAlias, cast

from flintstream.api.declarations import Declarations
from flintstream.api.environment import StreamExecutionEnvironment
from flintstream.api.time_travel import excerpt_of
from flintstream.connectors.driver_sinks import CollectSink
from flintstream.connectors.files_source import FileSource
from flintstream.engine.options import StartFrom
from flintstream.engine.savepoint_format import positions_of
from flintstream.engine.savepoint_restore import open_origin
from flintstream.errors import DefinitionError, InvalidArgumentError, UnknownUidError, UnsupportedError, describe
from flintstream.graph.location import users_line
from flintstream.graph.nodes import SinkNode, SourceNode, StreamGraph
from flintstream.model.config import RuntimeExecutionMode
from flintstream.model.connect import LogSource, Sink, Source, SplitSource
from flintstream.model.job import JobClient
from flintstream.model.location import refused
from flintstream.model.positions import PlaceLike, knows_time
from flintstream.planner.check import check_graph
from flintstream.planner.compile import reachable
from flintstream.planner.dead_letters import place_dead_letters
from flintstream.planner.plan import Plan
from flintstream.planner.side_by_side import SEPARATOR, Output, SideBySide, side_by_side

Declare: TypeAlias = Callable[[StreamExecutionEnvironment], Any]
"""A program as a function of its environment."""

Places: TypeAlias = PlaceLike | Mapping[str, PlaceLike]
"""A place in every source, or one for each by its uid."""

_SHARED = ("max_parallelism", "deterministic", "parameters")
"""Settings that are one for a whole job, so all versions must have the same."""


@dataclass(frozen=True)
class Outputs:
    """What versions would have written, by version and sink."""

    by_sink: dict[tuple[str, str], list[Any]] = field(default_factory=dict[tuple[str, str], list[Any]])

    @property
    def sinks(self) -> list[str]:
        """The uids of all sinks, each once."""
        return list(dict.fromkeys(uid for _, uid in self.by_sink))

    def of(self, version: str, sink: str | None = None) -> list[Any]:
        """Return the records of a version for a sink, which need not be named if there is only one."""
        mine = [uid for name, uid in self.by_sink if name == version]
        chosen = mine[0] if sink is None and len(mine) == 1 else sink
        if chosen not in mine:
            what = f"version {version!r} has no sink {sink!r}" if sink else f"version {version!r} has several sinks"
            raise UnknownUidError(describe(what, remedy=f"name one of {', '.join(map(repr, mine)) or 'none'}"))
        return self.by_sink[version, chosen]


class Sketch(StreamExecutionEnvironment):
    """An environment that is only declared upon: what runs is put together from several of them."""

    def __init__(self, env: StreamExecutionEnvironment) -> None:
        own = {name: copy.copy(getattr(env._settings, name)) for name in ("parameters", "listeners", "spark")}
        super().__init__(replace(env._settings, mode=RuntimeExecutionMode.STREAMING, checkpoint_dir=None, **own))

    def declared(self) -> StreamGraph:
        """Return what was declared, with the sink of the job's dead letters if it has one."""
        nodes = place_dead_letters(reachable(self.declarations.graph()), self._settings.dead_letters)
        return StreamGraph({node.id: node for node in nodes})

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings that all versions must agree on."""
        return {name: getattr(self._settings, name) for name in _SHARED}

    def _submit(self, plan: Plan, background: bool) -> JobClient:
        refuse_execution()


def refuse_execution() -> NoReturn:
    """Refuse to run what is only declared."""
    line = users_line()
    what = "a program that is replayed declares its sources and sinks, and is run by others"
    raise DefinitionError(describe(what, line, "leave out execute() and execute_and_collect()"), location=line)


class Stage(StreamExecutionEnvironment):
    """The environment in which versions run together: the user's settings, the versions' graph, no production sink."""

    def __init__(self, env: StreamExecutionEnvironment, shared: Mapping[str, Any] | None = None) -> None:
        own: dict[str, Any] = {"mode": RuntimeExecutionMode.STREAMING}
        # What is production's: its checkpoints, and what it asks of sinks.
        own.update(dict.fromkeys(("checkpoint_dir", "start_from", "guarantee", "dead_letters")))
        super().__init__(replace(env._settings, **own, **(shared or {})))

    def load(self, merged: SideBySide) -> None:
        """Declare what the versions declared."""
        self.declarations = Declarations.of(merged.graph)

    def begin_at(self, savepoint: str, merged: SideBySide, drops_orphans: bool, trust: bool) -> None:
        """Give each operator of each version the state that its version knows by its own name."""
        there = {each.uid for each in open_origin(savepoint).document.operators}
        rename: dict[str, tuple[str, ...]] = {}
        for uid, old in merged.origins.items():
            if old in there and uid != old:
                rename[old] = (*rename.get(old, ()), uid)
        self._settings.start_from = StartFrom(savepoint, drops_orphans, rename, trust, users_line())


def replay(
    env: StreamExecutionEnvironment,
    versions: Mapping[str, Declare],
    *,
    savepoint: str | None = None,
    start_from: Places | None = None,
    until: Places | None = "now",
    into: Mapping[str, Sink] | None = None,
    allow_non_restored_state: bool = False,
    trust: bool = False,
    job_name: str = "replay",
) -> Outputs:
    """Run versions of a program over one read of their input and return what each would have written.

    Args:
        env: Where to run: its runtime, session and settings are used, its checkpoint directory is not.
        versions: The programs by name.
        savepoint: Where all versions begin, with its state and positions; without one they begin with no state.
        start_from: Where sources begin if there is no savepoint, as in `from_source`.
        until: Where sources are left as they stand. Sources that end by themselves end, unless this is given.
        into: Sinks that get the records as well, by "version:uid" of the sink whose records they are.
        allow_non_restored_state: Drop state of the savepoint that no version has an operator for.
        trust: Read pickled objects in the savepoint, which can run code.
        job_name: What the job is called.
    """
    merged = _merged(env, versions)
    stage = Stage(env, merged.settings)
    _bound(merged.side_by_side, start_from, until, savepoint)
    outputs = _collect(merged.side_by_side, into or {})
    stage.load(merged.side_by_side)
    if savepoint is not None:
        stage.begin_at(savepoint, merged.side_by_side, allow_non_restored_state, trust)
    stage.execute(job_name)
    return outputs


def positions_in(savepoint: str) -> dict[str, dict[int | str, int]]:
    """Return how far the sources were read at a savepoint or checkpoint, by uid and split: a place for `until`.

    Args:
        savepoint: The directory of a savepoint, or of a job's checkpoints, of which the newest counts.
    """
    document = open_origin(savepoint).document
    return {each.uid: positions_of(document, each.uid) for each in document.sources}


def sinks_of(env: StreamExecutionEnvironment, declare: Declare) -> dict[str, Sink]:
    """Return the sinks of a program by their uids; nothing is run."""
    return {each.uid: each.sink for each in _merged(env, {"program": declare}).side_by_side.outputs}


@dataclass(frozen=True)
class _Merged:
    side_by_side: SideBySide
    settings: dict[str, Any]


def _merged(env: StreamExecutionEnvironment, versions: Mapping[str, Declare]) -> _Merged:
    if not versions or any(not name or SEPARATOR in name for name in versions):
        what = f"versions are named {', '.join(map(repr, versions)) or 'nothing'}"
        raise refused(InvalidArgumentError, what, f"give each a name without {SEPARATOR!r}")
    sketches = {name: Sketch(env) for name in versions}
    for name, declare in versions.items():
        declare(sketches[name])
        check_graph(sketches[name].declarations.graph())
    settings = [sketch.shared_settings() for sketch in sketches.values()]
    differing = [name for name in _SHARED if any(each[name] != settings[0][name] for each in settings)]
    if differing:
        what = f"the versions differ in {', '.join(differing)}, which is one for all that run together"
        raise refused(InvalidArgumentError, what, "set the same in each")
    return _Merged(side_by_side({name: each.declared() for name, each in sketches.items()}), settings[0])


def _bound(merged: SideBySide, start_from: Places | None, until: Places | None, savepoint: str | None) -> None:
    """Say of every source where it begins and ends."""
    if savepoint is not None and start_from is not None:
        what = "both savepoint and start_from say where to begin"
        raise refused(InvalidArgumentError, what, "give one of them")
    for uid, node in merged.sources.items():
        assert node.source is not None
        start, end = _place_of(start_from, uid, merged), _place_of(until, uid, merged)
        if node.is_bounded and (end is None or (not _is_by_uid(until, merged) and not _can_end_at(node.source, end))):
            end = None
        elif end is None or (end == "now" and not isinstance(node.source, LogSource)):
            what = f"source {node.name!r} never ends"
            remedy = "say where to leave it by until={...}, with a position for each split"
            raise UnsupportedError(describe(what, node.location, remedy), uid=uid, location=node.location)
        part = excerpt_of(node.source, start, end)
        halt = None if part.until is None else replace(part.until, halts=True)
        begin = part.start_from or node.start_from
        # A log that heard of this would take it for production's progress.
        bounded = replace(node, source=part.source, start_from=begin, until=halt or node.until, is_told=False)
        merged.sources[uid] = cast("SourceNode", merged.graph.add(bounded))


def _is_by_uid(places: Places | None, merged: SideBySide) -> bool:
    return isinstance(places, Mapping) and any(name in merged.sources for name in places)


def _place_of(places: Places | None, uid: str, merged: SideBySide) -> PlaceLike | None:
    by_uid = _is_by_uid(places, merged)
    return cast("Mapping[str, PlaceLike]", places).get(uid) if by_uid else cast("PlaceLike | None", places)


def _can_end_at(source: Source, end: PlaceLike) -> bool:
    """Whether what is said of all sources can be said of one that ends by itself; else it does so."""
    if end == "now":
        return False
    return (
        isinstance(end, Mapping)
        or isinstance(source, FileSource)
        or (isinstance(source, SplitSource) and knows_time(source))
    )


def _collect(merged: SideBySide, into: Mapping[str, Sink]) -> Outputs:
    """Replace every sink by one that brings its records here, beside those that the user wants them in."""
    known = {f"{each.version}{SEPARATOR}{each.uid}": each for each in merged.outputs}
    wrong = [name for name in into if name not in known]
    if wrong:
        what = f"into has a sink for {wrong[0]!r}, which no version has"
        raise refused(InvalidArgumentError, what, f"name one of {', '.join(map(repr, known))}")
    outputs = Outputs()
    for name, output in known.items():
        records = outputs.by_sink.setdefault((output.version, output.uid), [])
        merged.graph.add(_other_sink(merged, output, output.node, CollectSink(_appending(records)), name))
        if name in into:
            merged.graph.add(_other_sink(merged, output, merged.graph.next_id(), into[name], f"{name}{SEPARATOR}into"))
    return outputs


def _other_sink(merged: SideBySide, output: Output, number: int, sink: Sink, uid: str) -> SinkNode:
    """Return a sink with another's input; what was asked of the other, such as its delivery, is not asked of it."""
    node = merged.graph.nodes[output.node]
    return SinkNode(number, node.name, node.location, node.inputs, uid, node.parallelism, sink=sink)


def _appending(records: list[Any]) -> Callable[[int, list[Any]], None]:
    def take(epoch: int, values: list[Any]) -> None:
        records.extend(values)

    return take
