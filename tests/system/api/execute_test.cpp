// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <cmath>
#include <thread>

#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

class Execute : public RuntimeTest {};

TEST_F(Execute, ModelTellsItsTensors) {
  Loaded add(small_add());
  nrt_tensor_info_array_t* info = nullptr;
  ASSERT_EQ(nrt_get_model_tensor_info(add.model, &info), NRT_SUCCESS);
  ASSERT_EQ(info->tensor_count, 3u);
  EXPECT_STREQ(info->tensor_array[0].name, "a");
  EXPECT_EQ(info->tensor_array[1].usage, NRT_TENSOR_USAGE_INPUT);
  const nrt_tensor_info_t& sum = info->tensor_array[2];
  EXPECT_STREQ(sum.name, "sum");
  EXPECT_EQ(sum.usage, NRT_TENSOR_USAGE_OUTPUT);
  EXPECT_EQ(sum.dtype, NRT_DTYPE_FLOAT32);
  ASSERT_EQ(sum.ndim, 2u);
  EXPECT_EQ(sum.shape[0], 128u);
  EXPECT_EQ(sum.shape[1], 16u);
  EXPECT_EQ(sum.size, 128u * 16 * 4);
  EXPECT_EQ(nrt_free_model_tensor_info(info), NRT_SUCCESS);
  EXPECT_EQ(nrt_free_model_tensor_info(nullptr), NRT_SUCCESS);
}

TEST_F(Execute, TensorInfoIsGivenBack) {
  Loaded add(small_add());
  const auto in_use = [] { return mallinfo2().uordblks; };
  const size_t before = in_use();
  for (int i = 0; i < 1000; ++i) {
    nrt_tensor_info_array_t* info = nullptr;
    ASSERT_EQ(nrt_get_model_tensor_info(add.model, &info), NRT_SUCCESS);
    ASSERT_EQ(nrt_free_model_tensor_info(info), NRT_SUCCESS);
  }
  // Each block has more than 900 bytes.
  EXPECT_LT(in_use(), before + 100'000);
}

TEST_F(Execute, ModelTellsItsCoreAndCounts) {
  Loaded add(small_add(), 1);
  nrt_model_info_t info{77};
  size_t size = 0;
  ASSERT_EQ(nrt_get_model_info(add.model, &info, sizeof(info), &size), NRT_SUCCESS);
  EXPECT_EQ(info.vnc, 1u);
  EXPECT_EQ(size, sizeof(info));
  uint32_t count = 0;
  ASSERT_EQ(nrt_get_model_instance_count(add.model, &count), NRT_SUCCESS);
  EXPECT_EQ(count, 1u);
  count = 0;
  ASSERT_EQ(nrt_get_model_nc_count(add.model, &count), NRT_SUCCESS);
  EXPECT_EQ(count, 1u);
  count = 0;
  ASSERT_EQ(nrt_get_model_vnc_count(add.model, &count), NRT_SUCCESS);
  EXPECT_EQ(count, 1u);
}

TEST_F(Execute, AddsTwoTensorsAgainAndAgain) {
  Loaded add(small_add());
  for (int i = 0; i < 5; ++i) {
    add.fill("a", 1.5f * i);
    add.fill("b", 2.0f);
    ASSERT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
    EXPECT_EQ(add.floats("sum"), std::vector<float>(128 * 16, 1.5f * i + 2));
  }
}

TEST_F(Execute, FollowsTensorsThatAreReplacedInTheSets) {
  Loaded add(small_add());
  add.fill("a", 1);
  add.fill("b", 2);
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  nrt_tensor_t* other = make_tensor(128 * 16 * 4);
  std::vector<float> tens(128 * 16, 10);
  ASSERT_EQ(nrt_tensor_write(other, tens.data(), 0, tens.size() * 4), NRT_SUCCESS);
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(add.inputs, "a", other), NRT_SUCCESS);
  ASSERT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(add.floats("sum")[5], 12);
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(add.inputs, "a", add.tensors["a"]), NRT_SUCCESS);
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  EXPECT_EQ(add.floats("sum")[5], 3) << "the first binding again";
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(add.inputs, "a", other), NRT_SUCCESS);
  nrt_tensor_free(&other);
  EXPECT_EQ(add.run(), NRT_INVALID_HANDLE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("freed"));
}

TEST_F(Execute, ManyBindingsStayCorrectWhenOldOnesAreEvicted) {
  Loaded add(small_add());
  add.fill("b", 1);
  std::vector<nrt_tensor_t*> inputs;
  for (int i = 0; i < 70; ++i) {
    inputs.push_back(make_tensor(128 * 16 * 4));
    std::vector<float> values(128 * 16, static_cast<float>(i));
    ASSERT_EQ(nrt_tensor_write(inputs[i], values.data(), 0, values.size() * 4), NRT_SUCCESS);
  }
  for (const int i : {0, 69, 0}) {
    for (int k = (i == 69 ? 0 : i); k <= i; ++k) {
      ASSERT_EQ(nrt_add_tensor_to_tensor_set(add.inputs, "a", inputs[k]), NRT_SUCCESS);
      ASSERT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
      ASSERT_EQ(add.floats("sum")[7], static_cast<float>(k) + 1);
    }
  }
}

TEST_F(Execute, ReachesTensorsInHostMemory) {
  for (const auto placement : {NRT_TENSOR_PLACEMENT_HOST, NRT_TENSOR_PLACEMENT_VIRTUAL}) {
    Loaded add(small_add(), 0, placement);
    add.fill("a", 3);
    add.fill("b", 4);
    ASSERT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
    EXPECT_EQ(add.floats("sum"), std::vector<float>(128 * 16, 7)) << placement;
  }
}

TEST_F(Execute, WorksOnSlicesOfOneTensor) {
  Loaded add(small_add());
  constexpr size_t kSize = 128 * 16 * 4;
  nrt_tensor_t* all = make_tensor(3 * kSize);
  std::vector<float> values(3 * 128 * 16, 1.25f);
  ASSERT_EQ(nrt_tensor_write(all, values.data(), 0, 3 * kSize), NRT_SUCCESS);
  nrt_tensor_t* slices[3];
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(nrt_tensor_allocate_slice(all, i * kSize, kSize, "s", &slices[i]), NRT_SUCCESS);
  }
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(add.inputs, "a", slices[0]), NRT_SUCCESS);
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(add.inputs, "b", slices[1]), NRT_SUCCESS);
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(add.outputs, "sum", slices[2]), NRT_SUCCESS);
  ASSERT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
  ASSERT_EQ(nrt_tensor_read(all, values.data(), 0, 3 * kSize), NRT_SUCCESS);
  EXPECT_EQ(values[2 * 128 * 16 - 1], 1.25f);
  EXPECT_EQ(values[2 * 128 * 16], 2.5f);
  EXPECT_EQ(values.back(), 2.5f);
}

TEST_F(Execute, TwoModelsTakeTurnsOnOneCore) {
  Loaded add(small_add());
  Loaded softmax(small_softmax());
  add.fill("a", 1);
  add.fill("b", 1);
  softmax.fill("x", 3);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
    ASSERT_EQ(softmax.run(), NRT_SUCCESS) << nrt_open_last_error();
    EXPECT_EQ(add.floats("sum")[0], 2);
    EXPECT_FLOAT_EQ(softmax.floats("y")[0], 1.0f / 16);
  }
}

TEST_F(Execute, RepeatFeedsOutputsBack) {
  Loaded softmax(small_softmax());
  std::vector<float> x(128 * 16);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 16) / 4;
  ASSERT_EQ(nrt_tensor_write(softmax.tensors["x"], x.data(), 0, x.size() * 4), NRT_SUCCESS);
  ASSERT_EQ(nrt_execute_repeat(softmax.model, softmax.inputs, softmax.outputs, 1), NRT_SUCCESS)
      << nrt_open_last_error();
  const std::vector<float> once = softmax.floats("y");
  ASSERT_EQ(nrt_tensor_write(softmax.tensors["x"], once.data(), 0, once.size() * 4), NRT_SUCCESS);
  ASSERT_EQ(softmax.run(), NRT_SUCCESS);
  const std::vector<float> twice = softmax.floats("y");
  ASSERT_NE(once, twice);
  ASSERT_EQ(nrt_tensor_write(softmax.tensors["x"], x.data(), 0, x.size() * 4), NRT_SUCCESS);
  ASSERT_EQ(nrt_execute_repeat(softmax.model, softmax.inputs, softmax.outputs, 2), NRT_SUCCESS);
  EXPECT_EQ(softmax.floats("y"), twice);
  EXPECT_EQ(softmax.floats("x"), once);
  EXPECT_EQ(nrt_execute_repeat(softmax.model, softmax.inputs, softmax.outputs, 0), NRT_INVALID);
  Loaded add(small_add());
  EXPECT_EQ(nrt_execute_repeat(add.model, add.inputs, add.outputs, 2), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("cannot be repeated"));
}

TEST_F(Execute, CountsExecutionsThatWroteATensor) {
  Loaded add(small_add());
  nrt_tensor_t* sum = add.tensors["sum"];
  EXPECT_EQ(nrt_tensor_check_output_completion(sum, 0, 1), NRT_TIMEOUT);
  std::thread waiter(
      [&] { EXPECT_EQ(nrt_tensor_check_output_completion(sum, 20'000'000, 3), NRT_SUCCESS); });
  for (int i = 0; i < 3; ++i) ASSERT_EQ(add.run(), NRT_SUCCESS);
  waiter.join();
  EXPECT_EQ(nrt_tensor_check_output_completion(sum, -1, 3), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_check_output_completion(add.tensors["a"], 0, 1), NRT_TIMEOUT);
  ASSERT_EQ(nrt_tensor_reset_output_completion(sum), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_check_output_completion(sum, 0, 1), NRT_TIMEOUT);
  EXPECT_EQ(nrt_tensor_check_output_completion(nullptr, 0, 1), NRT_INVALID);
}

TEST_F(Execute, ReportsModelTimeThatDoesNotVary) {
  Loaded add(small_add());
  nrt_open_execution_report_t first{}, later{};
  first.size = later.size = sizeof(first);
  EXPECT_EQ(nrt_open_get_execution_report(add.model, &first), NRT_FAILURE) << "not executed yet";
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  first.size = sizeof(first);
  ASSERT_EQ(nrt_open_get_execution_report(add.model, &first), NRT_SUCCESS);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(add.run(), NRT_SUCCESS);
  ASSERT_EQ(nrt_open_get_execution_report(add.model, &later), NRT_SUCCESS);
  EXPECT_GT(first.device_ps, 0u);
  EXPECT_EQ(later.device_ps, first.device_ps);
  EXPECT_EQ(later.exec_id, first.exec_id + 10);
  EXPECT_GT(later.host_ns, 0u);
  for (int e = 0; e < NRT_OPEN_ENGINES; ++e) {
    EXPECT_GT(later.engines[e].instructions, 0u) << e;
    EXPECT_GT(later.engines[e].busy_ps, 0u) << e;
    EXPECT_EQ(later.engines[e].busy_ps, first.engines[e].busy_ps) << e;
    EXPECT_LE(later.engines[e].busy_ps, later.device_ps) << e;
  }
}

TEST_F(Execute, ThreadsShareAModelAndACore) {
  Loaded add(small_add());
  Loaded other(small_add(), 1);
  add.fill("a", 1);
  add.fill("b", 1);
  other.fill("a", 2);
  other.fill("b", 2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) EXPECT_EQ((t % 2 ? add : other).run(), NRT_SUCCESS);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(add.floats("sum")[0], 2);
  EXPECT_EQ(other.floats("sum")[0], 4);
}

TEST_F(Execute, UnloadGivesMemoryBackAndKillsTheHandle) {
  const uint64_t before = used_bytes();
  nrt_model_t* model = nullptr;
  {
    Loaded add(small_add());
    ASSERT_EQ(add.run(), NRT_SUCCESS);
    EXPECT_GT(used_bytes(), before);
    model = add.model;
    ASSERT_EQ(nrt_unload(model), NRT_SUCCESS);
    EXPECT_EQ(nrt_unload(model), NRT_INVALID_HANDLE);
    EXPECT_EQ(add.run(), NRT_INVALID_HANDLE);
    add.model = nullptr;
  }
  EXPECT_EQ(used_bytes(), before);
}

TEST_F(Execute, LoadsWithoutACoreWhereThereIsLeast) {
  const Bytes neff = small_add();
  nrt_model_t* models[2] = {};
  uint32_t cores = 0;
  for (auto& model : models) {
    ASSERT_EQ(nrt_load(neff.data(), neff.size(), -1, -1, &model), NRT_SUCCESS);
    nrt_model_info_t info{};
    size_t size = 0;
    ASSERT_EQ(nrt_get_model_info(model, &info, sizeof(info), &size), NRT_SUCCESS);
    cores |= 1u << info.vnc;
  }
  EXPECT_EQ(cores, 3u);
  EXPECT_EQ(nrt_load(neff.data(), neff.size(), 2, 1, &models[0]), NRT_INVALID);
  EXPECT_EQ(nrt_load(neff.data(), neff.size(), 0, 2, &models[0]), NRT_LOAD_NOT_ENOUGH_NC);
}

TEST_F(Execute, TheFileMayBeReleasedAfterLoading) {
  Bytes neff = small_softmax();
  nrt_model_t* model = nullptr;
  Loaded softmax(neff);
  std::fill(neff.begin(), neff.end(), 0xEE);
  softmax.fill("x", 1);
  ASSERT_EQ(softmax.run(), NRT_SUCCESS);
  EXPECT_FLOAT_EQ(softmax.floats("y")[3], 1.0f / 16);
  EXPECT_EQ(model, nullptr);
}

TEST_F(Execute, NamesAMissingOrWrongTensor) {
  Loaded add(small_add());
  nrt_tensor_set_t* empty = nullptr;
  ASSERT_EQ(nrt_allocate_tensor_set(&empty), NRT_SUCCESS);
  EXPECT_EQ(nrt_execute(add.model, empty, add.outputs), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("input tensor 'a' of 8192 bytes"));
  nrt_tensor_t* small = make_tensor(100);
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(add.outputs, "sum", small), NRT_SUCCESS);
  EXPECT_EQ(add.run(), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("has 100 bytes; the model expects 8192"));
  nrt_tensor_t* elsewhere = make_tensor(8192, 1);
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(add.outputs, "sum", elsewhere), NRT_SUCCESS);
  EXPECT_EQ(add.run(), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("device 0 core 1"));
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(add.outputs, "sum", add.tensors["sum"]), NRT_SUCCESS);
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(add.inputs, "unknown", small), NRT_SUCCESS);
  EXPECT_EQ(add.run(), NRT_SUCCESS) << "extra names are ignored";
  EXPECT_EQ(nrt_execute(add.model, nullptr, add.outputs), NRT_INVALID);
}

}  // namespace
}  // namespace neuron::test
