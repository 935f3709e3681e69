#include "frontend/fx/read_fx_guard.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "frontend/fx/arguments.h"
#include "frontend/fx/fields.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

namespace {

using Json = nlohmann::json;

const InputSpec& input_of(const Fields& fields, const Program& program) {
  const std::string name = fields.text("input");
  const auto found = std::find_if(program.inputs.begin(), program.inputs.end(), [&](const InputSpec& spec) { return spec.name == name; });
  if (found == program.inputs.end()) fields.fail("`" + name + "` is not an input of the graph");
  return *found;
}

Guard tensor_guard(const FxContext& context, const Json& json, const Program& program, const std::string& place) {
  const Fields fields(json, place, {"kind", "input", "dtype", "rank", "shape"});
  Guard guard;
  guard.kind = Guard::Kind::tensor;
  const InputSpec& input = input_of(fields, program);
  if (!input.is_tensor) fields.fail("input `" + input.name + "` is not a tensor");
  guard.subject = input.name;
  const std::string dtype = fields.text("dtype");
  guard.dtype = parse_dtype(dtype);
  guard.rank = fields.natural("rank");
  std::string sizes;
  if (fields.has("shape")) {
    for (const Json& size : fields.list("shape")) {
      guard.sizes.push_back(size.is_null() ? std::nullopt : std::optional(read_size(context, size, place)));
      sizes += (sizes.empty() ? "" : ", ") + (guard.sizes.back() ? to_string(*guard.sizes.back()) : "any");
    }
    if (static_cast<int64_t>(guard.sizes.size()) != guard.rank) fields.fail("`rank` and the length of `shape` disagree");
  }
  guard.text =
      "input `" + guard.subject + "` is " + dtype + (fields.has("shape") ? "[" + sizes + "]" : " of rank " + std::to_string(guard.rank));
  return guard;
}

Guard expr_guard(const FxContext& context, const Json& json, const std::string& place) {
  const Fields fields(json, place, {"kind", "expr"});
  Guard guard;
  guard.kind = Guard::Kind::expr;
  guard.text = fields.text("expr");
  try {
    guard.condition = parse_condition(guard.text);
  } catch (const RuleError& error) { fields.fail(error.message); }
  for (const std::string& symbol : symbols_of(guard.condition)) {
    if (!context.symbols.contains(symbol)) fields.fail("`symbols` lacks `" + symbol + "`");
  }
  return guard;
}

Guard value_guard(const FxContext& context, const Json& json, const Program& program, const std::map<std::string, std::string>& sources,
                  const std::string& place) {
  const Fields fields(json, place, {"kind", "input", "source", "equals"});
  if (fields.has("input") == fields.has("source")) fields.fail("one of `input` and `source` was expected");
  Guard guard;
  guard.value = read_argument(context, fields.at("equals"), place);
  if (!number_in(guard.value)) fields.fail("`equals` is neither a number nor a boolean");
  const std::string source = fields.maybe_text("source");
  const auto input = sources.find(source);
  guard.kind = source.empty() || input != sources.end() ? Guard::Kind::input_value : Guard::Kind::setting;
  if (guard.kind == Guard::Kind::setting) guard.subject = "value:" + source;
  else guard.subject = source.empty() ? input_of(fields, program).name : input->second;
  guard.text =
      (guard.kind == Guard::Kind::setting ? "`" + guard.subject : "input `" + guard.subject) + "` is " + to_string(*number_in(guard.value));
  return guard;
}

Guard state_guard(const FxContext& context, const Json& json, const std::string& place) {
  const Fields fields(json, place, {"kind", "name", "value"});
  Guard guard;
  guard.value = read_argument(context, fields.at("value"), place);
  if (!number_in(guard.value)) fields.fail("`value` is neither a number nor a boolean");
  guard.kind = Guard::Kind::setting;
  guard.subject = "state:" + fields.text("name");
  guard.text = "`" + guard.subject + "` is " + to_string(*number_in(guard.value));
  return guard;
}

}  // namespace

Guard read_guard(const FxContext& context, const Json& json, const Program& program, const std::map<std::string, std::string>& sources,
                 const std::string& place) {
  if (!json.is_object()) malformed(place, "an object was expected, found is " + std::string(json.type_name()));
  const auto found = json.find("kind");
  const std::string kind = found != json.end() && found->is_string() ? found->get<std::string>() : "";
  if (kind == "tensor") return tensor_guard(context, json, program, place);
  if (kind == "expr") return expr_guard(context, json, place);
  if (kind == "value") return value_guard(context, json, program, sources, place);
  if (kind == "state") return state_guard(context, json, place);
  if (kind != "opaque") malformed(place, "`kind` is none of tensor, expr, value, state and opaque");
  Guard guard;
  guard.text = Fields(json, place, {"kind", "text"}).text("text");
  return guard;
}

}  // namespace tcc::fx
