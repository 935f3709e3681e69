// Where the products of --emit go.
//
//   one product, no path            standard output; of several targets one after the other, each below a comment with its name
//   --emit=ptx=out.ptx              that file ("-" is standard output); per target out.cuda.ptx, when the product exists for several
//   several products                the current folder, or --dump-dir: <stem>.<ending>, per target <stem>.<target>.<ending>
//
// What goes to standard output is printed as soon as its stage is done. Files are staged and appear together, with the library, when the whole
// command has succeeded (output_files.h).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "driver/targets.h"
#include "tcc/driver/emit_kinds.h"
#include "tcc/driver/options.h"
#include "tcc/graph/graph.h"
#include "tcc/support/command_files.h"
#include "tcc/support/output_files.h"

namespace tcc::driver {

class ProductWriter {
 public:
  /// Checks the kinds and decides every name. Errors (usage): a kind that is unknown, that this mode or form of input lacks, or none of the targets has.
  ProductWriter(const Options& options, const std::vector<TargetChoice>& targets);

  bool wants(std::string_view kind) const;
  /// Also whether the product exists for this target.
  bool wants(std::string_view kind, const TargetChoice& target) const;
  Stage last_stage() const;
  /// Files that will be written.
  void list_files(CommandFiles& files) const;
  std::vector<std::string> paths() const;
  /// Makes the folder of --dump-dir.
  void make_folder();
  OutputFiles& outputs() { return outputs_; }

  void write(std::string_view kind, std::string_view text) { write(kind, "", text); }
  void write(std::string_view kind, std::string_view target, std::string_view text);
  /// The text of a graph, and its weights in a file beside it.
  /// The graph as tcc.fx JSON, and its weights in a file beside it.
  void write_fx(const Graph& graph);
  void write_graph(std::string_view kind, const Graph& graph) { write_graph(kind, "", graph); }
  void write_graph(std::string_view kind, std::string_view target, const Graph& graph);

 private:
  struct Product {
    std::string kind, target, path;  ///< path "-": standard output
  };
  /// The heading of a product on standard output that others follow.
  std::string heading(const Product& product) const;
  /// Where the weights of a printed graph go; empty: nowhere.
  std::string weights_path(const Product& product) const;
  void put(const Product& product, std::string_view text);
  const Product* find(std::string_view kind, std::string_view target) const;

  const Options& options_;
  std::vector<Product> products_;
  OutputFiles outputs_;
  Stage last_stage_ = Stage::nothing;
};

/// `<stem>` of the names above: the model's file name without its ending.
std::string stem_of(const std::string& model);

}  // namespace tcc::driver
