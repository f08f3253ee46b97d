// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/guard.h"

#include "runtime/base/log.h"
#include "runtime/observe/last_error.h"

namespace neuron::runtime::api {

NRT_STATUS report(const char* name, const Error& error, Failure failure) noexcept {
  // The sentence contains names of files and callers; it is escaped here, once for all of them.
  char text[4096];
  const size_t head =
      base::format_arguments_into(text, sizeof(text), "{}: ", fmt::make_format_args(name));
  const size_t size = head + base::escape_into(text + head, sizeof(text) - head, error.sentence);
  const std::string_view sentence(text, size);
  set_last_error(sentence);
  const auto status = static_cast<int>(error.status);
  if (failure == Failure::kAnswer) {
    log_info(LogComponent::kNrt, "{} (status {})", sentence, status);
  } else if (failure == Failure::kUnseen || !told_by_program(LogComponent::kNrt)) {
    log_error(LogComponent::kNrt, "{} (status {})", sentence, status);
  }
  return error.status;
}

NRT_STATUS report_exception(const char* name, const char* what, bool memory) noexcept {
  const NRT_STATUS status = memory ? NRT_RESOURCE : NRT_FAILURE;
  char text[512];
  const size_t size =
      base::format_arguments_into(text, sizeof(text), "{}: {}", fmt::make_format_args(name, what));
  const std::string_view sentence(text, size);
  set_last_error(sentence);
  if (!told_by_program(LogComponent::kNrt)) {
    log_error(LogComponent::kNrt, "{} (status {})", sentence, static_cast<int>(status));
  }
  return status;
}

}  // namespace neuron::runtime::api
