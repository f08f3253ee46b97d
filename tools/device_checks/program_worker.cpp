// SPDX-License-Identifier: Apache-2.0
// Golden programs on one core: each engine computes something whose result is known exactly, or
// within the precision of its tables.
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/fault_programs.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/device_checks/workers.h"

namespace neuron::checks {
namespace {

using Floats = std::vector<float>;
using Clock = std::chrono::steady_clock;
constexpr std::array<const char*, 5> kEngines = {"PE", "Activation", "Pool", "DVE", "SP"};

// Small whole numbers: their sums and products are exact.
Floats numbers(size_t count, unsigned salt) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(static_cast<int>((i * 7 + i / 13 + salt) % 5) - 2);
  }
  return values;
}

struct Golden {
  std::string name;
  const char* engine;  // that does most of it
  kernels::Neff neff;
  std::vector<std::pair<const char*, Floats>> inputs;
  const char* output;
  Floats expected;
  float tolerance = 0;
};

Golden product(size_t m, size_t k, size_t n) {
  Golden golden{"product", "PE",     kernels::matmul("product", NEURON_DTYPE_F32, {m, k, n}),
                {},        "result", Floats(m * n)};
  const Floats left = numbers(k * m, 1), right = numbers(k * n, 3);
  for (size_t j = 0; j < k; ++j) {
    for (size_t i = 0; i < m; ++i) {
      for (size_t l = 0; l < n; ++l) {
        golden.expected[i * n + l] += left[j * m + i] * right[j * n + l];
      }
    }
  }
  golden.inputs = {{"lhs_t", left}, {"rhs", right}};
  return golden;
}

Golden sum(size_t rows, size_t columns) {
  Golden golden{"sum", "DVE", kernels::tensor_add("sum", NEURON_DTYPE_F32, rows, columns),
                {},    "sum", Floats(rows * columns)};
  const Floats a = numbers(rows * columns, 0), b = numbers(rows * columns, 2);
  for (size_t i = 0; i < a.size(); ++i) golden.expected[i] = a[i] + b[i];
  golden.inputs = {{"a", a}, {"b", b}};
  return golden;
}

Golden gelu(size_t rows, size_t columns) {
  Golden golden{"gelu", "Activation", kernels::gelu("gelu", NEURON_DTYPE_F32, rows, columns),
                {},     "y",          Floats(rows * columns),
                5e-3F};
  const Floats x = numbers(rows * columns, 4);
  for (size_t i = 0; i < x.size(); ++i) {
    golden.expected[i] = 0.5F * x[i] * (1 + std::erf(x[i] / std::sqrt(2.0F)));
  }
  golden.inputs = {{"x", x}};
  return golden;
}

Golden means() {
  constexpr unsigned kChannels = 128, kSide = 16;
  Golden golden{"means",
                "Pool",
                kernels::average_pool("means", NEURON_DTYPE_F32, {kChannels, kSide, kSide, 2}),
                {},
                "y",
                Floats(kChannels * kSide * kSide / 4)};
  const Floats x = numbers(kChannels * kSide * kSide, 1);
  constexpr unsigned kHalf = kSide / 2;
  for (unsigned c = 0; c < kChannels; ++c) {
    for (unsigned i = 0; i < kSide; ++i) {
      for (unsigned j = 0; j < kSide; ++j) {
        golden.expected[c * kHalf * kHalf + i / 2 * kHalf + j / 2] +=
            x[c * kSide * kSide + i * kSide + j] / 4;
      }
    }
  }
  golden.inputs = {{"x", x}};
  return golden;
}

Golden transposed(kernels::TransposeBy by, const char* name, const char* engine) {
  constexpr size_t kRows = 256, kColumns = 256;
  Golden golden{name, engine, kernels::transpose(name, NEURON_DTYPE_F32, kRows, kColumns, by),
                {},   "y",    Floats(kRows * kColumns)};
  const Floats x = numbers(kRows * kColumns, 2);
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kColumns; ++j) golden.expected[j * kRows + i] = x[i * kColumns + j];
  }
  golden.inputs = {{"x", x}};
  return golden;
}

std::vector<Golden> goldens(int level) {
  std::vector<Golden> list;
  const size_t large = level == 1 ? 128 : 512;
  list.push_back(product(large, 128, 512));
  list.push_back(sum(512, 512));
  list.push_back(gelu(large, 256));
  list.push_back(means());
  if (level >= 2) {
    list.push_back(transposed(kernels::TransposeBy::kDma, "transpose-dma", "DMA"));
    list.push_back(transposed(kernels::TransposeBy::kDve, "transpose-dve", "DVE"));
    list.push_back(sum(2048, 1024));
    list.back().name = "large sum";
  }
  return list;
}

class Execution {
 public:
  ~Execution() {
    if (inputs_ != nullptr) nrt_destroy_tensor_set(&inputs_);
    if (outputs_ != nullptr) nrt_destroy_tensor_set(&outputs_);
    for (nrt_tensor_t*& tensor : tensors_) nrt_tensor_free(&tensor);
    if (model_ != nullptr) nrt_unload(model_);
  }

  NRT_STATUS load(const std::vector<uint8_t>& neff) {
    if (const NRT_STATUS s = nrt_load(neff.data(), neff.size(), 0, 1, &model_)) return s;
    if (const NRT_STATUS s = nrt_allocate_tensor_set(&inputs_)) return s;
    return nrt_allocate_tensor_set(&outputs_);
  }
  NRT_STATUS add(bool input, const char* name, const Floats* values, size_t bytes) {
    nrt_tensor_t* tensor = nullptr;
    if (const NRT_STATUS s =
            nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, bytes, name, &tensor)) {
      return s;
    }
    tensors_.push_back(tensor);
    if (values != nullptr) {
      if (const NRT_STATUS s = nrt_tensor_write(tensor, values->data(), 0, bytes)) return s;
    }
    return nrt_add_tensor_to_tensor_set(input ? inputs_ : outputs_, name, tensor);
  }
  NRT_STATUS execute() { return nrt_execute(model_, inputs_, outputs_); }
  // The tensor that was added last.
  NRT_STATUS read(Floats& values) {
    return nrt_tensor_read(tensors_.back(), values.data(), 0, values.size() * sizeof(float));
  }
  bool report(nrt_open_execution_report_t& report) {
    report = {};
    report.size = sizeof report;
    return nrt_open_get_execution_report(model_, &report) == NRT_SUCCESS;
  }

 private:
  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t *inputs_ = nullptr, *outputs_ = nullptr;
  std::vector<nrt_tensor_t*> tensors_;
};

class ProgramCheck {
 public:
  explicit ProgramCheck(const Part& part) : part_(part) {}

  void run() {
    const std::vector<Golden> list = goldens(part_.level);
    for (size_t i = 0; i < list.size(); ++i) {
      if (!gone_) run(list[i], share_end(list.size() - i));
    }
    if (!gone_ && part_.level >= 2) notifications();
    if (gone_ || failed_) return;
    Finding finding = where("engine.program", "");
    std::string idle;
    for (size_t i = 0; i < kEngines.size(); ++i) {
      if (instructions_[i] == 0) idle += std::string(idle.empty() ? "" : ", ") + kEngines[i];
    }
    finding.found = "right results of " + std::to_string(executions_) + " executions";
    if (!idle.empty()) {
      finding.verdict = Verdict::kWarn;
      finding.engine = idle;
      finding.found += ", but no instruction was counted";
      finding.expected = "every engine executes";
    }
    tell_finding(finding);
  }

  Finding where(const char* check, const std::string& engine) const {
    Finding finding;
    finding.check = check;
    finding.device = part_.device;
    finding.core = part_.core;
    finding.engine = engine;
    return finding;
  }
  // Reports a failure with libnrt's sentence; of `engine` unless the sentence names another.
  void fail(const std::string& doing, const char* engine, NRT_STATUS status) {
    Finding finding = where("engine.program", engine);
    const std::string sentence = nrt_open_last_error();
    finding.verdict = Verdict::kFail;
    place_from_sentence(sentence, finding);
    if (status == NRT_EXEC_HW_ERR_HBM_UE || status == NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE) {
      // The engine that met the error is part of its place.
      finding.ring = finding.engine + (finding.ring.empty() ? "" : " ") + finding.ring;
      finding.engine = "HBM";
    }
    if (status == NRT_EXEC_HW_ERR_NC_UE) finding.engine = "SRAM of " + finding.engine;
    finding.found =
        doing + ": " + nrt_get_status_as_str(status) + (sentence.empty() ? "" : ": " + sentence);
    finding.expected = "an execution that completes";
    finding.action = action_of_status(status);
    if (status == NRT_EXEC_HW_ERR_HBM_UE) finding.repair = Repair::kImpossible;
    if (status == NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE) finding.repair = Repair::kPossible;
    gone_ = sentence.find("does not answer") != std::string::npos;
    if (gone_) finding.action = Action::kReboot;
    failed_ = true;
    tell_finding(finding);
  }

 private:
  Clock::time_point share_end(size_t programs) const {
    if (part_.budget.count() == 0) return Clock::time_point::max();
    const auto now = Clock::now();
    return now + std::max(end_ - now, Clock::duration::zero()) / static_cast<long>(programs);
  }

  // Runs at least once; as often as the level says if there is time.
  void run(const Golden& golden, Clock::time_point end) {
    Finding step = where("engine.program", golden.engine);
    step.found = "program " + golden.name;
    tell_step(step);
    if (!golden.neff) {
      step.verdict = Verdict::kSkip;
      step.found += ": " + golden.neff.error().sentence;
      return tell_finding(step);
    }
    Execution execution;
    NRT_STATUS status = execution.load(*golden.neff);
    for (const auto& [name, values] : golden.inputs) {
      if (status == NRT_SUCCESS) {
        status = execution.add(true, name, &values, values.size() * sizeof(float));
      }
    }
    if (status == NRT_SUCCESS) {
      status = execution.add(false, golden.output, nullptr, golden.expected.size() * sizeof(float));
    }
    if (status != NRT_SUCCESS) return fail("loading " + golden.name, golden.engine, status);
    const int times = part_.level == 1 ? 2 : part_.level == 2 ? 10 : 100;
    bool last = false;
    for (int i = 0; !last; ++i) {
      tell_step(step);
      status = execution.execute();
      if (status != NRT_SUCCESS) return fail("program " + golden.name, golden.engine, status);
      ++executions_;
      last = i + 1 >= times || Clock::now() >= end;
      if (i != 0 && !last) continue;
      Floats found(golden.expected.size());
      status = execution.read(found);
      if (status != NRT_SUCCESS) return fail("reading " + golden.name, golden.engine, status);
      if (!compare(golden, found)) return;
    }
    nrt_open_execution_report_t report;
    if (!execution.report(report)) return;
    for (size_t i = 0; i < instructions_.size(); ++i) {
      instructions_[i] += report.engines[i].instructions;
    }
    Line line;
    line.kind = Line::Kind::kTiming;
    line.timing = {golden.name, report.device_ps};
    tell(line);
  }

  bool compare(const Golden& golden, const Floats& found) {
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      if (std::fabs(found[i] - golden.expected[i]) <= golden.tolerance) continue;
      if (wrong++ == 0) first = i;
    }
    if (wrong == 0) return true;
    Finding finding = where("engine.program", golden.engine);
    finding.verdict = Verdict::kFail;
    finding.found = "program " + golden.name + ": " + std::to_string(wrong) + " of " +
                    std::to_string(found.size()) + " elements are wrong; element " +
                    std::to_string(first) + " is " + std::to_string(found[first]);
    finding.expected = std::to_string(golden.expected[first]);
    finding.action = Action::kReplaceInstance;
    failed_ = true;
    tell_finding(finding);
    return false;
  }

  // Checks that a program which fails is reported as such, through the queue for errors.
  void notifications() {
    Finding finding = where("core.notifications", "SP");
    finding.found = "a store to where nothing is";
    tell_step(finding);
    const kernels::Neff neff = kernels::bad_address();
    Execution execution;
    if (!neff || execution.load(*neff) != NRT_SUCCESS) {
      finding.verdict = Verdict::kSkip;
      finding.found += ": the program cannot be loaded: " + std::string(nrt_open_last_error());
      return tell_finding(finding);
    }
    const NRT_STATUS status = execution.execute();
    const std::string sentence = status == NRT_SUCCESS ? "" : nrt_open_last_error();
    if (sentence.find("SP") != std::string::npos) {
      finding.found += " is reported, with its engine";
      return tell_finding(finding);
    }
    finding.verdict = Verdict::kFail;
    finding.found += " ends with " + std::string(nrt_get_status_as_str(status)) + " " + sentence;
    finding.expected = "an error that names the engine SP";
    finding.action = Action::kResetDevice;
    tell_finding(finding);
  }

  const Part& part_;
  const Clock::time_point end_ = Clock::now() + part_.budget;
  bool gone_ = false, failed_ = false;
  unsigned executions_ = 0;
  std::array<uint64_t, kEngines.size()> instructions_{};
};

}  // namespace

void check_programs(const Part& part) {
  ProgramCheck check(part);
  Finding step = check.where("engine.program", "");
  step.found = "initialising the runtime";
  tell_step(step);
  const NRT_STATUS status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
  if (status != NRT_SUCCESS) {
    check.fail("initialising the runtime", "", status);
    return;
  }
  nrt_instance_info_t instance{};
  if (nrt_get_instance_info(&instance, sizeof instance) == NRT_SUCCESS &&
      instance.family == NRT_INSTANCE_INF1) {
    step.verdict = Verdict::kSkip;
    step.found = "Inferentia1 runs no programs here: its instruction set is not public";
    tell_finding(step);
  } else {
    check.run();
  }
  nrt_close();
}

}  // namespace neuron::checks
