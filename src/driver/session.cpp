#include "driver/session.h"

#include <cstdlib>
#include <map>
#include <new>

#include "tcc/support/output_files.h"
#include "tcc/support/safetensors.h"
#include "tcc/support/temporary.h"

namespace tcc::driver {

namespace {

bool wants_verifier(const Options& options) {
  const char* variable = std::getenv("TCC_VERIFY_PASSES");
  return options.verify_passes || (variable != nullptr && std::string_view(variable) == "1");
}

/// Writes the graph and its weights to a new folder among the temporary files; returns the path. The name of a folder that nobody could guess:
/// another user can't have put a link there.
std::string write_reproducer(std::string_view stage, const Graph& graph, const std::string& arguments) {
  TemporaryFolder folder;
  const std::string name = std::string(stage) + ".graph", path = folder.file(name);
  std::map<std::string, Tensor> weights;
  for (const auto& weight : graph.weights()) weights[weight->name] = weight->tensor;
  OutputFiles outputs;
  write_safetensors(outputs, folder.file(name + ".safetensors"), weights);
  PrintOptions print_options;
  print_options.weights_file = name + ".safetensors";
  outputs.write(path, "// tcc " + arguments + " " + path + "\n" + print(graph, print_options));
  outputs.commit();
  folder.keep();
  return path;
}

[[noreturn]] void fail(const Session& session, std::string_view stage, const Graph* before, const std::string& arguments,
                       std::vector<Diagnostic> diagnostics) {
  const std::string where = before != nullptr ? before->file : session.options.model;
  diagnostics.push_back({Diagnostic::Severity::note, "", where, "this happened in `" + std::string(stage) + "`", ""});
  if (before != nullptr) {
    std::string text;
    try {
      text = "its input is in " + write_reproducer(stage, *before, arguments) +
             ", whose first line is the command to run; please report it with this message";
    } catch (const std::exception& error) { text = std::string("a file that reproduces this can't be written: ") + error.what(); }
    diagnostics.push_back({Diagnostic::Severity::help, "", where, text, ""});
  }
  throw Error(ExitCode::internal, std::move(diagnostics));
}

}  // namespace

Session::Session(const Options& given, Diagnostics& found)
    : options(given), diagnostics(found), progress(given.progress), verify(wants_verifier(given)) {}

void run_stage(Session& session, std::string_view name, const Graph* before, const std::string& arguments,
               const std::function<void()>& body) {
  const Timed timed(session.times, std::string(name));
  guard_stage(session, name, before, arguments, body);
}

void guard_stage(Session& session, std::string_view name, const Graph* before, const std::string& arguments,
                 const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() != ExitCode::internal) throw;
    fail(session, name, before, arguments, error.diagnostics());
  } catch (const std::bad_alloc&) {
    throw Error(ExitCode::environment, "out-of-memory", session.options.model,
                "there is not enough memory for `" + std::string(name) + "`");
  } catch (const RuleError& error) {
    // The sum of what a model asks for: each of its nodes has a size that fits.
    if (error.kind == "too-large" || error.kind == "too-complex") {
      throw Error(ExitCode::model, error.kind, session.options.model, "in `" + std::string(name) + "`: " + error.message);
    }
    fail(session, name, before, arguments,
         {{Diagnostic::Severity::internal_error, "internal-error", session.options.model,
           "a rule failed where nothing may: " + error.message, ""}});
  } catch (const std::exception& error) {
    fail(session, name, before, arguments,
         {{Diagnostic::Severity::internal_error, "internal-error", session.options.model,
           std::string("unexpected exception: ") + error.what(), ""}});
  }
}

void require_well_formed(std::string_view name, const std::vector<std::string>& faults) {
  if (faults.empty()) return;
  std::string text = "`" + std::string(name) + "` gave what is not well formed:";
  for (const std::string& fault : faults) text += "\n  " + fault;
  throw Error(ExitCode::internal, {{Diagnostic::Severity::internal_error, "internal-error", "", text, ""}});
}

}  // namespace tcc::driver
