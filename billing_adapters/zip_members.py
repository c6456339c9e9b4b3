"""The CSV files of a zip, one after the other as streams: nothing is written to disk under a name that a zip gives."""

import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, cast

from allocation.errors import AdapterError
from billing_adapters.files import seekable
from billing_adapters.row_batches import RowBatch

ReadCsv = Callable[[BinaryIO, str], Iterator[RowBatch]]
"""The rows of a stream of CSV, under a name for messages."""

_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError)
_UNREADABLE = (NotImplementedError, RuntimeError)
_REMEDY = "Have it delivered or copied again; nothing was used."


def read_zip(stream: BinaryIO, file: str, read: ReadCsv) -> Iterator[RowBatch]:
    """The rows of each CSV of a zip, unpacked as they are read.

    Raises:
        AdapterError: the zip is damaged, locked by a password, packed in an unknown way, or has no CSV.
    """
    with seekable(stream) as source, _explained(file):
        whole = zipfile.ZipFile(source)
        members = [info for info in whole.infolist() if _is_csv(info)]
        if not members:
            raise AdapterError("the zip holds no CSV file", file=file, remedy="Have it delivered again.")
        _refuse_copies(file, members)
        for info in members:
            with whole.open(info) as part:
                yield from read(cast("BinaryIO", part), file if len(members) == 1 else f"{file}/{info.filename}")


def _refuse_copies(file: str, members: Sequence[zipfile.ZipInfo]) -> None:
    """By size and checksum: the lines of a CSV that lies in it twice would be charged twice."""
    seen: dict[tuple[int, int], str] = {}
    for info in members:
        other = seen.setdefault((info.file_size, info.CRC), info.filename)
        if other != info.filename:
            problem = f"the same file twice: {other} and {info.filename} hold the same bytes and would be charged twice"
            raise AdapterError(problem, file=file, remedy="Have it delivered again.")


def _is_csv(info: zipfile.ZipInfo) -> bool:
    """By name; a folder, an empty file and what an archiver left beside the files are none."""
    *folders, base = info.filename.split("/")
    leftover = base.startswith((".", "_")) or "__MACOSX" in folders
    return base.lower().endswith(".csv") and info.file_size > 0 and not leftover


@contextmanager
def _explained(file: str) -> Iterator[None]:
    try:
        yield
    except _UNREADABLE as error:
        raise AdapterError(f"the zip cannot be unpacked ({error})", file=file, remedy="Export it as GZIP or Parquet.") from error
    except _DAMAGED as error:
        raise AdapterError(f"the zip is truncated or damaged ({error})", file=file, remedy=_REMEDY) from error
