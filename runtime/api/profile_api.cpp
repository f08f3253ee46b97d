// SPDX-License-Identifier: Apache-2.0
//
// nrt_profile_*: the profile of a model into a file, and continuous profiling.
#include "nrt/nrt_profile.h"
#include "runtime/api/guard.h"
#include "runtime/api/options_object.h"
#include "runtime/async/async_queues.h"
#include "runtime/observe/last_error.h"
#include "runtime/profile/continuous_profile.h"
#include "runtime/profile/inspection.h"
#include "runtime/profile/profiles.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

struct ContinuousOptions {
  std::string output_dir = "./output";
};
using Options = OptionsObjects<ContinuousOptions>;

}  // namespace

NRT_EXPORT NRT_STATUS nrt_profile_start(nrt_model_t* model, const char* filename) {
  return guarded("nrt_profile_start", [&](Session& session) -> Result<void> {
    NEURON_TRY(object, pin<LoadedModel>(session, model, HandleKind::kModel, "model"));
    if (filename == nullptr) return null_argument("filename");
    NEURON_TRY(turn, AsyncQueues::take_turn(session, *object));
    if (object->retired()) {
      return fail(NRT_INVALID_HANDLE, "model '{}' was unloaded meanwhile", object->name());
    }
    return Profiles::of(session).start(*object, filename);
  });
}

// A file that could not be written is in the log since then: the caller alone is told here.
NRT_EXPORT NRT_STATUS nrt_profile_stop(const char* filename) {
  NRT_STATUS known = NRT_SUCCESS;
  const NRT_STATUS status = guarded("nrt_profile_stop", [&](Session& session) -> Result<void> {
    if (filename == nullptr) return null_argument("filename");
    bool told = false;
    auto stopped = Profiles::of(session).stop(filename, told);
    if (stopped || !told) return stopped;
    known = stopped.error().status;
    set_last_error("nrt_profile_stop: " + stopped.error().sentence);
    return {};
  });
  return known != NRT_SUCCESS ? known : status;
}

NRT_EXPORT NRT_STATUS
nrt_profile_continuous_options_allocate(nrt_profile_continuous_options_t** options) {
  return unguarded_state("nrt_profile_continuous_options_allocate",
                         [&] { return Options::make(options); });
}

NRT_EXPORT NRT_STATUS
nrt_profile_continuous_options_free(nrt_profile_continuous_options_t* options) {
  return unguarded_state("nrt_profile_continuous_options_free",
                         [&] { return Options::free(options); });
}

NRT_EXPORT NRT_STATUS nrt_profile_continuous_options_set_output_dir(
    nrt_profile_continuous_options_t* options, const char* output_dir) {
  return unguarded_state("nrt_profile_continuous_options_set_output_dir", [&]() -> Result<void> {
    NEURON_TRY(values, Options::of(options));
    if (output_dir == nullptr) return null_argument("output_dir");
    values->output_dir = output_dir;
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_profile_continuous_start(nrt_profile_continuous_options_t* options) {
  return guarded("nrt_profile_continuous_start", [&](Session& session) -> Result<void> {
    NEURON_TRY(values, Options::of(options));
    if (Inspection* inspection = Inspection::existing(session)) {
      if (inspection->profiles_devices()) {
        return fail(NRT_INVALID,
                    "an inspect session profiles devices; stop it, or begin it without "
                    "device_profile, before continuous profiling starts");
      }
    }
    return ContinuousProfile::of(session).start(session);
  });
}

NRT_EXPORT NRT_STATUS nrt_profile_continuous_save(uint32_t vnc,
                                                  nrt_profile_continuous_options_t* options) {
  return guarded("nrt_profile_continuous_save", [&](Session& session) -> Result<void> {
    NEURON_TRY(values, Options::of(options));
    return ContinuousProfile::of(session).save(session, vnc, values->output_dir);
  });
}

NRT_EXPORT NRT_STATUS nrt_profile_continuous_stop(void) {
  return guarded("nrt_profile_continuous_stop", [&](Session& session) -> Result<void> {
    return ContinuousProfile::of(session).stop();
  });
}
