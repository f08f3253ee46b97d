// SPDX-License-Identifier: Apache-2.0
#include "ccom/topology/host.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace neuron::ccom {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kMaxProcessors = 1 << 16;
constexpr long kAmazon = 0x1d0f;

std::string line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

template <class F>
void each_entry(const fs::path& folder, F&& visit) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    visit(at->path());
  }
}

}  // namespace

std::vector<uint32_t> parse_processors(const std::string& text) {
  std::vector<uint32_t> result;
  const char* at = text.c_str();
  while (*at >= '0' && *at <= '9') {
    char* end = nullptr;
    const unsigned long first = std::strtoul(at, &end, 10);
    unsigned long last = first;
    if (*end == '-') {
      at = end + 1;
      last = std::strtoul(at, &end, 10);
      if (end == at) break;
    }
    if (first > last || last >= kMaxProcessors) break;
    for (unsigned long i = first; i <= last; ++i) result.push_back(static_cast<uint32_t>(i));
    at = *end == ',' ? end + 1 : end;
    if (*end != ',') break;
  }
  return result;
}

uint32_t HostFacts::numa_of(uint32_t processor) const {
  for (const NumaNode& node : numa) {
    if (std::find(node.processors.begin(), node.processors.end(), processor) !=
        node.processors.end()) {
      return node.number;
    }
  }
  return 0;
}

HostFacts host_facts(const std::string& root) {
  HostFacts facts;
  each_entry(fs::path(root) / "devices/system/node", [&](const fs::path& path) {
    const std::string name = path.filename().string();
    if (name.rfind("node", 0) != 0 || name.size() == 4 || name.size() > 9 ||
        name.find_first_not_of("0123456789", 4) != std::string::npos) {
      return;
    }
    facts.numa.push_back({static_cast<uint32_t>(std::strtoul(name.c_str() + 4, nullptr, 10)),
                          parse_processors(line_of(path / "cpulist"))});
  });
  std::sort(facts.numa.begin(), facts.numa.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
  each_entry(fs::path(root) / "class/infiniband", [&](const fs::path& path) {
    const fs::path device = path / "device";
    if (std::strtol(line_of(device / "vendor").c_str(), nullptr, 0) != kAmazon) return;
    const std::string numa = line_of(device / "numa_node");
    facts.efa.push_back({path.filename().string(),
                         numa.empty() ? -1 : static_cast<int32_t>(std::atoi(numa.c_str()))});
  });
  std::sort(facts.efa.begin(), facts.efa.end(),
            [](const EfaDevice& a, const EfaDevice& b) { return a.name < b.name; });
  return facts;
}

}  // namespace neuron::ccom
