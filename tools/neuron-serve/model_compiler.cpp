// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/model_compiler.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "driver/base/format.h"
#include "driver/base/sha256.h"
#include "runtime/base/file.h"
#include "tools/common/child_process.h"

namespace neuron::serve {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;
constexpr size_t kMostSentences = 5;
constexpr auto kProgress = 10s;

std::string cache_folder(const std::string& given) {
  if (!given.empty()) return given;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  // What a service manager gives is this server's alone.
  if (const std::string folder = variable("CACHE_DIRECTORY"); !folder.empty()) return folder;
  if (const std::string folder = variable("XDG_CACHE_HOME"); !folder.empty()) {
    return folder + "/neuron-serve";
  }
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/neuron-serve";
}

// Their variants, such as trn3pd98, have one compiler target.
bool has_cores_of_two(const std::string& family) {
  return family.starts_with("trn2") || family.starts_with("trn3");
}

// "trn1" of "trn1.2xlarge".
std::string target_of(const std::string& instance_type) {
  const std::string family = instance_type.substr(0, instance_type.find('.'));
  return has_cores_of_two(family) ? family.substr(0, 4) : family;
}

// Cores of trn2 and trn3 are two physical ones, unless the runtime was told otherwise.
std::string physical_cores(const std::string& target) {
  const char* value = std::getenv("NEURON_LOGICAL_NC_CONFIG");
  if (value != nullptr && *value != '\0') return value;
  return has_cores_of_two(target) ? "2" : "1";
}

void add(base::Sha256& hash, std::span<const uint8_t> bytes) {
  const uint64_t size = bytes.size();
  hash.update({reinterpret_cast<const uint8_t*>(&size), sizeof size});
  hash.update(bytes);
}

void add(base::Sha256& hash, const std::string& text) {
  add(hash, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

// A compiler that was ended may have been writing; its own scratch files begin with the name, too.
void remove_all_of(const std::string& part) {
  const fs::path path(part);
  std::error_code code;
  for (fs::directory_iterator at(path.parent_path(), code); !code && at != fs::directory_iterator();
       at.increment(code)) {
    const std::string name = at->path().filename();
    std::error_code ignored;
    if (name.starts_with(path.filename().string())) fs::remove(at->path(), ignored);
  }
}

std::string hexadecimal(const base::Sha256::Digest& digest) {
  std::string text;
  for (const uint8_t byte : digest) text += base::format("{:02x}", byte);
  return text;
}

// What the compiler said, as one sentence of bearable length.
std::string complaint(const std::string& log) {
  const auto bytes = tools::read_file(log);
  if (!bytes) return "";
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  std::string said;
  size_t lines = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (++lines <= kMostSentences && end > at) {
      said += said.empty() ? "" : "; ";
      said += text.substr(at, end - at);
    }
    at = end + 1;
  }
  if (text.find("--constant") != text.npos) {
    said += "; values of inputs: {\"constants\": {\"rate\": 16000}}";
  }
  if (lines > kMostSentences) {
    said += base::format("; and {} more, which neuron-compile prints", lines - kMostSentences);
  }
  if (text.find("--shape") != text.npos || text.find("--dim") != text.npos) {
    said +=
        "; the file beside the model says shapes: {\"shapes\": {\"x\": [null, 3, 224, 224]}}, "
        "where null is the batch size";
  }
  return said;
}

}  // namespace

std::vector<std::string> files_of_model(const std::vector<uint8_t>& model) {
  // An entry of a tensor's external data: key (field 1) "location", value (field 2) the name.
  constexpr std::string_view kEntry = "\x0a\x08location\x12";
  const std::string_view text(reinterpret_cast<const char*>(model.data()), model.size());
  std::vector<std::string> names;
  for (size_t at = text.find(kEntry); at != text.npos; at = text.find(kEntry, at + 1)) {
    size_t length = 0, from = at + kEntry.size();
    for (int shift = 0; from < text.size() && shift < 28; shift += 7) {
      const auto byte = static_cast<uint8_t>(text[from++]);
      length |= static_cast<size_t>(byte & 127) << shift;
      if (byte < 128) break;
    }
    if (length > text.size() - from) continue;
    const std::string name(text.substr(from, length));
    const fs::path path(name);
    const bool leaves =
        path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
    if (!leaves && std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

ModelCompiler::ModelCompiler(const std::string& folder, std::chrono::microseconds limit,
                             std::function<bool()> stopped,
                             std::function<void(const std::string&)> told)
    : folder_(cache_folder(folder)),
      limit_(limit),
      stopped_(std::move(stopped)),
      told_(std::move(told)) {}

bool ModelCompiler::prepare(std::string& error) {
  if (folder_.empty()) {
    error = "there is no folder to keep compiled models in, because HOME is not set; give --cache";
    return false;
  }
  std::error_code code;
  const bool made = fs::create_directories(folder_, code);
  // What runs on the device comes from here, so nobody else may write it.
  if (made) fs::permissions(folder_, fs::perms::owner_all, code);
  struct stat status = {};
  if (!code && ::stat(folder_.c_str(), &status) == 0 &&
      (status.st_uid != ::geteuid() || (status.st_mode & 022) != 0)) {
    error = "the folder of compiled models, " + folder_ +
            ", can be written by others, whose programs would run on the device; make it this "
            "user's alone (chmod 700), or give another with --cache";
    return false;
  }
  if (code || ::access(folder_.c_str(), W_OK | X_OK) != 0) {
    error = "the folder of compiled models, " + folder_ +
            ", cannot be written: " + (code ? code.message() : "permission denied") +
            "; give another with --cache";
    return false;
  }
  return true;
}

// "": it succeeded.
std::string ModelCompiler::run(const std::string& what, const std::vector<std::string>& command,
                               const std::string& log) {
  const base::FileDescriptor file(
      ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  using Stream = tools::ChildProcess::Stream;
  tools::ChildProcess child({.command = command,
                             .output = Stream::kNothing,
                             .errors = Stream::kLog,
                             .log = file.get(),
                             .signal_at_our_death = SIGKILL});
  const auto begin = SteadyClock::now();
  auto next = begin + kProgress;
  while (!child.ended_by(base::Deadline::after(100ms))) {  // bounded: by the limit
    const auto now = SteadyClock::now();
    if (stopped_()) return "this server ends";
    if (now - begin > limit_) {
      return base::format(
          "neuron-compile had not ended after {} s, which is the longest that --compile-timeout "
          "allows",
          std::chrono::duration_cast<std::chrono::seconds>(limit_).count());
    }
    if (now < next) continue;
    told_(base::format("{}, {} s so far", what,
                       std::chrono::duration_cast<std::chrono::seconds>(now - begin).count()));
    next += kProgress;
  }
  const tools::Ending& ending = child.ending();
  if (ending.good()) return "";
  if (ending.how == tools::Ending::How::kNotStarted) {
    return command[0] + " " + ending.sentence() + "; it belongs beside neuron-serve";
  }
  const std::string said = complaint(log);
  return said.empty() || ending.how != tools::Ending::How::kExited
             ? "neuron-compile " + ending.sentence() + (said.empty() ? "" : ": " + said)
             : said;
}

bool ModelCompiler::compile(const std::string& key, const std::string& model,
                            const ModelSettings& settings, const std::string& instance_type,
                            std::vector<std::string>& neffs, std::string& error) {
  neffs.clear();
  if (!prepare(error)) return false;
  const std::string compiler = tools::program_beside("neuron-compile");
  base::Sha256 sources;
  for (const std::string& file : {compiler, model}) {
    const auto bytes = tools::read_file(file);
    if (!bytes) {
      error = bytes.error().sentence;
      return false;
    }
    add(sources, *bytes);
    if (file != model) continue;
    // A file that is missing is the compiler's to complain of.
    for (const std::string& name : files_of_model(*bytes)) {
      add(sources, name);
      const auto more = tools::read_file(fs::path(model).parent_path() / name);
      if (more) add(sources, *more);
    }
  }
  const std::string target = target_of(instance_type);
  auto sizes = settings.batch_sizes;
  if (sizes.empty()) sizes.push_back(1);
  for (const uint32_t size : sizes) {
    std::vector<std::string> words = settings.compile_arguments(size);
    words.insert(words.end(), {"--target", target, "--lnc", physical_cores(target)});
    base::Sha256 hash = sources;
    for (const std::string& word : words) add(hash, word);
    const std::string neff = folder_ + "/" + hexadecimal(hash.finish()) + ".neff";
    if (::access(neff.c_str(), R_OK) == 0) {
      told_(base::format("model {}: {} was compiled before", key, model));
      neffs.push_back(neff);
      continue;
    }
    const std::string what =
        base::format("model {}: compiling {} for {}, batch {}", key, model, target, size);
    told_(what);
    const std::string part = base::format("{}.{}.part", neff, ::getpid()), log = part + ".log";
    std::vector<std::string> command = {compiler, model, "--framework", "ONNX", "-o", part};
    command.insert(command.end(), words.begin(), words.end());
    const auto begin = SteadyClock::now();
    error = run(what, command, log);
    std::error_code code;
    if (error.empty()) {
      fs::rename(part, neff, code);
      if (code) error = "renaming " + part + ": " + code.message();
    }
    remove_all_of(part);
    if (!error.empty()) return false;
    told_(base::format("model {}: compiled in {:.1f} s", key,
                       std::chrono::duration<double>(SteadyClock::now() - begin).count()));
    neffs.push_back(neff);
  }
  return true;
}

}  // namespace neuron::serve
