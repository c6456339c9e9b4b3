"""Parsed bills in the store, ``line_items/FINGERPRINT.parquet``: a delivery is parsed once, and read by day or by month."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from allocation.schemas import LINE_ITEMS
from pipelines.arriving import SHARED
from pipelines.asides import Aside
from pipelines.parquet_files import ROW_GROUP, parquet_of, write_blocks
from pipelines.partition import damaged
from pipelines.storage import TableStore


class KeptBills:
    """The bills that a store keeps, each by its delivery's fingerprint, the ``key``."""

    def __init__(self, store: TableStore) -> None:
        self._store, self._root = store, store.root

    def write(self, key: str, batches: Iterable[pa.Table], ordinals: Callable[[], pa.Table]) -> None:
        """Keeps the parsed lines of one delivery under its fingerprint, in memory bounded by a block of lines.

        Lines of a block stand by time, so that a day is read from few row groups. What a delivery's ordinals are is asked when
        all batches are written. A failure leaves nothing that a reader would take for the delivery.
        """
        with self._root.reaching():
            self._root.make("line_items/_ordinals")
            with self._scratch(key) as folder:
                lines = Path(folder) / "lines.parquet"
                write_blocks(lines, batches, "charge_period_start", LINE_ITEMS.empty())
                self._root.write(f"line_items/_ordinals/{key}.parquet", parquet_of(ordinals()))
                self._root.bring(lines, f"line_items/{key}.parquet")

    @contextmanager
    def _scratch(self, key: str) -> Iterator[str]:
        """A folder on the disk of the store where that is one; what a killed run left of the same delivery goes."""
        if not self._root.is_disk:
            with tempfile.TemporaryDirectory(prefix="gpu-chargeback-") as folder:
                yield folder
            return
        aside = Aside(self._root, "line_items", key, SHARED)
        try:
            yield str(self._root.on_disk(aside.folder))
        finally:
            aside.let_go()

    def read(self, key: str, first: pa.Scalar, until: pa.Scalar) -> tuple[pa.Table, pa.Table] | None:
        """The kept lines of a delivery that touch ``[first, until)`` and its ordinals, or None where it was never parsed."""
        path = f"line_items/{key}.parquet"
        with self._root.reaching():
            if not self._root.there(path):
                return None
            touching = [("charge_period_start", "<", until), ("charge_period_end", ">", first)]
            try:
                lines = pq.read_table(self._root.full(path), filesystem=self._root.fs, filters=touching, partitioning=None)
            except pa.ArrowException as error:
                raise damaged(f"{self._store.location}/{path}") from error
        return lines, self._store.read_file(f"line_items/_ordinals/{key}.parquet")

    def batches(self, key: str, month: date, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of a delivery's kept lines whose ``billing_period`` is the month, with few lines in memory.

        A row group that has no line of the month, by its statistics, is not read.
        """
        with self._store.opened(f"line_items/{key}.parquet") as file:
            place = file.schema_arrow.get_field_index("billing_period")
            for group in range(file.num_row_groups):
                told = file.metadata.row_group(group).column(place).statistics
                if told is not None and told.has_min_max and not told.min <= month <= told.max:
                    continue
                for batch in file.iter_batches(ROW_GROUP, [group], ["billing_period", *columns]):
                    lines = batch.filter(pc.equal(batch["billing_period"], pa.scalar(month)))
                    if len(lines):
                        yield lines.select(list(columns))

    def has(self, key: str) -> bool:
        """Whether the lines of a delivery are kept."""
        with self._root.reaching():
            return self._root.there(f"line_items/{key}.parquet")
