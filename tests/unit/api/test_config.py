from __future__ import annotations

import pytest

from flintstream import ExternalizedCheckpointRetention, NoEffectWarning
from flintstream.errors import InvalidArgumentError


def test_execution_config_and_environment_say_the_same(env):
    config = env.get_config().set_parallelism(5).set_max_parallelism(50)
    assert (env.get_parallelism(), env.get_max_parallelism()) == (5, 50)
    assert (config.get_parallelism(), config.get_max_parallelism()) == (5, 50)


def test_checkpoint_config_becomes_job_options(env):
    config = env.get_checkpoint_config()
    config.set_checkpoint_interval("1s").set_min_pause_between_checkpoints(3000)
    config.set_tolerable_checkpoint_failure_number(7).set_checkpoint_storage_dir("here")
    options = env._settings.for_runtime()
    assert (options.interval_ms, options.tolerable_failures, options.checkpoint_dir) == (3000, 7, "here")
    assert config.get_checkpoint_interval() == 1000
    assert config.get_min_pause_between_checkpoints() == 3000
    assert config.get_tolerable_checkpoint_failure_number() == 7


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("set_checkpoint_interval", -1),
        ("set_min_pause_between_checkpoints", "-1s"),
        ("set_tolerable_checkpoint_failure_number", -1),
    ],
)
def test_negative_values_are_refused(env, call, value):
    with pytest.raises(InvalidArgumentError):
        getattr(env.get_checkpoint_config(), call)(value)


def test_checkpoints_in_a_directory_always_stay(env):
    retention = ExternalizedCheckpointRetention
    config = env.get_checkpoint_config()
    assert config.get_externalized_checkpoint_retention() is retention.NO_EXTERNALIZED_CHECKPOINTS
    env.set_checkpoint_dir("here")
    config.set_externalized_checkpoint_retention(retention.RETAIN_ON_CANCELLATION)
    assert config.get_externalized_checkpoint_retention() is retention.RETAIN_ON_CANCELLATION
    with pytest.warns(NoEffectWarning, match="always stay"):
        config.set_externalized_checkpoint_retention(retention.DELETE_ON_CANCELLATION)
