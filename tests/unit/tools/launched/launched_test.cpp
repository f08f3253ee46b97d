// SPDX-License-Identifier: Apache-2.0
// What launchers leave in the environment, as Open MPI 4, MPICH 4 and Slurm 22 were seen to leave
// it.
#include "tools/launched/launched.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace neuron::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Environment = std::map<std::string, std::string>;

runtime::Result<std::optional<Launched>> read(const Environment& environment) {
  return read_launched([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_NAMESPACE", "1629683713"}};
const Environment kSlurm = {{"SLURM_PROCID", "1"},         {"SLURM_STEP_NUM_TASKS", "2"},
                            {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NODELIST", "trn-[07-08]"},
                            {"SLURM_JOB_ID", "12"},        {"SLURM_STEP_ID", "0"}};

TEST(LaunchedProcess, IsFoundInTheVariablesOfEachLauncher) {
  const auto open = read(kOpenMpi);
  ASSERT_TRUE(open && *open);
  EXPECT_EQ((*open)->launcher, "Open MPI");
  EXPECT_EQ((*open)->process, 3u);
  EXPECT_EQ((*open)->processes, 4u);
  EXPECT_EQ((*open)->nodes, 2u) << "two of four processes are here";
  const auto mpich = read({{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"MPI_LOCALNRANKS", "3"}});
  ASSERT_TRUE(mpich && *mpich);
  EXPECT_EQ((*mpich)->launcher, "MPICH");
  EXPECT_EQ((*mpich)->nodes, 1u);
  const auto slurm = read(kSlurm);
  ASSERT_TRUE(slurm && *slurm);
  EXPECT_EQ((*slurm)->launcher, "Slurm");
  EXPECT_EQ((*slurm)->nodes, 2u);
  EXPECT_EQ((*slurm)->first_node, "trn-07");
}

TEST(LaunchedProcess, OfMpirunInsideAnAllocationIsThatOfMpirun) {
  Environment both = kOpenMpi;
  both.insert(kSlurm.begin(), kSlurm.end());
  const auto found = read(both);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->launcher, "Open MPI");
}

TEST(LaunchedProcess, IsNoneAloneOrInABatchScript) {
  EXPECT_FALSE(*read({}));
  EXPECT_FALSE(*read({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));
  EXPECT_FALSE(*read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "64"}, {"SLURM_JOB_ID", "9"}}));
}

TEST(LaunchedProcess, IsRefusedWhereTheVariablesContradictEachOther) {
  const auto sentence = [](Environment environment, const char* name, const char* value) {
    environment[name] = value;
    const auto found = read(environment);
    return found ? "taken" : found.error().sentence;
  };
  EXPECT_EQ(sentence(kOpenMpi, "OMPI_COMM_WORLD_RANK", "two"),
            "Open MPI has set OMPI_COMM_WORLD_RANK=two, expected a number");
  EXPECT_THAT(sentence(kOpenMpi, "OMPI_COMM_WORLD_RANK", "4"),
              HasSubstr("there is no such process"));
  EXPECT_THAT(sentence(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "3"),
              HasSubstr("start as many on each node"));
  EXPECT_THAT(sentence(kSlurm, "SLURM_STEP_NUM_NODES", "-1"), HasSubstr("expected a number"));
  EXPECT_THAT(sentence(kSlurm, "SLURM_PROCID", "99999999999"), HasSubstr("expected a number"));
}

TEST(LaunchedProcess, FindsTheFirstHostOfSlurmsLists) {
  EXPECT_EQ(first_of_node_list("one"), "one");
  EXPECT_EQ(first_of_node_list("one,two"), "one");
  EXPECT_EQ(first_of_node_list("n[3-5,9],m"), "n3");
  EXPECT_EQ(first_of_node_list("n[12,14]"), "n12");
  EXPECT_EQ(first_of_node_list("rack[1-2]-trn"), "rack1-trn");
  EXPECT_EQ(first_of_node_list("n[3"), "");
  EXPECT_EQ(first_of_node_list(""), "");
}

TEST(LaunchedProcess, MeetsTheOthersAtThePortBehindThatOfTheRoot) {
  const auto address = address_behind("10.1.2.3:4000");
  ASSERT_TRUE(address);
  EXPECT_EQ(text_of(*address, 7), "10.1.2.3:7");
  EXPECT_EQ(ntohs(address->sin_port), 4001);
  for (const char* text : {"", "10.1.2.3", "10.1.2.3:", "10.1.2.3:0", "10.1.2.3:65535", "host:4000",
                           "10.1.2:4000", ":4000"}) {
    EXPECT_FALSE(address_behind(text)) << text;
  }
}

TEST(LaunchedProcess, HasARootThatAllProcessesOfTheJobFindAlone) {
  Launched launched{.launcher = "MPICH", .process = 0, .processes = 2, .nodes = 1, .job = "4711"};
  const auto first = root_of(launched);
  ASSERT_TRUE(first);
  EXPECT_THAT(*first, StartsWith("127.0.0.1:"));
  launched.process = 1;
  EXPECT_EQ(*root_of(launched), *first);
  launched.job = "4712";
  EXPECT_NE(*root_of(launched), *first);
  launched.nodes = 2;
  EXPECT_THAT(root_of(launched).error().sentence, HasSubstr("NEURON_RT_ROOT_COMM_ID=ADDRESS:PORT"));
  launched.first_node = "no-such-host.invalid";
  EXPECT_THAT(root_of(launched).error().sentence,
              HasSubstr("no-such-host.invalid, has no address"));
  launched.first_node = "localhost";
  EXPECT_THAT(root_of(launched).error().sentence,
              HasSubstr("localhost, is 127.0.0.1 here, which the other nodes do not reach"));
}

}  // namespace
}  // namespace neuron::tools
