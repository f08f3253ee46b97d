# SPDX-License-Identifier: Apache-2.0
"""The runtime of this process: initialised when the first model is loaded, closed at the end.

The device is the host's, or what NEURON_EMULATOR names: an instance type such as trn1.2xlarge, or
unix:PATH of a daemon. A host that has none and names none gets an emulated trn1.2xlarge.
"""
import atexit
import glob
import os
import threading

from . import libnrt

DEFAULT = "trn1.2xlarge"
_lock = threading.RLock()  # Python may drop a Spike, which closes, while one of these is at work
_library = None
_open = False
_session = 0  # How often the runtime was opened: what an earlier session gave is gone


def library():
    """libnrt, loaded but perhaps not initialised."""
    global _library
    with _lock:
        if _library is None:
            if "NEURON_EMULATOR" not in os.environ and not glob.glob("/dev/neuron[0-9]*"):
                os.environ["NEURON_EMULATOR"] = DEFAULT
            if os.environ.get("NEURON_EMULATOR") == "":
                del os.environ["NEURON_EMULATOR"]
            # Errors are exceptions, whose text has what would be logged.
            os.environ.setdefault("NEURON_RT_LOG_LEVEL_NRT", "QUIET")
            _library = libnrt.Library(libnrt.root())
        return _library


def runtime():
    """libnrt, initialised."""
    global _open, _session
    lib = library()
    with _lock:
        if not _open:
            lib.open()
            _open = True
            _session += 1
            atexit.register(close)
    return lib


def close():
    """Closes the runtime; models and tensors must be gone. The next use opens it again."""
    global _open
    with _lock:
        if _open:
            _library.close()
        _open = False


def session():
    """The number of the session that is open; None if none is."""
    return _session if _open else None


def target():
    """The family that models are compiled for: "trn1", "inf2", "trn2" or "trn3"."""
    family = runtime().instance_type().split(".")[0]
    return family[:4] if family.startswith(("trn2", "trn3")) else family


def physical_cores(family):
    """Physical cores of a virtual core, as the runtime counts them."""
    configured = os.environ.get("NEURON_LOGICAL_NC_CONFIG")
    if configured:
        return int(configured)
    return 2 if family in ("trn2", "trn3") else 1
