// SPDX-License-Identifier: Apache-2.0
// The bodies of instructions that move data between addresses, as text.
#include <bit>
#include <cinttypes>

#include "driver/isa/line.h"

namespace neuron::isa {
namespace {

constexpr const char* kOperation[] = {"copy", "cast", "fma", "add", "min", "max", "transpose"};

// Outermost first, as in tensors; steps are in bytes and always shown.
void dimensions(Line& line, const char* name, const std::array<DmaDimension, 4>& dims) {
  line.key("%s=[", name);
  bool any = false;
  for (unsigned d = 4; d-- > 0;) {
    if (dims[d].size == 0 && dims[d].step == 0) continue;
    line.addf("%s%" PRIu32 ":%" PRId32, any ? ", " : "", dims[d].size, dims[d].step);
    any = true;
  }
  line.add("]");
}

void control(Line& line, const DmaControl& ctl) {
  line.key("op=%s", ctl.operation <= NEURON_DMA_TRANSPOSE ? kOperation[ctl.operation] : "?");
  line.key("from_type=%s", dtype_name(ctl.from_type));
  line.key("to_type=%s", dtype_name(ctl.to_type));
  if (ctl.accumulate) line.key("acc");
  if (ctl.skip) line.key("skip");
  line.key("queue=%u", ctl.queue);
  if (ctl.generator) line.key("dge");
  if (ctl.priority) line.key("priority=%u", ctl.priority);
  line.key("mask=0x%X", ctl.mask);
  if (ctl.signal) line.key("signal=s%u", ctl.semaphore);
}

}  // namespace

void print_address(Line& line, const AddressBody& body) {
  line.key("at=0x%" PRIX64, body.addr);
  if (body.count != 1) line.key("count=%u", body.count);
  if (body.stride) line.key("stride=%" PRId32, body.stride);
}

void print_trigger(Line& line, const DmaTriggerBody& body) {
  line.key("block=%" PRIu32, body.block);
  line.key("queue=%u", body.queue);
  line.key("m2s=0x%" PRIX64, body.m2s);
  line.key("s2m=0x%" PRIX64, body.s2m);
  line.key("stride=0x%" PRIX32, body.stride);
  line.key("mask=0x%X", body.mask);
  const auto counts = [&](const char* name, const std::array<uint16_t, 16>& n) {
    bool equal = body.mask != 0;
    const unsigned first = body.mask ? std::countr_zero(body.mask) : 0;
    for (unsigned e = 0; e < 16; ++e) {
      equal = equal && n[e] == ((body.mask >> e & 1) ? n[first] : 0);
    }
    if (equal) return line.key("%s=%u", name, n[first]);
    line.key("%s=%u", name, n[0]);
    for (unsigned e = 1; e < 16; ++e) line.addf("/%u", n[e]);
  };
  counts("m2s_count", body.m2s_count);
  counts("s2m_count", body.s2m_count);
}

void print_generate(Line& line, const Instruction& i) {
  const DmaGenerateBody& body = i.generate;
  line.key("to=0x%" PRIX64, body.to);
  dimensions(line, "to_dims", body.to_dims);
  line.key("from=0x%" PRIX64, body.from);
  dimensions(line, "from_dims", body.from_dims);
  control(line, i.dma);
  if (body.scale) line.key("scale=%s", scalar_value(body.scale, NEURON_DTYPE_F32).c_str());
  if (body.limit) line.key("limit=0x%" PRIX32, body.limit);
}

void print_indirect(Line& line, const Instruction& i) {
  const DmaIndirectBody& body = i.indirect;
  line.key("at=0x%" PRIX64, body.base);
  line.key("row_bytes=%" PRIu32, body.row_bytes);
  line.key("row_step=%" PRIu32, body.row_step);
  line.key("rows=%" PRIu32, body.rows);
  control(line, i.dma);
}

}  // namespace neuron::isa
