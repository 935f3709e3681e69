// 4-bit integers in memory that others see: two a byte, the element with the even index in the lower half. In registers and in memory of a kernel's own each
// has a byte.
//
// A store changes half of a byte whose other half may belong to another thread: atomically, first the bits that are to be 0, then those that are to be 1. A
// reader of this element sees it after the launch.
#include <llvm/IR/Constants.h>

#include "codegen/llvm/emitter.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

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
