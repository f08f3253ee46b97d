// SPDX-License-Identifier: Apache-2.0
#include "driver/ndl/nearest_adapter.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "driver/ndl/error.h"

namespace neuron::ndl {
namespace {

namespace fs = std::filesystem;

constexpr long kAmazon = 0x1d0f;
constexpr long kFirstAdapter = 0xefa0;
constexpr long kLastAdapter = 0xefa3;

long number_in(const fs::path& file, long otherwise) {
  std::ifstream stream(file);
  std::string line;
  if (!std::getline(stream, line)) return otherwise;
  char* end = nullptr;
  const long value = std::strtol(line.c_str(), &end, 0);
  return end == line.c_str() ? otherwise : value;
}

// Folders of the adapters below devices/pci…, sorted by their addresses.
std::vector<fs::path> adapters(const fs::path& sysfs) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(sysfs / "class/infiniband", error), end; !error && at != end;
       at.increment(error)) {
    std::error_code broken;
    fs::path folder = fs::canonical(at->path() / "device", broken);
    if (broken || number_in(folder / "vendor", 0) != kAmazon) continue;
    const long kind = number_in(folder / "device", 0);
    if (kind >= kFirstAdapter && kind <= kLastAdapter) found.push_back(std::move(folder));
  }
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    return std::pair(a.filename(), a) < std::pair(b.filename(), b);
  });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// How far two folders go the same way, in folders.
long common_way(const fs::path& a, const fs::path& b) {
  return std::distance(a.begin(), std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first);
}

}  // namespace

int nearest_adapter(const std::string& sysfs, const std::string& address, unsigned device,
                    std::string& adapter) {
  const fs::path root(sysfs);
  std::error_code error;
  const fs::path place = fs::canonical(root / "bus/pci/devices" / address, error);
  if (error) {
    return fail(-ENODEV, "%s/bus/pci/devices/%s cannot be followed: %s", sysfs.c_str(),
                address.c_str(), error.message().c_str());
  }
  const long node = number_in(place / "numa_node", -1);
  std::pair<long, bool> best(-1, false);  // the common way, whether on the same node
  std::vector<fs::path> nearest;
  for (const fs::path& candidate : adapters(root)) {
    const std::pair<long, bool> near(common_way(place, candidate),
                                     node >= 0 && number_in(candidate / "numa_node", -1) == node);
    if (near < best) continue;
    if (near > best) nearest.clear();
    best = near;
    nearest.push_back(candidate);
  }
  if (nearest.empty()) {
    return fail(-ENOENT, "this host has no EFA: %s/class/infiniband names none", sysfs.c_str());
  }
  adapter = nearest[device % nearest.size()].filename().string();
  return 0;
}

}  // namespace neuron::ndl
