// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "hw/fault.h"
#include "runtime/device/core_turn.h"
#include "tests/unit/runtime/loaded_sample.h"

namespace neuron::runtime {
namespace {

using test::LoadedSample;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<void> run(LoadedSample& sample, const TensorSet& inputs, const TensorSet& outputs) {
  NEURON_TRY(turn, CoreTurn::take(*sample.core));
  return execute(*sample.session, *sample.loaded, inputs, outputs);
}

Result<void> run(LoadedSample& sample) { return run(sample, sample.inputs, sample.outputs); }

Result<void> repeat(LoadedSample& sample, int count) {
  NEURON_TRY(turn, CoreTurn::take(*sample.core));
  return execute_repeat(*sample.session, *sample.loaded, sample.inputs, sample.outputs, count);
}

TEST(Executor, StartsFiveProgramsOnceAndPointsQueuesToRingsOnce) {
  LoadedSample sample;
  ASSERT_TRUE(run(sample));
  ASSERT_EQ(sample.machine.state.programmed.size(), NEURON_CORE_ENGINES + 0u);
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    const auto& block = sample.machine.state.programmed[engine];
    const EngineImage& image = sample.loaded->image(engine);
    EXPECT_EQ(block.address, sample.core->window() + NEURON_CORE_ENGINE(engine));
    EXPECT_EQ(block.words[NEURON_ENG_PROG_LO / 4], static_cast<uint32_t>(image.address));
    EXPECT_EQ(block.words[NEURON_ENG_PROG_HI / 4], static_cast<uint32_t>(image.address >> 32));
    EXPECT_EQ(block.words[NEURON_ENG_PROG_COUNT / 4], image.instructions);
    EXPECT_EQ(block.words[NEURON_ENG_LAUNCH_LO / 4],
              static_cast<uint32_t>(sample.core->launch_address()));
    EXPECT_EQ(block.words[NEURON_ENG_DONE_HI / 4],
              static_cast<uint32_t>(sample.core->completion_address() >> 32));
    EXPECT_EQ(block.words[NEURON_ENG_MODE / 4], 0u);
    EXPECT_EQ(block.words[NEURON_ENG_CONTROL / 4], static_cast<uint32_t>(NEURON_CMD_START));
  }
  ASSERT_TRUE(run(sample));
  EXPECT_EQ(sample.machine.state.programmed.size(), NEURON_CORE_ENGINES + 0u);
  EXPECT_THAT(sample.counts, ElementsAre(1, 1));
  const auto& [first, second] = std::pair{sample.launches[0], sample.launches[1]};
  EXPECT_EQ(first.exec_id, 1u);
  EXPECT_EQ(first.binding, 1u);
  EXPECT_EQ(first.flags, NEURON_LAUNCH_REBIND);
  EXPECT_EQ(first.ring_entries, 4u);
  EXPECT_NE(first.ring_table, 0u);
  EXPECT_EQ(first.time_limit, 0u);
  EXPECT_EQ(first.work_record, sample.core->work_address());
  EXPECT_EQ(second.exec_id, 2u);
  EXPECT_EQ(second.binding, 1u);
  EXPECT_EQ(second.flags, 0u) << "the queues have these rings";
  EXPECT_EQ(second.ring_entries, 0u);
}

TEST(Executor, OtherTensorsAreAnotherBindingAndTheFirstOnesTheFirstAgain) {
  LoadedSample sample;
  ASSERT_TRUE(run(sample));
  sample.outputs.put("y", sample.add("z", 64));
  ASSERT_TRUE(run(sample));
  EXPECT_EQ(sample.launches[1].binding, 2u);
  EXPECT_EQ(sample.launches[1].flags, NEURON_LAUNCH_REBIND);
  sample.outputs.put("y", sample.y);
  ASSERT_TRUE(run(sample));
  EXPECT_EQ(sample.launches[2].binding, 1u);
  EXPECT_EQ(sample.launches[2].flags, NEURON_LAUNCH_REBIND);
}

TEST(Executor, TheTimeLimitAndTheWatchForNanComeFromTheConfiguration) {
  Configuration configuration;
  configuration.model_time_limit_ps = 77;
  configuration.fail_on_nan = true;
  LoadedSample sample(test::sample_model(), configuration);
  ASSERT_TRUE(run(sample));
  EXPECT_EQ(sample.launches[0].time_limit, 77u);
  EXPECT_EQ(sample.machine.state.programmed[0].words[NEURON_ENG_MODE / 4], 1u << 6);
}

TEST(Executor, ReportsTimeAndWhatTheEnginesWrote) {
  LoadedSample sample;
  EXPECT_FALSE(sample.loaded->report.valid);
  auto* ring = reinterpret_cast<neuron_notification*>(
      sample.machine.state.at(sample.machine.state.notifications[2].mem_handle).bytes.get());
  ring[0] = {.info = {5, 1, 9}, .word = 1 | NEURON_NK_TRACE << NEURON_NW_KIND_SHIFT};
  ring[1] = {.info = {7, 1, 3}, .word = 1 | NEURON_NK_COMPLETE << NEURON_NW_KIND_SHIFT};
  ASSERT_TRUE(run(sample));
  const ExecutionReport& report = sample.loaded->report;
  EXPECT_TRUE(report.valid);
  EXPECT_EQ(report.exec_id, 1u);
  EXPECT_EQ(report.device_ps, 1000u);
  EXPECT_EQ(report.busy_ps[2], (1ull << 32) + 7);
  EXPECT_EQ(report.retired[2], 3u);
  EXPECT_EQ(report.busy_ps[0], 0u);
}

TEST(Executor, CountsWhatItHasWritten) {
  LoadedSample sample;
  ASSERT_TRUE(run(sample));
  ASSERT_TRUE(run(sample));
  EXPECT_EQ(sample.tensor(sample.y)->completions()->value(), 2u);
  EXPECT_EQ(sample.tensor(sample.x)->completions()->value(), 0u);
}

TEST(Executor, NamesTheTensorThatIsMissingOrDoesNotFit) {
  LoadedSample sample;
  const TensorSet nothing;
  auto result = run(sample, nothing, sample.outputs);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, NRT_INVALID);
  EXPECT_EQ(
      result.error().sentence,
      "model 'sample' needs input tensor 'x' of 64 bytes; the input set has none of that name");
  result = run(sample, sample.inputs, nothing);
  EXPECT_THAT(result.error().sentence, HasSubstr("needs output tensor 'y' of 64 bytes"));
  sample.inputs.put("x", sample.add("x", 63));
  EXPECT_EQ(run(sample).error().sentence,
            "input tensor 'x' of model 'sample' has 63 bytes; the model expects 64");
  sample.inputs.put("x", *sample.session->handles.insert(
                             HandleKind::kTensor, std::make_unique<Tensor>("x", TensorView{})));
  EXPECT_EQ(run(sample).error().sentence,
            "input tensor 'x' of model 'sample' is empty; attach a buffer of 64 bytes first");
  sample.inputs.put("x", sample.x);
  sample.session->handles.remove(sample.x, HandleKind::kTensor);
  result = run(sample);
  EXPECT_EQ(result.error().status, NRT_INVALID_HANDLE);
  EXPECT_EQ(result.error().sentence,
            "input tensor 'x' was freed while its set still names it; add another one");
  EXPECT_TRUE(sample.launches.empty());
}

TEST(Executor, RefusesMemoryThatTheCoreDoesNotReach) {
  LoadedSample sample;
  auto far = Storage::device(sample.core->device(), 1, 64, sample.session->mappings, "x");
  sample.inputs.put(
      "x", *sample.session->handles.insert(HandleKind::kTensor,
                                           std::make_unique<Tensor>("x", TensorView{*far, 0, 64})));
  const auto result = run(sample);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().sentence,
            "input tensor 'x' is in memory of device 0 core 1, but model 'sample' runs on device 0 "
            "core 0; allocate it with the vnc of the model");
}

TEST(Executor, BringsTensorsOfTheHostToTheDeviceAndBack) {
  LoadedSample sample;
  std::array<uint8_t, 64> in{}, out{};
  in.fill(3);
  const auto attach = [&](std::array<uint8_t, 64>& bytes) {
    return *sample.session->handles.insert(
        HandleKind::kTensor,
        std::make_unique<Tensor>("h", TensorView{Storage::attached(bytes.data(), 64), 0, 64}));
  };
  sample.inputs.put("x", attach(in));
  sample.outputs.put("y", attach(out));
  ASSERT_TRUE(run(sample));
  EXPECT_EQ(out[0], 0xAA) << "what lay in the staging memory of the output";
  EXPECT_EQ(out[63], 0xAA);
  uint8_t staged = 0;
  ASSERT_TRUE(sample.loaded->bindings.staging[0]->read(&staged, 63, 1));
  EXPECT_EQ(staged, 3);
}

TEST(Executor, ResetsTheCoreAfterAFaultAndStartsTheProgramsAgain) {
  LoadedSample sample;
  ASSERT_TRUE(run(sample));
  sample.machine.state.resets.clear();
  sample.outcome = {.status = NEURON_FAULT_BUS, .engine = NEURON_ENGINE_PE, .pc = 1, .info = 1};
  const auto failed = run(sample);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().status, NRT_EXEC_COMPLETED_WITH_ERR);
  EXPECT_THAT(failed.error().sentence,
              HasSubstr("model 'sample' failed on device 0 core 0 with BUS"));
  EXPECT_THAT(sample.machine.state.resets, ElementsAre(1u));
  EXPECT_FALSE(sample.loaded->report.valid);
  EXPECT_EQ(sample.tensor(sample.y)->completions()->value(), 1u);
  sample.outcome = {};
  const size_t before = sample.machine.state.programmed.size();
  ASSERT_TRUE(run(sample));
  EXPECT_EQ(sample.machine.state.programmed.size(), before + NEURON_CORE_ENGINES);
  EXPECT_EQ(sample.launches.back().flags, NEURON_LAUNCH_REBIND);
}

TEST(Executor, ACoreWhoseResetFailsIsNeverUsedAgain) {
  LoadedSample sample;
  sample.outcome = {.status = NEURON_FAULT_BUS};
  sample.machine.state.failing[NEURON_IOCTL_NC_RESET] = -EIO;
  const auto failed = run(sample);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().status, NRT_EXEC_UNIT_UNRECOVERABLE);
  EXPECT_THAT(failed.error().sentence, HasSubstr("cannot be used until the runtime is closed"));
  sample.outcome = {};
  const auto refused = run(sample);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, NRT_EXEC_UNIT_UNRECOVERABLE);
  EXPECT_EQ(refused.error().sentence,
            "device 0 core 0 could not be reset after a failure; close the runtime and initialise "
            "it again");
}

TEST(Executor, TellsADeadlockFromATimeout) {
  LoadedSample sample;
  sample.outcome.ends = false;
  sample.machine.state.wait_result = -EDEADLK;
  const auto stuck = run(sample);
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error().status, NRT_HW_ERROR) << "idle engines: somebody has reset the core";
  EXPECT_THAT(stuck.error().sentence, HasSubstr("the core was reset by an operator"));
  sample.machine.state.wait_result = -ETIMEDOUT;
  const auto late = run(sample);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().status, NRT_TIMEOUT);
  EXPECT_THAT(late.error().sentence,
              HasSubstr("model 'sample' has not finished on device 0 core 0 after 600 s"));
  sample.machine.state.wait_result = -EIO;
  const auto broken = run(sample);
  EXPECT_EQ(broken.error().status, NRT_HW_ERROR);
  EXPECT_THAT(broken.error().sentence, HasSubstr("launching model 'sample' on device 0 core 0"));
}

TEST(Executor, AModelThatWasUnloadedIsNotExecuted) {
  LoadedSample sample;
  sample.loaded->retire();
  const auto refused = run(sample);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, NRT_INVALID_HANDLE);
  EXPECT_EQ(refused.error().sentence,
            "model 'sample' was unloaded while this execution waited for its turn");
}

TEST(Executor, ProgramsThatDoNotReachTheirWaitsAreReported) {
  LoadedSample sample;
  const uint64_t status =
      sample.core->place().window_bar0() + NEURON_CORE_CONTROL + NEURON_CORE_STATUS;
  sample.machine.state.registers[status] = NEURON_CORE_STATUS_QUIESCENT | 0x20222;
  const auto reset = run(sample);
  ASSERT_FALSE(reset);
  EXPECT_EQ(reset.error().status, NRT_HW_ERROR);
  EXPECT_THAT(reset.error().sentence, HasSubstr("the programs of device 0 core 0 did not start"));
  int looks = 0;
  sample.machine.state.on_read = [&](uint64_t offset) {
    if (offset != status) return;
    // First one engine runs, then a transfer is on its way, then all have settled.
    const uint32_t states[] = {0x22122, 0x22222, test::kSettled};
    sample.machine.state.registers[status] = states[std::min(looks++, 2)];
  };
  EXPECT_TRUE(run(sample));
  EXPECT_EQ(looks, 3);
  sample.machine.state.on_read = nullptr;  // The model's end reads, too
}

TEST(Executor, LaunchesTogetherWhatHasProvedQuick) {
  LoadedSample sample;
  const auto tensors = match_cached(*sample.session, *sample.loaded, sample.inputs, sample.outputs);
  ASSERT_TRUE(tensors);
  EXPECT_EQ(*match_cached(*sample.session, *sample.loaded, sample.inputs, sample.outputs),
            *tensors);
  uint32_t done = 0;
  ASSERT_TRUE(execute_matched(*sample.session, *sample.loaded, **tensors, 3, done));
  EXPECT_EQ(done, 1u) << "the first tells the device of its rings, alone";
  sample.loaded->report.host_ns = 50'000;
  ASSERT_TRUE(execute_matched(*sample.session, *sample.loaded, **tensors, 3, done));
  EXPECT_EQ(done, 1u) << "50 us is not quick";
  sample.loaded->report.host_ns = 49'999;
  ASSERT_TRUE(execute_matched(*sample.session, *sample.loaded, **tensors, 3, done));
  EXPECT_EQ(done, 3u);
  EXPECT_THAT(sample.counts, ElementsAre(1, 1, 3));
  EXPECT_EQ(sample.tensor(sample.y)->completions()->value(), 5u);
  EXPECT_EQ(sample.launches.back().exec_id, 3u);
  EXPECT_EQ(sample.core->executions, 5u);
  EXPECT_EQ(sample.loaded->report.exec_id, 5u);
}

TEST(Executor, OfLaunchesTogetherOnlyThoseBeforeTheFailureCount) {
  LoadedSample sample;
  const auto tensors = match_cached(*sample.session, *sample.loaded, sample.inputs, sample.outputs);
  uint32_t done = 0;
  ASSERT_TRUE(execute_matched(*sample.session, *sample.loaded, **tensors, 1, done));
  sample.loaded->report.host_ns = 0;
  sample.outcome.status = NEURON_FAULT_BUS;
  EXPECT_FALSE(execute_matched(*sample.session, *sample.loaded, **tensors, 3, done));
  EXPECT_EQ(done, 2u);
  EXPECT_EQ(sample.tensor(sample.y)->completions()->value(), 3u);
}

TEST(Executor, ATensorThatChangesIsFoundByTheEpoch) {
  LoadedSample sample;
  ASSERT_TRUE(run(sample));
  std::array<uint8_t, 64> bytes{};
  sample.tensor(sample.y)->attach(bytes.data(), bytes.size());
  sample.session->tensor_epoch.fetch_add(1);
  ASSERT_TRUE(run(sample));
  EXPECT_EQ(sample.launches[1].binding, 2u);
  EXPECT_EQ(bytes[63], 0xAA);
}

TEST(ExecuteRepeat, NeedsAtLeastOneRepetition) {
  LoadedSample sample;
  for (const int count : {0, -1}) {
    const auto refused = repeat(sample, count);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().sentence,
              base::format("repeat_count is {}; it must be at least 1", count));
  }
}

TEST(ExecuteRepeat, SwapsTensorsSoThatTheLastResultIsInTheOutput) {
  for (const int count : {1, 2, 3, 4, 5}) {
    LoadedSample sample;
    ASSERT_TRUE(repeat(sample, count));
    ASSERT_EQ(sample.launches.size(), static_cast<size_t>(count));
    EXPECT_EQ(sample.launches.back().binding, 1u) << "the sets as they were given";
    const size_t copies = sample.machine.state.count(NEURON_IOCTL_MEM_COPY64);
    EXPECT_EQ(copies, count % 2 == 0 ? 1u : 0u) << count;
    if (count >= 3) {
      EXPECT_EQ(sample.launches[static_cast<size_t>(count) - 2].binding, 2u);
    }
  }
}

TEST(ExecuteRepeat, OutputsMustMatchInputsInTypeAndShape) {
  neff::Model model = test::sample_model();
  model.outputs[0].shape = {4, 4};
  LoadedSample sample(model);
  const auto refused = repeat(sample, 2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().sentence,
            "model 'sample' cannot be repeated: none of its 1 outputs has the name of an input, "
            "and they do not match its 1 inputs in type and shape");
  EXPECT_TRUE(repeat(sample, 1));
}

TEST(ExecuteRepeat, SaysWhichRepetitionFailed) {
  LoadedSample sample;
  sample.outcome.status = NEURON_FAULT_BUS;
  const auto failed = repeat(sample, 3);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().sentence, HasSubstr("repetition 1 of 3: model 'sample' failed"));
}

TEST(ExecuteRepeat, CopiesWhereTensorsMayNotSwap) {
  LoadedSample sample;
  std::array<uint8_t, 64> in{};
  sample.inputs.put(
      "x", *sample.session->handles.insert(
               HandleKind::kTensor,
               std::make_unique<Tensor>("x", TensorView{Storage::attached(in.data(), 64), 0, 64})));
  ASSERT_TRUE(sample.tensor(sample.y)->fill(0, 64, 9));
  ASSERT_TRUE(repeat(sample, 2));
  EXPECT_EQ(in[0], 9) << "the input holds the last but one result";
  EXPECT_EQ(in[63], 9);
}

TEST(ExecuteRepeat, RefusesOutputAndInputThatOverlap) {
  LoadedSample sample;
  void* both = sample.add("b", 96);
  auto slice = sample.tensor(both)->slice(0, 64, "x");
  sample.inputs.put("x", *sample.session->handles.insert(HandleKind::kTensor, std::move(*slice)));
  auto other = sample.tensor(both)->slice(32, 64, "y");
  sample.outputs.put("y", *sample.session->handles.insert(HandleKind::kTensor, std::move(*other)));
  const auto refused = repeat(sample, 2);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().sentence,
              HasSubstr("repetition 2 of 2: output 'y' of 64 bytes cannot be brought back to input "
                        "'x' of 64 bytes: they overlap; give them tensors of their own"));
}

}  // namespace
}  // namespace neuron::runtime
