"""What numpydoc's checks ask of public docstrings where exceptions are rules, which its settings cannot say.

Which checks the site itself makes, and why others are off: `docs/conf.py`.
"""

import importlib
import inspect
import re
from functools import cache
from typing import Any

import pytest

from tests._rooms import ROOMS

validate = pytest.importorskip("numpydoc.validate")


def public() -> dict[str, Any]:
    """Functions and classes of every room, and the methods that a class defines itself, by full name."""
    found: dict[str, Any] = {}
    for package in ("jaxunc", *(f"jaxunc.{room}" for room in ROOMS)):
        module = importlib.import_module(package)
        for value in (getattr(module, name) for name in module.__all__):
            if not (inspect.isclass(value) or inspect.isfunction(value)) or not _ours(value):
                continue
            full = f"{value.__module__}.{value.__qualname__}"
            found[full] = value
            for name in vars(value) if inspect.isclass(value) else ():
                member = getattr(value, name)
                if not name.startswith("_") and inspect.isroutine(member) and _ours(member):
                    found[f"{full}.{name}"] = member
    return found


def _ours(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").startswith("jaxunc") and bool(inspect.getdoc(value))


PUBLIC = public()


def is_method(name: str) -> bool:
    """A member of a class, which says what its members work on."""
    return inspect.isclass(PUBLIC.get(name.rpartition(".")[0]))


def is_one_line(value: Any) -> bool:
    """A docstring that is one sentence, which says all."""
    return "\n" not in (inspect.getdoc(value) or "")


def says_arguments(name: str) -> bool:
    """A method whose words name each of its arguments, or whose base class says them."""
    owner, _, method = name.rpartition(".")
    if any(hasattr(base, method) for base in PUBLIC[owner].__mro__[1:]):
        return True
    arguments = inspect.signature(PUBLIC[name]).parameters.keys() - {"self", "kwargs"}
    words = inspect.getdoc(PUBLIC[name]) or ""
    return all(re.search(rf"``{argument}\b", words) for argument in arguments)


@cache
def codes(name: str) -> frozenset[str]:
    """The codes of numpydoc's checks that a docstring fails."""
    return frozenset(code for code, _ in validate.validate(name)["errors"])


def test_functions_say_what_their_arguments_are():
    """In a section, or in a method's words; one line suffices for a method and for a function of two arguments."""
    silent = []
    for name, value in PUBLIC.items():
        if inspect.isclass(value) or "PR01" not in codes(name):
            continue
        if is_one_line(value):
            said = is_method(name) or len(inspect.signature(value).parameters) <= 2
        else:
            said = is_method(name) and says_arguments(name)
        if not said:
            silent.append(name)
    assert not silent


def test_classes_that_list_parameters_list_all():
    """Of the others the signature shows the fields, and words stand beneath those whose names do not say it."""
    listed = {n: v for n, v in PUBLIC.items() if inspect.isclass(v) and "\nParameters\n" in (inspect.getdoc(v) or "")}
    assert len(listed) > 40
    assert not [name for name in listed if "PR01" in codes(name)]


def test_functions_say_what_they_return():
    """In a section, unless the first line says it: it is all there is, or begins with "Return"."""
    silent = []
    for name, value in PUBLIC.items():
        if codes(name) & {"RT01", "YD01"} and not is_one_line(value):
            doc = inspect.getdoc(value) or ""
            if not doc.startswith("Return ") and "\nYields\n" not in doc:
                silent.append(name)
    assert not silent


def test_a_docstring_without_its_arguments_is_found(monkeypatch):
    """The checks above see what they are for."""

    def bare(first, second):
        """Join two things.

        The first comes first.
        """
        return first, second

    report = validate.validate(validate.get_doc_object(bare))
    assert {"PR01", "RT01"} <= {code for code, _ in report["errors"]}
