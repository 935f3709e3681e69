#include "driver/run_stage.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>

#include "tcc/graph/rule_error.h"
#include "tcc/support/output_files.h"
#include "tcc/support/safetensors.h"
#include "tcc/support/temporary.h"

namespace tcc::driver {

namespace {

bool wants_verifier(const Options& options) {
  const char* variable = std::getenv("TCC_VERIFY_PASSES");
  return options.verify_passes || (variable != nullptr && std::string_view(variable) == "1");
}

/// Writes what goes into a stage, a graph with its weights beside it, to a new folder among the temporary files; returns the path. The name of a folder
/// that nobody could guess: another user can't have put a link there.
std::string write_reproducer(std::string_view stage, const StageInput& input) {
  TemporaryFolder folder;
  const std::string name = std::string(stage) + "." + std::string(input.graph != nullptr ? "graph" : input.form), path = folder.file(name);
  std::string text;
  OutputFiles outputs;
  if (input.graph != nullptr) {
    std::map<std::string, Tensor> weights;
    for (const auto& weight : input.graph->weights()) weights[weight->name] = weight->tensor;
    write_safetensors(outputs, folder.file(name + ".safetensors"), weights);
    PrintOptions print_options;
    print_options.weights_file = name + ".safetensors";
    text = print(*input.graph, print_options);
  } else {
    text = input.text();
  }
  outputs.write(path, "// tcc " + input.arguments + " " + path + "\n" + text);
  outputs.commit();
  folder.keep();
  return path;
}

[[noreturn]] void fail(const Session& session, std::string_view stage, const StageInput& input, std::vector<Diagnostic> diagnostics) {
  const std::string where = input.graph != nullptr ? input.graph->file : session.options.model;
  diagnostics.push_back({Diagnostic::Severity::note, "", where, "this happened in `" + std::string(stage) + "`", ""});
  if (input.graph != nullptr || input.text) {
    std::string text;
    try {
      text = "its input is in " + write_reproducer(stage, input) +
             ", whose first line is the command to run; please report it with this message";
    } catch (const std::exception& error) { text = std::string("a file that reproduces this can't be written: ") + error.what(); }
    diagnostics.push_back({Diagnostic::Severity::help, "", where, text, ""});
  }
  throw Error(ExitCode::internal, std::move(diagnostics));
}

}  // namespace

Session::Session(const Options& given, Diagnostics& found)
    : options(given), diagnostics(found), progress(given.progress), verify(wants_verifier(given)) {}

void run_stage(Session& session, std::string_view name, const StageInput& input, const std::function<void()>& body) {
  const Timed timed(session.times, std::string(name));
  guard_stage(session, name, input, body);
}

void guard_stage(Session& session, std::string_view name, const StageInput& input, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() != ExitCode::internal) throw;
    fail(session, name, input, error.diagnostics());
  } catch (const std::bad_alloc&) {
    throw Error(ExitCode::environment, "out-of-memory", session.options.model,
                "there is not enough memory for `" + std::string(name) + "`");
  } catch (const RuleError& error) {
    // The sum of what a model asks for: each of its nodes has a size that fits.
    if (error.kind == "too-large" || error.kind == "too-complex") {
      throw Error(ExitCode::model, error.kind, session.options.model, "in `" + std::string(name) + "`: " + error.message);
    }
    fail(session, name, input,
         {{Diagnostic::Severity::internal_error, "internal-error", session.options.model,
           "a rule failed where nothing may: " + error.message, ""}});
  } catch (const std::exception& error) {
    fail(session, name, input,
         {{Diagnostic::Severity::internal_error, "internal-error", session.options.model,
           std::string("unexpected exception: ") + error.what(), ""}});
  }
}

bool prints_after(const Options& options, std::string_view name, bool changed) {
  return std::any_of(options.print_after.begin(), options.print_after.end(),
                     [&](const std::string& asked) { return asked == name || asked == "all" || (asked == "changed" && changed); });
}

void print_after(Session& session, const std::string& name, const std::string& text) {
  session.progress.clear();
  std::fprintf(stderr, "// after %s\n%s", name.c_str(), text.c_str());
}

void require_well_formed(std::string_view name, const std::vector<std::string>& faults) {
  if (faults.empty()) return;
  std::string text = "`" + std::string(name) + "` gave what is not well formed:";
  for (const std::string& fault : faults) text += "\n  " + fault;
  throw Error(ExitCode::internal, {{Diagnostic::Severity::internal_error, "internal-error", "", text, ""}});
}

}  // namespace tcc::driver
