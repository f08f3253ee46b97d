// SPDX-License-Identifier: Apache-2.0
// nccom-postmortem: merges the flight recorders of a job's ranks and prints the one root cause.
// Exit status: 0 nothing failed, 1 a file is at fault (one sentence on stderr), 2 wrong usage,
// 3 a root cause was found, 4 ranks failed but the dumps do not show why.
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "tools/common/command_line.h"
#include "tools/common/format.h"
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

// A record for each rank that the verdict names, and one without a rank if it names none.
tools::Records records_of(const tools::Verdict& verdict, const tools::Evidence& evidence) {
  tools::Records records;
  records.schema = "nccom-postmortem";
  records.list = "ranks";
  records.columns = {{"cause", "CAUSE"},   {"role", "ROLE"},       {"rank", "RANK"},
                     {"host", "HOST"},     {"process", "PROCESS"}, {"operation", "OPERATION"},
                     {"number", "NUMBER"}, {"stream", "STREAM"},   {"sentence", "SENTENCE"}};
  const auto add = [&](const char* role, std::optional<uint32_t> number) {
    using boost::json::value;
    const auto rank = number ? evidence.ranks.find(*number) : evidence.ranks.end();
    const bool known = rank != evidence.ranks.end();
    const auto& operation = verdict.operation;
    records.rows.push_back(
        {tools::name_of(verdict.cause), role, number ? value(*number) : value(),
         known ? value(rank->second.host) : value(), known ? value(rank->second.process) : value(),
         operation ? value(operation->name) : value(),
         operation ? value(operation->number) : value(),
         operation ? value(operation->stream) : value(), value(verdict.sentence)});
  };
  for (const uint32_t rank : verdict.culprits) add("culprit", rank);
  for (const uint32_t rank : verdict.waiting) add("waiting", rank);
  for (const uint32_t rank : verdict.silent) add("silent", rank);
  if (records.rows.empty()) add("", std::nullopt);
  return records;
}

std::string render(const tools::Verdict& verdict, const tools::Evidence& evidence,
                   tools::Format format) {
  if (format == tools::Format::kText) return tools::text_of(verdict, evidence);
  if (format == tools::Format::kJson) return tools::json_of(verdict, evidence);
  return tools::render(records_of(verdict, evidence), format, {});
}

int run(const std::vector<std::string>& files, tools::Format format) {
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
  if (!tools::print_output("nccom-postmortem", render(verdict, evidence, format))) {
    return kBadFile;
  }
  return exit_status(verdict.cause);
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine line(tools::postmortem_manual());
  std::vector<std::string> files;
  bool json = false;
  tools::Format format = tools::Format::kText;
  line.option("FILE", files, "dumps of one job, in any order").required();
  tools::add_format_option(line, format);
  line.flag("--json", json, "as --format json");
  if (const auto status = line.parse(argc, argv)) return *status;
  if (json) format = tools::Format::kJson;
  try {
    return run(files, format);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nccom-postmortem: %s\n", error.what());
    return kBadFile;
  }
}
