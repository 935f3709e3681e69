// What a library holds, read out of its file: nothing of it is loaded or run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tcc/graph/state.h"
#include "tcc/runtime/program.h"
#include "tcc/support/dtype.h"
#include "tcc/support/tensor.h"

namespace tcc::link {

struct LibraryTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int64_t size_bytes = 0;
};

struct LibraryState {
  LibraryTensor tensor;
  StateRole role = StateRole::parameter;
  bool trained = true;
};

/// The plan of one function on one target.
struct LibraryPlan {
  int64_t num_launches = 0;
  int64_t workspace_bytes = 0;
  int64_t planned_peak_bytes = 0;  ///< weights, what is prepared, state, gradients and workspace of an instance on the device
};

struct LibraryTarget {
  program::TargetKind kind = program::TargetKind::cpu;
  std::vector<std::string> code;  ///< "x86-64-v3"; "PTX for sm_80", "cubin for sm_90a"
  int64_t num_kernels = 0;
  int64_t prepared_bytes = 0;      ///< what an instance makes of weights
  std::vector<LibraryPlan> plans;  ///< as LibraryContents::functions
};

struct LibraryContents {
  struct Function {
    std::string name;
    std::vector<LibraryTensor> inputs, outputs;
  };
  struct Scalar {
    std::string name;
    DType dtype = DType::f32;
    double value = 0;
  };
  std::string model_name, compiler;
  std::vector<std::pair<std::string, std::string>> about;  ///< ProgramDesc::about
  int64_t file_bytes = 0;
  bool weights_embedded = true;
  int64_t weights_bytes = 0;  ///< of the blob: equal weights once, with what lies between them
  uint64_t weights_hash = 0;
  std::vector<LibraryTensor> weights;  ///< constants among them, and what state holds at first
  int64_t accumulate = 1;
  std::vector<Function> functions;
  std::vector<LibraryState> state;
  int64_t state_bytes = 0, gradient_bytes = 0;
  std::vector<Scalar> scalars;
  std::vector<LibraryTarget> targets;
};

/// Finds the program in the bytes of a shared object and reads its tables. Every offset is checked against what holds it.
/// Errors: environment (unusable-library) for a file that is cut short, is none of tcc's libraries, is of another version, or is damaged.
LibraryContents read_library(std::string_view bytes, const std::string& path);

}  // namespace tcc::link
