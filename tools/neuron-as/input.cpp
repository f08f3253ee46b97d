// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-as/input.h"

#include <unistd.h>

#include <cerrno>

namespace neuron::tools {
namespace {

constexpr size_t kPiece = 1 << 16;
constexpr size_t kMost = size_t{4} << 30;

}  // namespace

runtime::Result<std::vector<uint8_t>> read_input(const std::string& path) {
  if (path != "-") return read_file(path);
  std::vector<uint8_t> contents;
  for (;;) {  // bounded: the input ends, or kMost
    const size_t size = contents.size();
    contents.resize(size + kPiece);
    const ssize_t got = read(STDIN_FILENO, contents.data() + size, kPiece);
    if (got < 0 && errno == EINTR) {
      contents.resize(size);
      continue;
    }
    if (got < 0) return runtime::fail_with_errno(NRT_INVALID, errno, "cannot read standard input");
    contents.resize(size + static_cast<size_t>(got));
    if (got == 0) return contents;
    if (contents.size() > kMost) {
      return runtime::fail(NRT_INVALID, "standard input has more than {} bytes", kMost);
    }
  }
}

}  // namespace neuron::tools
