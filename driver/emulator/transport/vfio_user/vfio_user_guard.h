// SPDX-License-Identifier: Apache-2.0
// Keeps this process alive when a client shortens a file of guest memory that is mapped here.
//
// Concepts: touching a page behind the end of a mapped file raises SIGBUS. For addresses inside a
// guarded window the handler puts a zeroed private page there and the access goes on; any other
// SIGBUS goes to the handler that was there before. Callers: GuestMemory. Thread-safe: yes; the
// handler runs on any thread. Holds a table of windows for the process, as a signal handler has
// nothing else to look at. Fails: more than 64 windows are not guarded.
#ifndef DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_GUARD_H
#define DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_GUARD_H

#include <cstddef>
#include <cstdint>

namespace neuron::transport {

bool guard_memory(std::byte* base, uint64_t size);
void unguard_memory(std::byte* base);

}  // namespace neuron::transport

#endif
