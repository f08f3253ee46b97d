// SPDX-License-Identifier: Apache-2.0
//
// The profile of one model into a file (runtime/ntff): what the program is, and what its cores
// record while it runs.
//
// Callers: Profiles, holding the turn of the model's core. Thread-safe: no; several cores of one
// virtual core write in one thread. Owns the file and, through Core::trace, the recording. Borrows
// the model: stop() before the model is retired. Fails: NRT_INVALID for a file that cannot be
// written, or a core that is profiled already.
#ifndef RUNTIME_PROFILE_MODEL_PROFILE_H
#define RUNTIME_PROFILE_MODEL_PROFILE_H

#include <memory>
#include <string>

#include "runtime/model/loaded_model.h"
#include "runtime/ntff/trace_file.h"

namespace neuron::runtime {

class ProfileSink;

class ModelProfile {
 public:
  // Truncates the file. Executions of the model are recorded when this returns.
  static Result<std::unique_ptr<ModelProfile>> start(LoadedModel& model, const std::string& path);
  ~ModelProfile();
  ModelProfile(const ModelProfile&) = delete;
  ModelProfile& operator=(const ModelProfile&) = delete;

  // Ends the recording and the file. Fails with the first error of writing it. Entries that were
  // lost are told in the log.
  Result<void> stop();
  // Whether a failure of writing is to be told in the log: it is not yet there.
  bool failure_is_news() { return file_->failure_is_news(); }

  LoadedModel& model() const { return model_; }
  const std::string& path() const { return path_; }

 private:
  Result<void> begin();
  ModelProfile(LoadedModel& model, std::string path) : model_(model), path_(std::move(path)) {}

  LoadedModel& model_;
  std::string path_;
  std::shared_ptr<ntff::TraceFileWriter> file_;
  std::vector<std::shared_ptr<ProfileSink>> sinks_;  // of each part
  std::vector<Core*> cores_;                         // that record for this
};

}  // namespace neuron::runtime

#endif
