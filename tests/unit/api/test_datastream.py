from __future__ import annotations

import dataclasses

import pytest

from flintstream import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    Row,
    Types,
    WatermarkStrategy,
)
from flintstream.errors import (
    DefinitionError,
    InvalidArgumentError,
    TypeMismatchError,
    UnknownTagError,
    UnsupportedError,
)
from flintstream.graph.nodes import FunctionNode, ProjectNode, SinkNode, SourceNode, TimestampsNode
from flintstream.model.connect import Sink, SinkWriter
from flintstream.ops.selectors import FieldKey, FunctionKey
from tests.shown import name_of


def collect(stream) -> list:
    return list(stream.execute_and_collect())


def nodes(env) -> list:
    return list(env.declarations.graph().nodes.values())


def last(env):
    return nodes(env)[-1]


class AddOne(MapFunction):
    def open(self, runtime_context):
        self.step = 1

    def map(self, value):
        return value + self.step


class Words(FlatMapFunction):
    def flat_map(self, value):
        yield from value.split()


class Even(FilterFunction):
    def filter(self, value):
        return value % 2 == 0


def test_map_takes_a_callable_or_a_map_function(env):
    assert collect(env.from_collection([1, 2]).map(lambda x: x + 1)) == [2, 3]
    assert collect(env.from_collection([1, 2]).map(AddOne())) == [2, 3]


def test_flat_map_emits_all_that_is_yielded_or_listed(env):
    assert collect(env.from_collection(["to be", ""]).flat_map(Words())) == ["to", "be"]
    assert collect(env.from_collection([1, 2]).flat_map(lambda x: [x] * x)) == [1, 2, 2]


def test_filter_keeps_what_is_true(env):
    assert collect(env.from_collection([1, 2, 3, 4]).filter(Even())) == [2, 4]
    assert collect(env.from_collection([1, 2, 3]).filter(lambda x: x > 1)) == [2, 3]


def test_union_has_the_records_of_all_streams(env):
    first, second, third = (env.from_collection([n]) for n in (1, 2, 3))
    assert sorted(collect(first.union(second, third).map(lambda x: x * 10))) == [10, 20, 30]


def test_union_can_be_keyed_and_collected(env):
    both = env.from_collection([("a", 1)]).union(env.from_collection([("a", 2)]))
    assert max(collect(both.key_by(0).sum(1))) == ("a", 3)


def test_project_keeps_fields_in_the_order_given(env):
    stream = env.from_collection([("a", 1, True)], Types.TUPLE([Types.STRING(), Types.INT(), Types.BOOLEAN()]))
    projected = stream.project(2, 0)
    assert projected.get_type() == Types.TUPLE([Types.BOOLEAN(), Types.STRING()])
    assert isinstance(last(env), ProjectNode)
    assert collect(projected) == [(True, "a")]


def test_project_refuses_what_is_no_field(env):
    stream = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))
    for wrong in ((2,), (-1,), ("0",), ()):
        with pytest.raises(InvalidArgumentError, match=r"test_datastream\.py"):
            stream.project(*wrong)


class Split(ProcessFunction):
    def process_element(self, value, ctx):
        if value < 0:
            yield OutputTag("negative"), value
        else:
            yield value


def test_side_output_has_what_was_tagged(env):
    main = env.from_collection([1, -2, 3]).process(Split())
    assert collect(main.get_side_output(OutputTag("negative"))) == [-2]
    assert collect(main) == [1, 3]


def test_side_output_of_a_typed_tag_is_held_to_its_type(env):
    main = env.from_collection([1, -2]).process(Split())
    side = main.get_side_output(OutputTag("negative", Types.STRING()))
    assert side.get_type() == Types.STRING()
    with pytest.raises(TypeMismatchError, match="-2"):
        collect(side)


def test_side_output_of_an_operator_that_never_tags_is_refused(env):
    with pytest.raises(UnknownTagError, match=r"'Map' never emits.*test_datastream\.py:\d+.*process function"):
        env.from_collection([1]).map(str).get_side_output(OutputTag("late"))


@pytest.mark.parametrize("kind", ["rebalance", "rescale", "shuffle", "forward", "broadcast"])
def test_partitioning_is_the_exchange_of_the_next_operator(env, kind):
    getattr(env.from_collection([1]), kind)().map(str)
    ((upstream,),) = last(env).inputs
    assert upstream.exchange.kind == kind.upper()


def test_broadcast_gives_every_record_to_every_instance(env):
    stream = env.from_collection([1, 2]).broadcast().map(lambda x: x).set_parallelism(2)
    assert sorted(collect(stream)) == [1, 1, 2, 2]


def test_rebalance_spreads_records(env):
    class Where(MapFunction):
        def open(self, runtime_context):
            self.index = runtime_context.get_index_of_this_subtask()

        def map(self, value):
            return self.index

    stream = env.from_collection(range(6)).rebalance().map(Where()).set_parallelism(2)
    assert sorted(collect(stream)) == [0, 0, 0, 1, 1, 1]


def test_partition_custom_sends_where_the_partitioner_says(env):
    class Where(MapFunction):
        def open(self, runtime_context):
            self.index = runtime_context.get_index_of_this_subtask()

        def map(self, value):
            return value, self.index

    stream = env.from_collection([1, 2, 3, 4]).partition_custom(lambda key, n: key % n, lambda x: x + 1)
    assert sorted(collect(stream.map(Where()).set_parallelism(2))) == [(1, 0), (2, 1), (3, 0), (4, 1)]


def test_key_by_reads_fields_as_columns_and_calls_functions(env):
    stream = env.from_collection([("a", 1)])
    assert stream.key_by("a")._key == FieldKey(("a",))
    assert stream.key_by(0, 1)._key == FieldKey((0, 1))
    assert stream.key_by("a", "b", "c")._key == FieldKey(("a", "b", "c"))
    assert stream.key_by(["a", "b"])._key == FieldKey(("a", "b"))
    assert isinstance(stream.key_by(lambda r: r[0])._key, FunctionKey)


def test_key_type_is_enforced(env):
    stream = env.from_collection([("a", 1), (2, 2)])
    with pytest.raises(TypeMismatchError, match=r"'key_by' emitted 2.*STRING.*test_datastream\.py"):
        collect(stream.key_by(lambda r: r[0], Types.STRING()).sum(1))
    assert collect(env.from_collection([("a", 1)]).key_by(0, key_type=Types.STRING()).sum(1)) == [("a", 1)]


def test_key_by_again_takes_the_new_key(env):
    assert env.from_collection([1]).key_by("a").key_by("b")._key == FieldKey(("b",))


def test_output_type_is_enforced_with_the_line_of_the_operator(env):
    with pytest.raises(TypeMismatchError, match=r"'Length' emitted 'abc'.*INT.*test_datastream\.py:\d+"):
        collect(env.from_collection(["abc"]).map(lambda x: x, Types.INT()).name("Length"))


def test_output_type_converts_as_pyflink_does(env):
    named = Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.DOUBLE()])
    assert collect(env.from_collection([("a", 1)]).map(lambda r: r, named)) == [Row(id="a", n=1.0)]


def test_inferred_types_are_known_but_not_enforced(env):
    def length(text: str) -> int:
        return text  # type: ignore[return-value]

    stream = env.from_collection(["abc"]).map(length)
    assert stream.get_type() == Types.LONG()
    assert stream.filter(bool).get_type() == Types.LONG()
    assert collect(stream) == ["abc"]


def test_a_stream_of_unknown_type_is_pickled(env):
    assert env.from_collection([1]).map(lambda x: x).get_type() == Types.PICKLED_BYTE_ARRAY()


def test_name_uid_and_parallelism_change_the_operator_and_return_the_stream(env):
    stream = env.from_collection([1]).map(str)
    assert stream.name("Text") is stream
    stream.uid("text").set_parallelism(3).set_max_parallelism(4)
    node = last(env)
    assert (node.name, node.uid, node.parallelism, node.max_parallelism) == ("Text", "text", 3, 4)
    assert stream.get_name() == "Text"


def test_force_non_parallel_stays(env):
    stream = env.from_collection([1]).map(str).force_non_parallel()
    assert last(env).parallelism == 1
    with pytest.raises(InvalidArgumentError, match="parallelism is 2"):
        stream.set_parallelism(2)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", True])
def test_a_wrong_parallelism_is_refused_with_the_line(env, wrong):
    with pytest.raises(InvalidArgumentError, match=r"test_datastream\.py:\d+"):
        env.from_collection([1]).map(str).set_parallelism(wrong)


def test_a_view_of_streams_has_no_name(env):
    stream = env.from_collection([1])
    for view in (stream.union(stream), stream.rebalance(), stream.key_by(lambda x: x)):
        with pytest.raises(DefinitionError, match=r"name\(...\) is said of an operator"):
            view.name("x")


def test_every_declaration_remembers_the_users_line(env):
    stream = env.from_collection([1])
    stream = stream.map(str)
    stream.print()
    assert [node.location.partition(":")[0] for node in nodes(env)] == ["test_datastream.py"] * 3
    numbers = [int(node.location.partition(":")[2]) for node in nodes(env)]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        ("map", 1),
        ("map", AddOne),
        ("flat_map", None),
        ("filter", "x"),
        ("process", AddOne()),
        ("process", Split),
        ("key_by", 1.5),
        ("key_by", []),
        ("union", [1]),
        ("connect", 1),
        ("sink_to", print),
        ("get_side_output", "late"),
        ("assign_timestamps_and_watermarks", "2s"),
        ("window_all", "5s"),
    ],
    ids=name_of,
)
def test_an_argument_of_the_wrong_kind_is_refused_with_the_line(env, call, argument):
    with pytest.raises(TypeMismatchError, match=r"test_datastream\.py:\d+") as caught:
        getattr(env.from_collection([1]), call)(argument)
    assert caught.value.location is not None


def test_an_output_type_that_is_none_is_refused_with_the_line(env):
    with pytest.raises(TypeMismatchError, match=r"names no type.*test_datastream\.py"):
        env.from_collection([1]).map(str, Types)


@pytest.mark.parametrize("call", ["window", "count_window", "reduce", "sum", "min", "max", "min_by", "max_by"])
def test_what_works_per_key_is_refused_without_keys(env, call):
    with pytest.raises(DefinitionError, match=r"works per key.*test_datastream\.py:\d+; put key_by"):
        getattr(env.from_collection([1]), call)(1)


def test_streams_of_two_environments_do_not_meet(env):
    other = type(env).get_execution_environment(runtime="local").from_collection([1])
    with pytest.raises(TypeMismatchError, match="different environments"):
        env.from_collection([1]).union(other)
    with pytest.raises(TypeMismatchError, match="different environments"):
        env.from_collection([1]).connect(other)
    with pytest.raises(TypeMismatchError, match="different environments"):
        env.from_collection([1]).connect(other.broadcast(MapStateDescriptor("rules")))


@pytest.mark.parametrize(("call", "argument"), [("add_sink", None), ("set_uid_hash", "ab")])
def test_what_is_not_supported_names_the_alternative(env, call, argument):
    with pytest.raises(UnsupportedError, match=r"not supported; test_datastream\.py:\d+; use"):
        getattr(env.from_collection([1]).map(str), call)(argument)


def test_timestamps_are_assigned_behind_the_stream(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    env.from_collection([1], Types.INT()).assign_timestamps_and_watermarks(strategy)
    node = last(env)
    assert isinstance(node, TimestampsNode)
    assert node.strategy is strategy


class Discard(Sink):
    class Writer(SinkWriter):
        def write(self, values, timestamps):
            pass

        def prepare_commit(self):
            return None

    def create_writer(self, context):
        return self.Writer()

    def create_committer(self):
        raise NotImplementedError


def test_sinks_end_a_stream_and_can_be_named(env):
    sink = Discard()
    env.from_collection([1]).sink_to(sink).name("Nowhere").uid("out").set_parallelism(1)
    node = last(env)
    assert isinstance(node, SinkNode)
    assert (node.sink, node.name, node.uid, node.parallelism) == (sink, "Nowhere", "out", 1)


def test_print_shows_records_with_the_identifier(env, capsys):
    env.from_collection([("a", 1)]).print("seen")
    env.execute()
    assert capsys.readouterr().out == "seen> ('a', 1)\n"


@dataclasses.dataclass
class Visit:
    user: str
    page: str


@pytest.mark.parametrize("record", [Visit("u", "p"), {"user": "u", "page": "p"}, Row(user="u", page="p")], ids=str)
def test_records_of_any_kind_pass_unchanged(env, record):
    stream = env.from_collection([record]).map(lambda r: r).key_by("user").filter(lambda r: True)
    (result,) = collect(stream.rebalance().map(lambda r: r))
    assert result == record
    assert type(result) is type(record)


def test_column_steps_become_part_of_a_copy_of_the_source(env):
    source = env.from_collection([(1, 2)])
    source.where("a > 1").select("a", twice="a * 2").with_columns(b=3)
    original, *copies = nodes(env)
    assert original.native == ()
    final = copies[-1]
    assert isinstance(final, SourceNode)
    assert final.source is original.source
    assert [(step.verb, step.arguments, step.named) for step in final.native] == [
        ("where", ("a > 1",), ()),
        ("select", ("a",), (("twice", "a * 2"),)),
        ("with_columns", (), (("b", 3),)),
    ]


@pytest.mark.parametrize("behind", ["map", "union", "key_by", "rebalance"])
def test_column_steps_elsewhere_are_refused_with_line_and_remedy(env, behind):
    stream = env.from_collection([(1, 2)])
    arguments = {"map": [str], "union": [stream], "key_by": [0], "rebalance": []}[behind]
    with pytest.raises(DefinitionError, match=r"behind a source.*test_datastream\.py:\d+; put where"):
        getattr(stream, behind)(*arguments).where("a > 1")


def test_a_column_step_without_columns_is_refused(env):
    with pytest.raises(InvalidArgumentError, match="select"):
        env.from_collection([1]).select()


def test_functions_are_declared_with_what_the_operators_call(env):
    env.from_collection([1]).process(Split())
    node = last(env)
    assert isinstance(node, FunctionNode)
    assert (node.shape, node.methods, node.name) == ("process", ("process_element",), "Process")
