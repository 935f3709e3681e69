// Plans of prims: verified, read back, run three times in a row on both targets, and compared with the interpreter of graphs.
#include <algorithm>

#include "plan/plan_graph.h"
#include "stateful.h"
#include "tcc/rules/verify.h"
#include "tcc/support/text.h"
#include "tools/stages.h"

namespace tcc::stages {
namespace {

StateRole role_of(Lexer& lexer) {
  const std::string word = lexer.expect_identifier();
  for (const StateRole role : {StateRole::parameter, StateRole::gradient, StateRole::optimizer, StateRole::statistic, StateRole::buffer}) {
    if (name_of(role) == word) return role;
  }
  lexer.fail("`" + word + "` is not a role of a state");
}

Shape shape_of(Lexer& lexer) {
  Shape shape;
  lexer.expect("[");
  while (!lexer.accept("]")) {
    if (!shape.empty()) lexer.expect(",");
    shape.push_back(lexer.expect_integer());
  }
  return shape;
}

/// `parameter f32: w [8, 8], b [8] as all; optimizer f32: m [8, 8]`.
StateLayout layout_of(const std::string& text) {
  StateLayout layout;
  Lexer lexer(text, "--state");
  while (lexer.peek().kind != TokenKind::end) {
    const StateRole role = role_of(lexer);
    const DType dtype = *parse_dtype(lexer.expect_identifier());
    lexer.expect(":");
    std::vector<StateTensor> tensors;
    do {
      StateTensor& tensor = tensors.emplace_back();
      tensor.name = lexer.expect_identifier();
      tensor.shape = shape_of(lexer);
    } while (lexer.accept(","));
    const int section = layout.append_section("section" + std::to_string(layout.sections.size()), role, dtype, std::move(tensors));
    if (lexer.accept("as")) layout.append_view(lexer.expect_identifier(), section);
    lexer.accept(";");
  }
  return layout;
}

std::vector<std::string> names_of(const std::string& list) {
  std::vector<std::string> names;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

/// Numbers that differ from step to step, halves of small integers.
Tensor numbers(const Type& type, int step) {
  Tensor tensor(type.dtype, type.shape());
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, static_cast<double>((i * 7 + step * 3) % 5 - 2) / 2);
  return tensor;
}

/// Empty where they agree. Packed tensors have no counterpart in the graph: they are compared by tests of their own.
std::string compare(const Graph& graph, const plan::Plan& plan, const plan::PlanOptions& options, plan::StateMemory& memory,
                    group::Tolerance tolerance) {
  std::string text;
  for (int step = 0; step < 3; ++step) {
    std::vector<Tensor> inputs;
    for (const Value* input : graph.body.args) inputs.push_back(numbers(input->type, step));
    const std::string difference = plan::compare_run(graph, plan, options, inputs, memory, tolerance);
    if (!difference.empty()) text += "run " + std::to_string(step + 1) + ": " + difference;
  }
  return text;
}

/// A plan that --order and --arena spoil, for its verifier.
void change(plan::Plan& plan, const std::string& order, const std::string& arena) {
  if (!order.empty()) {
    std::vector<plan::Launch> launches;
    for (const std::string& number : names_of(order)) launches.push_back(plan.launches.at(std::stoul(number)));
    plan.launches = std::move(launches);
  }
  for (plan::Buffer& buffer : plan.buffers) {
    if (!arena.empty() && buffer.kind == plan::Buffer::Kind::arena) buffer.offset = std::stol(arena);
  }
}

}  // namespace

std::string plan(const Arguments& arguments) {
  const auto graph = parse_graph(arguments.text, arguments.file, {}, true);
  require_none(verify(*graph, GraphStage::prims), print(*graph));
  const StateLayout layout = layout_of(arguments.flag("state"));
  for (const auto& weight : graph->weights()) {
    if (layout.find(weight->name) == nullptr) weight->tensor = numbers(graph->find_weight(weight->name)->type, 1);
  }
  plan::PlanOptions options;
  options.state = &layout;
  options.scalars = names_of(arguments.flag("scalars"));
  options.first_packed_input = std::stoi(arguments.flag("packed-inputs", "-1"));
  options.first_packed_output = std::stoi(arguments.flag("packed-outputs", "-1"));
  const bool is_packed = options.first_packed_input >= 0 || options.first_packed_output >= 0;
  const double tolerance = std::stod(arguments.flag("tolerance", "0"));
  std::string text;
  for (const auto& target : {schedule::Target::cuda_sm80(), schedule::Target::cpu_v3()}) {
    group::Groups groups = group::form_groups(*graph);
    if (const std::string constants = arguments.flag("constants"); !constants.empty())
      group::mark_constants(groups, &layout, constants == "owned" && target.is_cpu());
    require_none(verify(groups), print(groups));
    plan::Plan plan = plan::plan_groups(groups, target, options);
    change(plan, arguments.flag("order"), arguments.flag("arena"));
    for (std::vector<plan::Launch>* launches : plan::launch_lists(plan)) {
      for (plan::Launch& launch : *launches) launch.cost_ns = 0;  // estimates are no matter of this stage
    }
    text = print(plan);
    require_none(verify(plan), arguments.flag("order").empty() && arguments.flag("arena").empty() ? text : "");
    std::string why;
    if (!equal(plan::parse_plan(text, "plan"), plan, &why)) throw Fault("the plan reads back as another one: " + why + "\n" + text);
    for (const loop::Kernel& kernel : plan.kernels) require_none(loop::verify_kernel(kernel), loop::print(kernel, "k"));
    if (is_packed) continue;
    plan::StateMemory memory = plan::initial_state(layout, {});
    plan::fill_state(memory, layout);
    if (const std::string differences = compare(*graph, plan, options, memory, {tolerance, tolerance}); !differences.empty())
      throw Fault(target.name + ": " + differences + text);
  }
  return text;
}

}  // namespace tcc::stages
