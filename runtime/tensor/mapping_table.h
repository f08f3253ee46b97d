// SPDX-License-Identifier: Apache-2.0
//
// The addresses of this process that belong to tensors, for calls that take an address instead of a
// handle. Callers: Storage (adds when it maps, removes when it goes), nrt_memcpy_to_device,
// nrt_get_dmabuf_fd, nrt_get_attached_efa_bdf. Thread-safe: yes. Owns nothing.
#ifndef RUNTIME_TENSOR_MAPPING_TABLE_H
#define RUNTIME_TENSOR_MAPPING_TABLE_H

#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>

namespace neuron::runtime {

class MappingTable {
 public:
  struct Range {
    uint64_t start = 0;
    uint64_t size = 0;
  };

  void add(const void* start, uint64_t size);
  void remove(const void* start);
  // The range that holds all of [address, address + size).
  std::optional<Range> find(uint64_t address, uint64_t size) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, uint64_t> ranges_;  // start -> size
};

}  // namespace neuron::runtime

#endif
