// SPDX-License-Identifier: Apache-2.0
// Error and Result of libccom: driver/base/error.h with the statuses of its C interface.
//
// A sentence names rank, host, operation and link where it knows them. Thread-safe: values.
#ifndef CCOM_BASE_ERROR_H
#define CCOM_BASE_ERROR_H

#include <ccom/ccom.h>

#include "driver/base/error.h"

namespace neuron::ccom {

using base::format;

using Error = base::BasicError<ccom_status_t, CCOM_SYSTEM>;

template <class T>
using Result = boost::system::result<T, Error>;

template <class... A>
Error fail(ccom_status_t status, fmt::format_string<A...> text, A&&... arguments) {
  return {status, base::format(text, std::forward<A>(arguments)...)};
}

// The sentence with the meaning of the errno value appended, and what to do about EMFILE. The
// status is CCOM_RESOURCE for ENOMEM, EMFILE, ENFILE and ENOSPC, else CCOM_SYSTEM.
Error system_error(int errno_value, std::string sentence);

}  // namespace neuron::ccom

#endif
