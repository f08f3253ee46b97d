// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/ccom/network_ring.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <sched.h>

#include <cstring>

#include "tests/bench/ccom/bench.h"

namespace neuron::bench {

struct NetworkRing::Fabric {
  ~Fabric() {
    for (fid* object : {endpoint ? &endpoint->fid : nullptr, queue ? &queue->fid : nullptr,
                        table ? &table->fid : nullptr, domain ? &domain->fid : nullptr,
                        fabric ? &fabric->fid : nullptr}) {
      if (object != nullptr) fi_close(object);
    }
    fi_freeinfo(info);
  }

  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_av* table = nullptr;
  fid_cq* queue = nullptr;
  fid_ep* endpoint = nullptr;
  std::vector<fi_addr_t> peers;
  fi_context2 send_context{};
  fi_context2 receive_context{};
};

NetworkRing::NetworkRing(uint32_t rank, uint32_t ranks)
    : rank_(rank), ranks_(ranks), fabric_(std::make_unique<Fabric>()) {}
NetworkRing::~NetworkRing() = default;

bool NetworkRing::check(long error, const char* doing) {
  if (error == 0) return true;
  error_ = std::string(doing) + ": " + fi_strerror(static_cast<int>(-error));
  return false;
}

bool NetworkRing::open(const std::string& provider, uint64_t bytes) {
  fi_info* hints = fi_allocinfo();
  hints->caps = FI_TAGGED;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = strdup(provider.c_str());
  const bool addressed = provider != "shm";
  const int found = fi_getinfo(FI_VERSION(1, 17), addressed ? "127.0.0.1" : nullptr, nullptr,
                               addressed ? FI_SOURCE : 0, hints, &fabric_->info);
  fi_freeinfo(hints);
  scratch_.resize(bytes / sizeof(float) + ranks_);
  fi_av_attr table{};
  table.type = FI_AV_TABLE;
  fi_cq_attr queue{};
  queue.format = FI_CQ_FORMAT_TAGGED;
  queue.size = 1024;
  Fabric& f = *fabric_;
  return check(found, "fi_getinfo") &&
         check(fi_fabric(f.info->fabric_attr, &f.fabric, nullptr), "fi_fabric") &&
         check(fi_domain(f.fabric, f.info, &f.domain, nullptr), "fi_domain") &&
         check(fi_av_open(f.domain, &table, &f.table, nullptr), "fi_av_open") &&
         check(fi_cq_open(f.domain, &queue, &f.queue, nullptr), "fi_cq_open") &&
         check(fi_endpoint(f.domain, f.info, &f.endpoint, nullptr), "fi_endpoint") &&
         check(fi_ep_bind(f.endpoint, &f.table->fid, 0), "fi_ep_bind") &&
         check(fi_ep_bind(f.endpoint, &f.queue->fid, FI_SEND | FI_RECV), "fi_ep_bind") &&
         check(fi_enable(f.endpoint), "fi_enable");
}

std::vector<std::byte> NetworkRing::address() const {
  std::vector<std::byte> address(256);
  size_t bytes = address.size();
  fi_getname(&fabric_->endpoint->fid, address.data(), &bytes);
  address.resize(bytes);
  return address;
}

bool NetworkRing::connect(const std::vector<std::vector<std::byte>>& addresses) {
  fabric_->peers.resize(ranks_);
  for (uint32_t i = 0; i < ranks_; ++i) {
    if (fi_av_insert(fabric_->table, addresses[i].data(), 1, &fabric_->peers[i], 0, nullptr) != 1) {
      return check(-FI_EINVAL, "fi_av_insert");
    }
  }
  return true;
}

bool NetworkRing::wait(uint64_t sent, uint64_t received) {
  uint32_t idle = 0;
  const double deadline = now_seconds() + 20;
  while (sent_ < sent || received_ < received) {
    fi_cq_tagged_entry entries[8];
    const ssize_t count = fi_cq_read(fabric_->queue, entries, 8);
    if (count == -FI_EAGAIN) {
      if (++idle % 16 == 0) sched_yield();
      if (idle % 65536 == 0 && now_seconds() > deadline) {
        return check(-FI_ETIMEDOUT, "the peer of this rank in the ring");
      }
      continue;
    }
    if (count < 0) return check(count, "fi_cq_read");
    idle = 0;
    for (ssize_t i = 0; i < count; ++i) ++((entries[i].flags & FI_RECV) != 0 ? received_ : sent_);
  }
  return true;
}

bool NetworkRing::exchange(const float* out, uint64_t out_count, float* in, uint64_t in_count) {
  Fabric& f = *fabric_;
  const uint32_t next = (rank_ + 1) % ranks_;
  const uint32_t previous = (rank_ + ranks_ - 1) % ranks_;
  ++tag_;
  ssize_t error = 0;
  do {
    error = fi_trecv(f.endpoint, in, in_count * sizeof(float), nullptr, f.peers[previous], tag_, 0,
                     &f.receive_context);
  } while (error == -FI_EAGAIN && wait(sends_, received_));
  if (!check(error, "fi_trecv")) return false;
  ++receives_;
  const double deadline = now_seconds() + 20;
  while ((error = fi_tsend(f.endpoint, out, out_count * sizeof(float), nullptr, f.peers[next], tag_,
                           &f.send_context)) == -FI_EAGAIN) {
    fi_cq_tagged_entry entry;
    if (fi_cq_read(f.queue, &entry, 1) == 1) ++received_;
    if (now_seconds() > deadline) break;
  }
  if (!check(error, "fi_tsend")) return false;
  ++sends_;
  return wait(sent_, receives_);
}

bool NetworkRing::all_reduce(const float* input, float* output, uint64_t count) {
  const auto begin = [&](uint64_t part) { return count * (part % ranks_) / ranks_; };
  const auto size = [&](uint64_t part) {
    return count * (part % ranks_ + 1) / ranks_ - begin(part);
  };
  std::memcpy(output, input, count * sizeof(float));
  for (uint32_t step = 0; step + 1 < ranks_; ++step) {
    const uint64_t out = rank_ + ranks_ - step;
    const uint64_t in = rank_ + 2 * ranks_ - step - 1;
    if (!exchange(output + begin(out), size(out), scratch_.data(), size(in))) return false;
    float* sum = output + begin(in);
    for (uint64_t i = 0; i < size(in); ++i) sum[i] += scratch_[i];
    if (!wait(sends_, receives_)) return false;
  }
  for (uint32_t step = 0; step + 1 < ranks_; ++step) {
    const uint64_t out = rank_ + 1 + ranks_ - step;
    const uint64_t in = rank_ + ranks_ - step;
    if (!exchange(output + begin(out), size(out), output + begin(in), size(in))) return false;
    if (!wait(sends_, receives_)) return false;
  }
  return true;
}

}  // namespace neuron::bench
