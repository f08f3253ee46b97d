// SPDX-License-Identifier: Apache-2.0
//
// Bad files and bad programs: the status, the sentence, and a runtime that goes on working.
#include <chrono>

#include "tests/system/api/support.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::test {
namespace {

class BadInput : public RuntimeTest {
 protected:
  // Another model works on the same core.
  static void expect_working() {
    Loaded add(small_add());
    add.fill("a", 20);
    add.fill("b", 22);
    ASSERT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
    EXPECT_EQ(add.floats("sum"), std::vector<float>(128 * 16, 42));
  }
  static NRT_STATUS load(const Bytes& bytes) {
    nrt_model_t* model = nullptr;
    const NRT_STATUS status = nrt_load(bytes.data(), bytes.size(), 0, 1, &model);
    if (status == NRT_SUCCESS) nrt_unload(model);
    return status;
  }
};

TEST_F(BadInput, DeadlockIsFoundAtOnceAndNamesTheWaits) {
  Loaded model(bytes_of(kernels::deadlock()));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(model.run(), NRT_TIMEOUT);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("device 0 core 0"));
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("PE"));
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("200"));
  expect_working();
  EXPECT_EQ(model.run(), NRT_TIMEOUT) << "the program is put back after the reset";
  expect_working();
}

TEST_F(BadInput, EndlessProgramMeetsTheModelTimeLimit) {
  nrt_close();
  Setting limit("NEURON_OPEN_MODEL_TIME_LIMIT_US", "100");
  init();
  Loaded model(bytes_of(kernels::endless_loop()));
  EXPECT_EQ(model.run(), NRT_TIMEOUT);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("TIME_LIMIT"));
  expect_working();
}

TEST_F(BadInput, EndlessProgramMeetsTheHostDeadline) {
  nrt_close();
  Setting limit("NEURON_RT_EXEC_TIMEOUT", "1");
  init();
  Loaded model(bytes_of(kernels::endless_loop()));
  EXPECT_EQ(model.run(), NRT_TIMEOUT);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("after 1 s"));
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("Pool"));
  expect_working();
}

TEST_F(BadInput, StoreToNowhereIsABusFault) {
  Loaded model(bytes_of(kernels::bad_address()));
  EXPECT_EQ(model.run(), NRT_EXEC_COMPLETED_WITH_ERR);
  const std::string sentence = nrt_open_last_error();
  EXPECT_THAT(sentence, HasSubstr("device 0 core 0"));
  EXPECT_THAT(sentence, HasSubstr("SP pc 1"));
  EXPECT_THAT(sentence, HasSubstr("write"));
  EXPECT_THAT(sentence, HasSubstr("0xf00000000"));
  expect_working();
}

TEST_F(BadInput, MultiplicationWithoutWeightsIsRefusedAtRun) {
  Loaded model(bytes_of(kernels::no_weights()));
  EXPECT_EQ(model.run(), NRT_EXEC_COMPLETED_WITH_ERR);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("PE pc 0 (no_weights/fault:2)"));
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("matmul"));
  expect_working();
}

TEST_F(BadInput, BrokenOperandRuleIsFoundAtLoad) {
  EXPECT_EQ(load(bytes_of(kernels::bad_partition())), NRT_INVALID);
  const std::string sentence = nrt_open_last_error();
  EXPECT_THAT(sentence, HasSubstr("DVE pc 1"));
  EXPECT_THAT(sentence, HasSubstr("memset"));
  EXPECT_THAT(sentence, HasSubstr("rule R1"));
  expect_working();
}

TEST_F(BadInput, BrokenOperandRuleOfARegisterIsFoundAtRun) {
  builder::Program program("bound");
  program.section("fault");
  isa::Instruction mov;
  mov.opcode = NEURON_OP_MOV;
  mov.scalar0 = {8, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_U32, 0, 0};
  mov.flow.rd = 3;
  program.raw(builder::Engine::kDve, mov);
  isa::Instruction memset;
  memset.opcode = NEURON_OP_MEMSET;
  memset.dst.space = NEURON_SPACE_SBUF;
  memset.dst.parts = 8;
  memset.dst.dtype = NEURON_DTYPE_F32;
  memset.dst.ndim = 1;
  memset.dst.size[0] = 16;
  memset.dst.step[0] = 1;
  memset.bind[0] = {3, NEURON_BIND_START, 0, NEURON_BIND_REPLACE};
  program.raw(builder::Engine::kDve, memset);
  Loaded model(bytes_of(program.build()));
  EXPECT_EQ(model.run(), NRT_EXEC_COMPLETED_WITH_ERR);
  const std::string sentence = nrt_open_last_error();
  EXPECT_THAT(sentence, HasSubstr("OPERAND_PARTITION"));
  EXPECT_THAT(sentence, HasSubstr("DVE pc 1"));
  EXPECT_THAT(sentence, HasSubstr("rule R1"));
  EXPECT_THAT(sentence, HasSubstr("0x8"));
  expect_working();
}

TEST_F(BadInput, UnknownOpcodeIsFoundAtLoad) {
  EXPECT_EQ(load(bytes_of(kernels::illegal_opcode())), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("Activation pc 1"));
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("ILLEGAL_OPCODE"));
  expect_working();
}

TEST_F(BadInput, DamagedFilesAreRefusedAndLeaveNothingBehind) {
  const uint64_t before = used_bytes();
  const Bytes good = small_add();
  EXPECT_EQ(load({}), NRT_INVALID);
  EXPECT_EQ(load(Bytes(good.begin(), good.begin() + 100)), NRT_INVALID);
  EXPECT_EQ(load(Bytes(good.begin(), good.begin() + 1024)), NRT_INVALID);
  EXPECT_EQ(load(Bytes(good.begin(), good.end() - 1)), NRT_INVALID);
  EXPECT_EQ(load(pattern(4096)), NRT_INVALID);
  Bytes bits = good;
  bits[544 + 1] |= 1;  // feature bit 8
  EXPECT_EQ(load(bits), NRT_UNSUPPORTED_NEFF_VERSION);
  Bytes vendor = good;
  vendor[544 + 6] = 0;  // without the bit of our programs
  EXPECT_EQ(load(vendor), NRT_UNSUPPORTED_NEFF_VERSION);
  EXPECT_STRNE(nrt_open_last_error(), "");
  Bytes lnc = good;
  lnc[552] = 2;
  EXPECT_NE(load(lnc), NRT_SUCCESS);
  for (size_t at = 1024; at < good.size(); at += 37) {
    Bytes flipped = good;
    flipped[at] ^= 0x10;
    load(flipped);
  }
  EXPECT_EQ(used_bytes(), before);
  expect_working();
}

TEST_F(BadInput, HashIsCheckedWhenAskedFor) {
  nrt_close();
  Setting check("NEURON_RT_VALIDATE_HASH", "true");
  init();
  Bytes wrong = small_add();
  EXPECT_EQ(load(wrong), NRT_SUCCESS) << nrt_open_last_error();
  wrong[172] ^= 1;
  EXPECT_EQ(load(wrong), NRT_INVALID);
}

TEST_F(BadInput, AllocationBeyondHbmIsNamedAndRecoverable) {
  std::vector<nrt_tensor_t*> tensors;
  NRT_STATUS status = NRT_SUCCESS;
  while (status == NRT_SUCCESS && tensors.size() < 20) {
    nrt_tensor_t* tensor = nullptr;
    status = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 1ull << 30, "weights", &tensor);
    if (status == NRT_SUCCESS) tensors.push_back(tensor);
  }
  EXPECT_EQ(status, NRT_RESOURCE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("1073741824 bytes of HBM for tensor 'weights'"));
  for (auto& tensor : tensors) nrt_tensor_free(&tensor);
  expect_working();
}

TEST_F(BadInput, LongNamesAndManyHandlesAreHarmless) {
  const std::string name(100'000, 'x');
  nrt_tensor_t* tensor = make_tensor(64, 0, NRT_TENSOR_PLACEMENT_VIRTUAL, name.c_str());
  uint8_t byte = 0;
  EXPECT_EQ(nrt_tensor_read(tensor, &byte, 64, 1), NRT_INVALID);
  nrt_tensor_set_t* set = nullptr;
  ASSERT_EQ(nrt_allocate_tensor_set(&set), NRT_SUCCESS);
  EXPECT_EQ(nrt_add_tensor_to_tensor_set(set, name.c_str(), tensor), NRT_SUCCESS);
  for (uint64_t bits = 1; bits != 0; bits <<= 1) {
    EXPECT_NE(nrt_unload(reinterpret_cast<nrt_model_t*>(bits)), NRT_SUCCESS);
  }
  expect_working();
}

}  // namespace
}  // namespace neuron::test
