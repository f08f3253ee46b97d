// SPDX-License-Identifier: Apache-2.0
// main() of a custom operator's program: run by its core, or asked by neuron-operator what it
// holds.
#include "driver/operator/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "driver/operator/describe.h"
#include "driver/operator/registry.h"
#include "driver/operator/tcm_pool.h"
#include "hw/custom_operator.h"

namespace neuron::operators {

neuron_operator_counts counts;
Place place;

namespace {

neuron_operator_result* result = nullptr;  // null: not run by a core
bool output_taken = false;                 // by get_dst_tensor()
torch::Tensor output;

[[noreturn]] void end(neuron_operator_state state, int status) {
  if (result != nullptr) {
    result->counts = counts;
    result->state = state;
  }
  _exit(status);
}

void tell(neuron_operator_failure failure, uint64_t value, uint64_t address) {
  if (result == nullptr) return;
  result->failure = failure;
  result->value = static_cast<uint32_t>(value < UINT32_MAX ? value : UINT32_MAX);
  result->address = address;
}

// What the host would see as a bare signal: told with what it was about.
void caught(int number, siginfo_t* info, void*) {
  if (number == SIGSYS) {
    tell(NEURON_OPERATOR_SYSTEM_CALL, static_cast<uint64_t>(info->si_syscall), 0);
  } else {
    tell(NEURON_OPERATOR_SIGNAL, static_cast<uint64_t>(number),
         reinterpret_cast<uint64_t>(info->si_addr));
  }
  end(NEURON_OPERATOR_FAILED, 1);
}

void catch_signals() {
  static unsigned char stack[16384];
  const stack_t own{stack, 0, sizeof(stack)};
  sigaltstack(&own, nullptr);  // the stack of the operator may be what has run out
  struct sigaction action {};
  action.sa_sigaction = caught;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS}) {
    sigaction(number, &action, nullptr);
  }
}

// printf: a ring behind the result, for core 0 only.
ssize_t print(void*, const char* bytes, size_t count) {
  if (result == nullptr || place.core != 0) return static_cast<ssize_t>(count);
  char* ring = reinterpret_cast<char*>(result + 1);
  for (size_t n = 0; n < count; ++n) {
    ring[result->printed++ % NEURON_OPERATOR_PRINT_BYTES] = bytes[n];
  }
  return static_cast<ssize_t>(count);
}

void catch_output() {
  cookie_io_functions_t functions{};
  functions.write = print;
  for (FILE** stream : {&stdout, &stderr}) {
    FILE* own = fopencookie(nullptr, "w", functions);
    if (own == nullptr) continue;
    setvbuf(own, nullptr, _IOLBF, BUFSIZ);
    *stream = own;
  }
}

void* map(int file, size_t bytes, int access) {
  void* place = mmap(nullptr, bytes, access, MAP_SHARED, file, 0);
  if (place == MAP_FAILED) _exit(3);
  return place;
}

torch::ScalarType type_of(unsigned dtype) {
  switch (dtype) {
    case 2:
      return torch::kChar;
    case 3:
      return torch::kByte;
    case 4:
      return torch::kShort;
    case 6:
      return torch::kBFloat16;
    case 7:
      return torch::kHalf;
    case 8:
      return torch::kInt;
    case 10:
      return torch::kFloat;
    case 12:
      return torch::kLong;
    default:
      fail(NEURON_OPERATOR_TYPE, dtype, "a tensor has a type that operators have no name for");
  }
}

Argument argument_of(const neuron_operator_argument& from, std::byte* file) {
  Argument argument;
  argument.kind = static_cast<neuron_operator_kind>(from.kind);
  if (argument.kind == NEURON_OPERATOR_TENSOR) {
    int64_t sizes[NEURON_OPERATOR_DIMENSIONS];
    for (unsigned d = 0; d < from.dimensions; ++d) sizes[d] = from.size[d];
    argument.tensor = torch::Tensor(std::make_shared<torch::Storage>(
        torch::IntArrayRef(sizes, from.dimensions), type_of(from.dtype), file + from.offset));
  } else if (argument.kind == NEURON_OPERATOR_DOUBLE || argument.kind == NEURON_OPERATOR_SCALAR) {
    double value;
    std::memcpy(&value, &from.value, sizeof(value));
    argument.number = value;
  } else {
    argument.number = static_cast<int64_t>(from.value);
  }
  return argument;
}

bool takes(neuron_operator_kind parameter, neuron_operator_kind argument) {
  return parameter == argument ||
         (parameter == NEURON_OPERATOR_SCALAR && argument == NEURON_OPERATOR_SCALAR_INT);
}

const Function& kernel_of(const char* name, const Arguments& arguments) {
  for (const Operator& op : all_operators()) {
    if (op.name != name) continue;
    for (const auto& [kernel, function] : all_kernels()) {
      if (kernel != op.kernel) continue;
      if (function.parameters.size() != arguments.size()) break;
      for (size_t n = 0; n < arguments.size(); ++n) {
        if (takes(function.parameters[n], arguments[n].kind)) continue;
        fail(NEURON_OPERATOR_UNKNOWN, n, "an argument is of another kind than the parameter");
      }
      return function;
    }
  }
  fail(NEURON_OPERATOR_UNKNOWN, arguments.size(),
       "no operator of this name takes as many arguments");
}

void keep_result(const torch::Tensor& returned) {
  if (output_taken) return;
  if (place.cores != 1) {
    fail(NEURON_OPERATOR_ONE_CORE, 0, "in multicore mode get_dst_tensor() is the output");
  }
  if (!returned.defined() || returned.sizes() != output.sizes() ||
      returned.scalar_type() != output.scalar_type()) {
    fail(NEURON_OPERATOR_SHAPE, 255, "the result has another shape or type than the output");
  }
  std::memcpy(output.storage().data, returned.storage().data, output.nbytes());
  count_transfer(output.nbytes());
}

// A core has started this program (hw/custom_operator.h).
[[noreturn]] void run(uint32_t core, uint32_t cores) {
  place = {core, cores};
  auto* head = static_cast<neuron_operator_input*>(
      map(NEURON_OPERATOR_INPUT_FILE, sizeof(neuron_operator_input), PROT_READ));
  auto* inputs = static_cast<std::byte*>(map(NEURON_OPERATOR_INPUT_FILE, head->bytes, PROT_READ));
  auto* results = static_cast<std::byte*>(
      map(NEURON_OPERATOR_RESULT_FILE, head->result_bytes, PROT_READ | PROT_WRITE));
  result = reinterpret_cast<neuron_operator_result*>(results);
  catch_signals();
  catch_output();
  make_tcm();
  const neuron_operator_description& description = head->description;
  const unsigned last = description.arguments - 1;
  Arguments arguments;
  for (unsigned n = 0; n < last; ++n) {
    arguments.push_back(argument_of(description.argument[n], inputs));
  }
  output = argument_of(description.argument[last], results).tensor;
  const Function& kernel = kernel_of(description.name, arguments);
  try {
    keep_result(kernel.call(arguments));
  } catch (const std::exception& exception) {
    fail(NEURON_OPERATOR_EXCEPTION, 0, exception.what());
  } catch (...) {
    fail(NEURON_OPERATOR_EXCEPTION, 0, "an exception that has no text");
  }
  fflush(stdout);
  end(NEURON_OPERATOR_DONE, 0);
}

}  // namespace

void fail(neuron_operator_failure failure, uint64_t value, const char* text) {
  if (result == nullptr) {
    std::fprintf(stderr, "%s (%llu)\n", text, static_cast<unsigned long long>(value));
  }
  tell(failure, value, 0);
  if (result != nullptr) {
    std::strncpy(result->text, text, sizeof(result->text) - 1);
    fflush(stdout);
  }
  end(NEURON_OPERATOR_FAILED, 1);
}

}  // namespace neuron::operators

torch::Tensor get_dst_tensor() {
  using namespace neuron::operators;
  output_taken = true;
  return output;
}

// What the C library would do by a signal, which has no words. The linker puts them in the place of
// abort and __assert_fail (--wrap), which asks for these names.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

[[noreturn]] void __wrap_abort() {
  neuron::operators::fail(NEURON_OPERATOR_ABORT, 0, "abort() was called");
}

[[noreturn]] void __wrap___assert_fail(const char* assertion, const char* file, unsigned line,
                                       const char*) {
  char text[256];
  std::snprintf(text, sizeof(text), "%s:%u: assertion '%s' failed", file, line, assertion);
  neuron::operators::fail(NEURON_OPERATOR_ABORT, line, text);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

void* operator new(size_t bytes) {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) {
    neuron::operators::fail(NEURON_OPERATOR_MEMORY, bytes >> 20,
                            "there is no memory for what the operator allocates");
  }
  return memory;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

// By which a library is known before it is started; neuron-operator looks for it in the file.
extern "C" __attribute__((used, section(".neuron_operators"))) const char neuron_operators_mark[] =
    NEURON_OPERATOR_MARK;

int main(int count, char** arguments) {
  using namespace neuron::operators;
  if (count == 4 && std::strcmp(arguments[1], "run") == 0) {
    run(static_cast<uint32_t>(std::atoi(arguments[2])),
        static_cast<uint32_t>(std::atoi(arguments[3])));
  }
  return describe(count, arguments);
}
