"""What the doctor found, licences and backups, for people and for programs."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from factlearn.cli.tables.runs import megabytes

if TYPE_CHECKING:
    from factlearn.assets import Asset
    from factlearn.upkeep.backup import Backup
    from factlearn.upkeep.doctor import Finding
    from factlearn.upkeep.packages import Package

_STATES = {"ok": "yes", "absent": "not there", "problem": "NO"}


def findings_table(findings: "Sequence[Finding]") -> Table:
    """One row per thing, part by part."""
    from factlearn.upkeep.doctor import usable

    verdict = "factlearn is usable" if usable(findings) else "factlearn is not usable: see the rows marked NO"
    table = Table(title=verdict)
    for column in ("part", "what", "usable", "found", "what to do"):
        table.add_column(column, overflow="fold", no_wrap=column in ("part", "usable"))
    before = ""
    for finding in findings:
        if before not in ("", finding.part):
            table.add_section()
        part = finding.part if finding.part != before else ""
        before = finding.part
        table.add_row(part, finding.name, _STATES[finding.state], finding.detail, finding.remedy)
    return table


def licences_json(packages: "Iterable[Package]", assets: "Iterable[Asset]") -> dict[str, Any]:
    """Plain JSON values."""
    return {
        "packages": [
            {"name": each.name, "version": each.version, "licence": each.licence} for each in packages
        ],
        "assets": [{"name": each.name, "licence": each.licence, "cached": each.cached} for each in assets],
    }  # fmt: skip


def licences_tables(packages: "Iterable[Package]", assets: "Iterable[Asset]") -> list[Table]:
    """The packages, then the assets."""
    first, second = Table(title="Packages, as their metadata states it"), Table(title="Assets")
    for column in ("package", "version", "licence"):
        first.add_column(column, overflow="fold")
    for column in ("asset", "licence"):
        second.add_column(column, overflow="fold")
    for each in packages:
        first.add_row(each.name, each.version, each.licence)
    for asset in assets:
        second.add_row(asset.name, asset.licence)
    return [first, second]


def backup_text(backup: "Backup") -> str:
    """A backup in a few words."""
    article = "an" if backup.kind == "index" else "a"
    return f"{article} {backup.kind}, {backup.files:,} files, {megabytes(backup.size)}, checksums included"
