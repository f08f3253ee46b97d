/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Result of one row of a table: what the generated sources (generate_checks.py) hand to
 * conformance_test.cpp. C11 and C++17; static data only, any thread.
 */
#ifndef TESTS_CONFORMANCE_CONFORMANCE_ROW_H
#define TESTS_CONFORMANCE_CONFORMANCE_ROW_H

#include <stddef.h>

struct conformance_row {
  const char *table; /* "libnrt/functions", ... */
  int line;          /* of the table, counted from 1; the title is line 1 */
  const char *name;
  const char *expected;
  int holds;            /* the compiler's verdict */
  const char *reason;   /* why no compiler can check this row, or null */
  int (*verdict)(void); /* where the verdict needs a running program, else null */
};

struct conformance_unit {
  const char *header;
  const char *language; /* "c" or "cpp" */
  const struct conformance_row *rows;
  size_t count;
};

#endif
