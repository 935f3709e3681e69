// Contractions on tensor cores: f16 and bf16, i8 and u8, and f32 where the target allows tf32. Tiles of 128 x 256 x 32 and smaller (x 64 of 8 bits), copied ahead
// by cp.async, mma.sync on register tiles. Factors of 8 bits without an instruction are copied in 16 bits, which hold them.
//
//   split(i, 128) split(j, 256) ... bind(i_0_0, block) bind(j_0, block) ... split(k, 32) tile(v0, i_1, j_1)
//   stage(a1, shared, at=k_0, by=loops, swizzle=2) stage(a0, shared, at=k_0, by=loops, swizzle=2) tensorize(v0, m16n8k16, 2, 4) pipeline(k_0, 4)
//
// Copies by loops bring operands of any layout into the two axes that the instruction reads, so that it does not matter how dims lie in memory, nor how many of
// them are rows, columns or summed: those of one side are fused first (batch and sequence of a linear layer, the pixels of an image, channels and window of a
// convolution). How many of them, and which tile: the one with the least time by waves of blocks over the multiprocessors, given how well a tile of that size
// uses one of them and what accesses narrower than 16 bytes cost. A long sum with few tiles is cut into parts (split_k.cpp), which then are scheduled as a batch.
#include <algorithm>
#include <bit>
#include <numeric>

#include "schedule/cuda/forms.h"
#include "schedule/cuda/matmul.h"
#include "schedule/cuda/turned_factor.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/primitives.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

struct MmaTile {
  int64_t m, n, warps_m, warps_n;
  double efficiency;  ///< share of the multiprocessor's rate that the tile reaches
  int64_t step = 0;   ///< of the sum, that a block takes at a time
};
constexpr MmaTile kMmaTiles[] = {
    {128, 256, 2, 4, 1.00}, {256, 128, 4, 2, 0.95}, {128, 128, 2, 2, 0.80}, {128, 128, 2, 4, 0.75},
    {64, 128, 2, 2, 0.55},  {128, 64, 2, 2, 0.55},  {64, 64, 2, 2, 0.40},   {32, 128, 1, 4, 0.35},
    {32, 64, 1, 2, 0.25},   {16, 128, 1, 4, 0.20},  {16, 64, 1, 2, 0.15},   {16, 32, 1, 1, 0.08},
    {128, 32, 4, 1, 0.35},  {64, 32, 2, 1, 0.25},   {128, 16, 4, 1, 0.20},  {64, 16, 2, 1, 0.15},
};
/// No tile has fewer rows or columns.
constexpr int64_t kSmallestSide = 16;

/// Of a sum that is worth it.
constexpr int64_t kShortestSum = 16;
/// Of the sum, that one step takes: at least, and where it is long enough.
int64_t least_step(const TensorCore& core) { return std::max(kShortestSum, core.k); }
int64_t step_of(const TensorCore& core, int64_t sum) { return sum < 2 * least_step(core) ? least_step(core) : 2 * least_step(core); }
/// Instructions of a thread for one access of a copy; for a result whose address takes divisions, shared by a row or column of them; for one under a mask.
constexpr double kCopyInstructions = 12, kDivisionInstructions = 4, kMaskInstructions = 8;

/// Registers of a thread: beside accumulators and copies, and of each access of a copy. Up to `kFewAccesses` are stored late, those of more at once.
constexpr int64_t kRegistersBeside = 64, kRegistersOfAddress = 3, kRegistersOfCondition = 1, kRegistersOfValue = 2, kFewAccesses = 16;

/// Swizzle bits for rows of a staged matrix that ldmatrix reads: 16-byte pieces of eight rows in different banks.
int64_t swizzle_bits(int64_t row_bytes) {
  if (!std::has_single_bit(static_cast<uint64_t>(row_bytes)) || row_bytes < 32) return 0;
  return std::min<int64_t>(3, std::countr_zero(static_cast<uint64_t>(row_bytes)) - 4);
}

/// A contraction, and what its nest and target say about the time of its forms.
class Product {
 public:
  Product(const Contraction& c, const Loop& nest, const TensorCore& core, const Target& target)
      : c_(c), nest_(nest), core_(core), target_(target), step_(step_of(core, c.length())) {
    for (const Stmt& stmt : nest.body) {
      if (std::holds_alternative<Reduce>(stmt.node)) continue;
      for (const Access& access : accesses_of(Block{stmt})) results_.push_back(access);
    }
  }

  struct Choice {
    Form form;
    MmaTile tile;
    double ns = 0;
  };

  /// The one with the least time; `chooser` (null: that one) may want another.
  std::optional<Choice> choose(const Chooser* chooser) const {
    std::vector<Choice> choices;
    std::vector<double> times;
    size_t best = 0;
    for (const Form& form : forms_of(c_, nest_)) {
      if (!core_.transposed && !(is_contiguous(c_.a, form.k) && is_contiguous(c_.b, form.k))) continue;
      for (const MmaTile& tile : tiles_for(form)) {
        const double ns = time_ns(form, tile);
        choices.push_back({form, tile, ns});
        times.push_back(ns);
        const Choice& least = choices[best];
        // Of forms whose blocks run in as many waves, the one with fewer blocks has less to do.
        if (ns < least.ns ||
            (ns == least.ns && tile.m * tile.n == least.tile.m * least.tile.n && blocks(form, tile) < blocks(least.form, least.tile)))
          best = choices.size() - 1;
      }
    }
    if (choices.empty()) return std::nullopt;
    return choices[chooser ? chooser->decide("form and tile", times, best) : best];
  }

  std::vector<MmaTile> tiles_for(const Form& form) const {
    std::vector<MmaTile> tiles;
    for (MmaTile tile : kMmaTiles) {
      for (tile.step = step_; tile.step >= least_step(core_) && !fits(tile, form);) tile.step /= 2;
      if (tile.step >= least_step(core_)) tiles.push_back(tile);
    }
    return tiles;
  }

  /// The tile and what it reaches of the rate for this form.
  TileShape shape_of(const Form& form, const MmaTile& tile) const { return {tile.m, tile.n, efficiency(form, tile)}; }

  MatmulShape shape_of(const Form& form) const {
    MatmulShape shape{iterations(form.batch),
                      std::max(form.rows(), kSmallestSide),
                      std::max(form.columns(), kSmallestSide),
                      c_.length(),
                      step_,
                      core_.flops_per_ns / target_.cores};
    shape.bytes_read = bytes_of(*c_.a.buffer) + bytes_of(*c_.b.buffer);
    return shape;
  }

  int64_t step() const { return step_; }

 private:
  bool fits(const MmaTile& tile, const Form& form) const {
    const auto side = [](int64_t extent, int64_t tile) { return tile <= 2 * kSmallestSide || tile < 2 * extent; };
    if (!side(form.rows(), tile.m) || !side(form.columns(), tile.n)) return false;
    // Copies take registers for addresses and conditions; few ones without cp.async for their values, too, while the step before is computed.
    const int64_t threads = tile.warps_m * tile.warps_n * target_.warp_threads;
    const auto held = [&](const Factor& factor, int64_t rows, int64_t width) {
      const int64_t accesses = ceil_div(rows * tile.step / width, threads);
      if (width * size_bytes(factor.buffer->dtype) >= kFewestCopiedAhead && !factor.narrowed) return accesses * kRegistersOfAddress;
      // What is widened or computed waits in 16 bits.
      const int64_t values = factor.narrowed && factor.bits() <= 8 ? width * size_bytes(factor.dtype()) / 4 : width;
      return accesses * (kRegistersOfAddress + (accesses <= kFewAccesses ? kRegistersOfValue + values : kRegistersOfCondition));
    };
    const int64_t registers = tile.m * tile.n / threads + held(c_.a, tile.m, form.a_width) + held(c_.b, tile.n, form.b_width);
    return registers + kRegistersBeside <= target_.thread_registers;
  }

  /// Of the multiprocessor's rate, given what the copies take beyond those of 16 bytes.
  double efficiency(const Form& form, const MmaTile& tile) const {
    const double instructions_per_ns = target_.flops_per_ns / target_.cores / 2;
    const double products = 2.0 * static_cast<double>(tile.m * tile.n * tile.step) / (core_.flops_per_ns / target_.cores * tile.efficiency);
    const auto more = [&](const Factor& factor, int64_t side, int64_t width) {
      return static_cast<double>(side * tile.step) / static_cast<double>(width) -
             static_cast<double>(side * tile.step * size_bytes(factor.dtype())) / kWidestAccess;
    };
    const double narrow = more(c_.a, tile.m, form.a_width) + more(c_.b, tile.n, form.b_width);
    return tile.efficiency * products / (products + std::max(0.0, narrow) * kCopyInstructions / instructions_per_ns);
  }

  static int64_t blocks(const Form& form, const MmaTile& tile) {
    return iterations(form.batch) * ceil_div(form.rows(), tile.m) * ceil_div(form.columns(), tile.n);
  }

  double time_ns(const Form& form, const MmaTile& tile) const {
    const double step =
        2.0 * static_cast<double>(tile.m * tile.n * tile.step) / (core_.flops_per_ns / target_.cores * efficiency(form, tile));
    double ns = static_cast<double>(ceil_div(blocks(form, tile), target_.cores) * ceil_div(c_.length(), tile.step)) * step;
    const int64_t whole = iterations(form.batch) * (form.rows() / tile.m) * (form.columns() / tile.n);
    const double masked = 1 - static_cast<double>(whole) / static_cast<double>(blocks(form, tile));
    const double instructions =
        (form.divides ? kDivisionInstructions * static_cast<double>(results_.size()) : 0) + kMaskInstructions * masked;
    ns += instructions * static_cast<double>(c_.results()) / (target_.flops_per_ns / 2);
    return ns;
  }

  const Contraction& c_;
  const Loop& nest_;
  const TensorCore& core_;
  const Target& target_;
  int64_t step_;
  std::vector<Access> results_;  ///< of the epilogue, the store of the result among them
};

/// A copy by loops; returns whether it can run ahead of what reads it.
bool stage_operand(Chooser& chooser, const Factor& factor, const std::string& at) {
  const std::string& name = factor.buffer->name;
  // What it becomes says how its rows lie in the banks.
  const Unit staged = stage_by_loops(chooser.unit(), name, at, factor.narrowed);
  int64_t row_bytes = 0, access_bytes = 0;  // of the copy
  walk(staged.body, [&](const Stmt& stmt) {
    const auto* copy = std::get_if<Copy>(&stmt.node);
    if (!copy || copy->source->name != name) return;
    row_bytes = copy->destination->extents.back() * size_bytes(copy->destination->dtype);
    access_bytes = copy->vector_bytes;
  });
  std::vector<Argument> arguments{Chooser::arg(name), Chooser::arg("shared"), Chooser::key("at", at), Chooser::key("by", "loops")};
  if (factor.narrowed) arguments.push_back(Chooser::key("as", std::string(tcc::name_of(*factor.narrowed))));
  if (const int64_t bits = swizzle_bits(row_bytes); bits > 0) arguments.push_back({"swizzle", bits});
  chooser.add("stage", std::move(arguments));
  return access_bytes >= kFewestCopiedAhead && !factor.narrowed;
}

void schedule_tiles(Chooser& chooser, const Contraction& c, const Merged& names, const MmaTile& tile, const TensorCore& core) {
  const std::vector<std::string> batch = batch_dims(c, names);
  split_into_tiles(chooser, names.m, tile.m);
  split_into_tiles(chooser, names.n, tile.n);
  bind_tiles(chooser, batch, {names.m, tile.m}, {names.n, tile.n}, {names.m + "_1", names.n + "_1"});
  split_into_tiles(chooser, names.k, tile.step);
  chooser.add("tile", {Chooser::arg(c.accumulator), Chooser::arg(names.m + "_1"), Chooser::arg(names.n + "_1")});
  const bool b_ahead = stage_operand(chooser, c.b, names.k + "_0"), a_ahead = stage_operand(chooser, c.a, names.k + "_0");
  chooser.add("tensorize",
              {Chooser::arg(c.accumulator), Chooser::arg(std::string(core.name)), Chooser::arg(tile.warps_m), Chooser::arg(tile.warps_n)});
  // What no copy fills ahead of time needs no more than the stage that is read and the next.
  const int64_t stage_bytes = (tile.m + tile.n) * tile.step * size_bytes(c.a.dtype());
  const int64_t stages = a_ahead || b_ahead ? std::clamp<int64_t>(chooser.target().shared_bytes / stage_bytes, 2, 4) : 2;
  chooser.add("pipeline", {Chooser::arg(names.k + "_0"), Chooser::arg(stages)});
}

/// What does not fit the instruction and the copies for it.
WhyNot misfit(const Contraction& c, const TensorCore* core, const Target& target) {
  const DType dtype = c.a.dtype();
  for (const Factor* factor : {&c.a, &c.b}) {
    if (factor->computed && size_bits(*factor->narrowed) != 16)
      return "a factor is computed in " + std::string(tcc::name_of(*factor->narrowed));
  }
  if (!core) return "no instruction takes " + std::string(tcc::name_of(dtype));
  if (dtype == DType::f32 && !target.allow_tf32) return "products of f32 must be exact";
  return misfit_of_factors(c, core->takes(dtype, c.b.dtype()), kShortestSum);
}

}  // namespace

Contraction with_wide_bytes(Contraction c, const Target& target) {
  const TensorCore* core = target.tensor_core(c.a.dtype());
  if (c.dtype != DType::f32 || (core && core->takes(c.a.dtype(), c.b.dtype()) && sum_dtype(c.a.dtype()) == c.dtype)) return c;
  const auto is_half = [](const Factor& factor) { return is_float(factor.dtype()) && size_bits(factor.dtype()) == 16; };
  const DType wide = is_half(c.a) ? c.a.dtype() : is_half(c.b) ? c.b.dtype() : DType::f16;
  for (Factor* factor : {&c.a, &c.b}) {
    if (size_bits(factor->dtype()) <= 8 && factor->dtype() != DType::boolean) factor->narrowed = wide;
  }
  return c;
}

std::optional<double> tensor_cores_ns(const Contraction& given, const Loop& nest, const Target& target) {
  const Contraction c = with_wide_bytes(given, target);
  const TensorCore* core = target.tensor_core(c.a.dtype());
  if (misfit(c, core, target)) return std::nullopt;
  const std::optional<Product::Choice> choice = Product(c, nest, *core, target).choose(nullptr);
  return choice ? std::optional(choice->ns) : std::nullopt;
}

namespace {

/// The contraction with the sum along both factors, for an instruction that takes no other: copies in nests of their own. Nothing where they can't be made.
std::optional<Contraction> with_sum_inside(Chooser& chooser, const Contraction& c, const Loop& nest) {
  const std::vector<Form> forms = forms_of(c, nest);
  if (forms.empty()) return std::nullopt;
  const std::vector<VarRef>& k = forms.front().k;
  const std::string& dim = nest.dims[0].var->name;
  for (const Factor* factor : {&c.a, &c.b}) {
    if (!is_contiguous(*factor, k) && !can_turn(chooser, dim, *factor, k)) return std::nullopt;
  }
  for (const Factor* factor : {&c.a, &c.b}) {
    if (!is_contiguous(*factor, k)) turn(chooser, *factor, k);
  }
  return as_contraction(chooser.find(dim));
}

WhyNot schedule_product(Chooser& chooser, const Contraction& c, const TensorCore& core) {
  const Target& target = chooser.target();
  const Loop nest = std::get<Loop>(chooser.find(c.dims[0]->name).node);
  const Product product(c, nest, core, target);
  const std::optional<Product::Choice> choice = product.choose(&chooser);
  if (!choice)
    return core.transposed ? "it has no dim of rows or none of columns" : "no form has rows, columns, and a sum along both factors";
  const std::vector<MmaTile> tiles = product.tiles_for(choice->form);
  std::vector<TileShape> shapes;
  for (const MmaTile& tile : tiles) shapes.push_back(product.shape_of(choice->form, tile));
  MatmulShape shape = product.shape_of(choice->form);

  Chooser before = chooser;
  Merged merged = merge(chooser, c, choice->form);
  merged.contraction = with_wide_bytes(std::move(merged.contraction), target);
  shape.zeros_past_the_end = zeros_past_the_end(merged);
  const SplitK cut = choose_split_k(shapes, product.shape_of(choice->form, choice->tile), shape, chooser);
  if (cut.parts == 1) {
    schedule_tiles(chooser, merged.contraction, merged, choice->tile, core);
    return std::nullopt;
  }
  // Columns of the product that are no neighbours in the results are some in the parts.
  const VarRef& along = merged.contraction.contiguous;
  const bool as_merged = !along || along->name != merged.n;
  if (as_merged) {
    merged = merge(before, c, choice->form, true);
    chooser.take_over(std::move(before));
  }
  const std::string first = merged.contraction.dims[0]->name;
  merged = cut_sum(chooser, merged, cut.parts, product.step(), as_merged);
  merged.contraction = with_wide_bytes(std::move(merged.contraction), target);
  schedule_tiles(chooser, merged.contraction, merged, tiles[cut.tile], core);
  schedule_sum_of_parts(chooser, first);
  return std::nullopt;
}

/// The factor is computed by the copy, out of loads that stand in the sum.
WhyNot schedule_computed(Chooser& chooser, const Contraction& c, const TensorCore& core) {
  const std::vector<Form> forms = forms_of(c, std::get<Loop>(chooser.find(c.dims[0]->name).node));
  for (const Factor* factor : {&c.a, &c.b}) {
    if (!factor->computed) continue;
    // Halves of bytes are read in whole words.
    const bool fits = std::any_of(forms.begin(), forms.end(), [&](const Form& form) {
      return access_width(*factor, form.k) * factor->bits() >= 8 * kFewestCopiedAhead || factor->bits() >= 8;
    });
    if (!fits) return "elements of `" + factor->buffer->name + "` are not neighbours along the sum";
  }
  Chooser trial = chooser;
  trial.add("sink_lets", {Chooser::arg(c.accumulator)});
  const std::optional<Contraction> inside = as_contraction(trial.find(c.dims[0]->name));
  if (!inside) internal_error("the contraction `" + c.accumulator + "` with its lets inside is none");
  if (WhyNot why_not = schedule_product(trial, *inside, core)) return why_not;
  chooser.take_over(std::move(trial));
  return std::nullopt;
}

}  // namespace

WhyNot tensor_cores(CudaNest& nest) {
  if (!nest.nest.contraction) return nest.nest.not_contraction;
  const Target& target = nest.target();
  const Contraction c = with_wide_bytes(*nest.nest.contraction, target);
  const TensorCore* core = target.tensor_core(c.a.dtype());
  if (WhyNot why_not = misfit(c, core, target)) return why_not;
  if (c.a.computed || c.b.computed) return schedule_computed(nest.chooser, c, *core);
  const WhyNot why_not = schedule_product(nest.chooser, c, *core);
  if (!why_not || core->transposed) return why_not;
  Chooser copies = nest.chooser;
  const std::optional<Contraction> inside = with_sum_inside(copies, c, nest.loop());
  if (!inside || schedule_product(copies, *inside, *core)) return why_not;
  nest.chooser.take_over(std::move(copies));
  return std::nullopt;
}

}  // namespace tcc::schedule::cuda
