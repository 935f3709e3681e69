// The embedded program, read in place (tcc/runtime/program.h), and the addresses of launch arguments.
#pragma once

#include <stdint.h>

#include "runtime/stub/memory.h"
#include "runtime/stub/payload.h"
#include "tcc/runtime/program.h"
#include "tcc/runtime/runtime.h"

namespace tcc::stub {

/// Rows of a table. A view: nothing is copied.
template <class T> struct Rows {
  const T* data = nullptr;
  uint32_t count = 0;
  const T& operator[](uint32_t i) const { return data[i]; }
  const T* begin() const { return data; }
  const T* end() const { return data + count; }
  Rows part(program::Span span) const { return {data + span.first, span.count}; }
};

class ProgramView {
 public:
  /// Compares the version, and once per process the checksums of header and tables: what the compiler wrote is what is read.
  static int open(ProgramView* view);

  const program::Header& header() const { return *header_; }
  template <class T> Rows<T> rows(const program::Table& table) const {
    return {reinterpret_cast<const T*>(base_ + table.offset), table.count};
  }
  const char* text(const program::Text& text) const { return base_ + text.offset; }
  const int64_t* shape(const program::Tensor& tensor) const { return rows<int64_t>(header_->extents).data + tensor.shape.first; }

  const int64_t* shape(const program::StateTensor& tensor) const { return rows<int64_t>(header_->extents).data + tensor.shape.first; }

  Rows<program::Function> functions() const { return rows<program::Function>(header_->functions); }
  Rows<program::Tensor> tensors() const { return rows<program::Tensor>(header_->tensors); }
  Rows<program::Tensor> inputs(uint32_t function) const { return tensors().part(functions()[function].inputs); }
  Rows<program::Tensor> outputs(uint32_t function) const { return tensors().part(functions()[function].outputs); }
  Rows<program::StateTensor> state() const { return rows<program::StateTensor>(header_->state); }
  Rows<program::Section> sections() const { return rows<program::Section>(header_->sections); }
  Rows<program::Scalar> scalars() const { return rows<program::Scalar>(header_->scalars); }
  Rows<program::Guard> guards() const { return rows<program::Guard>(header_->guards); }
  Rows<program::Tensor> weights() const { return rows<program::Tensor>(header_->weights); }
  /// The first of the kind; null when the library was not compiled for that kind of device.
  const program::Target* target(program::TargetKind kind) const;
  Rows<program::Target> targets() const;
  const program::FunctionCode& code(const program::Target& target, uint32_t function) const {
    return rows<program::FunctionCode>(target.functions)[function];
  }
  /// What `create` runs; null: nothing.
  const program::FunctionCode* preparation(const program::Target& target) const {
    return target.preparation.count > 0 ? rows<program::FunctionCode>(target.preparation).data : nullptr;
  }
  /// Of the launch's kernel, in the table of the target; none of other launches.
  program::Span tensor_maps(const program::Target& target, const program::Launch& launch) const;

 private:
  const char* base_ = nullptr;
  const program::Header* header_ = nullptr;
};

/// The arguments of all launches of a function, or of the preparation, as addresses. Every buffer lies in a slot: the weights, what is
/// prepared, the workspace, a block of state, an input or an output; a run supplies the address of each slot, and only what lies in slots that moved since the last run is computed anew.
class Arguments {
 public:
  static constexpr uint32_t kConstant = 0;  ///< address 0: the offset is the value itself
  static constexpr uint32_t kWeights = 1;
  static constexpr uint32_t kWorkspace = 2;
  static constexpr uint32_t kChecks = 3;  ///< where the function's kernels report bad indices to
  static constexpr uint32_t kPrepared = 4;
  static constexpr uint32_t kState = 5;  ///< block 0, with the scalars behind it; then the other blocks
  static constexpr uint32_t kFirstTensor = kState + program::kNumStateBlocks;  ///< inputs, then outputs

  struct Code {
    const program::FunctionCode& launches;
    uint32_t num_inputs, num_outputs;
  };
  struct Source {
    uint32_t slot;
    uint64_t offset;
  };
  struct Range {
    uint32_t first;
    uint32_t count;
  };

  /// `weight_offsets`: where each weight lies in the weights slot. A copy has the constant size as one more argument, a fill size, pattern
  /// and pattern width: host launches take them so.
  int prepare(const ProgramView& view, const program::Target& target, const Code& code, const uint64_t* weight_offsets, Memory* memory);

  uint32_t num_slots() const { return num_slots_; }
  /// Addresses for the next run, num_slots() of them; write, then call bind().
  char** bases() { return next_; }
  /// True when any slot moved.
  bool bind();
  /// True when an argument of the launch moved in the last bind().
  bool moved(uint32_t launch) const { return moved_[launch]; }
  void** of(uint32_t launch) const { return values_ + ranges_[launch].first; }
  /// The addresses of the arguments, which is how the CUDA driver takes parameters.
  void** pointers_of(uint32_t launch) const { return pointers_ + ranges_[launch].first; }
  /// Of pointers_of: where those of the kernel's tensor maps stand, behind the others; who has the maps puts them there.
  void** map_pointers_of(uint32_t launch) const { return pointers_of(launch) + ranges_[launch].count; }

 private:
  uint32_t num_slots_ = 0, num_launches_ = 0;
  char** bases_ = nullptr;
  char** next_ = nullptr;
  Source* sources_ = nullptr;
  Range* ranges_ = nullptr;
  void** values_ = nullptr;
  void** pointers_ = nullptr;
  bool* moved_ = nullptr;
  bool bound_ = false;
};

}  // namespace tcc::stub
