// SPDX-License-Identifier: Apache-2.0
#include <ccom/ccom_device.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/ccom/api/job.h"

namespace neuron::ccom {
namespace {

// Of the network: sockets and what waits for them.
ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

ccom_device_host_t host_without_messages() {
  ccom_device_host_t host = {};
  host.size_of = sizeof(host);
  host.map = [](void*, uint64_t, uint64_t) -> void* { return nullptr; };
  host.due = [](void*, uint32_t, uint32_t*, uint64_t*) { return false; };
  host.signal = [](void*, uint32_t, uint32_t, uint64_t) { return true; };
  return host;
}

TEST(Proxy, ClosingGivesTheDescriptorsOfItsNetworkBack) {
  Job job(2, 20000, [](ccom_comm_t* comm, uint32_t rank, int report) {
    const ccom_device_host_t host = host_without_messages();
    const auto open_and_close = [&] {
      ccom_device_proxy_t* proxy = nullptr;
      const ccom_status_t status = ccom_device_proxy_open(comm, &host, &proxy);
      const ptrdiff_t held = open_descriptors();
      ccom_device_proxy_close(proxy);
      return std::pair(status, held);
    };
    const auto [status, held] = open_and_close();
    if (status != CCOM_SUCCESS) return Job::tell(report, rank, status);
    const ptrdiff_t before = open_descriptors();
    for (int i = 0; i < 3; ++i) (void)open_and_close();
    const ptrdiff_t after = open_descriptors();
    Report said;
    said.rank = rank;
    // Connections of the communicator's beginning may end meanwhile.
    (void)snprintf(said.sentence, sizeof(said.sentence), "%s: %td open, %td before, %td after it",
                   held > before && after <= before ? "closed" : "not closed", held, before, after);
    static_cast<void>(!write(report, &said, sizeof(said)));
  });
  for (int rank = 0; rank < 2; ++rank) {
    Report said;
    ASSERT_TRUE(job.hear(said, std::chrono::seconds(40)));
    EXPECT_EQ(said.status, CCOM_SUCCESS) << said.sentence;
    EXPECT_THAT(said.sentence, testing::StartsWith("closed"));
  }
}

}  // namespace
}  // namespace neuron::ccom
