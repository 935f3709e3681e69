// How a primitive says that it can't do what a schedule asks of it.
#include "tcc/loop/fit.h"

#include <algorithm>
#include <vector>

#include "tcc/loop/rewrite.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/suggest.h"

namespace tcc::loop {

namespace {

[[noreturn]] void no_such(const char* what, const std::string& plural, const std::string& name, std::vector<std::string> names) {
  std::vector<std::string> once;  // in the order of the unit
  for (std::string& found : names) {
    if (std::find(once.begin(), once.end(), found) == once.end()) once.push_back(std::move(found));
  }
  unfit(std::string("there is no ") + what + " `" + name + "`",
        once.empty() ? "the unit has no " + plural + " here" : suggest(name, plural + " of the unit", once));
}

std::vector<std::string> results_of(const Unit& unit, bool lets) {
  std::vector<std::string> names;
  walk(unit.body, [&](const Stmt& stmt) {
    if (!std::holds_alternative<Reduce>(stmt.node) && !(lets && std::holds_alternative<Let>(stmt.node))) return;
    for (const ScalarRef& scalar : defined_by(stmt)) names.push_back(scalar->name);
  });
  return names;
}

}  // namespace

void unfit(const std::string& message, const std::string& help) { throw Error(ExitCode::usage, "invalid-schedule", "", message, help); }

std::string free_name(NameTable& names, const std::string& name) {
  if (names.has(name))
    unfit("it makes a loop `" + name + "`, and something else has that name", "give the other one another name in the text");
  return names.fresh(name);
}

void no_such_loop(const Unit& unit, const std::string& name) {
  std::vector<std::string> names;
  walk(unit.body, [&](const Stmt& stmt) {
    const std::vector<Dim>* dims = dims_of(stmt);
    for (size_t i = 0; dims && i < dims->size(); i++) names.push_back((*dims)[i].var->name);
  });
  no_such("loop", "loops", name, std::move(names));
}

void no_such_reduce(const Unit& unit, const std::string& name, const std::string& place) {
  std::vector<std::string> names = results_of(unit, false);
  if (std::find(names.begin(), names.end(), name) != names.end()) unfit("`" + name + "` is not " + place);
  no_such("reduce", "reduces", name, std::move(names));
}

void no_such_value(const Unit& unit, const std::string& name, const std::string& place) {
  std::vector<std::string> names = results_of(unit, true);
  if (std::find(names.begin(), names.end(), name) != names.end()) unfit("`" + name + "` is not " + place);
  no_such("value", "values", name, std::move(names));
}

void no_such_buffer(const Unit& unit, const std::string& name) {
  std::vector<std::string> names;
  for (const Param& param : unit.params) names.push_back(param.buffer->name);
  walk(unit.body, [&](const Stmt& stmt) {
    if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) names.push_back(alloc->buffer->name);
  });
  no_such("buffer", "buffers", name, std::move(names));
}

}  // namespace tcc::loop
