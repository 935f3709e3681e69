// Buffers, pipes and register tile layouts: what statements name.
#include <atomic>
#include <utility>

#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/tensor.h"

namespace tcc::loop {
namespace {

std::atomic<int> next_id{1};

}  // namespace

int64_t Buffer::count() const { return num_elements(extents); }

std::vector<int64_t> Buffer::element_strides() const { return strides.empty() ? row_major_strides(extents) : strides; }

int64_t Buffer::span() const {
  if (count() == 0) return 0;
  const std::vector<int64_t> steps = element_strides();
  int64_t last = 0;
  for (size_t axis = 0; axis < extents.size(); ++axis) last += (extents[axis] - 1) * steps[axis];
  return last + 1;
}

int64_t Buffer::row_padding() const {
  if (space != Space::global || strides.size() < 2 || strides.back() != 1) return 0;
  return strides[strides.size() - 2] - extents.back();
}

std::vector<int64_t> Buffer::padded_extents() const {
  std::vector<int64_t> result = extents;
  if (!result.empty()) result.back() += row_padding();
  return result;
}

BufferRef make_buffer(Buffer prototype) {
  prototype.id = next_id++;
  check(prototype.strides.empty() || prototype.strides.size() == prototype.extents.size(),
        "a buffer needs a stride for each axis, or none");
  return std::make_shared<const Buffer>(std::move(prototype));
}

BufferRef make_buffer(std::string name, DType dtype, std::vector<int64_t> extents, Space space) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.dtype = dtype;
  buffer.extents = std::move(extents);
  buffer.space = space;
  return make_buffer(std::move(buffer));
}

BufferRef make_parameter(std::string name, DType dtype, std::vector<int64_t> extents, int64_t row_padding) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.dtype = dtype;
  buffer.extents = std::move(extents);
  if (row_padding > 0) {
    std::vector<int64_t> rows = buffer.extents;
    rows.back() += row_padding;
    buffer.strides = row_major_strides(rows);
  }
  return make_buffer(std::move(buffer));
}

PipeRef make_pipe(std::string name, Pipe::Kind kind, int stages, std::vector<BufferRef> buffers) {
  auto pipe = std::make_shared<Pipe>();
  pipe->id = next_id++;
  pipe->name = std::move(name);
  pipe->kind = kind;
  pipe->stages = stages;
  pipe->buffers = std::move(buffers);
  check(stages >= 1, "a pipe needs a stage");
  return pipe;
}

std::string_view name_of(Bind bind) {
  switch (bind) {
    case Bind::none: return "none";
    case Bind::serial: return "serial";
    case Bind::unroll: return "unroll";
    case Bind::vector: return "vector";
    case Bind::block: return "block";
    case Bind::parallel: return "parallel";
    case Bind::thread: return "thread";
    case Bind::warp: return "warp";
    case Bind::lane: return "lane";
    case Bind::tile: return "tile";
  }
  internal_error("no such bind");
}

namespace {

/// Accumulators of parts_m x parts_n groups of warps, each warp of a group with 16 rows of every block of rows.
TileLayout accumulator_layout(int64_t m, int64_t n, int64_t parts_m, int64_t parts_n, int64_t group_warps) {
  using Level = TileDigit::Level;
  const int64_t rows = m / parts_m, columns = n / parts_n, block = 16 * group_warps;
  TileLayout layout;
  auto digit = [&](Level level, int axis, int64_t extent, int64_t stride) {
    if (extent > 1) layout.digits.push_back({level, axis, extent, stride});
  };
  digit(Level::reg, 0, rows / block, block);
  digit(Level::reg, 1, columns / 8, 8);
  digit(Level::reg, 0, 2, 8);
  digit(Level::reg, 1, 2, 1);
  digit(Level::lane, 0, 8, 1);
  digit(Level::lane, 1, 4, 2);
  digit(Level::warp, 0, parts_m, rows);
  digit(Level::warp, 1, parts_n, columns);
  digit(Level::warp, 0, group_warps, 16);
  return layout;
}

}  // namespace

TileLayout mma_accumulator_layout(int64_t m, int64_t n, int64_t warps_m, int64_t warps_n) {
  check(m % (16 * warps_m) == 0 && n % (8 * warps_n) == 0, "a tile of m16n8 accumulators is a multiple of 16 x 8 for each warp");
  return accumulator_layout(m, n, warps_m, warps_n, 1);
}

TileLayout warpgroup_accumulator_layout(int64_t m, int64_t n, int64_t groups_m, int64_t groups_n) {
  check(m % (64 * groups_m) == 0 && n % (8 * groups_n) == 0, "a tile of m64 accumulators is a multiple of 64 x 8 for each warpgroup");
  return accumulator_layout(m, n, groups_m, groups_n, 4);
}

int64_t count_of(const TileLayout& layout, TileDigit::Level level) {
  int64_t count = 1;
  for (const TileDigit& digit : layout.digits) count *= digit.level == level ? digit.extent : 1;
  return count;
}

int64_t registers_of(const TileLayout& layout) { return count_of(layout, TileDigit::Level::reg); }

TileLayout row_layout(const TileLayout& tile) {
  TileLayout rows;
  for (TileDigit digit : tile.digits) {
    if (digit.axis != 0) {
      if (digit.level == TileDigit::Level::reg) continue;
      digit.axis = 0;  // these lanes and warps hold the same rows
      digit.stride = 0;
    }
    rows.digits.push_back(digit);
  }
  return rows;
}

int64_t row_register(const TileLayout& tile, int64_t reg) {
  int64_t row = 0, radix = 1;
  for (size_t i = tile.digits.size(); i-- > 0;) {
    const TileDigit& digit = tile.digits[i];
    if (digit.level != TileDigit::Level::reg) continue;
    if (digit.axis == 0) {
      row += reg % digit.extent * radix;
      radix *= digit.extent;
    }
    reg /= digit.extent;
  }
  return row;
}

std::vector<int64_t> coordinates_of(const TileLayout& layout, int rank, int64_t reg, int64_t lane, int64_t warp) {
  std::vector<int64_t> coordinates(static_cast<size_t>(rank), 0);
  int64_t rest[3] = {reg, lane, warp};               // in the order of TileDigit::Level
  for (size_t i = layout.digits.size(); i-- > 0;) {  // the last digit of a level is its fastest
    const TileDigit& digit = layout.digits[i];
    int64_t& number = rest[static_cast<int>(digit.level)];
    coordinates[static_cast<size_t>(digit.axis)] += number % digit.extent * digit.stride;
    number /= digit.extent;
  }
  return coordinates;
}

}  // namespace tcc::loop
