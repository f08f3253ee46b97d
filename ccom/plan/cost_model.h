// SPDX-License-Identifier: Apache-2.0
// Times of the patterns that make up algorithms, in seconds.
//
// Callers: cost.cpp. Threads: one. Cannot fail.
#ifndef CCOM_PLAN_COST_MODEL_H
#define CCOM_PLAN_COST_MODEL_H

#include <algorithm>
#include <cmath>

#include "ccom/plan/algorithms.h"
#include "ccom/plan/places.h"
#include "ccom/plan/planner.h"

namespace neuron::ccom {

class CostModel {
 public:
  CostModel(const Group& group, const Places& places, const CostParameters& costs,
            uint32_t channels, uint32_t window)
      : host_(costs.medium == Medium::kHostMemory),
        window_(std::max(1u, window)),
        n_(group.ranks()),
        x_(static_cast<double>(places.nodes.size())),
        y_(std::ceil(n_ / x_)) {
    const double cycles = directed_cycles(group);
    alpha_ = static_cast<double>(costs.local_latency_ps) * 1e-12;
    remote_alpha_ = static_cast<double>(costs.remote_latency_ps) * 1e-12;
    step_ = static_cast<double>(costs.step_ps) * 1e-12;
    message_ = static_cast<double>(costs.remote_message_ps) * 1e-12;
    reduce_rate_ = costs.reduce_bytes_per_second;
    ring_rate_ = costs.local_bytes_per_second;
    direct_rate_ = costs.local_bytes_per_second;
    if (!host_) {
      ring_rate_ *= std::min<double>(channels, cycles);
      // Chips of a torus or ring that are not neighbours share the links between them. About half
      // of these are idle, because routes are uneven.
      const double chips = group.topology.node().chips;
      if (cycles >= 4) {
        longest_way_ = std::sqrt(chips);
      } else if (cycles > 1) {
        longest_way_ = chips / 2;
      }
      direct_rate_ *= std::max(1.0, cycles / std::max(1.0, longest_way_));
    }
    const double nics = std::max(1u, group.topology.node().nics);
    inner_flows_ = host_ ? 1 : std::max(1.0, channels / cycles);
    outer_flows_ = std::max(1.0, y_ * channels / nics);
    nic_rate_ = costs.remote_bytes_per_second;
    node_rate_ = nic_rate_ * nics;
    // A flat ring leaves a node once for each channel.
    ring_node_rate_ = nic_rate_ * std::min<double>(nics, channels);
  }

  double ranks() const { return n_; }
  double nodes() const { return x_; }
  double columns() const { return y_; }
  double rounds() const { return std::ceil(std::log2(std::max(1.0, n_))); }
  bool host() const { return host_; }

  double reduce(double bytes) const { return bytes / reduce_rate_; }
  // The cost of a reduction inside a ring: DMA engines reduce while the links carry other channels.
  double reduce_on_the_way(double bytes) const { return host_ ? reduce(bytes) : 0; }
  double copy(double bytes) const { return bytes / direct_rate_; }

  double near(double bytes) const {
    return std::max(1.0, longest_way_ / 2) * alpha_ + bytes / direct_rate_ + 2 * step_;
  }
  // `senders` ranks of each node send at once.
  double far(double bytes, double senders) const {
    return remote_alpha_ + messages(1, senders) +
           std::max(bytes / nic_rate_, bytes * senders / node_rate_) + 2 * step_;
  }
  // Every rank sends to the rank `distance` further on: also the last ones of each node.
  double shift(double bytes, double distance) const {
    return x_ > 1 ? far(bytes, std::min(distance, y_)) : near(bytes);
  }
  // Pairs of ranks at this distance exchange: within nodes, while it is shorter than these. Rounds
  // of recursive barriers and of `pairwise` have this price, too. It is too low where the last
  // ranks of each node send to another node; the same rounds by `bruck` have the price of shift().
  double hop(double bytes, double distance) const {
    return x_ > 1 && distance >= y_ ? far(bytes, y_) : near(bytes);
  }
  double worst_hop(double bytes) const { return x_ > 1 ? far(bytes, 1) : near(bytes); }

  // The number of batches: messages to peers go out a few at a time. Readers of shared memory send
  // none.
  double batches(double peers) const {
    return host_ && x_ <= 1 ? 1 : std::ceil(peers / kPeersAtOnce);
  }
  // Every rank sends `each` bytes to each other rank of its node.
  double inner_exchange(double each) const {
    return batches(y_ - 1) * longest_way_ * alpha_ + (y_ - 1) * each / direct_rate_;
  }
  // Every rank sends `each` bytes to the rank of its column in each other node.
  double column_exchange(double each) const {
    const double bytes = (x_ - 1) * each;
    return batches(x_ - 1) * remote_alpha_ + messages(x_ - 1, y_) +
           std::max(bytes / nic_rate_, bytes * y_ / node_rate_);
  }
  // Every rank sends `each` bytes to each other rank.
  double exchange(double each) const {
    const double outside = x_ > 1 ? y_ * (n_ - y_) * each / node_rate_ : 0;
    const double latency = std::max(longest_way_ * alpha_, x_ > 1 ? remote_alpha_ : 0);
    return batches(n_ - 1) * latency + std::max((y_ - 1) * each / direct_rate_, outside) +
           2 * (n_ - 1) * step_ + messages(n_ - y_, y_);
  }
  // One rank exchanges `each` bytes with every other. Readers of one memory do not wait for one
  // another.
  double star(double each, bool readers) const {
    const double served = host_ && readers ? 1 : y_ - 1;
    const double inside = longest_way_ * alpha_ + served * each / direct_rate_;
    const double outside = x_ > 1 ? remote_alpha_ + (n_ - y_) * (each / nic_rate_ + message_) : 0;
    return std::max(inside, outside) + (n_ - 1) * step_;
  }

  // One step of a ring in its steady state: with credits, latency counts on average or once per
  // window. `inner`: within nodes; else `senders` rings leave each node.
  // `pieces`: messages of a block, of `bytes` together.
  double ring_step(double members, double bytes, bool inner, double senders,
                   double pieces = 1) const {
    const bool crosses = x_ > 1 && !inner;
    const double far_hops = crosses ? std::min(members, x_) : 0;
    const double busy = occupancy(bytes, inner, senders);
    // While one message waits for its credit, those of other channels use the link.
    const double flows = !crosses ? inner_flows_ : senders > 1 ? outer_flows_ : 1;
    // A block can be forwarded when it has arrived, piece by piece.
    const double local_hop = pieces * alpha_ + bytes / ring_rate_ / inner_flows_;
    const double far_hop = pieces * remote_alpha_ + busy / (senders > 1 ? outer_flows_ : 1);
    const double mean =
        ((members - far_hops) * local_hop + far_hops * far_hop) / std::max(1.0, members);
    const double credit = 2 * pieces * (crosses ? remote_alpha_ : alpha_) + busy / flows;
    // Every rank waits for the one before it, so each step takes as long as that of a rank that
    // sends to another node. The latency of a kernel is work of processors, which do nothing for
    // other channels meanwhile.
    const double kernel =
        crosses && message_ > 0 ? pieces * remote_alpha_ + messages(pieces, senders) : 0;
    return std::max({mean, busy, credit / window_}) + 2 * pieces * step_ + kernel;
  }
  double occupancy(double bytes, bool inner, double senders) const {
    if (x_ <= 1 || inner) return bytes / ring_rate_;
    if (senders > 1) return bytes * senders / node_rate_;
    return std::max(bytes / ring_rate_, bytes / ring_node_rate_);
  }
  double ring(double members, double bytes, bool inner, double senders, double pieces = 1) const {
    return members <= 1 ? 0 : (members - 1) * ring_step(members, bytes, inner, senders, pieces);
  }
  // Hops between neighbours in rank order, one after the other: all but x of them stay within
  // nodes.
  double neighbour_hops(double bytes) const {
    return (n_ - x_) * (alpha_ + bytes / direct_rate_) + (x_ - 1) * far(bytes, 1);
  }
  double tree_hops(double bytes) const {
    double time = 0;
    for (double d = 1; d < n_; d *= 2) time += x_ > 1 && d >= y_ ? far(bytes, 1) : near(bytes);
    return time;
  }
  double step() const { return step_; }
  // What messages to other nodes take of a processor, if as many ranks of a node send as many each.
  // One kernel carries them all, and about half of them do not overlap.
  double messages(double each, double senders) const {
    return each * message_ * (1 + (senders - 1) / 2);
  }
  double latencies() const { return alpha_ + remote_alpha_; }

 private:
  bool host_;
  double window_;
  double n_, x_, y_;
  double alpha_, remote_alpha_, step_, message_, reduce_rate_;
  double longest_way_ = 1;  // most links between two chips of a node
  double ring_rate_, direct_rate_, nic_rate_, node_rate_, ring_node_rate_;
  double inner_flows_, outer_flows_;  // flows that share a link, a NIC
};

}  // namespace neuron::ccom

#endif
