// SPDX-License-Identifier: Apache-2.0
// Loading from a file: the same model as from memory, with large constants streamed, and a sentence
// for every file that is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nrt/nrt_open.h>
#include <nrt/nrt_profile.h>

#include <cstring>
#include <filesystem>

#include "runtime/neff/container.h"
#include "runtime/neff/neff_writer.h"
#include "tests/support/files.h"
#include "tests/support/setting.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::api_test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kRows = 128, kColumns = 4096, kCount = 2;  // 2 MiB each
constexpr size_t kFileBytes = size_t{kRows} * kColumns * sizeof(float);

std::vector<uint8_t> numbers(uint32_t seed) {
  std::vector<uint8_t> bytes(kFileBytes);
  for (size_t i = 0; i < kFileBytes / 4; ++i) {
    const auto value = static_cast<float>((i * 2654435761u + seed) >> 9);
    std::memcpy(&bytes[i * 4], &value, 4);
  }
  return bytes;
}

// Copies two constants to two outputs; not compressed.
std::vector<uint8_t> make_neff() {
  builder::Program program("large");
  for (uint32_t i = 0; i < kCount; ++i) {
    const std::string number = std::to_string(i);
    const auto constant =
        program.constant("c" + number, NEURON_DTYPE_F32, {kRows, kColumns}, numbers(i));
    const auto output = program.output("y" + number, NEURON_DTYPE_F32, {kRows, kColumns});
    const auto tile = program.sbuf("t" + number, kRows, kColumns, NEURON_DTYPE_F32);
    program.dma(builder::Engine::kSp, tile.all(), constant.all());
    program.dma(builder::Engine::kSp, output.all(), tile.all());
  }
  const auto packed = program.build();
  if (!packed) return {};
  const auto container = neff::Container::open(*packed);
  tools::NeffMembers members;
  for (const neff::Member& member : container->members()) {
    members[member.name].assign(member.bytes.begin(), member.bytes.end());
  }
  const auto plain =
      tools::write_neff(members, {.name = "large", .build_version = "1", .compress = false});
  return plain ? *plain : std::vector<uint8_t>();
}

const std::vector<uint8_t>& large_neff() {
  static const std::vector<uint8_t> neff = make_neff();
  return neff;
}

class LoadFile : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
  }
  void TearDown() override { nrt_close(); }
  std::string write(const std::vector<uint8_t>& bytes) const {
    return folder_.write("model.neff", std::span<const uint8_t>(bytes));
  }
  void expect_numbers(nrt_model_t* model) {
    nrt_tensor_set_t *in = nullptr, *out = nullptr;
    nrt_tensor_t* y[kCount] = {};
    nrt_allocate_tensor_set(&in);
    nrt_allocate_tensor_set(&out);
    for (uint32_t i = 0; i < kCount; ++i) {
      nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, kFileBytes, "y", &y[i]);
      nrt_add_tensor_to_tensor_set(out, ("y" + std::to_string(i)).c_str(), y[i]);
    }
    ASSERT_EQ(nrt_execute(model, in, out), NRT_SUCCESS) << nrt_open_last_error();
    std::vector<uint8_t> bytes(kFileBytes);
    for (uint32_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(nrt_tensor_read(y[i], bytes.data(), 0, kFileBytes), NRT_SUCCESS);
      EXPECT_TRUE(bytes == numbers(i)) << i;
      nrt_tensor_free(&y[i]);
    }
    nrt_destroy_tensor_set(&in);
    nrt_destroy_tensor_set(&out);
  }

  const test::Setting emulator_{"NEURON_EMULATOR", "trn1.2xlarge"};
  const test::Folder folder_;
};

TEST_F(LoadFile, GivesTheConstantsOfTheFile) {
  const std::string path = write(large_neff());
  nrt_model_t* model = nullptr;
  ASSERT_EQ(nrt_open_load_file(path.c_str(), 0, -1, &model), NRT_SUCCESS) << nrt_open_last_error();
  expect_numbers(model);
  nrt_unload(model);
}

// What a load told.
struct Told {
  std::vector<std::pair<uint64_t, uint64_t>> calls;
  size_t most = 1000;  // calls that it answers with a yes
};

int listen(void* context, uint64_t done, uint64_t total) {
  auto& told = *static_cast<Told*>(context);
  told.calls.emplace_back(done, total);
  return told.calls.size() <= told.most ? 1 : 0;
}

TEST_F(LoadFile, TellsHowFarItIs) {
  const std::string path = write(large_neff());
  Told told;
  nrt_model_t* model = nullptr;
  ASSERT_EQ(nrt_open_load_file_with_progress(path.c_str(), 0, -1, listen, &told, &model),
            NRT_SUCCESS)
      << nrt_open_last_error();
  ASSERT_FALSE(told.calls.empty());
  uint64_t before = 0;
  for (const auto& [done, total] : told.calls) {
    EXPECT_EQ(total, kCount * kFileBytes);
    EXPECT_GT(done, before);
    before = done;
  }
  EXPECT_EQ(before, kCount * kFileBytes);
  expect_numbers(model);
  nrt_unload(model);
  EXPECT_EQ(nrt_open_load_file_with_progress(path.c_str(), 0, -1, nullptr, &told, &model),
            NRT_INVALID);
}

TEST_F(LoadFile, EndsWhenItsListenerSaysNoAndLeavesNothing) {
  const std::string path = write(large_neff());
  const auto bytes_in_use = [] {
    nrt_open_memory_usage_t usage[64];
    for (auto& entry : usage) entry.size = sizeof(entry);
    size_t count = 64;
    EXPECT_EQ(nrt_open_get_memory_usage(0, usage, &count), NRT_SUCCESS) << nrt_open_last_error();
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += usage[i].bytes;
    return bytes;
  };
  nrt_model_t* model = nullptr;
  ASSERT_EQ(nrt_open_load_file(path.c_str(), 0, -1, &model), NRT_SUCCESS) << nrt_open_last_error();
  nrt_unload(model);
  const uint64_t before = bytes_in_use();
  Told told;
  told.most = 0;
  model = nullptr;
  EXPECT_EQ(nrt_open_load_file_with_progress(path.c_str(), 0, -1, listen, &told, &model),
            NRT_FAILURE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("the caller has ended the load when "));
  EXPECT_EQ(told.calls.size(), 1u);
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(bytes_in_use(), before);
}

TEST_F(LoadFile, ChecksTheHashOfTheWholeFileIfAsked) {
  nrt_close();
  const test::Setting validate("NEURON_RT_VALIDATE_HASH", "1");
  ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  std::vector<uint8_t> bytes = large_neff();
  nrt_model_t* model = nullptr;
  ASSERT_EQ(nrt_open_load_file(write(bytes).c_str(), 0, -1, &model), NRT_SUCCESS)
      << nrt_open_last_error();
  expect_numbers(model);
  nrt_unload(model);
  bytes[bytes.size() / 2] ^= 1;  // within an array
  EXPECT_EQ(nrt_open_load_file(write(bytes).c_str(), 0, -1, &model), NRT_INVALID);
}

TEST_F(LoadFile, AnInspectSessionKeepsTheWholeFileWithTheArraysThatWereStreamed) {
  nrt_inspect_config_t* options = nullptr;
  ASSERT_EQ(nrt_inspect_config_allocate(&options), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_output_dir(options, folder_.path("out").c_str()), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_enable_inspect(options, true), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_begin_with_options(options), NRT_SUCCESS) << nrt_open_last_error();
  nrt_inspect_config_free(options);
  const std::string path = write(large_neff());
  nrt_model_t* model = nullptr;
  ASSERT_EQ(nrt_open_load_file(path.c_str(), 0, -1, &model), NRT_SUCCESS) << nrt_open_last_error();
  nrt_unload(model);
  ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS) << nrt_open_last_error();
  size_t copies = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path("out"))) {
    if (entry.path().extension() != ".neff") continue;
    ++copies;
    EXPECT_TRUE(test::read_file(entry.path()) == test::read_file(path)) << entry.path();
  }
  EXPECT_EQ(copies, 1u);
}

TEST_F(LoadFile, SaysWhyAFileIsNone) {
  nrt_model_t* model = nullptr;
  EXPECT_EQ(nrt_open_load_file(folder_.path("none").c_str(), 0, -1, &model), NRT_FAILURE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("cannot be opened"));
  EXPECT_EQ(nrt_open_load_file(folder_.path().c_str(), 0, -1, &model), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("no regular file"));
  EXPECT_EQ(nrt_open_load_file(write({}).c_str(), 0, -1, &model), NRT_INVALID);
  EXPECT_EQ(nrt_open_load_file(write({1, 2, 3}).c_str(), 0, -1, &model), NRT_INVALID);
  EXPECT_EQ(nrt_open_load_file(nullptr, 0, -1, &model), NRT_INVALID);
  std::vector<uint8_t> cut = large_neff();
  cut.resize(cut.size() / 2);
  EXPECT_NE(nrt_open_load_file(write(cut).c_str(), 0, -1, &model), NRT_SUCCESS);
}

}  // namespace
}  // namespace neuron::api_test
