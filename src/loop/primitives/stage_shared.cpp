// lay_out_shared(a, bits, pad, panel): how a shared copy of a buffer, which `stage` made, lies in the banks of shared memory.
//
//   alloc %a.staged: f32[128, 16] shared          becomes, with pad 4,     alloc %a.staged: f32[128, 16] shared strides(20, 1)
//   alloc %a.staged: bf16[128, 32] shared         becomes, with bits 2,    alloc %a.staged: bf16[128, 32] shared swizzle(2, 4, 3)
//
//   alloc %a.staged: bf16[64, 256] shared         becomes, with bits 3, panel 64,
//                                                 alloc %a.staged: bf16[64, 256] shared swizzle(3, 4, 3) panel(64)
//
// Padding makes rows that start in other banks, for ordinary loads down a column. A swizzle does the same for the 16-byte rows of matrices that tensor cores
// load, without unused bytes: 16-byte chunk c of row r lies at c xor (r / rows per 128 bytes) mod 2^bits. Which bits of an address say the row follows from
// the length of the row, so the schedule names only how many of them take part. Panels are what the copy engine moves and mma of a warpgroup reads: 64
// columns of 16 bits of all rows, then the next 64.
#include <bit>
#include <map>
#include <numeric>
#include <set>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

Swizzle swizzle_of(const Buffer& buffer, int bits) {
  const int64_t row_bytes = (buffer.panel > 0 ? buffer.panel : buffer.extents.back()) * size_bytes(buffer.dtype);
  if (bits < 1 || bits > 3) unfit("a swizzle of " + std::to_string(bits) + " bits");
  if (row_bytes < 16 << bits || !std::has_single_bit(static_cast<uint64_t>(row_bytes))) {
    unfit("rows of " + std::to_string(row_bytes) + " bytes can't be swizzled by " + std::to_string(bits) + " bits");
  }
  Swizzle swizzle;
  swizzle.bits = bits;
  swizzle.base = 4;
  swizzle.shift = std::max(std::countr_zero(static_cast<uint64_t>(row_bytes)), 7) - 4;  // eight rows of 16 bytes meet all 32 banks
  return swizzle;
}

std::vector<int64_t> padded_strides(const Buffer& buffer, int64_t pad) {
  const size_t rank = buffer.extents.size();
  std::vector<int64_t> strides(rank, 1);
  size_t row = rank;  // one past the axis that rows lie along: those of extent 1 behind it hold single elements
  while (row > 1 && buffer.extents[row - 1] == 1) row--;
  int64_t next = 1;
  for (size_t axis = rank; axis-- > 0;) {
    strides[axis] = next;
    next *= buffer.extents[axis];
    if (axis + 1 == row) next += pad;
  }
  return strides;
}

/// Padded rows start only at multiples of the padding: copies to them are no wider.
void narrow_copies(Block& body, const std::map<const Buffer*, BufferRef>& padded, int64_t pad) {
  std::set<const Buffer*> buffers;
  for (const auto& [old, buffer] : padded) buffers.insert(buffer.get());
  for_each_block(body, [&](Block& block) {
    for (Stmt& stmt : block) {
      auto* copy = std::get_if<Copy>(&stmt.node);
      if (!copy || !buffers.contains(copy->destination.get())) continue;
      copy->vector_bytes = std::gcd(copy->vector_bytes, static_cast<int>(pad * size_bytes(copy->destination->dtype)));
    }
  });
}

}  // namespace

Unit lay_out_shared(const Unit& unit, const std::string& buffer, int swizzle_bits, int64_t pad, int64_t panel) {
  Unit result = unit;
  std::map<const Buffer*, BufferRef> map;
  walk(unit.body, [&](const Stmt& stmt) {
    const auto* alloc = std::get_if<Alloc>(&stmt.node);
    if (!alloc || alloc->buffer->space != Space::shared || !is_copy(alloc->buffer->name, buffer + ".staged")) return;
    Buffer prototype = *alloc->buffer;
    if (prototype.extents.empty()) unfit("a single element has no rows to lay out");
    if (panel > 0 && (prototype.extents.back() % panel != 0 || pad > 0))
      unfit("rows of " + std::to_string(prototype.extents.back()) + " elements in panels of " + std::to_string(panel));
    prototype.panel = panel;
    if (swizzle_bits > 0) prototype.swizzle = swizzle_of(prototype, swizzle_bits);
    if (pad > 0) prototype.strides = padded_strides(prototype, pad);
    map[alloc->buffer.get()] = make_buffer(std::move(prototype));
  });
  if (map.empty()) unfit("there is no shared copy of `" + buffer + "`");
  result.body = replace_buffers(unit.body, map);
  if (pad > 0) narrow_copies(result.body, map, pad);
  return result;
}

}  // namespace tcc::loop
