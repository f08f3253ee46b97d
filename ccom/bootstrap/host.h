// SPDX-License-Identifier: Apache-2.0
// What this process can say of its host, of its limits, and of other processes of the host.
//
// Callers: joining ranks. Thread-safe: system calls. Owns: nothing. Fails: CCOM_RESOURCE with the
// numbers needed and found.
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
// How a process of this host ended, as far as the system still tells: "killed by signal 9
// (Killed)", "exited with status 1"; else "".
std::string exit_reason(int32_t process);

}  // namespace neuron::ccom

#endif
