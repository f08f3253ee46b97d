// SPDX-License-Identifier: Apache-2.0
//
// Every function that libnrt.so.1 exports, with the test that fails if the function does nothing.
// The page exported-functions.md in the build folder is written from it. A function of the driver
// library is found by its name in the unit tests of driver/ndl.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/support/files.h"

namespace {

const std::map<std::string, std::string> kTests = {
    {"nrt_add_tensor_to_tensor_set", "Tensor.SetsFindReplaceAndForget"},
    {"nrt_all_gather", "Collectives.HostsGatherAndMeet"},
    {"nrt_allocate_tensor_set", "Tensor.SetsFindReplaceAndForget"},
    {"nrt_barrier", "Collectives.HostsGatherAndMeet"},
    {"nrt_build_global_comm", "Collectives.HostsGatherAndMeet"},
    {"nrt_cc_global_comm_init", "Collectives.HostsGatherAndMeet"},
    {"nrt_close", "Session.CloseGivesBackWhatWasLeft"},
    {"nrt_destroy_tensor_set", "Tensor.SetsFindReplaceAndForget"},
    {"nrt_execute", "Execute.AddsTwoTensorsAgainAndAgain"},
    {"nrt_execute_repeat", "Execute.RepeatFeedsOutputsBack"},
    {"nrt_free_model_tensor_info", "Execute.TensorInfoIsGivenBack"},
    {"nrt_get_dmabuf_fd", "Tensor.ExportsADmaBufOrSaysFallBack"},
    {"nrt_get_dmabuf_fd_v2", "Tensor.ExportsADmaBufOrSaysFallBack"},
    {"nrt_get_hbm_mmap_va", "Session.MapsNoWholeHbmOnThisGeneration"},
    {"nrt_get_instance_info", "Session.KnowsTheInstanceType"},
    {"nrt_get_model_info", "Execute.ModelTellsItsCoreAndCounts"},
    {"nrt_get_model_instance_count", "Execute.ModelTellsItsCoreAndCounts"},
    {"nrt_get_model_nc_count", "Execute.ModelTellsItsCoreAndCounts"},
    {"nrt_get_model_tensor_info", "Execute.ModelTellsItsTensors"},
    {"nrt_get_model_vnc_count", "Execute.ModelTellsItsCoreAndCounts"},
    {"nrt_get_status_as_str", "Session.NamesEveryStatus"},
    {"nrt_get_tensor_from_tensor_set", "Tensor.SetsFindReplaceAndForget"},
    {"nrt_get_total_nc_count", "Session.CountsCoresBeforeInit"},
    {"nrt_get_total_vnc_count", "Session.CountsCoresBeforeInit"},
    {"nrt_get_version", "Session.GivesItsVersionToOlderCallersToo"},
    {"nrt_get_visible_nc_count",
     "Session.CountsVisibleCoresByEnvironmentBeforeInitAndByOwnershipAfter"},
    {"nrt_get_visible_vnc_count",
     "Session.CountsVisibleCoresByEnvironmentBeforeInitAndByOwnershipAfter"},
    {"nrt_get_vnc_memory_stats", "Session.AccountsDeviceMemory"},
    {"nrt_host_device_id_get", "Session.TellsHostNumbersOfItsDevices"},
    {"nrt_host_device_id_rid_map_get", "Session.TellsHostNumbersOfItsDevices"},
    {"nrt_init", "Session.InitIsIdempotentAndWorksAgainAfterClose"},
    {"nrt_load", "Execute.AddsTwoTensorsAgainAndAgain"},
    {"nrt_load_collectives",
     "Collectives.AnAllReduceOfEightCoresOfFourChipsAddsInTheOrderOfTheRanks"},
    {"nrt_memcpy_to_device", "Tensor.HasAnAddressThatShowsDeviceMemory"},
    {"nrt_tensor_allocate", "Tensor.KeepsWhatWasWrittenAtAnyOffset"},
    {"nrt_tensor_allocate_empty", "Tensor.TakesABufferOfTheCaller"},
    {"nrt_tensor_allocate_slice", "Tensor.SlicesShareStorageThatOutlivesTheSource"},
    {"nrt_tensor_attach_buffer", "Tensor.TakesABufferOfTheCaller"},
    {"nrt_tensor_check_output_completion", "Execute.CountsExecutionsThatWroteATensor"},
    {"nrt_tensor_copy", "Tensor.CopiesInsideOneHbmAndWithHostMemory"},
    {"nrt_tensor_free", "Tensor.SlicesShareStorageThatOutlivesTheSource"},
    {"nrt_tensor_get_device_allocation_info", "Tensor.TellsItsDeviceAddress"},
    {"nrt_tensor_get_size", "Tensor.KeepsWhatWasWrittenAtAnyOffset"},
    {"nrt_tensor_get_va", "Tensor.HasAnAddressThatShowsDeviceMemory"},
    {"nrt_tensor_memset", "Tensor.MemsetFillsBytes"},
    {"nrt_tensor_read", "Tensor.KeepsWhatWasWrittenAtAnyOffset"},
    {"nrt_tensor_read_batch", "Tensor.BatchesMoveAllOrNothing"},
    {"nrt_tensor_reset_output_completion", "Execute.CountsExecutionsThatWroteATensor"},
    {"nrt_tensor_write", "Tensor.KeepsWhatWasWrittenAtAnyOffset"},
    {"nrt_tensor_write_batch", "Tensor.BatchesMoveAllOrNothing"},
    {"nrt_unload", "Execute.UnloadGivesMemoryBackAndKillsTheHandle"},
    {"nrta_cc_prepare", "Collectives.TheHostStartsThemOnTensorsAndOnListsOfTensors"},
    {"nrta_cc_schedule", "Collectives.TheHostStartsThemOnTensorsAndOnListsOfTensors"},
    {"nrta_error_tracker_create", "AsyncOld.TrackersCollectErrors"},
    {"nrta_error_tracker_destroy", "AsyncOld.TrackersCollectErrors"},
    {"nrta_error_tracker_get_list", "AsyncOld.TrackersCollectErrors"},
    {"nrta_event_register_seq_id_completion", "Async.SignalsAnEventWhenARequestCompletes"},
    {"nrta_event_register_xu_completion", "Async.CountsTheCompletionsOfAQueueInAnEvent"},
    {"nrta_execute_schedule", "Async.WritesExecutesAndReads"},
    {"nrta_get_completion_handle", "AsyncOld.CompletionHandlesBecomeReadable"},
    {"nrta_get_sequence", "Async.WritesExecutesAndReads"},
    {"nrta_is_completed", "Async.KnowsNoRequestsThatWereNeverMade"},
    {"nrta_tensor_copy", "Async.CopiesBetweenTensorsInEitherQueue"},
    {"nrta_tensor_read", "Async.WritesExecutesAndReads"},
    {"nrta_tensor_write", "Async.WritesExecutesAndReads"},
    {"nrt_open_get_execution_report", "Execute.ReportsModelTimeThatDoesNotVary"},
    {"nrt_open_get_instance_type", "Session.TellsTheInstanceType"},
    {"nrt_open_get_memory_usage", "Session.AccountsDeviceMemory"},
    {"nrt_open_get_queue_report", "Async.QueuesOverlapInModelTime"},
    {"nrt_open_load_file", "LoadFile.GivesTheConstantsOfTheFile"},
    {"nrt_open_last_error", "Tensor.RefusesRangesOutsideWithASentence"},
};

std::set<std::string> exported() {
  const std::string map = neuron::test::read_file(neuron::test::source("runtime/libnrt.map"));
  std::set<std::string> names;
  static const std::regex name("\\b((nrta?|ndl|nds)_[a-z0-9_]+);");
  for (std::sregex_iterator it(map.begin(), map.end(), name), end; it != end; ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

std::set<std::string> tests_of_this_program() {
  std::set<std::string> names;
  const auto& program = *::testing::UnitTest::GetInstance();
  for (int s = 0; s < program.total_test_suite_count(); ++s) {
    const auto& suite = *program.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      names.insert(std::string(suite.name()) + "." + suite.GetTestInfo(t)->name());
    }
  }
  return names;
}

// The first test of driver/ndl whose text calls the function.
std::map<std::string, std::string> driver_tests(const std::set<std::string>& functions) {
  std::map<std::string, std::string> found;
  static const std::regex test("\\n(TEST|TEST_F|TEST_P)\\((\\w+), (\\w+)\\)");
  const std::string folder = std::string(NEURON_SOURCE_DIR) + "/tests/unit/driver/ndl";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string text = neuron::test::read_file(entry.path());
    std::string name;
    size_t begin = 0;
    auto scan = [&](size_t end) {
      if (name.empty()) return;
      const std::string body = text.substr(begin, end - begin);
      for (const std::string& function : functions) {
        if (body.find(function + "(") != std::string::npos) found.emplace(function, name);
      }
    };
    for (std::sregex_iterator it(text.begin(), text.end(), test), end; it != end; ++it) {
      scan(static_cast<size_t>(it->position()));
      name = (*it)[2].str() + "." + (*it)[3].str();
      begin = static_cast<size_t>(it->position());
    }
    scan(text.size());
  }
  return found;
}

TEST(ExportedFunctions, EachHasATestThatFailsIfItDoesNothing) {
  const std::set<std::string> functions = exported();
  ASSERT_GT(functions.size(), 40u) << "runtime/libnrt.map could not be read";
  const std::set<std::string> own = tests_of_this_program();
  const std::map<std::string, std::string> driver = driver_tests(functions);
  std::ofstream page(std::string(NEURON_BUILD_DIR) + "/exported-functions.md");
  std::string own_rows, driver_rows;
  for (const std::string& function : functions) {
    std::string test;
    const bool of_driver = function.rfind("nrt", 0) != 0;
    if (const auto known = kTests.find(function); known != kTests.end()) {
      test = known->second;
      EXPECT_TRUE(own.count(test)) << function << ": there is no test " << test;
    } else if (const auto scanned = driver.find(function); of_driver && scanned != driver.end()) {
      test = scanned->second;
    }
    EXPECT_FALSE(test.empty()) << function << " is exported but no test names it";
    (of_driver ? driver_rows : own_rows) += "| " + function + " | " + test + " |\n";
  }
  page << "# Exported functions of libnrt.so.1\n\n## Runtime and extensions\n\n"
       << "| function | test that fails if it does nothing |\n|---|---|\n"
       << own_rows << "\n## Driver library\n\n"
       << "| function | first unit test that calls it |\n|---|---|\n"
       << driver_rows;
  for (const auto& [function, test] : kTests) {
    EXPECT_TRUE(functions.count(function)) << function << " is tested but not exported";
  }
}

}  // namespace
