#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""figures.py [--check]: makes figures.md, the last figures of neuron-ratios and ccom-ratios on each kind of processor, of baselines/ and bounds.tsv.

A run with NEURON_BENCH_BASELINE=write leaves its figures in baselines/. bounds.tsv names what explains a miss: `benchmark processor number`,
the first two with * and ?, the number that of a paragraph in README.md. --check only says whether figures.md is what would be made."""
import fnmatch
import json
import pathlib
import re
import sys
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).resolve().parent
PAGE = "figures.md"
KEYS = {"ratio", "goal", "at most", "met", "peer", "day"}

# Benchmarks whose names say more than ranks and bytes, in the order of the page. What fits none is an error: nothing is left out.
GROUPS = [
    ("The host itself", ["host-*"]),
    ("Launches, clients and threads", ["launch*", "async-launch", "clients*", "threads", "init-*", "probe", "freed-after-kill-*"]),
    ("Products and rows of elements", ["matmul-*", "softmax", "layernorm", "gelu", "attention", "overlap*", "two-cores"]),
    ("Strict mode, each kernel", ["strict-*"]),
    ("Traces and profiles", ["trace-*", "view-*"]),
    ("Copies and files", ["hbm-copy*", "tensor-write*", "copy-shared*", "file-to-hbm*", "neff-load"]),
    ("Tools, kernels in Python, the builder", ["ls", "monitor", "serve*", "nki-*", "builder*"]),
    ("Collectives on devices of one host", ["device *"]),
    ("The simulator", ["simulator*"]),
]
CELL = re.compile(r"(?P<name>[a-z0-9-]*[a-z0-9])-(?P<ranks>[0-9]+(x[0-9]+)?)-(?P<bytes>[0-9]+)")
DEVICE_CELL = re.compile(r"(?P<name>hosts-device-allreduce)-(?P<bytes>[0-9]+)")


class Cell(NamedTuple):
    name: str
    ranks: str
    bytes: int


class Bound(NamedTuple):
    benchmark: str
    processor: str
    number: str


class Refused(Exception):
    """A sentence for who calls."""


def cell_of(benchmark):
    """Of `allreduce-2-65536`; None of another name."""
    if found := DEVICE_CELL.fullmatch(benchmark):
        return Cell(found["name"], "2x4", int(found["bytes"]))
    if found := CELL.fullmatch(benchmark):
        return Cell(found["name"], found["ranks"], int(found["bytes"]))
    return None


def size_text(count):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if count >> shift and count % (1 << shift) == 0:
            return f"{count >> shift} {unit}"
    return f"{count} B"


def processor_text(name):
    vendor, family, model = name.rsplit("-", 2)
    return f"{ {'AuthenticAMD': 'AMD', 'GenuineIntel': 'Intel'}.get(vendor, vendor)}, family {family}, model {model}"


def read_bounds(text):
    bounds = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        words = line.split("\t")
        if len(words) != 3:
            raise Refused(f"bounds.tsv:{number}: {len(words)} columns, expected benchmark, processor and number")
        bounds.append(Bound(*words))
    return bounds


class Page:
    def __init__(self, baselines, bounds, numbers):
        """baselines: {processor: {benchmark: its line}}. numbers: of the paragraphs that README.md has."""
        self.baselines = baselines
        self.bounds = bounds
        for bound in bounds:
            if not fnmatch.filter(baselines, bound.processor):
                raise Refused(f"bounds.tsv: no processor is called {bound.processor}")
        self.benchmarks = sorted({name for rows in baselines.values() for name in rows})
        for bound in bounds:
            if not fnmatch.filter(self.benchmarks, bound.benchmark):
                raise Refused(f"bounds.tsv: no benchmark is called {bound.benchmark}")
            for number in bound.number.split(", "):
                if number not in numbers:
                    raise Refused(f"bounds.tsv: {bound.benchmark} is bounded by {number}, and README.md has no such paragraph")

    def bound_of(self, benchmark, processor):
        for bound in self.bounds:
            if fnmatch.fnmatchcase(benchmark, bound.benchmark) and fnmatch.fnmatchcase(processor, bound.processor):
                return bound.number
        return "?"

    def newest(self, processor):
        return max(row["day"] for row in self.baselines[processor].values())

    @staticmethod
    def has_goal(row):
        return row["goal"] != 0

    @staticmethod
    def goal_text(row):
        return f"{'≤' if row['at most'] else '≥'} {row['goal']:g}" if Page.has_goal(row) else "none"

    @staticmethod
    def number(row):
        """Three digits, but as many as it takes to tell a miss from its goal."""
        if row["ratio"] >= 1000:
            return f"{row['ratio']:.0f}"
        text = f"{row['ratio']:.3g}"
        missed = Page.has_goal(row) and not row["met"]
        return f"{row['ratio']:.4g}" if missed and float(text) == row["goal"] else text

    def value(self, benchmark, processor, with_goal):
        row = self.baselines[processor].get(benchmark)
        if row is None:
            return ""
        text = self.number(row)
        if self.has_goal(row) and not row["met"]:
            of = f" ({self.goal_text(row)})" if with_goal else ""
            text = f"**{text}**{of} [{self.bound_of(benchmark, processor)}]"
        return text if row["day"] == self.newest(processor) else f"{text}, {row['day']}"

    def summary(self):
        lines = ["| processor | last run | benchmarks with a goal | met | missed, explained | missed, not explained |", "|---|---|---|---|---|---|"]
        for processor, rows in self.baselines.items():
            judged = {name: row for name, row in rows.items() if self.has_goal(row)}
            missed = [name for name, row in judged.items() if not row["met"]]
            unknown = [name for name in missed if self.bound_of(name, processor) == "?"]
            lines.append(f"| {processor_text(processor)} | {self.newest(processor)} | {len(judged)} | {len(judged) - len(missed)} | "
                         f"{len(missed) - len(unknown)} | {len(unknown)} |")
        return lines

    def plain_table(self, benchmarks):
        lines = ["| benchmark | in terms of | goal | " + " | ".join(map(processor_text, self.baselines)) + " |",
                 "|---" * (3 + len(self.baselines)) + "|"]
        for name in benchmarks:
            rows = [rows[name] for rows in self.baselines.values() if name in rows]
            goals = sorted({self.goal_text(row) for row in rows})
            peers = list(dict.fromkeys(row["peer"] for row in rows))
            values = [self.value(name, processor, len(goals) > 1) for processor in self.baselines]
            lines.append(f"| {name} | {'; '.join(peers)} | {'; '.join(goals)} | " + " | ".join(values) + " |")
        return lines

    def cell_table(self, cells):
        sizes = sorted({cell.bytes for cell in cells.values()})
        lines = ["| ranks | processor | " + " | ".join(map(size_text, sizes)) + " |", "|---" * (2 + len(sizes)) + "|"]
        for ranks in sorted({cell.ranks for cell in cells.values()}, key=lambda text: [int(n) for n in text.split("x")]):
            named = {cell.bytes: name for name, cell in cells.items() if cell.ranks == ranks}
            goals = {size: next(self.goal_text(rows[name]) for rows in self.baselines.values() if name in rows) for size, name in named.items()}
            lines.append(f"| {ranks.replace('x', ' x ')} | the goal | " + " | ".join(goals.get(size, "") for size in sizes) + " |")
            for processor in self.baselines:
                of = {cell.bytes: self.value(name, processor, False) for name, cell in cells.items() if cell.ranks == ranks}
                if any(of.values()):
                    lines.append(f"| {ranks.replace('x', ' x ')} | {processor_text(processor)} | " + " | ".join(of.get(size, "") for size in sizes) + " |")
        return lines

    def peers_of(self, benchmarks):
        peers = {rows[name]["peer"] for rows in self.baselines.values() for name in benchmarks if name in rows}
        return "; ".join(sorted(peers))

    def text(self):
        lines = ["# The last figures of neuron-ratios and ccom-ratios, on each kind of processor", "",
                 "`tests/bench/figures.py` makes this page of [`baselines/`](baselines), which `NEURON_BENCH_BASELINE=write make bench` writes. A figure is",
                 "ours in terms of the peer; where there is no peer, the column has the unit. **Bold** is a goal that was missed. In brackets is the paragraph",
                 "of [README.md](README.md#what-is-known-of-a-miss) that explains it, or ? where nobody has found out. A day stands behind a figure that is older",
                 "than the newest one of its column. [README.md](README.md) has what these programs do not keep.",
                 ""]
        lines += self.summary()
        left = {name: None for name in self.benchmarks}
        tables = {}
        for name in self.benchmarks:
            if cell := cell_of(name):
                tables.setdefault(cell.name, {})[name] = cell
        for title, patterns in GROUPS:
            found = [name for pattern in patterns for name in self.benchmarks if name in left and cell_of(name) is None and fnmatch.fnmatchcase(name, pattern)]
            found = list(dict.fromkeys(found))
            for name in found:
                del left[name]
            if found:
                lines += ["", f"## {title}", ""] + self.plain_table(found)
        for title, cells in sorted(tables.items()):
            for name in cells:
                del left[name]
            lines += ["", f"## {title}", "", f"In terms of: {self.peers_of(cells)}.", ""] + self.cell_table(cells)
        if left:
            raise Refused(f"no group of figures.py has {', '.join(left)}")
        return "\n".join(lines) + "\n"


def make(folder):
    baselines = {}
    for path in sorted((folder / "baselines").glob("*.json")):
        try:
            rows = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise Refused(f"{path.name} is no JSON: {error}") from error
        for name, row in rows.items():
            if not isinstance(row, dict) or not KEYS <= row.keys():
                raise Refused(f"{path.name}: {name} lacks one of {', '.join(sorted(KEYS))}")
        baselines[path.stem] = rows
    numbers = set(re.findall(r"^([0-9]+)\. \*\*", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    return Page(baselines, read_bounds((folder / "bounds.tsv").read_text(encoding="utf-8")), numbers).text()


def main(arguments, folder=FOLDER):
    if arguments not in ([], ["--check"]):
        print("usage: figures.py [--check]", file=sys.stderr)
        return 2
    page = folder / PAGE
    try:
        text = make(folder)
    except Refused as refused:
        print(f"figures.py: {refused}", file=sys.stderr)
        return 1
    if not arguments:
        page.write_text(text, encoding="utf-8")
        return 0
    if page.exists() and page.read_text(encoding="utf-8") == text:
        return 0
    print(f"{page.name} is not what baselines/ and bounds.tsv give; run tests/bench/figures.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
