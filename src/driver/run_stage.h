// What all stages of one compilation share, and how a stage is run: timed, and with a reproducer when it turns out to have a bug.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "driver/progress.h"
#include "driver/time_report.h"
#include "tcc/driver/options.h"
#include "tcc/graph/graph.h"
#include "tcc/support/command_files.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

struct Session {
  Session(const Options& given, Diagnostics& found);

  const Options& options;
  Diagnostics& diagnostics;
  CommandFiles files;  ///< what the command reads and writes, as far as known
  TimeReport times;
  Progress progress;
  bool verify = false;  ///< run the verifier of its form on what each stage gives
};

/// What goes into a stage, for a file that shows a fault of it again: `tcc <arguments> <file>`. Without a graph and a text no file is written.
struct StageInput {
  std::string arguments;         ///< "--from=prims --target=cpu --emit=plan"
  const Graph* graph = nullptr;  ///< its weights go to a file beside it
  std::string_view form;         ///< loop or kernel: what `text` holds, and the ending of the file
  std::function<std::string()> text;
};

/// Runs `body` as stage `name`. An internal error, or an exception that nobody expects, becomes an internal Error that names the stage and a file
/// with what went in, whose first line is the command that shows it again.
void run_stage(Session& session, std::string_view name, const StageInput& input, const std::function<void()>& body);
/// The same without a row in the time report, for a stage whose parts have rows of their own.
void guard_stage(Session& session, std::string_view name, const StageInput& input, const std::function<void()>& body);

/// Whether --print-after names the pass or stage; `changed`: whether it did something.
bool prints_after(const Options& options, std::string_view name, bool changed);
/// To standard error, below a comment with the name.
void print_after(Session& session, const std::string& name, const std::string& text);

/// Throws the internal error "`name` made ... that is not well formed" when there are faults.
void require_well_formed(std::string_view name, const std::vector<std::string>& faults);

}  // namespace tcc::driver
