"""Parts of a source file, cut out by name, so that a listing is the code that runs."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]


def parts(file: str, *names: str) -> str:
    """A fenced listing of some parts of a file; without names, of all of it.

    >>> print(parts("src/rillflow/seeding.py", "derive_seed").splitlines()[1])
    def derive_seed(*parts: int | str) -> int:
    """
    text = (ROOT / file).read_text(encoding="utf-8")
    return f'```python title="{file}"\n{_cut(text, names)}\n```'


def _cut(text: str, names: tuple[str, ...]) -> str:
    if not names:
        return text.strip()
    lines = text.splitlines()
    body = ast.parse(text).body
    found = [node for name in names for node in body if _is(node, name)]
    assert found, f"no {names} in the file"
    pieces: list[str] = []
    before: ast.stmt | None = None
    for node in found:
        piece = "\n".join(lines[_first(node) - 1 : node.end_lineno])
        gap = "\n" if before is not None and _joined(before, node) else "\n\n\n"
        pieces.append(piece if before is None else gap + piece)
        before = node
    return "".join(pieces)


def _first(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _joined(one: ast.stmt, other: ast.stmt) -> bool:
    simple = (ast.Import, ast.ImportFrom)
    return isinstance(one, simple) and isinstance(other, simple)


def _is(node: ast.stmt, name: str) -> bool:
    if name == "imports":
        return isinstance(node, ast.Import | ast.ImportFrom)
    if name == "docstring":
        return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if name == "main":
        return isinstance(node, ast.If)
    if isinstance(node, ast.Assign):
        return any(getattr(target, "id", None) == name for target in node.targets)
    return getattr(node, "name", None) == name
