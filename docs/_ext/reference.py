"""The pages of the reference: one for each room, every public name with its docstring; tables of all names."""

import ast
import importlib
import inspect
import re
from itertools import chain, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import jaxunc
from tests._rooms import ROOMS

PREFIX = "jaxunc."


def write_pages(folder: Path) -> None:
    """Write a page for each room, and one for the names at the root."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "root.rst").write_text(_root_page(), encoding="utf-8")
    for room in ROOMS:
        if not _exported(PREFIX + room):
            continue  # what it has stands at the root
        (folder / f"{room}.rst").write_text(_room_page(room), encoding="utf-8")
    first = folder.with_suffix(".md")
    shown = re.sub(r"```{toctree}\n:caption: (.*)\n\n((?:.+\n)+)```", _group, first.read_text(encoding="utf-8"))
    first.write_text(shown, encoding="utf-8")


def _group(found: re.Match) -> str:
    """The tables of the rooms that a list of pages names, and the list, which menus are made of."""
    lines = [f"## {found[1]}", "", found[0].replace("{toctree}\n", "{toctree}\n:hidden:\n"), ""]
    for page in found[2].split():
        room = page.rpartition("/")[2]
        if room != "root":
            lines += [f"### [{room}]({page}.rst)", "", "```{eval-rst}", *_names(room), "```", ""]
    return "\n".join(lines)


def _names(room: str) -> list[str]:
    """A table of the names of a room, each with its first sentence."""
    module = importlib.import_module(PREFIX + room)
    lines = [".. list-table::", "   :class: names", ""]
    for name in module.__all__:
        value = getattr(module, name)
        described = inspect.isclass(value) or inspect.isfunction(value)
        told = (inspect.getdoc(value) or "") if described else told_of(module, name)
        sentence = re.match(r"(?:``.*?``|[^`]|`(?!`))*?\.(?=\s|$)|.*", " ".join(told.partition("\n\n")[0].split()))
        lines += [f"   * - :py:obj:`{name} <{module.__name__}.{name}>`", f"     - {sentence[0] if sentence else ''}"]
    return lines


def first_line(value: Any) -> str:
    """The line of a docstring that stands alone."""
    return (inspect.getdoc(value) or "").partition("\n")[0]


def _room_page(room: str) -> str:
    module = importlib.import_module(PREFIX + room)
    lines = [room, "=" * len(room), "", f".. automodule:: {PREFIX}{room}", "   :no-members:", ""]
    lines += [f".. py:currentmodule:: {PREFIX}{room}", "", *_names(room), ""]
    for name in module.__all__:
        lines += [name, "-" * len(name), "", *_directive(module, name), ""]
    if answered := _results(module):
        lines += ["What these answer", "-----------------", "", "Types that are read, and not made by hand.", ""]
        for name in answered:
            lines += [name, "~" * len(name), "", f".. autoclass:: {module.__name__}.{name}", "   :members:", ""]
    return "\n".join(lines)


def _results(module: ModuleType) -> list[str]:
    """The classes of a room that are not public, and that a public function or method of any room returns."""
    public = [
        getattr(importlib.import_module(PREFIX + room), name) for room in ROOMS for name in _exported(PREFIX + room)
    ]
    returned = set(re.findall(r"\w+", " ".join(chain.from_iterable(map(_returns, public)))))
    own = {name: value for name, value in vars(module).items() if inspect.isclass(value) and name in returned}
    is_ours = {name for name, value in own.items() if _room_of(value.__module__) == module.__name__}
    return sorted(is_ours - set(module.__all__))


def _returns(value: Any) -> list[str]:
    """What a function returns, or each public method of a class, as it is annotated."""
    members = [one for name, one in vars(value).items() if name[0] != "_"] if inspect.isclass(value) else [value]
    functions = [inspect.unwrap(getattr(one, "fget", None) or getattr(one, "__func__", one)) for one in members]
    told = [getattr(one, "__annotations__", {}).get("return", "") for one in functions if callable(one)]
    return [one if isinstance(one, str) else getattr(one, "__name__", str(one)) for one in told]


def _directive(module: ModuleType, name: str) -> list[str]:
    value, where = getattr(module, name), f"{module.__name__}.{name}"
    if not (inspect.isclass(value) or inspect.isfunction(value)) or not value.__module__.startswith("jaxunc"):
        return [f".. py:data:: {name}", "", *indented(told_of(module, name))]
    home = _room_of(value.__module__)
    if home != module.__name__ and name in _exported(home):
        return [*_entry(name, value), "", f"   In full: :py:obj:`{home}.{name}`."]
    if inspect.isfunction(value):
        return [f".. autofunction:: {where}"]
    kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
    return [f".. {kind}:: {where}", "   :members:", f"   :exclude-members: {', '.join(OTHERS)}"]


OTHERS = ("set_fit_request", "set_score_request", "set_predict_request", "set_predict_proba_request")
"""Methods that scikit-learn gives its estimators, whose descriptions refer to its own pages."""


def told_of(module: ModuleType, name: str) -> str:
    """The docstring beneath an assignment, in whichever module of the room it stands."""
    for path in _in_order(module, name):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        bodies = [getattr(node, "body", None) for node in ast.walk(tree)]  # those of `if TYPE_CHECKING`, too
        for node, after in chain.from_iterable(pairwise(body) for body in bodies if isinstance(body, list)):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
            if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return inspect.cleandoc(str(after.value.value))
    raise LookupError(f"{module.__name__}.{name} has no docstring beneath its assignment")


def _in_order(module: ModuleType, name: str) -> list[Path]:
    """The modules of a room, that which `__init__` takes the name from first."""
    face = Path(str(module.__file__))
    taken = re.search(rf"from \.(\w+) import [^\n]*\b{name}\b", face.read_text(encoding="utf-8"))
    first = [face.parent / f"{taken[1]}.py"] if taken else []
    return [*first, *sorted(face.parent.glob("*.py"))]


def indented(text: str) -> list[str]:
    """The lines of a text, as the body of a directive."""
    return [f"   {line}" if line else "" for line in text.split("\n")]


def attributes() -> set[str]:
    """Patterns for the attributes of public classes: told in half a sentence, which numpydoc's checks ask more of."""
    found = set()
    for room in ROOMS:
        module = importlib.import_module(PREFIX + room)
        for name in (*module.__all__, *_results(module)):
            value = getattr(module, name)
            if inspect.isclass(value):
                members = [one for one in dir(value) if not inspect.isroutine(getattr(value, one, None))]
                found |= {rf"\.{name}\.{one}$" for one in (*inspect.get_annotations(value), *members)}
    return found


def _exported(room: str) -> list[str]:
    return importlib.import_module(room).__all__ if room.removeprefix(PREFIX) in ROOMS else []


def _room_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _entry(name: str, value: Any) -> list[str]:
    """A name that is described elsewhere: found by the search, with its first line."""
    kind = "py:class" if inspect.isclass(value) else "py:function"
    return [f".. {kind}:: {name}{'' if inspect.isclass(value) else '()'}", "", f"   {first_line(value)}"]


def _root_page() -> str:
    title = "At the root"
    lines = [title, "=" * len(title), "", ".. automodule:: jaxunc", "   :no-members:", ""]
    lines.append(".. py:currentmodule:: jaxunc")
    for name in jaxunc.__all__:
        value = getattr(jaxunc, name)
        if inspect.ismodule(value):
            continue
        room = _room_of(value.__module__)
        if name in _exported(room):
            lines += ["", *_entry(name, value), "", f"   In full: :py:obj:`{room}.{name}`."]
        else:
            lines += ["", f".. autofunction:: jaxunc.{name}"]
    return "\n".join(lines) + "\n"
