"""Count the spans of each service over many datapacks with DuckDB: one JSON line for each repetition.

usage: query.py REPEATS PACKS
"""

import json
import pathlib
import sys
import time

import duckdb

repeats, packs = int(sys.argv[1]), pathlib.Path(sys.argv[2])
files = [str(path) for path in sorted(packs.glob("*/open/*_traces.parquet"))]
for _ in range(repeats):
    connection = duckdb.connect()
    begin = time.perf_counter()
    rows = connection.execute("SELECT ServiceName, count(*) FROM read_parquet(?) GROUP BY ServiceName ORDER BY ServiceName", [files]).fetchall()
    seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "rows": rows, "version": duckdb.__version__}))
