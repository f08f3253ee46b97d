// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/grpc/rpc_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/neuron-serve/grpc/rpc_call.h"

namespace neuron::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RpcForm, NamesTheLimitThatAMessageMetAndNotALargerOne) {
  EXPECT_THAT(rpc_no_message(4096), HasSubstr("4096 bytes, which --max-body may change"));
  const std::string most = rpc_no_message(size_t{4} << 30);
  EXPECT_THAT(most, HasSubstr("1073741824 bytes, the most that gRPC takes here"));
  EXPECT_THAT(most, Not(HasSubstr("--max-body")));
  EXPECT_EQ(rpc_no_message(kMostRpcMessage), most);
}

}  // namespace
}  // namespace neuron::serve
