// Indices, addresses, loads: where memory is touched.
#include <llvm/IR/Constants.h>

#include <limits>
#include <numeric>
#include <utility>

#include "codegen/llvm/emitter.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/index_groups.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

using loop::Atom;
using loop::Index;

/// x of x + c, where a variable is such a sum (a digit of a register beside the thread's first): c is added to `constant`.
static llvm::Value* without_constant(llvm::Value* value, int64_t* constant) {
  auto* sum = llvm::dyn_cast<llvm::AddOperator>(value);
  auto* added = sum ? llvm::dyn_cast<llvm::ConstantInt>(sum->getOperand(1)) : nullptr;
  if (!added) return value;
  *constant += added->getSExtValue();
  return sum->getOperand(0);
}

// Constants are summed up here: unrolled loops make many of them, and LLVM finds equal sums of the rest and constant distances at once.
llvm::Value* Emitter::emit_terms(const Index& index, int64_t* behind) {
  *behind += index.constant();
  llvm::Value* sum = nullptr;
  for (const loop::Term& term : index.terms()) {
    const Atom& atom = term.atom;
    llvm::Value* value = nullptr;
    int64_t added = 0;
    switch (atom.kind) {
      case Atom::Kind::var: {
        if (atom.var.get() == lane_var_) {
          llvm::SmallVector<llvm::Constant*, 16> lane;
          for (unsigned i = 0; i < lanes_; ++i) lane.push_back(llvm::ConstantInt::get(index_type_, i));
          value = llvm::ConstantVector::get(lane);
        } else {
          auto it = vars_.find(atom.var.get());
          if (it == vars_.end()) fail("loop variable %" + atom.var->name + " is not bound here");
          value = without_constant(it->second, &added);
        }
        break;
      }
      case Atom::Kind::scalar: {
        auto it = scalars_.find(atom.scalar.get());
        if (it == scalars_.end()) fail("scalar %" + atom.scalar->name + " is not defined here");
        value = it->second;
        llvm::Type* type = varies(value) ? llvm::VectorType::get(index_type_, llvm::cast<llvm::VectorType>(value->getType())) : index_type_;
        value = is_unsigned_integer(atom.scalar->dtype) || atom.scalar->dtype == DType::boolean ? builder_.CreateZExtOrTrunc(value, type)
                                                                                                : builder_.CreateSExtOrTrunc(value, type);
        break;
      }
      case Atom::Kind::floor_div:
      case Atom::Kind::mod: {
        llvm::Value* operand = emit_index(*atom.operand);
        llvm::Value* divisor = llvm::ConstantInt::getSigned(operand->getType(), atom.divisor);
        bool division = atom.kind == Atom::Kind::floor_div;
        auto low = atom.operand->min();
        if (low && *low >= 0) {
          value = division ? builder_.CreateUDiv(operand, divisor) : builder_.CreateURem(operand, divisor);
        } else {  // floor: correct the truncated quotient where the remainder is negative
          llvm::Value* remainder = builder_.CreateSRem(operand, divisor);
          llvm::Value* negative = builder_.CreateICmpSLT(remainder, llvm::Constant::getNullValue(remainder->getType()));
          if (division) {
            value = builder_.CreateAdd(builder_.CreateSDiv(operand, divisor), builder_.CreateSExt(negative, operand->getType()));
          } else {
            value = builder_.CreateSelect(negative, builder_.CreateAdd(remainder, divisor), remainder);
          }
        }
        break;
      }
    }
    if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(value)) {
      added += known->getSExtValue();
      value = nullptr;
    }
    *behind += added * term.coefficient;
    if (!value) continue;
    if (term.coefficient != 1) value = builder_.CreateNSWMul(value, llvm::ConstantInt::getSigned(value->getType(), term.coefficient));
    if (sum) {
      std::vector<llvm::Value*> both{sum, value};
      unify(both);
      sum = builder_.CreateNSWAdd(both[0], both[1]);
    } else {
      sum = value;
    }
  }
  return sum;
}

llvm::Value* Emitter::emit_index(const Index& index) {
  int64_t behind = 0;
  llvm::Value* sum = emit_terms(index, &behind);
  if (!sum) return llvm::ConstantInt::getSigned(index_type_, behind);
  return behind == 0 ? sum : builder_.CreateNSWAdd(sum, llvm::ConstantInt::getSigned(sum->getType(), behind));
}

// Row-major (or strided) element offset; axes of which each thread holds one element take no room.
Index Emitter::flat_index(const loop::Buffer& buffer, const std::vector<Index>& indices) const {
  std::vector<int64_t> extents = buffer.extents;
  for (int axis : buffer.distributed) extents[static_cast<size_t>(axis)] = 1;
  std::vector<int64_t> strides = buffer.strides.empty() ? row_major_strides(extents) : buffer.strides;
  Index flat;
  for (size_t i = 0; i < indices.size(); ++i) {
    bool own = false;
    for (int axis : buffer.distributed) own |= static_cast<size_t>(axis) == i;
    if (!own) flat = flat + indices[i] * strides[i];
  }
  return flat;
}

// The largest power of two that divides the offset, as far as is known of its variables here: LLVM loses it in long sums, and with it wide accesses.
int64_t Emitter::alignment_of(const Index& index) const {
  int64_t g = index.constant();
  for (const loop::Term& term : index.terms()) {
    int64_t multiple = 1;
    if (term.atom.kind == Atom::Kind::var) {
      if (auto it = multiples_.find(term.atom.var.get()); it != multiples_.end()) multiple = it->second;
    }
    g = std::gcd(g, term.coefficient * multiple);
  }
  if (g == 0) return int64_t{1} << 20;
  return g & -g;
}

Emitter::Address Emitter::address_of(const loop::Buffer& buffer, const std::vector<Index>& indices) {
  Address address;
  if (buffer.tile) {
    address.base = tile_slot(buffer, indices);
    return address;
  }
  Index flat = flat_index(buffer, indices);
  if (lane_var_) {
    bool inside = false;
    int64_t stride = flat.coefficient_of(lane_var_, &inside);
    bool by_lane = inside;
    loop::VarRef lane;
    std::vector<loop::VarRef> used;
    loop::collect_vars(flat, used);
    for (const loop::VarRef& var : used) {
      if (var.get() == lane_var_) lane = var;
    }
    if (!by_lane && flat.uses_scalars()) {  // a scalar that varies by lane makes the address vary
      std::function<void(const Index&)> look = [&](const Index& index) {
        for (const loop::Term& term : index.terms()) {
          if (term.atom.kind == Atom::Kind::scalar) {
            auto it = scalars_.find(term.atom.scalar.get());
            by_lane |= it != scalars_.end() && varies(it->second);
          } else if (term.atom.operand) {
            look(*term.atom.operand);
          }
        }
      };
      look(flat);
    }
    if (by_lane) {
      address.offsets = emit_index(flat);
      return address;
    }
    address.lane_stride = stride;
    if (stride != 0) flat = flat - Index(lane) * stride;
  }
  address.alignment = alignment_of(flat);
  if (is_packed(buffer)) {  // halves of bytes are no steps of a pointer
    address.base = emit_index(flat);
    return address;
  }
  address.base = emit_terms(flat, &address.behind);
  if (!address.base) address.base = llvm::ConstantInt::getSigned(index_type_, std::exchange(address.behind, 0));
  return address;
}

// What is known of an address: no more than what its offset is a multiple of, nor than what the buffer begins at.
llvm::Align Emitter::alignment_at(const loop::Buffer& buffer, const Address& address) const {
  constexpr uint64_t kWidest = 16;  // of one access that asks for alignment
  const auto element = static_cast<uint64_t>(size_bytes(buffer.dtype));
  const uint64_t base = buffer.space == loop::Space::global ? std::max(parameter_alignment(), element) : kWidest;
  return llvm::Align(std::max(std::min({static_cast<uint64_t>(address.alignment) * element, base, kWidest}), uint64_t{1}));
}

llvm::Value* Emitter::element_pointer(const loop::Buffer& buffer, llvm::Value* offset, int64_t behind) {
  auto it = buffers_.find(buffer.id);
  if (it == buffers_.end()) fail("buffer %" + buffer.name + " is not allocated here");
  llvm::Type* element = memory_type(buffer.dtype);
  if (behind == 0) return builder_.CreateInBoundsGEP(element, it->second, offset);
  // The element at `offset` alone need not be there.
  return builder_.CreateGEP(element, builder_.CreateGEP(element, it->second, offset),
                            llvm::ConstantInt::getSigned(builder_.getInt64Ty(), behind));
}

// Without `active` any element will do: the one as far behind the first as the wanted one is behind its base, so that all neighbours share one choice.
llvm::Value* Emitter::lane_pointer(const loop::Buffer& buffer, const Address& address, unsigned lane, llvm::Value* active) {
  llvm::Value* offset = address.base;
  int64_t behind = address.behind + lane * address.lane_stride;
  if (address.offsets || (active && (behind < 0 || behind >= buffer.count()))) {
    offset = lane_offset(address, lane);
    behind = 0;
  }
  if (active) offset = builder_.CreateSelect(active, offset, llvm::Constant::getNullValue(offset->getType()));
  return element_pointer(buffer, offset, behind);
}

llvm::Value* Emitter::lane_offset(const Address& address, unsigned lane) {
  if (address.offsets) return builder_.CreateExtractElement(address.offsets, lane);
  const int64_t behind = address.behind + lane * address.lane_stride;
  return behind == 0 ? address.base : builder_.CreateNSWAdd(address.base, llvm::ConstantInt::getSigned(index_type_, behind));
}

// Elements 0, 2, ... 14 of eight lanes are the even ones of [0, 8) and the odd ones of [7, 15): two loads that touch nothing beyond the first and the last.
llvm::Value* Emitter::load_every_second(const loop::Buffer& buffer, const Address& address, llvm::Value* mask) {
  auto* vector = llvm::FixedVectorType::get(memory_type(buffer.dtype), lanes_);
  const llvm::Align align(static_cast<uint64_t>(size_bytes(buffer.dtype)));
  const int lanes = static_cast<int>(lanes_), half = lanes / 2;
  llvm::Value* parts[2];
  for (int part = 0; part < 2; ++part) {
    llvm::Value* pointer = element_pointer(buffer, address.base, address.behind + part * (lanes - 1));
    if (!mask) {
      parts[part] = builder_.CreateAlignedLoad(vector, pointer, align);
      continue;
    }
    llvm::Value* wide = varies(mask) ? mask : splat(mask, vector->getElementCount());
    llvm::SmallVector<int, 16> order;  // behind the mask's lanes: false
    for (int lane = 0; lane < lanes; ++lane) order.push_back(lane % 2 == part ? part * half + lane / 2 : lanes);
    llvm::Value* own = builder_.CreateShuffleVector(wide, llvm::Constant::getNullValue(wide->getType()), order);
    parts[part] = builder_.CreateMaskedLoad(vector, pointer, align, own, llvm::Constant::getNullValue(vector));
  }
  llvm::SmallVector<int, 16> order;
  for (int lane = 0; lane < lanes; ++lane) order.push_back(lane < half ? 2 * lane : lanes + 2 * (lane - half) + 1);
  return builder_.CreateShuffleVector(parts[0], parts[1], order);
}

llvm::Value* Emitter::load_from(const loop::Buffer& buffer, const Address& address, llvm::Value* mask, llvm::Value* passthrough) {
  llvm::Type* element = memory_type(buffer.dtype);
  auto element_size = static_cast<uint64_t>(size_bytes(buffer.dtype));
  auto with_passthrough = [&](llvm::Value* value) {
    if (!mask || !passthrough) return value;
    std::vector<llvm::Value*> all{value, passthrough, mask};
    if (varies(value) || varies(passthrough) || varies(mask)) {
      auto lanes = llvm::ElementCount::getFixed(lanes_);
      for (llvm::Value*& v : all) v = varies(v) ? v : splat(v, lanes);
    }
    return builder_.CreateSelect(all[2], all[0], all[1]);
  };
  if (is_packed(buffer)) return with_passthrough(load_packed(buffer, address, mask));
  if (!address.offsets && address.lane_stride == 2 && has_masked_memory() && lanes_ >= 4 && lanes_ % 2 == 0 && element_size >= 4)
    return with_passthrough(from_memory(load_every_second(buffer, address, mask), buffer.dtype));
  if (address.offsets || (address.lane_stride != 0 && address.lane_stride != 1)) {  // one scalar load a lane
    llvm::Value* result = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, lanes_));
    for (unsigned lane = 0; lane < lanes_; ++lane) {
      llvm::Value* active = mask && varies(mask) ? builder_.CreateExtractElement(mask, lane) : mask;
      llvm::Value* pointer = lane_pointer(buffer, address, lane, active);
      llvm::Value* value = builder_.CreateAlignedLoad(element, pointer, llvm::Align(element_size));
      result = builder_.CreateInsertElement(result, value, lane);
    }
    return with_passthrough(from_memory(result, buffer.dtype));
  }
  if (address.lane_stride == 1 && lanes_ > 1) {
    auto* vector = llvm::FixedVectorType::get(element, lanes_);
    const llvm::Align align = alignment_at(buffer, address);
    if (!mask) return from_memory(builder_.CreateAlignedLoad(vector, lane_pointer(buffer, address, 0), align), buffer.dtype);
    if (!varies(mask) && buffer.count() >= lanes_) {  // all lanes or none: then the first elements, which are there
      llvm::Value* base = lane_offset(address, 0);
      base = builder_.CreateSelect(mask, base, llvm::Constant::getNullValue(base->getType()));
      return with_passthrough(from_memory(builder_.CreateAlignedLoad(vector, element_pointer(buffer, base, 0), align), buffer.dtype));
    }
    if (is_piece_of_row(buffer, address)) {
      llvm::Value* any = varies(mask) ? builder_.CreateOrReduce(mask) : mask;
      llvm::Value* base = lane_offset(address, 0);
      base = builder_.CreateSelect(any, base, llvm::Constant::getNullValue(base->getType()));
      return with_passthrough(from_memory(builder_.CreateAlignedLoad(vector, element_pointer(buffer, base, 0), align), buffer.dtype));
    }
    if (has_masked_memory() && element_size >= 4) {
      llvm::Value* wide_mask = varies(mask) ? mask : splat(mask, vector->getElementCount());
      llvm::Value* value =
          builder_.CreateMaskedLoad(vector, lane_pointer(buffer, address, 0), align, wide_mask, llvm::Constant::getNullValue(vector));
      return with_passthrough(from_memory(value, buffer.dtype));
    }
    Address each;  // lane by lane, inactive lanes read element 0
    llvm::SmallVector<llvm::Constant*, 16> steps;
    for (unsigned lane = 0; lane < lanes_; ++lane) steps.push_back(llvm::ConstantInt::get(index_type_, lane));
    each.offsets = builder_.CreateNSWAdd(splat(lane_offset(address, 0), vector->getElementCount()), llvm::ConstantVector::get(steps));
    return load_from(buffer, each, mask, passthrough);
  }
  llvm::Value* active = mask;  // uniform
  if (active && varies(active)) active = builder_.CreateOrReduce(active);
  llvm::Value* value = builder_.CreateAlignedLoad(element, lane_pointer(buffer, address, 0, active), alignment_at(buffer, address));
  return with_passthrough(from_memory(value, buffer.dtype));
}

bool Emitter::is_piece_of_row(const loop::Buffer& buffer, const Address& address) const {
  const auto lanes = static_cast<int64_t>(lanes_);
  if (buffer.row_padding() == 0 || address.offsets || address.lane_stride != 1 || address.alignment % lanes != 0) return false;
  return (buffer.extents.back() + buffer.row_padding()) % lanes == 0;
}

bool Emitter::masks_padding_alone(const loop::Buffer& buffer, const std::vector<loop::Index>& indices) {
  for (const loop::ExprPtr& whole : mask_conditions_) {
    if (!whole) return false;
    for (const loop::ExprPtr& condition : loop::conjuncts(whole)) {
      const std::optional<loop::UpperBound> bound = loop::as_upper_bound(condition);
      const bool ends_row = bound && bound->high == buffer.extents.back() && bound->index == indices.back();
      if (!ends_row && varies(emit_expr(condition))) return false;
    }
  }
  return true;
}

// y + x / n < extent as y * n + x < extent * n, which needs no division.
static void undo_division(Index& index, int64_t& extent) {
  for (const loop::Term& term : index.terms()) {
    const Atom& atom = term.atom;
    if (atom.kind != Atom::Kind::floor_div || term.coefficient != 1) continue;
    if (extent > std::numeric_limits<int32_t>::max() / atom.divisor) return;
    extent *= atom.divisor;
    index = (index - loop::floor_div(*atom.operand, atom.divisor)) * atom.divisor + *atom.operand;
    return undo_division(index, extent);
  }
}

// Every index that could leave its extent is tested; null when none can.
llvm::Value* Emitter::in_bounds(const loop::Buffer& buffer, const std::vector<Index>& indices) {
  llvm::Value* inside = nullptr;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    Index index = indices[axis];
    int64_t extent = buffer.extents[axis];
    undo_division(index, extent);
    auto low = index.min(), high = index.max();
    bool test_low = !low || *low < 0, test_high = !high || *high >= extent;
    if (!test_low && !test_high) continue;
    if (lane_var_ && loop::is_inside_by_groups(index, extent, lane_var_, lanes_)) {  // the first lane speaks for all
      index =
          loop::substitute(index, [&](const loop::VarRef& var) { return var.get() == lane_var_ ? std::optional<Index>(0) : std::nullopt; });
    }
    llvm::Type* narrow = index_type_;
    if (index.uses_scalars()) index_type_ = builder_.getInt64Ty();  // data may hold any i64
    llvm::Value* value = emit_index(index);
    llvm::Value* bound = llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(extent));
    index_type_ = narrow;
    if (varies(value)) bound = splat(bound, llvm::cast<llvm::VectorType>(value->getType())->getElementCount());
    llvm::Value* ok = test_low ? builder_.CreateICmpULT(value, bound) : builder_.CreateICmpSLT(value, bound);
    if (inside) {
      std::vector<llvm::Value*> both{inside, ok};
      unify(both);
      inside = builder_.CreateAnd(both[0], both[1]);
    } else {
      inside = ok;
    }
  }
  return inside;
}

// A branch that is almost never taken. Behind it: the check's slot, 0 until then, takes the bad index. Threads may race for it: each has an index that is bad,
// and a slot is one aligned word, so whatever stays is true. Unordered, so that no other access has to keep its place for it.
llvm::Value* Emitter::emit_check_index(const loop::Expr& expr) {
  llvm::Value* x = emit_expr(expr.args[0]);
  llvm::Value* index = emit_expr(expr.args[1]);
  llvm::Type* i64 = builder_.getInt64Ty();
  const auto lanes_of = [](llvm::Value* v) { return llvm::cast<llvm::VectorType>(v->getType())->getElementCount(); };
  llvm::Value* extent = llvm::ConstantInt::get(i64, static_cast<uint64_t>(expr.args[3]->int_value));
  if (varies(index)) extent = splat(extent, lanes_of(index));
  llvm::Value* bad = builder_.CreateICmpUGE(index, extent);
  if (mask_) {
    std::vector<llvm::Value*> both{bad, mask_};
    unify(both);
    bad = builder_.CreateAnd(both[0], both[1]);
  }
  llvm::Value* any = varies(bad) ? builder_.CreateOrReduce(bad) : bad;
  if (!check_slots_) fail("a check of an index without a place to report to");
  const auto report = [&] {
    llvm::Value* reported = emit_expr(expr.args[2]);
    if (varies(reported)) {  // the first lane that is bad
      llvm::Value* lanes = reported;
      reported = builder_.CreateExtractElement(lanes, lanes_ - 1);
      for (unsigned lane = lanes_ - 1; lane-- > 0;) {
        llvm::Value* here = varies(bad) ? builder_.CreateExtractElement(bad, lane) : bad;
        reported = builder_.CreateSelect(here, builder_.CreateExtractElement(lanes, lane), reported);
      }
    }
    llvm::Value* slot = builder_.CreateConstInBoundsGEP1_64(i64, check_slots_, static_cast<uint64_t>(expr.args[4]->int_value));
    auto* old = builder_.CreateAlignedLoad(i64, slot, llvm::Align(8));
    old->setAtomic(llvm::AtomicOrdering::Unordered);
    emit_if(
        builder_.CreateICmpEQ(old, llvm::ConstantInt::get(i64, 0)),
        [&] { builder_.CreateAlignedStore(reported, slot, llvm::Align(8))->setAtomic(llvm::AtomicOrdering::Unordered); }, nullptr);
  };
  emit_if(any, report, nullptr, /*rare=*/true);
  return x;
}

llvm::Value* Emitter::emit_load(const loop::Expr& expr) {
  const loop::Buffer& buffer = *expr.buffer;
  if (!expr.otherwise) {
    Address address = address_of(buffer, expr.indices);
    // Inactive lanes read nothing, unless their element exists anyway.
    Index flat = buffer.tile ? Index() : flat_index(buffer, expr.indices);
    bool exists = buffer.tile || (flat.min() && *flat.min() >= 0 && flat.max() && *flat.max() < buffer.span());
    llvm::Value* mask = exists ? nullptr : mask_;
    // What lies in the padding is as good as any other value of an inactive lane.
    if (mask && varies(mask) && is_piece_of_row(buffer, address) && masks_padding_alone(buffer, expr.indices))
      mask = builder_.CreateExtractElement(mask, uint64_t{0});
    return load_from(buffer, address, mask, nullptr);
  }
  llvm::Value* inside = in_bounds(buffer, expr.indices);
  llvm::Value* otherwise = emit_expr(expr.otherwise);
  if (!inside) return load_from(buffer, address_of(buffer, expr.indices), mask_, nullptr);
  llvm::Value* mask = inside;
  if (mask_) {
    std::vector<llvm::Value*> both{inside, mask_};
    unify(both);
    mask = builder_.CreateAnd(both[0], both[1]);
  }
  if (buffer.count() == 0) return otherwise;
  Address address = address_of(buffer, expr.indices);
  return load_from(buffer, address, mask, otherwise);
}

}  // namespace tcc::codegen
