// 4-bit integers in memory that others see: two a byte, the element with the even index in the lower half. In registers and in memory of a kernel's own each
// has a byte.
//
// Neighbours are loaded in words and shifted apart: eight of a word of 32 bits.
//
// A store changes half of a byte whose other half may belong to another thread: atomically, first the bits that are to be 0, then those that are to be 1. A
// reader of this element sees it after the launch.
#include <llvm/IR/Constants.h>

#include <algorithm>
#include <numeric>

#include "codegen/llvm/emitter.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

llvm::Value* Emitter::unpack_words(llvm::Value* words, unsigned lanes, DType dtype) {
  auto* of_words = llvm::cast<llvm::FixedVectorType>(words->getType());
  const unsigned bits = of_words->getScalarSizeInBits(), each = bits / 4;
  const bool carries_sign = is_signed_integer(dtype) && !converts_by_bits();
  llvm::SmallVector<int, 32> order;
  llvm::SmallVector<llvm::Constant*, 32> shifts;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    order.push_back(static_cast<int>(lane / each));
    const unsigned below = lane % each * 4;
    shifts.push_back(llvm::ConstantInt::get(of_words->getElementType(), carries_sign ? bits - 4 - below : below));
  }
  llvm::Value* apart = builder_.CreateShuffleVector(words, order);
  llvm::Value* by = llvm::ConstantVector::get(shifts);
  // Of signed ones the sign is carried down, so that wider integers take them as they are.
  apart = carries_sign ? builder_.CreateAShr(builder_.CreateShl(apart, by), llvm::ConstantInt::get(apart->getType(), bits - 4))
                       : builder_.CreateLShr(apart, by);
  return builder_.CreateTrunc(apart, llvm::FixedVectorType::get(register_type(dtype), lanes));
}

// 2^23 + x is the f32 whose last bits are those of x. Of a signed x, x + 8 are its bits with the first one turned.
llvm::Value* Emitter::nibbles_to_float(llvm::Value* value, DType dtype) {
  constexpr uint64_t kBits = 0x4b000000;
  constexpr double kOffset = 8388608;
  const auto lanes_of = [&](llvm::Type* type) -> llvm::Type* {
    return varies(value) ? llvm::VectorType::get(type, llvm::cast<llvm::VectorType>(value->getType())) : type;
  };
  llvm::Type *i32 = lanes_of(builder_.getInt32Ty()), *f32 = lanes_of(builder_.getFloatTy());
  const int offset = is_signed_integer(dtype) ? 8 : 0;
  llvm::Value* bits = builder_.CreateXor(builder_.CreateZExt(value, i32), llvm::ConstantInt::get(i32, kBits + offset));
  return builder_.CreateFSub(builder_.CreateBitCast(bits, f32), llvm::ConstantFP::get(f32, kOffset + offset));
}

llvm::Value* Emitter::load_neighbours(const loop::Buffer& buffer, const Address& address, unsigned each, llvm::Value* mask) {
  llvm::Value* offset = address.base;
  if (mask) offset = builder_.CreateSelect(mask, offset, llvm::Constant::getNullValue(offset->getType()));
  auto* words = llvm::FixedVectorType::get(builder_.getIntNTy(4 * each), lanes_ / each);
  const auto bytes = static_cast<uint64_t>(std::min<int64_t>(address.alignment / 2, 16));
  llvm::Value* pointer = element_pointer(buffer, builder_.CreateLShr(offset, uint64_t{1}), 0);
  return unpack_words(builder_.CreateAlignedLoad(words, pointer, llvm::Align(bytes)), lanes_, buffer.dtype);
}

llvm::Value* Emitter::load_packed(const loop::Buffer& buffer, const Address& address, llvm::Value* mask) {
  auto one = [&](llvm::Value* offset, llvm::Value* active) {
    if (active) offset = builder_.CreateSelect(active, offset, llvm::Constant::getNullValue(offset->getType()));
    llvm::Value* byte = builder_.CreateAlignedLoad(builder_.getInt8Ty(),
                                                   element_pointer(buffer, builder_.CreateLShr(offset, uint64_t{1}), 0), llvm::Align(1));
    llvm::Value* shift =
        builder_.CreateShl(builder_.CreateTrunc(builder_.CreateAnd(offset, uint64_t{1}), builder_.getInt8Ty()), uint64_t{2});
    return builder_.CreateLShr(byte, shift);
  };
  if (!address.offsets && address.lane_stride == 0)
    return from_memory(one(address.base, mask && varies(mask) ? builder_.CreateOrReduce(mask) : mask), buffer.dtype);
  if (!address.offsets && address.lane_stride == 1 && !(mask && varies(mask)) && buffer.count() >= lanes_) {
    const int64_t each = std::gcd(std::gcd<int64_t>(lanes_, 8), address.alignment);
    if (each > 1) return load_neighbours(buffer, address, static_cast<unsigned>(each), mask);
  }
  llvm::Value* bytes = llvm::PoisonValue::get(llvm::FixedVectorType::get(builder_.getInt8Ty(), lanes_));
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    llvm::Value* active = mask && varies(mask) ? builder_.CreateExtractElement(mask, lane) : mask;
    bytes = builder_.CreateInsertElement(bytes, one(lane_offset(address, lane), active), lane);
  }
  return from_memory(bytes, buffer.dtype);
}

void Emitter::store_packed(const loop::Buffer& buffer, const Address& address, llvm::Value* value) {
  auto one = [&](llvm::Value* offset, llvm::Value* byte) {
    llvm::Value* pointer = element_pointer(buffer, builder_.CreateLShr(offset, uint64_t{1}), 0);
    llvm::Value* shift =
        builder_.CreateShl(builder_.CreateTrunc(builder_.CreateAnd(offset, uint64_t{1}), builder_.getInt8Ty()), uint64_t{2});
    llvm::Value* set = builder_.CreateShl(byte, shift);
    llvm::Value* others = builder_.CreateNot(builder_.CreateShl(builder_.getInt8(0xf), shift));
    builder_.CreateAtomicRMW(llvm::AtomicRMWInst::And, pointer, builder_.CreateOr(others, set), llvm::Align(1),
                             llvm::AtomicOrdering::Monotonic);
    builder_.CreateAtomicRMW(llvm::AtomicRMWInst::Or, pointer, set, llvm::Align(1), llvm::AtomicOrdering::Monotonic);
  };
  if (!address.offsets && address.lane_stride == 0) {
    if (varies(value)) fail("lanes store different values to one element of %" + buffer.name);
    if (mask_ && varies(mask_)) emit_if(builder_.CreateOrReduce(mask_), [&] { one(address.base, value); }, nullptr);
    else one(address.base, value);
    return;
  }
  value = widen(value);
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    llvm::Value* offset = lane_offset(address, lane);
    auto put = [&] { one(offset, builder_.CreateExtractElement(value, lane)); };
    if (mask_ && varies(mask_)) emit_if(builder_.CreateExtractElement(mask_, lane), put, nullptr);
    else put();
  }
}

}  // namespace tcc::codegen
