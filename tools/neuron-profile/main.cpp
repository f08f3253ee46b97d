// SPDX-License-Identifier: Apache-2.0
// neuron-profile, also called neuron-explorer: captures and shows profiles.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/common/terminal.h"
#include "tools/neuron-doctor/checks/access.h"
#include "tools/neuron-profile/capture.h"
#include "tools/neuron-profile/manual.h"
#include "tools/neuron-profile/view.h"

namespace {

using namespace neuron::profile;  // NOLINT: this file is the program
namespace tools = neuron::tools;

constexpr const char* kName = "neuron-profile";

int failed(const neuron::runtime::Error& error) {
  std::fprintf(stderr, "%s: %s\n", kName, error.sentence.c_str());
  return neuron::doctor::exit_status_of(error.sentence);
}

int print(const neuron::runtime::Result<Shown>& shown) {
  if (!shown) return failed(shown.error());
  if (!shown->warnings.empty()) std::fprintf(stderr, "%s: %s", kName, shown->warnings.c_str());
  const bool printed = tools::print_output(kName, shown->text);
  return printed && shown->good ? tools::kDone : tools::kFailed;
}

void declare_capture(tools::CommandLine& line, CaptureWishes& wishes, bool& no_profile) {
  tools::Command capture = line.command("capture", "execute a NEFF and write its profile");
  capture.option("inputs", wishes.inputs, "inputs: NAME FILE NAME FILE ...; without a file: zeros")
      .value_name("NAME FILE");
  capture.option("-n,--neff", wishes.neff, "NEFF to execute").value_name("FILE");
  capture.option("-s,--session-file", wishes.session, "profile to write")
      .value_name("FILE")
      .with_default();
  capture.option("--num-exec", wishes.executions, "executions")
      .between(1u, 1'000'000u)
      .with_default();
  capture.option("--profile-nth-exec", wishes.nth, "which execution is profiled; 0: all of them")
      .with_default();
  capture.flag("--disable-profile", no_profile, "execute only");
  capture.flag("--ignore-exec-errors", wishes.ignore_errors, "go on after an execution that fails");
  capture.flag("--save-output", wishes.save_outputs, "write each output to a file of its name");
  capture.flag("--save-output-npy", wishes.save_npy, "the same, as .npy files");
  capture.flag("--write-tensors-per-exec", wishes.outputs_each_time,
               "write the outputs of every execution; later ones are NAME.2, NAME.3");
  capture.flag("--check-output-determinism", wishes.check_determinism,
               "fail if an output differs from that of the first execution");
  capture.option("-r,--collectives-workers-per-node", wishes.ranks,
                 "ranks of a NEFF with collectives, a core each");
  capture
      .option("-i,--collectives-profile-id", wishes.profiled_rank, "which rank is profiled, or all")
      .with_default();
  capture
      .option("-m,--multi-input", wishes.multi_input,
              "file with the inputs of each rank, a line each")
      .value_name("FILE");
}

void declare_view(tools::CommandLine& line, ViewWishes& wishes) {
  tools::Command view = line.command("view", "show a profile");
  view.option("-s,--session-file", wishes.session, "profile to read")
      .value_name("FILE")
      .with_default();
  view.option("-d,--session-dir", wishes.session_folder,
              "folder of an inspect session, of which tables are written instead")
      .value_name("FOLDER");
  view.option("-n,--neff-path", wishes.neff, "NEFF that it must be of").value_name("FILE");
  view.option("--output-format", wishes.format, "what is printed or written")
      .one_of(view_formats())
      .with_default();
  view.option("--output-file", wishes.file, "where to; - is standard output").value_name("FILE");
  view.option("--table", wishes.table, "of --output-format csv")
      .one_of({"instruction", "dma", "semaphore", "collective", "cc", "link", "path"})
      .with_default();
  view.option("--data-path", wishes.data_path, "where --output-format parquet makes its folders")
      .value_name("FOLDER")
      .with_default();
  view.option("--display-name", wishes.display_name,
              "name of the profile among those folders; without it, that of the file")
      .value_name("NAME");
  view.option("--execution", wishes.execution,
              "which execution of the profile, from 1; without it, the last one that succeeded");
  view.option("--core", wishes.part, "which physical core of the virtual one").with_default();
  view.flag("--html", wishes.page, "short for --output-format html");
  view.flag("--json-pretty-print", wishes.pretty, "JSON on several lines");
}

void declare_session(tools::CommandLine& line, SessionWishes& wishes) {
  tools::Command show = line.command("show-session", "list the executions of a profile");
  show.option("-s,--session-file", wishes.session, "profile to read")
      .value_name("FILE")
      .with_default();
  show.flag("--show-errors", wishes.errors, "say what the profile lacks, and fail if it does");
  show.flag("-j,--json", wishes.json, "as JSON");
}

void declare_compare(tools::CommandLine& line, CompareWishes& wishes) {
  tools::Command compare = line.command("compare", "show what has changed between two profiles");
  compare.option("before", wishes.before, "profile").required().value_name("BEFORE");
  compare.option("after", wishes.after, "profile").required().value_name("AFTER");
  compare.flag("-j,--json", wishes.json, "as JSON");
  compare
      .option("--fail-above", wishes.most, "fail if AFTER takes more than so many percent longer")
      .value_name("PERCENT");
}

int run_capture(CaptureWishes& wishes) {
  if (wishes.neff.empty()) {
    std::fprintf(stderr, "%s: capture needs --neff FILE\n", kName);
    return tools::kWrongUsage;
  }
  // The sentence that is printed already contains what libnrt would log.
  ::setenv("NEURON_RT_LOG_LEVEL_NRT", "QUIET", 0);
  const auto done = capture(wishes);
  if (!done) return failed(done.error());
  std::string text = done->text;
  for (const std::string& file : done->files) text += "wrote " + file + "\n";
  return tools::print_output(kName, text) ? tools::kDone : tools::kFailed;
}

int run_view(const ViewWishes& wishes) {
  return print(view(wishes, tools::style_of(1, tools::ColorMode::kAuto)));
}

int run_session(const SessionWishes& wishes) {
  auto shown = show_session(wishes);
  if (shown && wishes.errors) shown->good = shown->warnings.empty();
  return print(shown);
}

}  // namespace

int main(int argc, char** argv) {
  CaptureWishes capture_wishes;
  ViewWishes view_wishes;
  SessionWishes session_wishes;
  CompareWishes compare_wishes;
  bool no_profile = false;
  tools::CommandLine line(manual());
  declare_capture(line, capture_wishes, no_profile);
  declare_view(line, view_wishes);
  declare_session(line, session_wishes);
  declare_compare(line, compare_wishes);
  line.needs_command();
  if (const auto status = line.parse(argc, argv)) return *status;
  const std::string command = line.used_command();
  if (command == "view") return run_view(view_wishes);
  if (command == "compare") return print(compare_profiles(compare_wishes));
  if (command == "show-session") return run_session(session_wishes);
  for (int n = 1; n < argc; ++n) {
    const std::string word = argv[n];
    capture_wishes.nth_given |= word.rfind("--profile-nth-exec", 0) == 0;
  }
  capture_wishes.profile = !no_profile;
  return run_capture(capture_wishes);
}
