"""What tasks are told of their epoch, whichever way the word takes."""

from __future__ import annotations

import pytest

from flintstream import StreamExecutionEnvironment, bounded, sum_of, tumbling
from flintstream.errors import JobError
from flintstream.spark import stages

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
RECORDS = [{"key": "ab"[n % 2], "ts": n * 700, "n": n} for n in range(20)]


def totals(spark_session):
    env = StreamExecutionEnvironment.get_execution_environment(spark=spark_session)
    env.set_parallelism(2)
    stream = env.from_collection(RECORDS).assign_timestamps_and_watermarks(bounded("1s", on="ts"))
    results = stream.key_by("key").window(tumbling("5s")).agg(total=sum_of("n"))
    return sorted((row["key"], row["window_start"], row["total"]) for row in results.execute_and_collect())


@pytest.mark.parametrize("longest", [0, 1 << 15], ids=["inside the function", "as a property"])
def test_tasks_hear_of_their_epoch_either_way(spark_session, monkeypatch, longest):
    monkeypatch.setattr(stages, "LONGEST_PROPERTY", longest)
    expected = {}
    for record in RECORDS:
        window = record["key"], record["ts"] // 5000 * 5000
        expected[window] = expected.get(window, 0) + record["n"]
    assert totals(spark_session) == sorted((*window, total) for window, total in expected.items())
    assert spark_session.sparkContext.getLocalProperty(stages.PROPERTY) is None


def test_a_task_that_was_told_nothing_says_so(spark_session):
    with pytest.raises(JobError, match="not told its epoch"):
        stages.Told(level=0).hear()
