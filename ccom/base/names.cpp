// SPDX-License-Identifier: Apache-2.0
// Names and sizes of the C interface that need nothing else: also for programs that link parts.
#include "ccom/base/names.h"

#include <ccom/ccom.h>

#include <iterator>

namespace neuron::ccom {

const char* type_name(uint32_t type) {
  static const char* const kNames[] = {"uint8",  "int8",  "fp8_e3", "fp8_e4", "fp8_e5",
                                       "uint16", "int16", "fp16",   "bf16",   "uint32",
                                       "int32",  "fp32",  "uint64", "int64"};
  return type < std::size(kNames) ? kNames[type] : "unknown";
}

const char* reduction_name(uint32_t reduction) {
  static const char* const kNames[] = {"add", "min", "max", "product", "average"};
  return reduction < std::size(kNames) ? kNames[reduction] : "unknown";
}

}  // namespace neuron::ccom

extern "C" {

const char* ccom_status_name(ccom_status_t status) {
  switch (status) {
    case CCOM_SUCCESS:
      return "CCOM_SUCCESS";
    case CCOM_INVALID:
      return "CCOM_INVALID";
    case CCOM_MISMATCH:
      return "CCOM_MISMATCH";
    case CCOM_TIMEOUT:
      return "CCOM_TIMEOUT";
    case CCOM_RANK_DEAD:
      return "CCOM_RANK_DEAD";
    case CCOM_ABORTED:
      return "CCOM_ABORTED";
    case CCOM_RESOURCE:
      return "CCOM_RESOURCE";
    case CCOM_UNSUPPORTED:
      return "CCOM_UNSUPPORTED";
    case CCOM_SYSTEM:
      return "CCOM_SYSTEM";
    case CCOM_IN_PROGRESS:
      return "CCOM_IN_PROGRESS";
    case CCOM_REFUSED:
      return "CCOM_REFUSED";
  }
  return "CCOM_UNKNOWN";
}

size_t ccom_type_size(ccom_type_t type) {
  switch (type) {
    case CCOM_UINT8:
    case CCOM_INT8:
    case CCOM_FP8_E3:
    case CCOM_FP8_E4:
    case CCOM_FP8_E5:
      return 1;
    case CCOM_UINT16:
    case CCOM_INT16:
    case CCOM_FP16:
    case CCOM_BF16:
      return 2;
    case CCOM_UINT32:
    case CCOM_INT32:
    case CCOM_FP32:
      return 4;
    case CCOM_UINT64:
    case CCOM_INT64:
      return 8;
    case CCOM_TYPE_COUNT:
      break;
  }
  return 0;
}

const char* ccom_version(void) { return "1.1"; }

}  // extern "C"
