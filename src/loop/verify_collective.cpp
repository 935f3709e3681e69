// What the emitter asks of the statements that all threads of a block do together: copies of boxes and products of tensor cores. Addresses that a step of
// several bytes begins at are multiples of it: parameters and shared buffers begin at multiples of 16 bytes and more.
#include "loop/verify_collective.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/rewrite.h"
#include "tcc/loop/tensor_map.h"

namespace tcc::loop {
namespace {

/// A variable in steps of several: `step` * number + within. Indices that are divided for a step as a whole show no `within`.
class Steps {
 public:
  Steps(const VarRef& var, int64_t step) : var_(var), step_(step), number_(make_var("", var->extent / step)), within_(make_var("", step)) {}

  /// Whether the elements of a step are neighbours in memory, and the first begins at a multiple of so many.
  bool are_contiguous(const Buffer& buffer, const std::vector<Index>& at) const {
    const std::vector<int64_t> strides = buffer.element_strides();
    Index flat;
    for (size_t axis = 0; axis < at.size(); ++axis) flat = flat + at[axis] * strides[axis];
    flat = split(flat);
    return flat.coefficient_of(within_.get()) == 1 && is_multiple(flat - Index(within_));
  }

  /// Whether all of a step are below 0, in [0, high), or above.
  bool stay_on_a_side(const Index& index, int64_t high) const {
    if (!split(index).uses(within_.get())) return true;
    const UpperBound bound = without_divisions(index, high);
    const Index parts = split(bound.index);
    return parts.coefficient_of(within_.get()) == 1 && bound.high % step_ == 0 && is_multiple(parts - Index(within_));
  }

 private:
  Index split(const Index& index) const {
    return substitute(index, [&](const VarRef& var) -> std::optional<Index> {
      if (var != var_) return std::nullopt;
      return Index(number_) * step_ + Index(within_);
    });
  }
  bool is_multiple(const Index& index) const {
    const auto divides = [&](const Term& term) { return term.coefficient % step_ == 0; };
    return !index.uses(within_.get()) && index.constant() % step_ == 0 && std::all_of(index.terms().begin(), index.terms().end(), divides);
  }

  VarRef var_;
  int64_t step_;
  VarRef number_, within_;
};

/// Whether a box of the last `rank` axes at these indices begins, row by row, at multiples of `step` elements, and its rows are contiguous.
bool is_multiple(const Buffer& buffer, const std::vector<Index>& at, size_t rank, int64_t step) {
  if (step == 1) return true;
  const std::vector<int64_t> strides = buffer.element_strides();
  if (strides.back() != 1) return false;
  for (size_t axis = 0; axis < at.size(); ++axis) {
    const bool is_row = axis + 1 == at.size();
    if (!is_row && axis + rank >= at.size() && buffer.extents[axis] > 1 && strides[axis] % step != 0) return false;
    if (at[axis].constant() * strides[axis] % step != 0) return false;
    for (const Term& term : at[axis].terms()) {
      if (term.coefficient * strides[axis] % step != 0) return false;
    }
  }
  return true;
}

/// Whether the layout is that of m16n8 accumulators of some number of warps, each with an even number of blocks of columns. In which order the blocks are
/// numbered is free.
bool is_accumulator(const TileLayout& layout, int64_t m, int64_t n) {
  int64_t warps[] = {1, 1};
  for (const TileDigit& digit : layout.digits) {
    if (digit.level == TileDigit::Level::warp && (digit.axis == 0 || digit.axis == 1)) warps[digit.axis] *= digit.extent;
  }
  if (m % (16 * warps[0]) != 0 || n % (16 * warps[1]) != 0) return false;
  const TileLayout expected = mma_accumulator_layout(m, n, warps[0], warps[1]);
  const auto sorted = [](const TileLayout& from) {
    std::vector<TileDigit> digits;
    for (const TileDigit& digit : from.digits) {
      if (digit.extent > 1) digits.push_back(digit);
    }
    const auto registers =
        std::stable_partition(digits.begin(), digits.end(), [](const TileDigit& d) { return d.level == TileDigit::Level::reg; });
    std::sort(digits.begin(), registers,
              [](const TileDigit& a, const TileDigit& b) { return std::pair(a.axis, a.stride) < std::pair(b.axis, b.stride); });
    std::stable_sort(registers, digits.end(), [](const TileDigit& a, const TileDigit& b) { return a.level < b.level; });
    return digits;
  };
  return sorted(layout) == sorted(expected);
}

}  // namespace

std::vector<std::string> faults_of(const Copy& copy) {
  std::vector<std::string> faults;
  const auto fault = [&](const std::string& message) { faults.push_back(message); };
  const bool async = copy.kind != Copy::Kind::plain;
  const int bytes = copy.vector_bytes, element_bits = size_bits(copy.source->dtype), step_elements = bytes * 8 / element_bits;
  if (!(bytes == 4 || bytes == 8 || bytes == 16 || (!async && (bytes == 2 || bytes == 1))) || bytes * 8 % element_bits != 0 ||
      step_elements * size_bytes(copy.destination->dtype) > 16) {
    fault("a copy of %" + copy.source->name + " in steps of " + std::to_string(bytes) + " bytes");
    return faults;
  }
  if (copy.source->space != Space::global || copy.destination->space != Space::shared) fault("a copy goes from global to shared memory");
  if (copy.box.empty() || copy.from.size() != copy.source->extents.size() || copy.to.size() != copy.destination->extents.size()) {
    fault("a copy needs variables of a box, and an index for each axis of both buffers");
    return faults;
  }
  if (copy.kind == Copy::Kind::tma) {
    for (std::string& message : faults_of_tensor_copy(copy)) fault(message);
    return faults;
  }
  const int64_t step = step_elements;
  if (copy.box.back()->extent % step != 0) {
    fault("rows of " + std::to_string(copy.box.back()->extent) + " elements are no multiple of the " + std::to_string(step) +
          " that a copy moves at once");
    return faults;
  }
  if (step == 1) return faults;
  const Steps steps(copy.box.back(), step);
  for (const auto& [buffer, at] : {std::pair{copy.source, copy.from}, {copy.destination, copy.to}}) {
    if (!steps.are_contiguous(*buffer, at))
      fault("a copy of " + std::to_string(bytes) + " bytes at once, %" + buffer->name + " is not aligned so far");
  }
  for (size_t axis = 0; axis < copy.from.size(); ++axis) {
    const auto low = copy.from[axis].min(), high = copy.from[axis].max();
    const int64_t extent = copy.source->extents[axis];
    const bool inside = low && *low >= 0 && high && *high < extent;
    if (!inside && !steps.stay_on_a_side(copy.from[axis], extent))
      fault("a copy of %" + copy.source->name + " whose axis " + std::to_string(axis) + " ends inside a step");
  }
  for (const ExprPtr& condition : conjuncts(copy.where)) {
    const std::optional<UpperBound> bound = as_upper_bound(condition);
    if (!(bound ? steps.stay_on_a_side(bound->index, bound->high) : !uses(condition, copy.box.back().get())))
      fault("a copy of %" + copy.source->name + " that is masked inside a step");
  }
  return faults;
}

namespace {

/// What an mma of a warpgroup asks of an operand: descriptors say where whole panels of 128 bytes with a swizzle of 128 bytes begin.
void check_panels(const Mma& mma, const BufferRef& operand, const std::vector<Index>& from, int64_t rows, bool transposed,
                  std::vector<std::string>& faults) {
  const auto fault = [&](const std::string& message) {
    faults.push_back("%" + operand->name + " is read by " + mma.shape + ": " + message);
  };
  const int64_t panel = kPanelBytes / size_bytes(operand->dtype);
  if (operand->swizzle != Swizzle{3, 4, 3} || operand->panel != panel || !operand->strides.empty())
    fault("it lies in panels of 128 bytes, swizzled by 3 bits");
  if (!std::all_of(from.begin(), from.end(), [](const Index& index) { return index == Index(0); })) fault("as a whole");
  std::vector<int64_t> extents = operand->extents;
  while (extents.size() > 2 && extents.front() == 1) extents.erase(extents.begin());
  const std::vector<int64_t> expected = transposed ? std::vector{mma.k, rows} : std::vector{rows, mma.k};
  if (extents != expected) fault("it is not [" + std::to_string(expected[0]) + ", " + std::to_string(expected[1]) + "]");
}

void check_warpgroup(const Mma& mma, const TensorCore& core, int threads, std::vector<std::string>& faults) {
  const auto fault = [&](const std::string& message) { faults.push_back(message); };
  const Buffer& d = *mma.accumulator;
  int64_t groups[] = {1, 1}, warps = 1;
  for (const TileDigit& digit : d.tile->digits) {
    if (digit.level != TileDigit::Level::warp) continue;
    warps *= digit.extent;
    if (digit.axis == 1 || digit.stride != 16) groups[digit.axis] *= digit.extent;
  }
  const bool divides = mma.m % (core.m * groups[0]) == 0 && mma.n % (core.n * groups[1]) == 0;
  if (!divides || !(*d.tile == warpgroup_accumulator_layout(mma.m, mma.n, groups[0], groups[1])))
    return fault("%" + d.name + " is not laid out as the accumulator of warpgroups");
  if (warps * 32 != threads) fault("an mma of " + std::to_string(warps) + " warps in a block of " + std::to_string(threads) + " threads");
  const int64_t columns = mma.n / groups[1];
  // Of integers, steps of 16 columns: those below 32 are for all.
  const bool steps = is_float(mma.a->dtype) || columns % 16 == 0 || columns < 32;
  if (columns > core.most_n || !steps || (mma.transpose_b && groups[1] > 1 && columns % 64 != 0))
    fault(mma.shape + " of " + std::to_string(columns) + " columns for each warpgroup");
  if (mma.k % core.k != 0) fault(mma.shape + " on a sum of " + std::to_string(mma.k));
  if (!core.transposed && (mma.transpose_a || mma.transpose_b)) fault(mma.shape + " takes no transposed operand");
  if (!mma.a->tile) check_panels(mma, mma.a, mma.a_from, mma.m, mma.transpose_a, faults);
  else if (size_bytes(mma.a->dtype) != 2 || groups[1] != 1 || mma.transpose_a || mma.a->extents != std::vector<int64_t>{mma.m, mma.k} ||
           !(*mma.a->tile == warpgroup_accumulator_layout(mma.m, mma.k, groups[0], 1)))
    fault("%" + mma.a->name + ", which " + mma.shape + " reads from registers, is no tile of 16 bits that lies as accumulators do");
  check_panels(mma, mma.b, mma.b_from, mma.n, mma.transpose_b, faults);
}

}  // namespace

std::vector<std::string> faults_of(const Mma& mma, const Target& target, int threads) {
  std::vector<std::string> faults;
  const auto fault = [&](const std::string& message) { faults.push_back(message); };
  const Buffer& d = *mma.accumulator;
  const DType sums = sum_dtype(mma.a->dtype);
  if (!d.tile || d.dtype != sums || d.extents != std::vector<int64_t>{mma.m, mma.n}) {
    fault("the accumulator of an mma of " + std::string(name_of(mma.a->dtype)) + " is an " + std::string(name_of(sums)) +
          " register tile of [" + std::to_string(mma.m) + ", " + std::to_string(mma.n) + "]");
    return faults;
  }
  const TensorCore* core = target.tensor_core(mma.shape);
  if (!core) {
    fault("no mma of shape `" + mma.shape + "` on " + target.name);
    return faults;
  }
  for (const BufferRef& operand : {mma.a, mma.b}) {
    if (operand->space != Space::shared && !(core->warpgroup && operand == mma.a && operand->tile))
      fault("%" + operand->name + " is read by mma and not shared");
  }
  if (!core->takes(mma.a->dtype, mma.b->dtype))
    fault("mma " + mma.shape + " does not take " + std::string(name_of(mma.a->dtype)) + " and " + std::string(name_of(mma.b->dtype)));
  if (mma.zero_first && !mma.async) fault("mma " + mma.shape + " adds to what its accumulator holds");
  if (mma.async != core->warpgroup) fault("mma " + mma.shape + (core->warpgroup ? " is asynchronous" : " is not asynchronous"));
  if (core->warpgroup) {
    if (faults.empty()) check_warpgroup(mma, *core, threads, faults);
    return faults;
  }
  if (mma.m % core->m != 0 || mma.n % core->n != 0 || mma.k % core->k != 0)
    fault("an mma of " + std::to_string(mma.m) + " x " + std::to_string(mma.n) + " x " + std::to_string(mma.k) + " by " + mma.shape);
  else if (!is_accumulator(*d.tile, mma.m, mma.n)) fault("%" + d.name + " is not laid out as the accumulator of an mma");
  if (!core->transposed && (mma.transpose_a || mma.transpose_b)) fault(mma.shape + " takes no transposed operand");
  for (const auto& [operand, from] : {std::pair{mma.a, mma.a_from}, {mma.b, mma.b_from}}) {
    if (operand->panel != 0) fault("%" + operand->name + " lies in panels, which ldmatrix does not read");
    if (from.size() == operand->extents.size() && from.size() >= 2 && !is_multiple(*operand, from, 2, 16 / size_bytes(operand->dtype)))
      fault("rows of %" + operand->name + " do not begin at multiples of the 16 bytes that mma reads");
  }
  return faults;
}

}  // namespace tcc::loop
