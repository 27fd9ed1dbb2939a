"""Dependencies point one way: read from the source of every module, function-level imports included."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "factlearn"
ROOT_MODULES = {"__init__", "config", "errors", "facts", "files", "images", "language", "processes", "progress"}
ROOT = "root modules"
LAYERS = (
    {ROOT, "assets", "places"},
    {"data", "models", "lifelong", "evaluation"},
    {"retrieval", "learning"},
    {"indexing"},
    {"experiments", "upkeep"},
    {"cli", "client", "server"},
)
LEVEL = {part: level for level, layer in enumerate(LAYERS) for part in layer}
SAME_LAYER = {
    (ROOT, "assets"): "the language space finds its word vectors by an asset's name",
    ("assets", ROOT): "assets are written, checked and decoded as all files are",
    (ROOT, "places"): "the one decoder opens a file wherever it lies",
    ("places", ROOT): "what cannot be read is told by the same errors",
    ("cli", "server"): "the command `serve` starts it",
    ("data", "models"): "the paper's datasets are read through the one door to torchvision",
}
DOOR_TO_TORCHVISION = "factlearn.models.vision"
RETRIEVAL_MAY_IMPORT = {ROOT, "evaluation", "places"}


def part_of(module):
    """The package below factlearn that a dotted name belongs to; the root modules count as one."""
    names = module.split(".")
    return names[1] if len(names) > 1 and (PACKAGE / names[1]).is_dir() else ROOT


def is_for_types_only(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imported_names(tree, module, is_package):
    """Every module that a module's source imports, as dotted names; what only type checkers see is left out."""
    pending = [tree]
    while pending:
        node = pending.pop()
        pending += node.orelse if is_for_types_only(node) else ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: len(module.split(".")) - node.level + is_package]
                base = ".".join([*parents, *filter(None, [base])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def read_imports():
    """(importing part, imported part) to the lines of evidence."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        for name in imported_names(ast.parse(path.read_text(encoding="utf-8")), module, is_package):
            if name.split(".")[0] == "factlearn":
                found.setdefault((part_of(module), part_of(name)), []).append(f"{module} imports {name}")
    return found


@pytest.fixture(scope="module")
def imports():
    return read_imports()


def test_function_level_imports_count_and_those_for_types_do_not():
    source = """
if TYPE_CHECKING:
    from factlearn.cli import app
else:
    import factlearn.data
def late():
    from ..models import network
"""
    found = set(imported_names(ast.parse(source), "factlearn.learning.runs", is_package=False))
    assert found == {"factlearn.data", "factlearn.models.network"}


def test_the_root_holds_exactly_the_modules_that_everything_shares():
    assert {path.stem for path in PACKAGE.glob("*.py")} == ROOT_MODULES


def test_every_package_has_a_layer():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= LEVEL.keys()
    assert LEVEL.keys() - packages == {ROOT}


def test_a_package_imports_lower_layers_only(imports):
    wrong = {
        pair: lines
        for pair, lines in imports.items()
        if pair[0] != pair[1] and LEVEL[pair[1]] >= LEVEL[pair[0]] and pair not in SAME_LAYER
    }
    assert not wrong


def test_every_exception_within_a_layer_is_needed(imports):
    assert imports.keys() >= SAME_LAYER.keys()
    assert all(LEVEL[one] == LEVEL[other] for one, other in SAME_LAYER)


def test_data_knows_nothing_of_models_but_the_door_to_torchvision(imports):
    assert {line.split(" imports ")[1].rpartition(".")[0] for line in imports["data", "models"]} == {
        DOOR_TO_TORCHVISION
    }


def test_no_two_packages_import_each_other(imports):
    mutual = {pair for pair in imports if pair[::-1] in imports and pair[0] != pair[1] and ROOT not in pair}
    assert not mutual


def test_retrieval_knows_facts_and_vectors_and_never_models(imports):
    assert {other for one, other in imports if one == "retrieval"} <= {*RETRIEVAL_MAY_IMPORT, "retrieval"}


@pytest.mark.parametrize("top", ["cli", "server"])
def test_nothing_imports_the_command_line_or_the_server(imports, top):
    assert not {one for one, other in imports if other == top and (one, other) not in SAME_LAYER} - {top}
