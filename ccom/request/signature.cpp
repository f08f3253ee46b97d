// SPDX-License-Identifier: Apache-2.0
#include "ccom/request/signature.h"

#include "ccom/base/error.h"
#include "ccom/request/names.h"

namespace neuron::ccom {
namespace {

class Hash {
 public:
  explicit Hash(uint64_t salt) : value_(0xcbf29ce484222325u ^ salt) {}
  void add(uint64_t word) {
    // The finaliser of splitmix64, chained.
    value_ ^= word + 0x9e3779b97f4a7c15u + (value_ << 6) + (value_ >> 2);
    value_ = (value_ ^ (value_ >> 30)) * 0xbf58476d1ce4e5b9u;
    value_ = (value_ ^ (value_ >> 27)) * 0x94d049bb133111ebu;
    value_ ^= value_ >> 31;
  }
  void add(const std::vector<uint64_t>& words) {
    add(words.size());
    for (const uint64_t word : words) {
      add(word);
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_;
};

void add_arrays(Hash& hash, const Request& request) {
  hash.add(request.counts);
  hash.add(request.displacements);
  hash.add(request.pairs.size());
  for (const ccom_pair_t& pair : request.pairs) {
    hash.add(uint64_t{pair.source} << 32 | pair.target);
  }
  hash.add(request.send_counts);
  hash.add(request.send_displacements);
  hash.add(request.receive_displacements);
}

// Whether all ranks agree on being in place. In the other operations one rank may be in place while
// another is not.
bool in_place_on_all(ccom_operation_t operation) {
  switch (operation) {
    case CCOM_ALL_REDUCE:
    case CCOM_ALL_GATHER:
    case CCOM_REDUCE_SCATTER:
    case CCOM_ALL_TO_ALL:
    case CCOM_ALL_GATHER_V:
    case CCOM_REDUCE_SCATTER_V:
    case CCOM_ALL_TO_ALL_V:
      return true;
    default:
      return false;
  }
}

}  // namespace

Signature make_signature(const Request& request, uint32_t stream, uint64_t salt) {
  Signature signature{};
  signature.count = request.count;
  signature.detail = detail_of(request, salt);
  signature.kind = static_cast<uint8_t>(request.operation);
  signature.type = static_cast<uint8_t>(request.type);
  signature.reduction = static_cast<uint8_t>(request.reduction);
  signature.stream = static_cast<uint8_t>(stream);
  signature.root = request.root;
  return signature;
}

std::string describe(const Signature& signature) {
  return format("{} {} of stream {}", operation_name(static_cast<ccom_operation_t>(signature.kind)),
                signature.operation, signature.stream);
}

uint64_t detail_of(const Request& request, uint64_t salt) {
  Hash hash(salt);
  hash.add(request.in_place && in_place_on_all(request.operation) ? 1 : 0);
  add_arrays(hash, request);
  return hash.value();
}

uint64_t hash_of(const Request& request) {
  Hash hash(0);
  hash.add(static_cast<uint64_t>(request.operation) | static_cast<uint64_t>(request.type) << 8 |
           static_cast<uint64_t>(request.reduction) << 16 |
           static_cast<uint64_t>(request.algorithm) << 24 | uint64_t{request.in_place} << 31 |
           uint64_t{request.root} << 32);
  hash.add(request.count);
  add_arrays(hash, request);
  return hash.value();
}

}  // namespace neuron::ccom
