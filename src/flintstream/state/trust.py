"""What state that comes from elsewhere may name when it is read: plain data, and classes that the program has itself.

A pickle can name any function of any module and have it called; importing a module runs it. A checkpoint or a savepoint
may have been made by someone else, so its pickles are read in a **restricted** way: containers and scalars of Python's,
dates, decimals, numpy's arrays, and classes of the program's own modules. Of installed libraries only classes that are
nothing but their fields. Functions never. All else is refused by name, unless the user trusts whoever made the state.

Separate from reading itself, so that the list can be read at a glance.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import sysconfig
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

from flintstream.errors import IncompatibleStateError, describe
from flintstream.model.evolution import FORMER

_NUMPY = ("numpy.core", "numpy._core")
_PLAIN: dict[str, frozenset[str]] = {
    "builtins": frozenset(
        [
            "bool",
            "bytearray",
            "bytes",
            "complex",
            "dict",
            "float",
            "frozenset",
            "int",
            "list",
            "object",
            "range",
            "set",
            "slice",
            "str",
            "tuple",
        ]
    ),
    "collections": frozenset(["ChainMap", "Counter", "OrderedDict", "defaultdict", "deque"]),
    "copyreg": frozenset(["_reconstructor", "__newobj__", "__newobj_ex__"]),
    "datetime": frozenset(["date", "datetime", "time", "timedelta", "timezone"]),
    "decimal": frozenset(["Decimal"]),
    "fractions": frozenset(["Fraction"]),
    "ipaddress": frozenset(["IPv4Address", "IPv4Network", "IPv6Address", "IPv6Network"]),
    "pathlib": frozenset(["PosixPath", "PurePosixPath", "PureWindowsPath"]),
    "uuid": frozenset(["UUID", "SafeUUID"]),
    "zoneinfo": frozenset(["ZoneInfo", "ZoneInfo._unpickle"]),
    "numpy": frozenset(["dtype", "ndarray"]),
    **{f"{root}.multiarray": frozenset(["_reconstruct", "scalar"]) for root in _NUMPY},
    **{f"{root}.numeric": frozenset(["_frombuffer"]) for root in _NUMPY},
    "pandas._libs.tslibs.timestamps": frozenset(["_unpickle_timestamp"]),
    "pandas._libs.tslibs.timedeltas": frozenset(["_timedelta_unpickle"]),
    "flintstream.model.row": frozenset(["Row", "RowKind", "_make_row"]),
    "flintstream.model.windows": frozenset(["CountWindow", "GlobalWindow", "GlobalWindow.get", "TimeWindow"]),
    "flintstream.state.pickles": frozenset(["Absent", "named_tuple", "new_object", "set_fields"]),
    "flintstream.state.classes": frozenset(["class_of"]),
}
_OURS = ("flintstream.model.", "flintstream.state.")
_LIBRARIES = tuple(
    path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_path(name))
)
MODULES_OF_NO_PROGRAM = frozenset({"__main__", "__mp_main__", "pyspark", "py4j", "flintstream", "_pytest", "pytest"})


class _Policy(threading.local):
    """How the thread at hand reads."""

    def __init__(self) -> None:
        self.restricted = False
        self.judged: int | None = None
        self.trusts = False
        self.modules: frozenset[str] = frozenset()


_POLICY = _Policy()


def adopt_modules(modules: frozenset[str]) -> None:
    """Let state name classes of these modules, which the program has imported."""
    _POLICY.modules = modules


def judge_until(epoch: int | None, trusts: bool = False) -> None:
    """From now on files of state up to this epoch are not believed in this thread; with None, or `trusts`, all are."""
    _POLICY.judged, _POLICY.trusts = epoch, trusts


def will_be_judged() -> bool:
    """Whether those who read what is written now will judge it."""
    return not _POLICY.trusts


def is_judged(epoch: int) -> bool:
    """Whether a file of that epoch may be anybody's."""
    return _POLICY.judged is not None and epoch <= _POLICY.judged


@contextmanager
def restricted(on: bool = True) -> Generator[None]:
    """Within it pickles of this thread are read in the restricted way."""
    before = _POLICY.restricted
    _POLICY.restricted = on
    try:
        yield
    finally:
        _POLICY.restricted = before


def is_restricted() -> bool:
    """Whether this thread reads in the restricted way."""
    return _POLICY.restricted


def may_import(module: str) -> bool:
    """Whether a class's module may be imported: only such as the program has, where that is known."""
    return not (_POLICY.restricted or _POLICY.judged is not None) or module in _POLICY.modules


def program_modules(names: Iterable[str]) -> frozenset[str]:
    """Return which of some modules are a program's: not Python's own, and not the engine's."""
    return frozenset(
        name
        for name in names
        if name.partition(".")[0] not in sys.stdlib_module_names and name.partition(".")[0] not in MODULES_OF_NO_PROGRAM
    )


def check_global(module: str, name: str, found: Any) -> Any:
    """Return what a pickle names, if it may; else raise."""
    if name in _PLAIN.get(module, ()) or f"{module}:{name}" in FORMER:
        return found
    if module == "builtins" and isinstance(found, type) and issubclass(found, BaseException):
        return found
    if isinstance(found, type) and is_harmless_class(found):
        return found
    raise refused(name if module == "builtins" else f"{module}.{name}")


def is_harmless_class(cls: type) -> bool:
    """Whether state may have objects of a class: one of the program's own, or one that is nothing but its fields."""
    module = cls.__module__
    if module in _PLAIN:
        return cls.__qualname__ in _PLAIN[module]
    if module.startswith(_OURS):
        return True
    loaded = sys.modules.get(module)
    if loaded is None or module.partition(".")[0] in sys.stdlib_module_names:
        # A class by value has come through `class_of`; one of Python's own that is not listed does more than hold data.
        return loaded is None
    file = getattr(loaded, "__file__", None)
    if file is None or not str(file).startswith(_LIBRARIES) or module == "__main__":
        return True
    is_fields = dataclasses.is_dataclass(cls) or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    return is_fields or issubclass(cls, enum.Enum)


def refused(name: str) -> IncompatibleStateError:
    """Return the error of state that names what it must not."""
    what = f"state names {name}, which is neither plain data nor a class of the program"
    remedy = (
        "keep it in a dataclass of a module that the program imports; if you trust whoever made this state, set "
        "'flintstream.state-recovery.trust': 'true'"
    )
    return IncompatibleStateError(describe(what, None, remedy))
