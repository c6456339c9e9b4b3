"""Whether a table that a warehouse has already can take our rows: which columns to add, or what is wrong with it."""

from collections.abc import Mapping

from allocation.errors import ChargebackError
from allocation.schemas import Column, Table
from pipelines.warehouse_loads.asked import columns_of


def columns_to_add(place: str, table: Table, wanted: Mapping[str, str], found: Mapping[str, str], elsewhere: str) -> list[Column]:
    """The columns of a later version that the table lacks; ``wanted`` and ``found`` are the names of types by column.

    Raises:
        ChargebackError: the table has other columns; ``elsewhere`` is the option that names another place.
    """
    new = [column for column in columns_of(table) if column.name not in found]
    faults = [f"lacks {column.name} ({wanted[column.name]})" for column in new if not column.nullable]
    faults += [f"has {name}, which is none of ours" for name in found if name not in wanted]
    faults += [f"has {name} as {found[name]} instead of {kind}" for name, kind in wanted.items() if found.get(name, kind) != kind]
    if faults:
        raise ChargebackError(
            f"{place}: {'; '.join(faults)}. Rename or drop that table, or load into another place by {elsewhere}; "
            f"a column of your own belongs into a view or a table beside it"
        )
    return new
