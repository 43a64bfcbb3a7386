"""Shows every change of the public names in the diff, by comparing them with tests/api/public_api.txt.

Public are the names in ``flintstream.__all__``, in ``flintstream.testing`` and in the façade packages that stand at
PyFlink's module paths. The façades may only import and re-export: code in one of them would be a room without a place
in the layers.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_GOLDEN = _ROOT / "tests" / "api" / "public_api.txt"
_PACKAGE = _ROOT / "src" / "flintstream"
_FACADES = ("cep", "common", "datastream", "metrics")


def public_modules() -> Iterator[tuple[str, Path]]:
    """Yield name and file of the package itself and of every façade module."""
    candidates = [_PACKAGE / "__init__.py", _PACKAGE / "testing" / "__init__.py"]
    for facade in _FACADES:
        candidates += sorted((_PACKAGE / facade).rglob("*.py"))
    for path in candidates:
        if path.is_file():
            relative = path.relative_to(_PACKAGE.parent).with_suffix("")
            yield ".".join(part for part in relative.parts if part != "__init__"), path


def public_names(module_name: str) -> list[str]:
    """Return the full names that a module promises; a promised name that is missing is an error."""
    module = importlib.import_module(module_name)
    names: list[str] = list(getattr(module, "__all__", ()))
    missing = [name for name in names if not hasattr(module, name)]
    if missing:
        msg = f"{module_name}.__all__ promises names that are not there: {', '.join(missing)}"
        raise SystemExit(msg)
    return [f"{module_name}.{name}" for name in names]


def code_in_facade(path: Path) -> list[int]:
    """Return the lines of a façade that do more than document, import and list names."""
    return [node.lineno for node in ast.parse(path.read_text()).body if not _is_re_export(node)]


def _is_re_export(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.AnnAssign(target=ast.Name(id="__all__")):
            return True
        case _:
            return False


def compare(names: list[str]) -> list[str]:
    """Return what is wrong with the golden file, as lines to print."""
    if not _GOLDEN.is_file():
        return [f"{_GOLDEN.relative_to(_ROOT)} is missing; write it with: tools/check_api.py --bless"] if names else []
    before = _GOLDEN.read_text().splitlines()
    changes = list(difflib.unified_diff(before, names, "public_api.txt", "now", lineterm="", n=0))
    return [*changes, "public names changed; if they should: tools/check_api.py --bless"] if changes else []


def main(arguments: list[str]) -> int:
    """Check or, with ``--bless``, rewrite the golden file; return the exit status."""
    if arguments not in ([], ["--bless"]):
        print("usage: check_api.py [--bless]", file=sys.stderr)
        return 2
    modules = list(public_modules())
    names = sorted(name for module_name, _ in modules for name in public_names(module_name))
    if arguments:
        _GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        _GOLDEN.write_text("".join(f"{name}\n" for name in names))
    found = [
        f"{path.relative_to(_ROOT)}:{line}: a façade only imports and re-exports"
        for _, path in modules
        if path.parent != _PACKAGE
        for line in code_in_facade(path)
    ]
    found += compare(names)
    print("\n".join(found) or f"api: {len(names)} public names, as promised")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
