// SPDX-License-Identifier: Apache-2.0
#include "ccom/plan/tree.h"

namespace neuron::ccom {
namespace {

// Keeps the children in the order in which they were added.
Tree finish(Rank root, const std::vector<std::vector<Rank>>& children) {
  const auto ranks = static_cast<uint32_t>(children.size());
  Tree tree;
  tree.root = root;
  tree.parent.assign(ranks, Tree::kNone);
  tree.first.resize(ranks);
  tree.last.resize(ranks);
  std::vector<std::pair<Rank, size_t>> stack = {{root, 0}};  // rank, next child
  tree.tour.push_back(root);
  while (!stack.empty()) {
    auto& [rank, next] = stack.back();
    if (next == children[rank].size()) {
      tree.last[rank] = static_cast<uint32_t>(tree.tour.size());
      stack.pop_back();
      continue;
    }
    const Rank child = children[rank][next++];
    tree.parent[child] = rank;
    tree.first[child] = static_cast<uint32_t>(tree.tour.size());
    tree.tour.push_back(child);
    stack.emplace_back(child, 0);
  }
  return tree;
}

// Children of position `p` in a binomial tree of `size` positions.
template <class Visit>
void binomial_children(uint32_t p, uint32_t size, Visit visit) {
  for (uint64_t bit = 1; p + bit < size && (p & bit) == 0; bit *= 2) {
    visit(static_cast<uint32_t>(p + bit));
  }
}

// A balanced tree over positions [begin, end), in order: the middle one is the root, so every
// second position is a leaf.
uint32_t balanced(uint32_t begin, uint32_t end, std::vector<std::vector<uint32_t>>& children) {
  const uint32_t size = end - begin;
  uint32_t half = 1;
  while (half * 2 <= size) half *= 2;
  const uint32_t root = begin + half - 1;
  if (begin < root) children[root].push_back(balanced(begin, root, children));
  if (root + 1 < end) children[root].push_back(balanced(root + 1, end, children));
  return root;
}

// Fills `children` for the ranks listed in `ranks`; returns the top.
Rank binary(const std::vector<Rank>& ranks, bool second, std::vector<std::vector<Rank>>& children) {
  const auto size = static_cast<uint32_t>(ranks.size());
  std::vector<std::vector<uint32_t>> positions(size);
  const uint32_t top = balanced(0, size, positions);
  // Mirrors even sizes and rotates odd ones by one, so that leaves of the first tree become inner
  // ranks.
  const auto rank_at = [&](uint32_t position) {
    if (!second) return ranks[position];
    return size % 2 == 0 ? ranks[size - 1 - position] : ranks[(position + 1) % size];
  };
  for (uint32_t i = 0; i < size; ++i) {
    for (const uint32_t child : positions[i]) children[rank_at(i)].push_back(rank_at(child));
  }
  return rank_at(top);
}

}  // namespace

Tree binomial_tree(uint32_t ranks, Rank root) {
  std::vector<std::vector<Rank>> children(ranks);
  for (uint32_t i = 0; i < ranks; ++i) {
    binomial_children(i, ranks, [&](uint32_t child) {
      children[(root + i) % ranks].push_back((root + child) % ranks);
    });
  }
  return finish(root, children);
}

Tree chain_tree(uint32_t ranks, Rank root) {
  std::vector<std::vector<Rank>> children(ranks);
  for (uint32_t i = 0; i + 1 < ranks; ++i) {
    children[(root + i) % ranks].push_back((root + i + 1) % ranks);
  }
  return finish(root, children);
}

Tree binary_tree(uint32_t ranks, bool second) {
  std::vector<std::vector<Rank>> children(ranks);
  std::vector<Rank> all(ranks);
  for (Rank rank = 0; rank < ranks; ++rank) all[rank] = rank;
  const Rank root = binary(all, second, children);
  return finish(root, children);
}

Tree rooted_binary_tree(uint32_t ranks, Rank root, bool second) {
  std::vector<std::vector<Rank>> children(ranks);
  std::vector<Rank> others;
  for (Rank i = 1; i < ranks; ++i) others.push_back((root + i) % ranks);
  if (!others.empty()) children[root].push_back(binary(others, second, children));
  return finish(root, children);
}

Tree node_tree(const Places& places, Rank root) {
  std::vector<std::vector<Rank>> children(places.ranks());
  const auto nodes = static_cast<uint32_t>(places.nodes.size());
  const uint32_t first = places.node_of[root];
  const auto leader = [&](uint32_t position) {
    return position == 0 ? root : places.nodes[(first + position) % nodes][0];
  };
  for (uint32_t i = 0; i < nodes; ++i) {
    // Children on other nodes come first, because their way is longer.
    binomial_children(i, nodes,
                      [&](uint32_t child) { children[leader(i)].push_back(leader(child)); });
    for (const Rank rank : places.nodes[(first + i) % nodes]) {
      if (rank != leader(i)) children[leader(i)].push_back(rank);
    }
  }
  return finish(root, children);
}

}  // namespace neuron::ccom
