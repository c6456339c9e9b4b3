"""Writes ``docs/report/index.html`` from the quick start, and with ``--pictures`` pictures of it at two widths (needs Chromium).

Run it from the project's folder after a change of the report: ``python scripts/sample_report.py --pictures``.
"""

import io
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pipelines.cli import main  # noqa: E402

QUICKSTART, SAMPLE = ROOT / "examples" / "quickstart", ROOT / "docs" / "report"
NAME = "report-2026-10-effective-USD.html"
_COLOURS = 48


def sample(folder: Path) -> str:
    """The page of the quick start's month, computed in an empty folder."""
    for path in QUICKSTART.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    config = str(folder / "chargeback.yaml")
    if main(["run", config, "--from", "2026-10-01", "--until", "2026-10-02"]):
        raise SystemExit(1)
    if main(["report", config, "--month", "2026-10", "--to", str(folder / "report"), "--format", "html"]):
        raise SystemExit(1)
    return (folder / "report" / NAME).read_text(encoding="utf-8")


def pictures(page: Path) -> None:
    """The whole page at the widths of a desktop and a telephone, in few colours."""
    from PIL import Image  # noqa: PLC0415

    from tests.reports.browser import Browser  # noqa: PLC0415

    with Browser() as browser:
        for width in (1280, 390):
            browser.open(page, width)
            image = Image.open(io.BytesIO(browser.picture())).convert("RGB")
            image.quantize(_COLOURS).save(page.with_name(f"{width}.png"), optimize=True)


if __name__ == "__main__":
    SAMPLE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        (SAMPLE / "index.html").write_text(sample(Path(scratch)), encoding="utf-8")
    if "--pictures" in sys.argv[1:]:
        pictures(SAMPLE / "index.html")
