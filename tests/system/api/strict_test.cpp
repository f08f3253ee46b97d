// SPDX-License-Identifier: Apache-2.0
// What an operator reads when strict mode stops a program: both instructions, place, cure.
#include <atomic>
#include <thread>

#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

using ::testing::AllOf;

class Strict : public RuntimeTest {
 protected:
  static std::string failure_of(const kernels::Neff& neff) {
    Loaded model(bytes_of(neff));
    EXPECT_EQ(model.run(), NRT_EXEC_COMPLETED_WITH_ERR);
    return nrt_open_last_error();
  }

 private:
  Setting on_{"NEURON_EMULATOR_STRICT", "1"};
};

class Lenient : public RuntimeTest {
 private:
  Setting off_{"NEURON_EMULATOR_STRICT", "0"};
};

TEST_F(Strict, UninitialisedReadNamesTheReaderThePlaceAndTheNearestWriter) {
  EXPECT_THAT(
      failure_of(kernels::unwritten_read()),
      AllOf(
          HasSubstr("failed on device 0 core 0 with UNINITIALISED at DVE pc 1"),
          HasSubstr("tensor_copy"), HasSubstr("partition 0 byte 0x40 of SBUF"),
          HasSubstr("nothing has written since the model was loaded"),
          HasSubstr("the nearest written, partition 0 byte 0x3f of SBUF, was written by DVE pc 0"),
          HasSubstr("memset"), HasSubstr("NEURON_EMULATOR_STRICT=0")));
}

TEST_F(Strict, RaceNamesBothInstructionsAndTheCure) {
  EXPECT_THAT(failure_of(kernels::unordered_read()),
              AllOf(HasSubstr("with RACE at"), HasSubstr("DVE pc 8"), HasSubstr("Pool pc 0"),
                    HasSubstr("memset"), HasSubstr("tensor_copy"), HasSubstr("of SBUF"),
                    HasSubstr("expected an order between the two: a semaphore that the earlier one "
                              "updates at completion and the later one waits for")));
}

TEST_F(Strict, RaceWithATransferNamesWhatStartedItAndItsQueue) {
  EXPECT_THAT(failure_of(kernels::unordered_transfer()),
              AllOf(HasSubstr("with RACE at"), HasSubstr("DVE pc 0"), HasSubstr("SP pc "),
                    HasSubstr("dma_trigger"), HasSubstr("DMA engine "), HasSubstr(" queue ")));
}

TEST_F(Strict, CollisionInPsumNamesBothWriters) {
  EXPECT_THAT(
      failure_of(kernels::psum_collision()),
      AllOf(HasSubstr("with PSUM_COLLISION at"), HasSubstr("DVE pc 1"),
            HasSubstr("Activation pc 0"), HasSubstr("of PSUM"), HasSubstr("or use another bank")));
}

TEST_F(Strict, AccumulationNamesWhoWroteTheSumLast) {
  EXPECT_THAT(failure_of(kernels::foreign_accumulation()),
              AllOf(HasSubstr("with PSUM_UNDEFINED at PE pc 1"), HasSubstr("matmul"),
                    HasSubstr("partition 0 byte 0x0 of PSUM as last written by DVE pc 0"),
                    HasSubstr("let the first matmul of the sum overwrite")));
}

TEST_F(Strict, InputOutsideTheRangeNamesElementValueAndProducer) {
  EXPECT_THAT(
      failure_of(kernels::outside_domain()),
      AllOf(HasSubstr("with DOMAIN at Activation pc 0"),
            HasSubstr("found 0 as the input of log in partition 0, element 0 of src0, which "
                      "was produced by DVE pc 0"),
            HasSubstr("expected inputs in [2^-64, 2^64]")));
}

TEST_F(Strict, ResultThatCrossesItsBankIsRefusedAtLoad) {
  const Bytes neff = bytes_of(kernels::past_the_bank());
  nrt_model_t* model = nullptr;
  EXPECT_EQ(nrt_load(neff.data(), neff.size(), 0, 1, &model), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), AllOf(HasSubstr("OPERAND_RANGE"), HasSubstr("bank")));
}

TEST_F(Strict, TheCoreWorksAgainAfterATrap) {
  failure_of(kernels::unordered_read());
  Loaded model(small_add());
  model.fill("a", 1.0f);
  model.fill("b", 2.0f);
  EXPECT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(model.floats("sum").front(), 3.0f);
}

TEST_F(Lenient, ProgramsThatStrictModeStopsRunToTheirEnd) {
  for (const auto& neff :
       {kernels::unwritten_read(), kernels::unordered_read(), kernels::unordered_transfer(),
        kernels::psum_collision(), kernels::foreign_accumulation(), kernels::outside_domain()}) {
    Loaded model(bytes_of(neff));
    EXPECT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  }
}

// Bits and model times of an execution, 100 times, alone and beside busy threads, in both modes.
struct Outcome {
  Bytes bits;
  nrt_open_execution_report_t report;
};

class Repetition : public RuntimeTest {
 protected:
  static Outcome run_once(Loaded& model) {
    Outcome outcome{};
    EXPECT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
    outcome.report.size = sizeof(outcome.report);
    EXPECT_EQ(nrt_open_get_execution_report(model.model, &outcome.report), NRT_SUCCESS);
    for (auto& [name, tensor] : model.tensors) {
      const Bytes bytes = contents(tensor);
      outcome.bits.insert(outcome.bits.end(), bytes.begin(), bytes.end());
    }
    return outcome;
  }
  static std::vector<uint64_t> times_of(const nrt_open_execution_report_t& report) {
    std::vector<uint64_t> times{report.device_ps};
    for (const nrt_open_engine_report_t& engine : report.engines) {
      times.insert(times.end(), {engine.busy_ps, engine.instructions});
    }
    return times;
  }
  static void fill(Loaded& model) {
    uint32_t state = 7;
    for (auto& [name, tensor] : model.tensors) {
      std::vector<float> values(nrt_tensor_get_size(tensor) / sizeof(float));
      for (float& value : values) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
      }
      EXPECT_EQ(nrt_tensor_write(tensor, values.data(), 0, values.size() * sizeof(float)),
                NRT_SUCCESS);
    }
  }
};

TEST_F(Repetition, GivesTheSameBitsAndModelTimesOneHundredTimesOnALoadedHost) {
  const Bytes neffs[] = {small_add(), small_softmax(),
                         bytes_of(kernels::matmul("small_matmul", NEURON_DTYPE_F32,
                                                  kernels::MatmulShape{128, 256, 512}))};
  std::atomic<bool> stop = false;
  std::vector<std::thread> load;
  for (const Bytes& neff : neffs) {
    Outcome first{};
    for (const char* strict : {"1", "0"}) {
      nrt_close();
      const Setting mode("NEURON_EMULATOR_STRICT", strict);
      init();
      Loaded model(neff);
      fill(model);
      run_once(model);  // the first one also tells the queues where the tensors are
      for (unsigned run = 0; run < 50; ++run) {
        if (run == 25) {
          stop = false;
          for (unsigned n = 0; n < std::thread::hardware_concurrency() + 1; ++n) {
            load.emplace_back([&stop] {
              while (!stop.load(std::memory_order_relaxed)) {
              }
            });
          }
        }
        const Outcome outcome = run_once(model);
        if (first.bits.empty()) first = outcome;
        EXPECT_EQ(outcome.bits, first.bits) << "run " << run << ", strict " << strict;
        EXPECT_EQ(times_of(outcome.report), times_of(first.report))
            << "run " << run << ", strict " << strict;
      }
      stop = true;
      for (std::thread& thread : load) thread.join();
      load.clear();
    }
  }
}

}  // namespace
}  // namespace neuron::test
