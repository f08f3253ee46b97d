// SPDX-License-Identifier: Apache-2.0
// Collectives that the host starts, as inspect sessions and system traces see them.
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>

#include <filesystem>
#include <map>

#include "tests/support/files.h"
#include "tests/system/api/collectives_support.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::test {
namespace {

namespace fs = std::filesystem;

class InspectedCollectives : public Collectives {
 protected:
  void begin(const char* devices) {
    const Setting enable("NEURON_RT_INSPECT_ENABLE", "1");
    const Setting folder("NEURON_RT_INSPECT_OUTPUT_DIR", folder_.path("out").c_str());
    const Setting mode("NEURON_RT_INSPECT_DEVICE_PROFILE", devices);
    ASSERT_EQ(nrt_inspect_begin(), NRT_SUCCESS) << nrt_open_last_error();
  }
  // Of all profiles: the name of the program and its executions.
  std::multimap<std::string, size_t> profiles() const {
    std::multimap<std::string, size_t> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path("out"))) {
      if (entry.path().extension() != ".ntff") continue;
      const auto profile = profile::Profile::open(entry.path());
      EXPECT_TRUE(profile) << (profile ? "" : profile.error().sentence);
      if (!profile) continue;
      EXPECT_TRUE(profile->ended()) << entry.path();
      const auto& part = profile->parts()[0];
      EXPECT_EQ(part.program.streams.size(), 1u) << "what its collective core does";
      found.emplace(part.program.name, part.executions.size());
    }
    return found;
  }
  // Three all-reduces and an all-gather of each rank.
  static void run_some(uint32_t ranks) {
    on_ranks(ranks, [&](uint32_t rank) {
      nrt_tensor_t* x = make_tensor(400, static_cast<int>(rank));
      nrt_tensor_t* y = make_tensor(400, static_cast<int>(rank));
      nrt_tensor_t* all = make_tensor(400ull * ranks, static_cast<int>(rank));
      std::vector<uint32_t> group;
      for (uint32_t r = 0; r < ranks; ++r) group.push_back(r);
      for (int n = 0; n < 3; ++n) {
        put(x, rank, 0, 100);
        run_on_host(rank, group, NRT_CC_ALLREDUCE, {x}, {y}, ranks);
        expect_sums(get(y), ranks);
      }
      run_on_host(rank, group, NRT_CC_ALLGATHER, {x}, {all}, ranks);
      for (nrt_tensor_t* tensor : {x, y, all}) nrt_tensor_free(&tensor);
    });
  }
  Folder folder_;
};

using Found = std::multimap<std::string, size_t>;

TEST_F(InspectedCollectives, ThatWereScheduledAreInTheProfilesOfASession) {
  begin("session");
  run_some(2);
  ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(profiles(), (Found{{"host-driven all_gather", 1},
                               {"host-driven all_gather", 1},
                               {"host-driven all_reduce", 3},
                               {"host-driven all_reduce", 3}}));
}

TEST_F(InspectedCollectives, HaveAProfileOfTheFirstThatMovesTheSame) {
  begin("model");
  run_some(1);
  ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(profiles(), (Found{{"host-driven all_gather", 1}, {"host-driven all_reduce", 1}}));
}

// A cache keeps 64 of them. The profile of one that goes is whole then, and nobody looks at its
// program afterwards.
TEST_F(InspectedCollectives, EndTheirProfileWhenTheyAreForgotten) {
  begin("session");
  run_some(1);
  std::vector<nrt_tensor_t*> tensors;
  for (uint64_t n = 1; n <= 64; ++n) tensors.push_back(make_tensor(4 * n, 0));
  uint32_t group[] = {0};
  for (nrt_tensor_t* tensor : tensors) {
    nrt_cc_comm_t comm{group, 0, 1, 0, 1, 0};
    nrt_tensor_list_t list{&tensor, 1};
    nrt_cc_context_t* context = nullptr;
    ASSERT_EQ(nrta_cc_prepare(&comm, &list, &list, NRT_DTYPE_FLOAT32, NRT_OP_ADD, NRT_CC_ALLREDUCE,
                              &context),
              NRT_SUCCESS)
        << nrt_open_last_error();
  }
  // The session goes on: profiles() asks of each file whether it was ended.
  EXPECT_EQ(profiles(), (Found{{"host-driven all_gather", 1}, {"host-driven all_reduce", 3}}));
  run_on_host(0, {0}, NRT_CC_ALLREDUCE, {tensors[0]}, {tensors[0]}, 1);
  ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(profiles().size(), 3u);
  for (nrt_tensor_t* tensor : tensors) nrt_tensor_free(&tensor);
}

TEST_F(InspectedCollectives, AreInASystemTraceWithTheCallThatScheduledThem) {
  nrt_sys_trace_config_t* config = nullptr;
  ASSERT_EQ(nrt_sys_trace_config_allocate(&config), NRT_SUCCESS);
  nrt_sys_trace_config_set_defaults(config);
  ASSERT_EQ(nrt_sys_trace_start(config), NRT_SUCCESS) << nrt_open_last_error();
  nrt_sys_trace_config_free(config);
  run_some(1);
  char* buffer = nullptr;
  size_t size = 0;
  ASSERT_EQ(nrt_sys_trace_fetch_events(&buffer, &size, nullptr), NRT_SUCCESS);
  const std::string events(buffer, size);
  nrt_sys_trace_buffer_free(buffer);
  EXPECT_EQ(nrt_sys_trace_stop(), NRT_SUCCESS);
  const auto count = [&](const std::string& type) {
    size_t found = 0;
    const std::string start = "\"event_type\":\"" + type + "\",\"phase\":\"start\"";
    for (size_t at = 0; (at = events.find(start, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("nrta_cc_schedule"), 4u);
  EXPECT_EQ(count("cc_running"), 4u);
  EXPECT_NE(events.find("\"name\":\"host-driven all_reduce\""), std::string::npos);
}

}  // namespace
}  // namespace neuron::test
