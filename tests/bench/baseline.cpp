// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/baseline.h"

#include <cpuid.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace neuron::bench {
namespace {

constexpr double kTolerance = 0.10;

// As /proc/cpuinfo has them: "AuthenticAMD-25-17".
std::string processor() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __get_cpuid(0, &a, &b, &c, &d);
  char vendor[13] = {};
  std::memcpy(vendor, &b, 4);
  std::memcpy(vendor + 4, &d, 4);
  std::memcpy(vendor + 8, &c, 4);
  __get_cpuid(1, &a, &b, &c, &d);
  unsigned family = a >> 8 & 15;
  unsigned model = a >> 4 & 15;
  if (family == 15) family += a >> 20 & 255;
  if (family >= 6) model |= (a >> 16 & 15) << 4;
  return std::string(vendor) + "-" + std::to_string(family) + "-" + std::to_string(model);
}

}  // namespace

Baseline::Baseline()
    : path_(std::string(NEURON_SOURCE_DIR) + "/tests/bench/baselines/" + processor() + ".json") {
  std::FILE* file = std::fopen(path_.c_str(), "r");
  if (file == nullptr) return;
  char line[256];
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    char name[128];
    double ratio = 0;
    if (std::sscanf(line, " \"%127[^\"]\": %lf", name, &ratio) == 2) before_[name] = ratio;
  }
  std::fclose(file);
}

void Baseline::look(const std::string& name, double ratio, bool smaller_is_better) {
  now_[name] = ratio;
  const auto found = before_.find(name);
  if (found == before_.end() || found->second <= 0) return;
  const double change = ratio / found->second - 1;
  if (change <= kTolerance && change >= -kTolerance) return;
  std::fprintf(stderr, "%s has become %s: %.3f instead of %.3f (%+.0f %%) in %s\n", name.c_str(),
               (change < 0) == smaller_is_better ? "better" : "worse", ratio, found->second,
               100 * change, path_.c_str());
}

bool Baseline::save() const {
  const char* wish = std::getenv("NEURON_BENCH_BASELINE");
  if (wish == nullptr || std::strcmp(wish, "write") != 0) return true;
  std::map<std::string, double> all = before_;
  for (const auto& [name, ratio] : now_) all[name] = ratio;
  std::FILE* file = std::fopen(path_.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "the baseline %s cannot be written: %s\n", path_.c_str(),
                 std::strerror(errno));
    return false;
  }
  std::fprintf(file, "{\n");
  const char* before = "";
  for (const auto& [name, ratio] : all) {
    std::fprintf(file, "%s  \"%s\": %.3f", before, name.c_str(), ratio);
    before = ",\n";
  }
  std::fprintf(file, "\n}\n");
  return std::fclose(file) == 0;
}

}  // namespace neuron::bench
