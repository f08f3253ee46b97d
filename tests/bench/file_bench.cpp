// SPDX-License-Identifier: Apache-2.0
// A file of 1 GiB into HBM. When the file is in the host's cache: against read() into memory that
// was touched before. When it is not: against dd with iflag=direct, which throws away what it
// reads.
#include <fcntl.h>
#include <nrt/nrt_open.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "driver/base/file_descriptor.h"
#include "tests/bench/ratio.h"
#include "tests/bench/session.h"
#include "tests/support/files.h"

namespace neuron::bench {
namespace {

constexpr size_t kBytes = size_t{1} << 30;

struct Buffers {
  test::Folder folder;
  std::string path = folder.path("file");
  std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes, 1);
  nrt_tensor_t* tensor = nullptr;
  ~Buffers() { nrt_tensor_free(&tensor); }

  // The sentence of a failure, or "".
  std::string prepare() {
    const std::string error = initialise();
    if (!error.empty()) return error;
    test::write_file(path, memory);
    if (nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, kBytes, "t", &tensor) != NRT_SUCCESS) {
      return nrt_open_last_error();
    }
    return {};
  }
  // GB/s; below 0: it failed.
  double read_into_tensor() const {
    const double start = now_seconds();
    if (nrt_open_tensor_read_file(tensor, 0, path.c_str(), 0, kBytes) != NRT_SUCCESS) return -1.0;
    return static_cast<double>(kBytes) / (now_seconds() - start) * 1e-9;
  }
  // Takes the file out of the host's cache, as far as the disk has it.
  void forget() const {
    const base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ::fsync(file.get());
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
};

Ratio cached() {
  Ratio ratio{.name = "file-to-hbm", .peer_name = "read()", .unit = "GB/s", .goal = 0.9};
  auto buffers = std::make_shared<Buffers>();
  ratio.error = buffers->prepare();
  if (!ratio.error.empty()) return ratio;
  ratio.ours = [buffers] { return buffers->read_into_tensor(); };
  ratio.peer = [buffers] {
    const double start = now_seconds();
    const base::FileDescriptor file(::open(buffers->path.c_str(), O_RDONLY | O_CLOEXEC));
    size_t done = 0;
    for (ssize_t got = 1; got > 0 && done < kBytes; done += static_cast<size_t>(got)) {
      got = ::read(file.get(), buffers->memory.data() + done, kBytes - done);
    }
    if (done != kBytes) return -1.0;
    return static_cast<double>(kBytes) / (now_seconds() - start) * 1e-9;
  };
  return ratio;
}

Ratio uncached() {
  Ratio ratio{.name = "file-to-hbm-uncached",
              .peer_name = "dd bs=16M iflag=direct",
              .unit = "GB/s",
              .goal = 0.9};
  auto buffers = std::make_shared<Buffers>();
  ratio.error = buffers->prepare();
  if (!ratio.error.empty()) return ratio;
  ratio.ours = [buffers] {
    buffers->forget();
    return buffers->read_into_tensor();
  };
  ratio.peer = [buffers] {
    buffers->forget();
    const std::string command =
        "dd if='" + buffers->path + "' of=/dev/null bs=16M iflag=direct status=none";
    const double start = now_seconds();
    if (std::system(command.c_str()) != 0) return -1.0;  // NOLINT: a command of ours
    return static_cast<double>(kBytes) / (now_seconds() - start) * 1e-9;
  };
  return ratio;
}

}  // namespace

std::vector<Ratio> file_to_hbm() { return {cached(), uncached()}; }

}  // namespace neuron::bench
