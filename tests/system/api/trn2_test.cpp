// SPDX-License-Identifier: Apache-2.0
// Chips of generation 3: how their cores are counted, and models on one and on two physical cores.
#include <nrt/ndebug_stream.h>
#include <nrt/nrt_profile.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <tuple>

#include "runtime/neff/container.h"
#include "runtime/neff/neff_writer.h"
#include "tests/support/disturbance.h"
#include "tests/support/files.h"
#include "tests/system/api/support.h"
#include "tools/compiler/program_builder/program.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::test {
namespace {

class Trn2 : public ::testing::Test {
 protected:
  Trn2()
      : emulator_("NEURON_EMULATOR", "trn2.3xlarge"),
        older_("NEURON_RT_ALLOW_LEGACY_NEFF", "1"),
        quiet_("NEURON_RT_LOG_LEVEL", "QUIET") {}
  void TearDown() override { nrt_close(); }
  void init() {
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
  }
  static uint32_t count(NRT_STATUS (*ask)(uint32_t*)) {
    uint32_t cores = 0;
    EXPECT_EQ(ask(&cores), NRT_SUCCESS) << nrt_open_last_error();
    return cores;
  }

 private:
  Setting emulator_;
  Setting older_;
  Setting quiet_;
};

// Two programs for the two physical cores of a virtual one: tensor_add, and softmax or, without
// `ports`, one that has no tensors.
Bytes pair_of(const Bytes& second, bool ports = true) {
  const Bytes files[] = {small_add(), second};
  tools::NeffMembers members;
  for (unsigned s = 0; s < 2; ++s) {
    auto container = neff::Container::open(files[s]);
    EXPECT_TRUE(container) << container.error().sentence;
    for (const neff::Member& member : container->members()) {
      if (!member.name.starts_with("sg00/")) continue;
      members["sg0" + std::to_string(s) + member.name.substr(4)].assign(member.bytes.begin(),
                                                                        member.bytes.end());
    }
  }
  const auto tensor = [](const char* name, const char* subgraph) {
    return std::string(R"({"name": ")") + name + R"(", "variable": ")" + name +
           R"(", "subgraph": ")" + subgraph +
           R"(", "dtype": "float32", "shape": [128, 16], "size": 8192})";
  };
  members["neff.json"] = tools::bytes_of(
      R"({"format": "nrt-open-program", "version": 1, "target": "trn1", "lnc": 2,
 "nodes": [{"name": "sg00", "executor": "NeuronCore"}, {"name": "sg01", "executor": "NeuronCore"}],
 "inputs": [)" +
      tensor("a", "sg00") + "," + tensor("b", "sg00") + (ports ? "," + tensor("x", "sg01") : "") +
      "], \"outputs\": [" + tensor("sum", "sg00") + (ports ? "," + tensor("y", "sg01") : "") +
      "]}");
  auto file = tools::write_neff(members, {.name = "pair", .build_version = "test", .lnc_size = 2});
  EXPECT_TRUE(file) << file.error().sentence;
  return *file;
}

TEST_F(Trn2, CountsVirtualCoresOfTwoPhysicalOnesUnlessToldOtherwise) {
  EXPECT_EQ(count(nrt_get_total_vnc_count), 4u);
  const Setting one("NEURON_LOGICAL_NC_CONFIG", "1");
  EXPECT_EQ(count(nrt_get_total_nc_count), 8u);
  const Setting cores("NEURON_RT_VISIBLE_CORES", "5-7");
  EXPECT_EQ(count(nrt_get_visible_vnc_count), 3u);
  const Setting two("NEURON_LOGICAL_NC_CONFIG", "2");
  uint32_t visible = 0;
  EXPECT_EQ(nrt_get_visible_vnc_count(&visible), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("this host has cores 0-3"));
}

TEST_F(Trn2, IsNamedWithItsHalfOfAStack) {
  init();
  nrt_instance_info_t info{};
  ASSERT_EQ(nrt_get_instance_info(&info, sizeof info), NRT_SUCCESS);
  EXPECT_EQ(info.family, static_cast<unsigned>(NRT_INSTANCE_TRN2));
  EXPECT_EQ(info.size, static_cast<unsigned>(NRT_INSTANCE_SIZE_3XL));
  EXPECT_STREQ(info.arch_name, "Trn2");
  nrt_vnc_memory_stats_t stats{};
  size_t size = 0;
  ASSERT_EQ(nrt_get_vnc_memory_stats(3, &stats, sizeof stats, &size), NRT_SUCCESS);
  EXPECT_EQ(stats.bytes_limit, uint64_t{24} << 30);
}

TEST_F(Trn2, RunsAProgramOfGeneration2OnEachOfItsEightCores) {
  const Setting one("NEURON_LOGICAL_NC_CONFIG", "1");
  init();
  for (int core = 0; core < 8; ++core) {
    Loaded model(small_add(), core);
    model.fill("a", 1.5F + static_cast<float>(core));
    model.fill("b", 2);
    ASSERT_EQ(model.run(), NRT_SUCCESS) << core << ": " << nrt_open_last_error();
    EXPECT_EQ(model.floats("sum")[2047], 3.5F + static_cast<float>(core));
  }
}

TEST_F(Trn2, RefusesAnOlderProgramUnlessItIsAllowed) {
  const Setting one("NEURON_LOGICAL_NC_CONFIG", "1");
  const Setting older("NEURON_RT_ALLOW_LEGACY_NEFF", "0");
  init();
  const Bytes neff = small_add();
  nrt_model_t* model = nullptr;
  EXPECT_EQ(nrt_load(neff.data(), neff.size(), 0, 1, &model), NRT_UNSUPPORTED_NEFF_VERSION);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("this device is trn2; build it for this device, or "
                                               "set NEURON_RT_ALLOW_LEGACY_NEFF=1"));
}

TEST_F(Trn2, RefusesAProgramForVirtualCoresOfAnotherSize) {
  const Bytes single = small_add();
  const Bytes pair = pair_of(small_softmax());
  nrt_model_t* model = nullptr;
  init();
  EXPECT_EQ(nrt_load(single.data(), single.size(), 0, 1, &model), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(),
              HasSubstr("logical cores of 1 physical cores, this process uses 2; set "
                        "NEURON_LOGICAL_NC_CONFIG=1 or build it for 2"));
  nrt_close();
  const Setting one("NEURON_LOGICAL_NC_CONFIG", "1");
  init();
  EXPECT_EQ(nrt_load(pair.data(), pair.size(), 0, 1, &model), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("this process uses 1; set "
                                               "NEURON_LOGICAL_NC_CONFIG=2 or build it for 1"));
}

TEST_F(Trn2, RunsOneProgramOnEachPhysicalCoreOfAVirtualOne) {
  init();
  for (int vnc = 0; vnc < 4; ++vnc) {
    Loaded model(pair_of(small_softmax()), vnc);
    ASSERT_EQ(model.tensors.size(), 5u);
    for (int run = 0; run < 3; ++run) {
      model.fill("a", 1);
      model.fill("b", static_cast<float>(run));
      model.fill("x", 7);
      ASSERT_EQ(model.run(), NRT_SUCCESS) << vnc << ": " << nrt_open_last_error();
      EXPECT_EQ(model.floats("sum")[2047], 1 + static_cast<float>(run));
      EXPECT_FLOAT_EQ(model.floats("y")[2047], 1.0F / 16);
    }
    nrt_open_execution_report_t report{};
    report.size = sizeof report;
    ASSERT_EQ(nrt_open_get_execution_report(model.model, &report), NRT_SUCCESS);
    EXPECT_GT(report.device_ps, 0u);
    ASSERT_EQ(nrt_execute_repeat(model.model, model.inputs, model.outputs, 1), NRT_SUCCESS);
  }
}

TEST_F(Trn2, ContinuousProfilingKeepsWhatBothPhysicalCoresDid) {
  init();
  nrt_profile_continuous_options_t* options = nullptr;
  ASSERT_EQ(nrt_profile_continuous_options_allocate(&options), NRT_SUCCESS);
  const Folder folder;
  ASSERT_EQ(nrt_profile_continuous_options_set_output_dir(options, folder.path().c_str()),
            NRT_SUCCESS);
  ASSERT_EQ(nrt_profile_continuous_start(options), NRT_SUCCESS) << nrt_open_last_error();
  {
    Loaded model(pair_of(small_softmax()));
    ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
    ASSERT_EQ(nrt_profile_continuous_save(0, options), NRT_SUCCESS) << nrt_open_last_error();
  }
  ASSERT_EQ(nrt_profile_continuous_stop(), NRT_SUCCESS);
  nrt_profile_continuous_options_free(options);
  auto profile = profile::Profile::open(folder.path("profile_nc_0_session_0.ntff"));
  ASSERT_TRUE(profile) << profile.error().sentence;
  ASSERT_EQ(profile->parts().size(), 2u);
  for (const profile::Part& part : profile->parts()) {
    ASSERT_EQ(part.executions.size(), 1u);
    EXPECT_GT(part.executions[0].device_ps, 0u);
  }
}

TEST_F(Trn2, GivesBothCoresBackWhenTwoModelsTakeTurns) {
  init();
  Loaded first(pair_of(small_softmax()));
  Loaded second(pair_of(small_softmax()));
  for (int run = 0; run < 2; ++run) {
    for (Loaded* model : {&first, &second}) {
      model->fill("a", 2);
      model->fill("b", 3);
      model->fill("x", 0);
      ASSERT_EQ(model->run(), NRT_SUCCESS) << nrt_open_last_error();
      EXPECT_EQ(model->floats("sum")[0], 5);
      EXPECT_FLOAT_EQ(model->floats("y")[0], 1.0F / 16);
    }
  }
}

TEST_F(Trn2, NamesThePhysicalCoreThatFailedAndUsesBothAgain) {
  init();
  Loaded broken(pair_of(bytes_of(kernels::deadlock()), false));
  broken.fill("a", 1);
  broken.fill("b", 1);
  EXPECT_NE(broken.run(), NRT_SUCCESS);
  // Logical cores 0 and 1 of device 0 are its physical cores 4 and 5.
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("cannot finish on device 0 core 5"));
  Loaded good(pair_of(small_softmax()));
  good.fill("a", 1);
  good.fill("b", 1);
  good.fill("x", 1);
  ASSERT_EQ(good.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(good.floats("sum")[0], 2);
}

// y = 3 x + 2 on the Scalar engine, + 0.5 by a bias that is a number, behind 192 KiB of SBUF.
TEST_F(Trn2, RunsWhatOnlyItsOwnGenerationHas) {
  builder::Program program("third", 3);
  const auto x = program.input("x", NEURON_DTYPE_F32, {128, 16});
  const auto y = program.output("y", NEURON_DTYPE_F32, {128, 16});
  (void)program.sbuf("below", 128, 48 * 1024, NEURON_DTYPE_F32);
  const auto tile = program.sbuf("tile", 128, 16, NEURON_DTYPE_F32);
  program.dma(builder::Engine::kSp, tile.all(), x.all());
  program.tensor_scalar(builder::Engine::kActivation, tile.all(), tile.all(), NEURON_ALU_MUL, 3.0F,
                        NEURON_ALU_ADD, 2.0F);
  builder::ActivateOptions bias;
  bias.bias = 0.5F;
  program.activate(tile.all(), NEURON_ACT_RELU, tile.all(), bias);
  program.dma(builder::Engine::kSp, y.all(), tile.all());
  const auto neff = program.build();
  ASSERT_TRUE(neff) << neff.error().sentence;
  const Setting one("NEURON_LOGICAL_NC_CONFIG", "1");
  const Setting older("NEURON_RT_ALLOW_LEGACY_NEFF", "0");
  init();
  Loaded model(*neff, 7);
  model.fill("x", 4);
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(model.floats("y")[0], 14.5F);
  EXPECT_EQ(model.floats("y")[2047], 14.5F);
}

// Two programs of a virtual core: each adds its own matrix to the other core's, and meets it at a
// barrier before it writes the sum.
runtime::Result<std::vector<uint8_t>> exchanging(bool second_meets) {
  const auto write = [](builder::Program& program, const std::string& in, const std::string& out,
                        bool meets) {
    const auto x = program.input(in, NEURON_DTYPE_F32, {128, 64});
    const auto y = program.output(out, NEURON_DTYPE_F32, {128, 64});
    const auto own = program.sbuf("own", 128, 64, NEURON_DTYPE_F32);
    const auto others = program.sbuf("others", 128, 64, NEURON_DTYPE_F32);
    program.dma(builder::Engine::kSp, own.all(), x.all());
    if (meets) {
      program.send_receive(others.all(), own.all());
      program.core_barrier(builder::Engine::kSp);
    } else {
      program.memset(builder::Engine::kPool, others.all(), 0);
    }
    program.tensor_tensor(builder::Engine::kDve, own.all(), own.all(), NEURON_ALU_ADD,
                          others.all());
    program.dma(builder::Engine::kSp, y.all(), own.all());
  };
  builder::Program first("exchanging", 3), second("exchanging", 3);
  write(first, "x0", "y0", true);
  write(second, "x1", "y1", second_meets);
  first.physical_cores(2, &second);
  return first.build();
}

TEST_F(Trn2, RunsTwoProgramsThatSwapTilesAndMeetAtABarrier) {
  init();
  const auto neff = exchanging(true);
  ASSERT_TRUE(neff) << neff.error().sentence;
  for (int vnc = 0; vnc < 4; ++vnc) {
    Loaded model(*neff, vnc);
    for (int run = 0; run < 20; ++run) {
      model.fill("x0", static_cast<float>(run));
      model.fill("x1", 100);
      ASSERT_EQ(model.run(), NRT_SUCCESS) << vnc << ": " << nrt_open_last_error();
      EXPECT_EQ(model.floats("y0")[8191], 100 + static_cast<float>(run));
      EXPECT_EQ(model.floats("y1")[8191], 100 + static_cast<float>(run));
    }
    ASSERT_EQ(nrt_execute_repeat(model.model, model.inputs, model.outputs, 30), NRT_SUCCESS)
        << nrt_open_last_error();
  }
}

TEST_F(Trn2, TwoProgramsTakeTheSameModelTimeWhateverHoldsHostThreadsUp) {
  init();
  const auto neff = exchanging(true);
  ASSERT_TRUE(neff) << neff.error().sentence;
  Loaded model(*neff, 1);
  model.fill("x0", 1);
  model.fill("x1", 2);
  const auto time_of_a_run = [&] {
    EXPECT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
    nrt_open_execution_report_t report{};
    report.size = sizeof(report);
    EXPECT_EQ(nrt_open_get_execution_report(model.model, &report), NRT_SUCCESS);
    return report.device_ps;
  };
  time_of_a_run();  // which also tells the queues where the tensors are
  const uint64_t first = time_of_a_run();
  const Disturbance disturbance;
  disturbance.during([&] {
    for (int run = 0; run < 100; ++run) ASSERT_EQ(time_of_a_run(), first) << "run " << run;
  });
}

TEST_F(Trn2, ADebugStreamHasWhatTheProgramsOfBothPhysicalCoresSay) {
  init();
  const auto talk = [](builder::Program& program, uint32_t number) {
    isa::Instruction says;
    says.opcode = NEURON_OP_NOTIFY;
    says.engines = 1u << NEURON_ENGINE_POOL;
    says.scalar0 = {number, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_U32, 0, 0};
    program.raw(builder::Engine::kPool, says);
  };
  builder::Program first("talking", 3), second("talking", 3);
  talk(first, 11);
  talk(second, 22);
  first.physical_cores(2, &second);
  const auto neff = first.build();
  ASSERT_TRUE(neff) << neff.error().sentence;
  Loaded model(*neff, 1);
  int stream = -1;
  ASSERT_EQ(nrt_debug_client_connect(1, &stream), NRT_SUCCESS) << nrt_open_last_error();
  std::map<uint32_t, std::string> said;
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  for (int n = 0; n < 2; ++n) {
    ndebug_stream_event_header_t header{};
    void* payload = nullptr;
    ASSERT_EQ(nrt_debug_client_read_one_event(stream, &header, &payload), NRT_SUCCESS) << n;
    const auto* print = static_cast<ndebug_stream_payload_debug_tensor_read_t*>(payload);
    uint32_t number = 0;
    std::memcpy(&number, static_cast<char*>(payload) + sizeof(*print), sizeof(number));
    EXPECT_EQ(print->logical_nc_id, 1u);
    said[number] = print->prefix;
    std::free(payload);
  }
  // By the driver's map of cores.
  EXPECT_THAT(said[11], HasSubstr("notify of Pool of physical core 6"));
  EXPECT_THAT(said[22], HasSubstr("notify of Pool of physical core 7"));
  nrt_debug_client_connect_close(stream);
  EXPECT_EQ(model.run(), NRT_SUCCESS) << "nobody listens any more";
  ASSERT_EQ(nrt_debug_client_connect(1, &stream), NRT_SUCCESS) << "both cores are free again";
}

TEST_F(Trn2, NamesTheCoreWhoseOtherOneNeverComes) {
  const Setting patience("NEURON_RT_EXEC_TIMEOUT", "1");
  init();
  const auto neff = exchanging(false);
  ASSERT_TRUE(neff) << neff.error().sentence;
  {
    Loaded model(*neff, 0);
    model.fill("x0", 1);
    model.fill("x1", 1);
    EXPECT_NE(model.run(), NRT_SUCCESS);
    EXPECT_THAT(nrt_open_last_error(), HasSubstr("sendrecv"));
    EXPECT_THAT(
        nrt_open_last_error(),
        HasSubstr("semaphore 15 >= 1, which is 0: the other core of the pair has not come"));
  }
  const auto good = exchanging(true);
  Loaded model(*good, 0);
  model.fill("x0", 1);
  model.fill("x1", 2);
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(model.floats("y0")[0], 3);
}

enum class Order : uint8_t { kNone, kTold, kBarrier };

// The first program writes its input to `y0`; the second one reads `x1` and writes it to `y1`. The
// caller gives `y0` and `x1` the same tensor.
runtime::Result<std::vector<uint8_t>> handing_over(Order order) {
  const auto move = [](builder::Program& program, const builder::Buffer& from,
                       const builder::Buffer& to) {
    const auto tile = program.sbuf("tile", 128, 64, NEURON_DTYPE_F32);
    program.dma(builder::Engine::kSp, tile.all(), from.all());
    program.dma(builder::Engine::kSp, to.all(), tile.all());
  };
  builder::Program first("handing over", 3), second("handing over", 3);
  const auto x0 = first.input("x0", NEURON_DTYPE_F32, {128, 64});
  const auto y0 = first.output("y0", NEURON_DTYPE_F32, {128, 64});
  const auto x1 = second.input("x1", NEURON_DTYPE_F32, {128, 64});
  const auto y1 = second.output("y1", NEURON_DTYPE_F32, {128, 64});
  first.section("writer");
  move(first, x0, y0);
  second.section("reader");
  if (order == Order::kTold) {
    first.tell_other(builder::Engine::kPool, y0.all(), 9);
    second.await_other(builder::Engine::kPool, x1.all(), 9);
  } else if (order == Order::kBarrier) {
    first.core_barrier(builder::Engine::kPool, y0.all());
    second.core_barrier(builder::Engine::kPool, x1.all());
  }
  move(second, x1, y1);
  first.physical_cores(2, &second);
  return first.build();
}

void share(Loaded& model) {
  nrt_tensor_t* shared = model.tensors["y0"];
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(model.inputs, "x1", shared), NRT_SUCCESS)
      << nrt_open_last_error();
}

TEST_F(Trn2, TwoProgramsHandATensorOverBehindABarrierOrASemaphoreOfTheOtherCore) {
  init();
  for (const Order order : {Order::kTold, Order::kBarrier}) {
    const auto neff = handing_over(order);
    ASSERT_TRUE(neff) << neff.error().sentence;
    for (int vnc = 0; vnc < 4; ++vnc) {
      Loaded model(*neff, vnc);
      share(model);
      for (int run = 0; run < 20; ++run) {
        model.fill("x0", static_cast<float>(run));
        ASSERT_EQ(model.run(), NRT_SUCCESS) << vnc << ": " << nrt_open_last_error();
        ASSERT_EQ(model.floats("y1")[8191], static_cast<float>(run));
      }
      ASSERT_EQ(nrt_execute_repeat(model.model, model.inputs, model.outputs, 30), NRT_SUCCESS)
          << nrt_open_last_error();
    }
  }
}

// Each writes its input into the memory of both, and reads the other's behind a barrier.
TEST_F(Trn2, TwoProgramsHaveATemporaryTogether) {
  init();
  builder::Program first("sharing", 3), second("sharing", 3);
  const auto write = [](builder::Program& program, unsigned own) {
    const auto name = std::to_string(own);
    (void)program.temporary("of its own " + name, NEURON_DTYPE_F32, {own + 1, 1000});
    const auto x = program.input("x" + name, NEURON_DTYPE_F32, {128, 64});
    const auto y = program.output("y" + name, NEURON_DTYPE_F32, {128, 64});
    const auto board = program.shared_temporary("board", NEURON_DTYPE_F32, {2, 128, 64});
    program.dma(builder::Engine::kSp, board.block(128 * own, 128, 0, 64), x.all());
    program.core_barrier(builder::Engine::kPool, board.all());
    program.dma(builder::Engine::kSp, y.all(), board.block(128 * (1 - own), 128, 0, 64));
  };
  write(first, 0);
  write(second, 1);
  first.physical_cores(2, &second);
  const auto neff = first.build();
  ASSERT_TRUE(neff) << neff.error().sentence;
  for (int vnc = 0; vnc < 4; ++vnc) {
    Loaded model(*neff, vnc);
    for (int run = 0; run < 5; ++run) {
      model.fill("x0", static_cast<float>(run));
      model.fill("x1", 100);
      ASSERT_EQ(model.run(), NRT_SUCCESS) << vnc << ": " << nrt_open_last_error();
      EXPECT_EQ(model.floats("y0")[8191], 100);
      EXPECT_EQ(model.floats("y1")[0], static_cast<float>(run));
    }
  }
}

// Which of the two comes second, and is trapped, is up to the host; the sentence has both.
TEST_F(Trn2, ARaceOfTwoProgramsForATensorIsTrappedAndNamesBothAndTheirCores) {
  init();
  const auto racing = handing_over(Order::kNone);
  ASSERT_TRUE(racing) << racing.error().sentence;
  for (int run = 0; run < 5; ++run) {
    Loaded model(*racing, 0);
    share(model);
    model.fill("x0", 1);
    model.fill("y0", 2);
    EXPECT_EQ(model.run(), NRT_EXEC_COMPLETED_WITH_ERR);
    const std::string text = nrt_open_last_error();
    EXPECT_THAT(text, HasSubstr("with RACE at SP pc"));
    EXPECT_THAT(text, HasSubstr("device memory at 0x"));
    EXPECT_THAT(text, HasSubstr("handing over/writer:"));
    EXPECT_THAT(text, HasSubstr("handing over/reader:"));
    // Logical cores 0 and 1 of device 0 are its physical cores 4 and 5.
    EXPECT_THAT(text, HasSubstr("core 4"));
    EXPECT_THAT(text, HasSubstr("core 5"));
    EXPECT_THAT(text, HasSubstr("expected an order between the two cores"));
  }
  const auto good = handing_over(Order::kTold);
  Loaded model(*good, 0);
  share(model);
  model.fill("x0", 3);
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(model.floats("y1")[0], 3);
}

TEST_F(Trn2, WithoutStrictModeARaceOfTwoProgramsRunsToItsEnd) {
  const Setting lenient("NEURON_EMULATOR_STRICT", "0");
  init();
  const auto racing = handing_over(Order::kNone);
  Loaded model(*racing, 0);
  share(model);
  model.fill("x0", 1);
  model.fill("y0", 1);
  EXPECT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
}

// The first awaits what the second tells behind what it awaits from the first.
TEST_F(Trn2, ADeadlockAcrossNamesTheWaitOfEachCore) {
  const Setting patience("NEURON_RT_EXEC_TIMEOUT", "1");
  init();
  builder::Program first("crossed", 3), second("crossed", 3);
  const auto y0 = first.output("y0", NEURON_DTYPE_F32, {128, 64});
  const auto y1 = second.output("y1", NEURON_DTYPE_F32, {128, 64});
  for (auto [program, out, awaits] : {std::tuple{&first, &y0, 9}, std::tuple{&second, &y1, 10}}) {
    const auto tile = program->sbuf("tile", 128, 64, NEURON_DTYPE_F32);
    program->memset(builder::Engine::kDve, tile.all(), 0);
    program->await_other(builder::Engine::kSp, out->all(), static_cast<uint8_t>(awaits));
    program->dma(builder::Engine::kSp, out->all(), tile.all());
    program->tell_other(builder::Engine::kSp, out->all(), static_cast<uint8_t>(19 - awaits));
  }
  first.physical_cores(2, &second);
  const auto neff = first.build();
  ASSERT_TRUE(neff) << neff.error().sentence;
  Loaded model(*neff, 0);
  EXPECT_EQ(model.run(), NRT_TIMEOUT);
  const std::string text = nrt_open_last_error();
  EXPECT_THAT(text, HasSubstr("on device 0 core 4"));
  EXPECT_THAT(text, HasSubstr("semaphore 9 >= 1, which is 0: the other core of the pair has not "
                              "raised it"));
  EXPECT_THAT(text, HasSubstr("on device 0 core 5, the other core of its virtual core: "));
  EXPECT_THAT(text, HasSubstr("semaphore 10 >= 1, which is 0: the other core of the pair has not "
                              "raised it"));
}

TEST_F(Trn2, OwnsPairsOfCoresOnly) {
  const Setting cores("NEURON_RT_NUM_CORES", "1");
  init();
  EXPECT_EQ(count(nrt_get_visible_vnc_count), 1u);
  Loaded model(pair_of(small_softmax()));
  model.fill("a", 4);
  model.fill("b", 4);
  model.fill("x", 4);
  EXPECT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(model.floats("sum")[5], 8);
}

}  // namespace
}  // namespace neuron::test
