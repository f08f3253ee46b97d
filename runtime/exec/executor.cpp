// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/executor.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>

#include "runtime/base/log.h"
#include "runtime/collectives/registry.h"
#include "runtime/device/core_launch.h"
#include "runtime/device/driver_error.h"
#include "runtime/exec/bind_tensors.h"
#include "runtime/exec/core_dump.h"
#include "runtime/exec/fault_report.h"
#include "runtime/exec/launch_trace.h"

namespace neuron::runtime {
namespace {

// Executions shorter than this on the host may be launched several at a time.
constexpr uint64_t kQuick_ns = 50'000;

// Adds what one physical core did in this execution, which ends with the longer one of two.
void add_to_report(ExecutionReport& report, const CoreLaunch& launch, bool second) {
  report.device_ps = second ? std::max(report.device_ps, launch.device_ps) : launch.device_ps;
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    report.busy_ps[engine] = launch.busy_ps[engine] + (second ? report.busy_ps[engine] : 0);
    report.retired[engine] = launch.retired[engine] + (second ? report.retired[engine] : 0);
  }
}

// A reset that fails for the reason of the failure itself, such as a daemon that is gone, does not
// tell the reason again.
std::string with_failed_reset(const std::string& failure, const std::string& reset) {
  const auto [end, unused] =
      std::mismatch(reset.rbegin(), reset.rend(), failure.rbegin(), failure.rend());
  const auto same = static_cast<size_t>(end - reset.rbegin());
  const size_t reason = reset.find(": ", reset.size() - same);
  const size_t step = reset.find(": ");
  constexpr size_t kLeast = 24;  // shorter ends may be equal by chance
  if (same < kLeast || reason == std::string::npos) return failure + "; " + reset;
  return failure + "; " + reset.substr(0, step) + ", for the same reason";
}

// After a failure: resets the core, so that the next execution finds it as the first one did.
Error give_up(LoadedModel& model, Error error) {
  model.report.valid = false;
  if (model.collectives() != nullptr) model.collectives()->give_up(error.sentence);
  for (LoadedModel* part : {&model, model.second()}) {
    if (part == nullptr) continue;
    if (auto recovered = part->core().recover(); !recovered) {
      log_error(LogComponent::kTdrv, "{}", recovered.error().sentence);
      return Error(NRT_EXEC_UNIT_UNRECOVERABLE,
                   with_failed_reset(error.sentence, recovered.error().sentence));
    }
  }
  return error;
}

// Counts the outcome of an execution that never reached its core.
template <typename Outcome>
Outcome counted(LoadedModel& model, Outcome outcome) {
  if (!outcome) model.core().counters.refused(outcome.error().status);
  return outcome;
}

LaunchOrder order_of(const Binding& binding, const DescriptorRings& rings, uint32_t count,
                     const Configuration& configuration) {
  return {.count = count,
          .binding = &binding,
          .binding_number = binding.number,
          .ring_table = rings.table_address(),
          .ring_entries = rings.table_entries(),
          .time_limit_ps = configuration.model_time_limit_ps};
}

Error describe_failure(LoadedModel& model, int result, const Configuration& configuration) {
  if (result == 0) return describe_fault(model, model.core().completion());
  if (result == -EDEADLK) return describe_deadlock(model);
  if (result == -EOWNERDEAD) return describe_lost_rank(model);
  if (result == -ETIMEDOUT) return describe_timeout(model, configuration.exec_timeout_s);
  return driver_error(NRT_HW_ERROR, result, "launching model '{}' on device {} core {}",
                      model.name(), model.core().device().index(), model.core().number());
}

// Makes `count` launches, which the core runs one after the other. `done`: how many succeeded; an
// error is that of the next one.
Result<void> launch(Session& session, LoadedModel& model, const Binding& binding, uint32_t count,
                    uint32_t& done, ExecuteTrace* call) {
  Core& core = model.core();
  LoadedModel* part = model.second();
  const Configuration& configuration = session.configuration();
  done = 0;
  NEURON_CHECK(counted(model, model.check_collectives()));
  LaunchTrace trace(session.system_trace, model, call);
  const ProgramModes modes{.watch_nan = configuration.fail_on_nan,
                           .round_stochastically = configuration.stochastic_rounding,
                           .seed = configuration.rounding_seed};
  if (auto ready = model.make_ready(binding, modes); !ready) {
    return counted(model, Result<void>(give_up(model, ready.error())));
  }
  const LaunchOrder order = order_of(binding, *binding.rings, count, configuration);
  CoreLaunch first(core, order, model.collectives());
  std::optional<LaunchOrder> second_order;
  std::optional<CoreLaunch> second;
  if (part != nullptr) {
    second_order = order_of(binding, *binding.second_rings, count, configuration);
    second_order->has_code = has_code(*part);
    second.emplace(part->core(), *second_order, part->collectives());
  }
  const CoreLaunch::Times times =
      CoreLaunch::run(first, second ? &*second : nullptr, configuration.exec_timeout_s);
  const uint64_t host_ns = times.taken();
  trace.ran(times, first.device_ps * count);
  done = second ? std::min(first.done, second->done) : first.done;
  const bool failed = first.failed || (second && second->failed);
  if (!failed) {
    model.report.valid = true;
    model.report.exec_id = core.executions;
    model.report.host_ns = host_ns / count;
    add_to_report(model.report, first, false);
    if (second) add_to_report(model.report, *second, true);
  }
  if (second) part->core().counters.worked(second->work);
  if (!failed && configuration.fail_on_nan) {
    auto clean = find_numeric_errors(model);
    if (clean && second) clean = find_numeric_errors(*part);
    if (!clean) {
      core.counters.executed(clean.error().status, first.work, host_ns);
      done = 0;
      return clean;
    }
  }
  core.counters.executed_well(done, first.work, host_ns);
  if (!failed) return {};
  // The core that was waited for no longer, as the other one failed, does not know why.
  const bool first_knows = first.failed && first.result != CoreLaunch::kOtherFailed;
  Error error = first_knows ? describe_failure(model, first.result, configuration)
                            : describe_failure(*part, second->result, configuration);
  // Work is counted for successful executions only.
  core.counters.executed(error.status, {}, done == 0 ? host_ns : 0);
  const auto dump = CoreDump::write(session, model, error);
  Error given_up = give_up(model, std::move(error));
  if (dump) dump->hand_over();
  return given_up;
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

// `count` above 1 only for executions that need no copies by the host.
Result<void> run_resolved(Session& session, LoadedModel& model, const Resolution& resolution,
                          uint32_t count, uint32_t& done, ExecuteTrace* call) {
  done = 0;
  for (const StagedTensor& staged : resolution.before) {
    NEURON_TRY(host,
               counted(model, staged.storage->reach(staged.offset, staged.size, HostUse::kRead)));
    NEURON_CHECK(counted(model, staged.staging->write(host, 0, staged.size)));
  }
  auto launched = launch(session, model, *resolution.binding, count, done, call);
  if (launched) {
    for (const StagedTensor& staged : resolution.after) {
      NEURON_TRY(host, staged.storage->reach(staged.offset, staged.size, HostUse::kWritten));
      NEURON_CHECK(staged.staging->read(host, 0, staged.size));
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

// True if outputs and inputs may be exchanged: same size, device memory, no overlap.
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

Result<void> meet_ranks(Session& session, LoadedModel& model) {
  if (!model.awaits_ranks()) return {};
  return counted(model, CollectivesRegistry::of(session).meet(session, model));
}

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
                             uint32_t count, uint32_t& done, ExecuteTrace* call) {
  done = 0;
  NEURON_CHECK(counted(model, check_usable(model)));
  NEURON_TRY(resolution, counted(model, find_resolution(model, tensors)));
  const bool staged = !resolution->before.empty() || !resolution->after.empty();
  // The first execution with other rings tells the device so, and must do it alone.
  const bool together = !staged && model.core().current_model == &model &&
                        model.core().current_binding == resolution->binding && model.report.valid &&
                        model.core().trace == nullptr && model.report.host_ns < kQuick_ns &&
                        !session.configuration().fail_on_nan;
  while (done < count) {
    uint32_t part = 0;
    auto result =
        run_resolved(session, model, *resolution, together ? count - done : 1, part, call);
    done += part;
    if (!result) return result;
    if (!together) break;
  }
  return {};
}

Result<void> execute(Session& session, LoadedModel& model, const TensorSet& inputs,
                     const TensorSet& outputs, ExecuteTrace* call) {
  NEURON_CHECK(counted(model, check_usable(model)));
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
  return run_resolved(session, model, *resolution, 1, done, call);
}

Result<void> execute_repeat(Session& session, LoadedModel& model, const TensorSet& inputs,
                            const TensorSet& outputs, int count, ExecuteTrace* call) {
  if (count < 1) return fail(NRT_INVALID, "repeat_count is {}; it must be at least 1", count);
  if (count == 1) return execute(session, model, inputs, outputs, call);
  NEURON_TRY(pairs, feedback_of(model));
  NEURON_CHECK(counted(model, check_usable(model)));
  auto matched = counted(model, match(session, model, inputs, outputs));
  if (!matched) return matched.error().with("repetition 1 of {}", count);
  const bool swap = may_swap(model, **matched, pairs);
  const std::shared_ptr<const MatchedTensors> there = *matched;
  const std::shared_ptr<const MatchedTensors> back = swap ? swapped(*there, pairs) : there;
  // With an odd number of executions left, the last one writes the requested outputs.
  bool turned = false;
  for (int i = 0; i < count; ++i) {
    const bool change = i > 0 && swap && !(i == 1 && count % 2 == 0);
    auto prepared =
        i == 0 || change ? Result<void>() : counted(model, bring_back(model, *there, pairs));
    turned = change && !turned;
    uint32_t done = 0;
    auto result = prepared ? execute_matched(session, model, turned ? *back : *there, 1, done, call)
                           : prepared;
    if (!result) return result.error().with("repetition {} of {}", i + 1, count);
  }
  return {};
}

}  // namespace neuron::runtime
