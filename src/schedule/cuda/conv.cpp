// Convolutions on CUDA as matmuls of channels by pixels, forward and with respect to the input:
//
//   r[b, o, h, w] = epilogue(sum over channels c, positions y, x of  image[b, c, h * 2 + y - 1, w * 2 + x - 1] * weight[o, c, y, x])
//
// A block holds a tile of output channels by pixels: some columns of some rows of some images, as the images' size has it (112 x 2, 28 x 8, a whole 14 x 14, four
// of 7 x 7). It takes the sum a few channels at a time: their weights, and the part of the images under the tile with its border, are copied to shared memory
// ahead of the products, zeros where they are outside of the image. A thread holds 8 channels by 8 pixels of a row (7, or 4 of two rows): with the positions of
// the kernel unrolled it loads each pixel once for all of them. Neighbouring threads take neighbouring channels, so a warp loads weights of 8 channels, which lie
// in different banks, and four pieces of rows.
//
// Where images and channels are few (7 x 7 for a small batch) the channels of the sum are cut into parts, as in split_k.cpp.
#include <algorithm>
#include <numeric>

#include "schedule/cuda/matmul.h"
#include "tcc/support/diagnostics.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Threads along the output channels, and pixels' threads at most.
constexpr int64_t kChannelThreads = 8, kMostPixelThreads = 32;
/// Positions of a kernel, at most; those that are unrolled.
constexpr int64_t kMostPositions = 64, kMostUnrolled = 9;
/// Products of a step that are unrolled altogether, at most.
constexpr int64_t kMostProducts = 1200;
/// Bytes of one stage of both copies, and of all stages, so that two blocks fit a multiprocessor.
constexpr int64_t kMostStageBytes = 36 << 10, kMostBytes = 100 << 10;
constexpr int64_t kMostStages = 3;
/// Accesses of one thread that copy a step.
constexpr int64_t kMostCopies = 18;
/// A step of a block that nothing else keeps busy.
constexpr double kStepNs = 400;
/// Registers of a thread beside one and a half for each result.
constexpr int64_t kRegistersBeside = 72;
/// Instructions for each element, or access of several, that a thread copies.
constexpr double kCopyInstructions = 12;
/// Share of the peak rate that direct.cpp reaches, and what a step takes that nothing hides.
constexpr double kDirectRate = 0.1, kDirectStepNs = 30;
/// Cutting the sum must save that much of the time.
constexpr double kWorthwhile = 0.85;
constexpr int64_t kMostParts = 16;

/// Accesses of the epilogue for each result, above which a thread holds half as many.
constexpr size_t kLongEpilogue = 8;

/// A convolution, and what its epilogue leaves to a thread.
struct Conv : Convolution {
  bool long_epilogue = false;
};

/// How a block's tile is made up. Those per thread are neighbours along rows and columns.
struct ConvTile {
  int64_t channels_per_thread = 8, rows_per_thread = 1, columns_per_thread = 8;
  int64_t image_threads = 1, row_threads = 1, column_threads = 1;
  int64_t step = 1;  ///< of the summed channels
  int64_t threads() const { return kChannelThreads * image_threads * row_threads * column_threads; }
  int64_t channels() const { return kChannelThreads * channels_per_thread; }
  int64_t rows() const { return rows_per_thread * row_threads; }
  int64_t columns() const { return columns_per_thread * column_threads; }
  int64_t results_per_thread() const { return channels_per_thread * rows_per_thread * columns_per_thread; }
};

/// Extents of the box of a factor that a step of the tile reads.
std::vector<int64_t> box_of(const Factor& factor, const Conv& conv, const ConvTile& tile) {
  std::vector<int64_t> box;
  const auto extent_of = [&](const Index& index) {
    int64_t extent = 1;
    for (const Term& term : index.terms()) {
      const VarRef& var = term.atom.var;
      int64_t along = 1;
      if (var == conv.out_channels) along = tile.channels();
      else if (var == conv.images) along = tile.image_threads;
      else if (var == conv.rows) along = tile.rows();
      else if (var == conv.columns) along = tile.columns();
      else if (var == conv.in_channels) along = tile.step;
      else if (std::find(conv.window.begin(), conv.window.end(), var) != conv.window.end()) along = var->extent;
      extent += std::abs(term.coefficient) * (std::min(along, var->extent) - 1);
    }
    return extent;
  };
  for (const Index& index : factor.indices) {
    const bool divided = !index.terms().empty() && index.terms()[0].atom.kind == Atom::Kind::floor_div;
    int64_t extent = 1;
    if (divided) {  // tiles start at multiples of the divisor
      const Atom& atom = index.terms()[0].atom;
      const int64_t start = ((atom.operand->constant() % atom.divisor) + atom.divisor) % atom.divisor;
      extent = (start + extent_of(*atom.operand) - 1) / atom.divisor + 1;
    } else {
      extent = extent_of(index);
    }
    box.push_back(extent);
  }
  return box;
}

int64_t padded_bytes(const Factor& factor, const std::vector<int64_t>& box, int64_t pad) {
  size_t row = box.size();
  while (row > 1 && box[row - 1] == 1) row--;
  int64_t count = 1;
  for (size_t axis = box.size(); axis-- > 0;) count = count * box[axis] + (axis + 1 == row ? pad : 0);
  return count * size_bytes(factor.buffer->dtype);
}

/// Rows of the images' copy start where four pixels are one access.
int64_t pad_of_images(const Conv& conv, const ConvTile& tile, const Factor& factor) {
  const std::vector<int64_t> box = box_of(factor, conv, tile);
  return tile.columns_per_thread % 4 == 0 && box.back() > 1 ? (4 - box.back() % 4) % 4 : 0;
}

/// Whether the weights of an output channel are neighbours in memory.
bool sums_along_weights(const Factor& weights, const Conv& conv) {
  return weights.axis_of(conv.in_channels.get()) > weights.axis_of(conv.out_channels.get());
}

/// Weights of neighbouring channels are in different banks.
int64_t pad_of_weights(const Conv& conv, const ConvTile& tile, const Factor& factor) {
  const std::vector<int64_t> box = box_of(factor, conv, tile);
  const size_t channels = static_cast<size_t>(factor.axis_of(conv.out_channels.get()));
  size_t row = box.size();
  while (row > 1 && box[row - 1] == 1) row--;
  if (channels + 1 >= row) return 0;
  int64_t rows = 1;
  for (size_t axis = channels + 1; axis + 1 < row; axis++) rows *= box[axis];
  // Three weights of a kernel's row are one access, or two, where rows of them start at multiples of four.
  if (row == box.size() && box.back() == 3 && !sums_along_weights(factor, conv)) return 1;
  for (int64_t pad = 0; pad <= 4; pad += 4) {
    if (rows * (box[row - 1] + pad) % 8 != 0) return pad;
  }
  return 0;
}

/// Whether all products of a step are unrolled, so that weights of neighbouring channels of the sum are loaded together.
bool unrolls_step(const Contraction& c, const Conv& conv, const ConvTile& tile) {
  const int64_t positions = tile.step * conv.positions;
  return conv.positions > 1 && conv.positions <= kMostUnrolled && positions % 4 == 0 && sums_along_weights(c.a, conv) &&
         positions * tile.results_per_thread() <= kMostProducts;
}

int64_t stage_bytes(const Contraction& c, const Conv& conv, const ConvTile& tile) {
  return padded_bytes(c.a, box_of(c.a, conv, tile), pad_of_weights(conv, tile, c.a)) +
         padded_bytes(c.b, box_of(c.b, conv, tile), pad_of_images(conv, tile, c.b));
}

/// Accesses of a thread for the copies of a step; each keeps its addresses in registers.
int64_t copies_of(const Contraction& c, const Conv& conv, const ConvTile& tile) {
  const auto accesses = [&](const Factor& factor, int64_t pad) {
    const std::vector<int64_t> box = box_of(factor, conv, tile);
    int64_t elements = 1;
    for (const int64_t extent : box) elements *= extent;
    int64_t together = std::max<int64_t>(1, copy_bytes(factor, box.back()) / size_bytes(factor.buffer->dtype));
    if (pad > 0) together = std::gcd(together, pad);
    return ceil_div(ceil_div(elements, together), tile.threads());
  };
  return accesses(c.a, pad_of_weights(conv, tile, c.a)) + accesses(c.b, pad_of_images(conv, tile, c.b));
}

/// The largest step of the sum, a divisor of it, whose copies leave room for others; 0 when none does.
int64_t step_for(const Contraction& c, const Conv& conv, ConvTile tile) {
  const int64_t most = conv.positions == 1 ? 16 : conv.positions <= 4 ? 8 : conv.positions <= kMostUnrolled ? 4 : 2;
  for (int64_t step = most; step > 0; step--) {
    tile.step = step;
    if (conv.in_channels->extent % step == 0 && stage_bytes(c, conv, tile) <= kMostStageBytes && copies_of(c, conv, tile) <= kMostCopies)
      return step;
  }
  return 0;
}

struct Choice {
  ConvTile tile;
  int64_t parts = 1;
  double ns = 0;
};

double time_of(const Contraction& c, const Conv& conv, const ConvTile& tile, int64_t parts, const Target& target) {
  int64_t blocks = parts * ceil_div(conv.out_channels->extent, tile.channels()) * ceil_div(conv.columns->extent, tile.columns());
  if (conv.rows) blocks *= ceil_div(conv.rows->extent, tile.rows());
  if (conv.images) blocks *= conv.images->extent / tile.image_threads;
  for (const VarRef& var : conv.batch) blocks *= var->extent;
  // Instructions of a thread for the products of one position: loads of weights and pixels (four at a time where rows are aligned), its share of the copies.
  double weights = static_cast<double>(tile.channels_per_thread);
  if (sums_along_weights(c.a, conv)) weights *= conv.positions == 1 || unrolls_step(c, conv, tile) ? 0.3 : 1;
  else if (!conv.window.empty() && conv.window.back()->extent == 3) weights *= 0.7;
  const double row = static_cast<double>(box_of(c.b, conv, tile).back()) / static_cast<double>(tile.column_threads);
  const double across = conv.window.empty() ? 1 : static_cast<double>(conv.window.back()->extent);
  const double pixels = static_cast<double>(tile.rows_per_thread) / static_cast<double>(conv.base_dilation) * (row + across - 1) / across *
                        (tile.columns_per_thread % 4 == 0 ? 0.4 : 1);
  const double copies = kCopyInstructions * static_cast<double>(copies_of(c, conv, tile)) / static_cast<double>(tile.step * conv.positions);
  const double loads = weights + pixels;
  const double products = static_cast<double>(tile.results_per_thread()) / static_cast<double>(conv.base_dilation * conv.base_dilation);
  // Shared memory gives a warp one load a cycle, in which each scheduler computes.
  const double efficiency = 0.85 * std::min(products / (products + loads + copies), products / (target.schedulers * loads));
  // The fullest multiprocessor runs its blocks a few at a time; its schedulers take a warp each, and few warps leave latency unhidden.
  const int64_t warps = ceil_div(tile.threads(), target.warp_threads);
  const int64_t at_a_time = std::clamp<int64_t>(
      target.multiprocessor_registers / ((kRegistersBeside + tile.results_per_thread() * 3 / 2) * target.warp_threads * warps), 1, 4);
  const double step = 2.0 * target.fma_lanes * products * static_cast<double>(tile.step * conv.positions) /
                      (target.flops_per_ns / target.cores * efficiency);
  const auto together_ns = [&](int64_t count) {
    const double hidden = std::min(1.0, 0.4 + 0.05 * static_cast<double>(count * warps));
    return std::max(kStepNs, static_cast<double>(ceil_div(count * warps, target.schedulers)) * step / hidden);
  };
  const int64_t fullest = ceil_div(blocks, target.cores);
  double of_step = static_cast<double>(fullest / at_a_time) * together_ns(at_a_time);
  if (fullest % at_a_time != 0) of_step += together_ns(fullest % at_a_time);
  double ns = static_cast<double>(conv.in_channels->extent / parts / tile.step + 1) * of_step;
  if (parts > 1) ns += target.second_kernel_ns + 2.0 * static_cast<double>(parts * c.results() * 4) / target.bytes_per_ns;
  return ns;
}

std::vector<ConvTile> tiles_for(const Contraction& c, const Conv& conv) {
  std::vector<ConvTile> tiles;
  const int64_t width = conv.columns->extent, height = conv.rows ? conv.rows->extent : 1, images = conv.images ? conv.images->extent : 1;
  for (const int64_t channels_per_thread : {8, 4}) {
    if (kChannelThreads * channels_per_thread >= 2 * conv.out_channels->extent || (channels_per_thread > 4 && conv.long_epilogue)) continue;
    for (const auto& [rows_per_thread, columns_per_thread] : {std::pair<int64_t, int64_t>{1, 8}, {1, 7}, {2, 4}, {1, 4}, {4, 4}}) {
      // Which products are with zeros is the same for all threads.
      if (rows_per_thread % conv.base_dilation != 0 || columns_per_thread % conv.base_dilation != 0 ||
          (rows_per_thread == 4 && (conv.base_dilation == 1 || channels_per_thread > 4)))
        continue;
      if (columns_per_thread > width || rows_per_thread > height) continue;
      const int64_t across = ceil_div(width, columns_per_thread), down = ceil_div(height, rows_per_thread);
      const int64_t columns = ceil_div(across, ceil_div(across, kMostPixelThreads));
      for (int64_t rows = 1; rows <= std::min(down, kMostPixelThreads / columns); rows++) {
        // Masks must be about what a thread holds: other dims are divided evenly.
        if (height % (rows * rows_per_thread) != 0 && rows_per_thread == 1) continue;
        for (int64_t few = 1; few <= kMostPixelThreads / columns / rows && images % few == 0; few *= 2) {
          ConvTile tile{channels_per_thread, rows_per_thread, columns_per_thread, few, rows, columns};
          if (tile.threads() < 64 || tile.threads() % 32 != 0) continue;  // all threads take part in copies
          tile.step = step_for(c, conv, tile);
          if (tile.step > 0) tiles.push_back(tile);
        }
      }
    }
  }
  return tiles;
}

std::optional<Choice> choose_tile(const Contraction& c, const Conv& conv, const Chooser& chooser) {
  const Target& target = chooser.target();
  std::vector<Choice> choices;
  size_t best = 0;
  const std::vector<ConvTile> tiles = tiles_for(c, conv);
  for (const ConvTile& tile : tiles) {
    choices.push_back({tile, 1, time_of(c, conv, tile, 1, target)});
    if (choices.back().ns < choices[best].ns) best = choices.size() - 1;
  }
  if (choices.empty()) return std::nullopt;
  double best_ns = choices[best].ns * kWorthwhile;
  for (const ConvTile& tile : tiles) {
    for (int64_t parts = 2; parts <= kMostParts; parts++) {
      if (conv.in_channels->extent % (parts * tile.step) != 0 || conv.in_channels->extent / parts * conv.positions < 128) continue;
      choices.push_back({tile, parts, time_of(c, conv, tile, parts, target)});
      if (choices.back().ns >= best_ns) continue;
      best_ns = choices.back().ns;
      best = choices.size() - 1;
    }
  }
  std::vector<double> times;
  for (const Choice& choice : choices) times.push_back(choice.ns);
  return choices[chooser.decide("tile and parts of the sum", times, best)];
}

/// What the sum takes without shared copies: products at a low rate, steps one after the other in parts of it.
double direct_ns(const Contraction& c, const Target& target) {
  const double length = static_cast<double>(c.length());
  return std::max(2.0 * static_cast<double>(c.results()) * length / (target.flops_per_ns * kDirectRate),
                  kDirectStepNs * std::max(length / static_cast<double>(kMostParts), std::min(length, 64.0)));
}

void schedule_conv(Chooser& chooser, const Contraction& c, const Conv& conv, const ConvTile& tile) {
  std::vector<std::string> blocks, threads, per_thread;
  for (const VarRef& var : conv.batch) blocks.push_back(var->name);
  if (conv.images) {
    const std::string& images = conv.images->name;
    chooser.split(images, tile.image_threads);
    blocks.push_back(images + "_0");
    threads.push_back(images + "_1");
  }
  const auto along = [&](const VarRef& var, int64_t thread_count, int64_t per_thread_count) {
    const std::string& name = var->name;
    chooser.split(name, thread_count * per_thread_count);
    chooser.split(name + "_1", per_thread_count);
    blocks.push_back(name + "_0");
    threads.push_back(name + "_1_0");
    per_thread.push_back(name + "_1_1");
  };
  if (conv.rows) along(conv.rows, tile.row_threads, tile.rows_per_thread);
  along(conv.columns, tile.column_threads, tile.columns_per_thread);
  const std::string& channels = conv.out_channels->name;
  chooser.split(channels, tile.channels());
  chooser.split(channels + "_1", kChannelThreads);
  blocks.push_back(channels + "_0");
  threads.push_back(channels + "_1_1");
  per_thread.insert(per_thread.begin(), channels + "_1_0");
  std::vector<std::string> order = blocks;
  order.insert(order.end(), threads.begin(), threads.end());
  order.insert(order.end(), per_thread.begin(), per_thread.end());
  chooser.reorder(order);
  for (const std::string& dim : blocks) chooser.bind(dim, "block");
  for (const std::string& dim : threads) chooser.bind(dim, "thread");
  for (const std::string& dim : per_thread) chooser.unroll(dim);

  const std::string& sum = conv.in_channels->name;
  chooser.split(sum, tile.step);
  int64_t unrolled = 1;
  for (size_t i = conv.window.size(); i-- > 0;) {
    unrolled *= conv.window[i]->extent;
    if (unrolled > kMostUnrolled) break;
    chooser.unroll(conv.window[i]->name);
  }
  if (unrolls_step(c, conv, tile)) chooser.unroll(sum + "_1");
  if (conv.positions == 1 && tile.step % 4 == 0) {
    if (tile.step > 4) chooser.split(sum + "_1", 4);
    chooser.unroll(tile.step > 4 ? sum + "_1_1" : sum + "_1");
  }
  tile_per_thread(chooser, c, per_thread);
  if (conv.base_dilation > 1) chooser.add("skip_zeros", {Chooser::arg(c.accumulator)});
  stage_factor(chooser, c.b, sum + "_0", 0, pad_of_images(conv, tile, c.b));
  stage_factor(chooser, c.a, sum + "_0", 0, pad_of_weights(conv, tile, c.a));
  const int64_t stages = std::min(kMostStages, kMostBytes / stage_bytes(c, conv, tile));
  const int64_t bytes = std::min(size_bytes(c.a.buffer->dtype), size_bytes(c.b.buffer->dtype));
  if (bytes >= 4 && stages >= 2 && conv.in_channels->extent > tile.step)
    chooser.add("pipeline", {Chooser::arg(sum + "_0"), Chooser::arg(stages)});
}

}  // namespace

WhyNot conv(CudaNest& nest) {
  if (!nest.nest.convolution) return nest.nest.not_convolution;
  if (nest.nest.convolution->positions > kMostPositions) {
    return "the window has " + std::to_string(nest.nest.convolution->positions) + " positions";
  }
  Chooser& chooser = nest.chooser;
  const Contraction& c = *nest.nest.contraction;
  const Conv conv{*nest.nest.convolution, accesses_of(nest.loop().body).size() > kLongEpilogue + 2};
  const Target& target = chooser.target();
  const std::optional<Choice> choice = choose_tile(c, conv, chooser);
  if (!choice) return "no tile fits channels, rows and columns";
  if (choice->ns > direct_ns(c, target)) return "a thread for each result is faster than the best tile";
  if (choice->parts == 1) {
    schedule_conv(chooser, c, conv, choice->tile);
    return std::nullopt;
  }
  const std::optional<Contraction> part = as_contraction(chooser.find(split_sum(chooser, c, choice->parts, 0)));
  const std::optional<Convolution> conv_part = part ? as_convolution(*part) : std::nullopt;
  if (!conv_part) internal_error("a part of the convolution `" + c.accumulator + "` is none");
  schedule_conv(chooser, *part, {*conv_part}, choice->tile);
  schedule_sum_of_parts(chooser, nest.first());
  return std::nullopt;
}

}  // namespace tcc::schedule::cuda
