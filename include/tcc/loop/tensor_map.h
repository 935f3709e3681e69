// Tiles that the copy engine moves: what a tensor map says of the array in global memory, derived from the copies of a kernel. The emitter, the program
// inside the library and the launcher take it from here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tcc/loop/loop.h"

namespace tcc::loop {

/// A row of a panel. Wider boxes are not swizzled, and instructions of a warpgroup read panels of such rows alone.
inline constexpr int64_t kPanelBytes = 128;

/// A tensor map: the array behind a parameter, and the box that one instruction moves. Axes are in the order of the buffer, the last contiguous.
struct TensorMap {
  int param = 0;  ///< number of the kernel's parameter
  DType dtype = DType::f32;
  std::vector<int64_t> extents;  ///< elements
  std::vector<int64_t> strides;  ///< bytes, of all axes but the last
  std::vector<int64_t> box;      ///< elements that are moved
  std::vector<int64_t> steps;    ///< from one of them to the next, elements
  int swizzle_bytes = 0;         ///< 128, 64, 32, or 0
  bool operator==(const TensorMap&) const = default;
};

/// Elements that a box spans along an axis, and from one that is moved to the next, at most. Source: CUDA driver API, cuTensorMapEncodeTiled.
inline constexpr int64_t kWidestBox = 256, kLongestStep = 8;

/// What one `copy.tma` does: its boxes, one for each panel of the destination.
struct TensorCopy {
  TensorMap map;                   ///< without `param`
  std::vector<Index> coordinates;  ///< of the first box, one for each axis of the map
  int64_t panels = 1;              ///< boxes along the last axis
  int64_t panel_bytes = 0;         ///< of shared memory from one box to the next
};

/// The reasons why the copy engine does not do the copy; empty when it does. Source of the limits: CUDA driver API, cuTensorMapEncodeTiled.
std::vector<std::string> faults_of_tensor_copy(const Copy& copy);
/// Of a copy without faults.
TensorCopy tensor_copy(const Copy& copy);

/// The same map, with the parameter of the kernel that the copy reads.
TensorMap tensor_map(const Kernel& kernel, const Copy& copy);

/// The maps of a kernel, in the order in which its parameters for them stand behind the others; equal ones once.
std::vector<TensorMap> tensor_maps(const Kernel& kernel);

}  // namespace tcc::loop
