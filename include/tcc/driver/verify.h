// `tcc verify`: what a compiled model computes, against the interpreter's reference (tcc/rules/reference.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tcc/driver/options.h"
#include "tcc/driver/tolerance.h"
#include "tcc/graph/graph.h"
#include "tcc/loop/loop.h"
#include "tcc/runtime/library.h"
#include "tcc/support/tensor.h"

namespace tcc::driver {

struct VerifyOptions {
  runtime::Device device = runtime::Device::automatic;
  int threads = 0;
  std::optional<double> rtol,
      atol;  ///< in the place of the defaults of every dtype; `atol` also in that of the units of the largest element
};

struct Verification {
  struct Output {
    std::string name;
    Type type;
    Tolerance tolerance;
    std::optional<DType> rounding;  ///< that the tolerance is for
    Comparison comparison;
    bool is_gradient = false;
    bool is_state = false;  ///< what the run leaves in the state of that name
    int run = 1;
  };
  std::string device;
  std::vector<Output> outputs;  ///< of each run, one per output of the graph and per tensor of its state that it changes
  int num_runs = 1;
  bool passed = true;
  std::map<std::string, Tensor> state;  ///< on entry to the last run
};
/// Compiles prims, runs them on the inputs and compares every output with the reference (tcc/rules/reference.h). A graph that changes its state is run
/// three times in a row, each time from what the library had in its state, and the state is compared as well; fewer times when one differs or an index
/// that the state holds has left its range.
Verification verify_prims(const Graph& prims, const std::vector<Tensor>& inputs, const Options& options, const VerifyOptions& verify);

/// The text of one unit or kernel (--from=loop, --from=kernel), which has no graph.
class UnitText {
 public:
  /// Reads and checks it; Error (usage) when the text has several.
  explicit UnitText(const Options& options);
  std::vector<std::pair<std::string, Type>> inputs() const;
  /// Compiles it, as --pass says or as is chosen, runs it and compares every output with what the interpreter of loops makes of the text. That one
  /// computes in the dtypes of the text, not in f64.
  Verification verify(const std::vector<Tensor>& inputs, const VerifyOptions& verify) const;

 private:
  Options options_;
  std::variant<loop::Unit, loop::Kernel> text_;
  const std::vector<loop::Param>& params() const;
};

/// The first node whose value differs when it is computed as an output of its own: found by bisection over the nodes in order, a compilation
/// each, in one run from the state that the weights hold. Null when no single node does.
struct FirstDifference {
  const Node* node = nullptr;
  int result = 0;
  Comparison comparison;
};
FirstDifference find_first_difference(const Graph& prims, const std::vector<Tensor>& inputs, const Options& options,
                                      const VerifyOptions& verify);

}  // namespace tcc::driver
