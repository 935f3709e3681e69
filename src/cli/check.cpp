// tcc check model.onnx: everything that is not supported, at once.
#include <map>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "tcc/driver/pipeline.h"
#include "tcc/frontend/import.h"
#include "tcc/support/printable.h"
#include "tcc/support/standard_output.h"

namespace tcc::cli {

namespace {

using Json = nlohmann::ordered_json;

/// By domain, several in a line.
std::string list_of_ops() {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const KnownOp& op : known_ops()) {
    const std::string domain = op.domain.empty() ? "ai.onnx" : op.domain;
    if (rows.empty() || rows.back().first != domain) rows.emplace_back(domain, "");
    rows.back().second += (rows.back().second.empty() ? "" : " ") + op.name;
  }
  return table_text(rows);
}

/// Messages that differ in their places alone, such as the nodes of one unknown op, are one object that lists the places.
Json grouped(const std::vector<Json>& messages) {
  std::vector<Json> groups;
  std::map<std::string, size_t> index;  // by what the messages have in common
  for (const Json& message : messages) {
    Json common = message;
    for (const char* own : {"where", "helps", "notes"}) common.erase(own);
    const auto [found, is_new] = index.emplace(common.dump(), groups.size());
    if (is_new) groups.push_back(message);
    else groups[found->second]["also"].push_back(message.at("where"));
  }
  return groups;
}

/// One object, also for a model that can't be compiled; the exit code says the same.
int check_to_json(driver::Options options) {
  options.json_diagnostics = true;  // every node of an unknown op
  Json report = {{"model", options.model}, {"supported", true}};
  int exit_code = 0;
  Diagnostics diagnostics;
  try {
    const std::unique_ptr<Graph> prims = driver::check_model(options, diagnostics);
    report["prims"] = prims->body.nodes.size();
    report["diagnostics"] = grouped(json_of(diagnostics.all()));
  } catch (const Error& error) {
    if (error.code() != ExitCode::model) throw;
    report["supported"] = false;
    report["diagnostics"] = grouped(json_of(error.diagnostics()));
    exit_code = static_cast<int>(error.code());
  }
  write_stdout(report.dump(2, ' ', true, Json::error_handler_t::replace) + "\n");
  return exit_code;
}

}  // namespace

int check(const Arguments& arguments) {
  driver::Options options;
  CompileFlags flags(&options);
  bool json = false, ops = false;
  CLI::App app("Says whether a model can be compiled, and lists all that is in the way: every unknown op with its nodes, every fault.",
               "tcc check");
  flags.add_to(app, false);
  app.get_option("model")->required(false);
  app.add_flag("--json", json, "prints one JSON object, with every node of an unknown op")->group("Output");
  app.add_flag("--ops", ops, "lists the ops that can be imported; takes no model")->group("Output");
  Help help;
  help.usage = {"check [flags] MODEL", "check --ops"};
  if (!parse(app, arguments, help)) return 0;
  if (ops) {
    write_stdout(list_of_ops());
    return 0;
  }
  if (options.model.empty())
    throw Error(ExitCode::usage, "invalid-argument", "", "no model is given", "`tcc check --help` lists what it takes");
  flags.apply();
  if (options.from == "loop" || options.from == "kernel") {
    throw Error(ExitCode::usage, "invalid-argument", "", "--from=" + options.from + ": loops and kernels have no nodes to check",
                "tcc verify takes them, and so does compiling");
  }
  if (json) return check_to_json(options);
  Diagnostics diagnostics;
  const std::unique_ptr<Graph> prims = driver::check_model(options, diagnostics);
  print_diagnostics(diagnostics, options);
  write_stdout(printable(options.model) + ": every node is supported, " + std::to_string(prims->body.nodes.size()) + " prims\n");
  return 0;
}

}  // namespace tcc::cli
