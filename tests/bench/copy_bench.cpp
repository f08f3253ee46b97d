// SPDX-License-Identifier: Apache-2.0
// 64 MiB within HBM and from the host into HBM, through real descriptors, against memcpy in one
// thread.
#include <cstring>
#include <memory>
#include <vector>

#include "tests/bench/ratio.h"
#include "tests/bench/session.h"

namespace neuron::bench {
namespace {

constexpr size_t kBytes = 64u << 20;

struct Buffers {
  std::vector<char> source = std::vector<char>(kBytes, 1),
                    destination = std::vector<char>(kBytes, 2);
  nrt_tensor_t* from = nullptr;
  nrt_tensor_t* to = nullptr;
  std::string error = initialise();
  Buffers() {
    for (nrt_tensor_t** tensor : {&from, &to}) {
      if (!error.empty()) return;
      NRT_STATUS s = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, kBytes, "bench", tensor);
      if (s == NRT_SUCCESS) s = nrt_tensor_write(*tensor, source.data(), 0, kBytes);
      if (s != NRT_SUCCESS) error = std::string("64 MiB tensor: ") + nrt_get_status_as_str(s);
    }
  }
  ~Buffers() {
    nrt_tensor_free(&from);
    nrt_tensor_free(&to);
  }
};

template <typename Operation>
double bytes_per_second(Operation operation) {
  constexpr int kTimes = 4;
  const double start = now_seconds();
  for (int i = 0; i < kTimes; ++i) {
    if (!operation()) return -1.0;
  }
  return kTimes * static_cast<double>(kBytes) / (now_seconds() - start);
}

Ratio against_memcpy(const char* name, bool write) {
  Ratio ratio{.name = name, .peer_name = "memcpy, one thread", .unit = "bytes/s", .goal = 0.8};
  auto buffers = std::make_shared<Buffers>();
  ratio.error = buffers->error;
  ratio.ours = [buffers, write] {
    return bytes_per_second([&] {
      return (write ? nrt_tensor_write(buffers->to, buffers->source.data(), 0, kBytes)
                    : nrt_tensor_copy(buffers->from, 0, buffers->to, 0, kBytes)) == NRT_SUCCESS;
    });
  };
  ratio.peer = [buffers] {
    return bytes_per_second([&] {
      std::memcpy(buffers->destination.data(), buffers->source.data(), kBytes);
      asm volatile("" ::"r"(buffers->destination.data()) : "memory");
      return true;
    });
  };
  return ratio;
}

}  // namespace

Ratio hbm_copy() { return against_memcpy("hbm-copy", false); }
Ratio tensor_write() { return against_memcpy("tensor-write", true); }

}  // namespace neuron::bench
