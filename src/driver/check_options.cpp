#include "driver/check_options.h"

#include <algorithm>

#include "driver/bindings.h"
#include "driver/dependencies.h"
#include "driver/link_library.h"
#include "driver/passes.h"
#include "driver/replace_stages.h"
#include "tcc/frontend/import.h"
#include "tcc/support/parallel.h"
#include "tcc/support/suggest.h"

namespace tcc::driver {

namespace {

void check_form(const Options& options) {
  const std::vector<std::string> forms = {"graph", "prims", "loop", "kernel"};
  if (options.from.empty() || std::find(forms.begin(), forms.end(), options.from) != forms.end()) return;
  throw Error(ExitCode::usage, "invalid-argument", "", "--from=" + options.from + ": there is no such form",
              suggest(options.from, "forms that can be read back", forms));
}

void check_format(const Options& options) {
  const std::vector<std::string> kinds = model_kinds();
  if (options.format.empty() || std::ranges::find(kinds, options.format) != kinds.end()) return;
  std::string list = kinds.front();
  for (size_t i = 1; i < kinds.size(); ++i) list += (i + 1 < kinds.size() ? ", " : " and ") + kinds[i];
  throw Error(ExitCode::usage, "invalid-argument", "", "-x " + options.format + ": there is no such kind of model", "kinds are " + list);
}

/// Their numbers are those of one target.
void check_replacements(const Options& options) {
  for (const std::string& text : options.kernels) given_kernel(text);
  for (const std::string& text : options.schedules) {
    const GivenFile file = given_schedules(text);
    const std::string flag = "--schedule=" + text;
    if (file.name.empty() && options.cpu && options.cuda)
      throw Error(ExitCode::usage, "invalid-argument", "", flag + ": kernels are numbered for each target, and there are two",
                  "write --schedule=cpu=FILE or --schedule=cuda=FILE, or name one with --target");
    if ((file.name == "cpu" && !options.cpu) || (file.name == "cuda" && !options.cuda))
      throw Error(ExitCode::usage, "invalid-argument", "", flag + ": --target leaves " + file.name + " out");
  }
}

}  // namespace

void list_files(const Options& options, CommandFiles& files) {
  if (options.model == "-") files.reads_stdin("the model on standard input");
  else files.reads(options.model, "the model");
  for (const std::string& text : options.bind) {
    // With a single `=` there is one way to split it; others are known when the names of inputs are.
    const size_t equals = text.find('=');
    if (equals != std::string::npos && equals == text.rfind('=') && is_tensor_file(text.substr(equals + 1)))
      files.reads(text.substr(equals + 1), "the value of input `" + text.substr(0, equals) + "`");
  }
  if (!options.parameters.empty()) files.reads(options.parameters, "the parameters");
  for (const std::string& text : options.schedules) files.reads(given_schedules(text).path, "the file of --schedule");
  for (const std::string& text : options.kernels) files.reads(given_kernel(text).path, "the file of --kernel");
  if (!options.tune_db.empty()) files.reads(options.tune_db, "the file of --tune-db");
  if (options.output == "-") {
    throw Error(ExitCode::usage, "invalid-argument", "", "-o -: a library doesn't go to standard output",
                "name a file; ./- is one of that name");
  }
  if (!options.output.empty()) files.writes(options.output, "-o");
  if (!options.output.empty() && options.weights == WeightsPlace::file) files.writes(weights_path_of(options.output), "--weights=file");
  if (const std::string path = dependency_path(options); !path.empty() && path != "-") files.writes(path, "-MD");
}

void set_up(const Options& options) {
  check_form(options);
  if (!options.parameters.empty() && (options.from == "loop" || options.from == "kernel"))
    throw Error(ExitCode::usage, "invalid-argument", "", "--parameters says nothing with --from=" + options.from,
                "it goes with models and graphs");
  if (!options.passes.empty() && !options.tune_db.empty())
    throw Error(ExitCode::usage, "invalid-argument", "", "--tune-db says nothing with --pass",
                "--pass says what runs, and by which schedule");
  check_format(options);
  check_pass_names(options);
  check_replacements(options);
  if (options.threads > 0) set_num_threads(options.threads);
}

void check_products(const Options& options) {
  if (options.output.empty() && options.emit.empty() && options.dump_dir.empty() && options.print_after.empty()) {
    throw Error(ExitCode::usage, "invalid-argument", "", "nothing is asked for",
                "name the library to write with -o, or what to print with --emit");
  }
  if (options.passes.empty() || options.from == "loop") return;
  if (options.from == "kernel") throw Error(ExitCode::usage, "invalid-argument", "", "--pass: no pass runs on kernels");
  if (!options.output.empty())
    throw Error(ExitCode::usage, "invalid-argument", "", "--pass runs only the passes that it names, no library can come of that",
                "leave -o out");
  for (const EmitRequest& request : options.emit) {
    if (request.kind != "graph" && request.kind != "fx" && request.kind != "prims") {
      throw Error(ExitCode::usage, "invalid-argument", "", "--emit=" + request.kind + ": after --pass only the graph is there",
                  "ask for --emit=graph");
    }
  }
}

}  // namespace tcc::driver
