// SPDX-License-Identifier: Apache-2.0
// Stream endpoints of this host that know each other. One thread. Owns them.
#ifndef TESTS_UNIT_CCOM_TRANSPORT_STREAM_ENDS_H
#define TESTS_UNIT_CCOM_TRANSPORT_STREAM_ENDS_H

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "ccom/transport/stream_endpoint.h"

namespace neuron::ccom {

class StreamEnds : public testing::Test {
 protected:
  void SetUp() override { open(2); }

  void open(size_t count) {
    ends.clear();
    std::vector<std::vector<std::byte>> addresses;
    for (size_t i = 0; i < count; ++i) {
      auto opened = open_stream("127.0.0.1");
      ASSERT_TRUE(opened) << opened.error().sentence;
      addresses.push_back((*opened)->address());
      ends.push_back(std::move(*opened));
    }
    for (auto& end : ends) ASSERT_TRUE(end->introduce(addresses));
  }

  std::vector<std::unique_ptr<FabricEndpoint>> ends;
  std::map<const FabricOperation*, FabricCompletion> seen;  // completions that were looked at
};

}  // namespace neuron::ccom

#endif
