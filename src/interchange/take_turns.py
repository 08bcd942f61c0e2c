"""Reads tables, changes them, and reads them again.

take_turns.py CATALOG_PROPERTIES RESULTS_DIRECTORY [+]NAMESPACE.TABLE ...     `+`: it is changed too
"""

import json
import os
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType

properties, results, *names = sys.argv[1:]
catalog = load_catalog("ice", **json.loads(properties))


def keep(table, what, **scan):
    rows = table.scan(**scan).to_arrow()
    directory = os.path.join(results, ".".join(table.name()[-2:]), what)
    os.makedirs(directory)
    # Timestamps as they are, not as milliseconds.
    pq.write_table(rows, os.path.join(directory, "rows.parquet"), coerce_timestamps=None)


def with_ids(rows, add):
    return rows.set_column(rows.schema.get_field_index("id"), rows.schema.field("id"), pc.add(rows["id"], add))


def change(table):
    rows = table.scan(row_filter="id < 4").to_arrow()
    table.append(with_ids(rows, 1000))
    table.delete("id == 1000 or id == 0")
    table.overwrite(with_ids(rows, 2000), overwrite_filter="id == 1001")
    with table.update_schema() as update:
        update.add_column("by_python", IntegerType(), "a comment")
    with table.update_spec() as update:
        update.add_field("id", IdentityTransform(), "id_by_python")
    rows = table.scan(row_filter="id < 4").to_arrow()
    table.append(with_ids(rows, 3000))
    with table.transaction() as transaction:
        transaction.set_properties({"set-by": "python"})
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "by_python").commit()


for name in names:
    table = catalog.load_table(name.lstrip("+"))
    try:
        keep(table, "before")
        for reference in table.metadata.refs:
            if reference != "main":
                keep(table, "ref_" + reference, snapshot_id=table.metadata.refs[reference].snapshot_id)
        if name.startswith("+"):
            change(table)
            keep(catalog.load_table(name.lstrip("+")), "after")
    except Exception as e:
        raise RuntimeError(name) from e
