// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/window.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "ccom/bootstrap/rank_list.h"
#include "driver/base/backoff.h"

namespace neuron::ccom {
namespace {

constexpr base::Backoff::Steps kLooks{.pauses = 256, .yields = 3840};
constexpr uint32_t kLooksAtClock = 64;  // one look in so many

void count_signal(uint64_t& counter) {
  // Publishes what was written to the window before. Pairs with the acquire of wait().
  std::atomic_ref(counter).fetch_add(1, std::memory_order_release);
}

}  // namespace

Result<std::unique_ptr<Window>> Window::open(Parts parts, std::byte* data, uint64_t bytes,
                                             base::Deadline deadline) {
  std::unique_ptr<Window> window(new Window(std::move(parts)));
  Window& made = *window;
  const Rank me = made.me();
  for (Arena* arena : made.parts_.memory->arenas()) {
    made.arenas_.push_back(arena != nullptr ? arena->data() : nullptr);
  }
  struct Offer {
    Shown shown;
    uint64_t good = 0;
  } mine;
  const uint64_t counters = uint64_t{made.size()} * CCOM_SIGNALS;
  const auto signals = made.parts_.memory->allocate(counters * sizeof(uint64_t));
  std::string why;
  if (!signals) {
    why = signals.error().sentence;
  } else {
    made.signals_ = static_cast<uint64_t*>(*signals);
    std::fill_n(made.signals_, counters, 0);
    mine.shown.signals =
        static_cast<uint64_t>(reinterpret_cast<std::byte*>(made.signals_) - made.arenas_[me]);
  }
  if (why.empty() && bytes != 0 && !made.parts_.memory->allocated(data, bytes)) {
    why = ccom::format("{} bytes at {:#x} are no memory of its ccom_mem_alloc", bytes,
                       reinterpret_cast<uintptr_t>(data));
  }
  if (why.empty()) {
    mine.shown.data = bytes != 0 ? static_cast<uint64_t>(data - made.arenas_[me]) : 0;
    mine.shown.bytes = bytes;
    mine.good = 1;
  }
  // Behind this exchange each rank's counters are zero, and no rank waits for another's mistake.
  std::string says(reinterpret_cast<const char*>(&mine), sizeof(mine));
  says += why;
  NEURON_TRY(all, made.parts_.bootstrap->all_gather(bytes_of(says), deadline));
  for (Rank rank = 0; rank < made.size(); ++rank) {
    Offer theirs;
    if (all[rank].size() < sizeof(theirs)) {
      return fail(CCOM_MISMATCH, "{} is not at ccom_window_open, {} is",
                  describe(made.member(rank)), describe(made.member(me)));
    }
    std::memcpy(&theirs, all[rank].data(), sizeof(theirs));
    if (theirs.good == 0) {
      const auto* text = reinterpret_cast<const char*>(all[rank].data()) + sizeof(theirs);
      return fail(CCOM_INVALID, "{} cannot open the window: {}", describe(made.member(rank)),
                  std::string(text, all[rank].size() - sizeof(theirs)));
    }
    made.shown_.push_back(theirs.shown);
  }
  made.taken_.resize(counters);
  if (made.parts_.port != nullptr) {
    WindowPort::Place place;
    place.data = data;
    place.bytes = bytes;
    place.count = [signals = made.signals_](Rank source, uint32_t signal) {
      count_signal(signals[uint64_t{source} * CCOM_SIGNALS + signal]);
    };
    place.fail = [&made](const Error& error) {
      made.parts_.failure->note(error);
      made.parts_.bootstrap->abort(error);
    };
    NEURON_TRY(remote, WindowPort::open(std::move(made.parts_.port), std::move(place),
                                        *made.parts_.failure));
    made.remote_ = std::move(remote);
  }
  return window;
}

Window::~Window() {
  remote_.reset();  // from here on nothing writes to the window through the network
  if (signals_ != nullptr) {
    static_cast<void>(parts_.memory->release(signals_));
  }
}

Result<void> Window::check(Rank peer, uint32_t signal) const {
  if (peer >= size()) {
    return fail(CCOM_INVALID, "there is no rank {}; the communicator has {}", peer, size());
  }
  if (signal >= CCOM_SIGNALS) {
    return fail(CCOM_INVALID, "there is no signal {}; a window has {} for each rank", signal,
                CCOM_SIGNALS);
  }
  return {};
}

Result<void> Window::check_put(Rank target, uint64_t offset, const std::byte* source,
                               uint64_t bytes, uint32_t signal) const {
  NEURON_CHECK(check(target, signal == CCOM_NO_SIGNAL ? 0 : signal));
  const uint64_t room = shown_[target].bytes;
  if (offset > room || bytes > room - offset) {
    return fail(CCOM_INVALID, "{} bytes at {} do not fit into the window of {}, which has {}",
                bytes, offset, describe(member(target)), room);
  }
  if (bytes != 0 && source == nullptr) {
    return fail(CCOM_INVALID, "the source of {} bytes is null", bytes);
  }
  return {};
}

Result<void> Window::put(Rank target, uint64_t offset, const std::byte* source, uint64_t bytes,
                         uint32_t signal, std::chrono::milliseconds timeout) {
  NEURON_CHECK(check_put(target, offset, source, bytes, signal));
  if (parts_.failure->there()) {
    return parts_.failure->error();
  }
  if (std::byte* const arena = arenas_[target]; arena != nullptr) {
    if (bytes != 0) {
      // The source may lie in the window of this rank itself.
      std::memmove(arena + shown_[target].data + offset, source, bytes);
    }
    if (signal != CCOM_NO_SIGNAL) {
      auto* const counters = reinterpret_cast<uint64_t*>(arena + shown_[target].signals);
      count_signal(counters[uint64_t{me()} * CCOM_SIGNALS + signal]);
    }
    return {};
  }
  auto done = remote_->put(target, offset, source, bytes, signal, timeout);
  if (!done && !parts_.failure->there()) {
    // The target has a part of a message: nothing that follows could be told from its rest.
    const Error error = done.error().with("{} gave up a put to {}", describe(member(me())),
                                          describe(member(target)));
    parts_.failure->note(error);
    parts_.bootstrap->abort(error);
    return error;
  }
  return done;
}

Result<void> Window::wait(Rank source, uint32_t signal, uint64_t count, base::Deadline deadline) {
  NEURON_CHECK(check(source, signal));
  const uint64_t which = uint64_t{source} * CCOM_SIGNALS + signal;
  base::Backoff backoff(kLooks);
  // bounded: by `deadline`.
  for (uint32_t looks = 0;; ++looks) {
    // Pairs with the release of count_signal().
    const uint64_t come =
        std::atomic_ref(signals_[which]).load(std::memory_order_acquire) - taken_[which];
    if (come >= count) {
      taken_[which] += count;
      return {};
    }
    if (parts_.failure->there()) {
      return parts_.failure->error();
    }
    if ((backoff.sleeps() || looks % kLooksAtClock == kLooksAtClock - 1) && deadline.expired()) {
      return fail(CCOM_TIMEOUT, "{} waits for signal {} of {}: {} of {} have come",
                  describe(member(me())), signal, describe(member(source)), come, count);
    }
    if (remote_ != nullptr && arenas_[source] == nullptr && remote_->advance()) {
      backoff.reset();
      continue;
    }
    backoff.wait();
  }
}

}  // namespace neuron::ccom
