// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/fabric_libfabric.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "driver/base/backoff.h"

namespace neuron::ccom {
namespace {

static_assert(sizeof(fi_context2) <= sizeof(FabricOperation::provider));
static_assert(offsetof(FabricOperation, provider) == 0);

// Polls before an endpoint is closed, so that pending operations may end.
constexpr uint32_t kSettlingPolls = 32;

class LibfabricEndpoint final : public FabricEndpoint {
 public:
  explicit LibfabricEndpoint(fi_info* info)
      : info_(info),
        name_(format("{} on {}", info->fabric_attr->prov_name, info->domain_attr->name)) {}
  ~LibfabricEndpoint() override {
    close();
    fi_freeinfo(info_);
  }

  Result<void> open() {
    NEURON_CHECK(check(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "opening its fabric"));
    NEURON_CHECK(check(fi_domain(fabric_, info_, &domain_, nullptr), "opening its domain"));
    fi_av_attr vector{};
    vector.type = FI_AV_TABLE;
    NEURON_CHECK(
        check(fi_av_open(domain_, &vector, &vector_, nullptr), "opening its address table"));
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_TAGGED;
    queue.size = info_->tx_attr->size + info_->rx_attr->size;
    NEURON_CHECK(
        check(fi_cq_open(domain_, &queue, &queue_, nullptr), "opening a completion queue"));
    NEURON_CHECK(check(fi_endpoint(domain_, info_, &endpoint_, nullptr), "opening an endpoint"));
    NEURON_CHECK(check(fi_ep_bind(endpoint_, &vector_->fid, 0), "binding its address table"));
    NEURON_CHECK(
        check(fi_ep_bind(endpoint_, &queue_->fid, FI_SEND | FI_RECV), "binding its queue"));
    NEURON_CHECK(check(fi_enable(endpoint_), "enabling the endpoint"));
    own_address_.resize(256);
    size_t bytes = own_address_.size();
    int error = fi_getname(&endpoint_->fid, own_address_.data(), &bytes);
    if (error == -FI_ETOOSMALL) {
      own_address_.resize(bytes);
      error = fi_getname(&endpoint_->fid, own_address_.data(), &bytes);
    }
    NEURON_CHECK(check(error, "reading its address"));
    own_address_.resize(bytes);
    return {};
  }

  std::vector<std::byte> address() const override { return own_address_; }

  Result<void> introduce(const std::vector<std::vector<std::byte>>& addresses) override {
    // Includes the own address: shm compares places in this table when it looks for a receive.
    peers_.assign(addresses.size(), FI_ADDR_NOTAVAIL);
    for (size_t rank = 0; rank < addresses.size(); ++rank) {
      // The provider reads as many bytes as its kind of address has, or up to a final zero.
      const auto& address = addresses[rank];
      const bool names = info_->addr_format == FI_ADDR_STR;
      if (names ? address.empty() || address.back() != std::byte{0}
                : address.size() != own_address_.size()) {
        return fail(CCOM_INVALID,
                    "rank {} has a network address of {} bytes, this rank ({}) one of {}: give all "
                    "ranks the same CCOM_PROVIDERS and the same kind of internet address",
                    rank, addresses[rank].size(), name_, own_address_.size());
      }
      if (fi_av_insert(vector_, addresses[rank].data(), 1, &peers_[rank], 0, nullptr) != 1) {
        return fail(CCOM_INVALID, "{} refuses the network address of rank {}, {}", name_, rank,
                    text(addresses[rank]));
      }
    }
    texts_ = addresses;
    return {};
  }

  bool registers_memory() const override {
    return (info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
  }

  Result<FabricMemory> register_memory(const void* data, uint64_t bytes) override {
    if (!registers_memory() || bytes == 0) {
      return FabricMemory{nullptr};
    }
    fid_mr* region = nullptr;
    const int error =
        fi_mr_reg(domain_, data, bytes, FI_SEND | FI_RECV, 0, next_key_++, 0, &region, nullptr);
    if (error != 0) {
      return fail(CCOM_RESOURCE, "{} cannot register {} bytes of memory: {}", name_, bytes,
                  fi_strerror(-error));
    }
    regions_.push_back(region);
    return FabricMemory{region};
  }

  void unregister_memory(FabricMemory memory) override {
    auto* region = static_cast<fid_mr*>(memory);
    // No registration outlives close().
    if (std::erase(regions_, region) != 0) {
      close_object(region, "a region of memory");
    }
  }

  int send(Rank peer, const std::byte* data, uint64_t bytes, FabricMemory memory, uint64_t tag,
           uint32_t word, FabricOperation& operation) override {
    if (endpoint_ == nullptr) {
      return -ENOTCONN;
    }
    return static_cast<int>(fi_tsenddata(endpoint_, data, bytes, descriptor(memory), word,
                                         peers_[peer], tag, &operation));
  }

  int send_small(Rank peer, const std::byte* data, uint64_t bytes, uint64_t tag,
                 uint32_t word) override {
    if (endpoint_ == nullptr) {
      return -ENOTCONN;
    }
    return static_cast<int>(fi_tinjectdata(endpoint_, data, bytes, word, peers_[peer], tag));
  }
  uint64_t small_bytes() const override { return info_->tx_attr->inject_size; }

  int receive(Rank peer, std::byte* data, uint64_t bytes, FabricMemory memory, uint64_t tag,
              uint64_t ignore, FabricOperation& operation) override {
    if (endpoint_ == nullptr) {
      return -ENOTCONN;
    }
    const fi_addr_t from = peer == kAnyPeer ? FI_ADDR_UNSPEC : peers_[peer];
    return static_cast<int>(
        fi_trecv(endpoint_, data, bytes, descriptor(memory), from, tag, ignore, &operation));
  }

  void cancel(FabricOperation& operation) override {
    if (endpoint_ != nullptr) {
      fi_cancel(&endpoint_->fid, &operation);
    }
  }

  uint32_t depth() const override {
    return static_cast<uint32_t>(std::min(info_->tx_attr->size, info_->rx_attr->size));
  }

  int poll(std::span<FabricCompletion> completions) override {
    if (queue_ == nullptr) {
      return -ENOTCONN;
    }
    std::array<fi_cq_tagged_entry, 32> entries;
    const size_t room = std::min(entries.size(), completions.size());
    const ssize_t count = fi_cq_read(queue_, entries.data(), room);
    if (count == -FI_EAGAIN) {
      return 0;
    }
    if (count == -FI_EAVAIL) {
      return read_error(completions[0]);
    }
    if (count < 0) {
      failure_ = fail(CCOM_SYSTEM, "{} cannot read its completions: {}", name_,
                      fi_strerror(static_cast<int>(-count)));
      return static_cast<int>(count);
    }
    for (ssize_t i = 0; i < count; ++i) {
      const auto& entry = entries[static_cast<size_t>(i)];
      completions[static_cast<size_t>(i)] = {static_cast<FabricOperation*>(entry.op_context),
                                             (entry.flags & FI_RECV) != 0,
                                             0,
                                             entry.tag,
                                             static_cast<uint32_t>(entry.data),
                                             entry.len};
    }
    return static_cast<int>(count);
  }

  void close() override {
    settle();
    close_object(endpoint_, "its endpoint");
    // Nothing uses the memory any more, and a domain with registrations does not close.
    for (fid_mr*& region : regions_) {
      close_object(region, "a region of memory");
    }
    regions_.clear();
    close_object(queue_, "its completion queue");
    close_object(vector_, "its address table");
    close_object(domain_, "its domain");
    close_object(fabric_, "its fabric");
  }

  const Error& failure() const override { return failure_; }
  const std::string& provider() const override { return name_; }
  std::string route(Rank peer) const override {
    return text(own_address_) + " -> " + (peer < texts_.size() ? text(texts_[peer]) : "?");
  }

 private:
  // Nothing uses the last object any more; an error means a wrong order, and leaks memory.
  template <class T>
  void close_object(T*& object, const char* what) {
    if (object == nullptr) {
      return;
    }
    if (const int error = fi_close(&object->fid); error != 0 && failure_.sentence.empty()) {
      failure_ = fail(CCOM_SYSTEM, "{} cannot close {}: {}", name_, what, fi_strerror(-error));
    }
    object = nullptr;
  }

  // An accepted connection that has not identified itself yet belongs to no endpoint: tcp of
  // libfabric 1.17 closes neither its socket nor its memory (decisions.md). A poll attaches it, or
  // sees that the peer has gone.
  void settle() {
    std::array<fi_cq_tagged_entry, 32> entries;
    for (uint32_t i = 0; i < kSettlingPolls && endpoint_ != nullptr && queue_ != nullptr; ++i) {
      const ssize_t count = fi_cq_read(queue_, entries.data(), entries.size());
      if (count == -FI_EAVAIL) {
        fi_cq_err_entry entry{};
        fi_cq_readerr(queue_, &entry, 0);
      } else if (count == -FI_EAGAIN) {
        base::yield_processor();
      } else if (count < 0) {
        return;
      }
    }
  }

  Result<void> check(int error, const char* doing) const {
    if (error == 0) {
      return {};
    }
    return fail(error == -FI_ENOMEM || error == -FI_EMFILE ? CCOM_RESOURCE : CCOM_SYSTEM,
                "{} failed while {}: {}", name_, doing, fi_strerror(-error));
  }

  void* descriptor(FabricMemory memory) const {
    return memory == nullptr ? nullptr : fi_mr_desc(static_cast<fid_mr*>(memory));
  }

  std::string text(const std::vector<std::byte>& address) const {
    if (vector_ == nullptr || address.empty()) {
      return "?";
    }
    std::array<char, 256> buffer{};
    size_t bytes = buffer.size();
    fi_av_straddr(vector_, address.data(), buffer.data(), &bytes);
    std::string text(buffer.data());
    // libfabric reads addresses as fi_sockaddr_in://10.0.0.1:4000.
    const size_t scheme = text.find("://");
    return scheme == std::string::npos ? text : text.substr(scheme + 3);
  }

  int read_error(FabricCompletion& completion) {
    fi_cq_err_entry entry{};
    const ssize_t count = fi_cq_readerr(queue_, &entry, 0);
    if (count == -FI_EAGAIN) {
      return 0;
    }
    if (count < 0 || entry.op_context == nullptr) {
      failure_ = fail(CCOM_SYSTEM, "{} reports an error of no operation: {}", name_,
                      fi_strerror(count < 0 ? static_cast<int>(-count) : entry.err));
      return -EIO;
    }
    completion = {static_cast<FabricOperation*>(entry.op_context),
                  (entry.flags & FI_RECV) != 0,
                  entry.err == FI_ECANCELED ? ECANCELED : (entry.err == 0 ? EIO : entry.err),
                  entry.tag,
                  static_cast<uint32_t>(entry.data),
                  entry.len + entry.olen};
    return 1;
  }

  fi_info* info_;
  std::string name_;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_av* vector_ = nullptr;
  fid_cq* queue_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  std::vector<std::byte> own_address_;
  std::vector<std::vector<std::byte>> texts_;
  std::vector<fi_addr_t> peers_;
  std::vector<fid_mr*> regions_;
  uint64_t next_key_ = 1;
  Error failure_;
};

}  // namespace

uint64_t fabric_memory_modes() {
  return FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
}

Result<std::unique_ptr<FabricEndpoint>> open_libfabric(fi_info* description) {
  auto endpoint = std::make_unique<LibfabricEndpoint>(description);
  NEURON_CHECK(endpoint->open());
  return std::unique_ptr<FabricEndpoint>(std::move(endpoint));
}

}  // namespace neuron::ccom
