// SPDX-License-Identifier: Apache-2.0
//
// nrt_execute and nrt_execute_repeat.
#include "nrt/nrt.h"
#include "runtime/api/guard.h"
#include "runtime/async/async_queues.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/launch_trace.h"
#include "runtime/profile/inspection.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

template <class Run>
NRT_STATUS with_sets(const char* name, nrt_model_t* model, const nrt_tensor_set_t* input_set,
                     nrt_tensor_set_t* output_set, Run&& run) {
  return guarded(name, [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin<LoadedModel>(session, model, HandleKind::kModel, "model"));
    NEURON_TRY(inputs, pin<TensorSet>(session, input_set, HandleKind::kTensorSet, "input_set"));
    NEURON_TRY(outputs, pin<TensorSet>(session, output_set, HandleKind::kTensorSet, "output_set"));
    ExecuteTrace trace(session.system_trace, *object);
    NEURON_CHECK(meet_ranks(session, *object));
    NEURON_TRY(turn, AsyncQueues::take_turn(session, *object));
    if (turn.waited()) trace.waited();
    const InspectedExecution inspected(session, *object);
    return inspected.end(run(session, *object, *inputs, *outputs, trace));
  });
}

}  // namespace

NRT_EXPORT NRT_STATUS nrt_execute(nrt_model_t* model, const nrt_tensor_set_t* input_set,
                                  nrt_tensor_set_t* output_set) {
  return with_sets(
      "nrt_execute", model, input_set, output_set,
      [](Session& session, LoadedModel& object, const TensorSet& inputs, const TensorSet& outputs,
         ExecuteTrace& trace) { return execute(session, object, inputs, outputs, &trace); });
}

NRT_EXPORT NRT_STATUS nrt_execute_repeat(nrt_model_t* model, const nrt_tensor_set_t* input_set,
                                         nrt_tensor_set_t* output_set, int repeat_count) {
  return with_sets("nrt_execute_repeat", model, input_set, output_set,
                   [&](Session& session, LoadedModel& object, const TensorSet& inputs,
                       const TensorSet& outputs, ExecuteTrace& trace) {
                     return execute_repeat(session, object, inputs, outputs, repeat_count, &trace);
                   });
}
