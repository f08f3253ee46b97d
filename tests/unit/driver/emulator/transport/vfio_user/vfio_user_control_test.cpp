// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/vfio_user_control.h"

#include <gmock/gmock.h>

#include "driver/emulator/transport/control/control.pb.h"
#include "tests/unit/driver/emulator/transport/vfio_user/vfio_user_client.h"

namespace neuron::transport {
namespace {

using testing::HasSubstr;

// Functions without sockets.
class FakeServer final : public VfioUserServer {
 public:
  explicit FakeServer(unsigned functions) {
    std::string error;
    for (unsigned i = 0; i < functions; ++i) {
      functions_.push_back(PciFunction::create(i, ServedFunction::options(), error));
      EXPECT_NE(functions_.back(), nullptr) << error;
    }
  }
  void stop() override {}
  unsigned functions() const override { return static_cast<unsigned>(functions_.size()); }
  unsigned connections() const override { return 1; }
  void with_chip(unsigned function, const std::function<void(chip::Chip&)>& use) override {
    functions_.at(function)->with_chip(use);
  }
  std::vector<std::string> host_writes(unsigned function) const override {
    std::vector<std::string> lines = {"a write of function " + std::to_string(function)};
    while (lines.size() < written) lines.emplace_back(120, 'w');
    lines.emplace_back("another");
    return lines;
  }
  std::string statistics() const override { return {}; }
  size_t written = 1;  // besides the newest
  uint32_t identity(unsigned function) {
    uint32_t value = 0;
    functions_[function]->read(wire::kConfigRegion, 0,
                               std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

 private:
  std::vector<std::unique_ptr<PciFunction>> functions_;
};

class VfioUserControlTest : public testing::Test {
 protected:
  control::Response ask(const control::Request& request) {
    control::Response response;
    EXPECT_TRUE(response.ParseFromString(operators.answer(request.SerializeAsString())));
    EXPECT_FALSE(response.version().empty());
    return response;
  }
  control::Response switch_power(unsigned function, bool on) {
    control::Request request;
    request.mutable_power()->set_device(function);
    request.mutable_power()->set_on(on);
    return ask(request);
  }
  control::Response inject(const std::string& plan) {
    control::Request request;
    request.mutable_inject()->set_plan(plan);
    return ask(request);
  }
  control::Status status() {
    control::Request request;
    request.mutable_status();
    return ask(request).status();
  }
  FakeServer server{2};
  VfioUserControl operators{server, "trn1.32xlarge", "/run/nd"};
};

TEST_F(VfioUserControlTest, SwitchesTheChipOfOneGuestOffAndOn) {
  EXPECT_EQ(switch_power(1, false).error(), 0);
  EXPECT_EQ(server.identity(1), 0xFFFFFFFFu);
  EXPECT_EQ(server.identity(0), 0x71641D0Fu);
  EXPECT_EQ(status().devices(1).state(), "off");
  EXPECT_EQ(switch_power(1, true).error(), 0);
  EXPECT_EQ(server.identity(1), 0x71641D0Fu);
}

TEST_F(VfioUserControlTest, TellsOfItsFunctions) {
  const control::Status now = status();
  EXPECT_EQ(now.profile(), "trn1.32xlarge");
  EXPECT_EQ(now.socket(), "/run/nd");
  EXPECT_EQ(now.connections(), 1u);
  ASSERT_EQ(now.devices_size(), 2);
  EXPECT_EQ(now.devices(1).index(), 1u);
  EXPECT_EQ(now.devices(1).state(), "ready");
  EXPECT_EQ(now.devices(1).cores(0).host_index(), 2u);
  EXPECT_EQ(now.devices(0).hbm_size(), 2);
  EXPECT_EQ(now.processes_size(), 0);
}

TEST_F(VfioUserControlTest, ArmsAPlanInTheChipsThatItNamesAndForgetsIt) {
  EXPECT_EQ(inject(R"({"at":"chip","kind":"off","chip":1,"n":3})").error(), 0);
  EXPECT_EQ(status().devices(0).faults_size(), 0);
  ASSERT_EQ(status().devices(1).faults_size(), 1);
  control::Request request;
  request.mutable_clear();
  EXPECT_EQ(ask(request).error(), 0);
  EXPECT_EQ(status().devices(1).faults_size(), 0);
}

TEST_F(VfioUserControlTest, RefusesPlansThatItCannotCarryOut) {
  EXPECT_EQ(inject("nonsense").error(), EINVAL);
  EXPECT_EQ(inject(R"({"at":"chip","kind":"off","chip":2})").error(), ENODEV);
  EXPECT_EQ(inject(R"({"at":"link","kind":"down","a":0,"b":1})").error(), ENOTSUP);
  EXPECT_EQ(status().devices(0).faults_size(), 0);
}

TEST_F(VfioUserControlTest, ResetsTheCoresThatAreNamed) {
  const uint64_t cell = NEURON_V2_CORE_WINDOW(1) + NEURON_CORE_SEMAPHORES;
  uint32_t value = 0;
  server.with_chip(0,
                   [&](chip::Chip& chip) { chip.write_register(cell + NEURON_SEM_BLOCK_SET, 4); });
  control::Request request;
  request.mutable_reset()->set_device(0);
  request.mutable_reset()->add_cores(0);
  EXPECT_EQ(ask(request).error(), 0);
  const auto read = [&](chip::Chip& chip) {
    value = chip.read_register(cell + NEURON_SEM_BLOCK_READ);
  };
  server.with_chip(0, read);
  EXPECT_EQ(value, 4u);
  request.mutable_reset()->add_cores(1);
  EXPECT_EQ(ask(request).error(), 0);
  server.with_chip(0, read);
  EXPECT_EQ(value, 0u);
  request.mutable_reset()->add_cores(77);
  EXPECT_EQ(ask(request).error(), EINVAL);
  request.mutable_reset()->set_device(9);
  EXPECT_THAT(ask(request).message(), HasSubstr("there is no function 9; the last is 1"));
}

TEST_F(VfioUserControlTest, TellsWhatAFunctionHasWrittenIntoItsGuest) {
  control::Request request;
  request.mutable_writes()->set_device(1);
  const control::Response response = ask(request);
  ASSERT_EQ(response.writes_size(), 2);
  EXPECT_EQ(response.writes(0), "a write of function 1");
  request.mutable_writes()->set_device(2);
  EXPECT_EQ(ask(request).error(), ENODEV);
}

TEST_F(VfioUserControlTest, TellsOfAsManyWritesAsAUsersSocketTakesAndThenOfOlderOnes) {
  constexpr size_t kUsersSocket = 200'000;
  server.written = 4096;
  control::Request request;
  request.mutable_writes()->set_device(1);
  size_t shown = 0;
  control::Response response = ask(request);
  EXPECT_EQ(response.writes(response.writes_size() - 1), "another");
  // bounded: every answer has a line
  while (true) {
    ASSERT_GT(response.writes_size(), 0);
    EXPECT_LT(response.ByteSizeLong(), kUsersSocket);
    shown += static_cast<size_t>(response.writes_size());
    EXPECT_EQ(response.writes_left(), server.written + 1 - shown);
    if (response.writes_left() == 0) break;
    request.mutable_writes()->set_skip(static_cast<uint32_t>(shown));
    response = ask(request);
  }
  EXPECT_EQ(response.writes(0), "a write of function 1");
  request.mutable_writes()->set_skip(UINT32_MAX);
  EXPECT_EQ(ask(request).writes_size(), 0);
}

TEST_F(VfioUserControlTest, AnswersWhatIsNoRequest) {
  control::Response response;
  ASSERT_TRUE(response.ParseFromString(operators.answer("\xFF\xFF")));
  EXPECT_EQ(response.error(), EINVAL);
  EXPECT_EQ(ask(control::Request()).error(), EINVAL);
  control::Request link;
  link.mutable_link();
  EXPECT_EQ(ask(link).error(), ENOTSUP);
}

}  // namespace
}  // namespace neuron::transport
