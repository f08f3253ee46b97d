// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/host_driven.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/isa/instruction.h"
#include "tests/unit/runtime/collectives/fake_ccom.h"
#include "tests/unit/runtime/loaded_sample.h"

namespace neuron::runtime {
namespace {

using test::FakeCcom;
using test::LoadedSample;
using test::Setting;
using ::testing::HasSubstr;

class HostDriven : public ::testing::Test {
 protected:
  HostDriven() {
    fake_->program.code = code_.data();
    fake_->program.instructions = 1;
    world_ = *World::join(*sample_.core, 0, 1, std::make_shared<Meeting>(1), "",
                          std::chrono::seconds(5));
  }
  TensorView tensor(uint64_t size, uint64_t offset = 0) {
    return {*Storage::device(sample_.core->device(), sample_.core->number(), size + offset,
                             sample_.session->mappings, "t"),
            offset, size};
  }
  // Among so many ranks, of which this job has one.
  HostCollectiveRequest request(ccom_operation_t operation, std::vector<TensorView> inputs,
                                std::vector<TensorView> outputs) {
    return {operation, CCOM_FP32, CCOM_ADD, {0}, std::move(inputs), std::move(outputs)};
  }
  Result<std::shared_ptr<HostCollective>> prepare(const HostCollectiveRequest& wanted) {
    return HostCollective::prepare(*sample_.core, *sample_.session, world_, wanted);
  }
  std::string refusal(const HostCollectiveRequest& wanted) {
    const auto prepared = prepare(wanted);
    if (prepared) return "prepared";
    EXPECT_EQ(prepared.error().status, NRT_INVALID);
    return prepared.error().sentence;
  }
  static uint64_t address(const TensorView& view) {
    return view.storage->memory()->address() + view.offset;
  }
  std::byte* bytes(uint64_t at) { return sample_.machine.state.bytes_at(at); }

  const Setting emulator_{"NEURON_EMULATOR", nullptr};
  FakeCcom fake_;
  LoadedSample sample_;
  std::shared_ptr<World> world_;
  std::array<std::byte, NEURON_INSTRUCTION_BYTES> code_{};
};

TEST_F(HostDriven, ACollectiveIsOnTheTensorsThemselves) {
  const TensorView input = tensor(64, 128), output = tensor(64);
  const auto prepared = prepare(request(CCOM_ALL_GATHER, {input}, {output}));
  ASSERT_TRUE(prepared) << prepared.error().sentence;
  ASSERT_EQ(fake_->compiled.size(), 1u);
  const ccom_device_collective_t& c = fake_->compiled[0].collectives[0];
  EXPECT_EQ(c.operation, CCOM_ALL_GATHER);
  EXPECT_EQ(c.type, CCOM_FP32);
  EXPECT_EQ(c.count, 16u);
  EXPECT_EQ(c.size, 1u);
  EXPECT_EQ(fake_->compiled[0].members[0][0].input, address(input));
  EXPECT_EQ(fake_->compiled[0].members[0][0].output, address(output));
  EXPECT_EQ((*prepared)->model().name(), "host-driven all_gather");
}

TEST_F(HostDriven, ItsProgramTriggersTheFirstCollectiveCoreAndReturns) {
  const auto prepared = prepare(request(CCOM_ALL_REDUCE, {tensor(64)}, {tensor(64)}));
  ASSERT_TRUE(prepared);
  const EngineImage& sp = (*prepared)->model().image(NEURON_ENGINE_SP);
  ASSERT_EQ(sp.instructions - sp.wrapper, 2u);
  const auto at = [&](uint32_t n) {
    return isa::decode(
        isa::Bytes(sp.code.data() + size_t{sp.wrapper + n} * NEURON_INSTRUCTION_BYTES,
                   NEURON_INSTRUCTION_BYTES));
  };
  EXPECT_EQ(at(0).opcode, NEURON_OP_CC_TRIGGER);
  EXPECT_EQ(at(0).address.addr, sample_.core->place().cc_window(0) + NEURON_CC_SEMAPHORES +
                                    NEURON_SEM_BLOCK_INC + NEURON_CC_SEM_GO * 4);
  EXPECT_EQ(at(0).address.count, 1u);
  EXPECT_EQ(at(0).scalar0.value, 1u);
  EXPECT_EQ(at(1).opcode, NEURON_OP_RET);
}

TEST_F(HostDriven, SeveralTensorsOfASideGoThroughABuffer) {
  const TensorView a = tensor(16), b = tensor(48, 8), x = tensor(32, 4), y = tensor(32);
  const auto prepared = prepare(request(CCOM_ALL_REDUCE, {a, b}, {x, y}));
  ASSERT_TRUE(prepared) << prepared.error().sentence;
  const uint64_t from = fake_->compiled[0].members[0][0].input;
  const uint64_t to = fake_->compiled[0].members[0][0].output;
  EXPECT_EQ(sample_.machine.state.at_address(from).request.size, 64u);
  EXPECT_EQ(sample_.machine.state.at_address(to).request.size, 64u);
  std::memset(bytes(address(a)), 1, 16);
  std::memset(bytes(address(b)), 2, 48);
  std::memset(bytes(to), 3, 32);
  std::memset(bytes(to + 32), 4, 32);
  ASSERT_TRUE((*prepared)->run(*sample_.session));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(bytes(from)[i], std::byte(i < 16 ? 1 : 2)) << i;
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(bytes(address(x))[i], std::byte{3}) << i;
    EXPECT_EQ(bytes(address(y))[i], std::byte{4}) << i;
  }
  EXPECT_EQ(bytes(x.storage->memory()->address())[3], std::byte{0xAA}) << "before the view";
  EXPECT_EQ((*prepared)->device_ps(), 1000u);
}

TEST_F(HostDriven, APreparationThatIsKnownIsUsedAgain) {
  const HostCollectiveRequest wanted = request(CCOM_ALL_REDUCE, {tensor(64)}, {tensor(64)});
  const auto first = prepare(wanted);
  ASSERT_TRUE(first);
  const auto again = prepare(wanted);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *first);
  const auto differs = [&](auto change) {
    HostCollectiveRequest other = wanted;
    change(other);
    const auto made = prepare(other);
    return made && *made != *first;
  };
  EXPECT_TRUE(differs([](auto& r) { r.reduction = CCOM_MAX; }));
  EXPECT_TRUE(differs([](auto& r) { r.type = CCOM_INT32; }));
  EXPECT_TRUE(differs([](auto& r) { r.operation = CCOM_ALL_GATHER; }));
  EXPECT_TRUE(differs([&](auto& r) { r.inputs = {tensor(64)}; }));
  EXPECT_TRUE(differs([&](auto& r) { r.outputs = {tensor(64)}; }));
  EXPECT_TRUE(differs([](auto& r) { r.inputs[0].size = r.outputs[0].size = 32; }));
  EXPECT_TRUE(differs([](auto& r) {
    r.inputs[0].size = r.outputs[0].size = 32;
    r.inputs[0].offset = 32;
  }));
}

TEST_F(HostDriven, APreparationWhoseTensorWasFreedIsUsableNoMore) {
  for (const bool input : {true, false}) {
    auto wanted = request(CCOM_ALL_REDUCE, {tensor(64)}, {tensor(64)});
    const auto prepared = prepare(wanted);
    ASSERT_TRUE(prepared);
    EXPECT_TRUE((*prepared)->usable());
    (input ? wanted.inputs : wanted.outputs).clear();
    EXPECT_FALSE((*prepared)->usable());
  }
  auto wanted = request(CCOM_ALL_REDUCE, {tensor(32), tensor(32)}, {tensor(64)});
  const auto prepared = prepare(wanted);
  ASSERT_TRUE(prepared);
  wanted.inputs.clear();
  const auto run = (*prepared)->run(*sample_.session);
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().status, NRT_INVALID_HANDLE);
}

TEST_F(HostDriven, APreparationThatLostItsRanksIsMadeAnew) {
  const auto wanted = request(CCOM_ALL_REDUCE, {tensor(64)}, {tensor(64)});
  const auto first = prepare(wanted);
  ASSERT_TRUE(first);
  sample_.core->lose_collectives();
  EXPECT_FALSE((*first)->usable());
  const auto second = prepare(wanted);
  ASSERT_TRUE(second);
  EXPECT_NE(*second, *first);
  EXPECT_TRUE((*second)->usable());
}

TEST_F(HostDriven, SizesOfBothSidesFollowFromEachOther) {
  EXPECT_EQ(refusal(request(CCOM_ALL_REDUCE, {tensor(64)}, {tensor(60)})),
            "all_reduce of float32 among 1 ranks has 64 bytes of input and 60 of output; the one "
            "must follow from the other");
  EXPECT_NE(refusal(request(CCOM_ALL_REDUCE, {tensor(62)}, {tensor(62)})), "prepared")
      << "no whole elements";
  EXPECT_EQ(refusal(request(CCOM_REDUCE_SCATTER, {tensor(64)}, {tensor(64)})), "prepared");
  EXPECT_NE(refusal(request(CCOM_REDUCE_SCATTER, {tensor(128)}, {tensor(64)})), "prepared");
  EXPECT_EQ(refusal(request(CCOM_ALL_REDUCE, {}, {tensor(64)})), "the input list has no tensor");
  EXPECT_EQ(refusal(request(CCOM_ALL_REDUCE, {tensor(64)}, {})), "the output list has no tensor");
}

TEST_F(HostDriven, TensorsLieInTheMemoryOfTheCore) {
  TensorView elsewhere = tensor(64);
  elsewhere.storage =
      *Storage::device(sample_.core->device(), 1, 64, sample_.session->mappings, "t");
  EXPECT_EQ(refusal(request(CCOM_ALL_REDUCE, {tensor(64)}, {elsewhere})),
            "output tensor 0 is in memory of device 0 core 1, this rank is on device 0 core 0");
  EXPECT_THAT(refusal(request(CCOM_ALL_REDUCE, {tensor(32), TensorView{}}, {tensor(64)})),
              HasSubstr("input tensor 1 is not in device memory"));
}

TEST(HostDrivenTypes, EachTypeOfTheRuntimeIsOneOfTheLibrary) {
  for (const auto& [ours, theirs] : {std::pair{NRT_DTYPE_UINT8, CCOM_UINT8},
                                     {NRT_DTYPE_INT8, CCOM_INT8},
                                     {NRT_DTYPE_FP8_E3, CCOM_FP8_E3},
                                     {NRT_DTYPE_FP8_E4, CCOM_FP8_E4},
                                     {NRT_DTYPE_FP8_E5, CCOM_FP8_E5},
                                     {NRT_DTYPE_UINT16, CCOM_UINT16},
                                     {NRT_DTYPE_INT16, CCOM_INT16},
                                     {NRT_DTYPE_FLOAT16, CCOM_FP16},
                                     {NRT_DTYPE_BFLOAT16, CCOM_BF16},
                                     {NRT_DTYPE_UINT32, CCOM_UINT32},
                                     {NRT_DTYPE_INT32, CCOM_INT32},
                                     {NRT_DTYPE_FLOAT32, CCOM_FP32},
                                     {NRT_DTYPE_FP32R, CCOM_FP32},
                                     {NRT_DTYPE_UINT64, CCOM_UINT64},
                                     {NRT_DTYPE_INT64, CCOM_INT64},
                                     {NRT_DTYPE_UNKNOWN, CCOM_TYPE_COUNT}}) {
    EXPECT_EQ(collective_type_of(ours), theirs) << ours;
  }
}

}  // namespace
}  // namespace neuron::runtime
