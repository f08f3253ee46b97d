// SPDX-License-Identifier: Apache-2.0
// A file into HBM, against read() into memory that was touched before; the file is in the host's
// cache.
#include <fcntl.h>
#include <nrt/nrt_open.h>
#include <unistd.h>

#include <memory>

#include "tests/bench/ratio.h"
#include "tests/bench/session.h"
#include "tests/support/files.h"

namespace neuron::bench {
namespace {

constexpr size_t kBytes = size_t{256} << 20;

struct Buffers {
  test::Folder folder;
  std::string path = folder.path("file");
  std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes, 1);
  nrt_tensor_t* tensor = nullptr;
  ~Buffers() { nrt_tensor_free(&tensor); }
};

}  // namespace

Ratio file_to_hbm() {
  Ratio ratio{.name = "file-to-hbm", .peer_name = "read()", .unit = "GB/s", .goal = 0.9};
  auto buffers = std::make_shared<Buffers>();
  ratio.error = initialise();
  if (!ratio.error.empty()) return ratio;
  test::write_file(buffers->path, buffers->memory);
  if (nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, kBytes, "t", &buffers->tensor) !=
      NRT_SUCCESS) {
    ratio.error = nrt_open_last_error();
  }
  ratio.ours = [buffers] {
    const double start = now_seconds();
    if (nrt_open_tensor_read_file(buffers->tensor, 0, buffers->path.c_str(), 0, kBytes) !=
        NRT_SUCCESS) {
      return -1.0;
    }
    return static_cast<double>(kBytes) / (now_seconds() - start) * 1e-9;
  };
  ratio.peer = [buffers] {
    const double start = now_seconds();
    const int file = ::open(buffers->path.c_str(), O_RDONLY | O_CLOEXEC);
    size_t done = 0;
    for (ssize_t got = 1; got > 0 && done < kBytes; done += static_cast<size_t>(got)) {
      got = ::read(file, buffers->memory.data() + done, kBytes - done);
    }
    ::close(file);
    if (done != kBytes) return -1.0;
    return static_cast<double>(kBytes) / (now_seconds() - start) * 1e-9;
  };
  return ratio;
}

}  // namespace neuron::bench
