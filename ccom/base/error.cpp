// SPDX-License-Identifier: Apache-2.0
#include "ccom/base/error.h"

#include <cerrno>
#include <cstring>

namespace neuron::ccom {

Error system_error(int error, std::string sentence) {
  const bool resource = error == ENOMEM || error == EMFILE || error == ENFILE || error == ENOSPC;
  char buffer[128];
  return {resource ? CCOM_RESOURCE : CCOM_SYSTEM,
          std::move(sentence) + ": " + strerror_r(error, buffer, sizeof(buffer))};
}

}  // namespace neuron::ccom
