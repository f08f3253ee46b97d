// SPDX-License-Identifier: Apache-2.0
// All that can be read from recorded profiles: of two executions of the kernel attention, of an
// all-reduce, and of the two programs of a virtual core, on emulated chips. That the numbers are
// right is what tests/system/profile tests on profiles that it makes; here nothing changes unseen.
// A change of an output changes it; then golden/profile.sha256 gets the lines that this test
// prints, with the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "driver/base/format.h"
#include "driver/base/sha256.h"
#include "tests/support/files.h"
#include "tools/neuron-profile/output/comparison.h"
#include "tools/neuron-profile/output/detail.h"
#include "tools/neuron-profile/output/page.h"
#include "tools/neuron-profile/output/perfetto.h"
#include "tools/neuron-profile/output/report.h"
#include "tools/neuron-profile/output/tables.h"

namespace neuron::profile {
namespace {

namespace fs = std::filesystem;

std::string hash_of(const std::string& text) {
  std::string hash;
  for (const uint8_t byte :
       base::Sha256::of({reinterpret_cast<const uint8_t*>(text.data()), text.size()})) {
    hash += base::format("{:02x}", byte);
  }
  return hash;
}

template <class Text>
std::string text_of(const Result<Text>& result) {
  return result ? std::string(*result) : result.error().sentence;
}

class OutputsOfProfiles : public testing::Test {
 protected:
  OutputsOfProfiles() {
    std::ifstream file(test::source("tests/unit/tools/golden/profile.sha256"));
    for (std::string hash, name; file >> hash >> name;) golden_[name] = hash;
    // Outputs name the file that they are of.
    fs::current_path(folder_.path());
  }
  ~OutputsOfProfiles() override { fs::current_path(before_); }

  void expect(const std::string& name, const std::string& text) {
    EXPECT_EQ(hash_of(text) + "  " + name, golden_[name] + "  " + name);
  }

  template <class Writer>
  static std::string written(const Writer& write) {
    auto sink = Sink::open("written");
    EXPECT_TRUE(sink) << (sink ? "" : sink.error().sentence);
    if (!sink) return "";
    if (const auto done = write(*sink); !done) return done.error().sentence;
    if (const auto done = sink->close(); !done) return done.error().sentence;
    return test::read_file("written");
  }

  // The page without what is the same in every page.
  static std::string data_of(const std::string& page) {
    std::set<std::string> same;
    std::istringstream form(test::read_file(test::source("tools/neuron-profile/output/page.html")));
    for (std::string line; std::getline(form, line);) same.insert(line);
    std::istringstream lines(page);
    std::string data;
    for (std::string line; std::getline(lines, line);) {
      if (!same.contains(line)) data += line + "\n";
    }
    return data;
  }

  static std::string tables_of(Profile& profile, uint32_t part, size_t execution) {
    const auto tables = write_tables(profile, part, execution, {.folder = "tables"});
    if (!tables) return tables.error().sentence;
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator("tables")) names.push_back(entry.path());
    std::sort(names.begin(), names.end());
    EXPECT_GE(names.size(), *tables);
    std::string all;
    for (const std::string& name : names) all += name + hash_of(test::read_file(name));
    return all;
  }

  void expect_outputs(const std::string& name) {
    fs::copy_file(test::source("tests/unit/tools/golden/" + name + ".ntff"), "profile.ntff",
                  fs::copy_options::overwrite_existing);
    auto opened = Profile::open("profile.ntff");
    ASSERT_TRUE(opened) << name << ": " << opened.error().sentence;
    Profile& profile = *opened;
    std::string session;
    const auto add = [&](std::string_view text) { session += text; };
    write_session_json(profile, add);
    write_session_text(profile, add);
    expect(name + "-session", session + warnings(profile));
    bool some = false;
    for (uint32_t part = 0; part < profile.parts().size(); ++part) {
      const size_t executions = profile.parts()[part].executions.size();
      for (size_t e = 0; e < std::min<size_t>(executions, 2); ++e) {
        expect_execution(base::format("{}-{}-{}", name, part, e), profile, part, e);
        some = true;
      }
    }
    EXPECT_TRUE(some) << name << " has an execution";
  }

  void expect_execution(const std::string& name, Profile& profile, uint32_t part,
                        size_t execution) {
    expect(name + "-report", text_of(report_text(profile, part, execution, {})));
    expect(name + "-summary", text_of(summary_text(profile, part, execution)));
    expect(name + "-summary-json", text_of(summary_json(profile, part, execution, true)));
    expect(name + "-json",
           written([&](Sink& sink) { return write_detail_json(profile, part, execution, sink); }));
    std::string csv;
    for (const char* table :
         {"instruction", "dma", "semaphore", "collective", "cc", "link", "path"}) {
      csv += written(
          [&](Sink& sink) { return write_detail_csv(profile, part, execution, table, sink); });
    }
    expect(name + "-csv", csv);
    expect(
        name + "-page",
        data_of(written([&](Sink& sink) { return write_page(profile, part, execution, sink); })));
    for (const bool flows : {false, true}) {
      expect(name + (flows ? "-perfetto-flows" : "-perfetto"), written([&](Sink& sink) {
               return write_perfetto(profile, part, execution, sink, flows);
             }));
    }
    expect(name + "-tables", tables_of(profile, part, execution));
  }

 private:
  const fs::path before_ = fs::current_path();
  test::Folder folder_;
  std::map<std::string, std::string> golden_;
};

TEST_F(OutputsOfProfiles, OfAKernelAreThoseOfBefore) { expect_outputs("attention"); }

TEST_F(OutputsOfProfiles, OfACollectiveAreThoseOfBefore) { expect_outputs("all_reduce"); }

TEST_F(OutputsOfProfiles, OfTwoCoresAreThoseOfBefore) { expect_outputs("two_cores"); }

TEST_F(OutputsOfProfiles, OfTwoProfilesBesideEachOtherAreThoseOfBefore) {
  const std::string folder = test::source("tests/unit/tools/golden/");
  auto before = Profile::open(folder + "attention.ntff");
  auto after = Profile::open(folder + "all_reduce.ntff");
  ASSERT_TRUE(before && after);
  const auto compared = compare(*before, 0, *after, 0);
  ASSERT_TRUE(compared) << compared.error().sentence;
  std::string text = compared->text + compared->json + std::to_string(compared->total_change);
  for (size_t at = 0; (at = text.find(folder)) != std::string::npos;) text.erase(at, folder.size());
  expect("compared", text);
}

}  // namespace
}  // namespace neuron::profile
