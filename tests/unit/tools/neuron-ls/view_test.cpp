// SPDX-License-Identifier: Apache-2.0
// What neuron-ls makes of a snapshot for programs: the document, queries, the matrix of links.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "tools/neuron-ls/manual.h"
#include "tools/neuron-ls/view/document.h"
#include "tools/neuron-ls/view/inventory.h"
#include "tools/neuron-ls/view/matrix.h"
#include "tools/neuron-ls/view/options.h"
#include "tools/telemetry/health.h"

namespace neuron::ls {
namespace {

// Three devices in a row of links, 0 - 1 - 2, of two logical cores with two physical ones each.
telemetry::Snapshot row_of_three() {
  telemetry::Snapshot snapshot;
  for (unsigned index = 0; index < 3; ++index) {
    telemetry::Device device;
    device.index = index;
    device.name = "Trainium2";
    device.state = telemetry::DeviceState::kReady;
    device.logical_size = 2;
    device.memory_bytes = 96ull << 30;
    for (unsigned core = 0; core < 4; ++core) {
      device.cores.push_back({.physical_core = core, .logical_core = index * 2 + core / 2});
    }
    for (const unsigned neighbour : {index - 1, index + 1}) {
      if (neighbour < 3) {
        device.links.push_back(
            {.device = neighbour, .kind = "link", .theoretical_bytes_per_second = 48e9});
      }
    }
    snapshot.devices.push_back(device);
  }
  telemetry::Process process;
  process.pid = 77;
  process.command = "python3 train.py";
  process.user = "alice";
  process.devices = {1};
  process.cores.resize(1);
  process.cores[0].device = 1;
  process.cores[0].logical_core = 3;
  process.cores[0].memory.tensors = 3 << 20;
  snapshot.processes.push_back(process);
  return snapshot;
}

TEST(NeuronLsInventory, CountsLogicalCoresAndPutsProcessesOnTheirDevices) {
  const Inventory inventory = make_inventory(row_of_three());
  ASSERT_EQ(inventory.devices.size(), 3u);
  EXPECT_EQ(inventory.devices[1].cores, 2u);
  EXPECT_EQ(inventory.devices[1].logical_size, 2u);
  EXPECT_EQ(core_range(inventory.devices[1]), "2-3");
  EXPECT_EQ(inventory.devices[1].connected, (std::vector<int>{0, 2}));
  EXPECT_TRUE(inventory.devices[0].processes.empty());
  ASSERT_EQ(inventory.devices[1].processes.size(), 1u);
  EXPECT_EQ(inventory.devices[1].processes[0].runtime_version, "NA");
  const std::string wide = format_table(inventory, true);
  EXPECT_NE(wide.find("| alice | 3     | 3 MB   |"), std::string::npos) << wide;
}

TEST(NeuronLsDocument, MapsLogicalCoresToPhysicalOnes) {
  const auto whole = make_document(row_of_three(), {{0, 1, 34e9}});
  const auto& device = whole.at("neuron_devices").as_array()[0].as_object();
  const auto& core = device.at("neuroncores").as_array()[1].as_object();
  EXPECT_EQ(core.at("neuroncore").to_number<int>(), 1);
  EXPECT_EQ(core.at("physical_cores").as_array(), (boost::json::array{2u, 3u}));
  const auto& link = device.at("links").as_array()[0].as_object();
  EXPECT_EQ(link.at("measured_bytes_per_second").to_number<double>(), 34e9);
  const auto& process = whole.at("neuron_processes").as_array()[0].as_object();
  EXPECT_EQ(process.at("neuroncores").as_array(), boost::json::array{3u});
  EXPECT_TRUE(process.at("neuron_runtime_version").is_null());
}

TEST(NeuronLsQuery, GivesTheFieldsInTheOrderAsked) {
  tools::Records records;
  std::string error;
  ASSERT_TRUE(query_devices(row_of_three(), {"pids", "neuron_device"}, records, error));
  EXPECT_EQ(render(records, tools::Format::kCsv, {}), "pids,neuron_device\n,0\n77,1\n,2\n");
}

TEST(NeuronLsQuery, NamesTheFieldsThatExistWhenOneDoesNot) {
  tools::Records records;
  std::string error;
  EXPECT_FALSE(query_devices({}, {"memory"}, records, error));
  EXPECT_NE(error.find("memory_used_bytes"), std::string::npos);
}

TEST(NeuronLsQuery, HasEveryFieldInTheManual) {
  const std::string text(manual().sections[1].text);
  for (const std::string& field : query_fields()) {
    EXPECT_NE(text.find(field), std::string::npos) << field << " is not in the manual";
  }
}

TEST(NeuronLsMatrix, CountsHopsAndSeesALinkThatIsDown) {
  telemetry::Snapshot snapshot = row_of_three();
  EXPECT_EQ(paths(snapshot)[2].hops, 2u);
  EXPECT_NE(format_matrix(snapshot, {}, {}).find("ND0  X       L48  2 hops"), std::string::npos)
      << format_matrix(snapshot, {}, {});
  snapshot.devices[0].links[0].up = snapshot.devices[1].links[0].up = false;
  EXPECT_FALSE(paths(snapshot)[2].reachable);
  EXPECT_NE(format_matrix(snapshot, {}, {}).find("ND0  X     down  -"), std::string::npos)
      << format_matrix(snapshot, {}, {});
  EXPECT_FALSE(telemetry::is_healthy(snapshot.devices[0]));
  EXPECT_TRUE(telemetry::is_healthy(snapshot.devices[2]));
}

TEST(NeuronLsMatrix, ShowsWhatWasMeasuredBesideTheory) {
  const auto records = matrix_records(row_of_three(), {{1, 2, 34e9}});
  ASSERT_EQ(records.rows.size(), 6u);
  EXPECT_NE(
      render(records, tools::Format::kCsv, {}).find("1,2,1,link,true,48000000000,34000000000\n"),
      std::string::npos);
  EXPECT_NE(format_matrix(row_of_three(), {{1, 2, 34e9}}, {}).find("Measured, GB/s"),
            std::string::npos);
}

TEST(NeuronLsOptions, ExcludeEachOtherWithASentence) {
  Options options;
  EXPECT_EQ(conflict(options), "");
  options.json = true;
  options.matrix = true;
  EXPECT_NE(conflict(options), "");
  options = {};
  options.measure = true;
  EXPECT_NE(conflict(options), "");
}

}  // namespace
}  // namespace neuron::ls
