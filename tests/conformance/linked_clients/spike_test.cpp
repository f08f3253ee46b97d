// SPDX-License-Identifier: Apache-2.0
// The core of NKIPy's spike: thirty functions, and the asynchronous variant of trees derived from
// it.
#include <nrt/nrt_async.h>
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <regex>
#include <thread>

#include "tests/support/files.h"
#include "tests/system/api/collectives_support.h"

// Spike has a function of this name itself, which then is the library's own, too.
extern "C" const char* nrt_get_status_as_str(NRT_STATUS status) {
  return status == NRT_SUCCESS ? "spike: good" : "spike: bad";
}

namespace neuron::test {
namespace {

class Spike : public testing::Test {
 protected:
  Spike() : emulator_("NEURON_EMULATOR", "trn1.2xlarge"), quiet_("NEURON_RT_LOG_LEVEL", "QUIET") {
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
  }
  ~Spike() override { nrt_close(); }

  // The bytes of the NEFF are gone when the call has returned.
  static nrt_model_t* load(const kernels::Neff& neff, int core) {
    nrt_model_t* model = nullptr;
    auto bytes = std::make_unique<Bytes>(bytes_of(neff));
    EXPECT_EQ(nrt_load(bytes->data(), bytes->size(), core, 1, &model), NRT_SUCCESS)
        << nrt_open_last_error();
    std::fill(bytes->begin(), bytes->end(), 0xEE);
    return model;
  }
  static kernels::Neff add() { return kernels::tensor_add("add", NEURON_DTYPE_F32, 128, 16); }
  static constexpr size_t kBytes = 128 * 16 * sizeof(float);

  // Sets for one execution, made anew each time, as spike does.
  struct Sets {
    nrt_tensor_set_t *inputs = nullptr, *outputs = nullptr;
    Sets(nrt_tensor_t* a, nrt_tensor_t* b, nrt_tensor_t* sum) {
      EXPECT_EQ(nrt_allocate_tensor_set(&inputs), NRT_SUCCESS);
      EXPECT_EQ(nrt_allocate_tensor_set(&outputs), NRT_SUCCESS);
      EXPECT_EQ(nrt_add_tensor_to_tensor_set(inputs, "a", a), NRT_SUCCESS);
      if (b != nullptr) {
        EXPECT_EQ(nrt_add_tensor_to_tensor_set(inputs, "b", b), NRT_SUCCESS);
      }
      EXPECT_EQ(nrt_add_tensor_to_tensor_set(outputs, "sum", sum), NRT_SUCCESS);
    }
    ~Sets() {
      nrt_destroy_tensor_set(&inputs);
      nrt_destroy_tensor_set(&outputs);
      EXPECT_EQ(inputs, nullptr);
    }
  };
  static void write(nrt_tensor_t* tensor, float value) {
    const std::vector<float> values(128 * 16, value);
    ASSERT_EQ(nrt_tensor_write(tensor, values.data(), 0, kBytes), NRT_SUCCESS);
  }
  static std::vector<float> read(const nrt_tensor_t* tensor) {
    std::vector<float> values(128 * 16);
    EXPECT_EQ(nrt_tensor_read(tensor, values.data(), 0, kBytes), NRT_SUCCESS);
    return values;
  }

 private:
  Setting emulator_, quiet_;
};

TEST_F(Spike, LoadsRunsAndReadsOnTensorsAndSlices) {
  uint32_t cores = 0;
  ASSERT_EQ(nrt_get_visible_nc_count(&cores), NRT_SUCCESS);
  EXPECT_EQ(cores, 2u);
  nrt_model_t* model = load(add(), 1);
  nrt_tensor_info_array_t* info = nullptr;
  ASSERT_EQ(nrt_get_model_tensor_info(model, &info), NRT_SUCCESS);
  ASSERT_EQ(info->tensor_count, 3u);
  for (uint64_t i = 0; i < 3; ++i) {
    const nrt_tensor_info_t& one = info->tensor_array[i];
    EXPECT_EQ(one.usage,
              std::string(one.name) == "sum" ? NRT_TENSOR_USAGE_OUTPUT : NRT_TENSOR_USAGE_INPUT);
    EXPECT_EQ(one.size, kBytes);
    EXPECT_EQ(one.dtype, NRT_DTYPE_FLOAT32);
    ASSERT_EQ(one.ndim, 2u);
    EXPECT_EQ(one.shape[0] * one.shape[1], 128u * 16);
  }
  ASSERT_EQ(nrt_free_model_tensor_info(info), NRT_SUCCESS);

  nrt_tensor_t* both = make_tensor(2 * kBytes, 1);
  nrt_tensor_t *a = nullptr, *b = nullptr, *sum = make_tensor(kBytes, 1);
  ASSERT_EQ(nrt_tensor_allocate_slice(both, 0, kBytes, "a", &a), NRT_SUCCESS);
  ASSERT_EQ(nrt_tensor_allocate_slice(both, kBytes, kBytes, "b", &b), NRT_SUCCESS);
  EXPECT_NE(nrt_tensor_allocate_slice(both, kBytes, kBytes + 1, "c", &sum), NRT_SUCCESS);
  EXPECT_EQ(
      static_cast<uint8_t*>(nrt_tensor_get_va(b)) - static_cast<uint8_t*>(nrt_tensor_get_va(both)),
      static_cast<ptrdiff_t>(kBytes));
  write(a, 1);
  write(b, 2);
  // The source may go before its slices; they keep the memory.
  nrt_tensor_free(&both);
  {
    const Sets sets(a, b, sum);
    ASSERT_EQ(nrt_execute(model, sets.inputs, sets.outputs), NRT_SUCCESS);
  }
  EXPECT_EQ(read(sum), std::vector<float>(128 * 16, 3));
  {
    const Sets sets(a, nullptr, sum);
    EXPECT_EQ(nrt_execute(model, sets.inputs, sets.outputs), NRT_INVALID) << "b is missing";
  }
  nrt_tensor_t* small = make_tensor(kBytes - 4, 1);
  {
    const Sets sets(a, small, sum);
    EXPECT_EQ(nrt_execute(model, sets.inputs, sets.outputs), NRT_INVALID) << "b is too small";
  }
  EXPECT_NE(nrt_tensor_write(small, &cores, kBytes - 4, 4), NRT_SUCCESS);
  EXPECT_STREQ(nrt_get_status_as_str(NRT_SUCCESS), "spike: good");
  ASSERT_EQ(nrt_unload(model), NRT_SUCCESS);
  // What is left is never freed: nrt_close takes it, and the next session has all memory.
}

TEST_F(Spike, RefusesWhatIsNoNeff) {
  nrt_model_t* model = nullptr;
  const Bytes bytes(4096, 0x5A);
  EXPECT_EQ(nrt_load(bytes.data(), bytes.size(), 0, 1, &model), NRT_INVALID);
  EXPECT_EQ(model, nullptr);
}

TEST_F(Spike, OneThreadLoadsTheRanksOfACollective) {
  const Bytes neff = through("all_reduce", CCOM_ALL_REDUCE, 500, 500, {});
  std::vector<std::unique_ptr<RankModel>> ranks;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks.push_back(std::make_unique<RankModel>(neff, rank, 2));
    ASSERT_EQ(ranks.back()->status, NRT_SUCCESS) << ranks.back()->sentence;
  }
  std::vector<std::thread> threads;
  for (auto& rank : ranks) {
    threads.emplace_back([&rank] {
      const std::vector<float> values = rank->run();
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], value_of(0, i) + value_of(1, i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& rank : ranks) EXPECT_EQ(rank->status, NRT_SUCCESS) << rank->sentence;
}

TEST_F(Spike, APairOfCallsProfilesOneExecution) {
  nrt_model_t* model = load(add(), 0);
  const Folder folder;
  const std::string path = folder.path("one.ntff");
  nrt_tensor_t *a = make_tensor(kBytes), *b = make_tensor(kBytes), *sum = make_tensor(kBytes);
  const Sets sets(a, b, sum);
  ASSERT_EQ(nrt_profile_start(model, path.c_str()), NRT_SUCCESS);
  ASSERT_EQ(nrt_execute(model, sets.inputs, sets.outputs), NRT_SUCCESS);
  ASSERT_EQ(nrt_profile_stop(path.c_str()), NRT_SUCCESS);
  EXPECT_GT(std::filesystem::file_size(path), 0u);
  EXPECT_NE(nrt_profile_stop(path.c_str()), NRT_SUCCESS);
}

TEST_F(Spike, ATraceHasAPairOfTimesForEachExecutionOfACore) {
  nrt_model_t* model = load(add(), 1);
  nrt_tensor_t *a = make_tensor(kBytes, 1), *b = make_tensor(kBytes, 1),
               *sum = make_tensor(kBytes, 1);
  const Sets sets(a, b, sum);
  nrt_sys_trace_config_t* config = nullptr;
  ASSERT_EQ(nrt_sys_trace_config_allocate(&config), NRT_SUCCESS);
  for (uint32_t core = 0; core < 2; ++core) {
    nrt_sys_trace_config_set_capture_enabled_for_nc(config, core, core == 1);
  }
  ASSERT_EQ(nrt_sys_trace_start(config), NRT_SUCCESS);
  nrt_sys_trace_config_free(config);  // at once: the library has a copy
  for (int n = 0; n < 3; ++n) {
    ASSERT_EQ(nrt_execute(model, sets.inputs, sets.outputs), NRT_SUCCESS);
  }
  nrt_sys_trace_fetch_options_t* options = nullptr;
  ASSERT_EQ(nrt_sys_trace_fetch_options_allocate(&options), NRT_SUCCESS);
  nrt_sys_trace_fetch_options_set_nc_idx(options, 1);
  char* buffer = nullptr;
  size_t written = 0;
  ASSERT_EQ(nrt_sys_trace_fetch_events(&buffer, &written, options), NRT_SUCCESS);
  const std::string text(buffer == nullptr ? "" : buffer);
  EXPECT_EQ(text.size(), written);
  nrt_sys_trace_buffer_free(buffer);
  nrt_sys_trace_fetch_options_free(options);
  ASSERT_EQ(nrt_sys_trace_stop(), NRT_SUCCESS);
  std::vector<uint64_t> times;
  const std::regex time(
      "\"nc_exec_running\",\"phase\":\"(start|stop)\"[^{]*\\{\"nc_timestamp_ns\":([0-9]+)");
  std::string phases;
  for (std::sregex_iterator at(text.begin(), text.end(), time), end; at != end; ++at) {
    phases += at->str(1) + " ";
    times.push_back(std::stoull(at->str(2)));
  }
  EXPECT_EQ(phases, "start stop start stop start stop ");
  ASSERT_EQ(times.size(), 6u) << text;
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
}

// The variant with an event loop: what is scheduled adds to an eventfd when it is done.
TEST_F(Spike, TheAsynchronousVariantIsWokenByEventfds) {
  nrt_model_t* model = load(add(), 0);
  nrt_tensor_t *a = make_tensor(kBytes), *b = make_tensor(kBytes), *sum = make_tensor(kBytes);
  const Sets sets(a, b, sum);
  const std::vector<float> ones(128 * 16, 1), twos(128 * 16, 2);
  std::vector<float> found(128 * 16);
  NRT_STATUS status[4];
  for (NRT_STATUS& one : status) one = NRT_FAILURE;
  const int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  ASSERT_GE(event, 0);
  const auto wait = [&](nrta_seq_t seq) {
    ASSERT_EQ(nrta_event_register_seq_id_completion(seq, event), NRT_SUCCESS);
    pollfd poll{event, POLLIN, 0};
    ASSERT_EQ(::poll(&poll, 1, 20000), 1) << "nobody was woken";
    uint64_t count = 0;
    ASSERT_EQ(::read(event, &count, sizeof(count)), static_cast<ssize_t>(sizeof(count)));
    EXPECT_EQ(count, 1u);
    bool done = false;
    ASSERT_EQ(nrta_is_completed(seq, &done), NRT_SUCCESS);
    EXPECT_TRUE(done);
  };
  nrta_seq_t seq = 0, first = 0;
  ASSERT_EQ(nrta_tensor_write(a, ones.data(), 0, kBytes, 0, &status[0], &first), NRT_SUCCESS);
  ASSERT_EQ(nrta_tensor_write(b, twos.data(), 0, kBytes, 0, &status[1], &seq), NRT_SUCCESS);
  wait(seq);
  ASSERT_EQ(nrta_execute_schedule(model, sets.inputs, sets.outputs, 0, &status[2], &seq),
            NRT_SUCCESS);
  wait(seq);
  ASSERT_EQ(nrta_tensor_read(found.data(), sum, 0, kBytes, 0, &status[3], &seq), NRT_SUCCESS);
  wait(seq);
  for (const NRT_STATUS one : status) EXPECT_EQ(one, NRT_SUCCESS);
  EXPECT_EQ(found, std::vector<float>(128 * 16, 3));
  wait(first);  // has long completed: woken at once
  // Taken back before the descriptor is closed.
  EXPECT_EQ(nrta_event_register_seq_id_completion(seq, -1), NRT_SUCCESS);
  ::close(event);
  EXPECT_EQ(nrta_event_register_seq_id_completion(seq + 100, event), NRT_INVALID);

  // An execution that fails says so in its word, and wakes all the same.
  nrt_model_t* bad = load(kernels::bad_address(), 0);
  const Loaded tensors(bytes_of(kernels::bad_address()));
  NRT_STATUS failed = NRT_SUCCESS;
  const int other = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  ASSERT_EQ(nrta_execute_schedule(bad, tensors.inputs, tensors.outputs, 0, &failed, &seq),
            NRT_SUCCESS);
  ASSERT_EQ(nrta_event_register_seq_id_completion(seq, other), NRT_SUCCESS);
  pollfd poll{other, POLLIN, 0};
  ASSERT_EQ(::poll(&poll, 1, 20000), 1);
  uint64_t count = 0;
  ASSERT_EQ(::read(other, &count, sizeof(count)), static_cast<ssize_t>(sizeof(count)));
  bool done = false;
  ASSERT_EQ(nrta_is_completed(seq, &done), NRT_SUCCESS);
  EXPECT_TRUE(done);
  EXPECT_NE(failed, NRT_SUCCESS);
  ::close(other);
}

}  // namespace
}  // namespace neuron::test
