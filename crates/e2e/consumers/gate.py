"""Ask the public platform's own gate about datapacks in the public layout, and about the same without any histogram.

usage: gate.py FOLDER...

Prints, for each folder, why it is refused whole and why it is refused bare; null when it is let in.
"""

import json
import pathlib
import shutil
import sys
import tempfile

import pyarrow.parquet
from rcabench_platform.v2.datasets.rcabench import valid


def refusal(folder):
    _, let_in = valid(folder, force_refresh=True)
    return None if let_in else (folder / ".invalid").read_text()


def bare(folder, scratch):
    copy = pathlib.Path(shutil.copytree(folder, pathlib.Path(scratch) / folder.name))
    for file in copy.glob("*_metrics_histogram.parquet"):
        pyarrow.parquet.write_table(pyarrow.parquet.read_table(file).slice(0, 0), file)
    return copy


told = {}
for folder in map(pathlib.Path, sys.argv[1:]):
    with tempfile.TemporaryDirectory() as scratch:
        told[str(folder)] = {"whole": refusal(folder), "bare": refusal(bare(folder, scratch))}
print(json.dumps(told))
