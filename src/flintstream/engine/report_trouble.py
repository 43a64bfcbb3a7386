"""A failure as the report tells it: what, where in the user's program, and what happened then.

Flink: the exceptions of a job in its REST interface (`/jobs/:jobid/exceptions`).
"""

from __future__ import annotations

import traceback
from typing import Any

from flintstream.errors import FlintstreamError, UserFunctionError
from flintstream.model.secrets import without_passwords

Trouble = dict[str, Any]
MOST_TEXT = 20_000


def trouble_of(error: BaseException, at_ms: int, epoch: int, *, restarted: bool) -> Trouble:
    """Return a failure as a line; passwords inside of addresses are left out."""
    location = error.location if isinstance(error, FlintstreamError) else None
    uid = error.uid if isinstance(error, FlintstreamError) else None
    if isinstance(error, UserFunctionError) and error.user_traceback:
        trace = error.user_traceback
    else:
        trace = "".join(traceback.format_exception(error))
    kind = error.error_type if isinstance(error, UserFunctionError) and error.error_type else type(error).__name__
    return {
        "at_ms": at_ms,
        "type": kind,
        "message": without_passwords(str(error))[:MOST_TEXT],
        "location": location,
        "operator": uid,
        "traceback": without_passwords(trace)[-MOST_TEXT:],
        "epoch": epoch,
        "restarted": restarted,
    }
