// SPDX-License-Identifier: Apache-2.0
#include "tools/common/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "tools/common/descriptor.h"

namespace neuron::tools {

using runtime::fail;
using runtime::fail_with_errno;
using runtime::Result;

Result<std::vector<std::uint8_t>> read_file(const std::string& path) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return fail_with_errno(NRT_INVALID, errno, "cannot open {}", path);
  struct stat status {};
  if (fstat(file.get(), &status) != 0)
    return fail_with_errno(NRT_INVALID, errno, "cannot stat {}", path);
  if (!S_ISREG(status.st_mode)) return fail(NRT_INVALID, "{} is not a regular file", path);
  std::vector<std::uint8_t> contents(static_cast<std::size_t>(status.st_size) + 1);
  std::size_t size = 0;
  for (;;) {  // bounded: the regular file ends
    if (size == contents.size()) contents.resize(contents.size() * 2);
    const ssize_t got = read(file.get(), contents.data() + size, contents.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_with_errno(NRT_INVALID, errno, "cannot read {}", path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  contents.resize(size);
  return contents;
}

Result<void> write_file(const std::string& path, neff::Bytes contents) {
  const std::string temporary = path + ".part" + std::to_string(getpid());
  auto give_up = [&](int reason, const char* what) {
    unlink(temporary.c_str());
    return fail_with_errno(NRT_INVALID, reason, "cannot {} {}", what, path);
  };
  {
    const Descriptor file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (file.get() < 0) return fail_with_errno(NRT_INVALID, errno, "cannot create {}", temporary);
    while (!contents.empty()) {
      const ssize_t put = write(file.get(), contents.data(), contents.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return give_up(errno, "write");
      contents = contents.subspan(static_cast<std::size_t>(put));
    }
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) return give_up(errno, "replace");
  return {};
}

}  // namespace neuron::tools
