"""Runs methods of RCAEval on tables of ours and prints what they answer.

    peer.py METHOD[,METHOD...] FOLDER...

A folder holds `inject_time.txt`; `data.csv` for the methods that take metrics, with `graph.csv`, a smaller table, for those
that learn a graph, and `pairs.csv` for the one that tests all pairs; `traces.csv` for those that take spans; `logs.csv` and
`votes.csv` (spans of the services that `data.csv` knows) for `pdiagnose`. One line of JSON is printed per folder and method:
the ranking, or what went wrong, and the seconds inside of the call. A method that falls back to the order of its columns
says so on its standard error; here that is a failure.
"""

import contextlib
import io
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")

import numpy as np
import pandas as pd
import RCAEval.e2e as e2e
import RCAEval.e2e.pdiagnose as script

SMALLER = {"pc_pagerank": "graph.csv", "pc_randomwalk": "graph.csv", "circa": "graph.csv", "granger_pagerank": "pairs.csv"}
SPANS = {"tracerca", "microrank"}


def ask(method, folder):
    inject = int((folder / "inject_time.txt").read_text())
    if method == "pdiagnose":
        return pdiagnose(folder)
    if method in SPANS:
        data, keywords = pd.read_csv(folder / "traces.csv"), {"inject_time": inject * 1_000_000}
    else:
        name = SMALLER.get(method, "data.csv")
        name = name if (folder / name).exists() else "data.csv"
        data = pd.read_csv(folder / name, float_precision="round_trip")
        keywords = {"inject_time": inject, "dataset": "re2-tt"}
    function = getattr(e2e, method)
    started = time.perf_counter()
    answer = function(data, **keywords)
    return [str(name) for name in answer["ranks"]], time.perf_counter() - started


def pdiagnose(folder):
    """The program has it as a script that reads one folder and prints pairs of service and score."""
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch) / "data/mm-ob/checkoutservice_cpu/1"
        place.mkdir(parents=True)
        for source, target in [("data.csv", "simple_metrics.csv"), ("logs.csv", "logs.csv"), ("logs.csv", "logts.csv"),
                               ("votes.csv", "traces.csv"), ("inject_time.txt", "inject_time.txt")]:
            shutil.copy(folder / source, place / target)
        os.chdir(scratch)
        try:
            printed = io.StringIO()
            started = time.perf_counter()
            with contextlib.redirect_stdout(printed):
                script.main()
            seconds = time.perf_counter() - started
        finally:
            os.chdir(home)
    pairs = eval(printed.getvalue().strip().splitlines()[-1], {"np": np})
    return [str(name) for name, _ in pairs], seconds


def main():
    methods = sys.argv[1].split(",")
    for folder in map(pathlib.Path, sys.argv[2:]):
        for method in methods:
            said = io.StringIO()
            line = {"folder": str(folder), "method": method}
            try:
                with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                    line["ranks"], line["seconds"] = ask(method, folder)
            except Exception as error:
                line["failed"] = f"{type(error).__name__}: {error}"
            fallen = [text for text in said.getvalue().splitlines() if "failed (" in text]
            if fallen:
                line = {"folder": str(folder), "method": method, "failed": fallen[0]}
            print(json.dumps(line), flush=True)


main()
