"""A program: what was declared so far, how it shall run, and its execution; the environment without its sources.

Streams hold their program and declare into it. It stands apart from the environment so that streams need not know who
made them, and the environment may know streams: imports in one direction.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, Self

from flintstream.api.config import CheckpointConfig, ExecutionConfig
from flintstream.api.declarations import Declarations
from flintstream.api.explain_only import leave_if_only_explained
from flintstream.api.settings import JobSettings
from flintstream.errors import DefinitionError, InvalidArgumentError, JobError, describe
from flintstream.graph.nodes import SourceNode, StreamGraph
from flintstream.model.config import RuntimeExecutionMode
from flintstream.model.guarantee import Guarantee
from flintstream.model.job import JobClient, JobExecutionResult
from flintstream.model.job_graph import JobGraph
from flintstream.planner.compile import compile_graph
from flintstream.planner.explain import explain_plan, plan_as_json
from flintstream.planner.guarantee import guarantee_of
from flintstream.planner.picture import graph_of
from flintstream.planner.plan import Plan
from flintstream.planner.ship import check_functions
from flintstream.state.trust import program_modules

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C ended, as shells have it."""


class Program(ABC):
    """What an environment is to its streams: settings, declarations, and the ways to run them."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self.declarations = Declarations()

    @property
    def runtime(self) -> str:
        """Where jobs run: "spark" or "local"."""
        return self._settings.runtime

    def get_config(self) -> ExecutionConfig:
        """Return how jobs run, to be changed."""
        return ExecutionConfig(self._settings)

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return how jobs keep their state, to be changed."""
        return CheckpointConfig(self._settings)

    def add_listener(self, listener: Callable[[Any, Any, float], None]) -> Self:
        """Call `listener(manifest, task reports, seconds)` in the driver after every committed epoch."""
        self._settings.listeners.append(listener)
        return self

    def compile(self, job_name: str | None = None) -> Plan:
        """Return the plan of what was declared, or raise what is wrong with it."""
        self._impose()
        graph = self.declarations.graph()
        plan = compile_graph(graph, self._settings.for_planner(job_name, self._is_batch(graph)))
        for op in plan.operators:
            limit = op.node.max_parallelism or plan.max_parallelism
            if op.parallelism > limit:
                what = f"{op.node.name!r} has parallelism {op.parallelism}, more than its max parallelism {limit}"
                remedy = f"set_max_parallelism({op.parallelism}) or more, or set_parallelism({limit}) or less"
                raise InvalidArgumentError(describe(what, op.node.location, remedy), location=op.node.location)
            if self._settings.needs_uids and op.node.uid is None:
                what, remedy = (
                    f"{op.node.name!r} has no uid, and auto-generated uids are disabled",
                    "call uid(...) on it",
                )
                raise DefinitionError(describe(what, op.node.location, remedy), location=op.node.location)
        return plan

    def _impose(self) -> None:
        """Take over what whoever runs the program imposes on it: it comes last, so that it wins."""

    def _is_batch(self, graph: StreamGraph) -> bool:
        unbounded = [node for node in graph.nodes.values() if isinstance(node, SourceNode) and not node.is_bounded]
        mode = self._settings.mode
        if mode is RuntimeExecutionMode.BATCH and unbounded:
            first = unbounded[0]
            what = f"the runtime mode is BATCH, but source {first.name!r} never ends"
            remedy = "bound the source, or use RuntimeExecutionMode.STREAMING"
            raise DefinitionError(describe(what, first.location, remedy), location=first.location)
        return mode is RuntimeExecutionMode.BATCH or (mode is RuntimeExecutionMode.AUTOMATIC and not unbounded)

    def get_execution_plan(self) -> str:
        """Return the plan as JSON, in Flink's format.

        >>> import json
        >>> from flintstream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> _ = env.from_collection([1, 2]).map(str).print()
        >>> [node["type"] for node in json.loads(env.get_execution_plan())["nodes"]]
        ['Source: Collection Source', 'Map', 'Sink: Print']
        """
        return plan_as_json(self.compile(), self.declarations.descriptions)

    def explain(self) -> str:
        """Print how the program will run, and return the same text.

        It shows the logical graph, the levels it is cut into with their exchanges and tasks, which way each operator
        takes (native in Spark, vectorised, or per record in Python), and the guarantee with its weakest link.
        """
        settings = self._settings
        text = explain_plan(self.compile(), settings.runtime, settings.state_directory, self.declarations.descriptions)
        sys.stdout.write(f"{text}\n")
        return text

    def graph(self) -> JobGraph:
        """Return the program as a picture: an SVG, which a notebook shows by itself.

        >>> from flintstream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> _ = env.from_collection(["a", "b"]).key_by(lambda word: word).map(str.upper).print()
        >>> env.graph()
        JobGraph(3 operators, 2 levels)
        """
        return graph_of(self.compile(), live=False)

    def guarantee(self) -> Guarantee:
        """Return what the program promises from end to end, with its weakest link.

        >>> from flintstream import CollectSink, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_checkpoint_dir("state")
        >>> _ = env.from_collection([1, 2]).sink_to(CollectSink())
        >>> print(env.guarantee())
        exactly-once: every source is replayable, and every sink commits with the epoch
        """
        return guarantee_of(self.compile(), self._settings.state_directory)

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run everything that ends in a sink, wait for its end and return the result.

        Ctrl-C stops the job between two epochs and ends the program with status 130.

        Raises:
            DefinitionError: the program is wrong.
            JobError: the job failed.
        """
        client: JobClient | None = None
        try:
            client = self._submit(self._take_plan(job_name), background=False)
            return client.get_job_execution_result().result()
        except JobError as error:
            # The message says it all; our own frames between the user's line and it would only hide it.
            raise error.with_traceback(None) from None
        except KeyboardInterrupt:
            self._stop(client, job_name)

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start everything that ends in a sink, and return a handle on the job at once."""
        return self._submit(self._take_plan(job_name), background=True)

    def _take_plan(self, job_name: str | None) -> Plan:
        """Compile, and forget what was declared: the next execution is about what comes after."""
        plan = self.compile(job_name)
        leave_if_only_explained(plan, self._settings, self.declarations.descriptions)
        classes = check_functions(plan)
        self.declarations.settle()
        return replace(plan, classes=classes, modules=program_modules(sys.modules))

    def _stop(self, client: JobClient | None, job_name: str | None) -> NoReturn:
        try:
            if client is not None:
                client.cancel().result()
        except KeyboardInterrupt:
            pass  # whoever presses it twice does not want to wait for the end of the epoch
        where = self._settings.state_directory
        again = f"; run it again to go on from {where}" if where is not None else ""
        sys.stderr.write(f"stopped {job_name or self._settings.name or 'the job'}{again}\n")
        raise SystemExit(INTERRUPTED) from None

    @abstractmethod
    def _submit(self, plan: Plan, background: bool) -> JobClient:
        """Start a plan on the chosen runtime; without `background` it may have ended when this returns."""
