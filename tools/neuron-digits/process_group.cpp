// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-digits/process_group.h"

#include <dlfcn.h>

#include <array>
#include <cstring>

namespace neuron::digits {

// Functions of libccom.so.1.
struct ProcessGroup::Library {
  decltype(&::ccom_init) init = nullptr;
  decltype(&::ccom_shrink) shrink = nullptr;
  decltype(&::ccom_free) free = nullptr;
  decltype(&::ccom_rank) rank = nullptr;
  decltype(&::ccom_size) size = nullptr;
  decltype(&::ccom_run) run = nullptr;
  decltype(&::ccom_last_error) last_error = nullptr;
};

ProcessGroup::~ProcessGroup() {
  if (comm_ != nullptr) library_->free(comm_);
}

bool ProcessGroup::fail(const std::string& what) {
  error_ = what + ": " + library_->last_error();
  return false;
}

bool ProcessGroup::find_library() {
  static Library library;
  library_ = &library;
  if (library.init != nullptr) return true;
  void* const handle = dlopen("libccom.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    return function != nullptr;
  };
  if (handle == nullptr || !find(library.shrink, "ccom_shrink") ||
      !find(library.free, "ccom_free") || !find(library.rank, "ccom_rank") ||
      !find(library.size, "ccom_size") || !find(library.run, "ccom_run") ||
      !find(library.last_error, "ccom_last_error") || !find(library.init, "ccom_init")) {
    const char* const detail = dlerror();
    error_ = std::string("processes that train together need libccom.so.1: ") +
             (detail != nullptr ? detail : "it cannot be loaded");
    return false;
  }
  return true;
}

bool ProcessGroup::join(uint32_t process, uint32_t processes, const std::string& root) {
  process_ = process;
  processes_ = processes;
  if (processes == 1) return true;
  if (!find_library()) return false;
  ccom_options_t options{};
  options.size_of = sizeof options;
  options.root = root.c_str();
  if (library_->init(process, processes, &options, &comm_) != CCOM_SUCCESS) {
    return fail("joining the other processes");
  }
  return true;
}

bool ProcessGroup::shrink() {
  if (comm_ == nullptr) return true;
  ccom_comm_t* smaller = nullptr;
  if (library_->shrink(comm_, &smaller) != CCOM_SUCCESS) {
    return fail("going on with the processes that are left");
  }
  library_->free(comm_);
  comm_ = smaller;
  process_ = library_->rank(comm_);
  processes_ = library_->size(comm_);
  return true;
}

bool ProcessGroup::run(ccom_operation_t operation, ccom_type_t type, const void* input,
                       void* output, uint64_t count) {
  ccom_collective_t collective{};
  collective.size_of = sizeof collective;
  collective.operation = operation;
  collective.type = type;
  collective.reduction = CCOM_MIN;
  collective.input = input;
  collective.output = output;
  collective.count = count;
  if (library_->run(comm_, &collective) != CCOM_SUCCESS) {
    return fail("agreeing with the other processes");
  }
  return true;
}

bool ProcessGroup::least(uint64_t& number) {
  if (comm_ == nullptr) return true;
  const uint64_t own = number;
  return run(CCOM_ALL_REDUCE, CCOM_UINT64, &own, &number, 1);
}

bool ProcessGroup::of_first(std::string& text) {
  if (comm_ == nullptr) return true;
  std::array<char, 256> own{}, first{};
  std::memcpy(own.data(), text.data(), std::min(text.size(), own.size() - 1));
  if (!run(CCOM_BROADCAST, CCOM_UINT8, own.data(), first.data(), own.size())) return false;
  text = first.data();
  return true;
}

}  // namespace neuron::digits
