// SPDX-License-Identifier: Apache-2.0
// The runtime of this process, which its ranks on devices share.
//
// Concepts: it is closed behind the last of them. A process that only ended would be dead for ranks
// of others that still compute, and they would give up. Callers: make_device_participants, ranks.
// Owns: what nrt_init() opens. Fails with the runtime's sentence.
#ifndef TOOLS_NCCOM_TEST_RUN_DEVICE_RUNTIME_H
#define TOOLS_NCCOM_TEST_RUN_DEVICE_RUNTIME_H

#include <nrt/nrt.h>

#include <cstdint>
#include <memory>

#include "ccom/base/error.h"

namespace neuron::nccom {

class DeviceRuntime {
 public:
  static ccom::Result<std::shared_ptr<DeviceRuntime>> open();
  ~DeviceRuntime() { nrt_close(); }
  DeviceRuntime(const DeviceRuntime&) = delete;
  DeviceRuntime& operator=(const DeviceRuntime&) = delete;

 private:
  DeviceRuntime() = default;
};

// What a call of the runtime has returned, with the sentence of the last error.
ccom::Result<void> checked(NRT_STATUS status);
ccom::Result<uint8_t> chip_generation();

}  // namespace neuron::nccom

#endif
