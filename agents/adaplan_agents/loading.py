"""Objects by name: ``module:attr``, and keywords checked before a call."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from adaplan_envs.errors import ConfigError, check_name


def load_object(path: str, kind: str) -> Any:
    """Return the object at ``module:attr`` (attributes may be dotted); the working directory is searched too.

    Raises:
        ConfigError: no such module or attribute.
    """
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise ConfigError(f"{kind} {path!r} must have the form module:attr")
    here = os.getcwd()  # noqa: PTH109 - sys.path holds strings
    added = here not in sys.path and "" not in sys.path
    if added:  # a console script, unlike `python -m`, does not see the working directory
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, something that it imports is not
        raise ConfigError(f"{kind} {path!r}: no module {error.name!r}; run where it can be imported") from None
    except AttributeError as error:
        raise ConfigError(f"{kind} {path!r}: {error}") from None
    finally:
        if added and here in sys.path:
            sys.path.remove(here)
    return found


def keywords(function: Callable[..., Any], skip: Iterable[str] = ()) -> list[str] | None:
    """Return the names that `function` accepts as keywords, or None where it accepts any."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD) and parameter.name not in skip
    ]


def check_keywords(kind: str, function: Callable[..., Any], given: Iterable[str], skip: Iterable[str] = ()) -> None:
    """Raise if one of the names `given` is no keyword of `function`.

    Raises:
        UnknownNameError: it is not; the message lists the nearest.
    """
    valid = keywords(function, skip)
    if valid is not None:
        for name in given:
            check_name(kind, name, valid)
