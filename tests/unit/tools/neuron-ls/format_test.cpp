// SPDX-License-Identifier: Apache-2.0
// What neuron-ls prints of an inventory: scripts read the table and the JSON.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "tools/neuron-ls/view/inventory.h"

namespace neuron::ls {
namespace {

Device device(int index, std::vector<int> connected) {
  Device out;
  out.index = index;
  out.cores = 2;
  out.first_core = static_cast<unsigned>(index) * 2;
  out.memory_bytes = 32ull << 30;
  out.connected = std::move(connected);
  out.bdf = "0000:00:1e.0";
  out.cpu_affinity = "0-7";
  return out;
}

Inventory inventory(std::vector<Device> devices) { return {"trn1", "", std::move(devices), false}; }

TEST(NeuronLsTable, HasTwoCentredHeaderRowsAndOnlyTheColumnsThatAreNeeded) {
  EXPECT_EQ(format_table(inventory({device(0, {})}), false),
            "+--------+--------+----------+--------+--------------+----------+------+\n"
            "| NEURON | NEURON |  NEURON  | NEURON |     PCI      |   CPU    | NUMA |\n"
            "| DEVICE | CORES  | CORE IDS | MEMORY |     BDF      | AFFINITY | NODE |\n"
            "+--------+--------+----------+--------+--------------+----------+------+\n"
            "| 0      | 2      | 0-1      | 32 GB  | 0000:00:1e.0 | 0-7      | -1   |\n"
            "+--------+--------+----------+--------+--------------+----------+------+\n");
}

// 40 characters of a command have room in the usual table, 80 in the wide one.
TEST(NeuronLsTable, ShortensCommandsThatAreLongerThanTheirColumn) {
  for (const auto& [wide, room] : {std::pair{false, size_t{40}}, {true, size_t{80}}}) {
    const auto row_of = [wide = wide](const std::string& command) {
      Device busy = device(0, {});
      busy.processes = {{100, command, "NA"}};
      return format_table(inventory({busy}), wide);
    };
    const std::string fits(room, 'c');
    EXPECT_NE(row_of(fits).find("| " + fits + " |"), std::string::npos) << row_of(fits);
    const std::string cut = std::string(room - 3, 'c') + "...";
    EXPECT_NE(row_of(fits + "d").find("| " + cut + " |"), std::string::npos) << row_of(fits + "d");
  }
}

// As the user guide of that time and the guide for deep learning images show an inf1.6xlarge.
TEST(NeuronLsTable, OfInferentia1HasTheColumnsOfItsTime) {
  Inventory of_inf1 = inventory({device(0, {1}), device(1, {2, 0}), device(2, {3, 1})});
  of_inf1.of_first_chip = true;
  for (Device& each : of_inf1.devices) {
    each.cores = 4;
    each.memory_bytes = 8ull << 30;
    each.bdf = "0000:00:1" + std::string(1, "cde"[each.index]) + ".0";
  }
  EXPECT_EQ(format_table(of_inf1, false),
            "+--------+--------+--------+-----------+--------------+\n"
            "| NEURON | NEURON | NEURON | CONNECTED |     PCI      |\n"
            "| DEVICE | CORES  | MEMORY |  DEVICES  |     BDF      |\n"
            "+--------+--------+--------+-----------+--------------+\n"
            "| 0      | 4      | 8 GB   | 1         | 0000:00:1c.0 |\n"
            "| 1      | 4      | 8 GB   | 2, 0      | 0000:00:1d.0 |\n"
            "| 2      | 4      | 8 GB   | 3, 1      | 0000:00:1e.0 |\n"
            "+--------+--------+--------+-----------+--------------+\n");
  EXPECT_NE(format_table(of_inf1, true).find("CORE IDS"), std::string::npos);
}

TEST(NeuronLsTable, GivesEachFurtherProcessARowAndSeparatesTheDevicesThen) {
  Device first = device(0, {1});
  first.processes = {{100, "serve --model m", "2.0.0"}, {200, "top", "NA"}};
  const std::string text = format_table(inventory({first, device(1, {0})}), false);
  EXPECT_EQ(
      text,
      "+--------+--------+----------+--------+-----------+--------------+----------+------+------"
      "+-----------------+---------+\n"
      "| NEURON | NEURON |  NEURON  | NEURON | CONNECTED |     PCI      |   CPU    | NUMA |      "
      "|                 | RUNTIME |\n"
      "| DEVICE | CORES  | CORE IDS | MEMORY |  DEVICES  |     BDF      | AFFINITY | NODE | PID  "
      "|     COMMAND     | VERSION |\n"
      "+--------+--------+----------+--------+-----------+--------------+----------+------+------"
      "+-----------------+---------+\n"
      "| 0      | 2      | 0-1      | 32 GB  | 1         | 0000:00:1e.0 | 0-7      | -1   | 100  "
      "| serve --model m | 2.0.0   |\n"
      "|        |        |          |        |           |              |          |      | 200  "
      "| top             | NA      |\n"
      "+--------+--------+----------+--------+-----------+--------------+----------+------+------"
      "+-----------------+---------+\n"
      "| 1      | 2      | 2-3      | 32 GB  | 0         | 0000:00:1e.0 | 0-7      | -1   |      "
      "|                 |         |\n"
      "+--------+--------+----------+--------+-----------+--------------+----------+------+------"
      "+-----------------+---------+\n");
}

TEST(NeuronLsTable, CutsACommandAt40Or80ColumnsAndNeverInsideACharacter) {
  Device busy = device(0, {});
  // 36 letters, then two-byte characters: the cut after 37 bytes would split the first of them.
  busy.processes = {{1, std::string(36, 'a') + "éééééé", "2.0.0"}};
  EXPECT_NE(format_table(inventory({busy}), false).find(std::string(36, 'a') + "... "),
            std::string::npos);
  EXPECT_NE(format_table(inventory({busy}), true).find("aééé"), std::string::npos);
  busy.processes[0].command = std::string(100, 'b');
  EXPECT_NE(format_table(inventory({busy}), true).find(" " + std::string(77, 'b') + "... "),
            std::string::npos);
}

TEST(NeuronLsJson, HasTheTypesThatScriptsRelyOn) {
  Device busy = device(0, {});
  busy.processes = {{42, "a \"quoted\" \\ command\n", "2.0.0"}};
  const boost::json::value all = boost::json::parse(format_json(inventory({busy, device(1, {0})})));
  ASSERT_EQ(all.as_array().size(), 2u);
  const boost::json::object& first = all.at(0).as_object();
  EXPECT_EQ(first.size(), 9u);
  EXPECT_EQ(first.at("numa_node").as_string(), "-1") << "a string, as in the original";
  EXPECT_TRUE(first.at("connected_to").is_null());
  EXPECT_EQ(first.at("memory_size").to_number<uint64_t>(), 34359738368u);
  EXPECT_EQ(first.at("neuroncore_ids").as_array().size(), 2u);
  const boost::json::value& process = first.at("neuron_processes").at(0);
  EXPECT_EQ(process.at("command").as_string(), "a \"quoted\" \\ command\n");
  EXPECT_EQ(process.at("pid").to_number<int>(), 42);
  EXPECT_EQ(all.at(1).at("connected_to").at(0).to_number<int>(), 0);
  EXPECT_TRUE(all.at(1).at("neuron_processes").as_array().empty());
}

TEST(NeuronLsTopology, DrawsARingWithItsEndsJoinedInPlainAsciiToo) {
  const Inventory ring = inventory({device(0, {2, 1}), device(1, {0, 2}), device(2, {1, 0})});
  const std::string text = format_topology(ring, false);
  EXPECT_NE(text.find("*-->[ 0 ]<-->[ 1 ]<-->[ 2 ]<--*\n"), std::string::npos) << text;
  for (const char c : text) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
  EXPECT_NE(format_topology(inventory({device(0, {})}), true).find("[ 0 ]\n"), std::string::npos);
}

// A 4x4 torus of which this host shows some devices; their links name the others, too.
Inventory torus(const std::vector<int>& visible) {
  std::vector<Device> devices;
  for (const int i : visible) {
    const int row = i / 4, column = i % 4;
    devices.push_back(device(i, {(row + 3) % 4 * 4 + column, (row + 1) % 4 * 4 + column,
                                 row * 4 + (column + 3) % 4, row * 4 + (column + 1) % 4}));
  }
  return inventory(std::move(devices));
}

std::string drawing(const Inventory& inventory) {
  const std::string text = format_topology(inventory, false);
  const size_t begin = text.find("Topology\n") + 9;
  return text.substr(begin, text.find("\nLegend") - begin);
}

TEST(NeuronLsTopology, DrawsAWholeTorusWithAllItsWrapArounds) {
  std::vector<int> all(16);
  for (int i = 0; i < 16; ++i) all[static_cast<size_t>(i)] = i;
  const std::string marks = "      *        *        *        *\n",
                    line = "      |        |        |        |\n",
                    up = "      ^        ^        ^        ^\n",
                    down = "      v        v        v        v\n";
  EXPECT_EQ(drawing(torus(all)),
            marks + line + down + "*-->[ 0 ]<-->[ 1 ]<-->[ 2 ]<-->[ 3 ]<--*\n" + up + line + down +
                "*-->[ 4 ]<-->[ 5 ]<-->[ 6 ]<-->[ 7 ]<--*\n" + up + line + down +
                "*-->[ 8 ]<-->[ 9 ]<-->[10 ]<-->[11 ]<--*\n" + up + line + down +
                "*-->[12 ]<-->[13 ]<-->[14 ]<-->[15 ]<--*\n" + up + line + marks);
}

TEST(NeuronLsTopology, DrawsNoLinkBetweenDevicesThatAreNoNeighbours) {
  EXPECT_EQ(drawing(torus({0, 5, 10})), "[ 0 ]    [ 5 ]    [10 ]\n");
  EXPECT_EQ(drawing(torus({0, 1, 6, 7})), "[ 0 ]<-->[ 1 ]    [ 6 ]<-->[ 7 ]\n");
}

TEST(NeuronLsTopology, DrawsAWrapAroundOnlyWhereBothItsEndsAreVisible) {
  EXPECT_EQ(drawing(torus({0, 1, 2})), "[ 0 ]<-->[ 1 ]<-->[ 2 ]\n");
  EXPECT_EQ(drawing(torus({0, 1, 3})), "*-->[ 0 ]<-->[ 1 ]    [ 3 ]<--*\n");
  EXPECT_EQ(drawing(torus({8, 9, 10, 11})), "*-->[ 8 ]<-->[ 9 ]<-->[10 ]<-->[11 ]<--*\n");
  // A ring of six of which three are visible.
  EXPECT_EQ(drawing(inventory({device(0, {5, 1}), device(1, {0, 2}), device(2, {1, 3})})),
            "[ 0 ]<-->[ 1 ]<-->[ 2 ]\n");
}

TEST(NeuronLsTopology, DrawsPartOfATorusAsAGridWithoutTheLinksOfHiddenDevices) {
  EXPECT_EQ(drawing(torus({0, 1, 4, 5})),
            "    [ 0 ]<-->[ 1 ]\n"
            "      ^        ^\n"
            "      |        |\n"
            "      v        v\n"
            "    [ 4 ]<-->[ 5 ]\n");
  EXPECT_EQ(drawing(torus({0, 1, 5, 13})),
            "               *\n"
            "               |\n"
            "               v\n"
            "    [ 0 ]<-->[ 1 ]\n"
            "               ^\n"
            "               |\n"
            "               v\n"
            "             [ 5 ]\n"
            "             [13 ]\n"
            "               ^\n"
            "               |\n"
            "               *\n");
}

TEST(NeuronLsTopology, SaysHowManyLinksItCannotDraw) {
  std::vector<Device> devices;
  for (int i = 0; i < 5; ++i) {
    devices.push_back(device(i, {}));
    for (int j = 0; j < 5; ++j) {
      if (j != i) devices.back().connected.push_back(j);
    }
  }
  const std::string text = format_topology(inventory(devices), false);
  EXPECT_NE(text.find(" of the links are not drawn; neuron-ls --matrix shows all\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(format_topology(torus({0, 1, 4, 5}), false).find("not drawn"), std::string::npos);
}

TEST(NeuronLsTopology, NamesEachLinkThatIsDownOnce) {
  Inventory ring = inventory({device(0, {2, 1}), device(1, {0, 2}), device(2, {1, 0})});
  EXPECT_EQ(format_topology(ring, false).find("down"), std::string::npos);
  ring.devices[0].links_down = {1};
  ring.devices[1].links_down = {0, 2};
  ring.devices[2].links_down = {1};
  const std::string text = format_topology(ring, false);
  EXPECT_NE(text.find("\nLinks that are down: 0 - 1, 1 - 2\n\nLegend"), std::string::npos) << text;
}

TEST(Json, SaysHowManyPhysicalCoresACoreHasWhereThatIsAChoice) {
  Device trn2 = device(0, {});
  trn2.cores = 4;
  trn2.logical_size = 2;
  const std::string text = format_json(inventory({trn2}));
  EXPECT_NE(text.find("\"nc_count\": 4,\n        \"logical_neuroncore_config\": 2,\n"),
            std::string::npos);
  EXPECT_EQ(format_json(inventory({device(0, {})})).find("logical_neuroncore_config"),
            std::string::npos);
}

}  // namespace
}  // namespace neuron::ls
