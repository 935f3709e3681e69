#include "tcc/driver/read_ir.h"

#include <algorithm>

#include "driver/stage_results.h"
#include "tcc/rules/verify.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"
#include "tcc/support/safetensors.h"
#include "tcc/support/text.h"

namespace tcc::driver {

namespace {

std::string read_input(const Options& options) { return options.model == "-" ? read_stdin() : read_text_file(options.model); }
std::string shown_name(const Options& options) { return options.model == "-" ? "<stdin>" : options.model; }

/// `weights "file"` at the head of a text; empty when there is none.
std::string weights_file(const std::string& text, const std::string& shown) {
  Lexer lexer(text, shown);
  return lexer.accept("weights") ? lexer.expect_string() : "";
}

std::string beside(const std::string& file, const std::string& name) {
  const size_t slash = file.rfind('/');
  return name.starts_with('/') || slash == std::string::npos ? name : file.substr(0, slash + 1) + name;
}

/// The lines from each that begins with `word` to the next. A leading part without it must hold comments and blank lines only, which the parser of
/// the first piece checks. Lines before a piece are kept as blank ones, so that messages have the right line.
std::vector<std::string> split_at(const std::string& text, std::string_view word) {
  std::vector<std::string> pieces;
  std::string blank_lines, piece;
  bool begun = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const bool begins = line.starts_with(word) && line.size() > word.size() && (line[word.size()] == ' ' || line[word.size()] == '(');
    if (begins && begun) {
      pieces.push_back(std::move(piece));
      piece = blank_lines;
    }
    begun |= begins;
    piece += line;
    piece += '\n';
    blank_lines += '\n';
    at = end + 1;
  }
  pieces.push_back(std::move(piece));
  return pieces;
}

std::string without_blanks(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' && c != '\t') result += c;
  }
  return result;
}

/// `file:line` of the statement that a fault prints, where one line of the text alone is that: statements themselves know no lines.
std::string place_of(const std::string& statement, const std::string& text, const std::string& file) {
  const std::string wanted = without_blanks(std::string_view(statement).substr(0, statement.find('\n')));
  int number = 0, found = 0;
  for (size_t at = 0; at < text.size() && !wanted.empty();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    ++number;
    if (without_blanks(std::string_view(text).substr(at, end - at)) == wanted) found = found == 0 ? number : -1;
    at = end + 1;
  }
  return found > 0 ? file + ":" + std::to_string(found) : file;
}

void refuse(const std::string& where, const std::vector<std::string>& faults, const char* form, const std::string& text = "") {
  if (faults.empty()) return;
  Diagnostics diagnostics;
  for (const std::string& fault : faults) {
    const auto [message, node] = parts_of(fault);
    diagnostics.error("type-error", place_of(node, text, where), "not well-formed " + std::string(form) + ": " + message, node);
  }
  diagnostics.checkpoint();
}

/// A text without its weights can't be built; the message names a weight, the remedy is about the file.
Error with_help_for_weights(const Error& error, const std::string& shown) {
  std::vector<Diagnostic> all = error.diagnostics();
  const bool of_weights = std::any_of(all.begin(), all.end(),
                                      [](const Diagnostic& d) { return d.message.find("among the weights given") != std::string::npos; });
  if (of_weights) {
    all.push_back(
        {Diagnostic::Severity::help, "", shown,
         "name the file of the weights in a first line `weights \"<file>\"`; --emit-weights=FILE writes it for a graph on standard output",
         ""});
  }
  return Error(error.code(), std::move(all));
}

}  // namespace

GraphText read_graph(const Options& options, CommandFiles& files) {
  const std::string text = read_input(options), shown = shown_name(options);
  const std::string file = weights_file(text, shown);
  GraphText result;
  if (!file.empty()) {
    const std::string path = beside(options.model, file);
    files.reads(path, "the weights of the text");
    const std::map<std::string, Tensor> weights = read_safetensors(path).tensors;
    result.graph = parse_graph(text, shown, weights);
  } else {
    try {
      result.graph = parse_graph(text, shown, {});
    } catch (const Error& error) {
      if (!options.output.empty()) throw with_help_for_weights(error, shown);
      result.graph = parse_graph(text, shown, {}, true);  // faults other than a missing weight come again
      result.has_weights = false;
    }
  }
  const GraphStage stage = options.from == "prims" ? GraphStage::prims : GraphStage::imported;
  refuse(shown, verify(*result.graph, stage), "graph", text);
  return result;
}

std::vector<loop::Unit> read_units(const Options& options) {
  const std::string text = read_input(options), shown = shown_name(options);
  std::vector<loop::Unit> units;
  for (const std::string& piece : split_at(text, "unit")) {
    units.push_back(loop::parse_unit(piece, shown));
    refuse(shown, loop::verify_first_form(units.back()), "loops", piece);
  }
  return units;
}

std::vector<loop::Kernel> read_kernels(const Options& options) { return read_kernels(read_input(options), shown_name(options)); }

std::vector<loop::Kernel> read_kernels(const std::string& text, const std::string& shown) {
  std::vector<loop::Kernel> kernels;
  for (const std::string& piece : split_at(text, "kernel")) {
    kernels.push_back(loop::parse_kernel(piece, shown));
    refuse(shown, loop::verify_kernel(kernels.back()), "kernel", piece);
    if (kernels.back().target != kernels.front().target) {
      throw Error(ExitCode::model, "type-error", shown,
                  "kernels are for `" + kernels.back().target + "` and `" + kernels.front().target + "`, one target was expected");
    }
  }
  return kernels;
}

}  // namespace tcc::driver
