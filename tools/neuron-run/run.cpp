// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-run/run.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "runtime/base/file.h"
#include "runtime/neff/npy_file.h"
#include "tools/common/progress_bar.h"
#include "tools/execution/session.h"
#include "tools/execution/statistics.h"
#include "tools/neuron-run/arrays.h"

namespace neuron::run {
namespace {

using execution::Model;
using execution::percentile;
using execution::Port;
using runtime::fail;
using runtime::Result;

using Arrays = std::map<std::string, tools::NpyArray>;

Form form_of(const Port& port) { return {port.name, port.dtype, port.shape, port.bytes}; }

// "x (float32 [4, 8]), y (bfloat16 [8])".
std::string list_of(const Model& model, bool inputs) {
  std::string text;
  for (const Port& port : model.ports()) {
    if (port.input == inputs) {
      text += (text.empty() ? "" : ", ") + port.name + " (" + text_of(form_of(port)) + ")";
    }
  }
  return text.empty() ? "none" : text;
}

Result<Arrays> read_arrays(const Wishes& wishes) {
  Arrays arrays;
  for (const Binding& binding : wishes.inputs) {
    auto array = tools::read_npy_file(binding.file);
    if (!array) return array.error().with("input {}", binding.name);
    arrays.emplace(binding.name, std::move(*array));
  }
  return arrays;
}

// Whether the outputs can be written, as far as that shows before there are any: an execution may
// take long.
Result<void> check_folders(const Wishes& wishes) {
  for (const Binding& binding : wishes.outputs) {
    const std::string folder = std::filesystem::path(binding.file).parent_path();
    if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0) continue;
    const int why = errno;
    // What is there may be writable all the same.
    if (::access(binding.file.c_str(), W_OK) == 0) continue;
    return runtime::fail_with_errno(NRT_INVALID, why, "output {}: cannot write {}", binding.name,
                                    binding.file);
  }
  return {};
}

const Port* find(const Model& model, const std::string& name, bool input) {
  for (const Port& port : model.ports()) {
    if (port.input == input && port.name == name) return &port;
  }
  return nullptr;
}

// Whether all names are those of the model, before anything is written or executed.
Result<void> check_names(const Wishes& wishes, const Model& model) {
  for (const Binding& binding : wishes.inputs) {
    if (find(model, binding.name, true) == nullptr) {
      return fail(NRT_INVALID, "--input {}={}: {} has no input {}; its inputs are: {}",
                  binding.name, binding.file, wishes.model, binding.name, list_of(model, true));
    }
  }
  for (const Binding& binding : wishes.outputs) {
    if (find(model, binding.name, false) == nullptr && find(model, binding.name, true) == nullptr) {
      return fail(NRT_INVALID, "--output {}={}: {} has no output {}; its outputs are: {}",
                  binding.name, binding.file, wishes.model, binding.name, list_of(model, false));
    }
  }
  return {};
}

Result<void> write_inputs(const Wishes& wishes, const Arrays& arrays, const Model& model) {
  for (const Port& port : model.ports()) {
    if (!port.input) continue;
    const auto array = arrays.find(port.name);
    if (array != arrays.end()) {
      const auto named = std::find_if(wishes.inputs.begin(), wishes.inputs.end(),
                                      [&](const Binding& b) { return b.name == port.name; });
      if (auto fits = check_fits(array->second, form_of(port)); !fits) {
        return fits.error().with("{}, which is to be input {} of {}", named->file, port.name,
                                 wishes.model);
      }
      NEURON_CHECK(port.write(array->second.data));
    } else if (wishes.random) {
      NEURON_CHECK(port.write(random_bytes(form_of(port), wishes.seed)));
    } else {
      return fail(NRT_INVALID,
                  "input {} of {} ({}) has no file: give --input {}=FILE.npy, or --random for all "
                  "inputs without one",
                  port.name, wishes.model, text_of(form_of(port)), port.name);
    }
  }
  return {};
}

Result<void> write_outputs(const Wishes& wishes, const Model& model) {
  for (const Binding& binding : wishes.outputs) {
    const Port* port = find(model, binding.name, false);
    if (port == nullptr) port = find(model, binding.name, true);
    NEURON_TRY(bytes, port->read());
    const auto file = tools::write_npy(array_of(form_of(*port), std::move(bytes)));
    if (auto written = tools::write_file(binding.file, file); !written) {
      return written.error().with("{} {}", port->input ? "input" : "output", binding.name);
    }
  }
  return {};
}

// What another program does with a file that cannot be executed here.
runtime::Error with_advice(runtime::Error error, const std::string& file) {
  if (file.ends_with(".onnx")) {
    error.sentence += "; neuron-compile makes a NEFF of an ONNX model";
  } else if (error.sentence.find("nrt_load_collectives") != std::string::npos) {
    error.sentence += "; neuron-profile capture -r RANKS does so, on a core for each rank";
  }
  return error;
}

}  // namespace

Result<tools::Records> run(const Wishes& wishes) {
  // What is wrong with the files is said before a core is claimed.
  NEURON_TRY(arrays, read_arrays(wishes));
  NEURON_CHECK(check_folders(wishes));
  NEURON_TRY(session, execution::Session::open(1));
  const auto begin = std::chrono::steady_clock::now();
  auto loaded = Model::load_file(wishes.model, 0);
  if (!loaded) return with_advice(loaded.error(), wishes.model);
  const std::unique_ptr<Model> model = std::move(*loaded);
  const std::chrono::duration<double, std::micro> load = std::chrono::steady_clock::now() - begin;
  NEURON_CHECK(check_names(wishes, *model));
  NEURON_CHECK(write_inputs(wishes, arrays, *model));
  std::vector<double> host, device;
  std::optional<tools::ProgressBar> bar(std::in_place, "executing " + wishes.model, "executions");
  for (uint32_t i = 0; i < wishes.executions; ++i) {
    bar->show(i, wishes.executions);
    const auto start = std::chrono::steady_clock::now();
    auto report = model->execute();
    const auto end = std::chrono::steady_clock::now();
    if (!report) return report.error().with("{}, execution {}", wishes.model, i + 1);
    host.push_back(std::chrono::duration<double, std::micro>(end - start).count());
    device.push_back(static_cast<double>(report->device_ps) * 1e-6);
  }
  bar.reset();
  NEURON_CHECK(write_outputs(wishes, *model));
  tools::Records records;
  records.schema = "neuron-run";
  records.list = "runs";
  records.columns = {{"executions", "EXECUTIONS"},
                     {"load_time_us", "LOAD TIME", tools::Unit::kMicroseconds},
                     {"host_time_first_us", "FIRST", tools::Unit::kMicroseconds},
                     {"host_time_p50_us", "HOST TIME(50)", tools::Unit::kMicroseconds},
                     {"host_time_p99_us", "HOST TIME(99)", tools::Unit::kMicroseconds},
                     {"device_time_p50_us", "DEVICE TIME(50)", tools::Unit::kMicroseconds},
                     {"device_time_p99_us", "DEVICE TIME(99)", tools::Unit::kMicroseconds}};
  records.rows.push_back({wishes.executions, load.count(), host.front(), percentile(host, 0.50),
                          percentile(host, 0.99), percentile(device, 0.50),
                          percentile(device, 0.99)});
  records.about = {{"file", wishes.model}, {"instance_type", session->instance_type()}};
  return records;
}

}  // namespace neuron::run
