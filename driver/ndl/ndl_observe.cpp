// SPDX-License-Identifier: Apache-2.0
// Looking at devices from outside: questions to the port, and their answers.
#include "ndl/ndl_observe.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>

#include "driver/ndl/error.h"
#include "driver/ndl/guard.h"
#include "driver/ndl/port.h"
#include "ndl/emulator.h"

using neuron::ndl::fail;
using neuron::ndl::guarded;

namespace {

using Clock = std::chrono::steady_clock;

int prepare(uint32_t kind, int device, const char* path, neuron_emulator_question& question) {
  if (device < 0) return fail(-ENODEV, "there is no device %d", device);
  question = {};
  question.kind = kind;
  question.device = static_cast<uint32_t>(device);
  if (path == nullptr) return 0;
  const size_t length = std::strlen(path);
  if (length >= sizeof(question.path)) {
    return fail(-ENAMETOOLONG, "the path of an attribute has at most %zu characters, found %zu",
                sizeof(question.path) - 1, length);
  }
  std::memcpy(question.path, path, length);
  return 0;
}

int ask(const neuron_emulator_question& question, uint32_t timeout_ms, std::string& answer,
        uint64_t& next) {
  std::string error;
  const auto port = neuron::ndl::port(error);
  if (port == nullptr) return fail(-ENODEV, "%s", error.c_str());
  answer.clear();
  next = 0;
  return port->observe(question, std::max(timeout_ms, 1u), answer, next);
}

// Asks until the answer is complete; `use` is given each part.
template <class Use>
int ask_all(neuron_emulator_question& question, uint32_t timeout_ms, Use&& use) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {  // bounded: by the deadline, and because offsets only grow
    std::string answer;
    uint64_t next = 0;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      return fail(-ETIMEDOUT, "device %u has not answered within %u ms", question.device,
                  timeout_ms);
    }
    if (const int result = ask(question, static_cast<uint32_t>(left), answer, next); result != 0) {
      return result;
    }
    if (const int result = use(answer); result != 0) return result;
    if (next <= question.offset) return 0;
    question.offset = next;
  }
}

ssize_t ask_text(uint32_t kind, int device, const char* path, uint32_t timeout_ms, char* buffer,
                 size_t size, const char* function) {
  return guarded(function, [&] {
    if (path == nullptr || (buffer == nullptr && size != 0)) {
      return fail(-EINVAL, "%s: a pointer that must not be null is null", function);
    }
    neuron_emulator_question question;
    if (const int result = prepare(kind, device, path, question); result != 0) return result;
    std::string text;
    const int result = ask_all(question, timeout_ms, [&](const std::string& part) {
      text += part;
      return 0;
    });
    if (result != 0) return result;
    if (text.size() >= size) {
      return fail(-EMSGSIZE, "%s: %zu bytes do not fit into %zu", *path != '\0' ? path : function,
                  text.size() + 1, size);
    }
    std::memcpy(buffer, text.data(), text.size());
    buffer[text.size()] = '\0';
    return static_cast<int>(text.size());
  });
}

// The pieces come from outside: each must lie in the block.
int place_pieces(const std::string& answer, void* buffer, size_t size, size_t& end) {
  for (size_t at = 0; at < answer.size();) {
    neuron_emulator_piece piece;
    if (answer.size() - at < sizeof(piece)) return fail(-EPROTO, "an answer was cut off");
    std::memcpy(&piece, answer.data() + at, sizeof(piece));
    at += sizeof(piece);
    if (piece.bytes > answer.size() - at) return fail(-EPROTO, "an answer was cut off");
    if (piece.offset < size) {
      const size_t part = std::min<size_t>(piece.bytes, size - piece.offset);
      std::memcpy(static_cast<char*>(buffer) + piece.offset, answer.data() + at, part);
      end = std::max(end, piece.offset + part);
    }
    at += piece.bytes;
  }
  return 0;
}

// The lengths come from outside, too: each must lie in the answer.
int tell_devices(std::string_view answer, ndl_told_t told, void* context) {
  const auto cut_off = [] { return fail(-EPROTO, "an answer about all devices was cut off"); };
  while (!answer.empty()) {
    neuron_emulator_told head;
    if (answer.size() < sizeof(head)) return cut_off();
    std::memcpy(&head, answer.data(), sizeof(head));
    answer.remove_prefix(sizeof(head));
    if (head.observation_bytes > answer.size() ||
        head.text_bytes > answer.size() - head.observation_bytes || head.device > INT32_MAX) {
      return cut_off();
    }
    ndl_observation_t seen = {};
    std::memcpy(&seen, answer.data(), std::min<size_t>(head.observation_bytes, sizeof(seen)));
    seen.size = static_cast<uint32_t>(std::min<size_t>(seen.size, sizeof(seen)));
    const std::string text(answer.substr(head.observation_bytes, head.text_bytes));
    answer.remove_prefix(size_t{head.observation_bytes} + head.text_bytes);
    told(context, static_cast<int>(head.device), &seen, text.c_str());
  }
  return 0;
}

}  // namespace

int ndl_observe_devices(const char* folders, uint32_t timeout_ms, ndl_told_t told, void* context) {
  return guarded("ndl_observe_devices", [&] {
    if (folders == nullptr || told == nullptr) {
      return fail(-EINVAL, "ndl_observe_devices: a pointer that must not be null is null");
    }
    neuron_emulator_question question;
    if (const int result = prepare(NEURON_EMULATOR_ASK_ALL, 0, folders, question); result != 0) {
      return result;
    }
    return ask_all(question, timeout_ms,
                   [&](const std::string& answer) { return tell_devices(answer, told, context); });
  });
}

int ndl_observe_device(int device_index, uint32_t timeout_ms, ndl_observation_t* observation) {
  return guarded("ndl_observe_device", [&] {
    if (observation == nullptr || observation->size < sizeof(uint32_t)) {
      return fail(-EINVAL, "ndl_observe_device: there is no observation, or its size is not set");
    }
    neuron_emulator_question question;
    if (const int result = prepare(NEURON_EMULATOR_ASK_DEVICE, device_index, nullptr, question);
        result != 0) {
      return result;
    }
    std::string answer;
    uint64_t next = 0;
    if (const int result = ask(question, timeout_ms, answer, next); result != 0) return result;
    const size_t known = observation->size;
    const size_t filled = std::min(known, answer.size());
    if (filled < sizeof(uint32_t)) return fail(-EPROTO, "device %d: no answer", device_index);
    std::memset(observation, 0, known);
    std::memcpy(observation, answer.data(), filled);
    observation->size = static_cast<uint32_t>(filled);
    return 0;
  });
}

ssize_t ndl_observe_datastore(int device_index, pid_t pid, uint32_t timeout_ms, void* buffer,
                              size_t size) {
  return guarded("ndl_observe_datastore", [&] {
    if (buffer == nullptr) return fail(-EINVAL, "ndl_observe_datastore: the buffer is null");
    neuron_emulator_question question;
    if (const int result = prepare(NEURON_EMULATOR_ASK_DATASTORE, device_index, nullptr, question);
        result != 0) {
      return result;
    }
    question.pid = pid;
    std::memset(buffer, 0, size);
    size_t end = 0;
    const int result = ask_all(question, timeout_ms, [&](const std::string& answer) {
      return place_pieces(answer, buffer, size, end);
    });
    return result != 0 ? result : static_cast<int>(std::min<size_t>(end, INT32_MAX));
  });
}

ssize_t ndl_read_attribute(int device_index, const char* path, uint32_t timeout_ms, char* buffer,
                           size_t size) {
  const size_t length = path == nullptr ? 0 : std::strlen(path);
  const bool folder = path != nullptr && (length == 0 || path[length - 1] == '/');
  return ask_text(folder ? NEURON_EMULATOR_ASK_TREE : NEURON_EMULATOR_ASK_READ, device_index, path,
                  timeout_ms, buffer, size, "ndl_read_attribute");
}

int ndl_write_attribute(int device_index, const char* path, const char* text, uint32_t timeout_ms) {
  return guarded("ndl_write_attribute", [&] {
    if (path == nullptr || text == nullptr) {
      return fail(-EINVAL, "ndl_write_attribute: a pointer that must not be null is null");
    }
    neuron_emulator_question question;
    if (const int result = prepare(NEURON_EMULATOR_ASK_WRITE, device_index, path, question);
        result != 0) {
      return result;
    }
    const size_t length = std::strlen(text);
    if (length >= sizeof(question.text)) {
      return fail(-EINVAL, "an attribute takes at most %zu characters, found %zu",
                  sizeof(question.text) - 1, length);
    }
    std::memcpy(question.text, text, length);
    std::string answer;
    uint64_t next = 0;
    return ask(question, timeout_ms, answer, next);
  });
}

ssize_t ndl_list_attributes(int device_index, const char* path, uint32_t timeout_ms, char* buffer,
                            size_t size) {
  return ask_text(NEURON_EMULATOR_ASK_LIST, device_index, path, timeout_ms, buffer, size,
                  "ndl_list_attributes");
}

ssize_t ndl_observe_adapter(int device_index, uint32_t timeout_ms, char* buffer, size_t size) {
  return ask_text(NEURON_EMULATOR_ASK_ADAPTER, device_index, "", timeout_ms, buffer, size,
                  "ndl_observe_adapter");
}

const char* ndl_last_error(void) { return neuron::ndl::last_error(); }
