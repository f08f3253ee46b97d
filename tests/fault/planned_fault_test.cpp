// SPDX-License-Identifier: Apache-2.0
// The table of faults, through the C interface on an embedded device: what a client is told, and
// that the next client finds everything as it should be.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ndl/ndl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "driver/ndl/port.h"
#include "hw/address_map.h"
#include "hw/control.h"
#include "tests/support/files.h"
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Not;

// A plan in a file that NEURON_EMULATOR_FAULTS names, and a runtime that was initialised under it.
class PlannedFault : public ::testing::Test {
 protected:
  PlannedFault()
      : emulator_("NEURON_EMULATOR", "trn1.2xlarge"),
        library_("NEURON_EMULATOR_LIBRARY", built("lib/libneuron-emulator.so.1")),
        quiet_("NEURON_RT_LOG_LEVEL", "QUIET"),
        faults_("NEURON_EMULATOR_FAULTS", nullptr) {}
  ~PlannedFault() override { nrt_close(); }
  void begin(const std::string& plan) {
    faults_.set(folder_.write("plan", plan + "\n").c_str());
    ndl::release_port();
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
  }
  // Right results, without a plan.
  static void expect_works(Loaded& model) {
    model.fill("a", 1.0f);
    model.fill("b", 2.0f);
    EXPECT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
    const std::vector<float> sum = model.floats("sum");
    EXPECT_EQ(sum, std::vector<float>(sum.size(), 3.0f));
  }
  // The same fault on each of the core's own DMA engines, so that whichever the program uses meets
  // it; the driver's copies go through others.
  static std::string on_core_engines(const std::string& at, const std::string& rest) {
    std::string plan;
    for (int engine = 0; engine < 16; ++engine) {
      plan += "{\"at\":\"" + at + "\",\"engine\":" + std::to_string(engine) + "," + rest + "}\n";
    }
    return plan;
  }

  const Folder folder_;

 private:
  Setting emulator_, library_, quiet_, faults_;
};

TEST_F(PlannedFault, AnEngineThatHangsIsATimeoutThatNamesWhatItWasAbout) {
  begin(R"({"at":"engine.instruction","kind":"hang","core":0,"engine":"DVE","n":12})");
  Loaded model(small_add());
  NRT_STATUS status = NRT_SUCCESS;
  for (int i = 0; i < 12 && status == NRT_SUCCESS; ++i) status = model.run();
  EXPECT_EQ(status, NRT_TIMEOUT);
  const std::string sentence = nrt_open_last_error();
  EXPECT_THAT(sentence, AllOf(HasSubstr("model 'small_add'"), HasSubstr("on device 0 core 0"),
                              HasSubstr("DVE hangs: it has stopped issuing at ")));
  EXPECT_THAT(sentence, AllOf(HasSubstr("semaphore"), HasSubstr("; the core has been reset")));
  expect_works(model);  // the core was reset
}

TEST_F(PlannedFault, OtherCoresKeepWorkingWhileOneHangs) {
  begin(R"({"at":"engine.instruction","kind":"hang","core":0,"engine":"SP","n":9})");
  Loaded first(small_add(), 0);
  Loaded second(small_add(), 1);
  NRT_STATUS status = NRT_SUCCESS;
  for (int i = 0; i < 12 && status == NRT_SUCCESS; ++i) {
    status = first.run();
    expect_works(second);
  }
  EXPECT_EQ(status, NRT_TIMEOUT) << nrt_open_last_error();
  expect_works(second);
}

TEST_F(PlannedFault, ADmaErrorInAProgramNamesEngineRingAndDescriptor) {
  begin(on_core_engines("dma.descriptor", R"("kind":"error","n":2)"));
  Loaded model(small_add());
  EXPECT_EQ(model.run(), NRT_EXEC_HW_ERR_DMA_ABORT);
  EXPECT_THAT(nrt_open_last_error(),
              AllOf(HasSubstr("DMA_ENGINE"), HasSubstr("DMA engine "), HasSubstr("queue "),
                    HasSubstr("ring index "), Not(HasSubstr("not mapped"))));
}

TEST_F(PlannedFault, ADmaErrorInACopyIsAnErrorOfTheCopyAndTheNextOneWorks) {
  begin(R"({"at":"dma.descriptor","kind":"error","engine":32,"n":40})");
  nrt_tensor_t* tensor = make_tensor(1 << 16);
  const Bytes bytes = pattern(1 << 16);
  NRT_STATUS status = NRT_SUCCESS;
  int writes = 0;
  for (; writes < 60 && status == NRT_SUCCESS; ++writes) {
    status = nrt_tensor_write(tensor, bytes.data(), 0, bytes.size());
  }
  EXPECT_NE(status, NRT_SUCCESS);
  EXPECT_THAT(nrt_open_last_error(),
              AllOf(HasSubstr("DMA engine 32 queue"), HasSubstr("ring index")));
  ASSERT_EQ(nrt_tensor_write(tensor, bytes.data(), 0, bytes.size()), NRT_SUCCESS);
  EXPECT_EQ(contents(tensor), bytes);
  nrt_tensor_free(&tensor);
}

TEST_F(PlannedFault, AnUncorrectableErrorConcernsTheModelThatReadTheBytesAlone) {
  begin(R"({"at":"hbm","kind":"uncorrectable"})");
  Loaded other(small_add());
  Loaded model(small_add());
  NRT_STATUS status = model.run();
  EXPECT_EQ(status, NRT_EXEC_HW_ERR_HBM_UE) << nrt_open_last_error();
  EXPECT_THAT(nrt_open_last_error(), AllOf(HasSubstr("HBM_UE"), HasSubstr("0x")));
  EXPECT_EQ(model.run(), NRT_EXEC_HW_ERR_HBM_UE) << "the bytes stay bad";
  expect_works(other);
}

TEST_F(PlannedFault, ARepairableErrorHasAStatusOfItsOwn) {
  begin(R"({"at":"hbm","kind":"repairable"})");
  Loaded model(small_add());
  EXPECT_EQ(model.run(), NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE) << nrt_open_last_error();
}

TEST_F(PlannedFault, AParityErrorInTheCoresMemoryIsOneOfTheCore) {
  begin(R"({"at":"sram","kind":"uncorrectable","core":0,"n":30})");
  Loaded model(small_add());
  NRT_STATUS status = NRT_SUCCESS;
  for (int i = 0; i < 30 && status == NRT_SUCCESS; ++i) status = model.run();
  EXPECT_EQ(status, NRT_EXEC_HW_ERR_NC_UE) << nrt_open_last_error();
  expect_works(model);
}

TEST_F(PlannedFault, CorrectedErrorsChangeNothing) {
  begin(R"({"at":"hbm","kind":"correctable","count":100})"
        "\n"
        R"({"at":"sram","kind":"correctable","count":10})");
  Loaded model(small_add());
  for (int i = 0; i < 5; ++i) expect_works(model);
}

TEST_F(PlannedFault, AChipThatVanishesDuringAnExecutionIsSaidToBeGone) {
  begin(R"({"at":"engine.instruction","kind":"off","core":0,"engine":"SP","n":40})");
  Loaded model(small_add());
  NRT_STATUS status = NRT_SUCCESS;
  for (int i = 0; i < 40 && status == NRT_SUCCESS; ++i) status = model.run();
  EXPECT_THAT(status, AnyOf(NRT_HW_ERROR, NRT_EXEC_UNIT_UNRECOVERABLE));
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("device 0 does not answer"));
  // Everything else says so too, at once.
  EXPECT_NE(model.run(), NRT_SUCCESS);
  nrt_tensor_t* tensor = nullptr;
  EXPECT_NE(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 4096, "t", &tensor), NRT_SUCCESS);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("does not answer"));
}

TEST_F(PlannedFault, AChipThatIsGoneLetsTheRuntimeCloseAndANewOneWorks) {
  begin(R"({"at":"engine.instruction","kind":"off","core":1,"engine":"Pool","n":20})");
  {
    Loaded model(small_add(), 1);
    NRT_STATUS status = NRT_SUCCESS;
    for (int i = 0; i < 20 && status == NRT_SUCCESS; ++i) status = model.run();
    EXPECT_NE(status, NRT_SUCCESS);
  }
  nrt_close();
  begin("# nothing is planned");
  Loaded model(small_add());
  expect_works(model);
}

TEST_F(PlannedFault, AResetOfABusyCoreIsToldOnceAndTheNextExecutionWorks) {
  begin("# nothing is planned");
  Loaded endless(bytes_of(kernels::endless_loop()));
  ndl_device_t* device = nullptr;
  ASSERT_EQ(ndl_open_device(0, nullptr, &device), 0);
  std::promise<void> ended;
  auto end = ended.get_future();
  NRT_STATUS status = NRT_SUCCESS;
  std::string sentence;
  std::thread runner([&] {
    status = endless.run();
    sentence = nrt_open_last_error();
    ended.set_value();
  });
  // Again and again, as the first may come before the program runs.
  bool done = false;
  for (int i = 0; i < 2000 && !done; ++i) {
    uint64_t command = device->csr_base[0] + NEURON_CORE_CONTROL + NEURON_CORE_COMMAND;
    uint32_t reset = NEURON_CMD_RESET | 0x1F00;
    EXPECT_EQ(ndl_bar_write(device, 0, &command, 1, &reset), 0);
    done = end.wait_for(std::chrono::milliseconds(5)) == std::future_status::ready;
  }
  ndl_close_device(device);
  EXPECT_TRUE(done);
  runner.join();
  EXPECT_EQ(status, NRT_HW_ERROR) << sentence;
  EXPECT_THAT(sentence, HasSubstr("the core was reset by an operator or another process"));
  Loaded model(small_add());
  expect_works(model);
}

TEST_F(PlannedFault, AResetAtAnyMomentOfTheFirstExecutionIsToldAtOnce) {
  begin("# nothing is planned");
  ndl_device_t* device = nullptr;
  ASSERT_EQ(ndl_open_device(0, nullptr, &device), 0);
  std::atomic<bool> over{false};
  std::thread operator_of_resets([&] {
    uint64_t command = device->csr_base[0] + NEURON_CORE_CONTROL + NEURON_CORE_COMMAND;
    uint64_t status = device->csr_base[0] + NEURON_CORE_CONTROL + NEURON_CORE_STATUS;
    uint32_t reset = NEURON_CMD_RESET | 0x1F00, word = 0;
    // relaxed: it only ends the thread.
    while (!over.load(std::memory_order_relaxed)) {
      EXPECT_EQ(ndl_bar_write(device, 0, &command, 1, &reset), 0);
      // The read comes back when the reset is done. Else hundreds of them lay before the runtime's
      // own accesses, and its time would be that of those.
      EXPECT_EQ(ndl_bar_read(device, 0, &status, 1, &word), 0);
    }
  });
  Loaded model(small_add());
  unsigned told = 0;
  for (int i = 0; i < 200; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const NRT_STATUS status = model.run();
    const auto took = std::chrono::steady_clock::now() - begin;
    if (status == NRT_SUCCESS) continue;
    const std::string sentence = nrt_open_last_error();
    EXPECT_LT(took, std::chrono::seconds(5)) << sentence;
    EXPECT_THAT(sentence, HasSubstr("the core was reset by an operator or another process"));
    ++told;
  }
  over.store(true, std::memory_order_relaxed);
  operator_of_resets.join();
  ndl_close_device(device);
  EXPECT_GT(told, 0u);
  (void)model.run();  // the last reset may have come after the last execution
  expect_works(model);
}

TEST_F(PlannedFault, APlanThatIsWrongStopsTheInitialisationWithItsLine) {
  begin("# nothing is planned");
  nrt_close();
  folder_.write("plan", R"({"at":"dma.descriptor","kind":"explode"})");
  ndl::release_port();
  EXPECT_NE(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  EXPECT_THAT(nrt_open_last_error(),
              AllOf(HasSubstr("line 1 of the fault plan"), HasSubstr("\"explode\"")));
}

}  // namespace
}  // namespace neuron::test
