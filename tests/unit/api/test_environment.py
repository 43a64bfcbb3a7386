from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from flintstream import (
    CheckpointingMode,
    Configuration,
    DataGeneratorSource,
    JobStatus,
    MapFunction,
    NoEffectWarning,
    NumberSequenceSource,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
    bounded,
)
from flintstream.errors import (
    DanglingStreamError,
    DefinitionError,
    DuplicateUidError,
    InvalidArgumentError,
    TypeMismatchError,
    UnsupportedError,
    UserFunctionError,
)
from flintstream.graph.nodes import SourceNode, TimestampsNode
from flintstream.model.connect import Source


def nodes(env) -> list:
    return list(env.declarations.graph().nodes.values())


def environment(**settings) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict(settings)
    return StreamExecutionEnvironment.get_execution_environment(configuration, runtime="local")


def test_the_runtime_is_chosen_by_argument_then_configuration_then_variable(monkeypatch):
    get = StreamExecutionEnvironment.get_execution_environment
    assert get()._settings.runtime == "spark"
    monkeypatch.setenv("FLINTSTREAM_RUNTIME", "local")
    assert get()._settings.runtime == "local"
    configured = Configuration.from_dict({"flintstream.runtime": "spark"})
    assert get(configured)._settings.runtime == "spark"
    assert get(configured, runtime="local")._settings.runtime == "local"
    with pytest.raises(InvalidArgumentError, match=r"no runtime 'flink'; test_environment\.py:\d+; use 'spark' or"):
        get(runtime="flink")


def test_parallelism_has_the_cores_as_default(env):
    fresh = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    assert fresh.get_parallelism() == len(os.sched_getaffinity(0))
    assert env.set_parallelism(7).get_parallelism() == 7
    assert fresh.get_max_parallelism() == 128
    assert env.set_max_parallelism(64).get_max_parallelism() == 64
    for wrong in (0, 32769):
        with pytest.raises(InvalidArgumentError, match=r"test_environment\.py"):
            env.set_max_parallelism(wrong)


def test_parallelism_comes_from_a_session_if_there_is_one():
    class Context:
        defaultParallelism = 11

    class Session:
        sparkContext = Context()

    env = StreamExecutionEnvironment.get_execution_environment(spark=Session())
    assert env.get_parallelism() == 11
    assert env._settings.for_runtime().session is not None


def test_configuration_keys_become_settings():
    env = environment(
        **{
            "execution.runtime-mode": "batch",
            "parallelism.default": "3",
            "pipeline.max-parallelism": "32",
            "pipeline.name": "nightly",
            "execution.checkpointing.interval": "2 s",
            "execution.checkpointing.min-pause": "3000",
            "state.checkpoints.dir": "here",
            "state.checkpoints.num-retained": "5",
            "execution.checkpointing.tolerable-failed-checkpoints": "0",
            "flintstream.epoch.max-records": "10",
            "flintstream.state.entries-in-memory": "20",
            "flintstream.progress": "true",
            "flintstream.deterministic-order": "true",
            "spark.executor.memory": "1g",
        }
    )
    settings = env._settings
    planner, options = settings.for_planner(None, True), settings.for_runtime()
    assert (planner.name, planner.parallelism, planner.max_parallelism) == ("nightly", 3, 32)
    assert (planner.deterministic, settings.mode) == (True, RuntimeExecutionMode.BATCH)
    assert (options.interval_ms, options.checkpoint_dir, options.retained) == (3000, "here", 5)
    assert (options.tolerable_failures, options.max_records, options.state_entries_in_memory) == (0, 10, 20)
    assert (options.progress, options.spark_settings) == (True, (("spark.executor.memory", "1g"),))


def test_the_directory_may_have_flinks_new_key():
    assert (
        environment(**{"execution.checkpointing.dir": "x"}).get_checkpoint_config().get_checkpoint_storage_dir() == "x"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("execution.runtime-mode", "fast"),
        ("parallelism.default", "two"),
        ("parallelism.default", "0"),
        ("flintstream.progress", "yes"),
        ("execution.checkpointing.interval", "soon"),
    ],
)
def test_a_wrong_value_is_refused(key, value):
    with pytest.raises(InvalidArgumentError):
        environment(**{key: value})


def test_an_unknown_key_is_warned_about_once(env):
    configuration = Configuration.from_dict({"taskmanager.memory": "1g"})
    with pytest.warns(NoEffectWarning, match="taskmanager.memory") as caught:
        env.configure(configuration)
        env.configure(configuration)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_spark_settings_and_a_running_session_contradict_each_other():
    configuration = Configuration.from_dict({"spark.executor.memory": "1g"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration, spark=object())
    with pytest.raises(InvalidArgumentError, match=r"spark\.executor\.memory"):
        env._settings.for_runtime()


def test_checkpointing_sets_the_least_time_between_epochs(env):
    assert env.get_checkpoint_interval() == -1
    assert not env.get_checkpoint_config().is_checkpointing_enabled()
    env.enable_checkpointing(500, CheckpointingMode.EXACTLY_ONCE).set_checkpoint_dir("here")
    options = env._settings.for_runtime()
    assert (env.get_checkpoint_interval(), options.interval_ms, options.checkpoint_dir) == (500, 500, "here")
    env.enable_checkpointing("2s")
    assert env._settings.for_runtime().interval_ms == 2000
    assert env.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    env.enable_checkpointing(500, CheckpointingMode.AT_LEAST_ONCE)
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE


def test_sources_have_names_watermarks_and_types(env):
    env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers")
    (source,) = nodes(env)
    assert isinstance(source, SourceNode)
    assert source.name == "numbers"
    stream = env.from_source(NumberSequenceSource(1, 3), type_info=Types.LONG(), watermark=bounded("1s", on="ts"))
    assert stream.get_type() == Types.LONG()
    assert isinstance(nodes(env)[-1], TimestampsNode)
    with pytest.raises(InvalidArgumentError, match=r"same thing; test_environment\.py"):
        env.from_source(NumberSequenceSource(1, 3), bounded("1s"), watermark=bounded("1s"))
    with pytest.raises(TypeMismatchError, match=r"not a Source; test_environment\.py"):
        env.from_source([1, 2])


def test_a_source_keeps_to_its_declared_type(env):
    typed = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    assert sorted(typed.execute_and_collect()) == [1, 2, 3]
    with pytest.raises(TypeMismatchError, match="STRING"):
        list(env.from_source(NumberSequenceSource(1, 3), type_info=Types.STRING()).execute_and_collect())


def test_a_collection_keeps_to_its_declared_type(env):
    with pytest.raises(TypeMismatchError):
        env.from_collection(["a"], Types.INT())
    with pytest.raises(InvalidArgumentError, match="parallelism is 2"):
        env.from_collection(["a"]).set_parallelism(2)


def test_generated_records(env):
    stream = env.generate(generator=lambda i: i, count=5, seed=3, splits=1)
    assert sorted(stream.execute_and_collect()) == [0, 1, 2, 3, 4]


def test_a_data_frame_is_a_source(env):
    class Frame:
        isStreaming = True

    env.from_dataframe(Frame(), watermark=bounded("1s", on="ts"))
    source, timestamps = nodes(env)
    assert not source.source.is_bounded
    assert isinstance(timestamps, TimestampsNode)
    with pytest.raises(InvalidArgumentError, match="list is not a Spark DataFrame"):
        env.from_dataframe([1])


class Ordered:
    isStreaming = True
    columns = ("partition", "offset", "value")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"split_by": "p", "order_by": "offset"}, "split_by= names 'p', and the DataFrame has 'partition', 'offset'"),
        ({"order_by": ["offset", "n", "m"]}, "order_by= names 'n', 'm', and the DataFrame has"),
        ({"order_by": []}, "order_by= names no column"),
        ({"split_by": "partition"}, "split_by= says nothing of the order inside a split"),
    ],
)
def test_an_order_by_columns_that_are_not_there_is_refused_with_the_users_line(env, arguments, complaint):
    with pytest.raises(InvalidArgumentError) as caught:
        env.from_dataframe(Ordered(), **arguments)
    assert str(caught.value).startswith(complaint)
    assert caught.value.location.startswith("test_environment.py:")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "'DataFrame' has no order of its own; test_environment.py:"),
        ({"split_by": "partition", "order_by": "offset"}, "'DataFrame' finds its splits on the way"),
        ({"order_by": "offset"}, None),
    ],
)
def test_deterministic_order_takes_only_what_has_an_order(env, arguments, complaint):
    env.from_dataframe(Ordered(), **arguments).print()
    env.deterministic_order()
    if complaint is None:
        assert env.compile().deterministic
        return
    with pytest.raises(DefinitionError) as caught:
        env.compile()
    assert str(caught.value).startswith(complaint)


def test_execution_empties_the_program_but_streams_live_on(env, capsys):
    stream = env.from_collection([1, 2])
    stream.print()
    assert env.execute("first").get_net_runtime() >= 0
    with pytest.raises(DefinitionError, match="no source"):
        env.execute()
    stream.map(lambda x: x * 10).print()
    env.execute()
    assert capsys.readouterr().out == "1\n2\n10\n20\n"


def test_execute_async_gives_a_handle(env):
    env.from_collection([1]).print()
    client = env.execute_async("job")
    result = client.get_job_execution_result().result(20)
    assert result.get_job_id() == client.get_job_id()
    assert client.get_job_status().result() is JobStatus.FINISHED


def test_job_parameters_reach_functions(env):
    class Scale(MapFunction):
        def open(self, runtime_context):
            self.factor = int(runtime_context.get_job_parameter("factor", "1"))

        def map(self, value):
            return value * self.factor

    env.get_config().set_global_job_parameters({"factor": 3})
    assert env.get_config().get_global_job_parameters() == {"factor": "3"}
    assert list(env.from_collection([2]).map(Scale()).execute_and_collect()) == [6]


def test_a_program_without_a_sink_is_refused_with_the_line(env):
    env.from_collection([1]).map(str)
    with pytest.raises(DanglingStreamError, match=r"no sink: 'Map' \(test_environment\.py:\d+\)"):
        env.execute()


def test_two_operators_with_one_uid_are_refused_with_both_lines(env):
    env.from_collection([1]).map(str).uid("same").map(str).uid("same").print()
    with pytest.raises(DuplicateUidError, match=r"'same'; test_environment\.py:\d+ and test_environment\.py:\d+"):
        env.execute()


def test_a_missing_uid_is_refused_if_uids_are_not_generated(env):
    env.get_config().disable_auto_generated_uids()
    env.from_collection([1]).uid("in").map(str).print().uid("out")
    with pytest.raises(DefinitionError, match=r"'Map' has no uid.*test_environment\.py"):
        env.execute()
    env.get_config().enable_auto_generated_uids()
    assert env.get_config().has_auto_generated_uids_enabled()
    env.compile()


def test_parallelism_above_the_maximum_is_refused(env):
    env.set_max_parallelism(4)
    env.from_collection([1]).rebalance().map(str).set_parallelism(5).print()
    with pytest.raises(InvalidArgumentError, match=r"'Map' has parallelism 5.*test_environment\.py"):
        env.execute()


def test_an_error_in_a_function_names_operator_and_line(env):
    def explode(value):
        return 1 // value

    env.from_collection([0]).map(explode).name("Divide").print()
    with pytest.raises(UserFunctionError, match=r"'Divide' raised ZeroDivisionError.*test_environment\.py:\d+"):
        env.execute()


class Endless(Source):
    @property
    def is_bounded(self):
        return False


def test_the_runtime_mode_decides_on_batch(env):
    env.from_collection([1]).print()
    assert env.compile().batch_mode is False
    assert env.set_runtime_mode(RuntimeExecutionMode.BATCH).compile().batch_mode is True
    assert env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC).compile().batch_mode is True
    env.from_source(Endless(), source_name="for ever").print()
    assert env.compile().batch_mode is False
    with pytest.raises(DefinitionError, match=r"BATCH, but source 'for ever' never ends; test_environment\.py"):
        env.set_runtime_mode(RuntimeExecutionMode.BATCH).compile()
    with pytest.raises(TypeMismatchError, match="RuntimeExecutionMode"):
        env.set_runtime_mode("batch")


def test_deterministic_order_is_an_option(env):
    env.from_collection([1]).print()
    assert env.compile().deterministic is False
    assert env.deterministic_order().compile().deterministic is True


def test_the_execution_plan_is_flinks_json(env):
    env.from_collection([1]).map(str).set_description("to text").key_by(str).map(str).print()
    plan = json.loads(env.get_execution_plan())
    assert plan["nodes"][:2] == [
        {
            "id": 1,
            "type": "Source: Collection Source",
            "pact": "Data Source",
            "contents": "Source: Collection Source",
            "parallelism": 1,
        },
        {
            "id": 2,
            "type": "Map",
            "pact": "Operator",
            "contents": "to text",
            "parallelism": 1,
            "predecessors": [{"id": 1, "ship_strategy": "FORWARD", "side": "first"}],
        },
    ]
    assert [node["pact"] for node in plan["nodes"]] == ["Data Source", "Operator", "Operator", "Data Sink"]
    assert plan["nodes"][2]["predecessors"][0]["ship_strategy"] == "HASH"


def test_explain_prints_and_returns_the_same(env, capsys):
    env.from_collection([1]).print()
    text = env.explain()
    assert capsys.readouterr().out == f"{text}\n"


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("add_source", ("x",)),
        ("create_input", ("x",)),
        ("add_python_file", ("x",)),
        ("add_python_archive", ("x",)),
        ("set_python_requirements", ("x",)),
        ("set_python_executable", ("x",)),
        ("register_cached_file", ("x", "y")),
    ],
)
def test_what_is_not_supported_names_the_alternative(env, call, arguments):
    with pytest.raises(UnsupportedError, match=rf"{call} is not supported; test_environment\.py:\d+; "):
        getattr(env, call)(*arguments)


def test_jars_go_to_the_session(env):
    env.add_jars("a.jar", "b.jar")
    env.add_jars("c.jar")
    assert dict(env._settings.for_runtime().spark_settings) == {"spark.jars": "a.jar,b.jar,c.jar"}


INTERRUPTED = """
    import os, signal
    from flintstream import DiscardingSink, StreamExecutionEnvironment

    def slow(index):
        if index == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return index

    env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    env.enable_checkpointing(20)
    env.generate(generator=slow, rate=200.0, splits=1).map(str).filter(bool).sink_to(DiscardingSink())
    env.execute("forever")
    print("never here")
"""


def test_ctrl_c_ends_the_program_with_one_line_and_status_130(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(INTERRUPTED))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "stopped forever\n"
    assert (done.returncode, done.stdout) == (130, "")


def test_ctrl_c_tells_where_the_job_will_go_on(env, capsys, monkeypatch):
    def interrupted(self, plan, background):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(StreamExecutionEnvironment, "_submit", interrupted)
    env.set_checkpoint_dir("here").from_collection([1]).print()
    with pytest.raises(SystemExit) as ended:
        env.execute("job")
    assert ended.value.code == 130
    assert capsys.readouterr().err == "stopped job; run it again to go on from here\n"


def test_a_generator_source_is_a_source_like_any(env):
    source = DataGeneratorSource(generator=lambda i: i, count=2, splits=1)
    assert sorted(env.from_source(source).execute_and_collect()) == [0, 1]
