// SPDX-License-Identifier: Apache-2.0
//
// Holds the part of the session that a folder above owns: asynchronous queues, collectives. All
// that the session knows of a part is to destroy it at the end.
// Callers: the owner of the part. Thread-safe: all but clear(). Owns the part, which its first user
// makes. Fails: of() as the maker does.
#ifndef RUNTIME_SESSION_PART_SLOT_H
#define RUNTIME_SESSION_PART_SLOT_H

#include <atomic>
#include <memory>
#include <mutex>

#include "runtime/base/error.h"

namespace neuron::runtime {

class SessionPart {
 public:
  virtual ~SessionPart() = default;
};

class PartSlot {
 public:
  PartSlot() = default;
  ~PartSlot() { clear(); }
  PartSlot(const PartSlot&) = delete;
  PartSlot& operator=(const PartSlot&) = delete;

  // Null before the first of(). Acquire: pairs with the release of of().
  SessionPart* existing() const { return part_.load(std::memory_order_acquire); }

  // The part; if there is none yet, `make` makes it and returns a Result<std::unique_ptr<Part>>.
  template <class Part, class Make>
  Result<Part*> of(Make&& make) {
    if (SessionPart* known = existing()) return static_cast<Part*>(known);
    const std::lock_guard lock(making_);
    if (SessionPart* known = existing()) return static_cast<Part*>(known);
    Result<std::unique_ptr<Part>> made = make();
    if (!made) return made.error();
    part_.store(made->get(), std::memory_order_release);
    return made->release();
  }
  // For a part that needs no arguments.
  template <class Part>
  Part& of() {
    return **of<Part>([]() -> Result<std::unique_ptr<Part>> { return std::make_unique<Part>(); });
  }

  // Destroys the part. No thread may use it any more.
  void clear() { delete part_.exchange(nullptr, std::memory_order_acq_rel); }

 private:
  std::atomic<SessionPart*> part_{nullptr};
  std::mutex making_;
};

}  // namespace neuron::runtime

#endif
