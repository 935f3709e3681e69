// Products of warpgroups: wgmma on tiles that lie in shared memory as the copy engine puts them there.
//
// A descriptor says where an operand begins and how its rows of 128 bytes follow each other. Panels (128 elements of 8 bits, 64 of 16, 32 of 32) are 128 bytes wide
// and swizzled by 128 bytes; eight rows make a core matrix of 1,024 bytes.
//   k contiguous    rows of m or n; a step of k is 32 bytes further along the row
//   k outside       (16 bits only) rows of k, panels of m or n; a step of k (16 rows) is 2,048 bytes further, the next panel all rows further
// The accumulators are SSA values that go through one asm each, tied in and out, so that ptxas keeps them in place between the wait and the next product.
// Source: PTX ISA, asynchronous warpgroup level matrix instructions.
#include <llvm/IR/Constants.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <string>

#include "codegen/nvptx/emitter.h"
#include "tcc/loop/tensor_map.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

using loop::kPanelBytes;

namespace {

constexpr int64_t kCoreMatrixBytes = 8 * kPanelBytes;
constexpr int64_t kStepBytes = 32;  // of the sum, that an instruction takes of each row
constexpr int64_t kWordsOfA = 4;    // of an instruction, where a is in registers
constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;

std::string dollar(int64_t number) { return "$" + std::to_string(number); }

std::string type_of_factor(DType dtype) {
  switch (dtype) {
    case DType::f32: return ".tf32";
    case DType::f16: return ".f16";
    case DType::bf16: return ".bf16";
    case DType::f8e4m3fn: return ".e4m3";
    case DType::f8e5m2: return ".e5m2";
    case DType::i8: return ".s8";
    case DType::u8: return ".u8";
    default: internal_error("wgmma takes no " + std::string(name_of(dtype)));
  }
}

/// The instruction for an accumulator in `cells` registers, operands $0 to $cells-1, then the descriptors; of an operand in registers, four words.
std::string wgmma_text(const loop::Mma& mma, int64_t columns, int64_t cells, bool adds) {
  const DType dtype = mma.a->dtype;
  std::string text = "{ .reg .pred p; setp.ne.b32 p, " + std::string(adds ? "1" : "0") + ", 0; wgmma.mma_async.sync.aligned.m64n" +
                     std::to_string(columns) + "k" + std::to_string(kStepBytes / size_bytes(dtype)) + (is_float(dtype) ? ".f32" : ".s32") +
                     type_of_factor(dtype) + type_of_factor(mma.b->dtype) + " {";
  for (int64_t i = 0; i < cells; ++i) text += (i > 0 ? "," : "") + dollar(i);
  text += "}, ";
  if (mma.a->tile) {
    text += "{";
    for (int64_t i = 0; i < kWordsOfA; ++i) text += (i > 0 ? "," : "") + dollar(cells + i);
    text += "}, " + dollar(cells + kWordsOfA) + ", p";
  } else {
    text += dollar(cells) + ", " + dollar(cells + 1) + ", p";
  }
  if (is_float(dtype)) text += ", 1, 1";  // neither factor is negated
  if (size_bytes(dtype) == 2) text += std::string(mma.a->tile ? "" : mma.transpose_a ? ", 1" : ", 0") + (mma.transpose_b ? ", 1" : ", 0");
  return text + "; }";
}

/// Registers of floats or of integers that an asm reads and writes.
std::string tied(const llvm::Type* cell, int64_t cells, const std::string& others) {
  const std::string one = cell->isFloatTy() ? "=f" : "=r";
  std::string text;
  for (int64_t i = 0; i < cells; ++i) text += (i > 0 ? "," : "") + one;
  text += others;
  for (int64_t i = 0; i < cells; ++i) text += "," + std::to_string(i);
  return text;
}

}  // namespace

// `begin`: byte address in shared memory, a multiple of 16.
llvm::Value* NvptxEmitter::descriptor(const loop::Buffer& buffer, bool k_first, int64_t k_extent, llvm::Value* begin) {
  if (buffer.panel * size_bytes(buffer.dtype) != kPanelBytes) fail("%" + buffer.name + " does not lie in panels of 128 bytes");
  // Between panels, which only an operand with k outside has more than one of.
  const int64_t leading = k_first ? k_extent * kPanelBytes : 16;
  const uint64_t fixed = kSwizzle128 | static_cast<uint64_t>(kCoreMatrixBytes >> 4) << 32 | static_cast<uint64_t>(leading >> 4) << 16;
  llvm::Value* address = builder_.CreateAnd(builder_.CreateLShr(begin, uint64_t{4}), builder_.getInt32(0x3fff));
  return builder_.CreateOr(builder_.CreateZExt(address, builder_.getInt64Ty()), builder_.getInt64(fixed));
}

// The registers of an operand as words of two neighbours. An instruction takes four of them: of a row and the eighth after it, then the same eight columns on.
// So lie the registers of an accumulator.
NvptxEmitter::Words NvptxEmitter::words_of(const loop::Buffer& operand) {
  llvm::Type* type = memory_type(operand.dtype);
  llvm::Value* held = buffers_.at(operand.id);
  const Words words{loop::registers_of(*operand.tile) / 2, make_alloca(builder_.getInt32Ty(), loop::registers_of(*operand.tile) / 2, 64)};
  for (int64_t word = 0; word < words.count; ++word) {
    llvm::Value* pair = llvm::PoisonValue::get(llvm::FixedVectorType::get(type, 2));
    for (int64_t i = 0; i < 2; ++i) {
      const auto reg = static_cast<uint64_t>(2 * word + i);
      llvm::Value* value = builder_.CreateLoad(type, builder_.CreateConstInBoundsGEP1_64(type, held, reg));
      pair = builder_.CreateInsertElement(pair, value, static_cast<uint64_t>(i));
    }
    builder_.CreateStore(builder_.CreateBitCast(pair, builder_.getInt32Ty()),
                         builder_.CreateConstInBoundsGEP1_64(builder_.getInt32Ty(), words.held, static_cast<uint64_t>(word)));
  }
  return words;
}

// `a`: a descriptor, or the words of an operand in registers.
void NvptxEmitter::multiply_async(const loop::Mma& mma, int64_t columns, int64_t first_register, const std::vector<llvm::Value*>& a,
                                  llvm::Value* b, bool adds) {
  llvm::Type* type = memory_type(mma.accumulator->dtype);
  const int64_t cells = columns / 2;
  llvm::Value* held = buffers_.at(mma.accumulator->id);
  const auto cell = [&](int64_t i) { return builder_.CreateConstInBoundsGEP1_64(type, held, static_cast<uint64_t>(first_register + i)); };
  std::vector<llvm::Value*> arguments = a;
  arguments.push_back(b);
  std::string others;
  std::vector<llvm::Type*> types;
  for (llvm::Value* argument : arguments) {
    types.push_back(argument->getType());
    others += argument->getType()->isIntegerTy(64) ? ",l" : ",r";
  }
  for (int64_t i = 0; i < cells; ++i) {
    if (adds) arguments.push_back(builder_.CreateLoad(type, cell(i)));
    else arguments.push_back(llvm::PoisonValue::get(type));
  }
  types.resize(arguments.size(), type);
  llvm::Type* result = llvm::StructType::get(context_, std::vector<llvm::Type*>(static_cast<size_t>(cells), type));
  llvm::InlineAsm* instruction = llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), wgmma_text(mma, columns, cells, adds),
                                                      tied(type, cells, others), /*hasSideEffects=*/true);
  llvm::CallInst* call = builder_.CreateCall(instruction, arguments);
  call->addFnAttr(llvm::Attribute::Convergent);
  for (int64_t i = 0; i < cells; ++i) builder_.CreateStore(builder_.CreateExtractValue(call, static_cast<unsigned>(i)), cell(i));
}

void NvptxEmitter::emit_async(const loop::Mma& mma) {
  WarpgroupTile tile;
  for (const loop::TileDigit& digit : mma.accumulator->tile->digits) {
    if (digit.level != loop::TileDigit::Level::warp) continue;
    if (digit.axis == 1) tile.groups_n *= digit.extent;
    else if (digit.stride != 16) tile.groups_m *= digit.extent;
  }
  tile.rows = mma.m / tile.groups_m;
  tile.columns = mma.n / tile.groups_n;
  const int64_t element = size_bytes(mma.a->dtype), panel = kPanelBytes / element, step = kStepBytes / element;
  const auto constant = [&](int64_t value) { return builder_.getInt32(static_cast<uint32_t>(value)); };
  llvm::Value* group = builder_.CreateLShr(uniform_warp_, uint64_t{2});
  llvm::Value* group_m = tile.groups_n == 1 ? group : builder_.CreateUDiv(group, constant(tile.groups_n));
  llvm::Value* group_n = tile.groups_m == 1 ? group : builder_.CreateURem(group, constant(tile.groups_n));
  llvm::Value* memory = builder_.CreatePtrToInt(shared_array_, builder_.getInt32Ty());
  // Bytes from the operand's begin to rows [first, ...) at k.
  const auto offset = [&](bool k_first, int64_t rows, int64_t first, int64_t k) {
    if (k_first) return first / panel * mma.k * kPanelBytes + k * kPanelBytes;
    return k / panel * rows * kPanelBytes + first * kPanelBytes + k % panel * element;
  };
  llvm::Value* a_descriptor = nullptr;
  Words a_words;
  if (mma.a->tile) {
    a_words = words_of(*mma.a);
    read_words_.push_back(a_words);
    pin(builder_.getInt32Ty(), a_words.held, a_words.count);
  } else {
    llvm::Value* a = builder_.CreateAdd(builder_.CreateAdd(memory, shared_base(*mma.a, false)),
                                        builder_.CreateMul(group_m, constant(offset(mma.transpose_a, mma.m, tile.rows, 0))));
    a_descriptor = descriptor(*mma.a, mma.transpose_a, mma.k, a);
  }
  llvm::Value* b = builder_.CreateAdd(builder_.CreateAdd(memory, shared_base(*mma.b, false)),
                                      builder_.CreateMul(group_n, constant(offset(mma.transpose_b, mma.n, tile.columns, 0))));
  llvm::Value* b_descriptor = descriptor(*mma.b, mma.transpose_b, mma.k, b);
  if (!mma.zero_first) pin(*mma.accumulator);  // the fence is for ordinary writes of these registers
  builder_.CreateIntrinsic(builder_.getVoidTy(), llvm::Intrinsic::nvvm_wgmma_fence_sync_aligned, {});
  for (int64_t k = 0; k < mma.k; k += step) {
    for (int64_t m = 0; m < tile.rows; m += 64) {
      // Operands lie below 2^18 bytes: the sum of addresses does not leave its field.
      std::vector<llvm::Value*> from_a;
      if (a_descriptor) {
        const auto bytes = static_cast<uint64_t>(offset(mma.transpose_a, mma.m, m, k) >> 4);
        from_a = {builder_.CreateAdd(a_descriptor, builder_.getInt64(bytes))};
      } else {
        const int64_t first = (m / 64 * (mma.k / 8) + k / 8) * 2;
        for (int64_t i = first; i < first + kWordsOfA; ++i) {
          llvm::Type* word = builder_.getInt32Ty();
          from_a.push_back(builder_.CreateLoad(word, builder_.CreateConstInBoundsGEP1_64(word, a_words.held, static_cast<uint64_t>(i))));
        }
      }
      llvm::Value* from_b =
          builder_.CreateAdd(b_descriptor, builder_.getInt64(static_cast<uint64_t>(offset(mma.transpose_b, mma.n, 0, k) >> 4)));
      multiply_async(mma, tile.columns, m / 64 * (tile.columns / 2), from_a, from_b, k > 0 || !mma.zero_first);
    }
  }
  builder_.CreateIntrinsic(builder_.getVoidTy(), llvm::Intrinsic::nvvm_wgmma_commit_group_sync_aligned, {});
}

void NvptxEmitter::pin(const loop::Buffer& tile) { pin(memory_type(tile.dtype), buffers_.at(tile.id), loop::registers_of(*tile.tile)); }

// The registers go through an empty asm: what wrote them stays in front of it, what reads them behind.
void NvptxEmitter::pin(llvm::Type* type, llvm::Value* held, int64_t registers) {
  constexpr int64_t kMostOperands = 128;
  for (int64_t first = 0; first < registers; first += kMostOperands) {
    const int64_t cells = std::min(registers - first, kMostOperands);
    const auto cell = [&](int64_t i) { return builder_.CreateConstInBoundsGEP1_64(type, held, static_cast<uint64_t>(first + i)); };
    std::vector<llvm::Value*> arguments;
    for (int64_t i = 0; i < cells; ++i) arguments.push_back(builder_.CreateLoad(type, cell(i)));
    const std::vector<llvm::Type*> types(arguments.size(), type);
    llvm::Type* result = cells == 1 ? type : llvm::StructType::get(context_, types);
    llvm::CallInst* call = builder_.CreateCall(
        llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), "", tied(type, cells, ""), /*hasSideEffects=*/true), arguments);
    for (int64_t i = 0; i < cells; ++i)
      builder_.CreateStore(cells == 1 ? call : builder_.CreateExtractValue(call, static_cast<unsigned>(i)), cell(i));
  }
}

void NvptxEmitter::emit(const loop::MmaWait& wait) {
  builder_.CreateIntrinsic(builder_.getVoidTy(), llvm::Intrinsic::nvvm_wgmma_wait_group_sync_aligned,
                           {builder_.getInt64(static_cast<uint64_t>(wait.pending))});
  for (const loop::BufferRef& accumulator : wait.accumulators) pin(*accumulator);
  if (wait.pending > 0) return;
  for (const Words& words : read_words_) pin(builder_.getInt32Ty(), words.held, words.count);  // until then nothing else goes into them
  read_words_.clear();
}

}  // namespace tcc::codegen
