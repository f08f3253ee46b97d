// SPDX-License-Identifier: Apache-2.0
// All that neuron-ls prints of one host, to the letter.
#include "tests/unit/tools/golden.h"

#include "tests/unit/tools/rich_host.h"
#include "tools/common/json_text.h"
#include "tools/neuron-ls/view/document.h"
#include "tools/neuron-ls/view/inventory.h"
#include "tools/neuron-ls/view/matrix.h"
#include "tools/telemetry/health.h"

namespace neuron::ls {
namespace {

using testing::expect_golden;
using testing::rich_host;

const std::vector<Measured> kMeasured = {{0, 1, 34e9}, {1, 0, 33.5e9}, {1, 2, 12e9}};

TEST(NeuronLsOutput, OfTablesIsAsBefore) {
  const Inventory inventory = make_inventory(rich_host());
  expect_golden("ls_table.txt", format_table(inventory, false));
  expect_golden("ls_table_wide.txt", format_table(inventory, true));
  expect_golden("ls_topology.txt",
                format_topology(inventory, false) + format_topology(inventory, true));
}

TEST(NeuronLsOutput, SaysBelowTheTableWhatIsWrongWithAtMostFourDevices) {
  telemetry::Snapshot host = rich_host();
  EXPECT_EQ(
      format_illnesses(host),
      "device 1: 4 uncorrectable SRAM errors; 2 uncorrectable memory errors; 1 repairable "
      "memory error; core 0: pe, sp hang\n"
      "device 2: it is being reset; the link to device 3 is down\n"
      "device 3: it does not answer: every register reads all ones; device 3 does not answer; "
      "the link to device 2 is down\n"
      "neuron-doctor says what to do\n");
  while (host.devices.size() < 9) host.devices.push_back(host.devices[3]);
  const std::string text = format_illnesses(host);
  EXPECT_NE(text.find("\n4 more devices are not healthy\nneuron-doctor"), std::string::npos)
      << text;
  host.devices.resize(1);
  EXPECT_EQ(format_illnesses(host), "");
}

TEST(NeuronLsOutput, OfLogicalCoresIsAsBefore) {
  telemetry::Snapshot host = rich_host();
  for (telemetry::Device& device : host.devices) {
    device.logical_size = 2;
    for (telemetry::Core& core : device.cores) core.logical_core = device.index;
  }
  for (telemetry::Process& process : host.processes) {
    for (telemetry::ProcessOnCore& core : process.cores) core.logical_core = core.device;
  }
  const Inventory inventory = make_inventory(host);
  expect_golden("ls_logical.txt", format_table(inventory, true) + format_json(inventory));
}

TEST(NeuronLsOutput, OfTheOriginalsJsonIsAsBefore) {
  expect_golden("ls_original.json", format_json(make_inventory(rich_host())));
}

TEST(NeuronLsOutput, OfTheDocumentIsAsBefore) {
  expect_golden("ls_document.json", tools::json_text(make_document(rich_host(), kMeasured), 2));
}

TEST(NeuronLsOutput, OfTheMatrixIsAsBefore) {
  std::string text;
  for (const bool unicode : {false, true}) {
    text += format_matrix(rich_host(), kMeasured, {.color = unicode, .unicode = unicode});
  }
  text += render(matrix_records(rich_host(), kMeasured), tools::Format::kCsv, {});
  text += render(matrix_records(rich_host(), {}), tools::Format::kText, {});
  expect_golden("ls_matrix.txt", text);
}

TEST(NeuronLsOutput, OfEveryFieldOfAQueryIsAsBefore) {
  tools::Records records;
  std::string error, text;
  ASSERT_TRUE(query_devices(rich_host(), query_fields(), records, error)) << error;
  text += render(records, tools::Format::kCsv, {}) + render(records, tools::Format::kText, {});
  ASSERT_TRUE(query_devices(rich_host(), {}, records, error)) << error;
  text += render(records, tools::Format::kNdjson, {});
  EXPECT_FALSE(query_devices(rich_host(), {"nonsense"}, records, error));
  expect_golden("ls_query.txt", text + error + "\n");
}

TEST(NeuronLsHealth, IsThatOfEachDevice) {
  std::vector<bool> healthy;
  for (const telemetry::Device& device : rich_host().devices) {
    healthy.push_back(telemetry::is_healthy(device));
  }
  EXPECT_EQ(healthy, (std::vector<bool>{true, false, false, false}));
}

}  // namespace
}  // namespace neuron::ls
