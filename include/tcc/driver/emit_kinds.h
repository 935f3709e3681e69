// The products that --emit knows.
#pragma once

#include <span>
#include <string_view>

namespace tcc::driver {

/// The stages after which a compilation may stop, in order.
enum class Stage { nothing, imported, joint, prims, planned, generated, linked };

struct EmitKind {
  std::string_view name;
  Stage stage;  ///< the stage that makes it
  bool per_target;
  bool on_cpu = true, on_cuda = true;
  bool of_gradients = false;  ///< an inference has no such thing
  std::string_view description;
  std::string_view ending, cuda_ending;  ///< of its files, where that is not the kind's name; the second: of those of CUDA
};
/// In the order in which they are made.
std::span<const EmitKind> emit_kinds();

}  // namespace tcc::driver
