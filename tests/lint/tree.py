# SPDX-License-Identifier: Apache-2.0
"""The files that lint looks at: what git tracks or would track."""
import os
import subprocess


def files(*suffixes):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True, text=True
    ).stdout.split("\n")
    return sorted({name for name in listed if name.endswith(suffixes) and os.path.exists(name)})
