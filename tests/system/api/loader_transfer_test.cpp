// SPDX-License-Identifier: Apache-2.0
// Every documented field of a transfer, run on the device.
#include <bit>

#include "tests/system/api/program_file.h"
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

constexpr uint8_t kSp = NEURON_ENGINE_SP;

class LoaderTransfer : public RuntimeTest {};

// A program of one transfer x -> y, which SP triggers and waits for.
ProgramFile one_transfer(const std::string& desc, uint64_t in, uint64_t out) {
  ProgramFile file;
  file.input("x", "uint8", "[" + std::to_string(in) + "]", in);
  file.output("y", "uint8", "[" + std::to_string(out) + "]", out);
  file.queue("q", R"("type": "data", "num_queues": 16, "owner": "SP")");
  file.semaphore("done", 20);
  file.transfer(kSp, R"("id": 1, "queue": "q", "semaphore": "done", "desc": {)" + desc + "}");
  file.trigger(kSp, 1);
  file.wait(kSp, 20, 16);
  file.end_main(kSp);
  return file;
}

template <class T>
Bytes bytes_from(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values_of(const nrt_tensor_t* tensor) {
  const Bytes bytes = contents(tensor);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Runs it twice: the second time on rings that were used before.
template <class Out, class In>
std::vector<Out> run_program(ProgramFile file, const std::vector<In>& in) {
  Loaded loaded(file.pack());
  if (loaded.model == nullptr) return {};
  const Bytes bytes = bytes_from(in);
  EXPECT_EQ(nrt_tensor_write(loaded.tensors["x"], bytes.data(), 0, bytes.size()), NRT_SUCCESS);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(
        nrt_tensor_memset(loaded.tensors["y"], 0, 0xEE, nrt_tensor_get_size(loaded.tensors["y"])),
        NRT_SUCCESS);
    EXPECT_EQ(loaded.run(), NRT_SUCCESS) << nrt_open_last_error();
  }
  return values_of<Out>(loaded.tensors["y"]);
}

std::vector<float> ramp(size_t count, float first = -3, float step = 0.25f) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) values.push_back(first + step * static_cast<float>(i));
  return values;
}

std::string flat(const char* side, const char* variable, uint64_t offset, uint64_t bytes,
                 const char* dtype) {
  const std::string s = side;
  return "\"" + s + "\": \"" + variable + "\", \"" + s + "_off\": " + std::to_string(offset) +
         ", \"" + s + "_sizes\": [" + std::to_string(bytes) + "], \"" + s + "_steps\": [1], \"" +
         s + "_dtype\": \"" + dtype + "\"";
}

TEST_F(LoaderTransfer, CopiesBetweenSidesOfFourDimensionsThatBreakElsewhere) {
  // x as [2, 3, 4, 5] in steps of its own, y backwards in two dimensions.
  const auto file = one_transfer(
      R"("op": "copy", "num_tiling_dimensions": 1,
         "from": "x", "from_off": 1, "from_sizes": [5, 4, 3, 2], "from_steps": [1, 6, 30, 100],
         "to": "y", "to_off": 110, "to_sizes": [10, 2, 3, 2], "to_steps": [1, 10, -20, -60])",
      200, 130);
  std::vector<uint8_t> in(200);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i);
  const auto out = run_program<uint8_t>(file, in);
  std::vector<uint8_t> expected(130, 0xEE);
  for (size_t i = 0; i < 120; ++i) {
    const size_t from = 1 + i % 5 + i / 5 % 4 * 6 + i / 20 % 3 * 30 + i / 60 * 100;
    const size_t to = 110 + i % 10 + i / 10 % 2 * 10 - i / 20 % 3 * 20 - i / 60 * 60;
    expected[to] = in[from];
  }
  EXPECT_EQ(out, expected);
}

TEST_F(LoaderTransfer, CastsFromAndToTheTypesThatItNames) {
  auto in = ramp(600);
  for (size_t i = 128; i < in.size(); ++i) in[i] = in[i - 128];  // bf16 holds these
  const auto file = one_transfer(R"("op": "cast", )" + flat("from", "x", 0, 2400, "float32") +
                                     ", " + flat("to", "y", 0, 1200, "bfloat16"),
                                 2400, 1200);
  const auto out = run_program<uint16_t>(file, in);
  ASSERT_EQ(out.size(), 600u);
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(std::bit_cast<float>(uint32_t{out[i]} << 16), in[i]) << i;
  }
  const auto integers =
      run_program<int8_t>(one_transfer(R"("op": "cast", )" + flat("from", "x", 0, 40, "float32") +
                                           ", " + flat("to", "y", 0, 10, "int8"),
                                       40, 10),
                          ramp(10, -4, 1));
  EXPECT_EQ(integers, (std::vector<int8_t>{-4, -3, -2, -1, 0, 1, 2, 3, 4, 5}));
}

std::string two_sources(const std::string& op, const std::string& first = "",
                        const std::string& second = "") {
  return "\"op\": \"" + op + "\", \"from_arr\": [{" + flat("from", "x", 0, 1024, "float32") +
         first + "}, {" + flat("from", "x", 1024, 1024, "float32") + second + "}], " +
         flat("to", "y", 0, 1024, "float32");
}

TEST_F(LoaderTransfer, AddsSourcesAndTakesTheirSmallestAndLargest) {
  const auto in = ramp(512, -64, 0.25f);  // source 1 is 64 above source 0
  const auto sum = run_program<float>(one_transfer(two_sources("add"), 2048, 1024), in);
  const auto low = run_program<float>(one_transfer(two_sources("min"), 2048, 1024), in);
  const auto high = run_program<float>(
      one_transfer(two_sources("max") + R"(, "constant_dtype": "int32", "constant": 20)", 2048,
                   1024),
      in);
  ASSERT_EQ(sum.size(), 256u);
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(sum[i], in[i] + in[i + 256]);
    EXPECT_EQ(low[i], in[i]) << "without a constant nothing else takes part";
    EXPECT_EQ(high[i], std::max(20.0f, in[i + 256]));
  }
}

TEST_F(LoaderTransfer, ScalesEachSourceOfAnFmaByItsOwnScaleOrTheTransfers) {
  const auto in = ramp(512);
  const auto out =
      run_program<float>(one_transfer(two_sources("fma", "", R"(, "scale": -0.5)") +
                                          R"(, "scale": 2.0, "scale_dtype": "float32")",
                                      2048, 1024),
                         in);
  ASSERT_EQ(out.size(), 256u);
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(out[i], 2 * in[i] - 0.5f * in[i + 256]);
}

TEST_F(LoaderTransfer, AddsSixteenSources) {
  std::string sources;
  for (int s = 0; s < 16; ++s) {
    sources += (s ? ", {" : "{") + flat("from", "x", s * 400, 400, "float32") + "}";
  }
  const auto in = ramp(1600, 0, 1);
  const auto out = run_program<float>(one_transfer(R"("op": "add", "from_arr": [)" + sources +
                                                       "], " + flat("to", "y", 0, 400, "float32"),
                                                   6400, 400),
                                      in);
  ASSERT_EQ(out.size(), 100u);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(out[i], 16.0f * i + 120.0f * 100);
}

TEST_F(LoaderTransfer, TransposesMatricesOfEverySizeOfElement) {
  for (const uint64_t bytes : {1, 2, 4, 8}) {
    const uint64_t rows = 37, columns = 70, size = 2 * rows * columns * bytes;
    Bytes in = pattern(size);
    const auto out = run_program<uint8_t>(
        one_transfer(
            R"("op": "transpose", "from": "x", "to": "y", "transpose_shape": [2, 37, 70, 1],
                     "transpose_element_size": )" +
                std::to_string(bytes),
            size, size),
        in);
    ASSERT_EQ(out.size(), size);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t e = i / bytes, m = e / (rows * columns), r = e % rows, c = e / rows % columns;
      ASSERT_EQ(out[i], in[((m * rows + r) * columns + c) * bytes + i % bytes])
          << bytes << " " << i;
    }
  }
}

TEST_F(LoaderTransfer, AnEventIsSetBehindTheTransferAndClearedBeforeTheNextExecution) {
  ProgramFile file;
  file.input("x", "uint8", "[4096]", 4096);
  file.output("y", "uint8", "[4096]", 4096);
  file.queue("q", R"("type": "data", "num_queues": 16)");
  file.transfer(kSp, R"("id": 1, "queue": "q", "event": 9, "desc": {"from": "x", "to": "y",
     "to_sizes": [64, 64], "to_steps": [1, 64]})");
  file.trigger(kSp, 1);
  file.add(kSp, NEURON_OP_EVENT).wait[0] = {
      .index = 9, .condition = NEURON_WAIT_EQ, .event = true, .value = 1};
  file.end_main(kSp);
  EXPECT_EQ(run_program<uint8_t>(file, pattern(4096)), pattern(4096));
}

TEST_F(LoaderTransfer, SemaphoresOfTheQueueSetCompleteTransfersThatNameNone) {
  for (const char* fields : {R"("semaphore": 30)", R"("semaphore_set": [30, 31])"}) {
    ProgramFile file;
    file.input("x", "uint8", "[4096]", 4096);
    file.output("y", "uint8", "[4096]", 4096);
    file.queue("q", std::string(R"("type": "embedding_update", "num_queues": 2, )") + fields);
    file.transfer(kSp, R"("id": 1, "queue": "q", "section_start_desc": true,
       "desc": {"from": "x", "to": "y"})");
    file.trigger(kSp, 1);
    if (std::string(fields).find("set") == std::string::npos) {
      file.wait(kSp, 30, 2);
    } else {
      file.wait(kSp, 30, 1);
      file.wait(kSp, 31, 1);
    }
    file.end_main(kSp);
    EXPECT_EQ(run_program<uint8_t>(file, pattern(4096)), pattern(4096)) << fields;
  }
}

TEST_F(LoaderTransfer, InstancesOfAQueueSetHaveRingsOfTheirOwn) {
  ProgramFile file;
  file.input("x", "uint8", "[300]", 300);
  file.output("y", "uint8", "[300]", 300);
  file.queue("q", R"("type": "data", "num_queues": 1, "queue_instances": ["a", "b"])");
  file.semaphore("done", 20);
  const char* const rings[] = {R"("queue": "q")", R"("instance_name": "a")",
                               R"("queue": "q", "instance_name": "b")"};
  for (int i = 0; i < 3; ++i) {
    const std::string at = std::to_string(100 * i);
    file.transfer(kSp, R"("id": )" + std::to_string(i) + ", " + rings[i] +
                           R"(, "semaphore": 20, "desc": {"from": "x", "from_off": )" + at +
                           R"(, "to": "y", "to_off": )" + at +
                           R"(, "to_sizes": [100], "to_steps": [1]})");
  }
  // In another order than the list's: one ring would move the wrong rows.
  for (const int i : {2, 0, 1}) {
    file.trigger(kSp, i);
    file.wait(kSp, 20, 1);
  }
  file.end_main(kSp);
  EXPECT_EQ(run_program<uint8_t>(file, pattern(300)), pattern(300));
}

TEST_F(LoaderTransfer, AFunctionsTransfersMoveAnewWithEachCall) {
  ProgramFile file;
  file.input("x", "float32", "[3, 8]", 96);
  file.output("y", "float32", "[8]", 32);
  file.queue("q", R"("type": "data", "num_queues": 2)");
  file.semaphore("done", 20);
  const auto add = [&](const std::string& start, int id, int row) {
    file.transfer(
        kSp, start + R"("id": )" + std::to_string(id) +
                 R"(, "queue": "q", "semaphore": 20, "desc": {"op": "add", "from_arr": [{)" +
                 flat("from", "x", row * 32, 32, "float32") + "}, {" +
                 flat("from", "y", 0, 32, "float32") + "}], " + flat("to", "y", 0, 32, "float32") +
                 "}");
  };
  file.transfer(kSp,
                R"("id": 1, "queue": "q", "semaphore": 20, "desc": {"from": "x", "from_sizes": [32],
      "from_steps": [1], "to": "y"})");
  add(R"("function_start": "twice", )", 1, 1);  // The same id as in the main program
  add("", 2, 2);
  const auto triggered = [&](int id) {
    file.trigger(kSp, id);
    file.wait(kSp, 20, 2);
  };
  triggered(1);
  isa::Instruction& loop = file.add(kSp, NEURON_OP_LOOP);
  loop.loop = {1, 1};
  loop.scalar0 = {.value = 0, .kind = NEURON_SCALAR_IMMEDIATE, .dtype = NEURON_DTYPE_U32};
  loop.scalar1 = {.value = 37, .kind = NEURON_SCALAR_IMMEDIATE, .dtype = NEURON_DTYPE_U32};
  loop.flow.rd = 3;
  file.call(kSp, "twice");
  file.end_main(kSp);
  file.begin_function(kSp, "twice");
  triggered(1);
  triggered(2);
  file.end_function(kSp);
  const auto in = ramp(24, 0, 1);
  const auto out = run_program<float>(file, in);
  ASSERT_EQ(out.size(), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(out[i], in[i] + 37 * (in[i + 8] + in[i + 16]));
}

}  // namespace
}  // namespace neuron::test
