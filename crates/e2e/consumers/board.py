"""Describe converted datapacks to the public platform, or read back what it wrote about them.

usage: board.py describe ROOT     writes ROOT/meta/rcabench from ROOT/data/rcabench/<datapack>/
       board.py read OUTPUT       prints the board and the answers as JSON
"""

import json
import pathlib
import sys

import polars

what, folder = sys.argv[1], pathlib.Path(sys.argv[2])
if what == "describe":
    index, labels = [], []
    for pack in sorted((folder / "data" / "rcabench").iterdir()):
        index.append({"dataset": "rcabench", "datapack": pack.name})
        injection = json.loads((pack / "injection.json").read_text())
        services = [service for truth in injection["ground_truth"] for service in truth["service"]]
        assert len(services) == len(set(services)), pack
        labels += [
            {"dataset": "rcabench", "datapack": pack.name, "gt.level": "service", "gt.name": service} for service in services
        ]
    meta = folder / "meta" / "rcabench"
    meta.mkdir(parents=True, exist_ok=True)
    polars.DataFrame(index).write_parquet(meta / "index.parquet")
    polars.DataFrame(labels).write_parquet(meta / "labels.parquet")
else:
    meta = folder / "meta" / "rcabench"
    board = polars.read_parquet(meta / "dataset.perf.parquet").to_dicts()
    answers = polars.read_parquet(meta / "output.parquet")
    answers = answers.select("algorithm", "datapack", "level", "name", "rank", "exception.type").sort("algorithm", "datapack", "rank")
    print(json.dumps({"board": board, "answers": answers.to_dicts()}, default=str))
