// Products summed over whole images on CUDA: gradients of a convolution's weights.
//
//   r[c, o, r, s] = sum over images n, rows h, columns w of  x[n, c, h + r - 1, w + s - 1] * dy[n, o, h, w]
//
// For each r and s that is a matmul of channels by channels whose sum has several dims. A block holds a tile of results and takes the sum a row of the image at
// a time (a whole image of 7 x 7, a part of a long row): boxes [channels, row] of both factors are copied to shared memory, zeros where they are outside of the
// image. There are few results and long sums, so images are cut into parts as in split_k.cpp.
#include <algorithm>

#include "schedule/cuda/thread_tiles.h"
#include "tcc/support/diagnostics.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Sums over windows of a kernel are shorter in their last dim, or altogether.
constexpr int64_t kNarrowestImage = 7, kShortestSum = 1024;
/// Of the sum that one step takes, at most.
constexpr int64_t kMostAtOnce = 64, kMostOfARow = 32;
/// Products of one element after the other that don't come in accesses of several.
constexpr int64_t kMostUnrolled = 8;
/// Bytes of one stage of both copies, so that two blocks of two or three stages fit a multiprocessor.
constexpr int64_t kMostStageBytes = 36 << 10;
constexpr int kStages = 3;
/// Accesses of one thread that copy a step: their addresses are kept in registers.
constexpr int64_t kMostCopies = 96;

/// The sum's dims are images and what a step takes of one.
struct Step {
  bool image = false;  ///< rows and columns; else columns alone
  int64_t columns = 0;
  int64_t length(const Contraction& c) const { return columns * (image ? c.k_dims[c.k_dims.size() - 2]->extent : 1); }
};

/// Extent of the box that the factor reads along an axis in a step.
int64_t box_along(const Factor& factor, int axis, const Contraction& c, const Step& step) {
  int64_t extent = 1;
  for (const Term& term : factor.indices[static_cast<size_t>(axis)].terms()) {
    if (term.atom.kind != Atom::Kind::var) continue;
    if (term.atom.var == c.k_dims.back()) extent += std::abs(term.coefficient) * (step.columns - 1);
    if (step.image && term.atom.var == c.k_dims[c.k_dims.size() - 2]) extent += std::abs(term.coefficient) * (term.atom.var->extent - 1);
  }
  return extent;
}

/// Elements of a channel's box: one row of the copy after the other.
int64_t box_of(const Factor& factor, const Contraction& c, const Step& step) {
  const int last = static_cast<int>(factor.indices.size()) - 1;
  int64_t rows = 1;
  for (int axis = 0; axis < last; axis++) rows *= box_along(factor, axis, c, step);
  return rows * box_along(factor, last, c, step);
}

int64_t access_of(const Step& step) { return step.columns % 4 == 0 ? 4 : step.columns % 2 == 0 ? 2 : 1; }

/// What rows are padded by so that there is an odd number of accesses between the copies of neighbouring channels: then these lie in different banks.
std::optional<int64_t> pad_of(const Factor& factor, const Contraction& c, const Step& step) {
  const int64_t access = access_of(step);
  const int64_t row = box_along(factor, static_cast<int>(factor.indices.size()) - 1, c, step), rows = box_of(factor, c, step) / row;
  for (int64_t pad = 0; pad <= 2 * access; pad++) {
    const int64_t channel = rows * (row + pad);
    if (channel % access == 0 && channel / access % 2 == 1 && (pad == 0 || (row + pad) % access == 0)) return pad;
  }
  return std::nullopt;
}

/// Whether the factor reads one element of a plain axis for each channel, and its images along memory.
bool reads_images(const Factor& factor, const VarRef& channel, const Contraction& c) {
  const int axis = factor.axis_of(channel.get()), last = static_cast<int>(factor.indices.size()) - 1;
  if (axis < 0 || axis == last || !(factor.indices[static_cast<size_t>(axis)] == Index(channel))) return false;
  if (!factor.buffer->strides.empty()) return false;
  for (const Index& index : factor.indices) {
    for (const Term& term : index.terms()) {
      if (term.atom.kind != Atom::Kind::var) return false;
    }
  }
  bool inside = false;
  const int64_t along = factor.indices[static_cast<size_t>(last)].coefficient_of(c.k_dims.back().get(), &inside);
  for (const VarRef& sum : c.k_dims) {
    if (sum->extent > 1 && !factor.uses(sum.get())) return false;
  }
  return along == 1 || along == 2;
}

std::optional<Matmul> as_conv_wgrad(const Contraction& c) {
  if (c.k_dims.size() < 2 || c.k_dims.back()->extent < kNarrowestImage || c.a.buffer == c.b.buffer) return std::nullopt;
  if (c.a.dilated || c.b.dilated) return std::nullopt;
  Matmul mm;
  const auto longest = [&](const std::vector<VarRef>& vars, const Factor& factor) {
    VarRef best;
    for (const VarRef& var : vars) {
      if (reads_images(factor, var, c) && (!best || var->extent > best->extent)) best = var;
    }
    return best;
  };
  mm.m = longest(c.m_dims, c.a);
  mm.n = longest(c.n_dims, c.b);
  if (!mm.m || !mm.n) return std::nullopt;
  for (const VarRef& var : c.dims) {
    if (var != mm.m && var != mm.n) mm.batch.push_back(var);
  }
  return mm;
}

/// Accesses that copy a step of the factor for so many channels.
int64_t copies_of(const Factor& factor, int64_t channels, const Contraction& c, const Step& step) {
  const int64_t together =
      copy_bytes(factor, box_along(factor, static_cast<int>(factor.indices.size()) - 1, c, step)) / size_bytes(factor.buffer->dtype);
  return channels * box_of(factor, c, step) / together;
}

/// The longest step whose copies for the tile leave room for others.
std::optional<Step> step_for(const Contraction& c, const ThreadTile& tile) {
  const int64_t width = c.k_dims.back()->extent, height = c.k_dims[c.k_dims.size() - 2]->extent;
  std::vector<Step> steps;
  if (c.k_dims.size() > 2 && width * height <= kMostAtOnce) steps.push_back({true, width});
  for (int64_t columns = std::min(width, kMostOfARow); columns >= kNarrowestImage; columns--) {
    if (width % columns == 0 && (columns % 4 == 0 || columns == width || width % 4 != 0)) steps.push_back({false, columns});
  }
  for (const Step& step : steps) {
    const int64_t bytes =
        tile.m * box_of(c.a, c, step) * size_bytes(c.a.buffer->dtype) + tile.n * box_of(c.b, c, step) * size_bytes(c.b.buffer->dtype);
    const int64_t copies = copies_of(c.a, tile.m, c, step) + copies_of(c.b, tile.n, c, step);
    if (copies > kMostCopies * tile.threads_m * tile.threads_n) continue;
    if (bytes <= kMostStageBytes && pad_of(c.a, c, step) && pad_of(c.b, c, step)) return step;
  }
  return std::nullopt;
}

void schedule_conv_wgrad(Chooser& chooser, const Contraction& c, const Matmul& mm, const ThreadTile& tile, const Step& step) {
  const int64_t access = access_of(step);
  const std::vector<std::string> per_thread = spread_tiles(chooser, mm, tile, false, false);
  std::string columns = c.k_dims.back()->name;
  std::vector<std::string> outer;
  for (size_t i = 0; i + (step.image ? 2 : 1) < c.k_dims.size(); i++) outer.push_back(c.k_dims[i]->name);
  if (step.columns < c.k_dims.back()->extent) {
    chooser.split(columns, step.columns);
    outer.push_back(columns + "_0");
    columns += "_1";
  }
  std::string steps = outer[0];
  for (size_t i = 1; i < outer.size(); i++) steps = chooser.fuse(steps, outer[i]);
  int64_t unrolled = access;
  for (int64_t few = 2; access == 1 && few <= kMostUnrolled; few++) {
    if (step.columns % few == 0) unrolled = few;
  }
  if (unrolled > 1 && step.columns > unrolled) {
    chooser.split(columns, unrolled);
    columns += "_1";
  }
  chooser.unroll(columns);
  tile_per_thread(chooser, c, per_thread);
  stage_factor(chooser, c.b, steps, 0, *pad_of(c.b, c, step));
  stage_factor(chooser, c.a, steps, 0, *pad_of(c.a, c, step));
  const auto bytes = [&](const Factor& factor) {
    return copy_bytes(factor, box_along(factor, static_cast<int>(factor.indices.size()) - 1, c, step));
  };
  if (std::min(bytes(c.a), bytes(c.b)) >= kFewestCopiedAhead)
    chooser.add("pipeline", {Chooser::arg(steps), Chooser::arg(int64_t{kStages})});
}

}  // namespace

WhyNot conv_wgrad(CudaNest& nest) {
  if (!nest.nest.contraction) return nest.nest.not_contraction;
  Chooser& chooser = nest.chooser;
  const Contraction& c = *nest.nest.contraction;
  const std::optional<Matmul> mm = as_conv_wgrad(c);
  if (!mm) return "it is not summed over images that both factors read along memory";
  if (c.length() < kShortestSum) return "a sum of " + std::to_string(c.length()) + " is short";
  if (!c.contiguous) return "results are not neighbours along a dim";
  const Target& target = chooser.target();
  std::vector<TileShape> shapes;
  std::vector<ThreadTile> tiles;
  for (const ThreadTile& tile : thread_tiles()) {
    if (tile.m > mm->m->extent || tile.n > mm->n->extent || !step_for(c, tile)) continue;
    tiles.push_back(tile);
    shapes.push_back({tile.m, tile.n, tile.efficiency});
  }
  if (tiles.empty()) return "no tile fits " + std::to_string(mm->m->extent) + " x " + std::to_string(mm->n->extent) + " channels";
  // Parts are whole images.
  const int64_t image = c.length() / c.k_dims[0]->extent;
  const MatmulShape shape = shape_of(c, *mm, image, target.flops_per_ns * kExactRate, kExactRateAlone, target);
  std::vector<double> times;
  for (const TileShape& tile : shapes) times.push_back(whole_sum_ns(tile, shape, target));
  const size_t whole = chooser.decide("tile", times, static_cast<size_t>(std::min_element(times.begin(), times.end()) - times.begin()));
  const SplitK cut = choose_split_k(shapes, shapes[whole], shape, chooser);
  if (cut.parts == 1) {
    schedule_conv_wgrad(chooser, c, *mm, tiles[whole], *step_for(c, tiles[whole]));
    return std::nullopt;
  }
  const std::optional<Contraction> part = as_contraction(chooser.find(split_sum(chooser, c, cut.parts, 0)));
  const std::optional<Matmul> matmul = part ? as_conv_wgrad(*part) : std::nullopt;
  if (!matmul) internal_error("a part of the sum `" + c.accumulator + "` over images is none");
  const std::optional<Step> step = step_for(*part, tiles[cut.tile]);
  if (!step) internal_error("a part of the sum `" + c.accumulator + "` has no step");
  schedule_conv_wgrad(chooser, *part, *matmul, tiles[cut.tile], *step);
  schedule_sum_of_parts(chooser, nest.first());
  return std::nullopt;
}

}  // namespace tcc::schedule::cuda
