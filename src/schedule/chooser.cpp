// A schedule under construction.
#include "schedule/chooser.h"

#include "tcc/loop/edit.h"
#include "tcc/support/diagnostics.h"

namespace tcc::schedule {

using namespace tcc::loop;

namespace {

const Stmt* find_exact(const Block& block, const std::string& name) {
  const Stmt* found = nullptr;
  walk(block, [&](const Stmt& stmt) {
    const auto* dims = dims_of(stmt);
    if (!dims || found) return;
    for (const auto& dim : *dims) {
      if (dim.var->name == name) found = &stmt;
    }
  });
  return found;
}

}  // namespace

std::vector<std::string> names_of(const std::vector<loop::Dim>& dims) {
  std::vector<std::string> names;
  for (const auto& dim : dims) names.push_back(dim.var->name);
  return names;
}

void Chooser::add(const std::string& primitive, std::vector<Argument> arguments) {
  schedule_.push_back({primitive, std::move(arguments)});
  try {
    unit_ = apply_one(unit_, schedule_.back());
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    internal_error(error.diagnostics()[0].message + " (chosen schedule: " + print(schedule_) + ")");
  }
}

void Chooser::explain(size_t first, std::string why) {
  if (first >= schedule_.size()) return;
  std::string& text = schedule_[first].why;  // of a nest that was cut into two, the first of which begins here as well
  text = text.empty() ? std::move(why) : std::move(why) + "\n" + text;
}

const Stmt& Chooser::find(const std::string& dim) const {
  const Stmt* stmt = find_exact(unit_.body, dim);
  if (!stmt) internal_error("there is no loop `" + dim + "` (schedule so far: " + print(schedule_) + ")");
  return *stmt;
}

bool Chooser::has(const std::string& dim) const { return find_exact(unit_.body, dim) != nullptr; }

int64_t Chooser::extent(const std::string& name) const {
  for (const auto& dim : *dims_of(find(name))) {
    if (dim.var->name == name) return dim.var->extent;
  }
  internal_error("no dim `" + name + "`");
}

std::vector<std::string> Chooser::fuse_all(const std::string& dim) {
  std::vector<loop::Dim> dims = *dims_of(find(dim));
  std::vector<std::string> names = names_of(dims);
  for (size_t i = names.size(); i-- > 1;) {
    const Stmt& stmt = find(names[i]);
    const std::vector<loop::Dim>& now = *dims_of(stmt);
    if (!fuses(stmt, now[i - 1], now[i])) continue;
    names[i - 1] = fuse(names[i - 1], names[i]);
    names.erase(names.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return names;
}

}  // namespace tcc::schedule
