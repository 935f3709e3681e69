#include "tcc/loop/tensor_map.h"

#include <algorithm>

#include "tcc/loop/rewrite.h"
#include "tcc/support/diagnostics.h"

namespace tcc::loop {
namespace {

constexpr size_t kMostAxes = 5;
constexpr int64_t kWidestBox = 256;
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

/// The axes of the source without those of one element. Where two are the digits of one number, they are one: rows of [images, pixels, channels] whose number is
/// images * pixels.
std::vector<Axis> axes_of(const Copy& copy) {
  const Buffer& source = *copy.source;
  const std::vector<int64_t> strides = source.element_strides();
  std::vector<Axis> axes;
  for (size_t i = 0; i < source.extents.size(); ++i) {
    const Axis axis{source.extents[i], strides[i], copy.from[i]};
    if (axis.extent == 1 && i + 1 < source.extents.size() && axis.at == Index(0)) continue;
    axes.push_back(axis);
    while (axes.size() > 1) {
      const Axis& outer = axes[axes.size() - 2];
      const Axis& inner = axes.back();
      const Index number = outer.at * inner.extent + inner.at;
      if (!divides(outer.at, copy.box) || divides(number, copy.box) || outer.stride != inner.extent * inner.stride) break;
      const Axis merged{outer.extent * inner.extent, inner.stride, number};
      axes.pop_back();
      axes.back() = merged;
    }
  }
  return axes;
}

/// The variable of the box along which the axis is moved; null when there is none. `wrong`: it is not one neighbour after the other.
VarRef moved_along(const Axis& axis, const std::vector<VarRef>& box, bool& wrong) {
  VarRef found;
  for (const VarRef& var : box) {
    if (!axis.at.uses(var.get())) continue;
    bool inside = false;
    wrong = wrong || found || axis.at.coefficient_of(var.get(), &inside) != 1 || inside;
    found = var;
  }
  return found;
}

Index without(const Index& index, const VarRef& moved) {
  return substitute(index,
                    [&](const VarRef& var) -> std::optional<Index> { return var == moved ? std::optional(Index(0)) : std::nullopt; });
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
    bool wrong = false;
    const VarRef var = moved_along(axis, copy.box, wrong);
    result.map.extents.push_back(axis.extent);
    if (!last) result.map.strides.push_back(axis.stride * size);
    result.map.box.push_back(last ? width : var ? var->extent : 1);
    result.coordinates.push_back(without(axis.at, var));
  }
  result.panels = row / width;
  result.panel_bytes = size;
  for (const int64_t extent : result.map.box) result.panel_bytes *= extent;
  return result;
}

namespace {

/// What keeps the box from being one of the map, its rows in the order of the destination.
std::string wrong_box(const Copy& copy) {
  const Buffer& destination = *copy.destination;
  std::vector<VarRef> order;
  bool wrong = false;
  const std::vector<Axis> axes = axes_of(copy);
  for (const Axis& axis : axes) {
    if (const VarRef var = moved_along(axis, copy.box, wrong)) order.push_back(var);
  }
  if (wrong || order != copy.box) return "the box is not one of neighbours along axes, in their order";
  bool inner_wrong = false;
  if (axes.back().stride != 1 || moved_along(axes.back(), copy.box, inner_wrong) != copy.box.back()) return "its rows are not contiguous";
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
  for (const int64_t extent : tiles.map.box) {
    if (extent > kWidestBox) fault("a box of " + std::to_string(extent) + " elements along an axis, at most " + std::to_string(kWidestBox));
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
