// SPDX-License-Identifier: Apache-2.0
//
// The extensions of nrt_open.h.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "nrt/nrt_open.h"
#include "runtime/api/guard.h"
#include "runtime/async/async_queues.h"
#include "runtime/device/core_turn.h"
#include "runtime/model/loaded_model.h"
#include "runtime/observe/last_error.h"
#include "runtime/session/instance.h"
#include "runtime/session/memory_usage.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

NRT_EXPORT const char* nrt_open_last_error(void) { return last_error(); }

NRT_EXPORT NRT_STATUS nrt_open_get_instance_type(char* type, size_t size) {
  if (type == nullptr || size == 0) return NRT_INVALID;
  return neuron::base::guarded(
      [&] {
        std::snprintf(type, size, "%s", instance_type().c_str());
        return NRT_SUCCESS;
      },
      [](const char*, bool memory) { return memory ? NRT_RESOURCE : NRT_FAILURE; });
}

NRT_EXPORT NRT_STATUS nrt_open_get_execution_report(nrt_model_t* model,
                                                    nrt_open_execution_report_t* report) {
  return guarded("nrt_open_get_execution_report", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin<LoadedModel>(session, model, HandleKind::kModel, "model"));
    if (report == nullptr) return null_argument("report");
    if (report->size < sizeof(report->size)) {
      return fail(NRT_INVALID, "report->size is {}; set it to sizeof(*report)", report->size);
    }
    NEURON_TRY(turn, CoreTurn::take(object->core()));
    const ExecutionReport& last = object->report;
    if (!last.valid) {
      return fail(NRT_FAILURE, "model '{}' was not executed yet, or its last execution failed",
                  object->name());
    }
    nrt_open_execution_report_t filled{};
    filled.size = std::min<uint64_t>(report->size, sizeof(filled));
    filled.exec_id = last.exec_id;
    filled.device_ps = last.device_ps;
    filled.host_ns = last.host_ns;
    static_assert(NRT_OPEN_ENGINES == NEURON_CORE_ENGINES);
    for (int engine = 0; engine < NRT_OPEN_ENGINES; ++engine) {
      filled.engines[engine] = {last.busy_ps[engine], last.retired[engine]};
    }
    std::memcpy(report, &filled, filled.size);
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_open_get_output_size(nrt_model_t* model, const char* output,
                                               size_t* size) {
  return guarded("nrt_open_get_output_size", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin<LoadedModel>(session, model, HandleKind::kModel, "model"));
    if (output == nullptr) return null_argument("output");
    if (size == nullptr) return null_argument("size");
    for (const ModelPort& port : object->ports()) {
      if (!port.output || port.info.name != output) continue;
      NEURON_TRY(turn, CoreTurn::take(object->core()));
      if (!object->report.valid) {
        return fail(NRT_FAILURE, "model '{}' was not executed yet, or its last execution failed",
                    object->name());
      }
      NEURON_TRY(written, object->written_bytes(port));
      *size = written;
      return {};
    }
    return fail(NRT_INVALID, "model '{}' has no output '{}'", object->name(), output);
  });
}

NRT_EXPORT NRT_STATUS nrt_open_get_collective_plans(nrt_model_t* model, char* text, size_t size) {
  return guarded("nrt_open_get_collective_plans", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin<LoadedModel>(session, model, HandleKind::kModel, "model"));
    if (text == nullptr || size == 0) return null_argument("text");
    NEURON_TRY(turn, CoreTurn::take(object->core()));
    if (object->collectives() == nullptr) {
      return fail(NRT_FAILURE,
                  "model '{}' has no collectives, or its ranks have not met yet; execute it first",
                  object->name());
    }
    std::string lines;
    for (const StreamFacts& stream : object->collectives()->facts()) {
      for (const CollectiveFacts& one : stream.collectives) lines += one.plan + "\n";
    }
    std::snprintf(text, size, "%s", lines.c_str());
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_open_get_queue_report(uint32_t vnc, uint32_t xu, int queue,
                                                nrt_open_queue_report_t* report) {
  return guarded("nrt_open_get_queue_report", [&](Session& session) -> Result<void> {
    if (report == nullptr) return null_argument("report");
    if (report->size < sizeof(report->size)) {
      return fail(NRT_INVALID, "report->size is {}; set it to sizeof(*report)", report->size);
    }
    NEURON_TRY(queues, AsyncQueues::of(session));
    NEURON_TRY(unit, queues->unit(vnc, static_cast<nrta_xu_t>(xu), queue));
    const AsyncUnit::Totals totals = unit->totals();
    nrt_open_queue_report_t filled{};
    filled.size = std::min<uint64_t>(report->size, sizeof(filled));
    filled.completed = totals.completed;
    filled.failed = totals.failed;
    filled.busy_ps = totals.busy_ps;
    filled.start_ps = totals.start_ps;
    filled.end_ps = totals.end_ps;
    std::memcpy(report, &filled, filled.size);
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_open_get_memory_usage(uint32_t vnc, nrt_open_memory_usage_t* usage,
                                                size_t* count) {
  return guarded("nrt_open_get_memory_usage", [&](Session& session) -> Result<void> {
    if (count == nullptr) return null_argument("count");
    if (usage == nullptr && *count != 0) return null_argument("usage");
    NEURON_TRY(core, session.core(vnc));
    NEURON_TRY(all, read_memory_usage(core->device(), core->hbm()));
    std::vector<nrt_open_memory_usage_t> filled;
    for (uint32_t category = 0; category < NEURON_MEMALLOC_TYPE_MAX; ++category) {
      if (all.categories[category].allocations == 0) continue;
      nrt_open_memory_usage_t entry{};
      entry.size = sizeof(entry);
      std::snprintf(entry.category, sizeof(entry.category), "%s", memory_category_name(category));
      entry.bytes = all.categories[category].bytes;
      entry.allocations = all.categories[category].allocations;
      filled.push_back(entry);
    }
    if (*count < filled.size()) {
      const size_t room = std::exchange(*count, filled.size());
      return fail(NRT_RESOURCE, "room for {} categories; {} are needed", room, filled.size());
    }
    if (!filled.empty() && usage[0].size != sizeof(nrt_open_memory_usage_t)) {
      return fail(NRT_INVALID, "usage[0].size is {}; this library's entries have {} bytes",
                  usage[0].size, sizeof(nrt_open_memory_usage_t));
    }
    std::copy(filled.begin(), filled.end(), usage);
    *count = filled.size();
    return {};
  });
}
