// SPDX-License-Identifier: Apache-2.0
// linux-rdma's perftest, which links the library and uses tensors through their addresses.
#include <unistd.h>

#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

TEST(Perftest, TakesTheCoreThatItNamesAndWritesThroughTheAddress) {
  const Setting emulator("NEURON_EMULATOR", "trn1.2xlarge"), quiet("NEURON_RT_LOG_LEVEL", "QUIET");
  const Setting restored("NEURON_RT_VISIBLE_CORES", nullptr);
  ASSERT_EQ(::setenv("NEURON_RT_VISIBLE_CORES", "1", 1), 0);
  ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "2.0", ""), NRT_SUCCESS);
  nrt_tensor_t* tensor = nullptr;
  ASSERT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 65536, "perftest", &tensor),
            NRT_SUCCESS);
  auto* va = static_cast<uint8_t*>(nrt_tensor_get_va(tensor));
  ASSERT_NE(va, nullptr);
  const Bytes bytes = pattern(65536);
  std::memcpy(va, bytes.data(), bytes.size());
  EXPECT_EQ(contents(tensor), bytes) << "a store to the address is a write of the device";
  Bytes back(bytes.size());
  std::memcpy(back.data(), va, back.size());
  EXPECT_EQ(back, bytes);
  int fd = -1;
  const NRT_STATUS status = nrt_get_dmabuf_fd(reinterpret_cast<uint64_t>(va), 65536, &fd);
  if (status == NRT_SUCCESS) {
    EXPECT_GE(fd, 0);
    ::close(fd);
  } else {
    EXPECT_EQ(status, NRT_FAILURE) << "this host has none";
  }
  nrt_tensor_free(&tensor);
  EXPECT_EQ(tensor, nullptr);
  nrt_close();
}

}  // namespace
}  // namespace neuron::test
