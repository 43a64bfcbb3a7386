from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from flintstream import NoEffectWarning
from flintstream.api.configure import KEYS
from flintstream.api.no_effect import REASONS

SUPPORT = (Path(__file__).parents[3] / "docs" / "support.md").read_text()


def owners(env):
    stream = env.from_collection([1])
    sink = stream.print()
    return [env, env.get_config(), env.get_checkpoint_config(), stream, sink]


@pytest.mark.parametrize("call", sorted(set(REASONS) - {"set_externalized_checkpoint_retention"}))
def test_every_call_without_effect_is_accepted_warns_once_and_returns_its_object(env, call):
    found = [owner for owner in owners(env) if hasattr(owner, call)]
    assert found
    for owner in found:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert getattr(owner, call)(1) is owner
        assert [w.category for w in caught] == ([NoEffectWarning] if owner is found[0] else [])


def test_the_warning_names_the_reason_and_points_at_the_users_line(env):
    with pytest.warns(NoEffectWarning, match="slot_sharing_group has no effect: Spark places the tasks") as caught:
        env.from_collection([1]).slot_sharing_group("group")
    assert caught[0].filename == __file__


def test_the_list_of_support_has_every_call_with_its_reason():
    for call, reason in REASONS.items():
        assert f"| `{call}` | {reason} |" in SUPPORT


def test_the_list_of_support_has_every_configuration_key():
    assert set(re.findall(r"^\| `([a-z-]+\.[a-z.-]+)` \|", SUPPORT, re.MULTILINE)) == set(KEYS)
