#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: each layer lists the project headers it may name; system and library headers of a layer that
must stay free of them are checked too. The rules are those of the table in the README.md of driver/, runtime/ and tools/."""
import re
import sys

import tree

FIXED = ("stdint.h", "stddef.h", "stdbool.h")
# layer (longest prefix wins): project prefixes that it may include; system headers allowed, or None for any
RULES = {
    "include/hw/": (("hw/",), FIXED),
    "include/uapi/": (("uapi/",), FIXED + ("linux/ioctl.h", "sys/ioctl.h", "linux/types.h")),
    "include/nrt/": (("nrt/", "ndl/", "uapi/"), None),
    "include/ndl/": (("ndl/", "nrt/", "uapi/"), None),
    "include/ccom/": (("ccom/", "nrt/"), None),
    "driver/core/": (("driver/core/", "hw/", "uapi/"), FIXED + ("string.h", "errno.h", "linux/errno.h", "linux/string.h", "linux/types.h")),
    "driver/isa/": (("driver/isa/", "hw/"), None),
    "driver/kmod/": (("driver/kmod/", "driver/core/", "hw/", "uapi/"), None),
    "driver/emulator/chip/": (("driver/emulator/chip/", "driver/emulator/neuroncore/", "hw/", "driver/isa/"), None),
    "driver/emulator/neuroncore/": (("driver/emulator/chip/", "driver/emulator/neuroncore/", "hw/", "driver/isa/"), None),
    "driver/emulator/service/": (
        ("driver/emulator/service/", "driver/profiles/", "driver/core/", "driver/emulator/chip/", "hw/", "uapi/"),
        None,
    ),
    "driver/profiles/": (("driver/profiles/", "hw/"), None),
    "driver/emulator/": (
        ("driver/emulator/", "driver/core/", "hw/", "uapi/", "ndl/emulator.h"),
        None,
    ),
    "driver/ndl/": (("driver/ndl/", "ndl/", "nrt/", "uapi/", "hw/", "driver/wire/wire"), None),
    "runtime/": (
        ("runtime/", "nrt/", "ndl/", "hw/", "ccom/", "driver/isa/", "driver/core/", "driver/ndl/port.h", "driver/ndl/error.h", "driver/ndl/descriptor.h"),
        None,
    ),
    "ccom/": (("ccom/", "nrt/nec.h", "nrt/nrt_status.h", "ndl/", "hw/", "driver/isa/"), None),
    "tools/": (("tools/", "nrt/", "ndl/", "hw/", "uapi/", "ccom/", "driver/isa/", "runtime/neff/", "runtime/base/", "driver/emulator/transport/control/control.pb.h"), None),
}
PROJECT = ("driver/", "runtime/", "ccom/", "tools/", "hw/", "uapi/", "ndl/", "nrt/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def main():
    complaints = 0
    for name in tree.files(".c", ".h", ".cpp"):
        layer = max((prefix for prefix in RULES if name.startswith(prefix)), key=len, default=None)
        if layer is None:
            continue
        allowed, system = RULES[layer]
        with open(name, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = match.group(2)
                if target.startswith("include/"):
                    target = target[len("include/"):]
                if target.startswith(PROJECT):
                    if not target.startswith(allowed):
                        print(f"{name}:{number}: {layer} must not include {target}; it may include {', '.join(allowed)}")
                        complaints += 1
                elif system is not None and match.group(1) == "<" and target not in system:
                    print(f"{name}:{number}: {layer} must not include <{target}>; it may include {', '.join(system)}")
                    complaints += 1
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
