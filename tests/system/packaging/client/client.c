// SPDX-License-Identifier: Apache-2.0
// Says which cores there are, through the runtime, and which version the collectives have.
#include <ccom/ccom.h>
#include <nrt/nrt.h>
#include <nrt/nrt_open.h>
#include <stdio.h>

int main(void) {
  if (nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "client", "1") != NRT_SUCCESS) {
    fprintf(stderr, "%s\n", nrt_open_last_error());
    return 1;
  }
  uint32_t cores = 0;
  if (nrt_get_total_vnc_count(&cores) != NRT_SUCCESS) return 1;
  printf("%u cores, libccom %s\n", cores, ccom_version());
  nrt_close();
  return 0;
}
