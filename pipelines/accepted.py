"""Findings that are errors: they block exports, reports and closing until they are gone or accepted by their code."""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import SettingsError, nearest
from allocation.findings import Code


def ensure_codes(accepted: Collection[str]) -> None:
    """Refuses a code that no finding has."""
    for code in accepted:
        if code not in set(Code):
            raise SettingsError(f"--accept {code!r} is no code of a finding; {nearest(code, [*Code])}")


def blocking(findings: pa.Table, accepted: Collection[str]) -> list[dict[str, str]]:
    """The rows of ``findings`` that are errors and not accepted."""
    known = pc.is_in(findings["code"], value_set=pa.array(sorted(accepted), pa.string()))
    rows: list[dict[str, str]] = findings.filter(pc.and_(pc.equal(findings["severity"], "error"), pc.invert(known))).to_pylist()
    return rows
