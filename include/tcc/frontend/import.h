// Stage 1: a model file becomes a graph.
//
//   tcc::Diagnostics diagnostics;
//   std::unique_ptr<tcc::Graph> graph = tcc::import_model("net.onnx", {}, diagnostics);
//
// The graph is at stage `imported`: sizes may be symbols, ranks may be unknown, and ops whose sizes are operands are still there
// (`resolve` removes them). Values carry the model's own names. ONNX forms of opset 6 to 28 are brought to the newest one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/passes/passes.h"
#include "tcc/support/diagnostics.h"

namespace tcc {

/// The ONNX operator sets whose models are read.
inline constexpr int kOldestOpset = 6, kNewestOpset = 28;

/// What ImportOptions::format may say.
std::vector<std::string> model_kinds();

struct ImportOptions {
  std::string function;  ///< of a file with several graphs, the one that is imported; empty: all
  std::string format;    ///< one of model_kinds(): taken as that kind whatever the content looks like; empty: found by content
  /// What is already known of the inputs. The importer never changes the signature (that is bind_shapes); it only uses this where the model
  /// must be decided while it is read: the condition of an If, the training flag of a Dropout.
  Bindings known;
  /// Called once, when the inputs are declared and no node is imported yet; its result replaces `known`. (The values of `--bind` can only be
  /// read when the names and dtypes of the inputs are known.) `sizes`: symbols that the program reads and that no input has as a size.
  std::function<Bindings(const Graph& signature, const std::vector<std::string>& sizes)> bindings;
  /// Bytes of a parameter, buffer or constant that the file names and does not hold (the JSON of a program without its archive); nothing: it is an input.
  /// May be null.
  std::function<std::optional<Tensor>(const std::string& name)> parameters;
  /// An op that is unknown is reported for each of its nodes, not once with the first nodes and their number (what reads the reports is a program).
  bool report_every_node = false;
  /// Set where the importer has applied the bindings itself: sizes of the graph are bound, and inputs with values are gone. Captured programs
  /// compute with sizes as numbers, so theirs must be known while they are read. May be null.
  bool* is_bound = nullptr;
  /// Receives the path of every other file that was read (external data), once each, in order of first use. May be null.
  std::vector<std::string>* files_read = nullptr;
};

/// A condition under which a function was captured.
struct ImportedGuard {
  std::string
      setting;  ///< what only a caller knows, and a run has to compare: "state:grad_enabled". Empty: decided while importing, or opaque
  double value = 0;  ///< of the setting
  std::string text;  ///< for who looks at the library
};

/// What a library of the model can be asked to run.
struct ImportedFunction {
  std::string name;  ///< "infer"; of a file with several graphs what its id becomes (docs/fx_json.md)
  std::unique_ptr<Graph> graph;
  std::vector<ImportedGuard> guards;
};

/// Reads a model; "-" is standard input. The kind (ONNX, torch.export archive or JSON, tcc.fx JSON) is found by content.
/// Weights in external files are mapped, not copied, when they lie aligned; the mapping lives as long as the tensor.
/// Warnings go to `diagnostics`. Throws Error: `environment` for a file that can't be read, `model` for everything wrong in the model;
/// all unknown ops, then all faulty nodes, are reported together; what depends on a faulty node is passed over.
/// The first function is the entry; only a tcc.fx JSON file has more. ImportOptions::bindings is called once, with the inputs of all.
std::vector<ImportedFunction> import_functions(const std::string& path, const ImportOptions& options, Diagnostics& diagnostics);
/// The same of a model with one function. Error (usage) when there are several and the options name none.
std::unique_ptr<Graph> import_model(const std::string& path, const ImportOptions& options, Diagnostics& diagnostics);

/// An op that models may have, of the versions that its domain has in kOldestOpset to kNewestOpset.
struct KnownOp {
  std::string domain;  ///< empty: ONNX's own
  std::string name;
};
/// Sorted by domain and name.
std::vector<KnownOp> known_ops();

}  // namespace tcc
