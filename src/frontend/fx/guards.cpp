// Guards: what a program was captured under. Most are decided while compiling, against what is bound. One on the elements of a tensor becomes a check
// that each run makes: the first result that has elements is a `check_index` of the result as it was, whose index is whether any element differs.
#include <cmath>
#include <numeric>

#include "frontend/fx/arguments.h"
#include "frontend/fx/importer.h"
#include "tcc/graph/rule_error.h"

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

/// The number as an element of an integer or bool dtype; nothing where the dtype has no such element.
std::optional<int64_t> as_element(DType dtype, const Number& number) {
  const auto* fraction = std::get_if<double>(&number);
  // Both bounds are exact: -2^63 is an integer of 64 bits, 2^63 is the first that is not.
  if (fraction && !(*fraction == std::trunc(*fraction) && *fraction >= -0x1p63 && *fraction < 0x1p63)) return std::nullopt;
  const int64_t value = std::visit([](auto given) { return static_cast<int64_t>(given); }, number);
  Tensor element(dtype, {});
  element.set_int64(0, value);
  const bool fits = element.as_int64(0) == value && !(is_unsigned_integer(dtype) && value < 0);
  return fits ? std::optional(value) : std::nullopt;
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
    if (slot != nullptr && slot->tensor != nullptr) return check_elements(guard, *slot->tensor);
    if (slot == nullptr || !slot->number) fails("it is None");
    if (to_double(*slot->number) != to_double(*number_in(guard.value))) fails("it is " + to_string(*slot->number));
  }
}

void Importer::check_elements(const Guard& guard, Alias& tensor) {
  Builder builder = builder_at("guard of " + guard.subject);
  Value* elements = tensor.read(builder);
  if (elements->type.count() == 0) return;
  const Number wanted = *number_in(guard.value);
  Value* differ;
  if (is_float(elements->type.dtype)) {
    differ = builder.binary(Op::ne_, elements, to_double(wanted));
  } else {
    const std::optional<int64_t> value = as_element(elements->type.dtype, wanted);
    if (!value)
      throw RuleError{"failed-guard", "the guard that " + guard.text + " fails: it is of " + std::string(name_of(elements->type.dtype))};
    differ = builder.binary(Op::ne_, builder.cast(elements, DType::i64), builder.full_int(DType::i64, {}, *value));
  }
  std::vector<int64_t> axes(elements->type.dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  Value* index = builder.cast(differ, DType::i32);
  if (!axes.empty()) index = builder.reduce(Op::reduce_max_, index, axes);
  element_guards_.push_back({guard.text, index});
}

Value* Importer::guarded(Value* result, Builder& builder) {
  if (result->type.count() == 0) return result;
  for (const ElementGuard& guard : element_guards_) {
    result = builder.emit(Op::check_index_, {result, guard.differs},
                          {{"extent", int64_t{1}}, {"guard", "the guard that " + guard.text + " fails"}});
  }
  element_guards_.clear();
  return result;
}

}  // namespace tcc::fx
