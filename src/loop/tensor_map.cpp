#include "tcc/loop/tensor_map.h"

#include <algorithm>
#include <optional>

#include "tcc/loop/rewrite.h"
#include "tcc/support/diagnostics.h"

namespace tcc::loop {
namespace {

constexpr size_t kMostAxes = 5;
constexpr int64_t kStrideBytes = 16;  // what strides and rows of boxes are multiples of

int swizzle_bytes(const Swizzle& swizzle) { return swizzle.bits == 0 ? 0 : 16 << swizzle.bits; }

/// An axis of the array as the map sees it.
struct Axis {
  int64_t extent, stride;  ///< elements
  Index at;                ///< of the copy: a place, and a variable of its box or none
};

/// Whether a variable of the box is within a division. Those of the place of the box don't matter.
bool divides(const Index& index, const std::vector<VarRef>& box) {
  return std::any_of(index.terms().begin(), index.terms().end(), [&](const Term& term) {
    const Index* operand = term.atom.operand.get();
    return operand && std::any_of(box.begin(), box.end(), [&](const VarRef& var) { return operand->uses(var.get()); });
  });
}

bool is_inside(const Index& index, int64_t extent) {
  const auto low = index.min(), high = index.max();
  return low && high && *low >= 0 && *high < extent;
}

/// Makes the last axes one, as many as are the digits of a number without divisions of the box.
void join_digits(std::vector<Axis>& axes, const std::vector<VarRef>& box) {
  for (size_t first = 0; first + 1 < axes.size(); ++first) {
    Axis number = axes[first];
    bool joins = divides(number.at, box);
    for (size_t i = first + 1; joins && i < axes.size(); ++i) {
      joins = number.stride == axes[i].extent * axes[i].stride && is_inside(axes[i].at, axes[i].extent);
      number = {number.extent * axes[i].extent, axes[i].stride, number.at * axes[i].extent + axes[i].at};
    }
    if (!joins || divides(number.at, box)) continue;
    axes.resize(first);
    axes.push_back(std::move(number));
    return;
  }
}

/// The axes of the source without those of one element. Where some are the digits of one number, they are one: rows of [images, pixels, channels] whose number is
/// images * pixels. Not where the copy reaches past the end of the inner one, for the zeros that are there.
std::vector<Axis> axes_of(const Copy& copy) {
  const Buffer& source = *copy.source;
  const std::vector<int64_t> strides = source.element_strides();
  std::vector<Axis> axes;
  for (size_t i = 0; i < source.extents.size(); ++i) {
    const Axis axis{source.extents[i], strides[i], copy.from[i]};
    const bool alone = axes.empty() && i + 1 == source.extents.size();
    if (axis.extent == 1 && axis.at == Index(0) && !alone) continue;
    axes.push_back(axis);
    join_digits(axes, copy.box);
  }
  return axes;
}

/// How an axis follows the box: place + step * ((variable / divisor) mod extent).
struct Move {
  VarRef var;  ///< null: not at all
  int64_t divisor = 1, extent = 1, step = 1;
};

/// The digit of one variable that the atom is.
std::optional<Move> digit_of(const Atom& atom) {
  if (atom.kind == Atom::Kind::var) return Move{atom.var, 1, atom.var->extent};
  if (atom.kind == Atom::Kind::scalar || atom.operand->constant() != 0 || atom.operand->terms().size() != 1 ||
      atom.operand->terms()[0].coefficient != 1)
    return std::nullopt;
  const std::optional<Move> operand = digit_of(atom.operand->terms()[0].atom);
  if (!operand) return std::nullopt;
  if (atom.kind == Atom::Kind::mod)
    return operand->extent % atom.divisor == 0 ? std::optional(Move{operand->var, operand->divisor, atom.divisor}) : std::nullopt;
  if (operand->extent % atom.divisor != 0) return std::nullopt;
  return Move{operand->var, operand->divisor * atom.divisor, operand->extent / atom.divisor};
}

bool uses(const Atom& atom, const std::vector<VarRef>& box) {
  if (atom.kind == Atom::Kind::var) return std::find(box.begin(), box.end(), atom.var) != box.end();
  return atom.operand && std::any_of(box.begin(), box.end(), [&](const VarRef& var) { return atom.operand->uses(var.get()); });
}

/// How the box moves along the axis; nothing where that is not one digit of one of its variables.
std::optional<Move> move_along(const Axis& axis, const std::vector<VarRef>& box) {
  Move found;
  for (const Term& term : axis.at.terms()) {
    if (!uses(term.atom, box)) continue;
    const std::optional<Move> digit = digit_of(term.atom);
    if (found.var || !digit || term.coefficient < 1) return std::nullopt;
    found = *digit;
    found.step = term.coefficient;
  }
  return found;
}

Index without(const Index& index, const std::vector<VarRef>& box) {
  return substitute(index, [&](const VarRef& var) -> std::optional<Index> {
    return std::find(box.begin(), box.end(), var) != box.end() ? std::optional(Index(0)) : std::nullopt;
  });
}

}  // namespace

TensorCopy tensor_copy(const Copy& copy) {
  const Buffer& destination = *copy.destination;
  const int64_t size = size_bytes(copy.source->dtype), row = copy.box.back()->extent;
  const int64_t width = destination.panel > 0 ? destination.panel : row;
  TensorCopy result;
  result.map.dtype = copy.source->dtype;
  result.map.swizzle_bytes = swizzle_bytes(destination.swizzle);
  const std::vector<Axis> axes = axes_of(copy);
  for (const Axis& axis : axes) {
    const bool last = &axis == &axes.back();
    const std::optional<Move> move = move_along(axis, copy.box);
    check(move.has_value(), "a copy by the copy engine whose box is none");
    result.map.extents.push_back(axis.extent);
    if (!last) result.map.strides.push_back(axis.stride * size);
    result.map.box.push_back(last ? width : move->extent);
    result.map.steps.push_back(move->step);
    result.coordinates.push_back(without(axis.at, copy.box));
  }
  result.panels = row / width;
  result.panel_bytes = size;
  for (const int64_t extent : result.map.box) result.panel_bytes *= extent;
  return result;
}

namespace {

/// What keeps the box from being one of the map, its rows in the order of the destination: the moves along the axes are the digits of the variables of the box,
/// the first digit of each first.
std::string wrong_box(const Copy& copy) {
  const Buffer& destination = *copy.destination;
  const std::string wrong = "the box is not one of neighbours along axes, in their order";
  const std::vector<Axis> axes = axes_of(copy);
  auto var = copy.box.begin();
  int64_t left = 1;  // of the variable that is taken apart, below the digits so far
  Move last;
  for (const Axis& axis : axes) {
    const std::optional<Move> move = move_along(axis, copy.box);
    if (!move) return wrong;
    last = *move;
    if (!move->var) continue;
    if (left == 1) {
      while (var != copy.box.end() && *var != move->var) {
        if ((*var++)->extent > 1) return wrong;
      }
      if (var == copy.box.end()) return wrong;
      left = (*var)->extent;
    }
    if (move->var != *var || move->divisor * move->extent != left) return wrong;
    left = move->divisor;
    if (left == 1) ++var;
  }
  if (left != 1 || std::any_of(var, copy.box.end(), [](const VarRef& rest) { return rest->extent > 1; })) return wrong;
  if (axes.back().stride != 1 || last.var != copy.box.back() || last.step != 1 || last.extent != last.var->extent)
    return "its rows are not contiguous";
  std::vector<Index> places;
  std::vector<int64_t> extents;
  for (size_t i = 0; i < copy.to.size(); ++i) {
    if (destination.extents[i] == 1 && copy.to[i] == Index(0)) continue;
    places.push_back(copy.to[i]);
    extents.push_back(destination.extents[i]);
  }
  std::vector<Index> expected;
  std::vector<int64_t> sizes;
  for (const VarRef& var : copy.box) {
    if (var->extent == 1 && places.size() < copy.box.size()) continue;
    expected.emplace_back(var);
    sizes.push_back(var->extent);
  }
  if (places != expected || extents != sizes) return "the box is not all of %" + destination.name;
  return "";
}

}  // namespace

std::vector<std::string> faults_of_tensor_copy(const Copy& copy) {
  std::vector<std::string> faults;
  const Buffer& source = *copy.source;
  const Buffer& destination = *copy.destination;
  const auto fault = [&](const std::string& message) { faults.push_back("a tensor map for %" + source.name + ": " + message); };
  const int64_t row = copy.box.back()->extent;
  if (copy.where) fault("the copy is masked");
  if (source.dtype != destination.dtype) fault("the copy converts");
  if (!destination.strides.empty()) fault("%" + destination.name + " is not row-major");
  if (destination.panel > 0 ? row % destination.panel != 0 : destination.swizzle.bits != 0)
    fault("rows of " + std::to_string(row) + " elements are not whole panels");
  const Swizzle& swizzle = destination.swizzle;
  const bool known = swizzle.bits == 0 || (swizzle.bits == 3 && swizzle.base == 4 && swizzle.shift == 3);
  if (!known) fault("this swizzle is not one of the copy engine");
  if (const std::string wrong = wrong_box(copy); !wrong.empty()) fault(wrong);
  if (!faults.empty()) return faults;
  const TensorCopy tiles = tensor_copy(copy);
  if (tiles.map.extents.size() > kMostAxes) fault(std::to_string(tiles.map.extents.size()) + " axes, at most " + std::to_string(kMostAxes));
  for (size_t i = 0; i < tiles.map.box.size(); ++i) {
    const int64_t extent = tiles.map.box[i], step = tiles.map.steps[i];
    if (extent * step > kWidestBox)
      fault("a box of " + std::to_string(extent * step) + " elements along an axis, at most " + std::to_string(kWidestBox));
    if (step > kLongestStep)
      fault("every element number " + std::to_string(step) + " along an axis, at most " + std::to_string(kLongestStep));
  }
  for (const int64_t stride : tiles.map.strides) {
    if (stride % kStrideBytes != 0 || stride >= int64_t{1} << 40)
      fault("rows are " + std::to_string(stride) + " bytes apart, not a multiple of " + std::to_string(kStrideBytes));
  }
  for (const int64_t extent : tiles.map.extents) {
    if (extent < 1 || extent >= int64_t{1} << 31) fault("an axis of " + std::to_string(extent) + " elements");
  }
  const int64_t width = tiles.map.box.back() * size_bytes(source.dtype);
  if (width % kStrideBytes != 0 || (swizzle.bits != 0 && width != swizzle_bytes(swizzle)))
    fault("rows of " + std::to_string(width) + " bytes in shared memory");
  return faults;
}

TensorMap tensor_map(const Kernel& kernel, const Copy& copy) {
  TensorMap map = tensor_copy(copy).map;
  const auto param = std::find_if(kernel.params.begin(), kernel.params.end(), [&](const Param& p) { return p.buffer == copy.source; });
  check(param != kernel.params.end(), "a tile is copied from what is not a parameter");
  map.param = static_cast<int>(param - kernel.params.begin());
  return map;
}

std::vector<TensorMap> tensor_maps(const Kernel& kernel) {
  std::vector<TensorMap> maps;
  walk(kernel.body, [&](const Stmt& stmt) {
    const auto* copy = as<Copy>(stmt);
    if (!copy || copy->kind != Copy::Kind::tma) return;
    TensorMap map = tensor_map(kernel, *copy);
    if (std::find(maps.begin(), maps.end(), map) == maps.end()) maps.push_back(std::move(map));
  });
  return maps;
}

}  // namespace tcc::loop
