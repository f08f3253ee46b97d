# SPDX-License-Identifier: Apache-2.0
"""What NKIPy's package `spike` finds as its binding, through a link to this file."""
import os as _os
import sys as _sys

try:
    from neuron.spike import *  # noqa: F401,F403
except ImportError:
    # The link says where the package is.
    _sys.path.append(_os.path.dirname(_os.path.dirname(_os.path.realpath(__file__))))
    from neuron.spike import *  # noqa: F401,F403
