// SPDX-License-Identifier: Apache-2.0
// ioctl calls of a shared device: arguments as messages, and copies through the client's own
// mapping of device memory.
//
// Concepts: small data travels in the message, more in a memory file of this process that goes with
// it. A copy between a buffer and a memory handle that is larger than a message asks only where the
// memory lies, in which file of the daemon's, and then is a memcpy here; with
// NEURON_EMULATOR_COPY=descriptors it goes through the device's copy ring in pieces instead, as on
// a chip. Callers: port_shared, any thread. Owns: mappings of allocations, until they are freed,
// and spare memory files. Fails: negative errno with the sentence in error.h.
#ifndef DRIVER_NDL_SHARED_TRANSFER_H
#define DRIVER_NDL_SHARED_TRANSFER_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "driver/base/packet_socket.h"
#include "driver/ndl/shared_channel.h"

namespace neuron::ndl {

class SharedTransfer {
 public:
  SharedTransfer(SharedChannel& channel, bool may_map);
  SharedTransfer(const SharedTransfer&) = delete;
  SharedTransfer& operator=(const SharedTransfer&) = delete;

  int ioctl(unsigned long request, void* argument);

 private:
  // One copy between a buffer and a handle, whatever call it came by.
  struct Copy {
    uint64_t handle, offset, size;
    std::byte* buffer;
    bool to_device;
  };
  int send(unsigned long request, void* argument);
  template <typename T>
  int copy(unsigned long request, T& argument, uint32_t to_device);
  int copy_batches(unsigned long request, void* argument);
  // 1: not by a mapping.
  int copy_mapped(const Copy& copy);
  // The file of an allocation, mapped whole.
  struct Mapping {
    ~Mapping();
    std::byte* memory = nullptr;
    uint64_t bytes = 0;
    uint64_t number = 0;  // of the file, with the daemon
  };
  using MappingPointer = std::shared_ptr<const Mapping>;
  static MappingPointer map(base::FileDescriptor file, uint64_t number);
  MappingPointer known(uint64_t handle);
  void keep(uint64_t handle, MappingPointer mapping);
  void forget(uint64_t handle);
  base::FileDescriptor take_file();
  void keep_file(base::FileDescriptor file);

  SharedChannel& channel_;
  const bool may_map_;
  std::mutex mutex_;  // all below
  std::vector<base::FileDescriptor> files_;
  std::unordered_map<uint64_t, MappingPointer> mappings_;  // by handle
};

}  // namespace neuron::ndl

#endif
