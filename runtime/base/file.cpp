// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

#include "driver/base/file_descriptor.h"

namespace neuron::tools {

using runtime::fail;
using runtime::fail_with_errno;
using runtime::Result;

namespace {

// Holes are no reason to refuse a small file.
constexpr uint64_t kMayBeHoles = uint64_t{1} << 30;
constexpr uint64_t kBlockBytes = 512;    // of st_blocks
constexpr uint64_t kMostShrinking = 64;  // of a file system that compresses

Result<void> check_size(const std::string& path, const struct stat& status, uint64_t most) {
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size > most) {
    return fail(NRT_INVALID, "{} has {} bytes, and at most {} are read; is it the right file?",
                path, size, most);
  }
  const uint64_t stored = static_cast<uint64_t>(status.st_blocks) * kBlockBytes;
  if (size <= kMayBeHoles || stored >= size / kMostShrinking) return {};
  return fail(
      NRT_INVALID,
      "{} has {} bytes, of which {} are stored and the others are holes; copy it again from "
      "where it was made",
      path, size, stored);
}

}  // namespace

Result<std::vector<uint8_t>> read_file(const std::string& path, uint64_t most) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const base::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return fail_with_errno(NRT_INVALID, errno, "cannot open {}", path);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) {
    return fail_with_errno(NRT_INVALID, errno, "cannot stat {}", path);
  }
  if (!S_ISREG(status.st_mode)) return fail(NRT_INVALID, "{} is not a regular file", path);
  NEURON_CHECK(check_size(path, status, most));
  std::vector<uint8_t> contents(static_cast<size_t>(status.st_size) + 1);
  size_t size = 0;
  for (;;) {  // bounded: the regular file ends
    if (size == contents.size()) contents.resize(contents.size() * 2);
    const ssize_t got = read(file.get(), contents.data() + size, contents.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_with_errno(NRT_INVALID, errno, "cannot read {}", path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
    if (size > most) {
      return fail(NRT_INVALID, "{} grows while it is read: it has more than {} bytes by now", path,
                  most);
    }
  }
  contents.resize(size);
  return contents;
}

namespace {

// 0, or the errno of the write that failed.
int write_all(int file, std::span<const uint8_t> contents) {
  while (!contents.empty()) {
    const ssize_t put = write(file, contents.data(), contents.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    contents = contents.subspan(static_cast<size_t>(put));
  }
  return 0;
}

// Writes into a device or FIFO itself: its other users would lose it if a file replaced it.
Result<void> write_into(const std::string& path, std::span<const uint8_t> contents) {
  // Without O_NONBLOCK, opening a FIFO would wait for a reader.
  const base::FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return fail_with_errno(NRT_INVALID, errno, "cannot open {}", path);
  fcntl(file.get(), F_SETFL, 0);
  if (const int reason = write_all(file.get(), contents); reason != 0) {
    return fail_with_errno(NRT_INVALID, reason, "cannot write {}", path);
  }
  return {};
}

}  // namespace

Result<void> write_file(const std::string& path, std::span<const uint8_t> contents) {
  struct stat status {};
  std::string target = path;
  if (stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) {
      return fail(NRT_INVALID, "{} is a directory; expected the name of a file", path);
    }
    if (!S_ISREG(status.st_mode)) return write_into(path, contents);
    // A symbolic link stays: the file that it points to is replaced.
    if (const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                               &std::free);
        real != nullptr) {
      target = real.get();
    }
  }
  const std::string temporary = target + ".part" + std::to_string(getpid());
  auto give_up = [&](int reason, const char* what) {
    unlink(temporary.c_str());
    return fail_with_errno(NRT_INVALID, reason, "cannot {} {}", what, path);
  };
  {
    const base::FileDescriptor file(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    // The caller knows the file by its own name.
    if (file.get() < 0) return fail_with_errno(NRT_INVALID, errno, "cannot create {}", path);
    if (const int reason = write_all(file.get(), contents); reason != 0) {
      return give_up(reason, "write");
    }
  }
  if (rename(temporary.c_str(), target.c_str()) != 0) return give_up(errno, "replace");
  return {};
}

}  // namespace neuron::tools
