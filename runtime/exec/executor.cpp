// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/executor.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include "hw/fault.h"
#include "runtime/base/log.h"
#include "runtime/exec/fault_report.h"
#include "runtime/exec/resolve.h"
#include "runtime/session/driver_error.h"

namespace neuron::runtime {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t nanoseconds(Clock::time_point when) {
  return static_cast<std::uint64_t>(when.time_since_epoch().count());
}

// Reads what the engines wrote about their part of this execution.
void collect_report(LoadedModel& model, const neuron_completion_record& record,
                    std::uint64_t host_ns) {
  Core& core = model.core();
  ExecutionReport& report = model.report;
  report.exec_id = record.exec_id;
  report.host_ns = host_ns;
  report.device_ps = record.end - record.start;
  report.valid = true;
  for (std::uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    neuron_notification entry;
    while (core.completions[engine].next(entry)) {
      if (((entry.word >> NEURON_NW_KIND_SHIFT) & 0xF) != NEURON_NK_COMPLETE) continue;
      report.busy_ps[engine] = std::uint64_t{entry.info[1]} << 32 | entry.info[0];
      report.retired[engine] = entry.info[2];
    }
  }
}

void fill_launch_record(Core& core, const Binding& binding, std::uint64_t time_limit) {
  neuron_launch_record& record = core.launch();
  record.exec_id = ++core.executions;
  record.binding = binding.number;
  const bool rebind = core.current_binding != &binding && binding.rings->table_entries() != 0;
  record.flags = rebind ? NEURON_LAUNCH_REBIND : 0;
  record.ring_entries = rebind ? binding.rings->table_entries() : 0;
  record.ring_table = binding.rings->table_address();
  record.time_limit = time_limit;
}

// After a failure: the core is reset, so that the next execution finds it as the first one did.
Error give_up(LoadedModel& model, Error error) {
  model.report.valid = false;
  if (auto recovered = model.core().recover(); !recovered) {
    log_error(LogComponent::kTdrv, "{}", recovered.error().detail);
    return Error(NRT_EXEC_UNIT_UNRECOVERABLE, 0, error.detail + "; " + recovered.error().detail);
  }
  return error;
}

Result<void> launch(Session& session, LoadedModel& model, const Binding& binding) {
  Core& core = model.core();
  const Configuration& configuration = session.configuration();
  if (core.current_model != &model) {
    if (auto activated = model.activate(*binding.rings, configuration.fail_on_nan); !activated) {
      return give_up(model, activated.error());
    }
  }
  fill_launch_record(core, binding, configuration.model_time_limit_ps);
  neuron_completion_record& record = core.completion();
  const std::uint32_t before = __atomic_load_n(&record.sequence, __ATOMIC_ACQUIRE);
  const Clock::time_point start = Clock::now();
  // Release: the record above is complete before the device sees the semaphore; its partner is the
  // load of the record by the SP program.
  std::atomic_thread_fence(std::memory_order_release);
  ndl::DevicePort& port = core.device().port();
  int result = port.write_register(Device::window_bar0(core.number()) + NEURON_CORE_SEMAPHORES +
                                       NEURON_SEM_BLOCK_INC + NEURON_SEM_LAUNCH * 4,
                                   1, true);
  if (result == 0) {
    result = port.wait(core.number(), &record.sequence, before,
                       nanoseconds(start) + configuration.exec_timeout_s * 1'000'000'000ull);
  }
  const std::uint64_t host_ns = nanoseconds(Clock::now()) - nanoseconds(start);
  if (result == 0 && record.status == NEURON_FAULT_NONE) {
    core.current_binding = &binding;
    collect_report(model, record, host_ns);
    if (configuration.fail_on_nan) {
      if (auto clean = find_numeric_errors(model); !clean) {
        core.counters.executed(clean.error().status, model.report.device_ps / 1'000'000,
                               host_ns / 1000);
        return clean;
      }
    }
    core.counters.executed(NRT_SUCCESS, model.report.device_ps / 1'000'000, host_ns / 1000);
    return {};
  }
  Error error;
  if (result == 0) {
    error = describe_fault(model, record);
  } else if (result == -EDEADLK) {
    error = describe_deadlock(model);
  } else if (result == -ETIMEDOUT) {
    error = describe_timeout(model, configuration.exec_timeout_s);
  } else {
    error = driver_error(NRT_HW_ERROR, result, "launching model '{}' on device {} core {}",
                         model.name(), core.device().index(), core.number());
  }
  core.counters.executed(error.status, 0, host_ns / 1000);
  return give_up(model, std::move(error));
}

Result<void> run(Session& session, LoadedModel& model, const TensorSet& inputs,
                 const TensorSet& outputs) {
  if (model.retired()) {
    return fail(NRT_INVALID_HANDLE,
                "model '{}' was unloaded while this execution waited for its "
                "turn",
                model.name());
  }
  if (model.core().unusable()) {
    return fail(NRT_EXEC_UNIT_UNRECOVERABLE,
                "device {} core {} could not be reset after a failure; close the runtime and "
                "initialise it again",
                model.core().device().index(), model.core().number());
  }
  // Acquire: pairs with those who free or change a tensor; their change is seen below, or the epoch
  // is old and the sets are resolved again by the next execution.
  const std::uint64_t epoch = session.tensor_epoch.load(std::memory_order_acquire);
  Resolution* resolution = model.bindings.find(inputs.version(), outputs.version(), epoch);
  if (resolution == nullptr) {
    auto resolved = resolve(session, model, inputs, outputs, epoch);
    if (!resolved) {
      model.core().counters.add(NDS_NC_COUNTER_INFER_INCORRECT_INPUT, 1);
      return resolved.error();
    }
    resolution = *resolved;
  }
  for (const StagedTensor& staged : resolution->before) {
    NEURON_TRY(host, staged.storage->address());
    NEURON_CHECK(staged.staging->write(host + staged.offset, 0, staged.size));
  }
  NEURON_CHECK(launch(session, model, *resolution->binding));
  for (const StagedTensor& staged : resolution->after) {
    NEURON_TRY(host, staged.storage->address());
    NEURON_CHECK(staged.staging->read(host + staged.offset, 0, staged.size));
  }
  for (const auto& counter : resolution->written) session.completion_hub.add(*counter);
  return {};
}

// Copies of outputs into the inputs that they feed.
struct Feedback {
  Pin<Tensor> from;
  Pin<Tensor> to;
};

Result<std::vector<std::pair<std::string, std::string>>> feedback_names(const LoadedModel& model) {
  std::vector<const ModelPort*> inputs, outputs;
  for (const ModelPort& port : model.ports()) (port.output ? outputs : inputs).push_back(&port);
  std::vector<std::pair<std::string, std::string>> names;
  for (const ModelPort* output : outputs) {
    for (const ModelPort* input : inputs) {
      if (input->info.name == output->info.name) {
        names.emplace_back(output->info.name, input->info.name);
      }
    }
  }
  if (!names.empty()) return names;
  bool same = inputs.size() == outputs.size() && !inputs.empty();
  for (std::size_t i = 0; same && i < inputs.size(); ++i) {
    same = inputs[i]->info.dtype == outputs[i]->info.dtype &&
           inputs[i]->info.shape == outputs[i]->info.shape;
    names.emplace_back(outputs[i]->info.name, inputs[i]->info.name);
  }
  if (!same) {
    return fail(
        NRT_INVALID,
        "model '{}' cannot be repeated: none of its {} outputs has the name of an input, and "
        "they do not match its {} inputs in type and shape",
        model.name(), outputs.size(), inputs.size());
  }
  return names;
}

}  // namespace

Result<CoreTurn> CoreTurn::take(Session& session, Core& core) {
  if (!core.turn.try_lock()) {
    // As long as two executions may take: one that runs, one that was before us.
    const auto limit = std::chrono::seconds(2 * session.configuration().exec_timeout_s);
    if (!core.turn.lock(Deadline::after(limit))) {
      return fail(NRT_TIMEOUT,
                  "device {} core {} was busy with other executions for {} s "
                  "(2 x NEURON_RT_EXEC_TIMEOUT)",
                  core.device().index(), core.number(), limit.count());
    }
  }
  return CoreTurn(core);
}

Result<void> execute(Session& session, LoadedModel& model, const TensorSet& inputs,
                     const TensorSet& outputs) {
  NEURON_TRY(turn, CoreTurn::take(session, model.core()));
  return run(session, model, inputs, outputs);
}

Result<void> execute_repeat(Session& session, LoadedModel& model, const TensorSet& inputs,
                            const TensorSet& outputs, int count) {
  if (count < 1) return fail(NRT_INVALID, "repeat_count is {}; it must be at least 1", count);
  std::vector<Feedback> feedback;
  if (count > 1) {
    NEURON_TRY(names, feedback_names(model));
    for (const auto& [output, input] : names) {
      void* from = outputs.find(output);
      void* to = inputs.find(input);
      if (from == to) continue;  // one buffer: nothing to bring back
      Feedback pair{Pin<Tensor>(session.handles, from, HandleKind::kTensor),
                    Pin<Tensor>(session.handles, to, HandleKind::kTensor)};
      // What is missing is named by the first execution.
      if (pair.from && pair.to) feedback.push_back(std::move(pair));
    }
  }
  NEURON_TRY(turn, CoreTurn::take(session, model.core()));
  for (int i = 0; i < count; ++i) {
    if (i > 0) {
      for (const Feedback& pair : feedback) {
        NEURON_CHECK(Tensor::copy(*pair.from, 0, *pair.to, 0, pair.to->size()));
      }
    }
    if (auto result = run(session, model, inputs, outputs); !result) {
      return count == 1 ? result.error() : result.error().with("repetition {} of {}", i + 1, count);
    }
  }
  return {};
}

}  // namespace neuron::runtime
