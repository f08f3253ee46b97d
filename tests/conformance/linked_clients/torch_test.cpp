// SPDX-License-Identifier: Apache-2.0
// PyTorch's device extension: tensors of an allocator, models, queues of the older epoch with their
// error tracker, inspect sessions.
#define NRT_ASYNC_VERSION 2
#include <nrt/nrt_async.h>
#include <nrt/nrt_profile.h>

#include <filesystem>

#include "tests/support/files.h"
#include "tests/system/api/async_support.h"
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

namespace fs = std::filesystem;

class Torch : public testing::Test {
 protected:
  Torch() : emulator_("NEURON_EMULATOR", "trn1.2xlarge"), quiet_("NEURON_RT_LOG_LEVEL", "QUIET") {}
  void SetUp() override {
    uint32_t total = 0;
    ASSERT_EQ(nrt_get_total_vnc_count(&total), NRT_SUCCESS);
    EXPECT_EQ(total, 2u);
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, "2.9.0", "2.9.0"), NRT_SUCCESS);
    uint32_t visible = 0;
    ASSERT_EQ(nrt_get_visible_vnc_count(&visible), NRT_SUCCESS);
    EXPECT_EQ(visible, 2u);
  }
  void TearDown() override { nrt_close(); }

 private:
  Setting emulator_, quiet_;
};

TEST_F(Torch, TheAllocatorIsToldToEmptyItsCachesAndTriesAgain) {
  constexpr size_t kBlock = size_t{6} << 30;  // of 16 GiB
  std::vector<nrt_tensor_t*> blocks;
  NRT_STATUS status = NRT_SUCCESS;
  for (int n = 0; n < 10 && status == NRT_SUCCESS; ++n) {
    nrt_tensor_t* block = nullptr;
    status = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, kBlock, nullptr, &block);
    if (status == NRT_SUCCESS) blocks.push_back(block);
  }
  EXPECT_EQ(status, NRT_RESOURCE);
  ASSERT_EQ(blocks.size(), 2u);
  nrt_tensor_free(&blocks[0]);
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, kBlock, nullptr, &blocks[0]),
            NRT_SUCCESS);
  for (nrt_tensor_t*& block : blocks) nrt_tensor_free(&block);
}

TEST_F(Torch, CopiesTensorsAndTheirSlices) {
  nrt_tensor_t *from = make_tensor(10000), *to = make_tensor(10000), *view = nullptr;
  const Bytes bytes = pattern(10000);
  ASSERT_EQ(nrt_tensor_write(from, bytes.data(), 0, bytes.size()), NRT_SUCCESS);
  ASSERT_EQ(nrt_tensor_allocate_slice(from, 1000, 5000, "view", &view), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_get_size(view), 5000u);
  EXPECT_EQ(nrt_tensor_get_va(view), static_cast<uint8_t*>(nrt_tensor_get_va(from)) + 1000);
  ASSERT_EQ(nrt_tensor_copy(view, 10, to, 20, 4000), NRT_SUCCESS);
  Bytes found(4000);
  ASSERT_EQ(nrt_tensor_read(to, found.data(), 20, found.size()), NRT_SUCCESS);
  EXPECT_TRUE(std::equal(found.begin(), found.end(), bytes.begin() + 1010));
  EXPECT_NE(nrt_tensor_copy(view, 4999, to, 0, 2), NRT_SUCCESS) << "beyond the slice";
  nrt_tensor_t* far = make_tensor(10000, 1);
  EXPECT_EQ(nrt_tensor_copy(from, 0, far, 0, 10), NRT_INVALID) << "the HBM of another core";
  for (nrt_tensor_t** tensor : {&view, &from, &to, &far}) nrt_tensor_free(tensor);
}

TEST_F(Torch, SchedulesOnQueuesAndReadsItsErrorTracker) {
  Loaded add(small_add());
  const size_t bytes = nrt_tensor_get_size(add.tensors["a"]);
  const std::vector<float> a(bytes / 4, 1), b(bytes / 4, 2);
  std::vector<float> sum(bytes / 4);
  nrta_error_tracker_t* tracker = nullptr;
  ASSERT_EQ(nrta_error_tracker_create(0, &tracker), NRT_SUCCESS);
  nrta_seq_t seq = 0, run = 0, last = 0;
  ASSERT_EQ(nrta_tensor_write(add.tensors["a"], a.data(), 0, bytes, 0, tracker, &seq), NRT_SUCCESS);
  ASSERT_EQ(nrta_tensor_write(add.tensors["b"], b.data(), 0, bytes, 0, tracker, &seq), NRT_SUCCESS);
  ASSERT_TRUE(finish(seq));
  ASSERT_EQ(nrta_execute_schedule(add.model, add.inputs, add.outputs, 0, tracker, &run),
            NRT_SUCCESS);
  ASSERT_TRUE(finish(run));
  ASSERT_EQ(nrta_get_sequence(0, NRTA_XU_COMPUTE, 0, &last), NRT_SUCCESS);
  EXPECT_GE(last, run);
  nrt_tensor_t* copy = make_tensor(bytes);
  ASSERT_EQ(nrta_tensor_copy(add.tensors["sum"], 0, copy, 0, bytes, 0, tracker, &seq), NRT_SUCCESS);
  ASSERT_TRUE(finish(seq));
  ASSERT_EQ(nrta_tensor_read(sum.data(), copy, 0, bytes, 0, tracker, &seq), NRT_SUCCESS);
  ASSERT_TRUE(finish(seq));
  EXPECT_EQ(sum, std::vector<float>(bytes / 4, 3));
  const nrta_error_t* list = nullptr;
  size_t count = 1;
  ASSERT_EQ(nrta_error_tracker_get_list(tracker, &list, &count), NRT_SUCCESS);
  EXPECT_EQ(count, 0u);
  Loaded bad(bytes_of(kernels::bad_address()));
  ASSERT_EQ(nrta_execute_schedule(bad.model, bad.inputs, bad.outputs, 0, tracker, &run),
            NRT_SUCCESS);
  ASSERT_TRUE(finish(run));
  ASSERT_EQ(nrta_error_tracker_get_list(tracker, &list, &count), NRT_SUCCESS);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(list[0].seq_id, run);
  EXPECT_NE(list[0].error_code, static_cast<uint64_t>(NRT_SUCCESS));
  nrta_error_tracker_destroy(tracker);
  nrt_tensor_free(&copy);
}

TEST_F(Torch, MeetsAtABarrierAndRefusesASecondUnload) {
  EXPECT_EQ(nrt_barrier(0, 0, 1), NRT_SUCCESS) << nrt_open_last_error();
  nrt_model_t* model = nullptr;
  const Bytes neff = small_add();
  ASSERT_EQ(nrt_load_collectives(neff.data(), neff.size(), 0, 1, 0, 1, &model), NRT_SUCCESS)
      << nrt_open_last_error();
  ASSERT_EQ(nrt_unload(model), NRT_SUCCESS);
  EXPECT_NE(nrt_unload(model), NRT_SUCCESS);
}

TEST_F(Torch, AnInspectSessionLeavesItsFilesBelowItsFolder) {
  const Folder folder;
  nrt_inspect_config_t* config = nullptr;
  ASSERT_EQ(nrt_inspect_config_allocate(&config), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_defaults(config), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_output_dir(config, folder.path("output").c_str()), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_enable_inspect(config, true), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_activity(config, "all", false), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_activity(config, "system_profile", true), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_activity(config, "device_profile", true), NRT_SUCCESS);
  EXPECT_EQ(nrt_inspect_config_set_activity(config, "no_such_activity", true), NRT_INVALID);
  ASSERT_EQ(nrt_inspect_config_set_sys_trace_max_events_per_nc(config, 1000), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_capture_enabled_for_nc(config, 1, false), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_begin_with_options(config), NRT_SUCCESS) << nrt_open_last_error();
  ASSERT_EQ(nrt_inspect_config_free(config), NRT_SUCCESS);
  {
    Loaded add(small_add());
    ASSERT_EQ(add.run(), NRT_SUCCESS);
  }
  ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS) << nrt_open_last_error();
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path("output"))) {
    if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, testing::Contains("ntrace.pb"));
  EXPECT_THAT(names, testing::Contains(testing::EndsWith("_vnc_0.ntff")));
  EXPECT_THAT(names, testing::Not(testing::Contains("cpu_util.pb")));
}

}  // namespace
}  // namespace neuron::test
