// Convolutions on the host: rows shorter than a vector, or read with a stride, are spread out (im2col); of others what an item reads of the image is copied first, so that inner loops
// read whole vectors without masks. Rows that neighbouring items share would be copied by each of them, and again for each part of the channels: where that
// is much, the whole image is copied before.
#include <algorithm>

#include "schedule/cpu/nest.h"
#include "tcc/loop/edit.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cpu {

using namespace tcc::loop;

namespace {

/// Results of a row that are worth a vector; terms of a sum and results for each element that are worth spreading the input out.
constexpr int64_t kShortestVector = 8, kShortestSum = 64, kFewestReuses = 8;

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

WhyNot CpuNest::staged_tile() {
  const Operands& o = operands_;
  const std::vector<loop::Dim>&dims = map_, &reduced = reduced_;
  const loop::Dim& vector = vector_ ? *vector_ : dims.back();
  const bool a_moves = moves(o.a, vector.var.get());
  const Access& moving = a_moves ? o.a : o.b;
  const Access& other = a_moves ? o.b : o.a;
  const std::optional<int64_t> stride = stride_of(moving, vector.var.get());
  if (moves(other, vector.var.get()) || moving.buffer == other.buffer || !stride || *stride < 1)
    return "not one operand alone varies along the vectors";
  const bool odd = vector.var->extent % lanes_ != 0 && reduced.size() > 1;  // part of a vector would load element by element
  if (!moving.guarded && *stride == 1 && !odd) return "vectors load whole and without a mask as it is";
  const size_t last = moving.indices.size() - 1;
  if (moving.indices[last].coefficient_of(vector.var.get()) != *stride) return "the vectors are not along the last axis";
  for (const Index& index : moving.indices) {
    for (const Term& term : index.terms()) {
      if (term.atom.kind != Atom::Kind::var || term.coefficient < 0) return "an index is not a sum of loops";
    }
  }
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
  stage_image(moving, *stride, at);
  return std::nullopt;
}

}  // namespace tcc::schedule::cpu
