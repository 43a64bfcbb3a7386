"""Packages that only some jobs need: imported where they are first used, and missed with a word on how to get them.

In this room because connectors, storages and the test kit all have such packages.
"""

from __future__ import annotations

import importlib
from typing import Any

from flintstream.errors import EnvironmentSetupError, describe


def extra(module: str, what: str, name: str) -> Any:
    """Return a module of an extra of this package; `what` says who needs which package.

    Raises:
        EnvironmentSetupError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EnvironmentSetupError(describe(what, remedy=f"pip install 'flintstream[{name}]'")) from error
