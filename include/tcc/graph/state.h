// What a library keeps between calls: the buffers that a model changes itself; of a training parameters, the optimizer's tensors, running statistics and
// gradients. And where each of them lies.
//
// There are two blocks of memory per instance: block 1 holds the gradients, block 0 the rest. A block is a sequence of
// sections; a section holds the tensors of one role (and slot) and dtype one after the other, each 256-byte aligned, the gaps zeros:
//
//   parameters.f32            | w (4 x 3) | gap | b (3) | gap |
//   optimizer.exp_avg.f32     | w         | gap | b     | gap |      the same parameters in the same order at the same places,
//   gradients.f32 (block 1)   | w         | gap | b     | gap |      so that a whole section is one flat tensor
//
// Graphs read a state tensor as the weight of its name, and a flat tensor as the weight of a view's name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/support/tensor.h"

namespace tcc {

/// statistic: of a batch norm, learned by --batch-norm=train. buffer: what the model itself changes when it runs.
enum class StateRole : uint8_t { parameter, gradient, optimizer, statistic, buffer };
std::string_view name_of(StateRole role);  ///< "parameter", "gradient", "optimizer", "statistic", "buffer"

inline constexpr int64_t kStateAlignment = 256;  ///< of each tensor and section, in bytes

/// A named tensor that a library keeps between calls.
struct StateTensor {
  std::string name;
  StateRole role = StateRole::parameter;
  DType dtype = DType::f32;
  Shape shape;
  int section = -1;     ///< index into StateLayout::sections
  int64_t offset = 0;   ///< bytes, in the block of its role
  bool view = false;    ///< a stretch of a section under a name of its own (a flat tensor): no storage of its own, not saved, not described
  bool trained = true;  ///< parameters: false when frozen
  double fill = 0;      ///< what it holds at first ...
  Tensor initial;       ///< ... unless this is defined
  /// `initial` is that of another tensor, a parameter of a 16-bit float dtype, as f32: a library stores it once. Its name; empty: it is stored itself.
  std::string converted_from;

  int64_t size_bytes() const { return storage_bytes(dtype, num_elements(shape)); }
  int block() const { return role == StateRole::gradient ? 1 : 0; }
};

struct StateSection {
  std::string name;
  StateRole role = StateRole::parameter;
  DType dtype = DType::f32;
  int64_t offset = 0, size_bytes = 0;  ///< in the block of its role; multiples of kStateAlignment
};

/// Tensors and sections are in the order of their offsets, block by block; a view follows what it covers.
struct StateLayout {
  std::vector<StateTensor> tensors;
  std::vector<StateSection> sections;
  int64_t state_bytes = 0, gradient_bytes = 0;  ///< of blocks 0 and 1

  /// Null when there is none of that name.
  const StateTensor* find(std::string_view name) const;

  /// Appends a section of these tensors, in order, to the block of their role; fills in role, dtype, section and offset, and returns its index.
  /// Each tensor begins at a multiple of `alignment` bytes. Names must be new.
  int append_section(std::string_view name, StateRole role, DType dtype, std::vector<StateTensor> tensors,
                     int64_t alignment = kStateAlignment);
  /// Appends a rank-1 view of all elements (gaps too) from `first_byte` of the section on, `bytes` of them; -1: to its end.
  void append_view(std::string_view name, int section, int64_t first_byte = 0, int64_t bytes = -1);

 private:
  void append(StateTensor tensor);
  std::map<std::string, int, std::less<>> by_name_;
};

class Graph;
/// The state of the model itself, the weights that are marked so: parameters in sections `parameters.<dtype>`, the others in `buffers.<dtype>`. Weights of
/// one name in several graphs are one tensor; they must be equal.
StateLayout lay_out_state(const std::vector<const Graph*>& graphs);

}  // namespace tcc
