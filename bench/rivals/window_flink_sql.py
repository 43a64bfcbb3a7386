"""Tumbling 10 s event-time window, sum and count per key, in Flink SQL through PyFlink's Table API.

No Python per record. Window table functions, whose aggregation runs in two phases with buffers in managed memory; the
sink is a black hole. `--source sequence` counts, and event time advances by one second in `--event-rate` events; each
subtask counts through its own share, so a record's time follows from its place there, for all to advance together.
`--source datagen` is the generator of SQL with random keys, a little slower; event time is then the wall clock: its
ordered sequence holds every number still to come in memory and in its state, and is far slower.
"""

from __future__ import annotations

import flink
from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.table import Schema, StreamTableEnvironment
from report import KEY_MULTIPLIER, argument_parser, emit, scratch

DATAGEN = """
CREATE TABLE numbers (
  number BIGINT,
  k BIGINT,
  ts AS CURRENT_TIMESTAMP,
  WATERMARK FOR ts AS ts
) WITH (
  'connector' = 'datagen', 'rows-per-second' = '2147483647', 'number-of-rows' = '{events}',
  'fields.number.min' = '0', 'fields.number.max' = '{events}', 'fields.k.min' = '0', 'fields.k.max' = '{last_key}'
)"""

SINK = """
CREATE TABLE nowhere (window_start TIMESTAMP(3), k BIGINT, s BIGINT, c BIGINT) WITH ('connector' = 'blackhole')"""

QUERY = """
INSERT INTO nowhere
SELECT window_start, k, SUM(number), COUNT(*)
FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
GROUP BY window_start, window_end, k"""


def main() -> None:
    parser = argument_parser(__doc__, events=60_000_000, keys=1_000)
    parser.add_argument("--event-rate", type=int, help="events in a second of event time (sequence: 1,000,000)")
    parser.add_argument("--source", choices=("datagen", "sequence"), default="sequence", help="what makes the events")
    parser.add_argument("--state", choices=("hashmap", "rocksdb"), default="hashmap", help="state backend")
    args = parser.parse_args()
    if args.source == "datagen" and args.event_rate:
        parser.error("--event-rate needs --source sequence: datagen's event time is the wall clock")
    if args.source == "sequence":
        args.event_rate = args.event_rate or 1_000_000
    with scratch("window-flink-sql") as directory:
        settings = flink.tuned(args.parallelism, args.state, directory)
        env = StreamExecutionEnvironment.get_execution_environment(flink.configuration(settings))
        table = StreamTableEnvironment.create(env)
        if args.source == "datagen":
            table.execute_sql(DATAGEN.format(events=args.events, last_key=args.keys - 1))
        else:
            source = NumberSequenceSource(0, args.events - 1)
            numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
            place = f"MOD(f0, {args.events // args.parallelism}) * {args.parallelism}"
            schema = (
                Schema.new_builder()
                .column_by_expression("number", "f0")
                .column_by_expression("k", f"MOD(f0 * {KEY_MULTIPLIER}, {args.keys})")
                .column_by_expression("ts", f"TO_TIMESTAMP_LTZ({place} * 1000 / {args.event_rate}, 3)")
                .watermark("ts", "ts")
                .build()
            )
            table.create_temporary_view("numbers", table.from_data_stream(numbers, schema))
        table.execute_sql(SINK)
        job = table.execute_sql(QUERY).get_job_client()
        count, seconds, seen = flink.run(job, settings, "WatermarkAssigner", args.warmup * args.events)
    emit("flink sql window", count, seconds, {**vars(args), **seen, "flink": settings})


if __name__ == "__main__":
    main()
