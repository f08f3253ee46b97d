// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-dump/report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "driver/base/file_descriptor.h"
#include "tools/common/child_process.h"
#include "tools/common/progress_bar.h"
#include "tools/common/time_text.h"
#include "tools/common/version.h"

namespace neuron::dump {

using runtime::escaped;
using runtime::format;
using runtime::Result;

namespace {

constexpr size_t kMostBytes = 4 << 20;            // of one part
constexpr std::chrono::seconds kMostSeconds{10};  // for one program

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The last kMostBytes; `why` if there is nothing to read. Attributes of the kernel claim no size,
// so the file is read to its end.
bool read_end(const std::string& path, std::string& text, std::string& why) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!file || ::fstat(file.get(), &status) != 0) {
    why = std::strerror(errno);
    return false;
  }
  if (!S_ISREG(status.st_mode)) {
    why = "it is no regular file";
    return false;
  }
  if (status.st_size > static_cast<off_t>(kMostBytes)) {
    ::lseek(file.get(), -static_cast<off_t>(kMostBytes), SEEK_END);
  }
  char buffer[65536];
  while (text.size() < kMostBytes) {
    const ssize_t got = ::read(file.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      why = std::strerror(errno);
      return false;
    }
    if (got == 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return true;
}

bool looks_secret(const std::string& name) {
  constexpr const char* kWords[] = {"token", "secret", "password", "credential", "_key"};
  const std::string small = lower(name);
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](const char* word) { return small.find(word) != std::string::npos; });
}

std::string versions() {
  utsname system = {};
  ::uname(&system);
  std::string text = format("neuron-dump {}\n{} {} {} {}\n", tools::version(), system.sysname,
                            system.release, system.version, system.machine);
  for (const char* path : {"/sys/module/neuron/version", "/etc/os-release"}) {
    std::string found, why;
    if (read_end(path, found, why)) text += format("{}:\n{}\n", path, found);
  }
  return text;
}

}  // namespace

void Report::note(const std::string& name, const std::string& value) {
  if (!value.empty()) notes_.push_back(name + ": " + escaped(value));
}

void Report::add_text(const std::string& name, const std::string& text) {
  members_[folder_ + "/" + name] = tools::bytes_of(text);
}

void Report::add_file(const std::string& name, const std::string& path) {
  std::string text, why;
  if (read_end(path, text, why)) {
    add_text(name, text);
  } else {
    missing_.push_back(format("{}: '{}': {}", name, escaped(path), why));
  }
}

void Report::add_output(const std::string& name, const std::vector<std::string>& command,
                        const std::string& word) {
  std::string text;
  bool cut = false;
  const tools::Limits limits{.step = kMostSeconds,
                             .end = std::min(deadline_.when(), tools::Limits().end)};
  const tools::Ending ending = tools::run_command(
      command, {{"LC_ALL", "C"}, {"NEURON_RT_LOG_LEVEL", "QUIET"}}, limits,
      [&](std::string_view line) {
        if (!word.empty() && lower(std::string(line)).find(word) == std::string::npos) return;
        cut = cut || text.size() + line.size() > kMostBytes;
        if (!cut) text.append(line) += '\n';
      });
  if (!text.empty()) add_text(name, text);
  if (cut) missing_.push_back(format("{}: what is beyond {} bytes", name, kMostBytes));
  if (ending.good()) {
    if (text.empty()) add_text(name, "");
    return;
  }
  std::string errors = ending.errors.substr(0, ending.errors.find('\n'));
  missing_.push_back(format("{}: {} {}{}{}", name, command[0].substr(command[0].rfind('/') + 1),
                            ending.sentence(), errors.empty() ? "" : ": ", escaped(errors)));
}

void Report::add_environment() {
  constexpr std::string_view kNames[] = {"NEURON", "CCOM_", "FI_", "NCCL_", "OMPI_COMM_", "SLURM_"};
  constexpr std::string_view kWhole[] = {"PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"};
  std::vector<std::string> lines;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool wanted =
        std::any_of(std::begin(kNames), std::end(kNames),
                    [&](std::string_view head) { return name.starts_with(head); }) ||
        std::find(std::begin(kWhole), std::end(kWhole), name) != std::end(kWhole);
    if (!wanted) continue;
    lines.push_back(looks_secret(name) ? name + "=(left out)" : escaped(text));
  }
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  add_text("host/environment.txt", all);
}

void Report::add_host() {
  const std::string ls = tools::program_beside("neuron-ls");
  const std::string doctor = tools::program_beside("neuron-doctor");
  struct Asked {
    const char* name;
    std::vector<std::string> command;
    const char* word;
  };
  const std::vector<Asked> asked = {
      {"host/neuron-ls.json", {ls, "-j"}, ""},
      {"host/neuron-doctor.txt", {doctor, "--color", "never"}, ""},
      {"host/neuron-doctor.json", {doctor, "--format", "json"}, ""},
      {"host/dmesg.txt", {"dmesg"}, "neuron"},
      {"host/lscpu.txt", {"lscpu"}, ""},
      {"host/lspci.txt", {"lspci", "-nn"}, "1d0f"},  // Amazon's number
      {"host/uptime.txt", {"uptime"}, ""},
  };
  tools::ProgressBar bar("asking this host", "programs");
  for (size_t n = 0; n < asked.size(); ++n) {
    bar.show(n, asked.size());
    add_output(asked[n].name, asked[n].command, asked[n].word);
  }
  for (const char* name : {"cmdline", "cpuinfo", "filesystems", "interrupts", "iomem", "loadavg",
                           "meminfo", "modules", "mtrr", "version"}) {
    add_file(std::string("host/proc/") + name, std::string("/proc/") + name);
  }
  add_text("host/versions.txt", versions());
  add_environment();
}

Result<std::vector<uint8_t>> Report::build() const {
  std::string text = format("report of neuron-dump {}\ntime: {}\n", tools::version(),
                            tools::utc_text(std::chrono::system_clock::now()));
  for (const std::string& note : notes_) text += note + "\n";
  text += "\nfiles:\n";
  for (const auto& [name, bytes] : members_) {
    text += format("  {} ({} bytes)\n", name.substr(folder_.size() + 1), bytes.size());
  }
  if (!missing_.empty()) text += "\nnot to be had:\n";
  for (const std::string& sentence : missing_) text += "  " + sentence + "\n";
  tools::NeffMembers all = members_;
  all[folder_ + "/report.txt"] = tools::bytes_of(text);
  NEURON_TRY(archive, tools::write_tar(all));
  return tools::gzip(archive);
}

}  // namespace neuron::dump
