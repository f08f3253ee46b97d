// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/process_record.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/child.h"

namespace neuron::runtime {
namespace {

uint64_t packed(unsigned major, unsigned minor, unsigned build) {
  nmetric_version_t version;
  version.all = 0;
  version.major_ver = major & 0xFF;
  version.minor_ver = minor & 0xFF;
  version.build_num = build;
  return version.all;
}

class Record : public ::testing::Test {
 protected:
  void attach(const std::string& tag = "night") {
    record_.attach(base(), {packed(2, 31, 4), packed(1, 2, 3), packed(5, 6, 7), 9}, tag);
  }
  char* base() { return reinterpret_cast<char*>(block_.data()); }
  template <class T>
  T object(size_t slot) {
    T value{};
    std::memcpy(&value, base() + slot + sizeof(nds_slot_t), sizeof(value));
    return value;
  }
  nds_slot_t header(size_t slot) {
    nds_slot_t value{};
    std::memcpy(&value, base() + slot, sizeof(value));
    return value;
  }
  static size_t model_slot(int number) {
    return NDS_SLOT_MODELS + static_cast<size_t>(number) * NDS_SLOT_MODEL_STRIDE;
  }
  // Bytes in host memory by use: code, tensors, constants, scratchpad, others.
  std::array<uint64_t, 5> host() {
    std::array<uint64_t, 5> uses{};
    std::copy_n(NDS_ND_COUNTERS(base()) + NDS_ND_COUNTER_MEM_USAGE_CODE_HOST, 5, uses.begin());
    return uses;
  }
  std::array<uint64_t, 5> device(unsigned core) {
    const uint64_t* words =
        core < NDS_MAX_NEURONCORE_COUNT
            ? NDS_NEURONCORE_COUNTERS(base(), core)
            : NDS_EXT_NEURONCORE_NC_DATA(base(), core - NDS_MAX_NEURONCORE_COUNT);
    std::array<uint64_t, 5> uses{};
    std::copy_n(words + NDS_NC_COUNTER_MEM_USAGE_CODE_DEVICE, 5, uses.begin());
    return uses;
  }
  using Uses = std::array<uint64_t, 5>;

  std::vector<uint64_t> block_ = std::vector<uint64_t>(NDS_BLOCK_BYTES / sizeof(uint64_t));
  ProcessRecord record_;
};

TEST_F(Record, TellsTheVersionsAndTheTagOfTheProcess) {
  attach();
  EXPECT_STREQ(base(), "nds");
  nds_header_t header{};
  std::memcpy(&header, base(), sizeof(header));
  EXPECT_EQ(header.version, 1);
  const uint64_t* counters = NDS_ND_COUNTERS(base());
  EXPECT_EQ(counters[NDS_ND_COUNTER_RUNTIME_VERSION], packed(2, 31, 4));
  EXPECT_EQ(counters[NDS_ND_COUNTER_FRAMEWORK_VERSION], packed(1, 2, 3));
  EXPECT_EQ(counters[NDS_ND_COUNTER_FAL_VERSION], packed(5, 6, 7));
  const auto process = object<nds_process_info_t>(NDS_SLOT_PROCESS);
  EXPECT_EQ(process.framework_type, 9);
  EXPECT_EQ(process.runtime_version.major, 2);
  EXPECT_EQ(process.runtime_version.minor, 31);
  EXPECT_EQ(process.runtime_version.build, 4u);
  EXPECT_EQ(process.framework_version.major, 1);
  EXPECT_EQ(process.fal_version.minor, 6);
  EXPECT_STREQ(process.tag, "night");
  EXPECT_STREQ(object<nds_process_info_ext_t>(NDS_SLOT_PROCESS_EXT).tag, "night");
  EXPECT_STREQ(NDS_OPEN_HEADER(base())->signature, NDS_OPEN_SIGNATURE);
  EXPECT_EQ(NDS_OPEN_HEADER(base())->version, NDS_OPEN_VERSION);
  EXPECT_EQ(NDS_OPEN_HEADER(base())->core_bytes, sizeof(nds_open_core_t));
  EXPECT_EQ(NDS_OPEN_HEADER(base())->latency_step, 4u);
}

TEST_F(Record, ALongTagIsCutToItsPlace) {
  attach(std::string(1000, 't'));
  const auto process = object<nds_process_info_t>(NDS_SLOT_PROCESS);
  EXPECT_EQ(std::string(process.tag), std::string(sizeof(process.tag) - 1, 't'));
  const auto extended = object<nds_process_info_ext_t>(NDS_SLOT_PROCESS_EXT);
  EXPECT_EQ(std::string(extended.tag), std::string(sizeof(extended.tag) - 1, 't'));
}

TEST_F(Record, AnObjectThatIsPublishedHasAnEvenNumber) {
  attach();
  for (const size_t slot : {size_t{NDS_SLOT_PROCESS}, size_t{NDS_SLOT_PROCESS_EXT}}) {
    EXPECT_EQ(header(slot).state, uint32_t{NDS_SLOT_PUBLISHED});
    EXPECT_EQ(header(slot).sequence, 2u);
  }
  attach();
  EXPECT_EQ(header(NDS_SLOT_PROCESS).sequence, 4u) << "a reader sees that it has changed";
}

TEST_F(Record, MemoryIsCountedInPagesByItsUse) {
  attach();
  const std::pair<uint32_t, int> categories[] = {
      {NEURON_MEMALLOC_TYPE_CODE_DEVICE, 0},
      {NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, 1},
      {NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE, 2},
      {NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE, 3},
      {NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE, 3},
      {NEURON_MEMALLOC_TYPE_SCRATCHPAD_NONSHARED_DEVICE, 3},
      {NEURON_MEMALLOC_TYPE_MISC_DEVICE, 4},
      {NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE, 4}};
  Uses expected{};
  for (const auto& [category, use] : categories) {
    record_.memory_changed(false, 1, category, 4097);
    expected[use] += 8192;
    EXPECT_EQ(device(1), expected) << category;
  }
  EXPECT_EQ(host(), Uses{});
  EXPECT_EQ(device(0), Uses{});
  Uses in_host{};
  for (const auto& [category, use] : {std::pair<uint32_t, int>{NEURON_MEMALLOC_TYPE_CODE_HOST, 0},
                                      {NEURON_MEMALLOC_TYPE_DMA_RINGS_HOST, 0},
                                      {NEURON_MEMALLOC_TYPE_TENSORS_HOST, 1},
                                      {NEURON_MEMALLOC_TYPE_CONSTANTS_HOST, 2},
                                      {NEURON_MEMALLOC_TYPE_MISC_HOST, 4}}) {
    record_.memory_changed(true, 0, category, 4096);
    in_host[use] += 4096;
    EXPECT_EQ(host(), in_host) << category;
  }
  record_.memory_changed(false, 1, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, -4097);
  expected[1] = 0;
  EXPECT_EQ(device(1), expected) << "what goes takes its pages along";
  record_.memory_changed(false, NDS_OPEN_CORES, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, 1);
  EXPECT_EQ(device(1), expected) << "there is no such core";
}

TEST_F(Record, TheLastCoreHasItsWordsToo) {
  record_.memory_changed(false, NDS_OPEN_CORES - 1, NEURON_MEMALLOC_TYPE_CODE_DEVICE, 1);
  record_.memory_changed(false, NDS_MAX_NEURONCORE_COUNT, NEURON_MEMALLOC_TYPE_CODE_DEVICE, 9000);
  attach();
  EXPECT_EQ(device(NDS_OPEN_CORES - 1)[0], 4096u);
  EXPECT_EQ(device(NDS_MAX_NEURONCORE_COUNT)[0], 12288u);
}

TEST_F(Record, MemoryOfBeforeIsToldWhenTheRecordIsAttached) {
  record_.memory_changed(true, 0, NEURON_MEMALLOC_TYPE_TENSORS_HOST, 5000);
  record_.memory_changed(false, 1, NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE, 100);
  attach();
  EXPECT_EQ(host(), (Uses{0, 8192, 0, 0, 0}));
  EXPECT_EQ(device(1), (Uses{0, 0, 4096, 0, 0}));
  record_.detach();
  record_.memory_changed(true, 0, NEURON_MEMALLOC_TYPE_TENSORS_HOST, -5000);
  EXPECT_EQ(host(), (Uses{0, 8192, 0, 0, 0})) << "it may be another's by now";
  attach();
  EXPECT_EQ(host(), Uses{});
}

TEST_F(Record, AModelHasASlotUntilItIsRemoved) {
  attach();
  nds_model_bytes_t model{};
  model.info.model_id = 17;
  const int first = record_.add_model(model);
  model.info.model_id = 18;
  const int second = record_.add_model(model);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  EXPECT_EQ(object<nds_model_bytes_t>(model_slot(1)).info.model_id, 18u);
  EXPECT_EQ(header(model_slot(0)).state, uint32_t{NDS_SLOT_PUBLISHED});
  EXPECT_EQ(header(model_slot(0)).sequence, 2u);
  record_.remove_model(first);
  EXPECT_EQ(header(model_slot(0)).state, uint32_t{NDS_SLOT_FREE});
  EXPECT_EQ(header(model_slot(0)).sequence, 4u) << "a reader that copies sees that it has changed";
  EXPECT_EQ(header(model_slot(1)).state, uint32_t{NDS_SLOT_PUBLISHED});
  EXPECT_EQ(record_.add_model(model), 0) << "the slot is free again";
}

TEST_F(Record, ASlotThatTheProgramItselfHasTakenIsLeftAlone) {
  attach();
  reinterpret_cast<nds_slot_t*>(base() + model_slot(0))->state = NDS_SLOT_TAKEN;
  EXPECT_EQ(record_.add_model({}), 1);
}

TEST_F(Record, ModelsBeyondTheLastSlotAreNotTold) {
  attach();
  for (size_t i = 0; i < NDS_SLOT_MODEL_COUNT; ++i) {
    ASSERT_EQ(record_.add_model({}), static_cast<int>(i));
  }
  EXPECT_EQ(record_.add_model({}), -1);
  record_.remove_model(-1);
  record_.remove_model(static_cast<int>(NDS_SLOT_MODEL_COUNT));
  EXPECT_EQ(record_.add_model({}), -1) << "neither was a slot";
  record_.remove_model(static_cast<int>(NDS_SLOT_MODEL_COUNT) - 1);
  EXPECT_EQ(record_.add_model({}), static_cast<int>(NDS_SLOT_MODEL_COUNT) - 1);
}

TEST_F(Record, NothingIsWrittenWithoutADatastoreOrInAChild) {
  EXPECT_EQ(record_.add_model({}), -1);
  record_.remove_model(0);
  attach();
  test::Child child = test::Child::forked([&] {
    const std::vector<uint64_t> before = block_;
    record_.memory_changed(true, 0, NEURON_MEMALLOC_TYPE_TENSORS_HOST, 5000);
    const int slot = record_.add_model({});
    record_.remove_model(0);
    return slot == -1 && block_ == before ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace neuron::runtime
