// Guards that are decided while compiling: what a program was captured under, against what is bound.
#include "frontend/fx/arguments.h"
#include "frontend/fx/importer.h"

namespace tcc::fx {

namespace {

/// What the declared type of an input says against a guard; empty when it agrees.
std::string contradiction(const Guard& guard, const TensorMeta& meta, const std::map<std::string, int64_t>& symbols) {
  const auto rank = static_cast<int64_t>(meta.sizes.size());
  if (guard.dtype != meta.dtype) return "it is " + meta.dtype_name;
  if (guard.rank != rank) return "it is of rank " + std::to_string(rank);
  for (size_t axis = 0; axis < guard.sizes.size(); ++axis) {
    if (!guard.sizes[axis]) continue;
    const auto wanted = evaluate(*guard.sizes[axis], symbols), found = evaluate(meta.sizes[axis], symbols);
    if (wanted && found && *wanted != *found) return "axis " + std::to_string(axis) + " is " + std::to_string(*found);
  }
  return "";
}

}  // namespace

void Importer::check_guards() {
  for (const Guard& guard : program_.guards) {
    faults_.attempt([&] { check_guard(guard); }, [&] { return faults_.file(); });
  }
}

void Importer::check_guard(const Guard& guard) {
  const auto fails = [&](const std::string& why) { throw RuleError{"failed-guard", "the guard that " + guard.text + " fails: " + why}; };
  if (guard.kind == Guard::Kind::tensor) {
    const std::string why = contradiction(guard, program_.graph.tensors.at(guard.subject), symbols_);
    if (!why.empty()) fails(why);
  } else if (guard.kind == Guard::Kind::expr) {
    const auto holds = fx::evaluate(guard.condition, symbols_);
    if (holds && !*holds) {
      std::string sizes;
      for (const std::string& symbol : symbols_of(guard.condition)) {
        if (const auto known = symbols_.find(symbol); known != symbols_.end())
          sizes += (sizes.empty() ? "`" : ", `") + symbol + "` is " + std::to_string(known->second);
      }
      throw RuleError{"failed-guard", "the guard `" + guard.text + "` fails" + (sizes.empty() ? "" : ": " + sizes)};
    }
    if (!holds)
      diagnostics_.warning("ignored", faults_.file(),
                           "the guard `" + guard.text + "` depends on sizes that are known when it runs: it is not checked");
  } else if (guard.kind == Guard::Kind::input_value) {
    const Slot* slot = find(guard.subject);
    if (slot == nullptr || !slot->number) {
      diagnostics_.warning("ignored", faults_.file(),
                           "the guard that " + guard.text + " is on the elements of a tensor: it is not checked");
      return;
    }
    if (to_double(*slot->number) != to_double(*number_in(guard.value))) fails("it is " + to_string(*slot->number));
  }
}

}  // namespace tcc::fx
