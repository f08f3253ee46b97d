// SPDX-License-Identifier: Apache-2.0
// What a server makes of the tensors that a NEFF has.
#include "tools/neuron-serve/message/model_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace neuron::serve {
namespace {

using ::testing::HasSubstr;

struct Given {
  const char* name;
  bool input;
  nrt_dtype_t dtype;
  std::vector<uint32_t> shape;
  size_t bytes;
};

bool take(ModelSpec& spec, std::vector<Given> tensors, std::string& error) {
  const size_t bytes = sizeof(nrt_tensor_info_array_t) + tensors.size() * sizeof(nrt_tensor_info_t);
  const auto room = std::make_unique<uint64_t[]>(bytes / 8 + 1);
  auto* const info = reinterpret_cast<nrt_tensor_info_array_t*>(room.get());
  info->tensor_count = tensors.size();
  for (size_t i = 0; i < tensors.size(); ++i) {
    nrt_tensor_info_t& entry = info->tensor_array[i];
    std::strncpy(entry.name, tensors[i].name, sizeof(entry.name) - 1);
    entry.usage = tensors[i].input ? NRT_TENSOR_USAGE_INPUT : NRT_TENSOR_USAGE_OUTPUT;
    entry.dtype = tensors[i].dtype;
    entry.size = tensors[i].bytes;
    entry.shape = tensors[i].shape.data();
    entry.ndim = static_cast<uint32_t>(tensors[i].shape.size());
  }
  return spec.set_tensors(*info, error);
}

TEST(ModelSpec, RefusesTensorsOfNoWholeNumberOfElements) {
  for (const size_t bytes : {0u, 7u}) {
    ModelSpec spec;
    spec.name = "m";
    std::string error;
    EXPECT_FALSE(take(spec, {{"x", true, NRT_DTYPE_FLOAT32, {0, 2}, bytes}}, error));
    EXPECT_THAT(error, HasSubstr("no number of elements of type float32"));
  }
}

// Programs for several batch sizes run the same requests.
TEST(ModelSpec, NamesTheTensorWhoseRowsAreOthers) {
  const auto spec = [](uint32_t batch, uint32_t columns, const char* first, const char* second) {
    ModelSpec made;
    made.name = "m";
    made.batched = true;
    std::string error;
    EXPECT_TRUE(take(made,
                     {{first, true, NRT_DTYPE_FLOAT32, {batch, 4}, batch * 16},
                      {second, true, NRT_DTYPE_FLOAT32, {batch, 4}, batch * 16},
                      {"y", false, NRT_DTYPE_FLOAT32, {batch, columns}, batch * columns * 4}},
                     error))
        << error;
    return made;
  };
  const ModelSpec one = spec(1, 3, "a", "b");
  EXPECT_EQ(spec(8, 3, "a", "b").other_rows(one), "");
  EXPECT_EQ(spec(8, 8, "a", "b").other_rows(one), "tensor 'y'");
  // In another order the rows of one would be taken for those of the other.
  EXPECT_EQ(spec(8, 3, "b", "a").other_rows(one), "tensor 'b'");
}

}  // namespace
}  // namespace neuron::serve
