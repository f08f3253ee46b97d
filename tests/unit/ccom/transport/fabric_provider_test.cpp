// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/fabric_provider.h"

#include <gtest/gtest.h>

namespace neuron::ccom {
namespace {

TEST(FabricProvider, OffersWhatIsHereInTheOrderAskedFor) {
  const auto offered = offered_providers("efa, net,stream,tcp,rough+tcp", "127.0.0.1");
  ASSERT_TRUE(offered) << offered.error().sentence;
  // Whether there is an EFA is up to the machine.
  std::vector<std::string> names = *offered;
  std::erase(names, "efa");
  EXPECT_EQ(names, (std::vector<std::string>{"net", "stream", "tcp;ofi_rxm", "rough+tcp;ofi_rxm"}));
}

TEST(FabricProvider, PrefersItsOwnStreamsToThoseOfLibfabric) {
  auto offered = offered_providers("", "127.0.0.1");
  ASSERT_TRUE(offered);
  std::erase(*offered, "efa");
  EXPECT_EQ(offered->front(), "stream");
  // They need an address that other ranks can be told.
  offered = offered_providers("stream,tcp", "");
  ASSERT_TRUE(offered);
  EXPECT_EQ(*offered, std::vector<std::string>{"tcp;ofi_rxm"});
  EXPECT_NE((*open_provider("stream", "127.0.0.1"))->provider().find("stream on 127.0.0.1"),
            std::string::npos);
}

TEST(FabricProvider, NeverTakesASlowOneThatNobodyNamed) {
  const auto offered = offered_providers("", "127.0.0.1");
  ASSERT_TRUE(offered) << offered.error().sentence;
  for (const std::string& name : *offered) {
    EXPECT_EQ(name.find("sockets"), std::string::npos);
    EXPECT_EQ(name.find("udp"), std::string::npos);
  }
}

TEST(FabricProvider, NamesWhatWasAskedForAndWhatIsHere) {
  for (const char* preference : {"gigantic", ",", "rough+"}) {
    const auto offered = offered_providers(preference, "127.0.0.1");
    ASSERT_FALSE(offered) << preference;
    EXPECT_EQ(offered.error().status, CCOM_UNSUPPORTED);
    EXPECT_NE(offered.error().sentence.find("tcp;ofi_rxm"), std::string::npos)
        << offered.error().sentence;
  }
}

TEST(FabricProvider, OpensAtTheGivenAddress) {
  auto endpoint = open_provider("tcp", "127.0.0.1");
  ASSERT_TRUE(endpoint) << endpoint.error().sentence;
  EXPECT_FALSE((*endpoint)->address().empty());
  EXPECT_NE((*endpoint)->provider().find("tcp;ofi_rxm on lo"), std::string::npos)
      << (*endpoint)->provider();
  EXPECT_FALSE(open_provider("tcp", "203.0.113.77"));
}

TEST(FabricProvider, RefusesAddressesOfAnotherKind) {
  auto endpoint = open_provider("tcp", "127.0.0.1");
  ASSERT_TRUE(endpoint);
  const auto done = (*endpoint)->introduce({(*endpoint)->address(), std::vector<std::byte>(3)});
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().sentence.find("rank 1"), std::string::npos);
}

}  // namespace
}  // namespace neuron::ccom
