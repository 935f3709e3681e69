// Convolutions on the host: rows shorter than a vector, or read with a stride, are spread out (im2col); of others what an item reads of the image is copied first, so that inner loops
// read whole vectors without masks. Rows that neighbouring items share would be copied by each of them, and again for each part of the channels: where that
// is much, the whole image is copied before. Of convolutions that are of one channel each (depthwise) the plane of a channel is copied, where its rows are no whole vectors.
#include <algorithm>

#include "schedule/cpu/nest.h"
#include "tcc/loop/edit.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cpu {

using namespace tcc::loop;

namespace {

/// Results of a row that are worth a vector; terms of a sum and results for each element that are worth spreading the input out.
constexpr int64_t kShortestVector = 8, kShortestSum = 64, kFewestReuses = 8;

/// Of a tile of a plane: vectors of a row; vectors altogether, whose sums overlap; products that are unrolled altogether.
constexpr int64_t kMostPlaneVectors = 4, kMostPlaneSums = 8, kMostPlaneProducts = 200;

/// Where the items of the pool copy more than this times the whole image, it is copied once, before them.
constexpr double kMostCopies = 2;

/// Of the box of elements that an access reaches while each loop makes the steps that `steps_of` says. Indices are sums of loops, none of them backwards.
template <class StepsOf> int64_t bytes_read(const Access& access, const StepsOf& steps_of) {
  int64_t elements = 1;
  for (const Index& index : access.indices) {
    int64_t length = 1;
    for (const Term& term : index.terms()) length += term.coefficient * (steps_of(term.atom.var) - 1);
    elements *= length;
  }
  return elements * size_bytes(access.buffer->dtype);
}

int64_t largest_divisor(int64_t n, int64_t most) {
  int64_t divisor = std::min(n, most);
  while (n % divisor != 0) divisor--;
  return divisor;
}

}  // namespace

WhyNot CpuNest::im2col() {
  if (!may_.spread) return "it is what im2col left of a nest";
  const Loop& loop = std::get<Loop>(c_.find(first_).node);
  if (loop.dims.size() < 2 || loop.where) return "it is one dim, or masked";
  const Reduce* reduce = nullptr;
  for (const Stmt& stmt : loop.body) {
    if (const auto* found = std::get_if<Reduce>(&stmt.node)) reduce = found;
  }
  if (!reduce || iterations(reduce->dims) < kShortestSum) return "it is not a long sum";
  const Let* window = nullptr;
  bool contiguous = false;
  int64_t reuse = 1;
  for (const Stmt& stmt : reduce->body) {
    const auto* let = std::get_if<Let>(&stmt.node);
    if (!let || let->value->kind != Expr::Kind::load) continue;
    const Access access = accesses_of(let->value)[0];
    if (access.flat.uses_scalars()) return "an index comes from data";
    if (access.flat.uses(loop.dims.back().var.get())) {
      if (window) return "both operands vary along the results";
      window = let;
      for (const loop::Dim& dim : loop.dims) {
        if (!moves(access, dim.var.get())) reuse *= dim.var->extent;
      }
    } else {  // the weights: contiguous along the whole sum
      if (is_constant(access.buffer) && reduce->dims.size() > 1) return "its weights are constants";
      int64_t stride = 1;
      contiguous = true;
      for (size_t i = reduce->dims.size(); i-- > 0;) {
        contiguous = contiguous && (reduce->dims[i].var->extent == 1 || stride_of(access, reduce->dims[i].var.get()) == stride);
        stride *= reduce->dims[i].var->extent;
      }
    }
  }
  if (!window) return "no operand varies along the results";
  const loop::Dim& last = loop.dims.back();
  const std::vector<Index>& indices = window->value->indices;
  const bool strided =
      std::any_of(indices.begin(), indices.end(), [&](const Index& index) { return index.coefficient_of(last.var.get()) > 1; });
  if (!strided && reduce->dims.size() < 2) return "it is not a sum over a window";
  if (!strided && last.var->extent >= kShortestVector) return "rows of " + std::to_string(last.var->extent) + " results fill a vector";
  if (!contiguous) return "the weights are not contiguous along the sum";
  const Packing spread{.bytes = 4, .bytes_per_ns = c_.target().scalar_load_bytes_per_ns, .products = static_cast<double>(reuse)};
  if (reuse < kFewestReuses || (last.var->extent >= kShortestVector && !pays(spread, c_.target())))
    return "the input is read for " + std::to_string(reuse) + " results";
  const std::string name = window->scalar->name, first = loop.dims[0].var->name;
  std::string copied;
  for (const loop::Dim& dim : reduce->dims) {
    if (copied.empty() && moves(accesses_of(window->value)[0], dim.var.get())) copied = dim.var->name + "_at";
  }
  if (copied.empty()) return "the sum is along nothing of the window";
  c_.add("compute_at", {Chooser::arg(name), Chooser::arg(std::string("top")), Chooser::key("first", "sum")});
  schedule_nest(c_, copied, {});
  schedule_nest(c_, first, {.spread = false});
  return std::nullopt;
}

void CpuNest::stage_image(const Access& moving, int64_t stride, const std::string& at) {
  const bool whole = at == "top";
  std::vector<Argument> arguments{Chooser::arg(moving.buffer->name), Chooser::arg(std::string(whole ? "global" : "scratch")),
                                  Chooser::key("at", at)};
  if (stride > 1) arguments.push_back({"phases", stride});
  c_.add("stage", std::move(arguments));
  if (whole) {
    std::vector<std::string> outer;
    for (size_t i = 0; i + 1 < moving.indices.size() && i < 2; i++) outer.push_back(moving.buffer->name + "_" + static_cast<char>('a' + i));
    const std::string last = outer.back();
    c_.split(last, std::max<int64_t>(1, nice_chunk(c_.extent(last), kMaxItems)));
    outer.back() += "_0";
    for (const std::string& name : outer) c_.bind(name, "parallel");
  }
  if (stride == 1) {
    const std::string axis = moving.buffer->name + "_" + static_cast<char>('a' + moving.indices.size() - 1);
    const int64_t extent = c_.extent(axis);
    c_.split(axis, std::min<int64_t>(extent, extent % 16 == 0 ? 16 : lanes_));
    c_.vectorize(axis + "_1");
    c_.peel(axis + "_1");
  }
}

CpuNest::Walk CpuNest::dims_of_items(const Access& moving, const Access& other, const std::vector<std::string>& tiled) const {
  Walk walk;
  for (const loop::Dim& dim : map_) {
    const std::string& name = dim.var->name;
    if (std::find(tiled.begin(), tiled.end(), name) != tiled.end()) continue;
    const bool batch = !moves(moving, dim.var.get()) || moves(other, dim.var.get());
    if (!batch && dim.var->extent > 1) walk.along = &dim;
    walk.dims.push_back(name);
  }
  if (walk.along) {
    std::erase(walk.dims, walk.along->var->name);
    walk.dims.push_back(walk.along->var->name);
  }
  return walk;
}

WhyNot CpuNest::find_image(Image& image) const {
  image.vector = vector_ ? vector_ : &map_.back();
  const Var* vector = image.vector->var.get();
  const bool a_moves = moves(operands_.a, vector);
  image.moving = a_moves ? operands_.a : operands_.b;
  image.other = a_moves ? operands_.b : operands_.a;
  const std::optional<int64_t> stride = stride_of(image.moving, vector);
  if (moves(image.other, vector) || image.moving.buffer == image.other.buffer || !stride || *stride < 1)
    return "not one operand alone varies along the vectors";
  image.stride = *stride;
  // Part of a vector would load element by element.
  image.odd = image.vector->var->extent % lanes_ != 0 && reduced_.size() > 1;
  if (!image.moving.guarded && *stride == 1 && !image.odd) return "vectors load whole and without a mask as it is";
  if (image.moving.indices.back().coefficient_of(vector) != *stride) return "the vectors are not along the last axis";
  for (const Index& index : image.moving.indices) {
    for (const Term& term : index.terms()) {
      if (term.atom.kind != Atom::Kind::var || term.coefficient < 0) return "an index is not a sum of loops";
    }
  }
  return std::nullopt;
}

WhyNot CpuNest::staged_planes() {
  Image image;
  if (WhyNot why_not = find_image(image)) return why_not;
  if (rows_dim(map_, image.moving, image.other, image.vector->var.get())) return "an element of the input is read by several channels";
  const loop::Dim* rows = nullptr;
  std::vector<std::string> outer;
  for (const loop::Dim& dim : map_) {
    if (&dim != image.vector && moves(image.moving, dim.var.get()) && !moves(image.other, dim.var.get())) rows = &dim;
  }
  if (!rows || rows->var->extent == 1) return "there is one row of results";
  for (const loop::Dim& dim : map_) {
    if (&dim != image.vector && &dim != rows) outer.push_back(dim.var->name);
  }
  if (outer.empty()) return "there are no items to copy for";
  const int64_t columns = image.vector->var->extent;
  const std::vector<TileSize> whole = tiles(nullptr, columns, Rest::narrow);
  if (!image.odd && whole[cheapest(whole)].vectors * lanes_ >= columns) return "a tile of whole vectors covers a row, border and all";
  int64_t vectors = 1;
  for (int64_t v = 2; v <= kMostPlaneVectors; v++) {
    if (align_up(columns, v * lanes_) <= align_up(columns, vectors * lanes_)) vectors = v;
  }
  const int64_t width = vectors * lanes_,
                bytes = bytes_read(image.moving, [&](const loop::VarRef& var) {
                  if (var == image.vector->var) return align_up(columns, width);
                  const bool inside = var == rows->var ||
                                      std::any_of(reduced_.begin(), reduced_.end(), [&](const loop::Dim& dim) { return dim.var == var; });
                  return inside ? var->extent : int64_t{1};
                });
  if (bytes > c_.target().l2_bytes / 2) return "a copy is larger than half of the second-level cache";

  const std::string v = image.vector->var->name, u = rows->var->name;
  const int64_t height = largest_divisor(rows->var->extent, kMostPlaneSums / vectors);
  if (columns % width != 0) c_.add("split", {Chooser::arg(v), Chooser::arg(width), Chooser::key("tail", "pad")});
  else c_.split(v, width);
  const std::vector<std::string> registers = split_columns(v + "_1", width);
  c_.split(u, height);
  // Items of whole planes, as many in each as the pool needs few.
  std::vector<std::string> order(outer.begin(), outer.end() - 1);
  int64_t count = 1;
  for (const std::string& name : order) count *= c_.extent(name);
  const int64_t planes = c_.extent(outer.back()), each = largest_divisor(planes, std::max<int64_t>(1, count * planes / wanted_items()));
  c_.split(outer.back(), each);
  order.push_back(outer.back() + "_0");
  for (const std::string& name : order) c_.bind(name, "parallel");
  const std::string at = outer.back() + "_1";
  order.insert(order.end(), {at, u + "_0", v + "_0", u + "_1"});
  order.insert(order.end(), registers.begin(), registers.end());
  c_.reorder(order);
  if (iterations(reduced_) * height * vectors <= kMostPlaneProducts) {
    for (const loop::Dim& dim : reduced_) c_.unroll(dim.var->name);
    tile_registers(sum_, u + "_1", registers);
  } else {
    unroll_steps(reduced_);
    tile_registers(sum_, u + "_1", registers, two_level_sum(reduced_));
  }
  stage_image(image.moving, 1, at);
  return std::nullopt;
}

WhyNot CpuNest::staged_tile() {
  Image image;
  if (WhyNot why_not = find_image(image)) return why_not;
  const std::vector<loop::Dim>&dims = map_, &reduced = reduced_;
  const loop::Dim& vector = *image.vector;
  const Access &moving = image.moving, &other = image.other;
  const loop::Dim* rows = rows_dim(dims, moving, other, vector.var.get());
  if (!rows) return "the input is read for one row of results";
  const std::string v = vector.var->name, u = rows->var->name;

  const Walk walk = dims_of_items(moving, other, {v, u});
  std::vector<std::string> outer = walk.dims;
  const loop::Dim* walk_dim = walk.along;
  if (outer.empty()) return "there are no items to copy for";
  // How many steps of the last one fit the copy into the second-level cache's half.
  const TileSize size = choose_tile(rows, vector.var->extent, Rest::padded);
  const int64_t columns = size.vectors * lanes_;
  const auto copy_bytes = [&](int64_t steps) {
    return bytes_read(moving, [&](const loop::VarRef& var) {
      if (var == vector.var) return align_up(vector.var->extent, columns);
      if (walk_dim && var == walk_dim->var) return steps;
      return std::any_of(reduced.begin(), reduced.end(), [&](const loop::Dim& dim) { return dim.var == var; }) ? var->extent : 1;
    });
  };
  int64_t steps = walk_dim ? walk_dim->var->extent : 1;
  while (steps > 1 && copy_bytes(steps) > c_.target().l2_bytes / 2) steps = (steps + 1) / 2;
  if (copy_bytes(steps) > c_.target().l2_bytes / 2) return "a copy is larger than half of the second-level cache";

  const Items items = split_items(outer, steps);
  const int64_t steps_of_item = items.inside.empty() ? 1 : c_.extent(items.inside.back());
  if (columns > vector.var->extent) c_.add("split", {Chooser::arg(v), Chooser::arg(columns), Chooser::key("tail", "pad")});
  else c_.split(v, columns);
  const std::vector<std::string> registers = split_columns(v + "_1", columns);
  c_.split(u, size.rows);
  std::vector<std::string> order = items.parallel;
  int64_t count = 1;
  for (const std::string& name : order) count *= c_.extent(name);
  std::string tiles = u + "_0";
  const int64_t whole_bytes =
      bytes_read(moving, [&](const loop::VarRef& var) { return var == vector.var ? align_up(vector.var->extent, columns) : var->extent; });
  const Packing copied{.bytes = 4, .bytes_per_ns = c_.target().mixed_load_bytes_per_ns, .products = static_cast<double>(rows->var->extent)};
  if (const int64_t part = tiles_of_part(c_.extent(tiles), wanted_items() / count, copied); part < c_.extent(tiles)) {
    c_.split(tiles, part);
    order.push_back(tiles + "_0");
    count *= c_.extent(tiles + "_0");
    tiles += "_1";
  }
  const bool given = std::any_of(c_.unit().params.begin(), c_.unit().params.end(),
                                 [&](const Param& param) { return param.buffer == moving.buffer && !param.written; });
  const bool once = given && static_cast<double>(count * copy_bytes(steps_of_item)) > kMostCopies * static_cast<double>(whole_bytes);
  const std::string at = once ? "top" : order.back();
  for (const std::string& name : order) c_.bind(name, "parallel");
  order.push_back(tiles);
  order.insert(order.end(), items.inside.begin(), items.inside.end());
  order.insert(order.end(), {v + "_0", u + "_1"});
  order.insert(order.end(), registers.begin(), registers.end());
  c_.reorder(order);
  if (rows->var->extent % size.rows != 0) c_.peel(u + "_1");
  unroll_steps(reduced);
  tile_registers(sum_, u + "_1", registers, two_level_sum(reduced));
  stage_image(moving, image.stride, at);
  return std::nullopt;
}

}  // namespace tcc::schedule::cpu
