"""Open every parquet file of datapacks in the public layout with DuckDB and with pandas; print what they see as JSON.

usage: open.py FOLDER...
"""

import json
import pathlib
import sys

import duckdb
import pandas


def look(path):
    columns = duckdb.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
    rows = duckdb.execute("SELECT count(*) FROM read_parquet(?)", [str(path)]).fetchone()[0]
    frame = pandas.read_parquet(path)
    assert len(frame) == rows, path
    return {
        "rows": rows,
        "duckdb": {column[0]: column[1] for column in columns},
        "pandas": {name: str(kind) for name, kind in frame.dtypes.items()},
    }


def folder(path):
    return {file.name: look(file) for file in sorted(path.glob("*.parquet"))}


print(json.dumps({name: folder(pathlib.Path(name)) for name in sys.argv[1:]}))
