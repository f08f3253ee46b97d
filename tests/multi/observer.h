// SPDX-License-Identifier: Apache-2.0
// A device as an onlooker sees it beside its clients: what they hold, and whether all is free.
//
// Callers: one thread. Owns a connection to the daemon. Fails: valid() is false without one.
#ifndef TESTS_MULTI_OBSERVER_H
#define TESTS_MULTI_OBSERVER_H

#include <fcntl.h>

#include <memory>
#include <vector>

#include "driver/ndl/port.h"
#include "driver/ndl/port_backends.h"
#include "tests/support/daemon.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::multi {

class Observer {
 public:
  explicit Observer(const test::Daemon& daemon) : port_(ndl::shared_port(daemon.socket(), "")) {
    if (port_ != nullptr) port_->open(0, O_RDWR, device_);
  }
  bool valid() const { return device_ != nullptr; }

  // Processes with the device open, this one left out.
  unsigned others() {
    constexpr unsigned kRoom = 16;
    std::vector<char> memory(sizeof(neuron_ioctl_get_apps_info) + kRoom * sizeof(neuron_app_info));
    auto* info = reinterpret_cast<neuron_ioctl_get_apps_info*>(memory.data());
    info->capacity = kRoom;
    if (device_->ioctl(NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO, info) != 0) return 99;
    return info->size - 1;
  }
  // Allocations of both HBM stacks.
  uint64_t allocations() {
    uint64_t count = 0;
    for (uint32_t hbm = 0; hbm < 2; ++hbm) {
      std::vector<neuron_ioctl_mem_chunk_info> chunks(4096);
      neuron_ioctl_dump_mem_chunks dump = {hbm, 4096, 0, chunks.data()};
      if (device_->ioctl(NEURON_IOCTL_DUMP_MEM_CHUNKS, &dump) != 0) return ~0ull;
      count += dump.num_entries_out;
    }
    return count;
  }
  // Whether both cores can be claimed; they are given back.
  bool cores_free() {
    neuron_ioctl_crwl_nc_map map = {2, 0, 1, 0, 0};
    if (device_->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK, &map) != 0) return false;
    return device_->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK, &map) == 0;
  }
  // Datastores can be taken for every process slot, so none is left over.
  bool is_free(uint64_t allocations_before) {
    return others() == 0 && allocations() == allocations_before && cores_free();
  }

 private:
  std::unique_ptr<ndl::Port> port_;
  std::unique_ptr<ndl::DevicePort> device_;
};

}  // namespace neuron::multi

#endif
