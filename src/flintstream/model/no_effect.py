"""The warning of calls that are accepted and do nothing: once per process each, at the user's line.

Apart from the list of such calls in `api`, because words of the model have some as well.
"""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parent.parent)


class NoEffectWarning(UserWarning):
    """A call or a setting was accepted and does nothing."""


warned: set[str] = set()
"""What has been warned of in this process."""


def warn_once(call: str, reason: str) -> None:
    """Warn, once per process, that `call` does nothing; the warning points at the user's line."""
    if call in warned:
        return
    warned.add(call)
    depth, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(f"{call} has no effect: {reason}", NoEffectWarning, stacklevel=depth + 1)
