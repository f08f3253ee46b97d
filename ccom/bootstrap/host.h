// SPDX-License-Identifier: Apache-2.0
// Facts about this process's host, its limits, and other processes of the host.
//
// Callers: joining ranks. Thread-safe: system calls. Owns: nothing. Fails: CCOM_RESOURCE with the
// needed and the found number.
#ifndef CCOM_BOOTSTRAP_HOST_H
#define CCOM_BOOTSTRAP_HOST_H

#include <string>

#include "ccom/bootstrap/bootstrap.h"

namespace neuron::ccom {

std::string host_name();
// Equal for processes that can share memory and see one another: boot, user, process and network
// namespace.
uint64_t host_identity();
// Makes sure that `needed` more descriptors can be opened: raises the soft limit up to the hard
// one.
Result<void> reserve_descriptors(uint32_t needed);
// How a process of this host ended, if the system still knows: "killed by signal 9 (Killed)",
// "exited with status 1"; else "".
std::string exit_reason(int32_t process);

}  // namespace neuron::ccom

#endif
