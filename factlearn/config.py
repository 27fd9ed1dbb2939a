"""From YAML to checked values: the base of every section, and the registries that sections choose variants from.

A package that offers variants (lifelong methods, data sources, backbones, stores, experiments) keeps one `Registry`.
Its built-in variants register themselves when their modules are imported; others come from installed packages through
entry points, or from a program that calls `register`.

Two keys of a config file are resolved before all others and are not part of the run:

    scales     named groups of keys; `--set scale=NAME` puts one in place of the file's own, so that one file holds an
               experiment at the paper's size and at a small one
    methods    settings by method, such as {ewc: {lambda: 100}}, used when `strategy.name` selects it
    networks   the same for the model, such as {ridge: {hidden: [4096]}}
"""

import copy
import difflib
import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, ValidationInfo

from factlearn.errors import ConfigError

Entry = TypeVar("Entry")
Schema = TypeVar("Schema", bound="Section")
_MOST_NODES = 100_000


class Section(BaseModel):
    """A part of a config; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, use_attribute_docstrings=True)


def located(value: Any, info: ValidationInfo) -> Any:
    """A path made absolute, so that a run finds it again from any folder.

    A relative path starts from the folder of the config file, or, if nothing is there, from the current one.
    """
    if not isinstance(value, str | Path):
        return value
    try:
        path = Path(value).expanduser()
        beside = (info.context or {}).get("folder", Path()) / path
        return (beside if beside.exists() else path).resolve()
    except (OSError, RuntimeError) as error:  # a name that is too long, a home that nobody has
        raise ValueError(f"{str(value)[:60]!r} cannot be a path ({error.args[-1]})") from error


def located_file(*suffixes: str) -> BeforeValidator:
    """For a name that may also be a file: made absolute as by `located` if it has a slash or one of these suffixes."""

    def located_if_file(value: Any, info: ValidationInfo) -> Any:
        is_file = isinstance(value, str) and ("/" in value or Path(value).suffix in suffixes)
        return str(located(value, info)) if is_file else value

    return BeforeValidator(located_if_file)


Located = Annotated[Path, BeforeValidator(located)]
"""A path in a config, see `located`."""


class Registry(Mapping[str, Entry], Generic[Entry]):
    """Variants by the name that configs and commands use for them.

    Args:
        what: one of them in words, for error messages.
        group: the entry-point group through which installed packages add theirs.
        builtin: modules that register variants when imported; of a package, every module in it is imported.
    """

    def __init__(self, what: str, group: str, builtin: Sequence[str]) -> None:
        self.what = what
        self.group = group
        self._builtin = builtin
        self._entries: dict[str, Entry] = {}
        self._state = "unloaded"

    def register(self, name: str, entry: Entry) -> Entry:
        """Add a variant; loading the same module twice replaces its own, any other clash is an error."""
        old = self._entries.get(name)
        if old is not None and _origin(old) != _origin(entry):
            raise ConfigError(f"There are two {self.what}s called {name!r}: {_origin(old)} and {_origin(entry)}.")
        self._entries[name] = entry
        return entry

    def unregister(self, name: str) -> None:
        """Remove a variant, for programs and tests that added it."""
        self._entries.pop(name, None)

    def find(self, name: str) -> Entry:
        """The variant of this name; the error for an unknown one suggests what was meant."""
        self._load()
        if name in self._entries:
            return self._entries[name]
        close = difflib.get_close_matches(name, self._entries, n=1)
        hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(self._entries)}."
        raise ConfigError(f"There is no {self.what} {name!r}; {hint}")

    def __getitem__(self, name: str) -> Entry:
        self._load()
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._entries, key=self._rank))

    def _rank(self, name: str) -> tuple[int, str]:
        """Built-in variants in the order of their modules, then by name, whatever was imported first."""
        module = _origin(self._entries[name])
        places = [place for place, each in enumerate(self._builtin) if module.startswith(f"{each}.")]
        return (places[0] if places else len(self._builtin), name)

    def __len__(self) -> int:
        self._load()
        return len(self._entries)

    def _load(self) -> None:
        if self._state != "unloaded":
            return
        self._state = "loading"  # modules may look things up while they are imported
        try:
            self._import_all()
        except BaseException:
            self._state = "unloaded"
            raise
        self._state = "loaded"

    def _import_all(self) -> None:
        for name in self._builtin:
            module = importlib.import_module(name)
            for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
                importlib.import_module(f"{name}.{found.name}")
        for point in entry_points(group=self.group):
            try:
                point.load()
            except Exception as error:
                raise ConfigError(f"The {self.what} {point.name!r} ({point.value}) does not load: {error}.") from error


class Choice:
    """Validates a section as the variant it names, such as `strategy: {name: mas, lambda: 5}`.

    Args:
        registry: whose entries have a `config`, a `Section` class.
        key: the section's key that holds the name.
        default: the name where the section gives none.
    """

    def __init__(self, registry: Registry[Any], key: str, default: str) -> None:
        self.registry = registry
        self.key = key
        self.default = default

    def schema(self, value: Any) -> type[Section]:
        """The section class for plain values."""
        name = value.get(self.key, self.default) if isinstance(value, Mapping) else self.default
        return self.registry.find(str(name)).config  # type: ignore[no-any-return]

    def __call__(self, value: Any, info: ValidationInfo) -> Any:
        """What pydantic calls before validating the field."""
        if isinstance(value, Section):
            return value
        if not isinstance(value, Mapping):
            raise ValueError(f"write a section with a {self.key}, such as {{{self.key}: {self.default}}}")
        try:
            return self.schema(value).model_validate(value, context=info.context)
        except ConfigError as error:
            raise ValueError(str(error).rstrip(".")) from error


def load_yaml(text: str) -> Any:
    """Plain values of YAML text, refused if its aliases stand for far more than is written.

    Raises:
        yaml.YAMLError: for whatever is wrong with the text.
    """
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _expanded(node, {}) > _MOST_NODES:
            raise yaml.YAMLError("its aliases stand for too many values")
        return loader.construct_document(node)
    except (ValueError, TypeError, OverflowError, AttributeError) as error:  # dates and numbers that are none
        raise yaml.YAMLError(str(error)) from error
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None


def _expanded(node: yaml.Node, known: dict[int, int]) -> int:
    """The number of values that a node stands for, with everything its aliases repeat."""
    if id(node) not in known:
        known[id(node)] = _MOST_NODES + 1  # what an alias inside itself stands for has no end
        parts: list[Any] = []
        if isinstance(node, yaml.SequenceNode):
            parts = list(node.value)
        elif isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        known[id(node)] = 1 + sum(_expanded(part, known) for part in parts)
    return known[id(node)]


def read_config(path: Path | str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The plain values of a YAML config with overrides such as `training.epochs=3`; not yet checked.

    Raises:
        ConfigError: if the file is not YAML, has no such scale, or an override makes no sense.
    """
    path = Path(path)
    try:
        raw = load_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"The config {path} does not exist; the project's own are in configs/.") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"The config {path} is not readable YAML: {_one_line(error)}.") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"The config {path} holds no keys; see configs/ for examples.")
    scales = raw.pop("scales", None) or {}
    asked = with_overrides(raw, overrides)
    scale = str(asked.get("scale", "full"))
    if scale != "full":
        if not isinstance(scales, dict) or scale not in scales:
            known = ", ".join(["full", *(map(str, scales) if isinstance(scales, dict) else ())])
            raise ConfigError(f"The config {path} has no scale {scale!r}; its scales are {known}.")
        raw = _merged(raw, scales[scale])
        if not isinstance(raw, dict):
            raise ConfigError(f"The scale {scale!r} of {path} is a value; write sections in it, as in the file itself.")
    methods, networks = (raw.pop(key, None) or {} for key in ("methods", "networks"))
    strategy, chosen = raw.get("strategy"), asked.get("strategy")
    name = chosen.get("name") if isinstance(chosen, dict) else None
    if isinstance(methods, dict) and isinstance(name, str):
        own = strategy if isinstance(strategy, dict) and strategy.get("name") == name else {}
        raw["strategy"] = {"name": name, **_settings_of(methods, name, f"methods.{name} of {path}"), **own}
    if isinstance(networks, dict) and isinstance(name, str) and isinstance(raw.get("model"), dict):
        raw["model"] = {**raw["model"], **_settings_of(networks, name, f"networks.{name} of {path}")}
    return with_overrides(raw, overrides)


def _settings_of(table: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """The settings that a table of them has for a method."""
    settings = table.get(name) or {}
    if not isinstance(settings, dict):
        raise ConfigError(f"{where} is a value; write settings in it, such as {{lambda: 1}} or {{hidden: [4096]}}.")
    return settings


def scales_of(path: Path | str) -> list[str]:
    """The names of the scales that a config file offers besides its own."""
    try:
        raw = load_yaml(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []
    return list(raw.get("scales") or ()) if isinstance(raw, dict) else []


def with_overrides(raw: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of plain values with keys such as `training.epochs=3` set."""
    changed = copy.deepcopy(dict(raw))
    for override in overrides:
        _apply(changed, override)
    return changed


def parse_as(schema: type[Schema], raw: Mapping[str, Any], where: Path | str) -> Schema:
    """Check plain values against a schema.

    Args:
        where: they come from: a file, whose folder relative paths start from, or words for an error message.

    Raises:
        ConfigError: naming every key that is wrong.
    """
    context = {"folder": where.parent} if isinstance(where, Path) else None
    try:
        return schema.model_validate(raw, context=context)
    except ValidationError as error:
        problems = _problems(error, schema, raw)
        end = "" if problems.endswith("?") else "."
        raise ConfigError(f"The config {where} is not valid: {problems}{end}") from None


def shipped(name: str) -> Path:
    """One of the project's own files in `configs/`, such as `demo.yaml`: in a checkout, or in the installed package."""
    package = Path(__file__).parent
    packaged = package / "configs" / name
    return packaged if packaged.is_file() else package.parent / "configs" / name


def dump_yaml(section: Section) -> str:
    """A section as YAML, every default written out."""
    return yaml.safe_dump(section.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True)


def _origin(entry: Any) -> str:
    kind = entry if isinstance(entry, type) else getattr(entry, "origin", type(entry))
    return f"{kind.__module__}.{kind.__qualname__}" if hasattr(kind, "__qualname__") else str(kind)


def _merged(base: Any, changes: Any) -> Any:
    """Keys of `changes` in place of those of `base`; a section that names another variant starts empty."""
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    for kind in ("source", "name", "backbone"):
        if kind in changes and changes[kind] != base.get(kind):
            return changes
    return {key: _merged(base.get(key), changes[key]) if key in changes else base[key] for key in {**base, **changes}}


def _apply(raw: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"--set takes KEY=VALUE such as training.epochs=3, not {override!r}.")
    section: Any = raw
    for part in parts[:-1]:
        section = section.setdefault(part, {}) if isinstance(section, dict) else None
    if not isinstance(section, dict):
        raise ConfigError(f"--set {override}: {'.'.join(parts[:-1])} is a value, not a section.")
    try:
        section[parts[-1]] = load_yaml(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {override}: the value is not readable YAML: {_one_line(error)}.") from None


def _problems(error: ValidationError, schema: type[Section], raw: Any) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        place = [str(part) for part in problem["loc"]]
        key = ".".join(place) or "the whole"
        message = problem["msg"].removeprefix("Value error, ").rstrip(".")
        if problem["type"] == "extra_forbidden":
            close = difflib.get_close_matches(place[-1], _keys(schema, place[:-1], raw), n=1)
            message = "unknown key" + (f", did you mean {close[0]}?" if close else "")
        lines.append(f"{key}: {message[:1].lower() + message[1:]}")
    return "; ".join(lines)


def _keys(schema: type[Section], place: Sequence[str], raw: Any) -> list[str]:
    """The keys that the section at a place may have."""
    model: Any = schema
    for part in place:
        raw = raw.get(part) if isinstance(raw, Mapping) else None
        field = model.model_fields.get(part)
        if field is None:
            return []
        choice = next((each.func for each in field.metadata if isinstance(getattr(each, "func", None), Choice)), None)
        annotation = choice.schema(raw) if choice else field.annotation
        model = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else Section
    return [field.alias or name for name, field in model.model_fields.items()]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
