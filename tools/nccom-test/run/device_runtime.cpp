// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/device_runtime.h"

#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <string_view>

namespace neuron::nccom {

using ccom::Result;

Result<std::shared_ptr<DeviceRuntime>> DeviceRuntime::open() {
  NEURON_CHECK(checked(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "")));
  return std::shared_ptr<DeviceRuntime>(new DeviceRuntime);
}

Result<void> checked(NRT_STATUS status) {
  if (status == NRT_SUCCESS) return {};
  const bool usable = status == NRT_INVALID || status == NRT_UNSUPPORTED_NEFF_VERSION;
  return ccom::Error{usable                   ? CCOM_UNSUPPORTED
                     : status == NRT_TIMEOUT  ? CCOM_TIMEOUT
                     : status == NRT_RESOURCE ? CCOM_RESOURCE
                                              : CCOM_SYSTEM,
                     nrt_open_last_error()};
}

Result<uint8_t> chip_generation() {
  nrt_instance_info_t info{};
  NEURON_CHECK(checked(nrt_get_instance_info(&info, sizeof info)));
  // "Trn1" and "Inf2" are of generation 2, "Trn2" of 3.
  const std::string_view name = info.arch_name;
  const bool trainium = name.starts_with("Trn");
  const char last = name.empty() ? '2' : name.back();
  return static_cast<uint8_t>(last - '0' + (trainium ? 1 : 0));
}

}  // namespace neuron::nccom
