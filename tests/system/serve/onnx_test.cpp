// SPDX-License-Identifier: Apache-2.0
// ONNX files in the folder of models: compiled, kept, served in batches and versions, or refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/support/free_port.h"
#include "tests/system/serve/browser.h"
#include "tests/system/serve/served.h"
#include "tests/unit/tools/compiler/onnx/model_writer.h"

namespace neuron::serve_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kInputs = 16, kOutputs = 4;

// y = tanh(x w + b), with weights that depend on the seed alone.
struct Network {
  std::vector<float> w = std::vector<float>(kInputs * kOutputs), b = std::vector<float>(kOutputs);

  explicit Network(unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-0.4F, 0.4F);
    for (auto* list : {&w, &b}) {
      for (float& one : *list) one = value(random);
    }
  }
  // `rows` 0: the first dimension is free.
  std::vector<uint8_t> model(int64_t rows = 0) const {
    onnx::ModelWriter writer;
    writer.input("x", {rows, kInputs});
    writer.constant("w", {kInputs, kOutputs}, w);
    writer.constant("b", {kOutputs}, b);
    writer.node("MatMul", {"x", "w"}, {"product"});
    writer.node("Add", {"product", "b"}, {"sum"});
    writer.node("Tanh", {"sum"}, {"y"});
    writer.output("y");
    return writer.bytes();
  }
  // In double.
  std::vector<double> of(const std::vector<float>& x) const {
    std::vector<double> y;
    for (size_t row = 0; row < x.size() / kInputs; ++row) {
      for (size_t j = 0; j < kOutputs; ++j) {
        double sum = b[j];
        for (size_t i = 0; i < kInputs; ++i) {
          sum += static_cast<double>(x[row * kInputs + i]) * w[i * kOutputs + j];
        }
        y.push_back(std::tanh(sum));
      }
    }
    return y;
  }
};

std::vector<float> numbers(size_t rows, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> x(rows * kInputs);
  for (float& one : x) one = value(random);
  return x;
}

std::string ask(const std::vector<float>& x) {
  boost::json::array data(x.begin(), x.end());
  const auto rows = static_cast<int64_t>(x.size() / kInputs);
  return boost::json::serialize(boost::json::object{
      {"inputs", boost::json::array{{{"name", "x"},
                                     {"datatype", "FP32"},
                                     {"shape", boost::json::array{rows, kInputs}},
                                     {"data", data}}}}});
}

void expect_values(const Answer& answer, const std::vector<double>& expected) {
  ASSERT_EQ(answer.status, 200u) << answer.body;
  const auto value = boost::json::parse(answer.body);
  const auto& data = value.at("outputs").at(0).at("data").as_array();
  ASSERT_EQ(data.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(data[i].to_number<double>(), expected[i], 1e-5) << i;
  }
}

test::Environment cache(const test::Folder& folder) {
  return {{"NEURON_SERVE_CACHE", folder.path("cache")}};
}

TEST(ServedOnnx, GivesTheNetworksValuesOnEveryFamilyOfChips) {
  const test::Folder folder;
  const Network network(1);
  folder.write("models/net.onnx", network.model(1));
  for (const auto& [type, target] : {std::pair{"trn2.3xlarge", "trn2"},
                                     {"trn3pd98.3xlarge", "trn3"},
                                     {"inf2.48xlarge", "inf2"}}) {
    test::Environment environment = cache(folder);
    environment["NEURON_EMULATOR"] = type;
    const Served served(folder.path("models"), {}, environment);
    ASSERT_NE(served.port(), 0) << type << ": " << served.log();
    EXPECT_THAT(served.log(), HasSubstr(std::string("for ") + target + ", batch 1"));
    const auto x = numbers(1, 3);
    expect_values(served.client().post("/v2/models/net/infer", ask(x)), network.of(x));
  }
}

TEST(ServedOnnx, GivesTheNetworksValuesForEveryNumberOfRows) {
  const test::Folder folder;
  const Network network(1);
  folder.write("models/net.onnx", network.model());
  folder.write("models/net.json", R"({"batch_sizes": [1, 4, 8]})");
  const Served served(folder.path("models"), {}, cache(folder));
  ASSERT_NE(served.port(), 0) << served.log();
  EXPECT_THAT(served.log(), HasSubstr("for trn1, batch 4"));
  for (size_t rows = 1; rows <= 8; ++rows) {
    const auto x = numbers(rows, static_cast<unsigned>(rows));
    expect_values(served.client().post("/v2/models/net/infer", ask(x)), network.of(x));
  }
  const Answer many = served.client().post("/v2/models/net/infer", ask(numbers(9, 1)));
  EXPECT_EQ(many.status, 400u);
  EXPECT_THAT(many.body, HasSubstr("expected [1..8, 16]"));
  EXPECT_EQ(boost::json::parse(served.get("/v2/models/net").body).at("inputs"),
            boost::json::parse(R"([{"name":"x","datatype":"FP32","shape":[-1,16]}])"));
}

TEST(ServedOnnx, IsCompiledOnceForItsContentAndItsOptions) {
  const test::Folder folder;
  folder.write("models/net.onnx", Network(1).model());
  const auto log = [&] {
    const Served served(folder.path("models"), {}, cache(folder));
    EXPECT_NE(served.port(), 0);
    return served.log();
  };
  EXPECT_THAT(log(), HasSubstr("compiled in"));
  EXPECT_THAT(log(), AllOf(HasSubstr("was compiled before"), Not(HasSubstr("compiled in"))));
  folder.write("models/net.json", R"({"auto_cast": "bf16"})");
  EXPECT_THAT(log(), HasSubstr("compiled in"));
  folder.write("models/net.onnx", Network(2).model());
  EXPECT_THAT(log(), HasSubstr("compiled in"));
}

TEST(ServedOnnx, HasVersionsOfWhichTheLastAnswersUnlessOneIsNamed) {
  const test::Folder folder;
  const Network second(2), tenth(10), eleventh(11);
  folder.write("models/net/2/model.onnx", second.model());
  folder.write("models/net/10/model.onnx", tenth.model());
  const Served served(folder.path("models"), {}, cache(folder));
  ASSERT_NE(served.port(), 0) << served.log();
  const auto x = numbers(1, 5);
  expect_values(served.client().post("/v2/models/net/versions/2/infer", ask(x)), second.of(x));
  expect_values(served.client().post("/v2/models/net/infer", ask(x)), tenth.of(x));
  EXPECT_EQ(served.client().post("/v2/models/net/versions/3/infer", ask(x)).status, 404u);
  folder.write("models/net/11/model.onnx", eleventh.model());
  EXPECT_EQ(served.reload().status, 200u);
  expect_values(served.client().post("/v2/models/net/infer", ask(x)), eleventh.of(x));
  EXPECT_EQ(boost::json::parse(served.get("/v2/models/net").body).at("versions"),
            boost::json::parse(R"(["2","10","11"])"));
}

TEST(ServedOnnx, IsRefusedWithTheCompilersSentencesWhileOthersAreServed) {
  const test::Folder folder;
  const Network network(1);
  folder.write("models/good.onnx", network.model(2));
  folder.write("models/text.onnx", "this is no model");
  folder.write("models/empty.onnx", "");
  onnx::ModelWriter strange;
  strange.input("x", {4, 0});
  strange.node("StringNormalizer", {"x"}, {"y"});
  strange.output("y");
  folder.write("models/strange.onnx", strange.bytes());
  folder.write("models/fixed.onnx", network.model(2));
  folder.write("models/fixed.json", R"({"batch_sizes": [1, 2]})");
  const Served served(folder.path("models"), {}, cache(folder));
  ASSERT_NE(served.port(), 0) << served.log();
  EXPECT_EQ(served.get("/v2/models/good/ready").status, 200u);
  const auto why = [&](const std::string& name) {
    const Answer answer = served.get("/v2/models/" + name + "/ready");
    EXPECT_EQ(answer.status, 503u) << name;
    return answer.body;
  };
  EXPECT_THAT(why("text"), HasSubstr("no ONNX model"));
  why("empty");
  EXPECT_THAT(why("strange"), AllOf(HasSubstr("--shape x="), HasSubstr("null is the batch size")));
  EXPECT_THAT(why("fixed"), HasSubstr("free first dimension"));
}

TEST(ServedOnnx, WithRowsThatDependOnTheBatchSizeIsRefused) {
  const test::Folder folder;
  // Of n rows x, the products of each with each: a row of y has n numbers.
  onnx::ModelWriter writer;
  writer.input("x", {0, kInputs});
  writer.node("Transpose", {"x"}, {"columns"});
  writer.node("MatMul", {"x", "columns"}, {"y"});
  writer.output("y");
  folder.write("models/net.onnx", writer.bytes());
  folder.write("models/net.json", R"({"batch_sizes": [1, 4]})");
  Served served(folder.path("models"), {}, cache(folder));
  EXPECT_EQ(served.port(), 0);
  EXPECT_THAT(served.log(),
              HasSubstr("tensor 'y' has other rows for batch 4 than for batch 1; only first"));
}

TEST(ServedOnnx, ThatNamesTheSameWeightsAThousandTimesIsReadOnce) {
  const test::Folder folder;
  std::string model = "no model";
  for (int i = 0; i < 1000; ++i) {
    // "weights", "./weights", "././weights" ... and as many links.
    std::string name = "weights";
    for (int k = 0; k < i % 8; ++k) name = "./" + name;
    if (i >= 8) {
      name = "link" + std::to_string(i);
      std::filesystem::create_directories(folder.path("models"));
      std::filesystem::create_symlink("weights", folder.path("models") + "/" + name);
    }
    model += std::string("\x0a\x08location\x12") + static_cast<char>(name.size()) + name;
  }
  folder.write("models/net.onnx", model);
  folder.write("models/weights", "");
  ASSERT_EQ(::truncate((folder.path("models") + "/weights").c_str(), off_t{256} << 20), 0);
  // A thousand times 256 MB take minutes.
  Served served(folder.path("models"), {}, cache(folder));
  EXPECT_EQ(served.port(), 0);
  EXPECT_THAT(served.log(), HasSubstr("no ONNX model"));
}

// One node, whose input and output have these names.
std::vector<uint8_t> tanh_of(const std::string& input, const std::string& output) {
  onnx::ModelWriter writer;
  writer.input(input, {1, 4});
  writer.node("Tanh", {input}, {output});
  writer.output(output);
  return writer.bytes();
}

TEST(ServedOnnx, WithNamesThatEndALineIsRefusedBeforeAHeaderHoldsThem) {
  const test::Folder folder;
  folder.write("models/net.onnx", tanh_of("x\r\nEvil: yes", "y\r\nEvil: yes"));
  const Served served(folder.path("models"), {}, cache(folder));
  EXPECT_EQ(served.port(), 0);
  EXPECT_THAT(served.log(), HasSubstr("without control characters"));
}

TEST(ServedOnnx, WithNamesThatHaveSpacesWritesThemIntoAHeaderAsOneWord) {
  const test::Folder folder;
  folder.write("models/net.onnx", tanh_of("x of them", "y of them"));
  const Served served(folder.path("models"), {}, cache(folder));
  ASSERT_NE(served.port(), 0) << served.log();
  const Answer answer = served.client().post("/v1/models/net/infer", std::string(16, '\0'),
                                             "application/octet-stream");
  EXPECT_EQ(answer.status, 200u) << answer.body;
  EXPECT_EQ(answer.header("X-Tensors"), "y%20of%20them:float32:1,4");
}

TEST(ServedOnnx, OfATerabyteEndsNoServer) {
  const test::Folder folder;
  folder.write("models/good.onnx", Network(1).model(1));
  folder.write("models/huge.onnx", "");
  ASSERT_EQ(::truncate((folder.path("models") + "/huge.onnx").c_str(), off_t{1} << 40), 0);
  const Served served(folder.path("models"), {}, cache(folder));
  ASSERT_NE(served.port(), 0) << served.log();
  EXPECT_EQ(served.get("/v2/models/good/ready").status, 200u);
  EXPECT_THAT(served.get("/v2/models/huge/ready").body, HasSubstr("at most 2 GiB"));
}

TEST(ServedOnnx, IsNotCompiledLongerThanTheLimitAndLeavesNothingBehind) {
  const test::Folder folder;
  onnx::ModelWriter deep;
  deep.input("x0", {64, 1000});
  constexpr int kDeep = 3000;
  for (int i = 0; i < kDeep; ++i) {
    const std::string from = "x" + std::to_string(i), to = "x" + std::to_string(i + 1);
    deep.node(i % 2 == 0 ? "Tanh" : "Softmax", {from}, {to});
  }
  deep.output("x" + std::to_string(kDeep));
  folder.write("models/net.onnx", deep.bytes());
  Served served(folder.path("models"), {"--compile-timeout", "1ms"}, cache(folder));
  EXPECT_EQ(served.port(), 0);
  EXPECT_THAT(served.log(), HasSubstr("which is the longest that --compile-timeout allows"));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("cache"))) {
    EXPECT_EQ(entry.path().extension(), ".neff") << entry.path();
  }
}

TEST(ServedOnnx, SaysThatTheDiskOfItsCacheIsFull) {
  const std::string unshare = ::geteuid() == 0 ? "unshare -m" : "unshare -rm";
  const test::Folder folder;
  if (test::shell(unshare + " mount -t tmpfs tmpfs " + folder.path("")).ending != 0) {
    GTEST_SKIP() << "no file system can be mounted";
  }
  folder.write("models/net.onnx", Network(1).model());
  std::filesystem::create_directories(folder.path("cache"));
  const test::Run run = test::shell(
      unshare + " sh -c 'mount -t tmpfs -o size=4k,mode=700 tmpfs " + folder.path("cache") +
          " && echo full >" + folder.path("cache/full") + " && exec " +
          test::built("bin/neuron-serve") + " --listen 127.0.0.1:0 --models " +
          folder.path("models") + " --cache " + folder.path("cache") + "' 2>&1",
      {{"NEURON_EMULATOR", "trn1.2xlarge"}});
  EXPECT_EQ(run.ending, 1) << run.output;
  EXPECT_THAT(run.output, HasSubstr("No space left on device"));
}

TEST(ServedOnnx, TakesNothingFromACacheThatOthersMayWrite) {
  const test::Folder folder;
  folder.write("models/net.onnx", Network(1).model());
  std::filesystem::create_directories(folder.path("cache"));
  std::filesystem::permissions(folder.path("cache"), std::filesystem::perms::all);
  Served served(folder.path("models"), {}, cache(folder));
  EXPECT_EQ(served.port(), 0);
  EXPECT_THAT(served.log(), HasSubstr("can be written by others"));
}

TEST(ServedOnnx, IsCompiledAnewWhereTheCacheHasAnEmptyFileOrOneThatOthersMayWrite) {
  const test::Folder folder;
  folder.write("models/net.onnx", Network(1).model());
  const auto log = [&] {
    const Served served(folder.path("models"), {}, cache(folder));
    EXPECT_NE(served.port(), 0);
    return served.log();
  };
  EXPECT_THAT(log(), HasSubstr("compiled in"));
  const auto kept = std::filesystem::directory_iterator(folder.path("cache"))->path();
  ASSERT_EQ(::truncate(kept.c_str(), 0), 0);
  EXPECT_THAT(log(), HasSubstr("compiled in"));
  EXPECT_THAT(log(), HasSubstr("was compiled before"));
  ASSERT_EQ(::chmod(kept.c_str(), 0666), 0);
  EXPECT_THAT(log(), HasSubstr("compiled in"));
}

// The block behind this sentence in the README.
std::string commands() {
  const std::string text = test::read_file(test::source("tools/neuron-serve/README.md"));
  const size_t sentence = text.find("Three commands");
  const size_t begin = text.find("\n    ", sentence);
  const size_t end = text.find("\n\n", begin + 1);
  return sentence == std::string::npos ? "" : text.substr(begin, end - begin);
}

TEST(ServedOnnx, IsAnsweredByTheThreeCommandsOfTheReadme) {
  std::string script = commands();
  ASSERT_EQ(std::count(script.begin(), script.end(), '\n'), 3) << script;
  const test::Folder folder;
  const Network network(3);
  folder.write("model.onnx", network.model());
  std::filesystem::create_directory_symlink(NEURON_BUILD_DIR, folder.path("build"));
  const std::string address = "localhost:" + std::to_string(test::free_port());
  size_t places = 0;
  for (size_t at = script.find("localhost:8000"); at != std::string::npos;
       at = script.find("localhost:8000", at + 1), ++places) {
    script.replace(at, 14, address);
  }
  EXPECT_EQ(places, 2u);
  const test::Run run =
      test::shell("cd " + folder.path() + script + "\nkill $!; wait",
                  {{"NEURON_SERVE_LISTEN", address}, {"NEURON_SERVE_CACHE", folder.path("cache")}});
  const size_t begin = run.output.find("{\"model_name\":\"model\"");
  ASSERT_NE(begin, std::string::npos) << run.output;
  const std::string body = run.output.substr(begin, run.output.find('\n', begin) - begin);
  expect_values({.status = 200, .body = body, .headers = {}},
                network.of(std::vector<float>(kInputs, 0)));
}

TEST(ServedOnnx, IsShownAndAskedOnThePage) {
  const test::Folder folder;
  const Network network(4);
  folder.write("models/net.onnx", network.model());
  const Served served(folder.path("models"), {}, cache(folder));
  ASSERT_NE(served.port(), 0) << served.log();
  Browser browser(served.address());
  ASSERT_TRUE(browser.valid()) << browser.log();
  ASSERT_TRUE(browser.wait_for("document.body.dataset.model === 'net'"));
  EXPECT_EQ(browser.text("document.getElementById('tensors').tBodies[0].innerText"),
            "input\tx\tFP32\t[1, 16]\noutput\ty\tFP32\t[1, 4]");
  // There are no digits to draw.
  EXPECT_EQ(browser.text("document.getElementById('field').offsetWidth"), "0");
  browser.evaluate(
      "document.getElementById('request').value ="
      " document.getElementById('request').value.replace('[0,', '[0.5,')");
  browser.evaluate("document.getElementById('ask').click()");
  ASSERT_TRUE(browser.wait_for("!document.getElementById('reply').hidden"));
  const std::string reply = browser.text("document.getElementById('reply').textContent");
  std::vector<float> x(kInputs, 0);
  x[0] = 0.5F;
  const auto expected = network.of(x);
  ASSERT_THAT(reply, HasSubstr("y FP32 [1, 4]\n"));
  EXPECT_NEAR(std::stod(reply.substr(reply.find('\n') + 1)), expected[0], 1e-5);
  browser.evaluate("document.getElementById('request').value = '{}'");
  browser.evaluate("document.getElementById('ask').click()");
  EXPECT_TRUE(
      browser.wait_for("document.getElementById('ask-say').textContent.includes('no \"inputs\"')"));
}

}  // namespace
}  // namespace neuron::serve_test
