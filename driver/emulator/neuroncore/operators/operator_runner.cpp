// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/operators/operator_runner.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "driver/base/abandonment.h"
#include "driver/base/format.h"
#include "driver/emulator/neuroncore/operators/operator_process.h"
#include "driver/isa/operator_cost.h"

namespace neuron::core {
namespace {

constexpr uint64_t kPiece = 1 << 20;  // between two looks at whether somebody still waits
constexpr uint64_t kPrintedAt = sizeof(neuron_operator_result);

uint64_t aligned(uint64_t offset) {
  constexpr uint64_t kMask = NEURON_OPERATOR_TENSOR_ALIGNMENT - 1;
  return (offset + kMask) & ~kMask;
}

Fault read_memory(const chip::Bus& bus, const chip::Access& access, uint64_t address,
                  std::span<std::byte> out) {
  for (uint64_t at = 0; at < out.size(); at += kPiece) {
    base::Abandonment::look();
    const auto piece = out.subspan(at, std::min<uint64_t>(kPiece, out.size() - at));
    if (!bus.read(address + at, piece, access)) return refused_access(bus, address + at, 4);
  }
  return {};
}

Fault not_started(int error, unsigned core = 0) {
  return operator_failure(NEURON_OPERATOR_NOT_STARTED, core, static_cast<uint32_t>(error));
}

neuron_operator_result& result_of(std::span<std::byte> file) {
  return *reinterpret_cast<neuron_operator_result*>(file.data());
}

// What the program said of its own failure, if that is one of those that it may name.
bool names_failure(const neuron_operator_result& result) {
  if (result.state != NEURON_OPERATOR_FAILED) return false;
  const uint32_t failure = result.failure;
  return (failure >= NEURON_OPERATOR_MEMORY && failure <= NEURON_OPERATOR_UNKNOWN) ||
         failure == NEURON_OPERATOR_SIGNAL || failure == NEURON_OPERATOR_SYSTEM_CALL;
}

// Lines of a stranger, for a terminal.
std::string printable(std::string lines) {
  std::replace(lines.begin(), lines.end(), '\t', ' ');
  std::string text;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    text += base::escaped({lines.data() + at, end - at}) + '\n';
    at = end + 1;
  }
  return text;
}

// What printf wrote, and the words of a failure, on standard error.
void show(const OperatorCall& call, std::span<std::byte> file, unsigned core) {
  const neuron_operator_result& result = result_of(file);
  const char* ring = reinterpret_cast<const char*>(file.data()) + kPrintedAt;
  const uint32_t count = std::min<uint32_t>(result.printed, NEURON_OPERATOR_PRINT_BYTES);
  std::string text;
  for (uint32_t n = result.printed - count; n != result.printed; ++n) {
    text += ring[n % NEURON_OPERATOR_PRINT_BYTES];
  }
  text = printable(text) + printable({result.text, strnlen(result.text, sizeof(result.text))});
  if (text.empty()) return;
  std::fprintf(stderr, "operator %s, GpSimd core %u:\n%s",
               base::escaped(call.description().name).c_str(), core, text.c_str());
}

}  // namespace

Fault OperatorRunner::take_image(const chip::Bus& bus, const chip::Access& access,
                                 const OperatorCall& call) {
  std::vector<std::byte> image(call.description().image_bytes);
  if (Fault fault = read_memory(bus, access, call.image(), image)) return fault;
  if (program_.file() >= 0 && image == image_) return {};
  image_.clear();
  int error = program_.create("neuron-operator", image.size(), true);
  if (error == 0) {
    std::memcpy(program_.bytes().data(), image.data(), image.size());
    error = program_.make_constant();
  }
  if (error != 0) {
    program_.reset();
    return not_started(error);
  }
  image_ = std::move(image);
  return {};
}

Fault OperatorRunner::fill(const chip::Bus& bus, const chip::Access& access,
                           const OperatorCall& call, Files& files) const {
  neuron_operator_input head{};
  head.description = call.description();
  uint64_t end = sizeof(head);
  for (const OperatorCall::Tensor& tensor : call.inputs()) {
    end = aligned(end);
    head.description.argument[tensor.argument].offset = end;
    end += tensor.bytes;
  }
  head.bytes = end;
  files.output_offset = aligned(kPrintedAt + NEURON_OPERATOR_PRINT_BYTES);
  head.description.argument[call.output().argument].offset = files.output_offset;
  head.result_bytes = files.output_offset + call.output().bytes;
  files.bytes = head.bytes + head.result_bytes;
  int error = files.input.create("neuron-operator-inputs", head.bytes);
  if (error == 0) error = files.result.create("neuron-operator-results", head.result_bytes);
  if (error != 0) return not_started(error);
  std::memcpy(files.input.bytes().data(), &head, sizeof(head));
  for (const OperatorCall::Tensor& tensor : call.inputs()) {
    const uint64_t offset = head.description.argument[tensor.argument].offset;
    const auto place = files.input.bytes().subspan(offset, tensor.bytes);
    if (Fault fault = read_memory(bus, access, tensor.address, place)) return fault;
  }
  // An operator may write a part of its output, and its cores a part each.
  const auto output = files.result.bytes().subspan(files.output_offset, call.output().bytes);
  if (Fault fault = read_memory(bus, access, call.output().address, output)) return fault;
  error = files.input.make_constant();
  return error == 0 ? Fault{} : not_started(error);
}

Fault OperatorRunner::run_core(const Files& files, unsigned core, unsigned cores,
                               base::Deadline deadline) const {
  OperatorProcess process;
  process.start({.image_file = program_.file(),
                 .input_file = files.input.file(),
                 .result_file = files.result.file(),
                 .tensor_bytes = files.bytes,
                 .patience = settings_.patience,
                 .core = core,
                 .cores = cores});
  int value = 0;
  const OperatorProcess::End end = process.wait(deadline, value);
  if (end == OperatorProcess::End::kNotStarted) return not_started(value, core);
  const neuron_operator_result& result = result_of(files.result.bytes());
  if (end == OperatorProcess::End::kTime ||
      (end == OperatorProcess::End::kSignal && value == SIGXCPU)) {
    return operator_failure(NEURON_OPERATOR_TIME, core,
                            static_cast<uint32_t>(settings_.patience.count() * 1000));
  }
  if (names_failure(result)) {
    return operator_failure(result.failure, core, result.value, result.address);
  }
  if (end == OperatorProcess::End::kSignal) {
    return operator_failure(value == SIGSYS ? NEURON_OPERATOR_SYSTEM_CALL : NEURON_OPERATOR_SIGNAL,
                            core, value == SIGSYS ? UINT32_MAX : static_cast<uint32_t>(value));
  }
  if (value != 0 || result.state != NEURON_OPERATOR_DONE) {
    return operator_failure(NEURON_OPERATOR_EXIT, core, static_cast<uint32_t>(value));
  }
  return {};
}

Fault OperatorRunner::run(const chip::Bus& bus, const chip::Access& access, uint64_t table,
                          unsigned generation, ModelTime& time) {
  if (!settings_.allowed) return operator_failure(NEURON_OPERATOR_NOT_ALLOWED, 0, 0);
  OperatorCall call;
  if (Fault fault = call.read(bus, access, table)) return fault;
  if (Fault fault = take_image(bus, access, call)) return fault;
  Files files;
  if (Fault fault = fill(bus, access, call, files)) return fault;
  const auto result = files.result.bytes();
  time = 0;
  // Of all cores together: meanwhile nobody reads a register of the core.
  const auto deadline = base::Deadline::after(settings_.patience);
  for (unsigned core = 0; core < call.cores(); ++core) {
    std::memset(result.data(), 0, sizeof(neuron_operator_result));
    const Fault fault = run_core(files, core, call.cores(), deadline);
    if (settings_.prints) show(call, result, core);
    if (fault) return fault;
    time = std::max(time, isa::operator_time(result_of(result).counts, generation));
  }
  const auto output = result.subspan(files.output_offset, call.output().bytes);
  return bus.write(call.output().address, output, access)
             ? Fault{}
             : refused_access(bus, call.output().address, 4);
}

}  // namespace neuron::core
