#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The libraries export exactly what their version scripts name, each symbol under its node, and need only what is
listed here: libnrt is loaded into processes that carry their own copies of everything else."""
import os
import re
import subprocess
import sys

C_LIBRARIES = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
LIBRARIES = {
    "libnrt.so.1": ("runtime/libnrt.map", C_LIBRARIES | {"libz.so.1", "libnuma.so.1", "liburing.so.2"}),
    "libneuron-emulator.so.1": (
        "driver/emulator/libneuron-emulator.map",
        C_LIBRARIES | {"libnuma.so.1", "libhwy.so.1", "libz.so.1"},
    ),
    "libccom.so.1": ("ccom/libccom.map", C_LIBRARIES | {"libnrt.so.1", "libfabric.so.1", "libhwy.so.1", "libnuma.so.1"}),
}


def script_symbols(path):
    """{symbol: [nodes, oldest first]} of a version script; wildcards are an error: a list is the point."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/|#[^\n]*", "", file.read(), flags=re.S)
    symbols = {}
    for node, body in re.findall(r"([A-Za-z0-9_.]+)\s*\{(.*?)\}", text, flags=re.S):
        scope = "global"
        for word in re.findall(r"[A-Za-z0-9_*?]+\s*[:;]", body):
            name, mark = word[:-1].strip(), word[-1]
            if mark == ":":
                scope = name
            elif scope == "global":
                if "*" in name or "?" in name:
                    raise SystemExit(f"{path}: {node} exports the pattern {name}; name each symbol")
                symbols.setdefault(name, []).append(node)
    return symbols


def exported_symbols(library):
    """{symbol: {node: whether programs that are linked now get this version}}."""
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    symbols = {}
    for line in listing.splitlines():
        kind, name = line.split()[-2:]
        if kind == "A":
            continue
        base, _, version = name.partition("@")
        symbols.setdefault(base, {})[version.lstrip("@")] = version.startswith("@")
    return symbols


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    complaints = []
    for name, (script, needed) in LIBRARIES.items():
        library = os.path.join(build, "lib", name)
        if not os.path.exists(library):
            complaints.append(f"{library} does not exist; run make first")
            continue
        wanted, found = script_symbols(script), exported_symbols(library)
        for symbol in sorted(wanted.keys() - found.keys()):
            complaints.append(f"{library}: {script} names {symbol}, the library does not export it")
        for symbol in sorted(found.keys() - wanted.keys()):
            complaints.append(f"{library}: exports {symbol}, which {script} does not name")
        for symbol in sorted(wanted.keys() & found.keys()):
            nodes = wanted[symbol]
            if set(nodes) != set(found[symbol]):
                complaints.append(f"{library}: {symbol} is in {', '.join(found[symbol])}; {script} says {', '.join(nodes)}")
            elif [node for node in nodes if found[symbol][node]] != nodes[-1:]:
                complaints.append(f"{library}: {symbol} must be {nodes[-1]} by default, and that alone")
        dynamic = subprocess.run(["readelf", "-dW", library], check=True, capture_output=True, text=True).stdout
        for entry in re.findall(r"\(NEEDED\).*\[(.*?)\]", dynamic):
            if entry not in needed:
                complaints.append(f"{library}: needs {entry}; allowed are {', '.join(sorted(needed))}")
        if f"[{name}]" not in dynamic:
            complaints.append(f"{library}: its SONAME is not {name}")
    for text in complaints:
        print(text)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
