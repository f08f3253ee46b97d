// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/neff_unpack.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "driver/base/file_descriptor.h"

namespace neuron::tools {

using runtime::fail;
using runtime::fail_with_errno;
using runtime::Result;

namespace {

// Opens the directory that holds `path` below `root`. With `create`, makes missing directories;
// without, a missing directory gives an empty descriptor.
Result<base::FileDescriptor> open_parent(int root, const std::string& path, bool create) {
  base::FileDescriptor at(fcntl(root, F_DUPFD_CLOEXEC, 0));
  if (!at) return fail_with_errno(NRT_INVALID, errno, "cannot duplicate a directory");
  size_t begin = 0;
  for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', begin)) {
    const std::string part = path.substr(begin, slash - begin);
    begin = slash + 1;
    if (create && mkdirat(at.get(), part.c_str(), 0755) != 0 && errno != EEXIST) {
      return fail_with_errno(NRT_INVALID, errno, "cannot create the directory of {}", path);
    }
    base::FileDescriptor next(
        openat(at.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next) {
      if (errno == ENOENT && !create) return base::FileDescriptor();
      return fail_with_errno(NRT_INVALID, errno, "\"{}\" in the way of {} is no directory", part,
                             path);
    }
    at = std::move(next);
  }
  return at;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Result<void> check_absent(int root, const std::string& path, const std::string& directory) {
  NEURON_TRY(parent, open_parent(root, path, false));
  struct stat status {};
  if (parent && fstatat(parent.get(), last_part(path).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    return fail(NRT_INVALID,
                "{}/{} exists; remove it, unpack elsewhere with -C, or replace with -f", directory,
                path);
  }
  return {};
}

Result<void> write_member(int root, const neff::Member& member, const UnpackOptions& options) {
  NEURON_TRY(parent, open_parent(root, member.name, true));
  const std::string name = last_part(member.name);
  if (options.force && unlinkat(parent.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
    return fail_with_errno(NRT_INVALID, errno, "cannot replace {}/{}", options.directory,
                           member.name);
  }
  // O_EXCL also refuses a symbolic link that somebody puts there meanwhile.
  base::FileDescriptor file(openat(parent.get(), name.c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file) {
    return fail_with_errno(NRT_INVALID, errno, "cannot create {}/{}", options.directory,
                           member.name);
  }
  neff::Bytes rest = member.bytes;
  while (!rest.empty()) {
    const ssize_t put = write(file.get(), rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const int reason = errno;
      // Half a member is worse than none: it looks like the real one.
      unlinkat(parent.get(), name.c_str(), 0);
      return fail_with_errno(NRT_INVALID, reason,
                             "cannot write {}/{}, which was removed; the members before it stay in "
                             "{}",
                             options.directory, member.name, options.directory);
    }
    rest = rest.subspan(static_cast<size_t>(put));
  }
  return {};
}

}  // namespace

Result<void> unpack_neff(const neff::Container& container, const UnpackOptions& options) {
  const std::string& directory = options.directory;
  if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return fail_with_errno(NRT_INVALID, errno, "cannot create the directory {}", directory);
  }
  const base::FileDescriptor root(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return fail_with_errno(NRT_INVALID, errno, "cannot open the directory {}", directory);
  if (!options.force) {
    for (const neff::Member& member : container.members()) {
      NEURON_CHECK(check_absent(root.get(), member.name, directory));
    }
  }
  for (const std::string& name : container.directories()) {
    NEURON_TRY(made, open_parent(root.get(), name + "/", true));
  }
  for (const neff::Member& member : container.members()) {
    NEURON_CHECK(write_member(root.get(), member, options));
  }
  return {};
}

}  // namespace neuron::tools
