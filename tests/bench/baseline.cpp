// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/baseline.h"

#include <cpuid.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

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

// "name": {"ratio": 0.5, "goal": 0.75, "at most": false, "met": false, "peer": "OpenBLAS", "day":
// "2026-12-31"}, in one line.
constexpr const char* kLine =
    " \"%127[^\"]\": {\"ratio\": %lf, \"goal\": %lf, \"at most\": %7[a-z], \"met\": "
    "%7[a-z], \"peer\": \"%255[^\"]\", \"day\": \"%15[0-9-]\"}";

// Of a peer's name, which the code gives: a quotation mark would end it.
std::string without_quotes(std::string text) {
  std::replace(text.begin(), text.end(), '"', '\'');
  return text.empty() ? "-" : text;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[16] = "";
  std::strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &parts));
  return text;
}

}  // namespace

Baseline::Baseline()
    : Baseline(std::string(NEURON_SOURCE_DIR) + "/tests/bench/baselines/" + processor() + ".json") {
}

Baseline::Baseline(std::string path) : path_(std::move(path)) {
  std::FILE* file = std::fopen(path_.c_str(), "r");
  if (file == nullptr) return;
  char line[512];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    char name[128], most[8], met[8], peer[256], day[16];
    BaselineRow row;
    if (std::strchr(line, ':') == nullptr) continue;  // a brace
    if (std::sscanf(line, kLine, name, &row.ratio, &row.goal, most, met, peer, day) != 7) {
      std::fprintf(stderr, "%s has a line that is not understood, and is not written: %s",
                   path_.c_str(), line);
      understood_ = false;
      continue;
    }
    row.at_most = std::strcmp(most, "true") == 0;
    row.met = std::strcmp(met, "true") == 0;
    row.peer = peer;
    row.day = day;
    before_[name] = row;
  }
  std::fclose(file);
}

bool Baseline::look(const std::string& name, const BaselineRow& row) {
  if (!std::isfinite(row.ratio)) {
    std::fprintf(stderr, "%s is no number, and is not kept\n", name.c_str());
    return false;
  }
  now_[name] = row;
  now_[name].peer = without_quotes(row.peer);
  if (row.day.empty()) now_[name].day = today();
  const auto found = before_.find(name);
  if (found == before_.end() || found->second.ratio <= 0) return false;
  const double change = row.ratio / found->second.ratio - 1;
  if (change <= kTolerance && change >= -kTolerance) return false;
  std::fprintf(stderr, "%s has become %s: %.3f instead of %.3f (%+.0f %%) in %s\n", name.c_str(),
               (change < 0) == row.at_most ? "better" : "worse", row.ratio, found->second.ratio,
               100 * change, path_.c_str());
  return true;
}

bool Baseline::save() const {
  const char* wish = std::getenv("NEURON_BENCH_BASELINE");
  if (wish == nullptr || std::strcmp(wish, "write") != 0) return true;
  if (!understood_) return false;
  std::map<std::string, BaselineRow> all = before_;
  for (const auto& [name, row] : now_) all[name] = row;
  std::FILE* file = std::fopen(path_.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "the baseline %s cannot be written: %s\n", path_.c_str(),
                 std::strerror(errno));
    return false;
  }
  std::fprintf(file, "{\n");
  const char* before = "";
  for (const auto& [name, row] : all) {
    std::fprintf(file,
                 "%s  \"%s\": {\"ratio\": %.3f, \"goal\": %.3g, \"at most\": %s, \"met\": %s, "
                 "\"peer\": \"%s\", "
                 "\"day\": \"%s\"}",
                 before, name.c_str(), row.ratio, row.goal, row.at_most ? "true" : "false",
                 row.met ? "true" : "false", row.peer.c_str(), row.day.c_str());
    before = ",\n";
  }
  std::fprintf(file, "\n}\n");
  return std::fclose(file) == 0;
}

}  // namespace neuron::bench
