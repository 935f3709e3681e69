// Convolutions whose weights are constants. Vectors are of output channels: the weights are packed once into panels of neighbouring channels, and each
// pixel is broadcast.
//
//   copy the image once, with its padding, unless it has none
//   for each panel, an item of the pool {                                       w.packed[panel, c, p, q, 16 channels]
//     for each row of pixels, for each 6 of them { 12 vectors of sums: for c, p, q { 2 loads of the panel, 6 broadcasts, 12 multiply-adds };  store }
//   }
//
// Rows of pixels need not fill vectors, steps of a window cost nothing, and loads are aligned. What it takes is the store: neighbouring channels are not
// neighbours in memory, so each element is stored by itself, and so is what is read beside the products. A long sum is worth that.
//
// Without a window each term takes another line of the image, of which a tile uses a few elements: the image is then copied into panels of the tile's pixels.
#include <algorithm>

#include "schedule/cpu/nest.h"
#include "tcc/loop/edit.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cpu {

using namespace tcc::loop;

namespace {

/// In half cycles: an element that is stored or loaded by itself; a vector that is loaded from wherever a window stands.
constexpr double kElement = 2, kUnalignedLoad = 1;
/// ... an element of an image that is copied into panels: of pixels, a few of which are a vector that no register is as long as; of columns.
constexpr double kPixelPanels = 4, kColumnPanels = 1.2;

}  // namespace

WhyNot CpuNest::find_channels(Panels& panels, Access& image) const {
  if (nest().where) return "the nest is masked";
  const bool first = is_constant(operands_.a.buffer);
  if (first == is_constant(operands_.b.buffer)) return "not one operand alone is a constant";
  panels.packed = first ? operands_.a : operands_.b;
  image = first ? operands_.b : operands_.a;
  panels.constant = true;
  if (panels.packed.guarded) return "the weights end inside the sum";
  for (const loop::Dim& dim : map_) {
    const bool weights = moves(panels.packed, dim.var.get()), pixels = moves(image, dim.var.get());
    if (weights && !pixels && (!panels.columns || dim.var->extent > panels.columns->var->extent)) panels.columns = &dim;
    if (pixels && !weights) panels.rows = &dim;  // the last one: neighbours in memory
  }
  if (!panels.columns || !panels.rows) return "channels or pixels are one";
  if (stride_of(operands_.c, panels.columns->var.get()) == 1) return "results are neighbours along the channels";
  if (WhyNot why_not = find_axis(panels)) return why_not;
  int uses = 0;
  for (const Access& access : accesses_of(nest().body)) uses += access.buffer == panels.packed.buffer;
  if (uses != 1) return "the weights are read elsewhere, too";
  for (const loop::Dim& dim : map_) {
    if (&dim == panels.columns || &dim == panels.rows) continue;
    (moves(panels.packed, dim.var.get()) ? panels.outer : panels.inside).push_back(dim.var->name);
  }
  panels.depth = iterations(reduced_);
  const std::vector<Param>& params = c_.unit().params;
  if (std::none_of(params.begin(), params.end(), [&](const Param& param) { return param.buffer == image.buffer && !param.written; }))
    return "the image is made by the unit itself";
  if (!image.guarded) return std::nullopt;
  for (const Index& index : image.indices) {
    for (const Term& term : index.terms()) {
      if (term.atom.kind != Atom::Kind::var || term.coefficient < 0) return "an index is not a sum of loops";
    }
  }
  return std::nullopt;
}

Window CpuNest::window_of(const Access& image, const Var* pixels) const {
  const Var* steps = reduced_.back().var.get();  // unroll_steps
  const std::optional<int64_t> stride = stride_of(image, pixels), step = stride_of(image, steps);
  if (reduced_.size() == 1 || !stride || !step || *step == 0 || *stride % *step != 0) return {};
  return {steps->extent, *stride / *step};
}

WhyNot CpuNest::channels_in_vectors() {
  Panels panels;
  Access image;
  if (WhyNot why_not = find_channels(panels, image)) return why_not;
  const int64_t channels = panels.columns->var->extent, pixels = panels.rows->var->extent, depth = panels.depth;
  const TileSize tile = choose_tile(panels.rows, channels, Rest::peeled, kExposedLoad, window_of(image, panels.rows->var.get()));
  const int64_t width = tile.vectors * lanes_;
  if (static_cast<double>(align_up(channels, width)) > kLargestPadding * static_cast<double>(channels))
    return "channels fill " + std::to_string(channels) + " of " + std::to_string(align_up(channels, width)) + " elements of vectors";
  if (depth * width * size_bytes(panels.packed.buffer->dtype) > c_.target().l2_bytes / 2)
    return "a panel is larger than half of the second-level cache";
  // Beside pixels in vectors, for all terms of the sum.
  double elements = 0;
  for (const Access& access : accesses_of(nest().body)) {
    const std::optional<int64_t> stride = stride_of(access, panels.columns->var.get());
    if (access.buffer != panels.packed.buffer && stride != 0 && stride != 1) elements += static_cast<double>(channels * pixels);
  }
  Panels rows;  // of pixels
  rows.packed = image;
  rows.columns = panels.rows;
  const bool window = reduced_.size() > 1, copied = !window && tile.rows > 1;
  if (WhyNot why_not = copied ? find_axis(rows) : std::nullopt) return why_not;
  const std::vector<TileSize> others =
      tiles(panels.columns, pixels, window ? Rest::padded : Rest::peeled, window ? kUnalignedLoad : kExposedLoad);
  const TileSize other = others[cheapest(others)];
  const double copies = window ? 0 : (copied ? kPixelPanels : 0) - kColumnPanels;
  if ((tile.cost - other.cost + copies * static_cast<double>(pixels)) * static_cast<double>(depth) + kElement * elements > 0)
    return "results of " + std::to_string(depth) + " terms are stored faster by vectors of pixels";

  const PanelDims dims{panels.columns->var, panels.rows->var};
  const std::string v = dims.columns->name, u = dims.rows->name;
  const std::vector<std::string> registers = split_panel(dims, tile);
  std::vector<std::string> order = panels.outer;
  order.push_back(v + "_0");
  int64_t items = 1;
  for (const std::string& name : order) items *= c_.extent(name);
  // Where panels are few, items are parts of the pixels, too.
  std::vector<std::string> inside = panels.inside;
  inside.push_back(u + "_0");
  if (const int64_t parts = ceil_div(wanted_items(), items); parts > 1) {
    const auto longest = std::max_element(inside.begin(), inside.end(),
                                          [&](const std::string& a, const std::string& b) { return c_.extent(a) < c_.extent(b); });
    const std::string name = *longest;
    c_.split(name, nice_chunk(c_.extent(name), parts));
    order.push_back(name + "_0");
    *longest = name + "_1";
  }
  multiply_panels(dims, tile, order, inside, registers);
  if (copied) stage_panels(rows, tile.rows, "top");
  else if (image.guarded) stage_image(image, 1, "top");
  stage_panels(panels, width, "top");
  return std::nullopt;
}

}  // namespace tcc::schedule::cpu
