"""Read, filter, sort and write the twelve files of a datapack with DuckDB: one JSON line for each repetition.

It reads the column files of the signal store that the datapack is built from, sorts by time alone, and neither checks nor
digests anything.

usage: pack_build.py REPEATS STORE WINDOWS FOLDER, where WINDOWS is {"normal": [from, to], "abnormal": [from, to]} in nanoseconds
"""

import json
import pathlib
import sys
import time

import duckdb

POINT = "TimeUnix, MetricName, MetricDescription, Value, ServiceName, MetricUnit, ResourceAttributes, Attributes"
TABLES = [
    ("traces", "traces", "Timestamp",
     "Timestamp, lower(hex(TraceId)) AS TraceId, lower(hex(SpanId)) AS SpanId, lower(hex(ParentSpanId)) AS ParentSpanId, "
     "TraceState, SpanName, SpanKind, ServiceName, ResourceAttributes, SpanAttributes, Duration, StatusCode, StatusMessage"),
    ("logs", "logs", "Timestamp",
     "Timestamp, date_trunc('second', Timestamp) AS TimestampTime, lower(hex(TraceId)) AS TraceId, lower(hex(SpanId)) AS SpanId, "
     "SeverityText, SeverityNumber, ServiceName, Body, ResourceAttributes, LogAttributes"),
    ("gauge", "metrics", "TimeUnix", POINT),
    ("sum", "metrics_sum", "TimeUnix", POINT),
    ("histogram", "metrics_histogram", "TimeUnix",
     "TimeUnix, MetricName, ServiceName, MetricUnit, ResourceAttributes, Attributes, Count, Sum, BucketCounts, "
     "ExplicitBounds, Min, Max, AggregationTemporality"),
]
FORM = "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"


def build(store, windows, folder):
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    rows = {}

    def copy(query, name):
        rows[name] = connection.execute(f"COPY ({query}) TO '{folder / name}' {FORM}").fetchone()[0]

    for window, (start, end) in windows.items():
        for signal, name, when, columns in TABLES:
            files = [str(path) for path in sorted(store.glob(f"runs/*/*/*/{signal}-*.parquet"))]
            source = f"read_parquet({files}) WHERE epoch_ns({when}) >= {start} AND epoch_ns({when}) < {end}"
            if signal == "logs":
                source += """ AND NOT contains(LogAttributes, '"event.domain":"k8s"')"""
            copy(f"SELECT {columns} FROM {source} ORDER BY {when}", f"{window}_{name}.parquet")
            if signal == "traces":
                copy(f"""SELECT lower(hex(TraceId)) AS TraceId, date_trunc('second', min(Timestamp)) AS Start, date_trunc('second', max(Timestamp)) AS "End"
                         FROM {source} GROUP BY ALL ORDER BY Start, TraceId""", f"{window}_trace_id_ts.parquet")
    return rows


repeats, store, windows, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2]), json.loads(sys.argv[3]), pathlib.Path(sys.argv[4])
folder.mkdir(parents=True, exist_ok=True)
for _ in range(repeats):
    begin = time.perf_counter()
    rows = build(store, windows, folder)
    seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "rows": rows, "version": duckdb.__version__}))
