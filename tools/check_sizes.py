"""Keeps modules and functions small: a module has at most 400 lines, a function at most 50 lines of code.

Lines of code are those that are neither blank, comment nor docstring. ``tools/sizes_allow.toml`` lists exceptions, each
with its own limit and its reason; an exception that is no longer needed is an error too.
"""

from __future__ import annotations

import ast
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 50

_ROOT = Path(__file__).parents[1]
_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Size:
    """How long one module or one function is."""

    name: str
    lines: int
    limit: int


def measure(path: Path, name: str) -> Iterator[Size]:
    """Yield the size of the module at ``path`` and of each function in it."""
    yield Size(name, len(path.read_text().splitlines()), MODULE_LINES)
    tree = ast.parse(path.read_bytes())
    code = _code_lines(path) - _docstring_lines(tree)
    for qualified_name, function in _functions(tree, ""):
        span = range(function.lineno, (function.end_lineno or function.lineno) + 1)
        yield Size(f"{name}:{qualified_name}", len(code.intersection(span)), FUNCTION_LINES)


def _code_lines(path: Path) -> set[int]:
    with tokenize.open(path) as file:
        tokens = list(tokenize.generate_tokens(file.readline))
    spans = [range(token.start[0], token.end[0] + 1) for token in tokens if token.type not in _NOT_CODE]
    return {line for span in spans for line in span}


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | _Function) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines.update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return lines


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function):
            yield f"{prefix}{child.name}", child
        inner = f"{prefix}{child.name}." if isinstance(child, ast.ClassDef | _Function) else prefix
        yield from _functions(child, inner)


def read_allowances(path: Path) -> dict[str, int]:
    """Return the limits of the allow-list by name; an entry without a reason is an error."""
    entries = tomllib.loads(path.read_text()).get("allow", []) if path.is_file() else []
    for entry in entries:
        if set(entry) != {"name", "lines", "reason"} or not str(entry["reason"]).strip():
            msg = f"{path.name}: an entry needs name, lines and reason, and nothing else: {entry}"
            raise SystemExit(msg)
    return {entry["name"]: entry["lines"] for entry in entries}


def complaints(sizes: list[Size], allowances: dict[str, int]) -> list[str]:
    """Return one line for each size over its limit and each exception that has no use any more."""
    over = [
        f"{size.name}: {size.lines} lines, at most {allowances.get(size.name, size.limit)}; split it"
        for size in sizes
        if size.lines > allowances.get(size.name, size.limit)
    ]
    needed = {size.name for size in sizes if size.lines > size.limit}
    stale = [f"{name}: needs no exception any more; take it out of the list" for name in allowances.keys() - needed]
    return over + sorted(stale)


def main() -> int:
    """Check every module under ``src``; return the exit status."""
    sizes = [
        size
        for path in sorted((_ROOT / "src").rglob("*.py"))
        for size in measure(path, path.relative_to(_ROOT).as_posix())
    ]
    found = complaints(sizes, read_allowances(_ROOT / "tools" / "sizes_allow.toml"))
    print("\n".join(found) or f"sizes: {len(sizes)} modules and functions within their limits")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
