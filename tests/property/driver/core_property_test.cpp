// SPDX-License-Identifier: Apache-2.0
// Random sequences on pools, rings, marks and handles, against models that are too simple to be
// wrong.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "driver/core/claims.h"
#include "driver/core/handle_table.h"
#include "driver/core/hbm.h"
#include "driver/core/ring.h"
#include "hw/udma.h"

namespace {

constexpr uint64_t kPage = ND_PAGE_SIZE;

// One byte per page: free or the number of the allocation.
class PageModel {
 public:
  explicit PageModel(uint64_t pages) : owner_(pages, 0) {}
  bool is_free(uint64_t page, uint64_t count) const {
    if (page + count > owner_.size()) return false;
    return std::all_of(owner_.begin() + page, owner_.begin() + page + count,
                       [](int owner) { return owner == 0; });
  }
  void set(uint64_t page, uint64_t count, int owner) {
    std::fill(owner_.begin() + page, owner_.begin() + page + count, owner);
  }
  uint64_t free_pages() const { return std::count(owner_.begin(), owner_.end(), 0); }
  uint64_t largest() const {
    uint64_t best = 0;
    uint64_t run = 0;
    for (int owner : owner_) best = std::max(best, run = owner == 0 ? run + 1 : 0);
    return best;
  }
  // First page where `count` pages fit at this alignment, or the number of pages.
  uint64_t first_fit(uint64_t count, uint64_t alignment) const {
    for (uint64_t page = 0; page < owner_.size(); page += alignment) {
      if (is_free(page, count)) return page;
    }
    return owner_.size();
  }

 private:
  std::vector<int> owner_;
};

RC_GTEST_PROP(PoolProperty, BehavesLikeAnArrayOfPages, ()) {
  constexpr uint64_t kPages = 200;
  std::vector<nd_block> nodes(2 * kPages + 8);
  nd_pool pool;
  nd_pool_init(&pool, 0, kPages * kPage, nodes.data(), static_cast<uint32_t>(nodes.size()));
  PageModel model(kPages);
  std::vector<nd_block*> live;
  const auto steps = *rc::gen::inRange(0, 120);
  for (int step = 0; step < steps; ++step) {
    if (!live.empty() && *rc::gen::inRange(0, 5) < 2) {
      const auto index = *rc::gen::inRange<size_t>(0, live.size());
      nd_block* block = live[index];
      model.set(block->start / kPage, block->size / kPage, 0);
      nd_pool_free(&pool, block);
      live.erase(live.begin() + index);
    } else {
      const auto bytes = *rc::gen::inRange<uint64_t>(1, 40 * kPage);
      const auto shift = *rc::gen::inRange(0, 6);
      const uint64_t pages = (bytes + kPage - 1) / kPage;
      const uint64_t expected = model.first_fit(pages, uint64_t{1} << shift);
      nd_block* block = nullptr;
      const int error = nd_pool_allocate(&pool, bytes, kPage << shift, &block);
      RC_ASSERT((error == 0) == (expected < kPages));
      if (error == 0) {
        RC_ASSERT(block->start == expected * kPage);
        RC_ASSERT(block->size == pages * kPage);
        model.set(expected, pages, step + 1);
        live.push_back(block);
      }
    }
    RC_ASSERT(pool.free_bytes == model.free_pages() * kPage);
    RC_ASSERT(nd_pool_largest_free(&pool) == model.largest() * kPage);
    RC_ASSERT(pool.used_blocks == live.size());
  }
  for (nd_block* block : live) nd_pool_free(&pool, block);
  RC_ASSERT(nd_pool_largest_free(&pool) == kPages * kPage);
  RC_ASSERT(nd_pool_spare(&pool) == nodes.size() - 1);
}

RC_GTEST_PROP(HbmProperty, GivesEverythingBackInAnyOrder, ()) {
  std::vector<nd_block> nodes(512);
  nd_hbm hbm;
  RC_ASSERT(nd_hbm_init(&hbm, 0, 64 << 20, 16 << 20, 8 << 20, nodes.data(), 512) == 0);
  const uint64_t before = nd_hbm_free_bytes(&hbm);
  std::vector<nd_block*> live;
  const auto steps = *rc::gen::inRange(0, 60);
  for (int step = 0; step < steps; ++step) {
    nd_block* block = nullptr;
    const auto bytes = *rc::gen::inRange<uint64_t>(1, 2 << 20);
    const bool scratchpad = *rc::gen::inRange(0, 3) == 0;
    const int error = scratchpad ? nd_hbm_allocate_scratchpad(&hbm, bytes, &block)
                                 : nd_hbm_allocate(&hbm, bytes, 0, &block);
    if (error == 0) live.push_back(block);
    if (!live.empty() && *rc::gen::inRange(0, 2)) {
      const auto index = *rc::gen::inRange<size_t>(0, live.size());
      nd_hbm_free(&hbm, live[index]);
      live.erase(live.begin() + index);
    }
    for (const nd_block* one : live) RC_ASSERT(one->start >= uint64_t{16} << 20);
  }
  for (nd_block* block : live) nd_hbm_free(&hbm, block);
  RC_ASSERT(nd_hbm_free_bytes(&hbm) == before);
  RC_ASSERT(hbm.scratchpad_low == nd_hbm_main_end(&hbm));
}

// Reads a ring as an engine does and applies its packets to a map of single bytes.
RC_GTEST_PROP(RingProperty, AnEngineThatReadsTheRingSeesEveryByteOfEveryCopyOnce, ()) {
  const auto length = static_cast<uint32_t>(*rc::gen::inRange(2, 12) * 16);
  std::vector<nd_descriptor> source(length);
  std::vector<nd_descriptor> destination(length);
  nd_ring ring;
  RC_ASSERT(nd_ring_init(&ring, source.data(), destination.data(), length) == 0);
  uint32_t head = 0;
  uint32_t ring_id = 1;
  const auto copies = *rc::gen::inRange(1, 12);
  for (int i = 0; i < copies; ++i) {
    const auto bytes = *rc::gen::inRange<uint64_t>(1, 40 * 65536);
    const auto from = *rc::gen::inRange<uint64_t>(0, uint64_t{1} << 40);
    const auto to = *rc::gen::inRange<uint64_t>(0, uint64_t{1} << 40);
    nd_copy copy = {from, to, bytes, 0};
    uint64_t done = 0;
    while (copy.remaining) {
      const uint32_t packets = nd_ring_push_copy(&ring, &copy, 1, ND_BARRIER_WRITE);
      RC_ASSERT(packets > 0);
      RC_ASSERT(ring.used <= length - ND_RING_RESERVED);
      for (uint32_t p = 0; p < packets; ++p) {
        const nd_descriptor& s = source[head];
        const nd_descriptor& d = destination[head];
        RC_ASSERT((s.control >> NEURON_DESC_RING_ID_SHIFT & 3) == ring_id);
        RC_ASSERT((d.control >> NEURON_DESC_RING_ID_SHIFT & 3) == ring_id);
        RC_ASSERT(nd_descriptor_length(&s) == nd_descriptor_length(&d));
        RC_ASSERT(s.address == from + done);
        RC_ASSERT(d.address == to + done);
        RC_ASSERT(((s.meta & NEURON_META_WRITE_BARRIER) != 0) == (p + 1 == packets));
        done += nd_descriptor_length(&s);
        if (++head == length) {
          head = 0;
          ring_id = (ring_id + 1) & 3;
        }
      }
      RC_ASSERT(nd_ring_release(&ring, packets) == 0);
    }
    RC_ASSERT(done == bytes);
  }
}

RC_GTEST_PROP(ClaimProperty, NoCoreHasTwoOwnersAndReleaseFreesAll, ()) {
  auto claims = std::make_unique<nd_claims>();
  std::map<uint32_t, int32_t> owners;
  const auto steps = *rc::gen::inRange(0, 80);
  for (int step = 0; step < steps; ++step) {
    const auto pid = *rc::gen::inRange(1, 6);
    const auto base = *rc::gen::inRange<uint32_t>(0, 3) * 8;
    uint64_t bitmap[ND_CLAIM_WORDS] = {};
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        nd_claims_release(claims.get(), pid, 0);
        std::erase_if(owners, [&](const auto& entry) { return entry.second == pid; });
        break;
      case 1: {
        bitmap[0] = *rc::gen::inRange<uint64_t>(0, 1 << 16);
        nd_claims_unmark(claims.get(), base, bitmap, pid);
        for (uint32_t i = 0; i < 64; ++i) {
          const auto found = owners.find(base + i);
          if ((bitmap[0] >> i & 1) && found != owners.end() && found->second == pid) {
            owners.erase(found);
          }
        }
        break;
      }
      default: {
        const auto count = *rc::gen::inRange<uint32_t>(1, 6);
        const auto start = *rc::gen::inRange<uint32_t>(0, 16);
        const auto end = start + *rc::gen::inRange<uint32_t>(0, 16);
        const nd_claim_request request = {base, count, start, end, pid, 1};
        uint32_t available = 0;
        const int error = nd_claims_mark(claims.get(), &request, bitmap, &available);
        if (error) {
          RC_ASSERT(error == -ND_EBUSY);
          RC_ASSERT(available < count);
          break;
        }
        uint32_t marked = 0;
        for (uint32_t i = 0; i < 64; ++i) {
          if (!(bitmap[0] >> i & 1)) continue;
          RC_ASSERT(i >= start && i <= end);
          RC_ASSERT(owners.emplace(base + i, pid).second);
          ++marked;
        }
        RC_ASSERT(marked == count);
      }
    }
    for (uint32_t core = 0; core < 64; ++core) {
      const auto found = owners.find(core);
      RC_ASSERT(nd_claims_owner(claims.get(), core) == (found == owners.end() ? 0 : found->second));
    }
  }
}

RC_GTEST_PROP(HandleProperty, AHandleNamesItsObjectFromInsertToRemoveAndNothingElse, ()) {
  auto table = std::make_unique<nd_handle_table>();
  std::vector<nd_handle_entry> level(ND_HANDLES_PER_LEVEL);
  nd_handles_init(table.get());
  RC_ASSERT(nd_handles_add_level(table.get(), level.data()) == 0);
  std::map<uint32_t, int*> live;
  std::vector<uint32_t> freed;  // newest last
  std::vector<int> objects(200);
  const auto steps = *rc::gen::inRange(0, 200);
  for (int step = 0; step < steps; ++step) {
    if (live.empty() || *rc::gen::inRange(0, 5) < 3) {
      uint32_t handle = 0;
      RC_ASSERT(nd_handles_insert(table.get(), &objects[step], &handle) == 0);
      RC_ASSERT(live.emplace(handle, &objects[step]).second);
      if (!freed.empty()) {
        RC_ASSERT(handle == freed.back());
        freed.pop_back();
      }
    } else {
      const auto index = *rc::gen::inRange<size_t>(0, live.size());
      const auto entry = std::next(live.begin(), index);
      const uint32_t handle = entry->first;
      RC_ASSERT((nd_handles_remove(table.get(), handle) == entry->second));
      live.erase(entry);
      freed.push_back(handle);
      RC_ASSERT((nd_handles_lookup(table.get(), handle) == nullptr));
    }
    for (const auto& entry : live) {
      RC_ASSERT((nd_handles_lookup(table.get(), entry.first) == entry.second));
    }
    RC_ASSERT(table->live == live.size());
  }
}

}  // namespace
