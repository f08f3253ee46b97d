// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/window.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "ccom/bootstrap/named_round.h"
#include "ccom/bootstrap/rank_list.h"
#include "ccom/transport/arena_layout.h"
#include "driver/base/backoff.h"
#include "driver/base/random_bytes.h"

namespace neuron::ccom {
namespace {

constexpr base::Backoff::Steps kLooks{.pauses = 256, .yields = 3840};
constexpr uint32_t kLooksAtClock = 64;  // one look in so many

// The rounds of open(), and what stands before an offer and before a sentence.
constexpr const char* kCall = "ccom_window_open";
constexpr const char* kOpened = "ccom_window_open, opened";
constexpr char kOffered = '+';
constexpr char kRefused = '-';

// What a rank shows, as offsets in its arena, and what it would call the window. With a device,
// `data` is an address.
struct Offer {
  uint64_t data = 0;
  uint64_t bytes = 0;
  uint64_t signals = 0;
  uint64_t number = 0;
  uint64_t process = 0;
  uint64_t on_device = 0;
};

// A number that other processes do not have, also where process ids are counted anew.
uint64_t number_of_process() {
  static const uint64_t drawn = [] {
    std::array<uint8_t, sizeof(uint64_t)> bytes{};
    static_cast<void>(base::random_bytes(bytes));  // without them the process id decides
    return std::bit_cast<uint64_t>(bytes);
  }();
  // A child has its parent's number drawn.
  return drawn ^ (static_cast<uint64_t>(getpid()) << 32);
}

void count_signal(uint64_t& counter) {
  // Publishes what was written to the window before. Pairs with the acquire of wait().
  std::atomic_ref(counter).fetch_add(1, std::memory_order_release);
}

}  // namespace

Window::Window(Parts parts, std::byte* data, uint64_t bytes)
    : parts_(std::move(parts)), data_(data), bytes_(bytes), shown_(size()), taken_(counters()) {
  for (Arena* arena : parts_.memory->arenas()) {
    arenas_.push_back(arena != nullptr ? arena->data() : nullptr);
  }
}

Result<Window::Shown> Window::prepare() {
  if (bytes_ != 0 && !parts_.memory->allocated(data_, bytes_)) {
    NEURON_TRY(device, DeviceMemory::find(data_, bytes_));
    device_ = std::move(device);
  }
  NEURON_TRY(signals, parts_.memory->allocate(counters() * sizeof(uint64_t)));
  signals_ = static_cast<uint64_t*>(signals);
  std::fill_n(signals_, counters(), 0);
  Shown shown;
  if (device_ != nullptr) {
    shown.data = reinterpret_cast<uintptr_t>(data_);
    shown.on_device = true;
  } else if (bytes_ != 0) {
    shown.data = static_cast<uint64_t>(data_ - arenas_[me()]);
  }
  shown.process = number_of_process();
  shown.bytes = bytes_;
  shown.signals = static_cast<uint64_t>(reinterpret_cast<std::byte*>(signals_) - arenas_[me()]);
  return shown;
}

Result<void> Window::check_shown(Rank rank, const Shown& shown) const {
  const Arena* const arena = parts_.memory->arenas()[rank];
  if (arena == nullptr) {
    return {};  // its own port checks what is put there
  }
  const uint64_t heap = ArenaLayout::of(size()).heap;
  const auto fits = [&](uint64_t at, uint64_t bytes) {
    return at >= heap && at <= arena->size() && bytes <= arena->size() - at;
  };
  if (shown.on_device && direct(rank, me()) &&
      !DeviceMemory::mapped(reinterpret_cast<const void*>(shown.data), shown.bytes)) {
    return fail(CCOM_MISMATCH,
                "{} shows {} {} bytes at {:#x}, which are in no device memory of "
                "their process: is it of this version?",
                describe(member(rank)), describe(member(me())), shown.bytes, shown.data);
  }
  if ((shown.bytes != 0 && !shown.on_device && !fits(shown.data, shown.bytes)) ||
      !fits(shown.signals, counters() * sizeof(uint64_t)) ||
      shown.signals % alignof(uint64_t) != 0) {
    return fail(CCOM_MISMATCH,
                "{} shows {} {} bytes at {} of its shared memory, and {} signals at {}; its "
                "ccom_mem_alloc memory is from {} to {}: is it of this version?",
                describe(member(rank)), describe(member(me())), shown.bytes, shown.data, counters(),
                shown.signals, heap, arena->size());
  }
  return {};
}

Result<void> Window::accept(const std::string& mine, const std::vector<Bytes>& all) {
  for (Rank rank = 0; rank < size(); ++rank) {
    const std::string said(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
    if (said.starts_with(kRefused)) {
      return fail(CCOM_INVALID, "{} cannot open the window: {}", describe(member(rank)),
                  printable(bytes_of(said).subspan(1)));
    }
    Offer theirs;
    if (said.size() != 1 + sizeof(theirs) || !said.starts_with(kOffered)) {
      return says_otherwise(kCall, *parts_.bootstrap, bytes_of(mine), rank, all[rank]);
    }
    std::memcpy(&theirs, said.data() + 1, sizeof(theirs));
    if (theirs.number >= UINT32_MAX || theirs.on_device > 1) {
      return says_otherwise(kCall, *parts_.bootstrap, bytes_of(mine), rank, all[rank]);
    }
    shown_[rank] = {theirs.data, theirs.bytes, theirs.signals, theirs.process,
                    theirs.on_device != 0};
    number_ = std::max(number_, static_cast<uint32_t>(theirs.number));
  }
  return {};
}

Result<void> Window::reach() {
  const bool on_device =
      std::any_of(shown_.begin(), shown_.end(), [](const Shown& shown) { return shown.on_device; });
  const bool one_process = std::all_of(shown_.begin(), shown_.end(), [&](const Shown& shown) {
    return shown.process == shown_[0].process;
  });
  if (parts_.port == nullptr && on_device && !one_process) {
    NEURON_TRY(port, parts_.open_port());
    parts_.port = std::move(port);
  }
  return {};
}

bool Window::direct(Rank owner, Rank writer) const {
  // Shared host memory is mapped on both sides, and the signals lie there.
  return arenas_[owner == me() ? writer : owner] != nullptr &&
         (!shown_[owner].on_device || shown_[owner].process == shown_[writer].process);
}

std::byte* Window::data_of(Rank target) const {
  const Shown& shown = shown_[target];
  return shown.on_device ? reinterpret_cast<std::byte*>(shown.data) : arenas_[target] + shown.data;
}

Error Window::lose(const Error& why) {
  const Error error = why.with("the window of {}", describe(member(me())));
  parts_.failure->note(error);
  parts_.bootstrap->abort(error);
  return error;
}

Result<void> Window::connect() {
  if (parts_.port == nullptr) {
    return {};
  }
  WindowPort::Place place;
  place.data = data_;
  place.bytes = bytes_;
  place.count = [signals = signals_](Rank source, uint32_t signal) {
    count_signal(signals[uint64_t{source} * CCOM_SIGNALS + signal]);
  };
  if (device_ != nullptr) {
    place.check = [this] { return device_->check(); };
  }
  place.fail = [this](const Error& error) { lose(error); };
  NEURON_TRY(remote, WindowPort::open(std::move(parts_.port), std::move(place), *parts_.failure));
  remote_ = std::move(remote);
  return {};
}

Result<std::unique_ptr<Window>> Window::open(Parts parts, std::byte* data, uint64_t bytes,
                                             uint32_t number, base::Deadline deadline) {
  std::unique_ptr<Window> window(new Window(std::move(parts), data, bytes));
  Bootstrap& bootstrap = *window->parts_.bootstrap;
  const auto shown = window->prepare();
  std::string says;
  if (!shown) {
    says = kRefused + shown.error().sentence;
  } else {
    const Offer mine{shown->data, shown->bytes,   shown->signals,
                     number,      shown->process, shown->on_device ? 1u : 0u};
    says = kOffered;
    says.append(reinterpret_cast<const char*>(&mine), sizeof(mine));
  }
  // Behind this round each rank's counters are zero, and no rank waits for another's mistake.
  NEURON_TRY(offers, gather_at(kCall, bootstrap, bytes_of(says), deadline));
  auto done = window->accept(says, offers);
  try {
    if (done) {
      done = window->reach();
    }
    for (Rank rank = 0; done && rank < window->size(); ++rank) {
      done = window->check_shown(rank, window->shown_[rank]);
    }
    if (done) {
      done = window->connect();
    }
  } catch (const std::bad_alloc&) {
    done = fail(CCOM_RESOURCE, "{} has no memory left for its window",
                describe(window->member(window->me())));
  }
  // Behind this one all ranks have the window, or none has: each may have failed alone.
  says = done ? std::string(1, kOffered) : kRefused + done.error().sentence;
  NEURON_TRY(all, gather_at(kOpened, bootstrap, bytes_of(says), deadline));
  NEURON_CHECK(done);
  for (Rank rank = 0; rank < window->size(); ++rank) {
    const std::string said(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
    if (said.starts_with(kRefused)) {
      return fail(CCOM_SYSTEM, "{} cannot open the window: {}", describe(window->member(rank)),
                  printable(bytes_of(said).subspan(1)));
    }
    if (said != says) {
      return says_otherwise(kOpened, bootstrap, bytes_of(says), rank, all[rank]);
    }
  }
  return window;
}

bool Window::shows(const void* block) const {
  const auto begin = reinterpret_cast<uintptr_t>(block);
  const auto at = reinterpret_cast<uintptr_t>(data_);
  return bytes_ != 0 && begin <= at && parts_.memory->allocated(block, at - begin + bytes_);
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
  if (direct(target, me())) {
    if (shown_[target].on_device && !DeviceMemory::mapped(data_of(target), shown_[target].bytes)) {
      return fail(CCOM_INVALID,
                  "{} bytes at {:#x}, the window of {}, are no longer mapped; a tensor must stay "
                  "until its window is closed",
                  shown_[target].bytes, shown_[target].data, describe(member(target)));
    }
    if (bytes != 0) {
      // The source may lie in the window of this rank itself.
      std::memmove(data_of(target) + offset, source, bytes);
    }
    if (signal != CCOM_NO_SIGNAL) {
      auto* const counters = reinterpret_cast<uint64_t*>(arenas_[target] + shown_[target].signals);
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
    if (device_ != nullptr && backoff.sleeps()) {
      if (const auto there = device_->check(); !there) {
        return lose(there.error());
      }
    }
    if (remote_ != nullptr && !direct(me(), source) && remote_->advance()) {
      backoff.reset();
      continue;
    }
    backoff.wait();
  }
}

}  // namespace neuron::ccom
