"""An algorithm for Aegis in fifty lines: services whose own spans became slow or began to fail, most suspect first.

It reads the datapack with DuckDB and leaves `result.csv` in the output folder. Bring it along with

    aegisctl algorithm add slow-or-failing --command "/path/to/venv/bin/python /path/to/rank.py"
    aegisctl algorithm test slow-or-failing ts-000001
    aegisctl evaluation create --algorithm slow-or-failing --algorithm baro --wait
"""

import csv
import json
import os
import pathlib

import duckdb

# A span's own time is what is left when the spans that it started are taken away. What a service waits for is not its fault.
QUERY = """
WITH spans AS (
    SELECT *, false AS abnormal FROM read_parquet($normal)
    UNION ALL
    SELECT *, true AS abnormal FROM read_parquet($abnormal)
),
below AS (
    SELECT abnormal, TraceId, ParentSpanId AS SpanId, sum(Duration) AS Duration
    FROM spans WHERE ParentSpanId <> '' GROUP BY ALL
),
own AS (
    SELECT spans.abnormal, ServiceName,
           greatest(spans.Duration::DOUBLE - coalesce(below.Duration, 0)::DOUBLE, 0.0) AS own,
           (StatusCode = 'Error')::INTEGER AS failed
    FROM spans LEFT JOIN below USING (abnormal, TraceId, SpanId)
),
windows AS (
    SELECT ServiceName, abnormal, avg(own) AS own, avg(failed) AS failed FROM own GROUP BY ALL
)
SELECT coalesce(a.ServiceName, n.ServiceName),
       greatest(ln((coalesce(a.own, 0) + 1e5) / (coalesce(n.own, 0) + 1e5)), 0)
           + 5 * greatest(coalesce(a.failed, 0) - coalesce(n.failed, 0), 0)
           + CASE WHEN a.ServiceName IS NULL THEN 10 ELSE 0 END AS score
FROM (FROM windows WHERE abnormal) a FULL JOIN (FROM windows WHERE NOT abnormal) n USING (ServiceName)
ORDER BY score DESC, 1
"""

LOAD_GENERATORS = {"loadgenerator", "load-generator"}


def main() -> None:
    source, target = pathlib.Path(os.environ["INPUT_PATH"]), pathlib.Path(os.environ["OUTPUT_PATH"])
    files = {window: str(source / f"{window}_traces.parquet") for window in ("normal", "abnormal")}
    ranked = [row for row in duckdb.execute(QUERY, files).fetchall() if row[0] not in LOAD_GENERATORS]
    with open(target / "result.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["level", "result", "rank", "confidence"])
        writer.writerows(["service", name, rank, score] for rank, (name, score) in enumerate(ranked, 1))
    print(json.dumps({"suspects": len(ranked), "first": ranked[0][0]}))


if __name__ == "__main__":
    main()
