"""One file of a delivery into row batches, by the format that its name tells."""

from collections.abc import Iterator, Sequence

from billing_adapters.csv_batches import read_csv
from billing_adapters.files import FileStore, opened_plain
from billing_adapters.parquet_batches import read_parquet
from billing_adapters.row_batches import HeaderCheck, RowBatch


def read_batches(store: FileStore, name: str, wanted: Sequence[str], check: HeaderCheck) -> Iterator[RowBatch]:
    """The rows of one file with the wanted columns, in order, in bounded memory.

    Raises:
        AdapterError: the file is truncated, ragged, in another encoding, or refused by ``check``.
    """
    with opened_plain(store, name) as stream:
        read = read_parquet if name.lower().endswith(".parquet") else read_csv
        yield from read(stream, name, wanted, check)
