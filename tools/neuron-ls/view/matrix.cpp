// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-ls/view/matrix.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>

#include "tools/common/time_text.h"

namespace neuron::ls {
namespace {

namespace json = boost::json;

const telemetry::Device* find(const telemetry::Snapshot& snapshot, unsigned index) {
  for (const telemetry::Device& device : snapshot.devices) {
    if (device.index == index) return &device;
  }
  return nullptr;
}

// Links to each device that can be reached from `from`.
std::map<unsigned, unsigned> distances(const telemetry::Snapshot& snapshot, unsigned from) {
  std::map<unsigned, unsigned> found{{from, 0}};
  std::deque<unsigned> next{from};
  while (!next.empty()) {
    const unsigned at = next.front();
    next.pop_front();
    const telemetry::Device* device = find(snapshot, at);
    if (device == nullptr) continue;
    for (const telemetry::Link& link : device->links) {
      if (!link.up || !found.try_emplace(link.device, found[at] + 1).second) continue;
      next.push_back(link.device);
    }
  }
  return found;
}

double measured_between(const std::vector<Measured>& measured, unsigned from, unsigned to) {
  for (const Measured& one : measured) {
    if (one.from == from && one.to == to) return one.bytes_per_second;
  }
  return 0;
}

std::string gigabytes(double bytes_per_second) {
  char text[32];
  std::snprintf(text, sizeof text, bytes_per_second < 10e9 ? "%.1f" : "%.0f",
                bytes_per_second / 1e9);
  return text;
}

std::string cell_of(const Path& path) {
  if (path.from == path.to) return "X";
  if (path.link != nullptr && !path.link->up) return "down";
  if (path.link != nullptr) {
    const double rate = path.link->theoretical_bytes_per_second;
    return rate > 0 ? "L" + gigabytes(rate) : "L";
  }
  return path.reachable ? std::to_string(path.hops) + " hops" : "-";
}

class Grid {
 public:
  void put(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const {
    std::vector<size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (size_t c = 0; c < row.size(); ++c) {
        widths[c] = std::max(widths[c], tools::columns_of(row[c]));
      }
    }
    std::string out;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t c = 0; c < row.size(); ++c) {
        line += row[c] + std::string(widths[c] - tools::columns_of(row[c]) + 2, ' ');
      }
      while (!line.empty() && line.back() == ' ') line.pop_back();
      out += line + "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string node_text(int node) { return node < 0 ? "-" : std::to_string(node); }

}  // namespace

std::vector<Path> paths(const telemetry::Snapshot& snapshot) {
  std::vector<Path> out;
  for (const telemetry::Device& from : snapshot.devices) {
    const auto reach = distances(snapshot, from.index);
    for (const telemetry::Device& to : snapshot.devices) {
      Path path;
      path.from = from.index;
      path.to = to.index;
      const auto found = reach.find(to.index);
      path.reachable = found != reach.end();
      path.hops = path.reachable ? found->second : 0;
      for (const telemetry::Link& link : from.links) {
        if (link.device == to.index && path.link == nullptr) path.link = &link;
      }
      out.push_back(path);
    }
  }
  return out;
}

std::string format_matrix(const telemetry::Snapshot& snapshot,
                          const std::vector<Measured>& measured, const tools::Style& style) {
  const std::vector<Path> all = paths(snapshot);
  const size_t count = snapshot.devices.size();
  Grid grid;
  std::vector<std::string> head{""};
  for (const telemetry::Device& device : snapshot.devices) {
    head.push_back("ND" + std::to_string(device.index));
  }
  std::vector<std::string> whole = head;
  for (const telemetry::NetworkDevice& device : snapshot.network) whole.push_back(device.name);
  whole.insert(whole.end(), {"NUMA", "CPU AFFINITY"});
  grid.put(whole);
  for (size_t i = 0; i < count; ++i) {
    const telemetry::Device& device = snapshot.devices[i];
    std::vector<std::string> row{head[i + 1]};
    for (size_t j = 0; j < count; ++j) row.push_back(cell_of(all[i * count + j]));
    for (const telemetry::NetworkDevice& network : snapshot.network) {
      const bool known = network.numa_node >= 0 && device.numa_node >= 0;
      row.push_back(!known ? "-" : network.numa_node == device.numa_node ? "NODE" : "SYS");
    }
    row.push_back(node_text(device.numa_node));
    row.push_back(device.cpu_affinity);
    grid.put(row);
  }
  std::string text =
      "\n" + painted(style, tools::Paint::kStrong, "Links between devices") + "\n" + grid.text();
  if (!measured.empty()) {
    Grid rates;
    rates.put(head);
    for (size_t i = 0; i < count; ++i) {
      std::vector<std::string> row{head[i + 1]};
      for (size_t j = 0; j < count; ++j) {
        const double rate =
            measured_between(measured, snapshot.devices[i].index, snapshot.devices[j].index);
        row.push_back(i == j ? "X" : rate > 0 ? gigabytes(rate) : "-");
      }
      rates.put(row);
    }
    text += "\n" + painted(style, tools::Paint::kStrong, "Measured, GB/s") + "\n" + rates.text();
  }
  text +=
      "\nLegend:\n\n"
      "  X       the device itself\n"
      "  L<n>    a link of n GB/s (10^9 bytes) in each direction, theoretical\n"
      "  <n> hops  over n links, through devices between\n"
      "  down    there is a link, and it does not work\n"
      "  -       no way over links; or not known\n";
  if (!snapshot.network.empty()) {
    text += "  NODE    on the same NUMA node; SYS: on another one\n";
  }
  return text;
}

tools::Records matrix_records(const telemetry::Snapshot& snapshot,
                              const std::vector<Measured>& measured) {
  tools::Records records{
      "neuron-ls-matrix",
      1,
      "links",
      {{"from", "FROM"},
       {"to", "TO"},
       {"hops", "HOPS"},
       {"kind", "KIND"},
       {"up", "UP"},
       {"theoretical_bytes_per_second", "THEORETICAL", tools::Unit::kBytesPerSecond},
       {"measured_bytes_per_second", "MEASURED", tools::Unit::kBytesPerSecond}},
      {},
      {}};
  records.about["at"] = tools::utc_text(snapshot.at);
  for (const Path& path : paths(snapshot)) {
    if (path.from == path.to) continue;
    const double rate = path.link ? path.link->theoretical_bytes_per_second : 0;
    const double found = measured_between(measured, path.from, path.to);
    records.rows.push_back({path.from, path.to,
                            path.reachable ? json::value(path.hops) : json::value(nullptr),
                            path.link && !path.link->kind.empty() ? json::value(path.link->kind)
                                                                  : json::value(nullptr),
                            path.link ? json::value(path.link->up) : json::value(nullptr),
                            rate > 0 ? json::value(rate) : json::value(nullptr),
                            found > 0 ? json::value(found) : json::value(nullptr)});
  }
  return records;
}

}  // namespace neuron::ls
