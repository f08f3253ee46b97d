// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/sink/sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace neuron::profile {
namespace {

using runtime::fail;
using runtime::fail_with_errno;
using runtime::Result;

// What a name leads to, behind all symbolic links; the name itself if nothing is there.
std::string behind_links(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real != nullptr ? std::string(real.get()) : path;
}

// Whether something is there that can only be written to as it is: a device, a FIFO, or a link that
// leads nowhere yet.
bool is_written_directly(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return !S_ISREG(status.st_mode);
  return ::lstat(path.c_str(), &status) == 0;
}

constexpr mode_t kAnybody = 0666;  // less the umask

// A file without a name in the folder of `target`, which ends with its process; negative: there is
// none, because the file system has no such files or their names could not be given.
int open_nameless(const std::string& target) {
  if (::access("/proc/self/fd", X_OK) != 0) return -1;
  const std::string folder = std::filesystem::absolute(target).parent_path().string();
  return ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, kAnybody);
}

}  // namespace

Result<Sink> Sink::open(const std::string& path) {
  if (path == "-") return Sink(stdout, path);
  const auto failure = [&](int reason) {
    return fail_with_errno(NRT_INVALID, reason, "cannot write '{}'", path);
  };
  if (is_written_directly(path)) {
    std::FILE* file = std::fopen(path.c_str(), "we");
    if (file == nullptr) return failure(errno);
    return Sink(file, path);
  }
  const std::string target = behind_links(path);
  struct stat old {};
  const bool exists = ::stat(target.c_str(), &old) == 0;
  // Who may not write a file may not replace it either.
  if (exists && ::access(target.c_str(), W_OK) != 0) return failure(errno);
  std::string temporary = target + ".part" + std::to_string(::getpid());
  // One of this process's number can only be what another one that was killed has left.
  ::unlink(temporary.c_str());
  int descriptor = open_nameless(target);
  const bool nameless = descriptor >= 0;
  if (!nameless) {
    descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kAnybody);
  }
  if (descriptor < 0) return failure(errno);
  // A file system without permissions has none to keep.
  if (exists) (void)::fchmod(descriptor, old.st_mode & 07777);
  std::FILE* file = ::fdopen(descriptor, "w");
  if (file == nullptr) {
    const int reason = errno;
    ::close(descriptor);
    if (!nameless) ::unlink(temporary.c_str());
    return failure(reason);
  }
  Sink sink(file, path);
  sink.target_ = target;
  sink.temporary_ = temporary;
  sink.nameless_ = nameless;
  return sink;
}

Sink::~Sink() {
  if (!temporary_.empty() && !nameless_) ::unlink(temporary_.c_str());
}

int Sink::give_name() {
  if (!nameless_) return 0;
  const std::string file = "/proc/self/fd/" + std::to_string(::fileno(file_.get()));
  if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return errno;
  }
  nameless_ = false;
  return 0;
}

Result<void> Sink::close() {
  if (failed_ == 0 && std::fflush(file_.get()) != 0) failed_ = errno;
  if (failed_ == 0 && !temporary_.empty()) failed_ = give_name();
  if (failed_ == 0 && !temporary_.empty()) {
    if (std::fclose(file_.release()) != 0) {
      failed_ = errno;
    } else if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
      failed_ = errno;
    } else {
      temporary_.clear();
    }
  }
  if (failed_ == 0) return {};
  return fail_with_errno(NRT_RESOURCE, failed_, "'{}' could not be written", path_);
}

Result<void> refuse_inputs(const std::string& output, const std::vector<std::string>& inputs) {
  struct stat of_output {};
  const bool there = output == "-" ? ::fstat(STDOUT_FILENO, &of_output) == 0
                                   : ::stat(output.c_str(), &of_output) == 0;
  if (!there || (!S_ISREG(of_output.st_mode) && !S_ISDIR(of_output.st_mode))) return {};
  for (const std::string& input : inputs) {
    struct stat of_input {};
    if (input.empty() || ::stat(input.c_str(), &of_input) != 0) continue;
    if (of_input.st_dev != of_output.st_dev || of_input.st_ino != of_output.st_ino) continue;
    return fail(NRT_INVALID,
                "the output '{}' is the same {} as the input '{}', which writing it would destroy; "
                "name another",
                output == "-" ? "standard output" : output,
                S_ISDIR(of_output.st_mode) ? "folder" : "file", input);
  }
  return {};
}

}  // namespace neuron::profile
