// SPDX-License-Identifier: Apache-2.0
// Stream accessors: elements of a tensor in their order, through a buffer of 4 KiB in TCM.
//
// A stream that finds no room in TCM works without a buffer and is as slow as an accessor. A write
// stream writes back when its buffer is full and when it closes. Callers: operators. Thread-safe:
// no. Fails: going behind the tensor's end or using a closed stream ends the call (STREAM); a
// stream that the tensor's coherence policy forbids does, too (COHERENCE).
#ifndef DRIVER_OPERATOR_STREAM_H
#define DRIVER_OPERATOR_STREAM_H

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "driver/operator/tcm.h"

namespace torch {

// What both directions share.
template <typename T>
class TensorStream {
 public:
  TensorStream(const TensorStream&) = delete;
  TensorStream& operator=(const TensorStream&) = delete;

 protected:
  TensorStream(std::shared_ptr<Storage> storage, bool writes)
      : storage_(std::move(storage)), writes_(writes) {
    check_single_core();
    check_type<T>(*storage_);
    storage_->open_stream(writes_);
    buffer_ = static_cast<T*>(neuron::tcm_malloc(NEURON_OPERATOR_STREAM_BYTES));
  }
  TensorStream(TensorStream&& other) noexcept
      : storage_(std::move(other.storage_)),
        writes_(other.writes_),
        buffer_(std::exchange(other.buffer_, nullptr)),
        next_(other.next_),
        first_(other.first_),
        filled_(other.filled_) {}
  ~TensorStream() = default;

  static constexpr size_t kRoom = NEURON_OPERATOR_STREAM_BYTES / sizeof(T);
  size_t count() const { return static_cast<size_t>(storage_->count); }
  T* element(size_t number) const { return reinterpret_cast<T*>(storage_->data) + number; }
  void check() const {
    if (storage_ == nullptr) {
      ::neuron::operators::fail(NEURON_OPERATOR_STREAM, next_, "a closed stream is used");
    }
    if (next_ >= count()) {
      ::neuron::operators::fail(NEURON_OPERATOR_STREAM, next_,
                                "a stream is used behind the end of its tensor");
    }
  }
  int end() {
    if (storage_ == nullptr) return -1;
    if (buffer_ != nullptr) neuron::tcm_free(buffer_);
    storage_->close_stream(writes_);
    storage_.reset();
    return 0;
  }

  std::shared_ptr<Storage> storage_;  // null: closed
  bool writes_;
  T* buffer_ = nullptr;
  size_t next_ = 0;    // element
  size_t first_ = 0;   // element that the buffer begins with
  size_t filled_ = 0;  // elements in the buffer
};

template <typename T>
class TensorReadStreamAccessor : private TensorStream<T> {
  using Base = TensorStream<T>;

 public:
  explicit TensorReadStreamAccessor(std::shared_ptr<Storage> storage)
      : Base(std::move(storage), false) {}
  TensorReadStreamAccessor(TensorReadStreamAccessor&&) noexcept = default;
  ~TensorReadStreamAccessor() { this->end(); }

  T read() {
    this->check();
    if (this->buffer_ == nullptr) {
      ++::neuron::operators::counts.elements;
      return *this->element(this->next_++);
    }
    if (this->next_ == this->first_ + this->filled_) {
      this->first_ = this->next_;
      this->filled_ = std::min(Base::kRoom, this->count() - this->next_);
      std::memcpy(this->buffer_, this->element(this->first_), this->filled_ * sizeof(T));
      ::neuron::operators::count_transfer(this->filled_ * sizeof(T));
    }
    ++::neuron::operators::counts.stream_elements;
    return this->buffer_[this->next_++ - this->first_];
  }
  int close() { return this->end(); }
};

template <typename T>
class TensorWriteStreamAccessor : private TensorStream<T> {
  using Base = TensorStream<T>;

 public:
  explicit TensorWriteStreamAccessor(std::shared_ptr<Storage> storage)
      : Base(std::move(storage), true) {}
  TensorWriteStreamAccessor(TensorWriteStreamAccessor&&) noexcept = default;
  ~TensorWriteStreamAccessor() { close(); }

  void write(T value) {
    this->check();
    if (this->buffer_ == nullptr) {
      ++::neuron::operators::counts.elements;
      *this->element(this->next_++) = value;
      return;
    }
    if (this->filled_ == Base::kRoom) flush();
    ++::neuron::operators::counts.stream_elements;
    this->buffer_[this->filled_++] = value;
    ++this->next_;
  }
  int close() {
    if (this->storage_ != nullptr && this->filled_ != 0) flush();
    return this->end();
  }

 private:
  void flush() {
    std::memcpy(this->element(this->first_), this->buffer_, this->filled_ * sizeof(T));
    ::neuron::operators::count_transfer(this->filled_ * sizeof(T));
    this->first_ += this->filled_;
    this->filled_ = 0;
  }
};

}  // namespace torch

#endif
