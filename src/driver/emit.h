// Where the products of --emit go.
//
//   one product, no path            standard output
//   --emit=ptx=out.ptx              that file ("-" is standard output); per target out.cuda.ptx, when the product exists for several
//   several products                the current folder, or --dump-dir: <stem>.<kind>, per target <stem>.<target>.<kind>
//
// A product is written as soon as its stage is done, whole or not at all, so the ones before a failure are there to be read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "driver/targets.h"
#include "tcc/driver/options.h"
#include "tcc/graph/graph.h"

namespace tcc::driver {

/// The stages after which a compilation may stop, in order.
enum class Stage { nothing, imported, joint, prims, planned, generated, linked };

struct EmitKind {
  std::string_view name;
  Stage stage;  ///< the stage that makes it
  bool per_target;
  bool on_cpu = true, on_cuda = true;
  bool of_gradients = false;  ///< an inference has no such thing
};

class Emitter {
 public:
  /// Checks the kinds and decides every name. Errors (usage): a kind that is unknown, that this mode or form of input lacks, or none of the targets has.
  Emitter(const Options& options, const std::vector<TargetChoice>& targets);

  bool wants(std::string_view kind) const;
  /// Also whether the product exists for this target.
  bool wants(std::string_view kind, const TargetChoice& target) const;
  Stage last_stage() const;

  void write(std::string_view kind, std::string_view text) { write(kind, "", text); }
  void write(std::string_view kind, std::string_view target, std::string_view text);
  /// The text of a graph, and its weights in a file beside it.
  void write_graph(std::string_view kind, const Graph& graph) { write_graph(kind, "", graph); }
  void write_graph(std::string_view kind, std::string_view target, const Graph& graph);

 private:
  struct Product {
    std::string kind, target, path;  ///< path "-": standard output
  };
  const Product* find(std::string_view kind, std::string_view target) const;

  const Options& options_;
  std::vector<Product> products_;
  Stage last_stage_ = Stage::nothing;
};

/// `<stem>` of the names above: the model's file name without its ending.
std::string stem_of(const std::string& model);
/// To standard output, all of it; Error (environment) when it can't be written.
void write_stdout(std::string_view text);

}  // namespace tcc::driver
