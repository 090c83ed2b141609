"""Signatures as they are written in the source: ``data: InstancesLike``, not what the alias stands for."""

import ast
import inspect
import textwrap
from functools import cache
from typing import Any

from sphinx.application import Sphinx


def signature_of(value: Any) -> str | None:
    """The parameters of a function, method or class in parentheses; None where there is no source to read."""
    if inspect.isclass(value):
        made = next((base for base in value.__mro__ if base.__module__.startswith("jaxunc") and _makes(base)), None)
        return _fields(value) if made is None else signature_of(_makes(made))
    try:
        node = _parsed(inspect.unwrap(value))
    except (OSError, TypeError, SyntaxError):
        return None
    return f"({_arguments(node.args)})" if isinstance(node, ast.FunctionDef) else None


def _makes(base: type) -> Any:
    """The constructor that a class writes itself; of dataclasses and named tuples it is made, without a source."""
    made = vars(base).get("__init__")
    return made if inspect.isfunction(made) and made.__code__.co_filename == inspect.getsourcefile(base) else None


@cache
def _parsed(value: Any) -> ast.stmt:
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]


def _written(node: ast.expr | None) -> str:
    quoted = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return "" if node is None else node.value if quoted else ast.unparse(node)


def _one(name: str, annotation: ast.expr | None, default: ast.expr | None) -> str:
    typed = f"{name}: {_written(annotation)}" if annotation is not None else name
    if default is None:
        return typed
    return f"{typed} = {ast.unparse(default)}" if annotation is not None else f"{name}={ast.unparse(default)}"


def _arguments(args: ast.arguments) -> str:
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    shown = [_one(a.arg, a.annotation, d) for a, d in zip(positional, defaults, strict=True)]
    if args.posonlyargs:
        shown.insert(len(args.posonlyargs), "/")
    if positional and positional[0].arg in ("self", "cls"):
        del shown[0]
    if args.vararg:
        shown.append("*" + _one(args.vararg.arg, args.vararg.annotation, None))
    elif args.kwonlyargs:
        shown.append("*")
    shown += [_one(a.arg, a.annotation, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg:
        shown.append("**" + _one(args.kwarg.arg, args.kwarg.annotation, None))
    return ", ".join(shown)


def _fields(value: type) -> str | None:
    """What a dataclass, module or named tuple is made of, in the order of its constructor."""
    fields: dict[str, str] = {}
    for base in reversed(value.__mro__):
        if not base.__module__.startswith("jaxunc"):
            continue
        for node in getattr(_parsed(base), "body", ()):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                if "ClassVar" not in _written(node.annotation) and not name.startswith("_"):
                    default = ast.Constant(...) if isinstance(node.value, ast.Call) else node.value
                    fields[name] = _one(name, node.annotation, default)
    return f"({', '.join(fields.values())})" if fields else None


def _process(app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str, returns: str) -> Any:
    if what not in ("function", "method", "class", "exception"):
        return None
    try:
        shown = signature_of(value)
    except (OSError, TypeError, SyntaxError):
        shown = None
    if shown is None:
        return None
    return shown, _returns(value) or returns


def _returns(value: Any) -> str | None:
    if inspect.isclass(value):
        return None
    node = _parsed(inspect.unwrap(value))
    return _written(node.returns) if isinstance(node, ast.FunctionDef) and node.returns is not None else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Have autodoc show signatures as they are written."""
    app.connect("autodoc-process-signature", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
