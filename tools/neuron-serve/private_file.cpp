// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "driver/base/file_descriptor.h"
#include "driver/base/format.h"

namespace neuron::serve {
namespace {

constexpr size_t kMost = 1 << 20;

}  // namespace

std::string distrust(const std::string& path, const struct stat& status, uid_t user) {
  if (!S_ISREG(status.st_mode)) return path + " is no regular file";
  if (status.st_uid != 0 && status.st_uid != user) {
    return base::format(
        "{} belongs to user {}; a file with secrets must belong to root or to "
        "user {}, as whom this server runs",
        path, status.st_uid, user);
  }
  const mode_t allowed = status.st_uid == 0 ? 0740 : 0700;
  if ((status.st_mode & 0777 & ~allowed) == 0) return "";
  return base::format(
      "{} has mode {:04o}: others could read or change the secrets in it; "
      "chmod 0600 it, or 0640 if it is root's",
      path, status.st_mode & 0777);
}

std::optional<std::string> read_private_file(const std::string& path, std::string& error) {
  // A FIFO without a writer must not hold the start up.
  const base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!file || ::fstat(file.get(), &status) != 0) {
    error = path + ": " + std::strerror(errno);
    return std::nullopt;
  }
  if (error = distrust(path, status, ::geteuid()); !error.empty()) return std::nullopt;
  std::string text;
  char piece[4096];
  ssize_t length = 0;
  while (text.size() <= kMost && (length = ::read(file.get(), piece, sizeof(piece))) > 0) {
    text.append(piece, static_cast<size_t>(length));
  }
  if (length < 0 || text.size() > kMost) {
    error = path + ": " + (length < 0 ? std::strerror(errno) : "has more than a megabyte");
    return std::nullopt;
  }
  return text;
}

}  // namespace neuron::serve
