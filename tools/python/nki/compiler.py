# SPDX-License-Identifier: Apache-2.0
"""From a trace to a NEFF, by the program neuron-nki; results are kept on disk by content."""
import hashlib
import json
import os
import stat
import subprocess
import tempfile
import warnings
from pathlib import Path

from .errors import NkiError


class Compiled:
    """A NEFF and what the lowering says about it."""

    def __init__(self, neff, report):
        self.neff = neff
        self.report = report


def root():
    """The folder with bin/ and lib/: of the installation, or of the build tree."""
    given = os.environ.get("NEURON_NKI_ROOT")
    if given:
        return Path(given)
    here = Path(__file__).resolve()
    # share/neuron/python/nki of an installation; tools/python/nki of a tree.
    for candidate in (here.parents[4] if len(here.parents) > 4 else here, here.parents[3] / "build"):
        if (candidate / "bin" / "neuron-nki").exists():
            return candidate
    raise NkiError("neuron-nki is not found beside this package; NEURON_NKI_ROOT names the folder "
                   "that has bin/neuron-nki and lib/libnrt.so.1, such as the build folder")


def physical_cores(target):
    """Physical cores of a virtual core, as the runtime counts them."""
    if target not in ("trn2", "trn3"):
        return 1
    return 1 if os.environ.get("NEURON_LOGICAL_NC_CONFIG") == "1" else 2


def _cache_folder():
    if os.environ.get("NEURON_NKI_CACHE") == "":
        return None
    base = os.environ.get("NEURON_NKI_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "neuron-nki")
    return Path(base)


def lower(text, target):
    """Lowers a trace. Raises NkiError with the sentence of neuron-nki."""
    program = root() / "bin" / "neuron-nki"
    cores = physical_cores(target)
    try:
        state = program.stat()
    except OSError as error:
        raise NkiError(f"{program} cannot be used: {error.strerror}; NEURON_NKI_ROOT names the folder that has "
                       "bin/neuron-nki and lib/libnrt.so.1, such as the build folder") from error
    key = hashlib.sha256(
        f"{cores} {state.st_size} {state.st_mtime_ns}\n{text}".encode()).hexdigest()
    folder = _cache_folder()
    kept = _kept(folder, key) if folder is not None else None
    if kept is not None:
        return kept
    with tempfile.TemporaryDirectory(prefix="neuron-nki.") as scratch:
        paths = [os.path.join(scratch, name) for name in ("trace", "neff", "report")]
        with open(paths[0], "w", encoding="utf-8") as trace:
            trace.write(text)
        done = subprocess.run(
            [str(program), "lower", paths[0], "-o", paths[1], "--report", paths[2],
             "--logical-nc-config", str(cores)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sentence = done.stderr.strip()
            prefix = "neuron-nki: "
            raise NkiError(sentence[len(prefix):] if sentence.startswith(prefix) else sentence)
        neff = Path(paths[1]).read_bytes()
        report = json.loads(Path(paths[2]).read_text())
    if folder is not None:
        _keep(folder, key, neff, report)
    return Compiled(neff, report)


def _own(path):
    """The bytes of a file that nobody but this user could have written."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
            raise OSError(f"{path} may be another user's")
        return file.read()


def _kept(folder, key):
    """What an earlier call kept, if all of it is there; else None."""
    try:
        report = json.loads(_own(folder / f"{key}.json"))
        neff = _own(folder / f"{key}.neff")
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(report, dict) or report.get("neff") != hashlib.sha256(neff).hexdigest():
        return None
    return Compiled(neff, report)


def _keep(folder, key, neff, report):
    """Readers see whole files only: written under another name, then renamed. The report names the
    NEFF's digest, so that one half of a pair, or a damaged file, counts as none."""
    report = {**report, "neff": hashlib.sha256(neff).hexdigest()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for ending, data in ((".neff", neff), (".json", json.dumps(report).encode())):
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
                try:
                    file.write(data)
                    file.flush()
                    os.replace(file.name, folder / (key + ending))
                except BaseException:
                    os.unlink(file.name)
                    raise
    except OSError as error:
        # A cache that cannot be written is slow, not wrong. Whoever named it is told, once by Python's rule.
        if os.environ.get("NEURON_NKI_CACHE"):
            warnings.warn(f"NEURON_NKI_CACHE={folder}: no lowered kernel is kept there, and each process lowers its "
                          f"kernels anew: {error.strerror}", RuntimeWarning, stacklevel=2)
