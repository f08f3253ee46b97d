// SPDX-License-Identifier: Apache-2.0
#include "ccom/base/error.h"

#include <cerrno>

namespace neuron::ccom {

Error system_error(int errno_value, std::string sentence) {
  const bool resource = errno_value == ENOMEM || errno_value == EMFILE || errno_value == ENFILE ||
                        errno_value == ENOSPC;
  sentence = base::with_errno_meaning(std::move(sentence), errno_value);
  if (errno_value == EMFILE) {
    sentence += "; raise the limit of open files (ulimit -n), or run fewer ranks in one process";
  }
  return {resource ? CCOM_RESOURCE : CCOM_SYSTEM, std::move(sentence), errno_value};
}

}  // namespace neuron::ccom
