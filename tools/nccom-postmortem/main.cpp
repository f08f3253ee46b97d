// SPDX-License-Identifier: Apache-2.0
// nccom-postmortem: merges the flight recorders of a job's ranks and prints the one root cause.
// Exit status: 0 nothing failed, 1 a file is at fault (one sentence on stderr), 2 wrong usage,
// 3 a root cause was found, 4 ranks failed but the dumps do not show why.
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/nccom-postmortem/analysis/verdict.h"
#include "tools/nccom-postmortem/manual.h"

namespace {

namespace tools = neuron::tools;

constexpr int kBadFile = 1;
constexpr int kCauseFound = 3;
constexpr int kCauseUnknown = 4;

int exit_status(tools::Cause cause) {
  switch (cause) {
    case tools::Cause::kNone:
      return 0;
    case tools::Cause::kUnknown:
      return kCauseUnknown;
    default:
      return kCauseFound;
  }
}

int run(const std::vector<std::string>& files, bool json) {
  tools::Evidence evidence;
  for (const std::string& file : files) {
    const auto bytes = tools::read_file(file);
    if (!bytes) {
      std::fprintf(stderr, "nccom-postmortem: %s\n", bytes.error().sentence.c_str());
      return kBadFile;
    }
    const std::string text(bytes->begin(), bytes->end());
    const auto added = tools::add_dump(evidence, text, neuron::base::escaped(file));
    if (!added) {
      std::fprintf(stderr, "nccom-postmortem: %s\n", added.error().sentence.c_str());
      return kBadFile;
    }
  }
  const tools::Verdict verdict = tools::judge(evidence);
  const std::string text =
      json ? tools::json_of(verdict, evidence) : tools::text_of(verdict, evidence);
  if (!tools::print_output("nccom-postmortem", text)) {
    return kBadFile;
  }
  return exit_status(verdict.cause);
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine line(tools::postmortem_manual());
  std::vector<std::string> files;
  bool json = false;
  line.option("FILE", files, "dumps of one job, in any order").required();
  line.flag("--json", json, "print one JSON object");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    return run(files, json);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nccom-postmortem: %s\n", error.what());
    return kBadFile;
  }
}
