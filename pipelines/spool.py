"""Rows of a table on their way into the store: few in memory, more on disk, so that a night needs no more than a day of it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

import pyarrow as pa

from allocation.errors import SourceUnavailableError

IN_MEMORY_ROWS = 1 << 15


class Spool:
    """Rows of one schema, added piece by piece and read again in that order. ``close`` ends what is on disk.

    The file on disk has no name, so nothing is left of it where the process is killed.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema, self.rows = schema, 0
        self._pieces: list[pa.Table] = []
        self._file: IO[bytes] | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    @property
    def in_memory(self) -> bool:
        """Whether all rows are."""
        return self._file is None

    def add(self, piece: pa.Table) -> None:
        """More rows.

        Raises:
            SourceUnavailableError: the disk for temporary files cannot hold them.
        """
        self.rows += len(piece)
        self._pieces.append(piece)
        if self._writer is not None or sum(map(len, self._pieces)) > IN_MEMORY_ROWS:
            with _holding():
                self._spill()

    def _spill(self) -> None:
        if self._writer is None:
            self._file = tempfile.TemporaryFile(prefix="gpu-chargeback-")  # noqa: SIM115 - until close
            self._writer = pa.ipc.new_file(self._file, self.schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        for piece in self._pieces:
            self._writer.write_table(piece)
        self._pieces.clear()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, batch by batch; no more can be added.

        Raises:
            SourceUnavailableError: the disk for temporary files cannot hold the last of them.
        """
        if self._file is None:
            for piece in self._pieces:
                yield from piece.to_batches()
            return
        if self._writer is not None:
            with _holding():
                self._writer.close()
                self._file.flush()
            self._writer = None
        with pa.ipc.open_file(self._file) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)

    def close(self) -> None:
        """Lets go what is on disk."""
        self._writer = None
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None


@contextmanager
def _holding() -> Iterator[None]:
    """Turns a disk's refusal into one clear line."""
    try:
        yield
    except OSError as error:
        problem = f"cannot hold the rows of a large day: {' '.join(str(error).split())[:300]}"
        raise SourceUnavailableError(tempfile.gettempdir(), problem, setting="the environment variable TMPDIR") from error
