"""pyiceberg: a table in a versioned bucket; appends at once, deletes, time travel."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

bucket, folder, endpoint, access_key, secret_key = sys.argv[1:]
catalog = SqlCatalog(
    "test",
    **{
        "uri": f"sqlite:///{Path(folder) / 'catalog.db'}",
        "warehouse": f"s3://{bucket}/warehouse",
        "s3.endpoint": endpoint,
        "s3.access-key-id": access_key,
        "s3.secret-access-key": secret_key,
        "s3.region": "us-east-1",
    },
)
catalog.create_namespace("space")
rows = pyarrow.table({"number": list(range(1000)), "word": [f"w{number}" for number in range(1000)]})
table = catalog.create_table("space.table", schema=rows.schema)
table.append(rows)


def append(number: int) -> int:
    """Append until the commit is taken, as every writer of Iceberg does; the number of refusals."""
    for refusals in range(50):
        try:
            catalog.load_table("space.table").append(rows.slice(0, 10))
        except CommitFailedException:
            continue
        return refusals
    raise AssertionError(f"writer {number} was never taken")


with ThreadPoolExecutor(4) as threads:
    list(threads.map(append, range(8)))
table = catalog.load_table("space.table")
assert table.scan().to_arrow().num_rows == 1000 + 8 * 10
assert table.scan(row_filter="number < 5").to_arrow().num_rows == 5 * 9
first = table.history()[0].snapshot_id
assert table.scan(snapshot_id=first).to_arrow().num_rows == 1000
table.delete("number >= 500")
assert catalog.load_table("space.table").scan().to_arrow().num_rows == 500 + 8 * 10
catalog.purge_table("space.table")
