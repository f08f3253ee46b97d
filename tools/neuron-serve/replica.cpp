// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/replica.h"

#include <nrt/nrt_open.h>

#include <algorithm>
#include <cstring>

#include "tools/neuron-serve/log.h"

namespace neuron::serve {
namespace {

// Failures that the request or the program causes; with any other the device is doubtful.
bool of_the_model(NRT_STATUS status) {
  switch (status) {
    case NRT_INVALID:
    case NRT_EXEC_BAD_INPUT:
    case NRT_EXEC_COMPLETED_WITH_NUM_ERR:
    case NRT_EXEC_COMPLETED_WITH_ERR:
    case NRT_EXEC_OOB:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string runtime_failure(const std::string& what, NRT_STATUS status) {
  const char* cause = nrt_open_last_error();
  return what + ": " + (cause != nullptr && *cause != '\0' ? cause : nrt_get_status_as_str(status));
}

Replica::~Replica() {
  for (Program& program : programs_) {
    nrt_destroy_tensor_set(&program.input_set);
    nrt_destroy_tensor_set(&program.output_set);
    for (auto* ports : {&program.inputs, &program.outputs}) {
      for (Port& port : *ports) nrt_tensor_free(&port.tensor);
    }
    if (program.model != nullptr) nrt_unload(program.model);
  }
}

std::unique_ptr<Replica> Replica::load(uint32_t core, uint32_t vnc, ModelSpec& spec,
                                       std::string& error) {
  std::unique_ptr<Replica> replica(new Replica(core, vnc));
  for (const std::string& neff : spec.neffs) {
    if (!replica->add_program(neff, spec, error)) return nullptr;
  }
  return replica->warm_up(spec, error) ? std::move(replica) : nullptr;
}

// `spec` has the tensors of the last program that was added, which has the largest batch.
bool Replica::add_program(const std::string& neff, ModelSpec& spec, std::string& error) {
  Program& program = programs_.emplace_back();
  // Weights go from the file to the device in pieces.
  const NRT_STATUS loaded =
      nrt_open_load_file(neff.c_str(), static_cast<int32_t>(vnc_), -1, &program.model);
  if (loaded != NRT_SUCCESS) {
    program.model = nullptr;
    error = runtime_failure("loading " + spec.file, loaded);
    return false;
  }
  nrt_tensor_info_array_t* info = nullptr;
  if (const NRT_STATUS s = nrt_get_model_tensor_info(program.model, &info)) {
    error = runtime_failure("asking for the tensors of " + spec.file, s);
    return false;
  }
  const ModelSpec before = spec;
  const bool good = spec.set_tensors(*info, error);
  nrt_free_model_tensor_info(info);
  if (!good) return false;
  program.batch = spec.batch;
  const size_t last = programs_.size() - 1;
  // A request is read for the largest and may run on any of them.
  if (const std::string other = last > 0 ? spec.other_rows(before) : ""; !other.empty()) {
    error = spec.file + ": " + other + " has other rows for batch " + std::to_string(spec.batch) +
            " than for batch " + std::to_string(before.batch) +
            "; only first dimensions may depend on \"batch_sizes\"";
    return false;
  }
  if (last > 0 && programs_[last - 1].batch >= program.batch) {
    error = spec.file + " takes " + std::to_string(program.batch) +
            " rows at once whatever \"batch_sizes\" asks for; give its inputs a free first "
            "dimension, or a shape with null in the first place";
    return false;
  }
  for (const TensorSpec& input : spec.inputs) program.inputs.push_back({.spec = input});
  for (const TensorSpec& output : spec.outputs) program.outputs.push_back({.spec = output});
  return bind(program, error);
}

bool Replica::bind(Program& program, std::string& error) {
  const struct {
    std::vector<Port>& ports;
    nrt_tensor_set_t*& set;
  } sides[] = {{program.inputs, program.input_set}, {program.outputs, program.output_set}};
  for (const auto& side : sides) {
    NRT_STATUS status = nrt_allocate_tensor_set(&side.set);
    for (Port& port : side.ports) {
      if (status == NRT_SUCCESS) {
        status = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, static_cast<int>(vnc_),
                                     port.spec.bytes, port.spec.name.c_str(), &port.tensor);
      }
      if (status == NRT_SUCCESS) {
        status = nrt_add_tensor_to_tensor_set(side.set, port.spec.name.c_str(), port.tensor);
      }
      port.rows.resize(port.spec.bytes);
    }
    if (status != NRT_SUCCESS) {
      error = runtime_failure("making tensors on core " + std::to_string(core_), status);
      return false;
    }
  }
  return true;
}

// The first execution also points the rings at the tensors. Tensors are zero when they are made.
bool Replica::warm_up(const ModelSpec& spec, std::string& error) {
  for (const Program& program : programs_) {
    if (!spec.warm_up) break;
    const NRT_STATUS status = nrt_execute(program.model, program.input_set, program.output_set);
    if (status == NRT_SUCCESS) continue;
    const std::string why = runtime_failure("warming up " + spec.file + " with zeros", status);
    if (!of_the_model(status) || !probe(error)) {
      error = why;
      return false;
    }
    // Zeros may be no input for it.
    log("model " + spec.name + ": " + why + "; {\"warm_up\": false} leaves this out");
  }
  return true;
}

Replica::Result Replica::run(const Jobs& jobs, uint32_t rows, std::string& error) {
  const auto failed = [&](const char* what, NRT_STATUS status) {
    error = runtime_failure(std::string(what) + " on core " + std::to_string(core_), status);
    // A step may blame the program for a device that died under it.
    std::string gone;
    const bool model = of_the_model(status) && probe(gone);
    return model ? Result::kModelFailed : Result::kDeviceFailed;
  };
  const auto fits = [&](const Program& program) { return program.batch >= rows; };
  Program& program = *std::find_if(programs_.begin(), programs_.end() - 1, fits);
  size_t before = 0;  // row bytes of the inputs before this one
  for (Port& port : program.inputs) {
    char* to = port.rows.data();
    for (const std::shared_ptr<Job>& job : jobs) {
      const size_t bytes = port.spec.row_bytes * job->rows;
      std::memcpy(to, job->input.data() + before * job->rows, bytes);
      to += bytes;
    }
    // Rows that nobody asked for are zero, so that what they compute does not depend on others.
    std::memset(to, 0, static_cast<size_t>(port.rows.data() + port.spec.bytes - to));
    before += port.spec.row_bytes;
    if (const NRT_STATUS s = nrt_tensor_write(port.tensor, port.rows.data(), 0, port.spec.bytes)) {
      return failed("writing the inputs", s);
    }
  }
  const auto start = Clock::now();
  if (const NRT_STATUS s = nrt_execute(program.model, program.input_set, program.output_set)) {
    return failed("executing the model", s);
  }
  host_ns_ = static_cast<uint64_t>((Clock::now() - start).count());
  for (Port& port : program.outputs) {
    if (const NRT_STATUS s =
            nrt_tensor_read(port.tensor, port.rows.data(), 0, port.spec.row_bytes * rows)) {
      return failed("reading the outputs", s);
    }
  }
  nrt_open_execution_report_t report = {};
  report.size = sizeof(report);
  device_ps_ =
      nrt_open_get_execution_report(program.model, &report) == NRT_SUCCESS ? report.device_ps : 0;
  uint32_t row = 0;
  for (const std::shared_ptr<Job>& job : jobs) {
    job->output.clear();
    for (const Port& port : program.outputs) {
      job->output.append(port.rows.data() + port.spec.row_bytes * row,
                         port.spec.row_bytes * job->rows);
    }
    row += job->rows;
    job->started = start;
    job->batch_rows = rows;
    job->host_ns = host_ns_;
    job->device_ps = device_ps_;
  }
  return Result::kDone;
}

bool Replica::probe(std::string& error) const {
  nrt_vnc_memory_stats_t stats = {};
  const NRT_STATUS s = nrt_get_vnc_memory_stats(vnc_, &stats, sizeof(stats), nullptr);
  if (s == NRT_SUCCESS) return true;
  error = runtime_failure("asking core " + std::to_string(core_) + " for its memory", s);
  return false;
}

}  // namespace neuron::serve
