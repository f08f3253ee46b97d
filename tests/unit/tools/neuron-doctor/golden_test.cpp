// SPDX-License-Identifier: Apache-2.0
// What neuron-doctor says of the devices of one host, to the letter.
#include "tests/unit/tools/golden.h"

#include <filesystem>

#include "tests/unit/tools/rich_host.h"
#include "tools/neuron-doctor/checks/check.h"
#include "tools/telemetry/health.h"

namespace neuron::doctor {
namespace {

using testing::expect_golden;
using testing::rich_host;

TEST(DoctorOutput, OfDevicesIsAsBefore) {
  Host host;
  host.places = {"/nowhere/dev", "/nowhere/sys", ""};
  host.proc = "/nowhere/proc";
  host.snapshot = rich_host();
  host.environment = {{"NEURON_RT_VISIBLE_CORES", "0-3"},
                      {"NEURON_RT_NUM_CORE", "2"},
                      {"NEURON_RT_LOG_LEVEL", "INFO"},
                      {"PATH", "/usr/bin"}};
  Checks checks;
  check_devices(host, checks);
  check_environment(host, checks);
  checks.push_back(driver_version(host));
  std::string text = text_of(checks, false, {}) + "----\n" +
                     text_of(checks, true, {.color = true, .unicode = true}) + "----\n" +
                     render(records_of(checks, host), tools::Format::kCsv, {});
  for (const telemetry::Device& device : host.snapshot.devices) {
    for (const telemetry::Ailment& ailment : telemetry::ailments(device)) {
      text += std::to_string(device.index) + (ailment.fatal ? " fatal: " : ": ") + ailment.what +
              "; " + ailment.action + "\n";
    }
  }
  // The doctor names the folder of the program that runs, here that of the tests.
  const std::string folder = std::filesystem::canonical("/proc/self/exe").parent_path();
  for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at)) {
    text.replace(at, folder.size(), "FOLDER");
  }
  expect_golden("doctor.txt", text);
}

}  // namespace
}  // namespace neuron::doctor
