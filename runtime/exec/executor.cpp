// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/executor.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

#include "hw/control.h"
#include "hw/fault.h"
#include "runtime/base/log.h"
#include "runtime/device/core_turn.h"
#include "runtime/device/driver_error.h"
#include "runtime/exec/fault_report.h"
#include "runtime/exec/resolve.h"

namespace neuron::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// Executions shorter than this on the host may be launched several at a time.
constexpr uint64_t kQuick_ns = 50'000;

uint64_t nanoseconds(Clock::time_point when) {
  return static_cast<uint64_t>(when.time_since_epoch().count());
}

// Reads what the engines wrote about their part of this execution, which ends with the longer one
// of two cores.
void collect_report(LoadedModel& model, LoadedModel& part, uint64_t host_ns) {
  Core& core = part.core();
  const neuron_completion_record& record = core.completion();
  const bool second = &part != &model;
  ExecutionReport& report = model.report;
  const uint64_t device_ps = record.end - record.start;
  if (!second) {
    report.exec_id = record.exec_id;
    report.host_ns = host_ns;
  }
  report.device_ps = second ? std::max(report.device_ps, device_ps) : device_ps;
  report.valid = true;
  std::array<uint64_t, NEURON_CORE_ENGINES> busy{};
  std::array<uint32_t, NEURON_CORE_ENGINES> retired{};
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    neuron_notification entry;
    while (core.completions[engine].next(entry)) {
      if (((entry.word >> NEURON_NW_KIND_SHIFT) & 0xF) != NEURON_NK_COMPLETE) continue;
      busy[engine] = uint64_t{entry.info[1]} << 32 | entry.info[0];
      retired[engine] = entry.info[2];
    }
    report.busy_ps[engine] = busy[engine] + (second ? report.busy_ps[engine] : 0);
    report.retired[engine] = retired[engine] + (second ? report.retired[engine] : 0);
  }
}

void fill_launch_record(Core& core, const Binding& binding, const RingSet& rings,
                        uint64_t time_limit) {
  neuron_launch_record& record = core.launch();
  record.exec_id = ++core.executions;
  record.binding = binding.number;
  const bool rebind = core.current_binding != &binding && rings.table_entries() != 0;
  record.flags = rebind ? NEURON_LAUNCH_REBIND : 0;
  record.ring_entries = rebind ? rings.table_entries() : 0;
  record.ring_table = rings.table_address();
  record.time_limit = time_limit;
  record.work_record = core.work_address();
}

// After a failure: the core is reset, so that the next execution finds it as the first one did.
Error give_up(LoadedModel& model, Error error) {
  model.report.valid = false;
  if (model.collectives() != nullptr) model.collectives()->give_up(error.sentence);
  for (LoadedModel* part : {&model, model.second()}) {
    if (part == nullptr) continue;
    if (auto recovered = part->core().recover(); !recovered) {
      log_error(LogComponent::kTdrv, "{}", recovered.error().sentence);
      return Error(NRT_EXEC_UNIT_UNRECOVERABLE, error.sentence + "; " + recovered.error().sentence);
    }
  }
  return error;
}

// How long a wait for other ranks goes on without a look whether they are there, and how long after
// one is gone: what it had sent may be all that is needed.
constexpr uint64_t kLookAfterRanks = 100'000'000;

// Waits for a word of the device; -EOWNERDEAD: a rank that this one waits for has failed, or its
// process is gone.
int await_word(Core& core, uint32_t* word, uint32_t before, uint64_t until,
               const ModelCollectives* collectives) {
  ndl::DevicePort& port = core.device().port();
  bool gone = false;
  // bounded: each turn but the last takes some of the time until `until`.
  while (collectives != nullptr) {
    const uint64_t look = nanoseconds(Clock::now()) + kLookAfterRanks;
    if (look >= until) break;
    const int result = port.wait(core.number(), word, before, look);
    if (result != -ETIMEDOUT) return result;
    if (gone) return -EOWNERDEAD;
    gone = collectives->failure_of_rank() || !collectives->check_peers();
  }
  return port.wait(core.number(), word, before, until);
}

// Waits until `count` more completion records were written, or one that tells of a failure.
int await_completions(Core& core, uint32_t before, uint32_t count, uint64_t until,
                      const ModelCollectives* collectives) {
  neuron_completion_record& record = core.completion();
  uint32_t done = 0;
  while (done < count) {
    const int result = await_word(core, &record.sequence, before + done, until, collectives);
    if (result != 0) return result;
    done = __atomic_load_n(&record.sequence, __ATOMIC_ACQUIRE) - before;
    if (record.status == NEURON_FAULT_NONE) continue;
    // The status of a record may be seen before its sequence. The core answers behind what it has
    // written, so that the caller's look at the sequence counts the one that failed.
    (void)core.device().read_register(core.place().window_bar0() + NEURON_CORE_CONTROL +
                                      NEURON_CORE_STATUS);
    break;
  }
  return 0;
}

Result<void> make_ready(Session& session, LoadedModel& model, const Binding& binding) {
  const bool watch_nan = session.configuration().fail_on_nan;
  NEURON_CHECK(model.check_collectives());
  if (model.core().current_model != &model) {
    auto activated = model.activate(*binding.rings, watch_nan);
    if (!activated) return give_up(model, activated.error());
  }
  LoadedModel* second = model.second();
  if (second != nullptr && second->core().current_model != second) {
    auto activated = second->activate(*binding.second_rings, watch_nan);
    if (!activated) return give_up(model, activated.error());
  }
  return {};
}

// Of an execution that never reached its core: how it ended is counted all the same.
template <typename Outcome>
Outcome counted(LoadedModel& model, Outcome outcome) {
  if (!outcome) model.core().counters.refused(outcome.error().status);
  return outcome;
}

// One physical core of a launch.
struct Launch {
  LoadedModel& part;
  const RingSet& rings;
  uint32_t before = 0;    // completions, when it was launched
  uint32_t first_id = 0;  // of the executions
  uint32_t done = 0;
  int result = 0;  // of the driver
  bool failed = false;
};

// `here`: this thread waits for the core at once, so nobody else need run it.
void start(Launch& launch, const Binding& binding, const Configuration& configuration,
           uint32_t count, bool here) {
  Core& core = launch.part.core();
  fill_launch_record(core, binding, launch.rings, configuration.model_time_limit_ps);
  launch.before = __atomic_load_n(&core.completion().sequence, __ATOMIC_ACQUIRE);
  launch.first_id = core.executions;
  // Release: the record above is complete before the device sees the semaphore; its partner is the
  // load of the record by the SP program.
  std::atomic_thread_fence(std::memory_order_release);
  launch.result =
      core.device().port().write_register(core.place().window_bar0() + NEURON_CORE_SEMAPHORES +
                                              NEURON_SEM_BLOCK_INC + NEURON_SEM_LAUNCH * 4,
                                          count, here);
}

void finish(Launch& launch, const Binding& binding, uint32_t count, uint64_t until) {
  Core& core = launch.part.core();
  const neuron_completion_record& record = core.completion();
  if (launch.result == 0) {
    launch.result = await_completions(core, launch.before, count, until, launch.part.collectives());
  }
  launch.failed = launch.result != 0 || record.status != NEURON_FAULT_NONE;
  launch.done = __atomic_load_n(&record.sequence, __ATOMIC_ACQUIRE) - launch.before;
  if (launch.result == 0 && launch.failed) --launch.done;
  core.executions = launch.first_id + launch.done - (launch.failed ? 0 : 1);
  if (launch.done != 0) core.current_binding = &binding;
}

Error describe_failure(const Launch& launch, const Configuration& configuration) {
  LoadedModel& model = launch.part;
  if (launch.result == 0) return describe_fault(model, model.core().completion());
  if (launch.result == -EDEADLK) return describe_deadlock(model);
  if (launch.result == -EOWNERDEAD) return describe_lost_rank(model);
  if (launch.result == -ETIMEDOUT) return describe_timeout(model, configuration.exec_timeout_s);
  return driver_error(NRT_HW_ERROR, launch.result, "launching model '{}' on device {} core {}",
                      model.name(), model.core().device().index(), model.core().number());
}

// `count` launches, which the core takes one behind the other. `done`: how many succeeded; the one
// behind them has failed if an error is returned.
Result<void> launch(Session& session, LoadedModel& model, const Binding& binding, uint32_t count,
                    uint32_t& done) {
  Core& core = model.core();
  const Configuration& configuration = session.configuration();
  done = 0;
  NEURON_CHECK(counted(model, make_ready(session, model, binding)));
  Launch first{model, *binding.rings};
  std::optional<Launch> second;
  if (model.second() != nullptr) second.emplace(Launch{*model.second(), *binding.second_rings});
  const Clock::time_point begin = Clock::now();
  if (second) start(*second, binding, configuration, count, false);
  start(first, binding, configuration, count, true);
  const uint64_t until = nanoseconds(begin) + configuration.exec_timeout_s * 1'000'000'000ull;
  finish(first, binding, count, until);
  if (second) finish(*second, binding, count, until);
  const uint64_t host_ns = nanoseconds(Clock::now()) - nanoseconds(begin);
  done = second ? std::min(first.done, second->done) : first.done;
  const bool failed = first.failed || (second && second->failed);
  if (!failed) {
    collect_report(model, model, host_ns / count);
    if (second) collect_report(model, second->part, 0);
    model.report.exec_id = core.executions;
  }
  const neuron_work_record work = core.take_work();
  if (second) second->part.core().counters.worked(second->part.core().take_work());
  if (!failed && configuration.fail_on_nan) {
    auto clean = find_numeric_errors(model);
    if (clean && second) clean = find_numeric_errors(second->part);
    if (!clean) {
      core.counters.executed(clean.error().status, work, host_ns);
      done = 0;
      return clean;
    }
  }
  core.counters.executed_well(done, work, host_ns);
  if (!failed) return {};
  Error error = describe_failure(first.failed ? first : *second, configuration);
  // The work is that of those that succeeded.
  core.counters.executed(error.status, {}, done == 0 ? host_ns : 0);
  return give_up(model, std::move(error));
}

Result<void> check_usable(const LoadedModel& model) {
  if (model.retired()) {
    return fail(NRT_INVALID_HANDLE,
                "model '{}' was unloaded while this execution waited for its "
                "turn",
                model.name());
  }
  for (const LoadedModel* part : {&model, static_cast<const LoadedModel*>(model.second())}) {
    if (part == nullptr || !part->core().unusable()) continue;
    return fail(NRT_EXEC_UNIT_UNRECOVERABLE,
                "device {} core {} could not be reset after a failure; close the runtime and "
                "initialise it again",
                part->core().device().index(), part->core().number());
  }
  return {};
}

// The turn of the model's core, if the model can still be executed then.
Result<CoreTurn> take_turn(const LoadedModel& model) {
  NEURON_TRY(turn, CoreTurn::take(model.core()));
  NEURON_CHECK(check_usable(model));
  return std::move(turn);
}

// `count` above 1 only for executions that need no copies by the host.
Result<void> run_resolved(Session& session, LoadedModel& model, const Resolution& resolution,
                          uint32_t count, uint32_t& done) {
  done = 0;
  for (const StagedTensor& staged : resolution.before) {
    NEURON_TRY(host, counted(model, staged.storage->address()));
    NEURON_CHECK(counted(model, staged.staging->write(host + staged.offset, 0, staged.size)));
  }
  auto launched = launch(session, model, *resolution.binding, count, done);
  if (launched) {
    for (const StagedTensor& staged : resolution.after) {
      NEURON_TRY(host, staged.storage->address());
      NEURON_CHECK(staged.staging->read(host + staged.offset, 0, staged.size));
    }
  }
  if (done != 0) {
    for (const auto& counter : resolution.written) session.completion_hub.add(*counter, done);
  }
  return launched;
}

Result<Resolution*> find_resolution(LoadedModel& model, const MatchedTensors& tensors) {
  if (Resolution* known = model.bindings.find(tensors.inputs, tensors.outputs, tensors.epoch)) {
    return known;
  }
  return resolve(model, tensors);
}

// An output and the input that it feeds: places among the model's ports.
struct Feedback {
  size_t output;
  size_t input;
};

Result<std::vector<Feedback>> feedback_of(const LoadedModel& model) {
  std::vector<size_t> inputs, outputs;
  const auto& ports = model.ports();
  for (size_t i = 0; i < ports.size(); ++i) (ports[i].output ? outputs : inputs).push_back(i);
  std::vector<Feedback> pairs;
  for (const size_t output : outputs) {
    for (const size_t input : inputs) {
      if (ports[input].info.name == ports[output].info.name) pairs.push_back({output, input});
    }
  }
  if (!pairs.empty()) return pairs;
  bool same = inputs.size() == outputs.size() && !inputs.empty();
  for (size_t i = 0; same && i < inputs.size(); ++i) {
    same = ports[inputs[i]].info.dtype == ports[outputs[i]].info.dtype &&
           ports[inputs[i]].info.shape == ports[outputs[i]].info.shape;
    pairs.push_back({outputs[i], inputs[i]});
  }
  if (!same) {
    return fail(
        NRT_INVALID,
        "model '{}' cannot be repeated: none of its {} outputs has the name of an input, and "
        "they do not match its {} inputs in type and shape",
        model.name(), outputs.size(), inputs.size());
  }
  return pairs;
}

bool same_place(const TensorView& a, const TensorView& b) {
  return a.storage == b.storage && a.offset == b.offset;
}

bool overlap(const TensorView& a, const TensorView& b) {
  return a.storage == b.storage && a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

// Whether outputs and inputs may change places: same size, device memory, nothing in two places.
bool may_swap(const LoadedModel& model, const MatchedTensors& tensors,
              const std::vector<Feedback>& pairs) {
  for (const Feedback& pair : pairs) {
    const TensorView& from = tensors.ports[pair.output];
    const TensorView& to = tensors.ports[pair.input];
    if (model.ports()[pair.output].info.variable == model.ports()[pair.input].info.variable ||
        from.size != to.size || !from.storage->reachable() || !to.storage->reachable()) {
      return false;
    }
  }
  for (size_t a = 0; a < tensors.ports.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (overlap(tensors.ports[a], tensors.ports[b])) return false;
    }
  }
  return true;
}

std::shared_ptr<const MatchedTensors> swapped(const MatchedTensors& tensors,
                                              const std::vector<Feedback>& pairs) {
  auto other = std::make_shared<MatchedTensors>(tensors);
  other->inputs = private_version();
  for (const Feedback& pair : pairs) {
    std::swap(other->ports[pair.output], other->ports[pair.input]);
  }
  return other;
}

Result<void> bring_back(const LoadedModel& model, const MatchedTensors& tensors,
                        const std::vector<Feedback>& pairs) {
  for (const Feedback& pair : pairs) {
    const TensorView& from = tensors.ports[pair.output];
    const TensorView& to = tensors.ports[pair.input];
    if (same_place(from, to)) continue;  // one buffer: nothing to bring back
    if (from.size < to.size || overlap(from, to)) {
      return fail(
          NRT_INVALID,
          "output '{}' of {} bytes cannot be brought back to input '{}' of {} bytes: {}",
          model.ports()[pair.output].info.name, from.size, model.ports()[pair.input].info.name,
          to.size,
          from.size < to.size ? "it is smaller" : "they overlap; give them tensors of their own");
    }
    NEURON_CHECK(Storage::copy(*from.storage, from.offset, *to.storage, to.offset, to.size));
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const MatchedTensors>> match_cached(Session& session, LoadedModel& model,
                                                           const TensorSet& inputs,
                                                           const TensorSet& outputs) {
  const uint64_t epoch = session.tensor_epoch.load(std::memory_order_acquire);
  if (auto known = model.bindings.memo.find(inputs.version(), outputs.version(), epoch)) {
    return known;
  }
  auto matched = counted(model, match(session, model, inputs, outputs));
  if (!matched) return matched.error();
  model.bindings.memo.keep(*matched);
  return matched;
}

Result<void> execute_matched(Session& session, LoadedModel& model, const MatchedTensors& tensors,
                             uint32_t count, uint32_t& done) {
  done = 0;
  NEURON_CHECK(counted(model, check_usable(model)));
  NEURON_TRY(resolution, counted(model, find_resolution(model, tensors)));
  const bool staged = !resolution->before.empty() || !resolution->after.empty();
  // The first execution with other rings tells the device so, and must do it alone.
  const bool together = !staged && model.core().current_model == &model &&
                        model.core().current_binding == resolution->binding && model.report.valid &&
                        model.report.host_ns < kQuick_ns && !session.configuration().fail_on_nan;
  while (done < count) {
    uint32_t part = 0;
    auto result = run_resolved(session, model, *resolution, together ? count - done : 1, part);
    done += part;
    if (!result) return result;
    if (!together) break;
  }
  return {};
}

Result<void> execute(Session& session, LoadedModel& model, const TensorSet& inputs,
                     const TensorSet& outputs) {
  NEURON_TRY(turn, counted(model, take_turn(model)));
  // Acquire: pairs with the threads that free or change a tensor; their change is seen below, or
  // the epoch is old and the sets are resolved again by the next execution.
  const uint64_t epoch = session.tensor_epoch.load(std::memory_order_acquire);
  Resolution* resolution = model.bindings.find(inputs.version(), outputs.version(), epoch);
  if (resolution == nullptr) {
    NEURON_TRY(tensors, counted(model, match(session, model, inputs, outputs)));
    NEURON_TRY(resolved, counted(model, resolve(model, *tensors)));
    resolution = resolved;
  }
  uint32_t done = 0;
  return run_resolved(session, model, *resolution, 1, done);
}

Result<void> execute_repeat(Session& session, LoadedModel& model, const TensorSet& inputs,
                            const TensorSet& outputs, int count) {
  if (count < 1) return fail(NRT_INVALID, "repeat_count is {}; it must be at least 1", count);
  if (count == 1) return execute(session, model, inputs, outputs);
  NEURON_TRY(pairs, feedback_of(model));
  NEURON_TRY(turn, counted(model, take_turn(model)));
  auto matched = counted(model, match(session, model, inputs, outputs));
  if (!matched) return matched.error().with("repetition 1 of {}", count);
  const bool swap = may_swap(model, **matched, pairs);
  const std::shared_ptr<const MatchedTensors> there = *matched;
  const std::shared_ptr<const MatchedTensors> back = swap ? swapped(*there, pairs) : there;
  // With an odd number of executions left the last one writes the outputs that were asked for.
  bool turned = false;
  for (int i = 0; i < count; ++i) {
    const bool change = i > 0 && swap && !(i == 1 && count % 2 == 0);
    auto prepared =
        i == 0 || change ? Result<void>() : counted(model, bring_back(model, *there, pairs));
    turned = change && !turned;
    uint32_t done = 0;
    auto result =
        prepared ? execute_matched(session, model, turned ? *back : *there, 1, done) : prepared;
    if (!result) return result.error().with("repetition {} of {}", i + 1, count);
  }
  return {};
}

}  // namespace neuron::runtime
