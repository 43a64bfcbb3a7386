from __future__ import annotations

import pytest

from flintstream.connectors.files_config import (
    BucketAssigner,
    DefaultRollingPolicy,
    Encoder,
    OutputFileConfig,
    RollingPolicy,
)
from flintstream.errors import InvalidArgumentError, SinkError
from flintstream.model.row import Row

MOMENT = 1_767_323_045_678  # 2026-01-02T03:04:05.678Z


@pytest.mark.parametrize(
    ("pattern", "zone", "bucket"),
    [
        ("yyyy-MM-dd--HH", "UTC", "2026-01-02--03"),
        ("yyyy-MM-dd--HH", "GMT-08:00", "2026-01-01--19"),
        ("yyyy-MM-dd--HH", "+05:30", "2026-01-02--08"),
        ("'day='yyyyMMdd/'hour='HH", "Europe/Berlin", "day=20260102/hour=04"),
        ("yy/mmss.SSS", "UTC", "26/0405.678"),
        ("yyyy''MM", "UTC", "2026'01"),
    ],
)
def test_a_date_time_bucket_is_written_with_javas_letters(pattern, zone, bucket):
    assert BucketAssigner.date_time_bucket_assigner(pattern, zone).bucket(MOMENT) == bucket


def test_without_a_time_zone_it_is_the_machines(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert BucketAssigner.date_time_bucket_assigner().bucket(MOMENT) == "2026-01-02--12"
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_the_base_path_is_no_bucket():
    assert BucketAssigner.base_path_bucket_assigner().bucket(MOMENT) == ""


@pytest.mark.parametrize(
    ("pattern", "zone"),
    [("", None), ("yyyy-ww", None), ("yyyy'x", None), ("..", None), ("_yyyy", None), ("/yyyy", None), ("yyyy", "Mars")],
)
def test_buckets_that_cannot_be_are_refused_at_once(pattern, zone):
    with pytest.raises(InvalidArgumentError):
        BucketAssigner.date_time_bucket_assigner(pattern, zone)


def test_an_encoder_writes_a_line_in_its_charset():
    encoder = Encoder.simple_string_encoder()
    assert encoder.encode("é") == "é\n".encode()
    assert encoder.encode(Row("a", 1)) == b"+I[a,1]\n"
    assert Encoder.simple_string_encoder("latin-1").encode("é") == b"\xe9\n"
    with pytest.raises(SinkError, match="latin-1"):
        Encoder.simple_string_encoder("latin-1").encode("€")
    with pytest.raises(InvalidArgumentError):
        Encoder.simple_string_encoder("klingon")


def test_output_file_config_is_built_as_in_pyflink():
    assert OutputFileConfig.builder().build() == OutputFileConfig("part", "")
    built = OutputFileConfig.builder().with_part_prefix("p").with_part_suffix(".s").build()
    assert (built.get_part_prefix(), built.get_part_suffix()) == ("p", ".s")


@pytest.mark.parametrize(("prefix", "suffix"), [("a/b", ""), ("a", "/x"), ("", ""), (".a", ""), ("_a", "")])
def test_names_that_hide_or_move_files_are_refused(prefix, suffix):
    with pytest.raises(InvalidArgumentError):
        OutputFileConfig(prefix, suffix)


def test_rolling_policies_know_their_numbers():
    policy = RollingPolicy.default_rolling_policy(part_size=7, rollover_interval=8, inactivity_interval=9)
    assert policy == DefaultRollingPolicy(7, 8, 9)
    assert RollingPolicy.on_checkpoint_rolling_policy().part_size is None


@pytest.mark.parametrize("name", ["part_size", "rollover_interval", "inactivity_interval"])
def test_rolling_policies_refuse_what_is_not_above_zero(name):
    with pytest.raises(InvalidArgumentError, match=name):
        RollingPolicy.default_rolling_policy(**{name: 0})
