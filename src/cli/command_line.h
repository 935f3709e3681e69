// What all verbs share: flags, parsing with the manners of compilers, and how errors reach the user.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tcc/driver/options.h"
#include "tcc/runtime/library.h"

namespace tcc::cli {

using Arguments = std::vector<std::string>;

/// Parses; false when it was a request for help, which then has been printed. Errors (usage) for everything else that CLI11 refuses.
bool parse(CLI::App& app, const Arguments& arguments);

/// Flags that decide what is compiled: the model, targets, shapes, bindings, effort, what is differentiated and trained.
struct CompileFlags {
  explicit CompileFlags(driver::Options* options) : options(options) {}
  driver::Options* options;
  std::string mode = "infer", progress = "auto", diagnostics = "text", matmul_precision = "highest", precision = "keep";
  std::string remat = "auto", memory_budget, batch_norm = "keep";
  std::vector<std::string> targets;
  void add_to(CLI::App& app);
  /// After parsing: texts become the choices of Options. Errors: usage; model for what is known and not supported yet.
  void apply();

 private:
  void apply_training();
};

/// A vector option that takes one value each time it is named.
CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<std::string>& values, const std::string& description);

/// `auto`, `cpu`, `cuda`.
runtime::Device parse_device(const std::string& text);

/// Warnings and notes to stderr, unless -q.
void print_diagnostics(const Diagnostics& diagnostics, const driver::Options& options);
/// {"severity", "kind", "where", "message", "snippet"}; what is empty is left out, but for `where`.
nlohmann::ordered_json json_of(const Diagnostic& diagnostic);
/// The full text of an error, or one JSON object per diagnostic.
void print_error(const Error& error, bool json);

// The verbs. Each returns the exit code; errors are thrown.
int compile(const Arguments& arguments);
int run(const Arguments& arguments);
int bench(const Arguments& arguments);
int verify(const Arguments& arguments);
int check(const Arguments& arguments);

}  // namespace tcc::cli
