// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/host_sampler.h"

#include <gtest/gtest.h>
#include <sys/sysinfo.h>

#include <boost/json.hpp>

namespace neuron::runtime {
namespace {

namespace json = boost::json;

class Sampled : public ::testing::Test {
 protected:
  Sampled() { sampler_.stop(); }
  json::array rows(const std::string& text, const char* name) const {
    return json::parse(text).at(name).as_array();
  }
  HostSampler sampler_;
};

TEST_F(Sampled, MemoryInUseIsPartOfWhatTheHostHas) {
  struct sysinfo host {};
  ASSERT_EQ(::sysinfo(&host), 0);
  const auto total = static_cast<double>(host.totalram) * host.mem_unit;
  const json::array rows = this->rows(sampler_.memory_json(0, SIZE_MAX), "mem_usage");
  ASSERT_EQ(rows.size(), sampler_.samples());
  ASSERT_GE(rows.size(), 1u);
  for (const json::value& row : rows) {
    const double used = row.at("usage").to_number<double>();
    const double share = row.at("percent_usage").to_number<double>();
    EXPECT_GT(used, 0);
    EXPECT_LT(used, total) << "nothing is said to be free";
    EXPECT_GT(share, 0);
    EXPECT_LT(share, 1);
    EXPECT_NEAR(used / share / total, 1, 0.05) << "the share is of the host's memory";
    EXPECT_GT(row.at("timestamp").to_number<uint64_t>(), 1'600'000'000'000'000'000u);
  }
}

TEST_F(Sampled, ProcessorsAreBusyForAFractionOfTheTime) {
  const json::array rows = this->rows(sampler_.processors_json(0, SIZE_MAX), "cpu_util");
  for (const json::value& row : rows) {
    EXPECT_GE(row.at("util").to_number<double>(), 0);
    EXPECT_LE(row.at("util").to_number<double>(), 1);
    EXPECT_GT(row.at("duration").to_number<uint64_t>(), 0u);
  }
  // Those of one sample are left out where fewer are asked for.
  EXPECT_EQ(this->rows(sampler_.processors_json(0, 0), "cpu_util").size(), 0u);
  EXPECT_EQ(this->rows(sampler_.processors_json(sampler_.samples(), 1), "cpu_util").size(), 0u);
}

}  // namespace
}  // namespace neuron::runtime
