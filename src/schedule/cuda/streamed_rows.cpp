// Attention on the tensor cores of warpgroups: rows of scores that are normalised and multiplied with values, and never stored.
//
//   stream(m, 128, 128, 2, 240, 24)
//
// Which tile: the one with the least time by the rates of the tensor cores and of ordinary arithmetic, of which each score takes a dozen operations. Warpgroups
// of a block don't wait for each other, so that one multiplies while another takes exponentials.
#include <algorithm>
#include <optional>

#include "schedule/cuda/matmul.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/primitives.h"
#include "tcc/loop/streamed_rows.h"
#include "tcc/loop/tensor_map.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Fewer rows would leave most of a tile empty; shorter rows are read in one piece.
constexpr int64_t kFewRows = 32, kShortRow = 32;
/// A warpgroup that multiplies, and the one that has copies made.
constexpr int64_t kGroupThreads = 128, kGroupRows = 64, kLoadRegisters = 24;
/// Registers of a thread beside those of tiles; where scores take in what is read, such as a mask; where that ends within a tile.
constexpr int64_t kOtherRegisters = 48, kReadRegisters = 24, kGuardRegisters = 16;
constexpr int64_t kMostStages = 2;
/// Operations of ordinary arithmetic for each score: scale, mask, maximum, difference, exponential, sum, rounding; more where rows end within a tile.
constexpr double kOperations = 11, kTailOperations = 2;
/// Of the shorter of products and arithmetic, what is not done at the same time: with up to two warpgroups, with three. Measured on an H200.
constexpr double kApart = 0.4, kApartOfThree = 0.3;
/// Of each step, beside: waits for copies and products, exchanges between lanes. Measured on an H200: 230 to 270.
constexpr double kStepNs = 250;

struct StreamTile {
  int64_t rows, columns;
  int64_t stages = kMostStages, registers = 0;
  double ns = 0;
};

/// Fills in what follows from the size; false where it does not fit.
bool measure(StreamTile& tile, const StreamedRows& form, const Target& target) {
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  const int64_t k = form.first_k->extent, n = form.result->extent, groups = tile.rows / kGroupRows, size = 2;
  bool reads = false;
  visit(form.element, [&](const Expr& part) { reads = reads || part.kind == Expr::Kind::load; });
  const bool guarded = form.row->extent % tile.rows != 0 || form.column->extent % tile.columns != 0;
  const int64_t needed = tile.columns / 2 + tile.columns / 4 + n / 2 + kOtherRegisters + (reads ? kReadRegisters : 0) +
                         (reads && guarded ? kGuardRegisters : 0);
  const int64_t room = target.multiprocessor_registers - kGroupThreads * kLoadRegisters;
  tile.registers = std::min<int64_t>(room / (groups * kGroupThreads) / 8 * 8, (target.thread_registers - 1) / 8 * 8);
  if (tile.registers < needed) return false;
  const auto bytes = [&](int64_t stages) { return size * (tile.rows * k + stages * tile.columns * (k + n)) + 4096; };
  tile.stages = std::min<int64_t>(kMostStages, ceil_div(form.column->extent, tile.columns));
  while (tile.stages > 1 && bytes(tile.stages) > target.shared_bytes) --tile.stages;
  if (bytes(tile.stages) > target.shared_bytes) return false;

  int64_t blocks = ceil_div(form.row->extent, tile.rows);
  for (const loop::Dim& dim : form.dims) blocks *= dim.var == form.row ? 1 : dim.var->extent;
  const TensorCore* core = target.warpgroup_core(form.query->dtype);
  const double mma_ns = 2.0 * real(tile.rows * tile.columns * (k + n)) / (core->flops_per_ns / target.cores);
  const double operations = kOperations + (form.column->extent % tile.columns != 0 ? kTailOperations : 0);
  const double other_ns = real(tile.rows * tile.columns) * operations / (target.flops_per_ns / 2 / target.cores);
  const double step_ns = kStepNs + std::max(mma_ns, other_ns) + (groups < 3 ? kApart : kApartOfThree) * std::min(mma_ns, other_ns);
  const double latency_ns = target.second_kernel_ns - target.launch_ns;
  double steps = real(ceil_div(form.column->extent, tile.columns));
  if (form.diagonal && *form.diagonal < form.column->extent) steps = (steps + real(tile.rows) / real(tile.columns) + 1) / 2;
  tile.ns = real(ceil_div(blocks, int64_t{target.cores})) * (steps * step_ns + latency_ns);
  return true;
}

std::vector<StreamTile> tiles_for(const StreamedRows& form, const Target& target) {
  std::vector<StreamTile> tiles;
  for (const int64_t rows : {192, 128, 64}) {
    if (rows > kGroupRows && form.row->extent <= rows - kGroupRows) continue;
    for (int64_t columns = 256; columns >= 32; columns -= 16) {
      // Of sizes that take the same number of steps, the least.
      const bool is_least = ceil_div(form.column->extent, columns) != ceil_div(form.column->extent, columns - 16);
      StreamTile tile{rows, columns};
      if (is_least && measure(tile, form, target)) tiles.push_back(tile);
    }
  }
  return tiles;
}

}  // namespace

WhyNot streamed_rows(CudaNest& nest) {
  std::string why_not;
  const std::optional<StreamedRows> form = as_streamed_rows(Stmt{nest.loop()}, &why_not);
  if (!form) return why_not;
  const Target& target = nest.target();
  const DType dtype = form->query->dtype;
  if (size_bytes(dtype) != 2) return "the factors are " + std::string(tcc::name_of(dtype));
  if (!target.warpgroup_core(dtype))
    return "no instruction of a warpgroup takes " + std::string(tcc::name_of(dtype)) + " on " + target.name;
  const int64_t panel = kPanelBytes / size_bytes(dtype);
  if (form->first_k->extent % panel != 0 || form->result->extent % panel != 0)
    return "rows of factors are no multiples of " + std::to_string(panel) + " elements";
  if (form->row->extent < kFewRows || form->column->extent < kShortRow) return "few rows or columns of scores";
  const std::vector<StreamTile> tiles = tiles_for(*form, target);
  if (tiles.empty()) return "no tile fits";
  std::vector<double> times;
  for (const StreamTile& tile : tiles) times.push_back(tile.ns);
  const auto best = static_cast<size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  const StreamTile& tile = tiles[nest.chooser.decide("tile", times, best)];
  Chooser trial = nest.chooser;
  trial.add("stream", {Chooser::arg(form->maximum->name), Chooser::arg(tile.rows), Chooser::arg(tile.columns), Chooser::arg(tile.stages),
                       Chooser::arg(tile.registers), Chooser::arg(kLoadRegisters)});
  if (WhyNot misfit = misfit_of_copies(trial.unit(), {form->query->buffer->name, form->key->buffer->name, form->value->buffer->name}))
    return misfit;
  nest.chooser.take_over(std::move(trial));
  return std::nullopt;
}

}  // namespace tcc::schedule::cuda

namespace tcc::schedule {

bool has_streams(const Target& target) { return target.is_cuda() && target.warpgroup_core(DType::bf16) != nullptr; }

bool can_stream(const loop::Unit& unit, const Target& target) {
  if (!has_streams(target) || unit.body.size() != 1) return false;
  const auto* loop = std::get_if<loop::Loop>(&unit.body[0].node);
  if (!loop || loop->dims.empty()) return false;
  Chooser chooser(unit, target);
  cuda::CudaNest nest{chooser, recognise(unit.body[0])};
  return nest.nest.kind == NestKind::rows && !cuda::streamed_rows(nest);
}

}  // namespace tcc::schedule
