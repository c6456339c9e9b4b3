"""The export of the quick start before the FOCUS validator, the reference of the specification's own people.

It ends with 0 whatever it finds, so its counts are read. It knows the rules of FOCUS 1.2; of 1.3 those that are the same.
"""

import re
import subprocess
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from tests.conftest import NO_VALIDATOR
from tests.pipelines.test_focus_export import ROOT, Day, copied, with_invoices

RULES = "1.2.0.1"
HOLDS = """
ACCOUNT_NAMING AVAILABILITY_ZONE BILLING_BASED_ON_PROVISIONED_RESOURCES MULTIPLE_PRICING_CATEGORIES NEGOTIATED_PRICING REGION
RESOURCE_TYPE_ASSIGNMENT SUB_ACCOUNT TAGGING USAGE_MEASUREMENT
"""
"""What the validator is told to ask for beside the rules for everybody. Left out is what the store does not keep (unit prices,
price lists, pricing in another currency, types of accounts, commitments, capacity reservations)."""
WITHOUT_INVOICE, WITH_INVOICE = "InvoiceId-C-005-C", "InvoiceId-C-004-C"
"""One says that InvoiceId is never null, the other that it always is: the specification says each under a condition that the
rules of the validator leave out, so that one of them fails whatever stands there."""
_COUNTS = re.compile(r"^Total: (\d+) \| Pass: (\d+) \| Fail: (\d+) \| Skipped: (\d+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def validator() -> Path:
    """Its environment's program."""
    found = ROOT / ".servers" / "focus-validator" / "bin" / "focus-validator"
    if not found.exists():
        pytest.skip(NO_VALIDATOR)
    return found


def validated(validator: Path, data: Path) -> tuple[list[int], set[str]]:
    """Its counts (total, pass, fail, skipped), and the rules that failed."""
    packages = next((validator.parents[1] / "lib").glob("python3.*/site-packages"))
    asked = ",".join(f"{word}_SUPPORTED" for word in HOLDS.split())
    options = ["--validate-version", RULES, "--block-download", "--applicability-criteria", asked]
    done = subprocess.run(
        [validator, "--data-file", data, *options], cwd=packages, capture_output=True, text=True, timeout=300, check=True
    )
    counts = _COUNTS.search(done.stdout)
    assert counts, done.stdout[-2000:] + done.stderr[-2000:]
    return [int(count) for count in counts.groups()], set(re.findall(r"^- (\S+): violations=", done.stdout, re.MULTILINE))


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize(
    ("invoice", "unfounded"), [(None, WITHOUT_INVOICE), (lambda _: "INV-7", WITH_INVOICE)], ids=["open", "invoiced"]
)
def test_the_quick_start_passes(
    tmp_path: Path, validator: Path, version: str, invoice: Callable[[dict[str, str]], str] | None, unfounded: str
) -> None:
    config = copied(ROOT / "examples" / "quickstart", tmp_path / "copy")
    if invoice is not None:
        with_invoices(config.parent / "bill.csv", invoice)
    data = Day(config, date(2026, 10, 1), 1).export("charges.parquet", "--focus-version", version)
    (total, passed, failed, skipped), rules = validated(validator, data)
    assert (rules, failed) == ({unfounded}, 1)
    assert total == passed + failed + skipped
    assert passed > 200


def test_it_notices_what_is_wrong(tmp_path: Path, validator: Path) -> None:
    config = copied(ROOT / "examples" / "quickstart", tmp_path / "copy")
    data = Day(config, date(2026, 10, 1), 1).export("charges.parquet", "--focus-version", "1.4")
    _, rules = validated(validator, data)
    assert {rule.partition("-")[0] for rule in rules} >= {"ProviderName", "PublisherName"}
