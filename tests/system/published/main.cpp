// SPDX-License-Identifier: Apache-2.0
// model-times: runs the programs of rows.tsv on the emulated core.
//
//   model-times CHIP [ROW]   prints a row's name, what the model gives, and whether that is about
//                            whole executions or rounds, for each row of the chip
//   model-times --table      prints each row as a line of JSON, and the errors of the blind ones
//   model-times --update     writes what the model gives into rows.tsv
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "tests/support/process.h"
#include "tests/system/published/model_times.h"
#include "tests/system/published/rows.h"

namespace neuron::published {
namespace {

constexpr std::chrono::minutes kLimit{20};

// The rows of one chip, by the process that has its device.
int measure(const std::string& chip, const std::string& only) {
  const char* const device = chip == "trn1"   ? "trn1.2xlarge"
                             : chip == "trn2" ? "trn2.3xlarge"
                                              : "trn3pd98.3xlarge";
  setenv("NEURON_EMULATOR", device, 1);
  setenv("NEURON_LOGICAL_NC_CONFIG", "1", 1);
  ModelTimes times(chip);
  int status = 0;
  for (const Row& row : read_rows()) {
    if (row.chip != chip || !row.measured() || (!only.empty() && row.name != only)) continue;
    const auto ours = times.measure(row.name);
    if (!ours) {
      std::fprintf(stderr, "%s: %s\n", row.name.c_str(), ours.error().sentence.c_str());
      status = 1;
      continue;
    }
    std::printf("%s\t%s\t%s\n", row.name.c_str(), ours_text(ours->value).c_str(),
                how_text(ours->of_rounds));
    std::fflush(stdout);
  }
  return status;
}

// Of the program for a pair of cores, by the process that has such.
int measure_exchange() {
  setenv("NEURON_EMULATOR", "trn2.3xlarge", 1);
  setenv("NEURON_LOGICAL_NC_CONFIG", "2", 1);
  const auto ours = nanoseconds_of_exchange();
  if (!ours) {
    std::fprintf(stderr, "exchange: %s\n", ours.error().sentence.c_str());
    return 1;
  }
  std::printf("%.9g\n", *ours);
  return 0;
}

// All chips; false, with the sentences on stderr, if a row cannot be measured.
bool measure_all(std::vector<Row>& rows) {
  for (const char* chip : {"trn1", "trn2", "trn3"}) {
    const test::Run run = test::run({"/proc/self/exe", chip}, {}, kLimit);
    std::istringstream lines(run.output);
    for (std::string line; std::getline(lines, line);) {
      const size_t tab = line.find('\t'), second = line.rfind('\t');
      if (tab == second) {
        std::fprintf(stderr, "%s\n", line.c_str());
        continue;
      }
      for (Row& row : rows) {
        if (row.name != line.substr(0, tab)) continue;
        row.ours = line.substr(tab + 1, second - tab - 1);
        row.how = line.substr(second + 1);
        row.error = error_text(row.published, row.ours);
      }
    }
    if (run.ending != 0) return false;
  }
  return true;
}

void print(const std::vector<Row>& rows) {
  for (const Row& r : rows) {
    if (!r.measured()) {
      std::printf("{\"name\":\"%s\", \"class\":\"excluded\", \"published\":%s, \"unit\":\"%s\"}\n",
                  r.name.c_str(), r.published.c_str(), r.unit.c_str());
      continue;
    }
    std::printf(
        "{\"name\":\"%s\", \"class\":\"%s\", \"how\":\"%s\", \"ours\":%s, \"published\":%s, "
        "\"unit\":\"%s\", "
        "\"error_percent\":%g}\n",
        r.name.c_str(), r.kind.c_str(), r.how.c_str(), r.ours.c_str(), r.published.c_str(),
        r.unit.c_str(), std::atof(r.error.c_str()));
  }
  const Summary s = summary_of(rows);
  std::printf(
      "{\"name\":\"model-time\", \"blind\":%zu, \"median_percent\":%.1f, "
      "\"median_of_programs_percent\":%.1f, "
      "\"worst_percent\":%.1f, \"worst\":\"%s\", \"goal\":%.0f, \"worst_goal\":%.0f, "
      "\"bound\":\"at most\", \"met\":%s}\n",
      s.all.rows, s.all.median, s.of_programs.median, s.worst, s.worst_row.c_str(), kMedianGoal,
      kWorstGoal, s.all.median <= kMedianGoal && s.worst <= kWorstGoal ? "true" : "false");
}

}  // namespace
}  // namespace neuron::published

int main(int argc, char** argv) {
  using namespace neuron::published;
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "trn1" || mode == "trn2" || mode == "trn3") {
    return measure(mode, argc > 2 ? argv[2] : "");
  }
  if (mode == "exchange") return measure_exchange();
  if (mode != "--table" && mode != "--update") {
    std::fprintf(stderr, "usage: model-times trn1|trn2|trn3 [ROW] | --table | --update\n");
    return 2;
  }
  std::vector<Row> rows = read_rows();
  if (!measure_all(rows)) return 1;
  if (mode == "--update") write_rows(rows);
  print(rows);
  return 0;
}
