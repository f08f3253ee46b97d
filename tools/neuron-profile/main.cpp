// SPDX-License-Identifier: Apache-2.0
// neuron-profile, also called neuron-explorer: captures and shows profiles.
#include <nrt/nrt_sys_trace.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/common/terminal.h"
#include "tools/execution/quiet_runtime.h"
#include "tools/neuron-doctor/checks/access.h"
#include "tools/neuron-profile/capture.h"
#include "tools/neuron-profile/documented_flags.h"
#include "tools/neuron-profile/inspect.h"
#include "tools/neuron-profile/manual.h"
#include "tools/neuron-profile/parquet/schema_document.h"
#include "tools/neuron-profile/view.h"

namespace {

using namespace neuron::profile;  // NOLINT: this file is the program
namespace tools = neuron::tools;

// By which of its two names it was called.
const char* kName = "neuron-profile";

int failed(const neuron::runtime::Error& error) {
  std::fprintf(stderr, "%s: %s\n", kName, error.sentence.c_str());
  return neuron::doctor::exit_status_of(error.sentence);
}

// Lines of text, each with the name of the program in front.
void say(const std::string& lines) {
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    std::fprintf(stderr, "%s: %s\n", kName, lines.substr(at, end - at).c_str());
    at = end + 1;
  }
}

int wrong(const std::string& sentence) {
  say(sentence);
  return tools::kWrongUsage;
}

int print(const neuron::runtime::Result<Shown>& shown) {
  if (!shown) return failed(shown.error());
  say(shown->warnings);
  const bool printed = tools::print_output(kName, shown->text);
  return printed && shown->good ? tools::kDone : tools::kFailed;
}

// What of capture is no wish yet.
struct CaptureLine {
  bool no_profile = false, list_event_types = false, open = false;
  uint32_t all_workers = 0, first_worker = 0;
  std::string type = "profile", mode = "sync";
};

tools::Command declare_capture(tools::CommandLine& line, CaptureWishes& wishes, CaptureLine& more) {
  tools::Command capture = line.command("capture", "execute a NEFF and write its profile");
  const tools::Option inputs =
      capture
          .option("inputs", wishes.inputs, "inputs: NAME FILE NAME FILE ...; without a file: zeros")
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
  capture
      .option("-t,--capture-type", more.type,
              "what is recorded; a systrace is recorded by inspect instead")
      .one_of({"profile", "systrace"})
      .with_default();
  capture
      .option("--exec-mode", more.mode,
              "how executions follow each other; here one always ends before the next begins")
      .one_of({"sync", "async", "async-wait"})
      .with_default();
  const tools::Option no_profile =
      capture.flag("--disable-profile", more.no_profile, "execute only");
  capture
      .flag("--open", more.open,
            "show the page of the (first) profile in a browser; it is written beside the profile")
      .excludes(no_profile);
  capture.flag("--fail-on-loss", wishes.fail_on_loss, "fail if a profile lacks events");
  capture.flag("--ignore-exec-errors", wishes.ignore_errors, "go on after an execution that fails");
  capture.flag("--save-output", wishes.save_outputs, "write each output to a file of its name");
  capture.flag("--save-output-npy", wishes.save_npy, "the same, as .npy files");
  capture.flag("--write-tensors-per-exec", wishes.outputs_each_time,
               "write the outputs of every execution; later ones are NAME.2, NAME.3");
  capture.flag("--check-output-determinism", wishes.check_determinism,
               "fail if an output differs from that of the first execution");
  capture.option("-r,--collectives-workers-per-node", wishes.ranks,
                 "ranks of a NEFF with collectives, a core each");
  capture.option("--collectives-worker-count", more.all_workers,
                 "ranks on all nodes; all of them are on this one");
  capture
      .option("--collectives-worker-start-id", more.first_worker,
              "first rank on this node; 0, as all are on this one")
      .with_default();
  capture
      .option("-i,--collectives-profile-id", wishes.profiled_rank, "which rank is profiled, or all")
      .with_default();
  capture
      .option("-m,--multi-input", wishes.multi_input,
              "file with the inputs of each rank, a line each")
      .value_name("FILE")
      .excludes(inputs);
  capture.flag("--systrace-get-event-types", more.list_event_types,
               "print the names of a system trace's events and exit");
  return capture;
}

tools::Command declare_view(tools::CommandLine& line, ViewWishes& wishes) {
  tools::Command view = line.command("view", "show a profile");
  const tools::Option session = view.option("-s,--session-file", wishes.session, "profile to read")
                                    .value_name("FILE")
                                    .with_default();
  const tools::Option neff =
      view.option("-n,--neff-path", wishes.neff, "NEFF that it must be of").value_name("FILE");
  view.option(
          "-d,--session-dir", wishes.session_folder,
          "folder of an inspect session, or one with a single session in it, of which tables are "
          "written instead")
      .value_name("FOLDER")
      .excludes(session)
      .excludes(neff);
  const tools::Option format =
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
              "which execution of the profile, from 1; without it, the last one that succeeded")
      .between(1u, UINT32_MAX);
  view.option("--core", wishes.part, "which physical core of the virtual one").with_default();
  view.flag("--html", wishes.page, "short for --output-format html").excludes(format);
  view.flag("--open", wishes.open, "show the page of --html in a browser");
  view.flag("--json-pretty-print", wishes.pretty, "JSON of summary-json on several lines");
  view.flag("--show-perfetto-flows", wishes.flows,
            "arrows in the trace of Perfetto: what started or awaited what");
  view.flag("--ignore-system-profile", wishes.leave_out_system,
            "of a session: no tables of its events and of the host");
  view.flag("--ignore-device-profile", wishes.leave_out_devices,
            "of a session: no list of its device profiles");
  const auto filter = [&](const char* name, std::vector<std::string>& list, const char* what) {
    view.option(name, list, what).value_name("LIST").separated_by(',');
  };
  filter("--system-trace-filter-neuron-core", wishes.cores,
         "of a session: only events of these cores (0,2)");
  filter("--system-trace-filter-event-type", wishes.events,
         "of a session: only events of these names");
  filter("--system-trace-filter-instance-id", wishes.instances,
         "of a session: only events of these instances");
  return view;
}

void declare_inspect(tools::CommandLine& line, InspectWishes& wishes) {
  tools::Command inspect =
      line.command("inspect", "run a command whose calls and executions are recorded");
  inspect.option("-o,--output-dir", wishes.folder, "where the session's files go")
      .value_name("FOLDER")
      .with_default();
  inspect.option("-n,--max-events", wishes.most_events,
                 "how many events of the system trace a core keeps");
  inspect.flag("--capture-system-profiles", wishes.system,
               "record calls and executions; without this and the next, both");
  inspect.flag("--capture-device-profiles", wishes.devices,
               "record the first execution of each model on each core");
  inspect.option("command", wishes.command, "command and its arguments")
      .required()
      .value_name("COMMAND");
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
      .value_name("PERCENT")
      .judged_by([](const std::string& text) -> std::string {
        char* end = nullptr;
        const double percent = std::strtod(text.c_str(), &end);
        const bool good =
            end != text.c_str() && *end == '\0' && std::isfinite(percent) && percent >= 0;
        return good ? "" : "'" + text + "' is no percentage; give a number from 0 on";
      });
}

// A sentence against what cannot be; empty: all can. Settles what depends on several options.
std::string settle_capture(CaptureWishes& wishes, const CaptureLine& more) {
  if (wishes.neff.empty()) return "capture needs --neff FILE";
  if (more.type == "systrace") {
    return std::string("a system trace is recorded by ") + kName + " inspect -o FOLDER COMMAND";
  }
  if (more.all_workers != 0 && wishes.ranks != 0 && more.all_workers != wishes.ranks) {
    return "--collectives-worker-count and --collectives-workers-per-node differ, and all ranks of "
           "a capture are on this node";
  }
  if (more.first_worker != 0) {
    return "--collectives-worker-start-id is not 0, and all ranks of a capture are on this node";
  }
  if (more.all_workers != 0) wishes.ranks = more.all_workers;
  if (wishes.ranks == 0 && wishes.profiled_rank != "0") {
    return "--collectives-profile-id is of ranks, and --collectives-workers-per-node does not say "
           "how many there are";
  }
  return {};
}

int list_event_types() {
  const char** names = nullptr;
  size_t count = 0;
  if (nrt_sys_trace_get_event_types(&names, &count) != NRT_SUCCESS) {
    std::fprintf(stderr, "%s: the runtime does not tell its event types\n", kName);
    return tools::kFailed;
  }
  std::string text;
  for (size_t n = 0; n < count; ++n) text += std::string(names[n]) + "\n";
  nrt_sys_trace_free_event_types(names, count);
  return tools::print_output(kName, text) ? tools::kDone : tools::kFailed;
}

// Writes the page beside the profile.
int show_page_of(const std::string& profile) {
  ViewWishes wishes;
  wishes.session = profile;
  wishes.page = wishes.open = true;
  wishes.file = std::filesystem::path(profile).replace_extension(".html").string();
  return print(view(wishes, tools::style_of(1, tools::ColorMode::kNever)));
}

int run_capture(CaptureWishes& wishes, const CaptureLine& more) {
  if (more.list_event_types) return list_event_types();
  if (const std::string against = settle_capture(wishes, more); !against.empty()) {
    return wrong(against);
  }
  if (more.mode != "sync") {
    say("--exec-mode " + more.mode +
        " changes nothing here: an execution ends before the next one begins.\n");
  }
  // The sentence that is printed already contains what libnrt would log.
  neuron::execution::quiet_runtime("neuron-profile");
  const auto done = capture(wishes);
  if (!done) return failed(done.error());
  std::string text = done->text;
  for (const std::string& file : done->files) text += "wrote " + file + "\n";
  say(done->losses);
  const bool printed = tools::print_output(kName, text);
  const int shown = more.open ? show_page_of(done->files.front()) : tools::kDone;
  const bool whole = done->losses.empty() || !wishes.fail_on_loss;
  return printed && whole ? shown : tools::kFailed;
}

// A sentence against options that mean nothing together. Settles the format.
std::string settle_view(const tools::Command& view, ViewWishes& wishes) {
  const bool session = !wishes.session_folder.empty();
  const bool of_tables = view.given("--data-path") || view.given("--display-name");
  if (!view.given("--output-format") && !wishes.page && of_tables) wishes.format = "parquet";
  const std::string format = wishes.page ? "html" : wishes.format;
  const bool tables = session || format == "parquet" || format == "db";
  const auto of = [&](const char* option, const char* what) {
    return std::string(option) + " is of " + what;
  };
  if (view.given("--table") && format != "csv") return of("--table", "--output-format csv");
  if (of_tables && !tables) {
    return of("--data-path, like --display-name,", "--output-format parquet");
  }
  if (wishes.pretty && format != "summary-json") {
    return of("--json-pretty-print", "--output-format summary-json");
  }
  if (wishes.flows && format != "perfetto") {
    return of("--show-perfetto-flows", "--output-format perfetto");
  }
  if (wishes.open && (format != "html" || wishes.file == "-")) {
    return of("--open", "--html, and of a page in a file");
  }
  if (session && (view.given("--execution") || view.given("--core"))) {
    return of("--execution, like --core,", "a profile, and --session-dir names a session");
  }
  const bool of_session = wishes.leave_out_system || wishes.leave_out_devices ||
                          !wishes.cores.empty() || !wishes.events.empty() ||
                          !wishes.instances.empty();
  if (of_session && !session) {
    return "--ignore-system-profile, --ignore-device-profile and --system-trace-filter-* are of a "
           "session, which --session-dir names";
  }
  return {};
}

int run_view(const tools::Command& command, ViewWishes& wishes) {
  if (const std::string against = settle_view(command, wishes); !against.empty()) {
    return wrong(against);
  }
  // A script that relies on the original's default must not take a text for its tables.
  const bool by_itself = !command.given("--output-format") && !wishes.page &&
                         wishes.format == "report" && wishes.session_folder.empty();
  const auto shown = view(wishes, tools::style_of(1, tools::ColorMode::kAuto));
  if (shown && by_itself && ::isatty(STDOUT_FILENO) == 0) {
    say("this is the report, since no --output-format is given; tables are --output-format "
        "parquet\n");
  }
  return print(shown);
}

int run_session(const SessionWishes& wishes) {
  auto shown = show_session(wishes);
  if (shown && wishes.errors) shown->good = shown->warnings.empty();
  return print(shown);
}

}  // namespace

int main(int argc, char** argv) {
  CaptureWishes capture_wishes;
  CaptureLine more;
  ViewWishes view_wishes;
  SessionWishes session_wishes;
  CompareWishes compare_wishes;
  InspectWishes inspect_wishes;
  DocumentedFlags without_effect;
  bool schema = false;
  tools::Manual about = manual();
  const std::string_view called = argc > 0 ? std::string_view(argv[0]) : std::string_view();
  const bool explorer = called.substr(called.rfind('/') + 1) == "neuron-explorer";
  if (explorer) about.name = kName = "neuron-explorer";
  inspect_wishes.folder = explorer ? "." : "./output";
  tools::CommandLine line(about);
  line.flag("--show-profile-schema", schema, "print the schema of the tables and exit");
  tools::Command capture_command = declare_capture(line, capture_wishes, more);
  without_effect.declare(capture_command, kCaptureFlags);
  tools::Command view_command = declare_view(line, view_wishes);
  without_effect.declare(view_command, kViewFlags);
  declare_inspect(line, inspect_wishes);
  declare_session(line, session_wishes);
  declare_compare(line, compare_wishes);
  std::vector<char*> words = with_command_apart(argc, argv);
  // Which needs no command beside it.
  if (words.size() != 2 || std::string_view(words[1]) != "--show-profile-schema") {
    line.needs_command();
  }
  if (const auto status = line.parse(static_cast<int>(words.size()), words.data())) return *status;
  if (schema) {
    const std::string document = parquet::schema_document();
    return tools::print_output(kName, document) ? tools::kDone : tools::kFailed;
  }
  say(without_effect.sentences());
  const std::string command = line.used_command();
  if (command == "view") return run_view(view_command, view_wishes);
  if (command == "compare") return print(compare_profiles(compare_wishes));
  if (command == "show-session") return run_session(session_wishes);
  if (command == "inspect") return inspect(kName, inspect_wishes);
  capture_wishes.nth_given = capture_command.given("--profile-nth-exec");
  capture_wishes.profile = !more.no_profile;
  return run_capture(capture_wishes, more);
}
