// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/model_compiler.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "driver/base/format.h"
#include "tools/common/child_process.h"
#include "tools/neuron-serve/model_sources.h"

namespace neuron::serve {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;
constexpr size_t kMostSentences = 5, kLongestSentence = 500, kMostSaid = 64 << 10;
constexpr auto kProgress = 10s;
constexpr const char* kGivenUp = "compiling was given up: this server ends, or its device was lost";

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

void add(base::Sha256& hash, const std::string& text) {
  const uint64_t size = text.size();
  hash.update({reinterpret_cast<const uint8_t*>(&size), sizeof size});
  hash.update({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
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

// Holds the beginning of what the compiler says: a model can make it say much. It is in memory, as
// the compiler may fail because the disk is full.
base::FileDescriptor make_log() {
  base::FileDescriptor file(::memfd_create("neuron-compile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // What is written beyond this size fails.
  if (file && ::ftruncate(file.get(), kMostSaid) == 0) {
    ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK);
  }
  return file;
}

std::string text_of(const base::FileDescriptor& log) {
  std::string text(kMostSaid, '\0');
  const ssize_t got = log ? ::pread(log.get(), text.data(), text.size(), 0) : 0;
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

// A name that no other server has, also where all of them are process 1 of a container.
std::string unique_suffix() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) number = 0;
  return base::format("{}-{:016x}", ::getpid(), number);
}

// What was written is on the disk before it gets its name: after a power failure an empty file
// would be taken for a result for ever.
bool put_in_place(const std::string& part, const std::string& neff, std::string& error) {
  const base::FileDescriptor file(::open(part.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0 || ::rename(part.c_str(), neff.c_str()) != 0) {
    error = "keeping " + neff + ": " + std::strerror(errno);
    return false;
  }
  return true;
}

// Whether a result is there. One that somebody else may have written is none.
bool is_kept(const std::string& neff) {
  struct stat status = {};
  return ::lstat(neff.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & 022) == 0 && status.st_size != 0;
}

// What the compiler said, as one sentence of bearable length.
std::string complaint(const std::string& text) {
  std::string said;
  size_t lines = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (++lines <= kMostSentences && end > at) {
      said += said.empty() ? "" : "; ";
      said += text.substr(at, std::min(end - at, kLongestSentence));
      if (end - at > kLongestSentence) said += "...";
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
std::string ModelCompiler::run(const std::string& what, const std::vector<std::string>& command) {
  const base::FileDescriptor log = make_log();
  using Stream = tools::ChildProcess::Stream;
  tools::ChildProcess child({.command = command,
                             .output = Stream::kNothing,
                             .errors = Stream::kLog,
                             .log = log.get(),
                             .signal_at_our_death = SIGKILL,
                             .first_without_memory = true});
  const auto begin = SteadyClock::now();
  auto next = begin + kProgress;
  while (!child.ended_by(base::Deadline::after(100ms))) {  // bounded: by the limit
    const auto now = SteadyClock::now();
    if (stopped_()) return kGivenUp;
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
  const std::string said = complaint(text_of(log));
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
  base::Sha256::Digest sources = {};
  if (!hash_sources(compiler, model, stopped_, sources, error)) return false;
  const std::string target = target_of(instance_type);
  auto sizes = settings.batch_sizes;
  if (sizes.empty()) sizes.push_back(1);
  for (const uint32_t size : sizes) {
    std::vector<std::string> words = settings.compile_arguments(size);
    words.insert(words.end(), {"--target", target, "--lnc", physical_cores(target)});
    base::Sha256 hash;
    hash.update(sources);
    for (const std::string& word : words) add(hash, word);
    const std::string neff = folder_ + "/" + hexadecimal(hash.finish()) + ".neff";
    if (is_kept(neff)) {
      told_(base::format("model {}: {} was compiled before", key, model));
      neffs.push_back(neff);
      continue;
    }
    const std::string what =
        base::format("model {}: compiling {} for {}, batch {}", key, model, target, size);
    told_(what);
    const std::string part = base::format("{}.{}.part", neff, unique_suffix());
    std::vector<std::string> command = {compiler, model, "--framework", "ONNX", "-o", part};
    command.insert(command.end(), words.begin(), words.end());
    const auto begin = SteadyClock::now();
    error = run(what, command);
    // What was compiled is what was hashed, or it would be kept under another's name.
    base::Sha256::Digest now = {};
    if (error.empty() && hash_sources(compiler, model, stopped_, now, error) && now != sources) {
      error = model + " was replaced while it was being compiled; read the folder again";
    }
    const bool kept = error.empty() && put_in_place(part, neff, error);
    remove_all_of(part);
    if (!kept) return false;
    told_(base::format("model {}: compiled in {:.1f} s", key,
                       std::chrono::duration<double>(SteadyClock::now() - begin).count()));
    neffs.push_back(neff);
  }
  return true;
}

}  // namespace neuron::serve
