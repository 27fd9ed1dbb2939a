"""The reference pages, made from the config schema and the command line whenever the site is built."""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
import typer.main
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from factlearn.cli import app
from factlearn.config import Section
from factlearn.data.registry import SOURCES
from factlearn.learning.config import SCHEMAS
from factlearn.lifelong.registry import METHODS

_PLAIN = {
    int: "integer",
    float: "number",
    str: "text",
    bool: "`true` or `false`",
    Path: "path",
    types.NoneType: "`null`",
}
_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}

CONFIG_HEAD = """# Every key of a config

Generated from the schema that checks configs. Set a key in the YAML file, or with `--set section.key=value`;
[Training](../training.md) explains the sections.
"""
COMMANDS_HEAD = """# Every command

Generated from `--help`. Errors print one sentence and exit with code 2.
"""


def config_page() -> str:
    """Every section of a config, with each field's type, default and meaning."""
    facts, classes = SCHEMAS["facts"], SCHEMAS["classes"]
    choice = f"| `learn` | {' or '.join(f'`{name}`' for name in SCHEMAS)} | `facts` | {description(facts, 'learn')} |\n"
    parts = [CONFIG_HEAD, "## Top level\n", _table(facts, skipped=("learn", *sections(facts))) + choice]
    for name, model in {**sections(classes), **sections(facts)}.items():
        if name not in ("data", "strategy"):
            parts += [f"## {name}\n", _summary(model), _table(model)]
            other = sections(classes).get(name, model)
            if different := _differing(other, model):
                parts += [f"With `learn: classes`, `{name}` has these instead:\n", _table(other, only=different)]
    parts += ["## data\n", "`data.source` selects one of these; each has keys of its own.\n"]
    for each in SOURCES.values():
        parts += [f"### source: {each.name}\n", f"{_sentence(each.summary)} For `learn: {each.learn}`.\n"]
        parts += [_table(each.config, skipped=("source",))]
    parts += ["## strategy\n", "`strategy.name` selects one of these; each has keys of its own.\n"]
    for name, method in METHODS.items():
        parts += [
            f"### name: {name}\n",
            f"{method.title}: {method.summary}.\n",
            _table(method.config, skipped=("name",)),
        ]
    return "\n".join(parts)


def commands_page() -> str:
    """Every command, with its arguments and options."""
    parts = [COMMANDS_HEAD]
    for words, command in commands(typer.main.get_command(app)):
        context = typer.Context(command, info_name=" ".join(("factlearn", *words)))
        parts += [f"## factlearn {' '.join(words)}\n", f"{_prose(command.help or '')}\n"]
        if not hasattr(command, "commands"):
            parts += [f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n"]
        records = [record for each in command.params if (record := each.get_help_record(context))]
        if records:
            rows = [f"| `{_cell(name)}` | {_prose(_cell(meaning))} |" for name, meaning in records]
            parts.append("\n".join(["| argument or option | meaning |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command as the words that a user types, groups before their members."""
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


def sections(schema: type[Section]) -> dict[str, type[Section]]:
    """The sections of a schema by their keys."""
    found = {name: field.annotation for name, field in schema.model_fields.items()}
    return {name: each for name, each in found.items() if isinstance(each, type) and issubclass(each, Section)}


def description(model: type[BaseModel], name: str) -> str:
    """What a field means; a class that only changes its default inherits the words."""
    for each in model.__mro__:
        field = getattr(each, "model_fields", {}).get(name)
        if field is not None and field.description:
            return " ".join(str(field.description).split())
    return ""


def kind(annotation: Any) -> str:
    """A type in words."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in arguments)
    inner = [kind(each) for each in arguments if isinstance(each, type) or get_origin(each)]
    if origin is dict:
        return f"mapping of {inner[0]} to {inner[1]}"
    if origin is tuple:
        return f"list of {inner[0]}"
    return " or ".join(dict.fromkeys(inner)) or "section"


def _differing(other: type[Section], model: type[Section]) -> list[str]:
    """The fields of one model that another lacks, or has with another default."""
    mine = model.model_fields
    return [
        name
        for name, field in other.model_fields.items()
        if name not in mine or _default(field) != _default(mine[name])
    ]


def _table(model: type[Section], *, only: Any = None, skipped: Any = ()) -> str:
    fields = model.model_fields.items()
    rows = [
        f"| `{field.alias or name}` | {_limited(field)} | {_default(field)} | {_cell(description(model, name))} |"
        for name, field in fields
        if name not in skipped and (only is None or name in only)
    ]
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows, ""]) if rows else ""


def _limited(field: FieldInfo) -> str:
    limits = [
        f"{sign} {getattr(each, key)}" for each in field.metadata for key, sign in _SIGNS.items() if hasattr(each, key)
    ]
    return _cell(", ".join([kind(field.annotation), *limits]))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "`null`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{list(value) if isinstance(value, tuple) else value}`"


def _summary(model: type[Section]) -> str:
    return f"{(model.__doc__ or '').splitlines()[0]}\n"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _prose(text: str) -> str:
    """Help text with what looks like HTML or emphasis, such as <person, riding, *>, kept as it is outside of code."""
    plain_and_code = text.split("`")
    plain_and_code[::2] = [part.replace("<", "&lt;").replace("*", "\\*") for part in plain_and_code[::2]]
    return "`".join(plain_and_code)
