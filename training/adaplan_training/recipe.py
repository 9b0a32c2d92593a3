"""Recipes: YAML to `TrainConfig` and back, with dotted overrides."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeVar

from adaplan_envs.errors import ConfigError, UnknownNameError, check_name
from adaplan_training.config import TrainConfig
from adaplan_training.stages import expand, merged

T = TypeVar("T")


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """Return the run as plain data, which `from_dict` reads."""
    return typing.cast("dict[str, Any]", _plain(dataclasses.asdict(config)))


def from_dict(record: Mapping[str, Any]) -> TrainConfig:
    """Return the run that `record` describes.

    Raises:
        UnknownNameError: a key that does not exist; the message lists the nearest.
        ConfigError: a value of the wrong type or out of range.
    """
    stages = {"stages": expand(record["stages"])} if "stages" in record else {}
    return _build(TrainConfig, {**record, **stages}, "")


def load_recipe(recipe: str | Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Return the run that a recipe describes.

    Args:
        recipe: a YAML file, or the name of a built-in one, such as ``tiny/maze-grpo``. Its key ``extends`` may name
            another, whose settings are taken where it has none of its own.
        overrides: ``key=value`` with dotted keys, such as ``optim.lr=1e-5``, ``stages.0.steps=20`` or
            ``agent.settings.replan=deviation``; values are read as YAML.

    Raises:
        ConfigError: no such recipe, key or value; the message names the nearest.
    """
    import yaml

    record = _read(recipe)
    try:
        pairs = [(key, yaml.safe_load(value)) for key, value in map(_split, overrides)]
    except yaml.YAMLError as error:
        raise ConfigError(f"an override is not valid YAML: {error}") from None
    for key, value in pairs:
        _override(record, key, value)
    return from_dict(record)


def _read(recipe: str | Path) -> dict[str, Any]:
    """Return a recipe as plain data, on top of the one that it extends, with its stages spelt out."""
    import yaml

    path = Path(recipe)
    if path.is_file():
        text = path.read_text(encoding="utf-8")
    else:
        known = recipe_names()
        if str(recipe) not in known:
            raise UnknownNameError("recipe (nor is it a file)", str(recipe), known)
        text = (files("adaplan_training") / "recipes" / f"{recipe}.yaml").read_text(encoding="utf-8")
    try:
        record: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{recipe} is not valid YAML: {error}") from None
    if not isinstance(record, dict):
        raise ConfigError(f"{recipe} holds no settings")
    if "extends" in record:
        try:
            record = merged(_read(record.pop("extends")), record)
        except RecursionError:
            raise ConfigError(f"{recipe} extends itself") from None
    settings: dict[str, Any] = record
    if "stages" in settings:  # so that an override such as stages.0.epochs=2 finds them
        settings["stages"] = expand(settings["stages"])
    return settings


def recipe_names() -> list[str]:
    """Return the names of the built-in recipes."""
    root = files("adaplan_training") / "recipes"
    with_folders = [
        (folder.name, item.name) for folder in root.iterdir() if folder.is_dir() for item in folder.iterdir()
    ]
    return sorted(f"{folder}/{name.removesuffix('.yaml')}" for folder, name in with_folders if name.endswith(".yaml"))


def _split(override: str) -> tuple[str, str]:
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"{override!r} must have the form key=value, such as optim.lr=1e-5")
    return key, value


def _override(record: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key; a part that is a number goes into a list."""
    place: Any = record
    *path, last = key.split(".")
    for number, part in enumerate(path):
        where = ".".join(path[: number + 1])
        if isinstance(place, list):
            place = place[_index(place, part, where)]
        else:
            if place.get(part) is None:
                place[part] = {}
            place = place[part]
        if not isinstance(place, (dict, list)):
            raise ConfigError(f"{key}: {where} is {place!r} and has no parts")
    if isinstance(place, list):
        place[_index(place, last, key)] = value
    else:
        place[last] = value


def _index(place: list[Any], part: str, where: str) -> int:
    if not part.isdecimal() or int(part) >= len(place):
        raise ConfigError(f"{where}: there are entries 0 to {len(place) - 1}")
    return int(part)


def _build(cls: type[T], record: Any, path: str) -> T:
    if not isinstance(record, Mapping):
        raise ConfigError(f"{path or 'the recipe'} is {record!r}; it must hold settings")
    hints = typing.get_type_hints(cls)
    for name in record:
        check_name(f"key in {path}" if path else "key of a recipe", str(name), hints)
    values = {name: _value(hints[name], value, f"{path}.{name}" if path else name) for name, value in record.items()}
    try:
        return cls(**values)
    except TypeError:
        required = [
            each.name
            for each in dataclasses.fields(cls)  # type: ignore[arg-type]
            if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
        ]
        missing = ", ".join(name for name in required if name not in values)
        raise ConfigError(f"{path or 'the recipe'} lacks {missing}") from None


def _value(hint: Any, value: Any, path: str) -> Any:
    """Return `value` as the type `hint`, which a field of this module has."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type, hint), value, path)
    if origin is types.UnionType:
        return None if value is None else _value(arguments[0], value, path)
    if origin is Literal:
        return check_name(path, value, arguments)
    if origin is dict and isinstance(value, Mapping):
        return {str(key): _value(arguments[1], item, f"{path}.{key}") for key, item in value.items()}
    if origin is list and isinstance(value, (list, tuple)):
        return [_value(arguments[0], item, f"{path}.{number}") for number, item in enumerate(value)]
    if origin is tuple and isinstance(value, (list, tuple)) and len(value) == len(arguments):
        return tuple(_value(kind, item, path) for kind, item in zip(arguments, value, strict=True))
    if hint is float and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 1e-6 as a string
        except (TypeError, ValueError):
            pass
    elif isinstance(hint, type) and type(value) is hint:
        return value
    raise ConfigError(f"{path} is {value!r}; it must be {getattr(hint, '__name__', str(hint))}")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
