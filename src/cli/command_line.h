// What all verbs share: flags, parsing with the manners of compilers, and how errors reach the user.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/help.h"
#include "tcc/driver/options.h"
#include "tcc/runtime/library.h"

namespace tcc::cli {

using Arguments = std::vector<std::string>;

/// Parses; false when it was a request for help or the version, which then has been printed. Errors (usage) name the word that is wrong and, where
/// one is near, what was meant. The type name of an option says what is checked: N a whole number, X any number.
bool parse(CLI::App& app, const Arguments& arguments, const Help& help = {});

/// A subcommand: `tcc <name> ...`.
struct Verb {
  const char* name;
  int (*run)(const Arguments&);
  const char* description;
};
/// All of them, in the order of the help.
const std::vector<Verb>& verbs();
std::vector<std::string> verb_names();

/// Version, and what this program was built with and finds.
std::string version_text();

/// Flags that decide what is compiled: the model, targets, shapes, bindings, effort, what is differentiated and trained.
struct CompileFlags {
  explicit CompileFlags(driver::Options* options) : options(options) {}
  driver::Options* options;
  std::string mode = "infer", progress = "auto", diagnostics = "text", matmul_precision = "highest", precision = "keep";
  std::string remat = "auto", memory_budget, batch_norm = "keep";
  std::vector<std::string> targets;
  /// `generates_code`: flags that choose chips and effort go along.
  void add_to(CLI::App& app, bool generates_code = true);
  /// After parsing: texts become the choices of Options. Errors: usage; model for what is known and not supported yet.
  void apply();

 private:
  void add_common_flags(CLI::App& app, bool generates_code);
  void add_input_flags(CLI::App& app);
  void add_code_flags(CLI::App& app);
  void add_training_flags(CLI::App& app);
  void add_manners(CLI::App& app);
  void apply_training();
  void refuse_idle_flags() const;
  bool given(const char* flag) const;
  CLI::App* app_ = nullptr;
};

/// An error (usage) unless `value` is one of the choices.
void require_one_of(const std::string& flag, const std::string& value, const std::vector<std::string>& choices);

/// A vector option that takes one value each time it is named.
CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<std::string>& values, const std::string& description);

/// `auto`, `cpu`, `cuda`.
runtime::Device parse_device(const std::string& text);

/// Warnings and notes to stderr, unless -q.
void print_diagnostics(const Diagnostics& diagnostics, const driver::Options& options);
/// What --diagnostics=json prints: an object for each error and warning, in which the notes and helps that follow it are; see docs/diagnostics.md.
std::vector<nlohmann::ordered_json> json_of(const std::vector<Diagnostic>& diagnostics);
/// The full text of an error, or JSON, an object a line.
void print_error(const Error& error, bool json);

// The verbs. Each returns the exit code; errors are thrown.
int compile(const Arguments& arguments);
int run(const Arguments& arguments);
int bench(const Arguments& arguments);
int tune(const Arguments& arguments);
int verify(const Arguments& arguments);
int check(const Arguments& arguments);
int inspect(const Arguments& arguments);
int explain(const Arguments& arguments);
int help(const Arguments& arguments);

}  // namespace tcc::cli
