"""Finds and runs the entry point of a program: `flintstream run -c pkg.AverageSensorReadings app.py`.

An entry is a class with a `main`, a function, or a module. It is looked for in the program itself first, then among
what can be imported from the program's folder. Separate from the first module of the child, which runs scripts.

Flink: the entry class of `flink run -c`. Differs from Flink: the entry may be a function or a module as well.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from flintstream.errors import InvalidArgumentError, describe

ARCHIVES = (".zip", ".whl", ".egg")


def run_entry(kind: str, name: str, entry: str, arguments: Sequence[str]) -> None:
    """Run the entry of a script, an archive or a module; `sys.argv` and `sys.path[0]` are set already.

    Raises:
        InvalidArgumentError: the program has no such entry, or it is nothing that can be run.
    """
    found = find_entry(_load(kind, name), entry)
    if isinstance(found, ModuleType):
        runpy.run_module(found.__name__, run_name="__main__", alter_sys=True)
        return
    call = _callable_of(found, entry)
    call(list(arguments)) if _takes_arguments(call) else call()


def find_entry(program: ModuleType | None, entry: str) -> Any:
    """Return what a dotted name means: something of the program, or something that can be imported."""
    if program is not None:
        # `pkg.Entry` may name the program itself by its module's name, as one would import it.
        for path in (entry, entry.removeprefix(f"{program.__name__}.")):
            found = _attribute(program, path.split("."))
            if found is not None:
                return found
    parts = entry.split(".")
    for length in range(len(parts), 0, -1):
        module = _import(".".join(parts[:length]))
        if module is None:
            continue
        found = _attribute(module, parts[length:])
        if found is not None:
            return found
        break
    # The program's name may differ from the module that the entry was written for: its last word decides then.
    found = None if program is None else _attribute(program, parts[-1:])
    if found is None:
        what = f"the program has no entry {entry!r}"
        raise InvalidArgumentError(describe(what, None, "give the name of a class, a function or a module of it"))
    return found


def _load(kind: str, name: str) -> ModuleType | None:
    """Import the program under its own name, so that workers find its functions again."""
    if kind == "module":
        return importlib.import_module(name)
    path = Path(name).resolve()
    if path.is_dir() or path.suffix in ARCHIVES:
        sys.path.insert(0, str(path))
        return None
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        what, remedy = f"{name!r} is not a Python program", "give a script (.py), an archive (.zip, .whl) or a folder"
        raise InvalidArgumentError(describe(what, None, remedy))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _import(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Something that the module itself needs may be missing: that is another matter.
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            return None
        raise


def _attribute(holder: Any, path: Sequence[str]) -> Any:
    for name in path:
        holder = getattr(holder, name, None)
    return holder


def _callable_of(found: Any, entry: str) -> Callable[..., Any]:
    if inspect.isclass(found):
        held = inspect.getattr_static(found, "main", None)
        if isinstance(held, staticmethod | classmethod):
            return getattr(found, "main")  # noqa: B009 - a class of the user
        if callable(held):
            return getattr(found(), "main")  # noqa: B009
    elif callable(found):
        return found
    what = f"entry {entry!r} is {found!r}"
    raise InvalidArgumentError(describe(what, None, "name a class with a method main, a function, or a module"))


def _takes_arguments(call: Callable[..., Any]) -> bool:
    """Whether it wants the program's arguments, as a `main(argv)` does."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(
        each.kind in kinds and each.default is each.empty for each in inspect.signature(call).parameters.values()
    )
