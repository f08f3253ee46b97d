// SPDX-License-Identifier: Apache-2.0
// Every call that the runtime makes of its driver fails once, in turn, while a program is loaded,
// run and unloaded.
#include <dirent.h>
#include <gtest/gtest.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/fault/failing_port.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::test {
namespace {

constexpr size_t kBytes = 128 * 16 * sizeof(float);

size_t open_descriptors() {
  DIR* folder = opendir("/proc/self/fd");
  size_t count = 0;
  while (folder && readdir(folder)) ++count;
  if (folder) closedir(folder);
  return count;
}

// The life of a client. Returns the first status that is not success, and where it came from; what
// was obtained is given back whatever happens.
struct Outcome {
  NRT_STATUS status = NRT_SUCCESS;
  std::string step, sentence;
  bool right_answer = false;
};

class Client {
 public:
  explicit Client(const std::vector<uint8_t>& neff) { run(neff); }
  ~Client() {
    nrt_destroy_tensor_set(&inputs_);
    nrt_destroy_tensor_set(&outputs_);
    for (nrt_tensor_t*& tensor : tensors_) nrt_tensor_free(&tensor);
    if (model_) nrt_unload(model_);
    nrt_close();
  }
  const Outcome& outcome() const { return outcome_; }

 private:
  bool good(const char* step, NRT_STATUS status) {
    if (status == NRT_SUCCESS) return true;
    outcome_ = {status, step, nrt_open_last_error(), false};
    return false;
  }
  void run(const std::vector<uint8_t>& neff) {
    if (!good("nrt_init", nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""))) return;
    if (!good("nrt_load", nrt_load(neff.data(), neff.size(), 0, 1, &model_))) return;
    nrt_allocate_tensor_set(&inputs_);
    nrt_allocate_tensor_set(&outputs_);
    const std::vector<float> twos(128 * 16, 2.0f);
    const char* const names[] = {"a", "b", "sum"};
    for (int i = 0; i < 3; ++i) {
      if (!good("nrt_tensor_allocate", nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, kBytes,
                                                           names[i], &tensors_[i]))) {
        return;
      }
      if (!good("nrt_tensor_write", nrt_tensor_write(tensors_[i], twos.data(), 0, kBytes))) return;
      nrt_add_tensor_to_tensor_set(i < 2 ? inputs_ : outputs_, names[i], tensors_[i]);
    }
    for (int i = 0; i < 2; ++i) {
      if (!good("nrt_execute", nrt_execute(model_, inputs_, outputs_))) return;
    }
    std::vector<float> sum(128 * 16);
    if (!good("nrt_tensor_read", nrt_tensor_read(tensors_[2], sum.data(), 0, kBytes))) return;
    outcome_.right_answer = sum == std::vector<float>(128 * 16, 4.0f);
    nrt_model_t* model = model_;
    model_ = nullptr;
    good("nrt_unload", nrt_unload(model));
  }
  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* inputs_ = nullptr;
  nrt_tensor_set_t* outputs_ = nullptr;
  nrt_tensor_t* tensors_[3] = {};
  Outcome outcome_;
};

class PortFailure : public ::testing::Test {
 protected:
  PortFailure() {
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    auto neff = kernels::tensor_add("small_add", NEURON_DTYPE_F32, 128, 16);
    if (neff) neff_ = *neff;
  }
  // Installs a fresh port on a fresh device; false if the emulator library is not there.
  bool install(long failing, int error) {
    plan_.calls = 0;
    plan_.failing = failing;
    plan_.error = error;
    auto real = ndl::embedded_port("trn1.2xlarge", NEURON_BUILD_DIR "/lib/libneuron-emulator.so.1");
    if (!real) return false;
    ndl::set_port(std::make_unique<FailingPort>(std::move(real), plan_));
    return true;
  }
  FailurePlan plan_;
  std::vector<uint8_t> neff_;
};

// The sweep: call 1, 2, 3 ... fails until a run makes fewer calls than that.
void sweep(FailurePlan& plan, const std::vector<uint8_t>& neff,
           const std::function<bool(long)>& install) {
  // One run that works: what a process opens once and keeps is no leak.
  ASSERT_TRUE(install(0));
  { const Client client(neff); }
  ndl::release_port();
  const size_t descriptors = open_descriptors();
  long failures = 0;
  for (long n = 1; n < 20000; ++n) {
    ASSERT_TRUE(install(n));
    Outcome outcome;
    {
      const Client client(neff);
      outcome = client.outcome();
    }
    const long calls = plan.calls;
    ndl::release_port();
    ASSERT_EQ(open_descriptors(), descriptors)
        << "call " << n << " (ioctl " << std::hex << plan.failed_request
        << ") failed and left descriptors behind; " << outcome.step << ": " << outcome.sentence;
    if (calls < n) {
      EXPECT_EQ(outcome.status, NRT_SUCCESS);
      EXPECT_TRUE(outcome.right_answer);
      EXPECT_GT(failures, 20) << "most calls of the port matter";
      return;
    }
    if (outcome.status != NRT_SUCCESS) {
      ++failures;
      EXPECT_FALSE(outcome.sentence.empty()) << outcome.step << ", call " << n;
    } else {
      EXPECT_TRUE(outcome.right_answer)
          << "call " << n << " failed, nobody was told, and the sum is wrong";
    }
    ASSERT_TRUE(install(0));
    const Client again(neff);
    ASSERT_EQ(again.outcome().status, NRT_SUCCESS)
        << "after call " << n << " (ioctl " << std::hex << plan.failed_request
        << ") had failed: " << again.outcome().step << ": " << again.outcome().sentence;
    ASSERT_TRUE(again.outcome().right_answer);
  }
  FAIL() << "the sweep did not end";
}

TEST_F(PortFailure, EachCallThatFailsIsReportedAndLeavesNothingBehind) {
  ASSERT_FALSE(neff_.empty());
  sweep(plan_, neff_, [&](long n) { return install(n, -EIO); });
}

TEST_F(PortFailure, LackOfMemoryAtEachCallIsReportedAndLeavesNothingBehind) {
  ASSERT_FALSE(neff_.empty());
  sweep(plan_, neff_, [&](long n) { return install(n, -ENOMEM); });
}

}  // namespace
}  // namespace neuron::test
