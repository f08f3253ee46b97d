// SPDX-License-Identifier: Apache-2.0
// What neuron-emulatorctl says of a daemon, to the letter.
#include "tools/neuron-emulatorctl/status_text.h"

#include <google/protobuf/text_format.h>

#include "tests/unit/tools/golden.h"

namespace neuron::emulatorctl {
namespace {

constexpr const char* kStatus = R"(
  profile: "trn1.32xlarge" version: "0.1.0" pid: 4711 started: 1700000000 connections: 5
  devices { index: 0 address: "0000:10:1c.0" state: "ready"
    cores { index: 0 host_index: 0 pid: 77 command: "python3" since: 1700000100 }
    cores { index: 1 host_index: 1 hung_engines: "pe" hung_engines: "sp" }
    hbm { bytes: 17179869184 free: 17179865088 retired: 8192 corrected: 3 uncorrected: 1 }
    hbm { bytes: 17179869184 free: 1023 corrected: 4 }
    sram_corrected: 2 sram_uncorrected: 6 dma_errors: 9 bad_hbm_bytes: 4096
    faults: "{\"at\": \"hbm\"}" faults: "second" }
  devices { index: 1 address: "0000:10:1d.0" state: "off" hbm { bytes: 100 free: 100 } }
  devices { index: 2 address: "0000:a0:1c.0" state: "not opened" faults: "armed" }
  devices { index: 3 state: "not opened" } devices { index: 4 state: "not opened" }
  processes { pid: 77 command: "python3" since: 1700000100 device: 0 host_bytes: 1536
    device_bytes: 1099511627776 }
  processes { pid: 78 control_only: true }
  processes { pid: 79 device: 1 }
  links_down { a: 0 b: 1 }
  links_down { a: 5 a_node: 0 b: 5 b_node: 3 })";

TEST(EmulatorStatus, IsAsBefore) {
  control::Status status;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kStatus, &status));
  testing::expect_golden("emulatorctl.txt", status_text(status) + "----\n" + status_json(status));
}

}  // namespace
}  // namespace neuron::emulatorctl
