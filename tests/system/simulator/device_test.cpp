// SPDX-License-Identifier: Apache-2.0
// One truth of time: the model of chips beside nccom-test on the emulated device.
//
// A device's time is that of a program, which also copies tensors into place and back. Programs of
// one and of three collectives differ by two collectives and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>

#include "ccom/simulator/device_model.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tools/nccom-test/input/operation.h"

namespace neuron::simulator {
namespace {

// As a share of the device's time.
constexpr double kMostDifference = 1e-4;

// The two cells of trn1.32xlarge that are further apart, 0.55 and 0.03 %.
struct Further {
  const char *operation, *algorithm;
  uint32_t ranks;
  uint64_t bytes;
  double most;
};
constexpr Further kFurther[] = {{"allr", "rdh", 4, 1 << 20, 6e-3},
                                {"alltoall", "bruck", 8, 1 << 20, 4e-4}};

double most_difference(const std::string& operation, const std::string& algorithm, uint32_t ranks,
                       const std::string& profile, uint64_t bytes) {
  for (const Further& cell : kFurther) {
    if (profile == "trn1.32xlarge" && operation == cell.operation && algorithm == cell.algorithm &&
        ranks == cell.ranks && bytes == cell.bytes) {
      return cell.most;
    }
  }
  return kMostDifference;
}

using Times = std::map<int64_t, double>;  // microseconds by size

Times times_of(const std::string& text, bool slowest) {
  Times times;
  boost::system::error_code error;
  const auto value = boost::json::parse(text, error);
  EXPECT_FALSE(error) << text;
  if (error) return times;
  for (const auto& row : value.at("results").as_array()) {
    const auto& from =
        slowest && row.as_object().contains("slowest_rank") ? row.at("slowest_rank") : row;
    times[row.at("size(B)").as_int64()] = from.at("time:avg(us)").to_number<double>();
  }
  return times;
}

class SimulatedDevice : public testing::Test {
 protected:
  Times device(const std::string& operation, const std::string& algorithm, uint32_t ranks,
               const std::string& profile, int repetitions) {
    const std::string streams = folder_.write(
        "streams.json", R"({"streams": [{"operation": ")" + operation + R"(", "algorithm": ")" +
                            algorithm + R"(", "datatype": "fp32", "minbytes": "4K", )" +
                            R"("maxbytes": "1M", "stepfactor": 16, "ops_per_iter": )" +
                            std::to_string(repetitions) + "}]}");
    const test::Run run = test::shell(
        test::built("bin/nccom-test --backend device -w 0 -n 1 --json - --streams-json ") +
            streams + " -r " + std::to_string(ranks) + " 2>/dev/null",
        {{"NEURON_RT_LOG_LEVEL", "QUIET"}, {"NEURON_EMULATOR", profile}});
    EXPECT_EQ(run.ending, 0) << run.output;
    return times_of(run.output, true);
  }

  // What one more collective takes.
  double simulated(const std::string& operation, const std::string& algorithm, uint32_t ranks,
                   const std::string& profile, uint64_t size) {
    const auto node = *ccom::Topology::profile(profile);
    ccom::Group group{{}, ccom::Topology(node, 1)};
    for (ccom::Rank rank = 0; rank < ranks; ++rank) {
      group.places.push_back(group.topology.place(rank));
    }
    ccom::CostParameters costs;
    costs.medium = ccom::Medium::kDevice;
    ccom::Request request;
    request.operation = *nccom::find_operation(operation);
    request.algorithm = *nccom::find_algorithm(algorithm);
    request.type = CCOM_FP32;
    const bool whole = operation == "allr" || operation == "broadcast";
    request.count = size / 4 / (whole ? 1 : ranks);
    const auto plan = ccom::Planner(group, costs).plan(request);
    EXPECT_TRUE(plan) << plan.error().sentence;
    if (!plan) return 0;
    ccom::DeviceModelOptions options;
    options.generation = node.generation;
    double times[2] = {};
    for (const uint32_t repetitions : {1u, 3u}) {
      options.repetitions = repetitions;
      const auto result = ccom::simulate_device(group, *plan, options);
      EXPECT_TRUE(result) << result.error().sentence;
      if (!result) return 0;
      times[repetitions / 2] = static_cast<double>(result->time_ps) * 1e-6;
    }
    return (times[1] - times[0]) / 2;
  }

  void compare(const std::string& operation, const std::string& algorithm, uint32_t ranks,
               const std::string& profile = "trn1.32xlarge") {
    const Times one = device(operation, algorithm, ranks, profile, 1);
    const Times three = device(operation, algorithm, ranks, profile, 3);
    ASSERT_EQ(one.size(), 3u);
    for (const auto& [size, first] : one) {
      ASSERT_TRUE(three.contains(size)) << size;
      const double real = (three.at(size) - first) / 2;
      const auto bytes = static_cast<uint64_t>(size);
      const double time = simulated(operation, algorithm, ranks, profile, bytes);
      const double apart = std::abs(time / real - 1);
      worst_ = std::max(worst_, apart);
      EXPECT_LE(apart, most_difference(operation, algorithm, ranks, profile, bytes))
          << operation << " by " << algorithm << ", " << ranks << " ranks of " << profile << ", "
          << size << " bytes: device " << real << " us, simulated " << time << " us";
      std::printf("%s %s, %u ranks, %lld B: device %.3f us, simulated %.3f us, %+.2f %%\n",
                  operation.c_str(), algorithm.c_str(), ranks, static_cast<long long>(size), real,
                  time, (time / real - 1) * 100);
    }
  }

  const test::Folder folder_;
  double worst_ = 0;
};

TEST_F(SimulatedDevice, TakesTheTimeOfTheDeviceWithinATenThousandthButForTwoCellsThatAreNamed) {
  const std::pair<const char*, std::vector<const char*>> cells[] = {
      {"allr", {"mesh", "ring", "rdh", "tree", "kangaring"}},
      {"allg", {"mesh", "ring", "bruck"}},
      {"redsct", {"mesh", "ring"}},
      {"alltoall", {"mesh", "pairwise", "bruck"}},
      {"broadcast", {"mesh", "tree", "ring"}},
      {"gather", {"mesh", "tree"}},
  };
  for (const uint32_t ranks : {2u, 4u, 8u}) {
    for (const auto& [operation, algorithms] : cells) {
      for (const char* algorithm : algorithms) {
        if (ranks == 2 && std::string(algorithm) == "kangaring") continue;  // needs two pairs
        compare(operation, algorithm, ranks);
      }
    }
  }
  RecordProperty("worst_percent", std::to_string(worst_ * 100));
}

TEST_F(SimulatedDevice, TakesTheTimeOfAWholeInstanceWithinATenThousandth) {
  for (const char* algorithm : {"mesh", "ring", "rdh"}) compare("allr", algorithm, 32);
  compare("allg", "ring", 32);
  compare("alltoall", "mesh", 32);
}

TEST_F(SimulatedDevice, TakesTheTimeOfChipsOfGenerationThreeWithinATenThousandth) {
  compare("allr", "mesh", 4, "trn2.48xlarge");
  compare("allg", "ring", 16, "trn2.48xlarge");
}

TEST_F(SimulatedDevice, TheAlgorithmOfAnAutomaticChoiceIsTold) {
  const auto told = [&](const std::string& operation, uint32_t ranks) {
    const test::Run run = test::shell(
        test::built(
            "bin/nccom-test --backend device -w 0 -n 1 -b 4K -e 4K --show-algorithm -d fp32 "
            "--json - ") +
            operation + " -r " + std::to_string(ranks) + " 2>/dev/null",
        {{"NEURON_RT_LOG_LEVEL", "QUIET"}, {"NEURON_EMULATOR", "trn1.32xlarge"}});
    EXPECT_EQ(run.ending, 0) << run.output;
    return run.output;
  };
  EXPECT_THAT(told("allr", 4), testing::HasSubstr(R"("algorithm": "mesh")"));
  EXPECT_THAT(told("allg", 8), testing::Not(testing::HasSubstr(R"("algorithm": "auto")")));
}

}  // namespace
}  // namespace neuron::simulator
