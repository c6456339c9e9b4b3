"""Rows of a table on their way into the store: few in memory, more on disk, so that a night needs no more than a day of it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from allocation.errors import SourceUnavailableError

IN_MEMORY_ROWS = 1 << 15


class Spool:
    """Rows of one schema, added piece by piece and read again in that order. ``close`` ends what is on disk."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema, self.rows = schema, 0
        self._pieces: list[pa.Table] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    @property
    def in_memory(self) -> bool:
        """Whether all rows are."""
        return self._folder is None

    def add(self, piece: pa.Table) -> None:
        """More rows."""
        self.rows += len(piece)
        self._pieces.append(piece)
        if self._writer is not None or sum(map(len, self._pieces)) > IN_MEMORY_ROWS:
            self._spill()

    def _spill(self) -> None:
        try:
            if self._writer is None:
                self._folder = tempfile.TemporaryDirectory(prefix="gpu-chargeback-")
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                self._writer = pa.ipc.new_file(str(self._path), self.schema, options=options)
            for piece in self._pieces:
                self._writer.write_table(piece)
        except OSError as error:
            problem = f"cannot hold the rows of a large day: {' '.join(str(error).split())[:300]}"
            raise SourceUnavailableError(tempfile.gettempdir(), problem, setting="the environment variable TMPDIR") from error
        self._pieces.clear()

    @property
    def _path(self) -> Path:
        assert self._folder is not None  # noqa: S101
        return Path(self._folder.name) / "rows.arrow"

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, batch by batch; no more can be added."""
        if self._folder is None:
            for piece in self._pieces:
                yield from piece.to_batches()
            return
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        with pa.OSFile(str(self._path)) as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)

    def close(self) -> None:
        """Removes what is on disk."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
