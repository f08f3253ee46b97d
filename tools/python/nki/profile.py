# SPDX-License-Identifier: Apache-2.0
"""Where the modelled time of a kernel goes: by engine, and by line of Python.

The device reports the time of an execution and how long each engine was busy. How long each line
keeps an engine comes from the cost model of the instructions that the line became. The order of
instructions is that of the kernel; Amazon's compiler may choose another one.
"""
import html
import linecache

NAMES = {"PE": "Tensor", "DVE": "Vector", "Activation": "Scalar", "Pool": "GpSimd", "SP": "Sync"}


class LineCost:
    """One line of Python on one engine."""

    __slots__ = ("file", "line", "engine", "instructions", "microseconds")

    def __init__(self, record):
        self.file, self.line = record["file"], record["line"]
        self.engine = NAMES.get(record["engine"], record["engine"])
        self.instructions = record["instructions"]
        self.microseconds = record["ps"] * 1e-6


class Profile:
    """Made by Kernel.profile(). microseconds: of the whole execution; engines: busy shares, of two cores
    their mean."""

    def __init__(self, specialisation):
        # The first execution also points the rings at the tensors; a later one is what counts.
        report = specialisation.executable.repeat()
        compiled = specialisation.compiled.report
        self.kernel, self.target = specialisation.name, specialisation.target
        self.microseconds = report.device_ps * 1e-6
        whole = max(1, report.device_ps * specialisation.executable.cores)
        self.engines = {NAMES[name]: busy / whole
                        for name, busy in report.busy_ps.items()}
        self.instructions = {NAMES[name]: count for name, count in report.instructions.items()}
        self.lines = [LineCost(line) for line in compiled["lines"] if line["line"]]
        self.transfers = compiled["transfers"]
        self.transferred_bytes = compiled["transferred_bytes"]
        self.notes = list(dict.fromkeys(specialisation.traced.notes))
        if compiled.get("first_wait"):
            self.notes.append(f"{compiled['first_wait']}: there was no room for this tile in the order of the kernel; "
                              "what needs it came later, so the time is that of another order")

    @property
    def bandwidth(self):
        """GB/s of all transfers over the whole time."""
        return self.transferred_bytes / (self.microseconds * 1e3) if self.microseconds else 0.0

    @property
    def bottleneck(self):
        """One sentence: what the kernel waits for most, and on which line."""
        name, share = max(self.engines.items(), key=lambda item: item[1])
        lines = [line for line in self.lines if line.engine == name]
        if share < 0.5:
            return (f"no engine is busy for half of the time ({name} {share:.0%}): the kernel waits "
                    f"for {self.transfers} transfers at {self.bandwidth:.0f} GB/s, or for its own "
                    "chain of dependent instructions; larger transfers and more tiles in flight help")
        text = f"{name} is busy for {share:.0%} of the time"
        if lines:
            text += (f", most of it for {lines[0].file}:{lines[0].line} "
                     f"({lines[0].microseconds:.1f} us in {lines[0].instructions} instructions)")
        return text

    def __repr__(self):
        rows = [f"{self.kernel} on {self.target}: {self.microseconds:.2f} us of modelled time",
                "busy       " + "  ".join(f"{n} {s:.0%}" for n, s in self.engines.items()),
                f"transfers  {self.transfers}, {self.transferred_bytes} bytes, "
                f"{self.bandwidth:.0f} GB/s", f"bottleneck {self.bottleneck}"]
        for line in self.lines[:8]:
            source = linecache.getline(line.file, line.line).strip()
            rows.append(f"  {line.microseconds:10.2f} us  {line.engine:7s} {line.instructions:6d} x  "
                        f"{line.file}:{line.line}  {source[:60]}")
        rows += [f"note       {note}" for note in self.notes]
        return "\n".join(rows)

    def _repr_html_(self):
        """For notebooks: bars of the engines, and the dearest lines."""
        bars = "".join(
            f"<tr><td>{html.escape(name)}</td><td><div style='background:#369;height:1em;"
            f"width:{share * 300:.0f}px'></div></td><td>{share:.0%}</td></tr>"
            for name, share in self.engines.items())
        lines = "".join(
            f"<tr><td>{html.escape(line.file)}:{line.line}</td><td>{line.engine}</td>"
            f"<td style='text-align:right'>{line.microseconds:.2f}</td>"
            f"<td><code>{html.escape(linecache.getline(line.file, line.line).strip())}</code></td></tr>"
            for line in self.lines[:12])
        return (f"<p><b>{html.escape(self.kernel)}</b> on {self.target}: {self.microseconds:.2f} us. "
                f"{html.escape(self.bottleneck)}</p><table>{bars}</table>"
                f"<table><tr><th>line</th><th>engine</th><th>us</th><th></th></tr>{lines}</table>")
