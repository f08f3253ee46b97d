// SPDX-License-Identifier: Apache-2.0
// Which network adapter (EFA) of a host is nearest to a Neuron device, as the kernel's sysfs tells.
//
// Concepts: near are adapters that share the longest part of the way from the root of PCI with the
// device, and of these those on its NUMA node. Devices take turns by their numbers where several
// adapters are equally near. Callers: observe_kernel, any thread. Fails: negative errno with the
// sentence in error.h; -ENOENT: the host has no such adapter.
#ifndef DRIVER_NDL_NEAREST_ADAPTER_H
#define DRIVER_NDL_NEAREST_ADAPTER_H

#include <string>

namespace neuron::ndl {

// `sysfs`: where it is mounted. `address`: of the device on PCI, "0000:10:1b.0". `device`: its
// number. `adapter` becomes an address of the same form.
int nearest_adapter(const std::string& sysfs, const std::string& address, unsigned device,
                    std::string& adapter);

}  // namespace neuron::ndl

#endif
