// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/view.h"

#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>

#include "runtime/base/file.h"
#include "runtime/neff/header.h"
#include "tools/common/progress_bar.h"
#include "tools/neuron-profile/analysis/summary.h"
#include "tools/neuron-profile/browser.h"
#include "tools/neuron-profile/output/comparison.h"
#include "tools/neuron-profile/output/detail.h"
#include "tools/neuron-profile/output/page.h"
#include "tools/neuron-profile/output/perfetto.h"
#include "tools/neuron-profile/output/report.h"
#include "tools/neuron-profile/output/session_tables.h"
#include "tools/neuron-profile/output/tables.h"

namespace neuron::profile {
namespace {

using runtime::fail;
using runtime::Result;

struct Target {
  uint32_t part = 0;
  size_t execution = 0;
};

Result<Target> target_of(const Profile& profile, const ViewWishes& wishes) {
  const auto& parts = profile.parts();
  if (wishes.part >= parts.size()) {
    return fail(NRT_INVALID,
                "the profile '{}' is of {} physical core(s), and --core {} is none of them",
                profile.path(), parts.size(), wishes.part);
  }
  const Part& part = parts[wishes.part];
  const auto usual = representative(part);
  if (!usual) {
    return fail(
        NRT_INVALID,
        "the profile '{}' has no execution: the model was not executed while it was profiled, "
        "or the process died in its first execution, or the file is cut off",
        profile.path());
  }
  if (wishes.execution == 0) return Target{wishes.part, *usual};
  if (wishes.execution > part.executions.size()) {
    return fail(NRT_INVALID, "the profile '{}' has {} executions, and --execution is {}",
                profile.path(), part.executions.size(), wishes.execution);
  }
  return Target{wishes.part, wishes.execution - 1};
}

// Of the NEFF that the profile is of; nothing if the user names none.
Result<std::optional<NeffFacts>> read_neff(const Profile& profile, const std::string& neff) {
  if (neff.empty()) return std::optional<NeffFacts>();
  NEURON_TRY(bytes, tools::read_file(neff));
  NEURON_TRY(header, neff::parse_header(bytes));
  std::string uuid;
  for (const uint8_t byte : header.uuid) uuid += runtime::format("{:02x}", byte);
  const std::string& expected = profile.parts()[0].program.uuid;
  // Of package version 1 a SHA-256, later an MD5.
  const size_t hash_bytes = header.pkg_version == 1 ? header.hash.size() : 16;
  if (uuid == expected) {
    return std::optional(
        NeffFacts{.hash = neff::hexadecimal(std::span(header.hash).first(hash_bytes)),
                  .build_version = runtime::escaped(header.build_version),
                  .header_bytes = header.header_size,
                  .data_bytes = header.data_size,
                  .major = header.version_major,
                  .minor = header.version_minor,
                  .package_version = header.pkg_version,
                  .logical_cores = header.num_tpb,
                  .physical_of_logical = header.effective_lnc()});
  }
  return fail(NRT_INVALID,
              "'{}' is not the profile of '{}': the NEFF has the uuid {}, the profiled one {}",
              profile.path(), neff, uuid, expected);
}

Result<std::string> text_of(Profile& profile, const Target& target, const ViewWishes& wishes,
                            const tools::Style& style) {
  if (wishes.format == "summary-json") {
    return summary_json(profile, target.part, target.execution, wishes.pretty);
  }
  if (wishes.format == "report") {
    return report_text(profile, target.part, target.execution, style);
  }
  NEURON_TRY(summary, summary_text(profile, target.part, target.execution));
  NEURON_TRY(report, report_text(profile, target.part, target.execution, style));
  return summary + "\n" + report;
}

// Formats that are written piece by piece, and the file that they go to unless one is named.
struct FileFormat {
  const char* name;
  const char* file;
  Result<void> (*write)(Profile&, const Target&, const ViewWishes&, Sink&);
};
constexpr FileFormat kFileFormats[] = {
    {"json", "ntff.json",
     [](Profile& profile, const Target& target, const ViewWishes&, Sink& sink) {
       return write_detail_json(profile, target.part, target.execution, sink);
     }},
    {"csv", "-",
     [](Profile& profile, const Target& target, const ViewWishes& wishes, Sink& sink) {
       return write_detail_csv(profile, target.part, target.execution, wishes.table, sink);
     }},
    {"html", "profile.html",
     [](Profile& profile, const Target& target, const ViewWishes&, Sink& sink) {
       return write_page(profile, target.part, target.execution, sink);
     }},
    {"perfetto", "ntff.pftrace",
     [](Profile& profile, const Target& target, const ViewWishes& wishes, Sink& sink) {
       return write_perfetto(profile, target.part, target.execution, sink, wishes.flows);
     }},
};

const FileFormat* find_format(const std::string& name) {
  for (const FileFormat& format : kFileFormats) {
    if (name == format.name) return &format;
  }
  return nullptr;
}

// What no output may destroy.
std::vector<std::string> inputs_of(const ViewWishes& wishes) {
  return {wishes.session, wishes.neff};
}

// Of a format that is written piece by piece, or a text in a file.
Result<Sink> open_output(const std::string& file, const ViewWishes& wishes) {
  NEURON_CHECK(refuse_inputs(file, inputs_of(wishes)));
  return Sink::open(file);
}

// The folder that tables of something go to; `of`: its name.
Result<std::string> table_folder(const ViewWishes& wishes, const std::string& of) {
  const std::string name = wishes.display_name.empty() ? of : wishes.display_name;
  if (name.find('/') != std::string::npos) {
    return fail(NRT_INVALID, "--display-name '{}' names a folder, so it has no /", name);
  }
  if (wishes.file == "-") {
    return fail(NRT_INVALID,
                "tables are files in a folder, so they cannot go to standard output: --output-file "
                "names the folder");
  }
  const std::string folder = !wishes.file.empty()
                                 ? wishes.file
                                 : wishes.data_path + "/profiles/global/" + name + "@latest";
  return folder;
}

Result<std::string> write_parquet(Profile& profile, const Target& target, const ViewWishes& wishes,
                                  const std::optional<NeffFacts>& neff) {
  NEURON_TRY(folder, table_folder(wishes, std::filesystem::path(wishes.session).stem().string()));
  NEURON_TRY(tables, write_tables(profile, target.part, target.execution,
                                  {.folder = folder, .inputs = inputs_of(wishes), .neff = neff}));
  return runtime::format("wrote {} tables into {}\n", tables, folder);
}

Profile::Watcher watcher_of(tools::ProgressBar& bar) {
  return [&bar](uint64_t at, uint64_t size) { bar.show(at, size); };
}

// A page that nobody can open here has been written nevertheless.
void open_page(const std::string& file, Shown& shown) {
  const Result<void> opened = show_in_browser(file);
  if (opened) return;
  shown.warnings += opened.error().sentence + "\n";
  shown.good = false;
}

Result<Shown> view_session(const ViewWishes& wishes) {
  // The report, which is of a profile, is what a user gets who asks for nothing.
  if (wishes.format != "parquet" && wishes.format != "db" && wishes.format != "report") {
    return fail(NRT_INVALID,
                "the format '{}' is of a profile; of the session in '{}' there are tables: "
                "--output-format parquet",
                wishes.format, wishes.session_folder);
  }
  tools::ProgressBar bar("reading " + wishes.session_folder);
  NEURON_TRY(session, Session::open(wishes.session_folder, watcher_of(bar)));
  // "out/" and "out" are one folder.
  const std::filesystem::path path = std::filesystem::absolute(session.folder() + "/.");
  NEURON_TRY(folder, table_folder(wishes, path.parent_path().filename().string()));
  NEURON_TRY(tables, write_session_tables(session, folder,
                                          {.system = !wishes.leave_out_system,
                                           .devices = !wishes.leave_out_devices,
                                           .cores = wishes.cores,
                                           .events = wishes.events,
                                           .instances = wishes.instances}));
  Shown shown{.text = runtime::format("wrote {} tables into {}\n", tables, folder), .warnings = {}};
  for (const std::string& notice : session.notices()) shown.warnings += notice + "\n";
  return shown;
}

}  // namespace

const std::vector<std::string>& view_formats() {
  static const std::vector<std::string> formats = {
      "report", "summary-text", "summary-json", "json", "csv", "html", "perfetto", "parquet", "db"};
  return formats;
}

Result<Shown> view(const ViewWishes& wishes, const tools::Style& style) {
  if (!wishes.session_folder.empty()) return view_session(wishes);
  std::optional<tools::ProgressBar> bar("reading " + wishes.session);
  NEURON_TRY(profile, Profile::open(wishes.session, watcher_of(*bar)));
  NEURON_TRY(neff, read_neff(profile, wishes.neff));
  NEURON_TRY(target, target_of(profile, wishes));
  Shown shown{.text = {}, .warnings = warnings(profile)};
  if (const FileFormat* format = find_format(wishes.page ? "html" : wishes.format)) {
    const std::string file = wishes.file.empty() ? format->file : wishes.file;
    NEURON_TRY(sink, open_output(file, wishes));
    if (file == "-") {
      bar.reset();  // what is printed while the profile is read may share its terminal
      profile.watch({});
    }
    NEURON_CHECK(format->write(profile, target, wishes, sink));
    if (file != "-") shown.text = "wrote " + file + "\n";
    if (wishes.open) open_page(file, shown);
    return shown;
  }
  if (wishes.format == "parquet" || wishes.format == "db") {
    NEURON_TRY(written, write_parquet(profile, target, wishes, neff));
    shown.text = std::move(written);
    return shown;
  }
  if (!wishes.file.empty()) NEURON_CHECK(refuse_inputs(wishes.file, inputs_of(wishes)));
  NEURON_TRY(text, text_of(profile, target, wishes, style));
  shown.text = std::move(text);
  if (wishes.file.empty() || wishes.file == "-") return shown;
  NEURON_TRY(sink, open_output(wishes.file, wishes));
  sink.write(shown.text);
  NEURON_CHECK(sink.close());
  shown.text = "wrote " + wishes.file + "\n";
  return shown;
}

Result<Shown> compare_profiles(const CompareWishes& wishes) {
  tools::ProgressBar bar("comparing " + wishes.before + " and " + wishes.after);
  NEURON_TRY(before, Profile::open(wishes.before, watcher_of(bar)));
  NEURON_TRY(after, Profile::open(wishes.after, watcher_of(bar)));
  NEURON_TRY(first, target_of(before, {}));
  NEURON_TRY(second, target_of(after, {}));
  NEURON_TRY(comparison, compare(before, first.execution, after, second.execution));
  Shown shown{.text = wishes.json ? comparison.json : comparison.text,
              .warnings = warnings(before) + warnings(after)};
  if (wishes.most >= 0 && comparison.total_change * 100 > wishes.most) {
    shown.good = false;
    shown.warnings +=
        runtime::format("{} takes {:.1f} % longer than {}, and {} % are allowed\n", wishes.after,
                        100 * comparison.total_change, wishes.before, wishes.most);
  }
  return shown;
}

Result<Shown> show_session(const SessionWishes& wishes) {
  std::optional<tools::ProgressBar> bar("reading " + wishes.session);
  NEURON_TRY(profile, Profile::open(wishes.session, watcher_of(*bar)));
  bar.reset();  // what is printed now may share its terminal
  profile.watch({});
  // Whether all of it was written, the caller asks standard output.
  const Write write = [](std::string_view text) {
    (void)std::fwrite(text.data(), 1, text.size(), stdout);
  };
  wishes.json ? write_session_json(profile, write) : write_session_text(profile, write);
  return Shown{.text = {}, .warnings = warnings(profile)};
}

}  // namespace neuron::profile
