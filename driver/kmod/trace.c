// SPDX-License-Identifier: GPL-2.0-only
/* The one file that gives the tracepoints of trace.h their code. */
#define CREATE_TRACE_POINTS
#include "driver/kmod/trace.h"
