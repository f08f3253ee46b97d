// SPDX-License-Identifier: Apache-2.0
// What questions from outside hand to the port, and what they make of its answers.
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include "fixture.h"
#include "ndl/ndl_observe.h"

namespace neuron::ndl::testing {
namespace {

constexpr uint32_t kPatience = 1000;  // ms

using Answer = std::function<int(const neuron_emulator_question&, std::string&, uint64_t&)>;

class ObservedPort : public FakePort {
 public:
  ObservedPort(FakeDriver& driver, Answer& answer) : FakePort(driver), answer_(answer) {}
  int observe(const neuron_emulator_question& question, uint32_t, std::string& answer,
              uint64_t& next) override {
    return answer_(question, answer, next);
  }

 private:
  Answer& answer_;
};

class Observe : public Library {
 protected:
  void SetUp() override { set_port(std::make_unique<ObservedPort>(driver, answer)); }
  // The port expects a question of a kind for device 3, and answers with bytes.
  void answers(uint32_t kind, std::string bytes) {
    answer = [=, this](const neuron_emulator_question& question, std::string& text, uint64_t&) {
      EXPECT_EQ(question.kind, kind);
      EXPECT_EQ(question.device, 3u);
      asked = question;
      text = bytes;
      return 0;
    };
  }
  static std::string piece(uint32_t offset, const std::string& bytes) {
    const neuron_emulator_piece head = {offset, static_cast<uint32_t>(bytes.size())};
    return std::string(reinterpret_cast<const char*>(&head), sizeof(head)) + bytes;
  }

  Answer answer;
  neuron_emulator_question asked = {};
};

TEST_F(Observe, FillsAsMuchOfAnObservationAsBothSidesKnow) {
  ndl_observation_t told = {};
  told.size = sizeof(told);
  told.cores = 8;
  told.memory_used = 4711;
  answers(NEURON_EMULATOR_ASK_DEVICE,
          std::string(reinterpret_cast<const char*>(&told), sizeof(told)));
  ndl_observation_t seen = {};
  seen.size = sizeof(seen);
  ASSERT_EQ(ndl_observe_device(3, kPatience, &seen), 0) << ndl_last_error();
  EXPECT_EQ(seen.cores, 8u);
  EXPECT_EQ(seen.memory_used, 4711u);
  // A caller of an older header has less room.
  ndl_observation_t shorter = {};
  shorter.size = offsetof(ndl_observation_t, memory_used);
  ASSERT_EQ(ndl_observe_device(3, kPatience, &shorter), 0);
  EXPECT_EQ(shorter.cores, 8u);
  EXPECT_EQ(shorter.memory_used, 0u);
  EXPECT_EQ(ndl_observe_device(3, kPatience, nullptr), -EINVAL);
}

TEST_F(Observe, TellsWhatAllDevicesAnswerAndStopsWhereAnAnswerIsCutOff) {
  const auto about = [](uint32_t device, uint64_t used, const std::string& text) {
    // A device without holders leaves their room out.
    ndl_observation_t seen = {};
    seen.size = sizeof(seen);
    seen.memory_used = used;
    const neuron_emulator_told head = {device, offsetof(ndl_observation_t, holders),
                                       static_cast<uint32_t>(text.size()), 0};
    return std::string(reinterpret_cast<const char*>(&head), sizeof(head)) +
           std::string(reinterpret_cast<const char*>(&seen), head.observation_bytes) + text;
  };
  answer = [&](const neuron_emulator_question& question, std::string& text, uint64_t& next) {
    EXPECT_EQ(question.kind, static_cast<uint32_t>(NEURON_EMULATOR_ASK_ALL));
    EXPECT_STREQ(question.path, "info/");
    text = question.offset == 0 ? about(0, 1, "a 1\n") + about(1, 2, "") : about(2, 3, "b 2\n");
    next = question.offset == 0 ? 2 : 0;
    return 0;
  };
  std::string told;
  const auto note = [](void* context, int device, const ndl_observation_t* seen,
                       const char* attributes) {
    *static_cast<std::string*>(context) +=
        std::to_string(device) + ":" + std::to_string(seen->memory_used) + ":" + attributes + ";";
  };
  ASSERT_EQ(ndl_observe_devices("info/", kPatience, note, &told), 0) << ndl_last_error();
  EXPECT_EQ(told, "0:1:a 1\n;1:2:;2:3:b 2\n;");
  const std::string whole = about(0, 1, "a 1\n");
  for (size_t length = 1; length < whole.size(); ++length) {
    answer = [&](const neuron_emulator_question&, std::string& text, uint64_t&) {
      text = whole.substr(0, length);
      return 0;
    };
    told.clear();
    EXPECT_EQ(ndl_observe_devices("", kPatience, note, &told), -EPROTO) << length;
    EXPECT_EQ(told, "");
  }
  EXPECT_EQ(ndl_observe_devices(nullptr, kPatience, note, &told), -EINVAL);
  EXPECT_EQ(ndl_observe_devices("", kPatience, nullptr, &told), -EINVAL);
}

TEST_F(Observe, PutsTheDatastoreOfAProcessTogetherFromPieces) {
  answers(NEURON_EMULATOR_ASK_DATASTORE, piece(2, "ab") + piece(6, "cdef"));
  char block[8] = "zzzzzzz";
  ASSERT_GE(ndl_observe_datastore(3, 77, kPatience, block, sizeof(block)), 0) << ndl_last_error();
  EXPECT_EQ(asked.pid, 77);
  // What does not fit is left out, what no piece has is zero.
  EXPECT_EQ(std::memcmp(block, "\0\0ab\0\0cd", sizeof(block)), 0);
  answers(NEURON_EMULATOR_ASK_DATASTORE, piece(0, "abcd").substr(0, 10));
  EXPECT_EQ(ndl_observe_datastore(3, 77, kPatience, block, sizeof(block)), -EPROTO);
  EXPECT_NE(std::string(ndl_last_error()).find("cut off"), std::string::npos);
}

TEST_F(Observe, ReadsTheAddressOfTheNearestAdapter) {
  answers(NEURON_EMULATOR_ASK_ADAPTER, "0000:10:19.0");
  char text[13];
  ASSERT_EQ(ndl_observe_adapter(3, kPatience, text, sizeof(text)), 12) << last_error();
  EXPECT_STREQ(text, "0000:10:19.0");
  EXPECT_EQ(ndl_observe_adapter(3, kPatience, text, 12), -EMSGSIZE);
  EXPECT_NE(std::string(last_error()).find("13 bytes do not fit into 12"), std::string::npos)
      << last_error();
  EXPECT_EQ(ndl_observe_adapter(-1, kPatience, text, sizeof(text)), -ENODEV);
  EXPECT_EQ(ndl_observe_adapter(3, kPatience, nullptr, sizeof(text)), -EINVAL);
  // What a daemon that is older than the question says reaches the caller.
  answer = [](const neuron_emulator_question& question, std::string&, uint64_t&) {
    return fail(-EOPNOTSUPP, "question %u about a device is unknown", question.kind);
  };
  EXPECT_EQ(ndl_observe_adapter(3, kPatience, text, sizeof(text)), -EOPNOTSUPP);
  EXPECT_STREQ(last_error(), "question 8 about a device is unknown");
}

TEST_F(Observe, ReadsAnAttributeAndSaysWhenItDoesNotFit) {
  answers(NEURON_EMULATOR_ASK_READ, "0123456789abcdef\n");
  char text[32];
  ASSERT_EQ(ndl_read_attribute(3, "info/serial_number", kPatience, text, sizeof(text)), 17);
  EXPECT_STREQ(text, "0123456789abcdef\n");
  EXPECT_STREQ(asked.path, "info/serial_number");
  EXPECT_EQ(ndl_read_attribute(3, "info/serial_number", kPatience, text, 17), -EMSGSIZE);
  EXPECT_EQ(ndl_read_attribute(3, std::string(300, 'x').c_str(), kPatience, text, sizeof(text)),
            -ENAMETOOLONG);
  EXPECT_EQ(ndl_read_attribute(-1, "reset", kPatience, text, sizeof(text)), -ENODEV);
}

TEST_F(Observe, ListsAFolderInSeveralAnswers) {
  answer = [](const neuron_emulator_question& question, std::string& text, uint64_t& next) {
    EXPECT_EQ(question.kind, static_cast<uint32_t>(NEURON_EMULATOR_ASK_LIST));
    text = question.offset == 0 ? "info/\n" : "stats/\n";
    next = question.offset == 0 ? 1 : 0;
    return 0;
  };
  char text[32];
  ASSERT_EQ(ndl_list_attributes(3, "", kPatience, text, sizeof(text)), 13);
  EXPECT_STREQ(text, "info/\nstats/\n");
}

TEST_F(Observe, WritesAnAttribute) {
  answers(NEURON_EMULATOR_ASK_WRITE, "");
  ASSERT_EQ(ndl_write_attribute(3, "reset", "1", kPatience), 0) << ndl_last_error();
  EXPECT_STREQ(asked.path, "reset");
  EXPECT_STREQ(asked.text, "1");
}

TEST_F(Observe, DevicesThatCannotBeObservedSaySo) {
  set_port(std::make_unique<FakePort>(driver));
  ndl_observation_t seen = {};
  seen.size = sizeof(seen);
  EXPECT_EQ(ndl_observe_device(0, kPatience, &seen), -ENOTSUP);
  EXPECT_NE(std::string(ndl_last_error()).find("fake"), std::string::npos);
}

}  // namespace
}  // namespace neuron::ndl::testing
