// SPDX-License-Identifier: Apache-2.0
// 64 MiB within HBM and from the host into HBM, through real descriptors, against memcpy in one
// thread, whose buffers lie in pages of 4 KiB or in huge ones.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/bench/ratio.h"
#include "tests/bench/session.h"

namespace neuron::bench {
namespace {

constexpr size_t kBytes = 64u << 20;

struct Buffers {
  std::vector<char> source = std::vector<char>(kBytes, 1);
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

// Two buffers of this process; in huge pages, where the host gives them.
struct Pair {
  explicit Pair(bool huge) {
    for (std::byte** buffer : {&from, &to}) {
      *buffer = static_cast<std::byte*>(std::aligned_alloc(kHugePage, kBytes));
      if (huge) ::madvise(*buffer, kBytes, MADV_HUGEPAGE);
      std::memset(*buffer, 1, kBytes);
    }
  }
  ~Pair() {
    std::free(from);
    std::free(to);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  double rate() const {
    return bytes_per_second([this] {
      std::memcpy(to, from, kBytes);
      asm volatile("" ::"r"(to) : "memory");
      return true;
    });
  }

  static constexpr size_t kHugePage = 2u << 20;
  std::byte* from = nullptr;
  std::byte* to = nullptr;
};

// The same against memcpy between pages of 4 KiB and between huge pages.
std::vector<Ratio> against_memcpy(const char* name, bool write) {
  auto buffers = std::make_shared<Buffers>();
  std::vector<Ratio> ratios;
  for (const bool huge : {false, true}) {
    Ratio ratio{.name = std::string(name) + (huge ? "-huge" : ""),
                .peer_name = huge ? "memcpy between huge pages, one thread" : "memcpy, one thread",
                .unit = "bytes/s",
                .goal = 0.8,
                .error = buffers->error};
    ratio.ours = [buffers, write] {
      return bytes_per_second([&] {
        return (write ? nrt_tensor_write(buffers->to, buffers->source.data(), 0, kBytes)
                      : nrt_tensor_copy(buffers->from, 0, buffers->to, 0, kBytes)) == NRT_SUCCESS;
      });
    };
    ratio.peer = [pair = std::make_shared<Pair>(huge)] { return pair->rate(); };
    ratios.push_back(std::move(ratio));
  }
  return ratios;
}

}  // namespace

std::vector<Ratio> hbm_copy() { return against_memcpy("hbm-copy", false); }
std::vector<Ratio> tensor_write() { return against_memcpy("tensor-write", true); }

}  // namespace neuron::bench
