// SPDX-License-Identifier: Apache-2.0
// Models in a folder, and what the files beside them say: model_folder, model_settings.
#include "tools/neuron-serve/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace neuron::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::map<std::string, FoundModel> scan(const test::Folder& folder, const std::string& only = "") {
  std::map<std::string, FoundModel> models;
  std::string error;
  EXPECT_TRUE(scan_models(folder.path(), only, models, error)) << error;
  return models;
}

std::string refusal(const std::string& text) {
  ModelSettings settings;
  std::string error;
  EXPECT_FALSE(read_settings(text, "m.json", settings, error)) << text;
  return error;
}

TEST(ModelFolder, HasFilesAndVersions) {
  const test::Folder folder;
  folder.write("a.neff", "1");
  folder.write("b.onnx", "1");
  folder.write("c/2/model.onnx", "1");
  folder.write("c/10/model.neff", "1");
  folder.write("c/old/model.neff", "1");
  folder.write("c/model.json", R"({"batched": true})");
  folder.write("c/10/model.json", R"({"warm_up": false})");
  folder.write("notes/today.txt", "1");
  const auto models = scan(folder);
  ASSERT_EQ(models.size(), 4u);
  EXPECT_TRUE(models.at("b").compiled_here());
  EXPECT_FALSE(models.at("a").compiled_here());
  EXPECT_TRUE(models.at("c/2").settings.batched);
  EXPECT_FALSE(models.at("c/10").settings.batched);
  EXPECT_FALSE(models.at("c/10").settings.warm_up);
  for (const auto& [key, model] : models) EXPECT_EQ(model.error, "") << key;
}

TEST(ModelFolder, MayBeOneFileWhateverIsBesideIt) {
  const test::Folder folder;
  folder.write("a.neff", "1");
  folder.write("a.onnx", "1");
  folder.write("b.onnx", "1");
  const auto models = scan(folder, "a.onnx");
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models.at("a").error, "");
  EXPECT_EQ(models.at("a").file, folder.path("a.onnx"));
}

TEST(ModelFolder, SaysWhatIsAmbiguousOrMissing) {
  const test::Folder folder;
  folder.write("a.neff", "1");
  folder.write("a.onnx", "1");
  folder.write("b.neff", "1");
  folder.write("b/3/model.neff", "1");
  folder.write("c/3/other.neff", "1");
  folder.write("d e.onnx", "1");
  folder.write("f.neff", "1");
  folder.write("f.json", R"({"batch_sizes": [1]})");
  const auto models = scan(folder);
  EXPECT_THAT(models.at("a").error, HasSubstr("remove one of them"));
  EXPECT_EQ(models.at("b").error, "");
  EXPECT_THAT(models.at("b/3").error, HasSubstr("one file or a folder of versions"));
  EXPECT_THAT(models.at("c/3").error, HasSubstr("there is neither"));
  EXPECT_THAT(models.at("d e").error, HasSubstr("rename it"));
  EXPECT_THAT(models.at("f").error, HasSubstr("compiled already"));
}

TEST(ModelFolder, SettingsThatAreNoneAreNotReadWhole) {
  const test::Folder folder;
  folder.write("a.neff", "1");
  // A file of a terabyte, none of which is on the disk.
  folder.write("a.json", "{");
  ASSERT_EQ(::truncate(folder.path("a.json").c_str(), off_t{1} << 40), 0);
  EXPECT_THAT(scan(folder).at("a").error, HasSubstr("settings have at most"));
}

TEST(ModelFolder, AModelIsAnotherWhenItsFilesOfWeightsWereReplaced) {
  const test::Folder folder;
  const std::string named = std::string("\x0a\x08location\x12\x07weights", 19);
  folder.write("a.onnx", named);
  folder.write("weights", "1");
  const auto before = scan(folder).at("a").identity;
  EXPECT_EQ(scan(folder).at("a").identity, before);
  folder.write("weights", "22");
  EXPECT_FALSE(scan(folder).at("a").identity == before);
}

TEST(ModelFolder, AModelIsAnotherWhenItsFileWasReplaced) {
  for (const char* name : {"a.onnx", "a.neff"}) {
    const test::Folder folder;
    folder.write(name, "1");
    const auto before = scan(folder).at("a").identity;
    EXPECT_EQ(scan(folder).at("a").identity, before) << name;
    folder.write(name, "22");
    EXPECT_FALSE(scan(folder).at("a").identity == before) << name;
  }
}

TEST(ModelSettings, BecomeArgumentsOfTheCompiler) {
  ModelSettings settings;
  std::string error;
  ASSERT_TRUE(read_settings(R"({"batch_sizes": [8, 1, 8], "shapes": {"x": [null, 3], "y": [4]},)"
                            R"( "dimensions": {"n": 128}, "constants": {"r": 16000, "s": [1, 2]},)"
                            R"( "auto_cast": "fp16"})",
                            "m.json", settings, error))
      << error;
  EXPECT_THAT(settings.batch_sizes, ElementsAre(1, 8));
  EXPECT_THAT(settings.compile_arguments(8),
              ElementsAre("--batch", "8", "--shape", "x=8x3", "--shape", "y=4", "--dim", "n=128",
                          "--constant", "r=16000", "--constant", "s=[1,2]", "--auto-cast",
                          "matmult", "--auto-cast-type", "fp16"));
}

TEST(ModelSettings, ThatAreWrongAreRefusedWithTheirField) {
  EXPECT_THAT(refusal("[]"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(refusal("{"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(refusal(R"({"rows": 1})"), HasSubstr("field \"rows\": it is unknown"));
  EXPECT_THAT(refusal(R"({"batched": 1})"), HasSubstr("true or false"));
  EXPECT_THAT(refusal(R"({"batch_sizes": []})"), HasSubstr("1 to 16 batch sizes"));
  EXPECT_THAT(refusal(R"({"batch_sizes": [0]})"), HasSubstr("1 to 16 batch sizes"));
  EXPECT_THAT(refusal(R"({"shapes": {"x": [3, null]}})"), HasSubstr("in the first place only"));
  EXPECT_THAT(refusal(R"({"dimensions": {"x": "3"}})"), HasSubstr("sizes by name"));
  EXPECT_THAT(refusal(R"({"constants": {"x": []}})"), HasSubstr("lists of numbers"));
  EXPECT_THAT(refusal(R"({"constants": {"x": "3"}})"), HasSubstr("lists of numbers"));
  EXPECT_THAT(refusal(R"({"auto_cast": "fp8"})"), HasSubstr("\"bf16\""));
}

}  // namespace
}  // namespace neuron::serve
