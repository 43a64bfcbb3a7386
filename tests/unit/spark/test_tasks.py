"""What a worker says of failures that are nobody's business."""

from __future__ import annotations

import pytest

from flintstream.spark.tasks import _print_exc_unless_spark_is_gone


def _raise_in(filename: str, error: str) -> None:
    """Raise and catch in code of that file, as Spark's daemon does."""
    source = f"try:\n    raise {error}\nexcept BaseException:\n    tell()\n"
    exec(compile(source, filename, "exec"), {"tell": _print_exc_unless_spark_is_gone})


@pytest.mark.parametrize(
    ("filename", "error", "is_told"),
    [
        ("/spark/pyspark/daemon.py", "BrokenPipeError('Broken pipe')", False),
        ("/spark/pyspark/daemon.py", "ValueError('broken')", True),
        ("/job/program.py", "BrokenPipeError('Broken pipe')", True),
    ],
)
def test_only_a_worker_whose_jvm_is_gone_is_silent(capsys, filename, error, is_told):
    _raise_in(filename, error)
    assert ("Traceback" in capsys.readouterr().err) is is_told
