"""Prints reports of redo client-check as one table of Markdown: python3 matrix.py DIRECTORY NAME..."""

import json
import pathlib
import sys

SIGNS = {"pass": "✓", "fail": "✗", "warn": "▲", "skip": "–", "info": "i"}

directory, names = pathlib.Path(sys.argv[1]), sys.argv[2:]
reports = [json.loads((directory / f"{n}.json").read_text()) for n in names]
letters = [chr(ord("A") + i) for i in range(len(names))]
print("| | Client | Passed | Failed | Warned | Skipped |")
print("|---|---|---|---|---|---|")
for letter, name, report in zip(letters, names, reports):
    verdicts = [r["verdict"] for r in report["results"]]
    print(f"| {letter} | {name} |", " | ".join(str(verdicts.count(v)) for v in ("pass", "fail", "warn", "skip")), "|")
print()
print("| Case | Level |", " | ".join(letters), "|")
print("|---|---|" + "---|" * len(letters))
for rows in zip(*(r["results"] for r in reports)):
    signs = " | ".join(SIGNS.get(r["verdict"], r["verdict"]) for r in rows)
    print(f"| {rows[0]['slug']} | {rows[0]['level']} | {signs} |")
