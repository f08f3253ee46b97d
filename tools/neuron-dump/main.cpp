// SPDX-License-Identifier: Apache-2.0
// neuron-dump: what is known of a failed execution, in one archive or on the terminal.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "runtime/base/file.h"
#include "tools/common/child_process.h"
#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/common/terminal.h"
#include "tools/common/time_text.h"
#include "tools/neuron-dump/core_file.h"
#include "tools/neuron-dump/manual.h"
#include "tools/neuron-dump/report.h"

namespace {

using namespace neuron::dump;  // NOLINT: this file is the program
namespace runtime = neuron::runtime;
namespace tools = neuron::tools;
using neuron::base::Deadline;
using runtime::fail;
using runtime::format;
using runtime::Result;

// A dump is larger than this only if somebody else has written it.
constexpr uint64_t kMostBytes = 64 << 20;

// What the runtime tells of the failure: the option, and its name in report.txt.
struct Told {
  const char* option;
  const char* name;
  const char* help;
  std::string value = {};
};

struct Wishes {
  std::string place, output, upload;
  std::vector<std::string> logs;
  bool show = false;
  uint32_t seconds = 25;  // the runtime waits for 30
  std::vector<Told> told = {{"--neff-name", "model", "name of the model"},
                            {"--neff-uuid", "uuid", "its number"},
                            {"--date-time", "failed at", "yyyy-mm-dd-HH-MM"},
                            {"--pid", "process", "process that failed"},
                            {"--tid", "thread", "its thread"},
                            {"--log-id", "dump", "number of the dump; only its files are taken"},
                            {"--instance-id", "instance", "the host"},
                            {"--cluster-id", "cluster", "the job: 16 zeros without collectives"},
                            {"--error-location", "place", "device and core"},
                            {"--error-code", "status", "NRT_STATUS"}};

  const std::string& told_of(const std::string& option) const {
    return std::find_if(told.begin(), told.end(),
                        [&](const Told& one) { return option == one.option; })
        ->value;
  }
};

Result<std::string> text_of_dump(const std::string& path, bool with_path) {
  NEURON_TRY(bytes, tools::read_file(path, kMostBytes));
  auto file = parse_core_file(std::string(bytes.begin(), bytes.end()));
  if (!file) return file.error().with("{}", tools::printable(path));
  const std::string name = with_path ? path : path.substr(path.rfind('/') + 1);
  return tools::printable(name) + "\n" + text_of(*file);
}

Result<void> show(const Wishes& wishes) {
  NEURON_TRY(files, core_files(wishes.place, wishes.told_of("--log-id")));
  std::string text;
  for (const std::string& path : files) {
    NEURON_TRY(one, text_of_dump(path, true));
    text += (text.empty() ? "" : "\n") + one;
  }
  if (!tools::print_output("neuron-dump", text)) return fail(NRT_FAILURE, "");
  return {};
}

// The name of the archive without its end.
std::string name_of(const Wishes& wishes) {
  std::string moment = wishes.told_of("--date-time");
  if (moment.empty()) {
    moment = tools::utc_text(std::chrono::system_clock::now())
                 .substr(0, sizeof("2026-11-27T04:02:09") - 1);
  }
  std::string name = "neuron-dump-" + moment;
  if (const std::string& id = wishes.told_of("--log-id"); !id.empty()) name += "-lid-" + id;
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-';
    if (!plain) c = '-';
  }
  return name.substr(0, 100);
}

Result<void> add_dump(const Wishes& wishes, Report& report) {
  if (wishes.place.empty()) return {};
  NEURON_TRY(files, core_files(wishes.place, wishes.told_of("--log-id")));
  std::string engines;
  for (const std::string& path : files) {
    report.add_file("core/" + path.substr(path.rfind('/') + 1).substr(0, 95), path);
    const auto text = text_of_dump(path, false);
    engines += (engines.empty() ? "" : "\n") + (text ? *text : text.error().sentence + "\n");
  }
  report.add_text("engines.txt", engines);
  return {};
}

void add_logs(const Wishes& wishes, Report& report) {
  for (size_t n = 0; n < wishes.logs.size(); ++n) {
    const std::string& path = wishes.logs[n];
    report.add_file(format("log/{}-{}", n, path.substr(path.rfind('/') + 1).substr(0, 90)), path);
  }
  // Terminals and pipes have no end to read.
  const std::string& process = wishes.told_of("--pid");
  if (process.empty() || process.find_first_not_of("0123456789") != std::string::npos) return;
  const std::string errors = "/proc/" + process + "/fd/2";
  std::error_code error;
  if (std::filesystem::is_regular_file(errors, error)) {
    report.add_file("log/standard-error.txt", errors);
  }
}

Result<void> upload(const Wishes& wishes, const std::string& archive, Deadline deadline) {
  if (wishes.upload.empty()) return {};
  const std::string slash = wishes.upload.ends_with('/') ? "" : "/";
  const std::string target = wishes.upload + slash + archive.substr(archive.rfind('/') + 1);
  // It writes no line, so that one limit is the other.
  const tools::Ending ending =
      tools::run_command({"aws", "s3", "cp", "--only-show-errors", archive, target}, {},
                         {.step = std::chrono::seconds(wishes.seconds), .end = deadline.when()},
                         [](std::string_view) {});
  if (ending.good()) return {};
  return fail(NRT_FAILURE, "{} stays where it is: the program aws, which copies to {}, {}{}{}",
              archive, tools::printable(wishes.upload), ending.sentence(),
              ending.errors.empty() ? "" : ": ",
              tools::printable(ending.errors.substr(0, ending.errors.find('\n'))));
}

Result<void> pack(const Wishes& wishes) {
  const std::string name = name_of(wishes);
  // The runtime's own call says where the dump lies, and has no other place for the archive.
  const bool called = !wishes.told_of("--log-id").empty() && !wishes.place.empty();
  const std::string path = !wishes.output.empty() ? wishes.output
                           : called               ? wishes.place + "/" + name + ".tar.gz"
                                                  : name + ".tar.gz";
  const std::chrono::milliseconds patience = std::chrono::seconds(wishes.seconds);
  const Deadline end = Deadline::after(patience);
  Report report(name, wishes.upload.empty() ? end : Deadline::after(patience / 2));
  for (const Told& one : wishes.told) report.note(one.name, one.value);
  NEURON_CHECK(add_dump(wishes, report));
  add_logs(wishes, report);
  report.add_host();
  NEURON_TRY(bytes, report.build());
  NEURON_CHECK(tools::write_file(path, bytes));
  const size_t missing = report.missing().size();
  std::string text = format("{}: {} files", tools::printable(path), report.parts() + 1);
  if (missing != 0) {
    text += format("; {} could not be had, report.txt in it says why", missing);
  }
  // Before anything is said: who reads it may have gone, and that would end this program.
  const auto uploaded = upload(wishes, path, end);
  if (!tools::print_output("neuron-dump", text + "\n")) return fail(NRT_FAILURE, "");
  return uploaded;
}

}  // namespace

int main(int argc, char** argv) {
  Wishes wishes;
  tools::CommandLine line(manual());
  line.option("dump,--local-output-dir", wishes.place, "folder, or a file, of a core dump")
      .value_name("FOLDER");
  line.flag("-s,--show", wishes.show, "print what the engines of the dump did; no archive");
  line.option("-o,--output", wishes.output,
              "the archive; otherwise neuron-dump-TIME.tar.gz, here or, for the runtime, beside "
              "the dump")
      .value_name("FILE");
  line.option("--log", wishes.logs, "a file whose end belongs to the report; repeatable")
      .repeatable()
      .value_name("FILE");
  line.option("--timeout", wishes.seconds, "seconds after which programs of the host are left out")
      .between(1u, 3600u)
      .with_default();
  line.option("--s3-output-prefix", wishes.upload, "where `aws` copies the archive")
      .judged_by([](const std::string& text) -> std::string {
        return text.starts_with("s3://") ? "" : "'" + text + "' does not begin with s3://";
      })
      .value_name("s3://BUCKET/PREFIX");
  for (Told& one : wishes.told) {
    line.option(one.option, one.value, std::string("from the runtime: ") + one.help);
  }
  if (const auto status = line.parse(argc, argv)) return *status;
  if (wishes.show && wishes.place.empty()) {
    std::fprintf(stderr, "neuron-dump: --show needs the folder or a file of a dump\n");
    return tools::kWrongUsage;
  }
  // What a report says is its user's own.
  ::umask(077);
  const auto done = wishes.show ? show(wishes) : pack(wishes);
  if (done) return tools::kDone;
  if (!done.error().sentence.empty()) {
    std::fprintf(stderr, "neuron-dump: %s\n", done.error().sentence.c_str());
  }
  return tools::kFailed;
}
